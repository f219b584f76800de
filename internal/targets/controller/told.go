package controller

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/targets"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// told are the pods that this process has told that traffic may come to them, and has not begun to
// tell otherwise since. All of them may be lost.
type told struct {
	mu   sync.Mutex
	pods map[types.UID]bool
}

func (t *told) set(uid types.UID, in bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.pods == nil {
		t.pods = map[types.UID]bool{}
	}
	t.pods[uid] = in
}

func (t *told) known() map[types.UID]bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return maps.Clone(t.pods)
}

// keep forgets all pods but some.
func (t *told) keep(there map[types.UID]bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	maps.DeleteFunc(t.pods, func(uid types.UID, _ bool) bool { return !there[uid] })
}

// beginHook begins to write on a pod whether traffic may come to it as a target.
func (r *Reconciler) beginHook(h targets.HookWrite, begin func(targets.Ref, bool, func(context.Context) error)) {
	if !h.In {
		// What is on its way from here on counts, whether or not it is answered.
		r.told.set(h.Pod.UID, false)
	}
	ref := targets.Ref{Kind: targets.KindPod, Namespace: h.Pod.Namespace, Name: h.Pod.Name, UID: h.Pod.UID}
	begin(ref, true, func(ctx context.Context) error { return r.writeHook(ctx, h) })
}

// writeHook writes on a pod whether traffic may come to it as a target, as a call is made: not
// without the lease, since another controller may have registered the pod's target since this was
// decided, or have taken it out. It is let go only as it was seen, and each write changes the pod: a
// request that hangs is refused when the pod was told otherwise, or the same once more, before it arrives.
func (r *Reconciler) writeHook(ctx context.Context, h targets.HookWrite) error {
	if !r.leads() {
		return errNotLeading
	}
	value, metadata := v1alpha1.TargetsIn, map[string]any{"uid": h.Pod.UID}
	if !h.In {
		value, metadata["resourceVersion"] = v1alpha1.TargetsOut, h.Pod.ResourceVersion
	}
	metadata["annotations"] = map[string]string{
		v1alpha1.AnnotationTargets: value, v1alpha1.AnnotationTold: time.Now().UTC().Format(time.RFC3339Nano),
	}
	patch, err := json.Marshal(map[string]any{"metadata": metadata})
	if err != nil {
		return fmt.Errorf("encoding a patch: %w", err)
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: h.Pod.Namespace, Name: h.Pod.Name}}
	if err := r.client.Patch(ctx, pod, client.RawPatch(types.MergePatchType, patch), client.FieldOwner(FieldManager)); err != nil {
		return fmt.Errorf("telling the drain hook: %w", err)
	}
	r.answers.wrote(pod)
	reason := "it may get traffic as a target"
	if !h.In {
		reason = "no traffic comes to it as a target any more"
	}
	logStep(ctx, "TellHook", reason, "pod", objectOf(pod), "node", h.Pod.Spec.NodeName)
	if h.In {
		r.told.set(h.Pod.UID, true)
	}
	return nil
}
