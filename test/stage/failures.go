package stage

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

// WatchFailed begins to watch for pods that fail, until ctx is over. When the
// API server goes away the watch is opened again.
func (f *Fleet) WatchFailed(ctx context.Context) *FailedPods {
	seen := &FailedPods{pods: map[types.UID]string{}}
	go func() {
		for ctx.Err() == nil {
			_ = Wait(ctx, "the watch to be opened", func() (bool, error) { return true, f.watchFailed(ctx, seen) })
		}
	}()
	return seen
}

func (f *Fleet) watchFailed(ctx context.Context, seen *FailedPods) error {
	w, err := f.Watch(ctx, &corev1.PodList{}, client.InNamespace(f.Key.Namespace),
		client.MatchingLabels{v1alpha1.LabelName: f.Key.Name}, client.HasLabels{v1alpha1.LabelNode})
	if err != nil {
		return err
	}
	defer w.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case event, open := <-w.ResultChan():
			if !open {
				return nil
			}
			if pod, ok := event.Object.(*corev1.Pod); ok && failed(pod) {
				seen.add(pod)
			}
		}
	}
}

// failed is whether the pod failed on its own. One that is deleted ends as
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
