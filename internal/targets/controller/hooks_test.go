package controller

import (
	"testing"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/targets"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
)

func hookedPod(name, address string, ends bool) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name)},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Ports:     []corev1.ContainerPort{{ContainerPort: 80}},
			Lifecycle: &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{HTTPGet: &corev1.HTTPGetAction{Path: v1alpha1.DrainPath}}},
		}}},
		Status: corev1.PodStatus{PodIP: address, PodIPs: []corev1.PodIP{{IP: address}}},
	}
	if ends {
		at := metav1.NewTime(now)
		p.DeletionTimestamp = &at
	}
	return p
}

// TestHooksLearnWhetherTrafficComes goes by each pod's target: one that others of the
// node keep in does not hold a pod that ends.
func TestHooksLearnWhetherTrafficComes(t *testing.T) {
	for name, c := range map[string]struct {
		pods       []*corev1.Pod
		registered []string
		deleted    bool
		want       []bool
	}{
		"a pod that has an address":            {[]*corev1.Pod{hookedPod("a", "10.0.0.1", false)}, nil, false, []bool{true}},
		"a pod that ends":                      {[]*corev1.Pod{hookedPod("a", "10.0.0.1", true)}, []string{"10.0.0.1", "10.0.0.2"}, false, []bool{true}},
		"a pod that ended out of the group":    {[]*corev1.Pod{hookedPod("a", "10.0.0.1", true)}, []string{"10.0.0.2"}, false, []bool{false}},
		"two pods share an address, one ends":  {[]*corev1.Pod{hookedPod("a", "10.0.0.1", true), hookedPod("b", "10.0.0.1", false)}, []string{"10.0.0.1"}, false, []bool{false, true}},
		"two pods share an address, both end":  {[]*corev1.Pod{hookedPod("a", "10.0.0.1", true), hookedPod("b", "10.0.0.1", true)}, []string{"10.0.0.1"}, false, []bool{true, true}},
		"the TargetGroupAttachment is deleted": {[]*corev1.Pod{hookedPod("a", "10.0.0.1", false)}, []string{"10.0.0.1"}, true, []bool{true}},
		"it is deleted, and nothing is left":   {[]*corev1.Pod{hookedPod("a", "10.0.0.1", false)}, nil, true, []bool{false}},
	} {
		a := &v1alpha1.TargetGroupAttachment{Spec: v1alpha1.TargetGroupAttachmentSpec{
			TargetGroup: v1alpha1.TargetGroupSelector{Name: "web"}, TargetType: "ip", Port: intstr.FromInt32(80), PodSelector: &metav1.LabelSelector{},
		}}
		if c.deleted {
			at := metav1.NewTime(now)
			a.DeletionTimestamp = &at
		}
		claim := &claim{object: a, pods: c.pods}
		var owned []string
		for _, id := range c.registered {
			owned = append(owned, id+":80")
		}
		claim.status.Groups = []v1alpha1.AttachedGroup{{ID: "arn:web", Targets: owned}}
		s := shared(group(targets.IP), healthy(c.registered...))
		s.join(claim, nil, nil)
		s.decide(nil)
		if len(s.hooked) != len(c.want) {
			t.Errorf("%s: %d pods have a hook", name, len(s.hooked))
			continue
		}
		for i, h := range s.hooked {
			if got := s.reaches(h); got != c.want[i] {
				t.Errorf("%s: traffic comes to pod %s: %t", name, h.pod.Name, got)
			}
		}
	}
	plain := hookedPod("a", "10.0.0.1", false)
	plain.Spec.Containers[0].Lifecycle.PreStop.HTTPGet.Path = "/stop"
	s := shared(group(targets.IP), nil)
	s.hook(nil, []want{{pod: plain}}, false)
	if len(s.hooked) != 0 {
		t.Error("a pod with a hook of its own is told")
	}
}
