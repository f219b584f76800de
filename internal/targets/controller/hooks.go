package controller

import (
	"maps"
	"slices"
	"sync"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/targets"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// hooks are what this process wrote on pods for their drain hooks and the cache does not show
// yet: statuses may be shown sooner, and what is decided by both would be decided for good where
// the last object that speaks of a pod goes. All of it may be lost.
type hooks struct {
	mu sync.Mutex
	of map[types.UID]hookWritten
}

// hookWritten is what was written on a pod, and the version that it got by that.
type hookWritten struct{ value, version string }

func newHooks() *hooks { return &hooks{of: map[types.UID]hookWritten{}} }

func (h *hooks) wrote(pod types.UID, value, version string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.of[pod] = hookWritten{value, version}
}

// shown puts into a list of pods what was written on them.
func (h *hooks) shown(pods []*corev1.Pod) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i, pod := range pods {
		written, any := h.of[pod.UID]
		switch {
		case !any:
		case older(pod.ResourceVersion, written.version):
			pods[i] = pod.DeepCopy()
			metav1.SetMetaDataAnnotation(&pods[i].ObjectMeta, v1alpha1.AnnotationTargets, written.value)
		default:
			delete(h.of, pod.UID)
		}
	}
}

// keep forgets all pods but those that some TargetGroupAttachment selects.
func (h *hooks) keep(all []targets.GroupAttachment) {
	there := map[types.UID]bool{}
	for i := range all {
		for _, pod := range slices.Concat(all[i].Pods, all[i].Neighbours) {
			there[pod.UID] = true
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	maps.DeleteFunc(h.of, func(uid types.UID, _ hookWritten) bool { return !there[uid] })
}
