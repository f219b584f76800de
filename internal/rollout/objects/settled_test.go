package objects

import (
	"maps"
	"testing"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestCheckersSettled: each port of a node is answered by one health checker, of the newest template: of two
// that answer in turns either may be the one that has not seen a mark.
func TestCheckersSettled(t *testing.T) {
	set := &v1alpha1.IngressDaemonSet{ObjectMeta: metav1.ObjectMeta{Name: "proxy"}, Spec: v1alpha1.IngressDaemonSetSpec{HealthCheckNodePorts: []int32{10080, 10081}}}
	checkers := map[int32]*appsv1.DaemonSet{10080: Checker(set, 10080, "image"), 10081: Checker(set, 10081, "image")}
	pod := func(port int32, changes ...func(*corev1.Pod)) *corev1.Pod {
		p := &corev1.Pod{}
		p.Labels = maps.Clone(checkers[port].Spec.Template.Labels)
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		for _, change := range changes {
			change(p)
		}
		return p
	}
	for name, c := range map[string]struct {
		pods []*corev1.Pod
		want bool
	}{
		"one each":             {[]*corev1.Pod{pod(10080), pod(10081)}, true},
		"none":                 {nil, false},
		"none of one port":     {[]*corev1.Pod{pod(10080)}, false},
		"two of one port":      {[]*corev1.Pod{pod(10080), pod(10080), pod(10081)}, false},
		"one is not ready":     {[]*corev1.Pod{pod(10080, func(p *corev1.Pod) { p.Status.Conditions = nil }), pod(10081)}, false},
		"one ends":             {[]*corev1.Pod{pod(10080, func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{} }), pod(10081)}, false},
		"one is older":         {[]*corev1.Pod{pod(10080, func(p *corev1.Pod) { p.Labels[v1alpha1.LabelHealthCheckerRevision] = "older" }), pod(10081)}, false},
		"an older one is left": {[]*corev1.Pod{pod(10080), pod(10081), pod(10081, func(p *corev1.Pod) { p.Labels[v1alpha1.LabelHealthCheckerRevision] = "older" })}, false},
	} {
		if got := CheckersSettled(set, checkers, c.pods); got != c.want {
			t.Errorf("%s: %t, want %t", name, got, c.want)
		}
	}
	if delete(checkers, 10081); CheckersSettled(set, checkers, []*corev1.Pod{pod(10080)}) {
		t.Error("a port without a DaemonSet is settled")
	}
}
