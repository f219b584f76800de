package harness

import (
	"context"
	"fmt"
	"sync"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// FailedPods are the pods of a fleet that ever were Failed, also those that were
// deleted since.
type FailedPods struct {
	mu   sync.Mutex
	pods map[types.UID]string
}

// WatchFailed begins to watch for pods that fail, until ctx is over.
func (f *Fleet) WatchFailed(ctx context.Context) *FailedPods {
	seen := &FailedPods{pods: map[types.UID]string{}}
	go f.observe(ctx, &corev1.PodList{}, func(object client.Object) {
		if pod, ok := object.(*corev1.Pod); ok && pod.Labels[v1alpha1.LabelNode] != "" && failed(pod) {
			seen.add(pod)
		}
	})
	return seen
}

// failed reports whether the pod failed on its own. One that is deleted ends as
// Failed too where its proxy does not exit with 0 at its stop signal.
func failed(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodFailed && pod.DeletionTimestamp == nil
}

func (s *FailedPods) add(pod *corev1.Pod) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pods[pod.UID] = fmt.Sprintf("%s: %s %s", pod.Name, pod.Status.Reason, pod.Status.Message)
}

// Count is how many failed so far, with one of them as an example.
func (s *FailedPods) Count() (count int, example string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, example = range s.pods {
		break
	}
	return len(s.pods), example
}
