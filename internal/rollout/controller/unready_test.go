package controller

import (
	"slices"
	"testing"

	"github.com/mumoshu/ingress-daemonset-controller/internal/rollout/objects"
	corev1 "k8s.io/api/core/v1"
)

// TestWhyAPodIsNotReadyIsKept: the caches keep of pods that are not ready what says why, and of those
// that are nothing of it.
func TestWhyAPodIsNotReadyIsKept(t *testing.T) {
	waits := corev1.ContainerStatus{Name: "proxy", ImageID: "sha256:0", State: corev1.ContainerState{
		Waiting: &corev1.ContainerStateWaiting{Reason: "ErrImagePull", Message: "not found"},
	}}
	for name, c := range map[string]struct {
		status corev1.PodStatus
		want   string
	}{
		"waits":                {corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{waits}}, "container proxy waits: ErrImagePull: not found"},
		"waits, before others": {corev1.PodStatus{InitContainerStatuses: []corev1.ContainerStatus{waits}}, "init container proxy waits: ErrImagePull: not found"},
		"not scheduled": {corev1.PodStatus{Conditions: []corev1.PodCondition{
			{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: "0/1 nodes are available"},
		}}, "it is not scheduled: Unschedulable: 0/1 nodes are available"},
		"ready": {corev1.PodStatus{
			ContainerStatuses: []corev1.ContainerStatus{{Name: "proxy", Ready: true, ImageID: "sha256:0"}},
			Conditions:        []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue}, {Type: corev1.PodReady, Status: corev1.ConditionTrue}},
		}, ""},
	} {
		pod := &corev1.Pod{Status: c.status}
		for range 2 {
			if _, err := transformPod(pod); err != nil {
				t.Fatal(err)
			}
			if got := objects.Unready(pod, nil); got != c.want {
				t.Errorf("%s: %q, want %q", name, got, c.want)
			}
			kept := slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses)
			useless := slices.ContainsFunc(kept, func(c corev1.ContainerStatus) bool { return c.ImageID != "" })
			if c.want == "" && len(kept) > 0 || len(pod.Status.Conditions) > 1 || useless {
				t.Errorf("%s: it keeps %+v", name, pod.Status)
			}
		}
	}
}
