package controller

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/targets"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// hasDrainHook is whether a container of the pod asks the node's health checker
// before it stops, so that the pod serves until its target is out.
func hasDrainHook(spec corev1.PodSpec) bool {
	return slices.ContainsFunc(spec.Containers, func(c corev1.Container) bool {
		return c.Lifecycle != nil && c.Lifecycle.PreStop != nil && c.Lifecycle.PreStop.HTTPGet != nil &&
			c.Lifecycle.PreStop.HTTPGet.Path == v1alpha1.DrainPath
	})
}

// hooked is a pod with a drain hook and its target in a group.
type hooked struct {
	pod    *corev1.Pod
	claim  *claim
	target targets.Target
	in     bool
}

// hook takes note of the pods of wants that have a drain hook; none of them is to
// get traffic any more where leaving.
func (s *share) hook(c *claim, wants []want, leaving bool) {
	for _, w := range wants {
		if w.pod != nil && hasDrainHook(w.pod.Spec) {
			s.hooked = append(s.hooked, hooked{pod: w.pod, claim: c, target: w.Target, in: w.In && !leaving})
		}
	}
}

// reaches is whether traffic may come to the pod by its target. It may not for its
// own sake where others keep a target in that they share.
func (s *share) reaches(h hooked) bool {
	if h.in {
		return true
	}
	for _, w := range s.state.Wants {
		if w.Target == h.target && w.In {
			return false
		}
	}
	for _, r := range s.decision.Reports {
		if r.Target == h.target {
			return r.Phase != targets.Stopped && r.Phase != targets.Absent && r.Phase != targets.Foreign
		}
	}
	return false
}

// tellHooks writes on pods with a drain hook whether they may get traffic as targets:
// that they may before they are registered, and that they may not once it is so. It
// returns what failed for whom.
func (r *Reconciler) tellHooks(ctx context.Context, shares []*share) map[*claim]error {
	reached := map[types.UID]bool{}
	for _, s := range shares {
		for _, h := range s.hooked {
			reached[h.pod.UID] = reached[h.pod.UID] || s.reaches(h)
		}
	}
	failed := map[*claim]error{}
	var mu sync.Mutex
	var writes errgroup.Group
	writes.SetLimit(16)
	done := map[types.UID]bool{}
	for _, s := range shares {
		for _, h := range s.hooked {
			if in := reached[h.pod.UID]; !done[h.pod.UID] && told(h.pod) != in {
				done[h.pod.UID] = true
				writes.Go(func() error {
					if err := r.tellHook(ctx, h.pod, in); err != nil {
						mu.Lock()
						defer mu.Unlock()
						failed[h.claim] = errors.Join(failed[h.claim], err)
					}
					return nil
				})
			}
		}
	}
	_ = writes.Wait()
	return failed
}

// told is whether it stands on the pod that it may get traffic as a target.
func told(pod *corev1.Pod) bool {
	return pod.Annotations[v1alpha1.AnnotationTargets] == v1alpha1.TargetsIn
}

func (r *Reconciler) tellHook(ctx context.Context, pod *corev1.Pod, in bool) error {
	value := v1alpha1.TargetsOut
	if in {
		value = v1alpha1.TargetsIn
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": pod.UID, "annotations": map[string]string{v1alpha1.AnnotationTargets: value},
	}})
	if err != nil {
		return fmt.Errorf("encoding a patch: %w", err)
	}
	err = r.client.Patch(ctx, pod.DeepCopy(), client.RawPatch(types.MergePatchType, patch), client.FieldOwner(FieldManager))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("telling the drain hook of pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return nil
}
