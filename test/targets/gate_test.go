package targets

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/test/aws"
)

// TestReadinessGate follows the gate of a pod: closed until its target is healthy,
// closed again when it is not any more, and open when the TargetGroupAttachment goes.
// What the pod's template lacks is warned of once.
func TestReadinessGate(t *testing.T) {
	const address = "10.200.0.1"
	f := newFixture(t, "ip")
	a := f.attach(v1alpha1.TargetGroupAttachmentSpec{
		TargetType: "ip", Port: intstr.FromInt32(8080), PodSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": f.group}},
	})
	// Simulated kubelets open every gate, so that this pod has none.
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: f.group, Labels: map[string]string{"app": f.group}},
		Spec: corev1.PodSpec{
			SchedulerName: "nobody", Containers: []corev1.Container{{Name: "proxy", Image: "proxy"}},
			ReadinessGates: []corev1.PodReadinessGate{{ConditionType: corev1.PodConditionType(v1alpha1.ReadinessGate(a.Name))}},
		},
	}
	f.must(api.Create(t.Context(), pod))
	f.gate(pod, corev1.ConditionFalse, "TargetUnknown")
	patch := client.MergeFrom(pod.DeepCopy())
	pod.Status.PodIP, pod.Status.PodIPs = address, []corev1.PodIP{{IP: address}}
	f.must(api.Status().Patch(t.Context(), pod, patch))
	f.gate(pod, corev1.ConditionFalse, "Registering")
	f.gate(pod, corev1.ConditionTrue, "TargetsHealthy")
	f.judge(address, "unhealthy")
	f.gate(pod, corev1.ConditionFalse, "TargetUnhealthy")

	f.eventually("the warning", func(ctx context.Context) error {
		if err := api.Get(ctx, client.ObjectKeyFromObject(a), a); err != nil {
			return err
		}
		warning := meta.FindStatusCondition(a.Status.Conditions, v1alpha1.ConditionWarning)
		if warning == nil || warning.Status != metav1.ConditionTrue || warning.Reason != v1alpha1.ReasonGraceTooShort {
			return fmt.Errorf("%+v", warning)
		}
		var events eventsv1.EventList
		if err := api.List(ctx, &events, client.InNamespace("default")); err != nil {
			return err
		}
		found := 0
		for _, e := range events.Items {
			if e.Regarding.Name == a.Name && e.Reason == warning.Reason && e.Note == warning.Message {
				found++
			}
		}
		if found != 1 {
			return fmt.Errorf("%d events", found)
		}
		return nil
	})

	f.removed(a)
	f.must(api.Get(t.Context(), client.ObjectKeyFromObject(pod), pod))
	if got := gateOf(pod); got != "True AttachmentDeleted" {
		t.Errorf("the gate is %s when the TargetGroupAttachment is gone", got)
	}
	f.removed(pod)
}

// gate waits until the pod's condition is as wanted.
func (f *fixture) gate(pod *corev1.Pod, status corev1.ConditionStatus, reason string) {
	f.Helper()
	want := string(status) + " " + reason
	f.eventually("the gate "+want, func(ctx context.Context) error {
		if err := api.Get(ctx, client.ObjectKeyFromObject(pod), pod); err != nil {
			return err
		}
		if got := gateOf(pod); got != want {
			return fmt.Errorf("it is %s", got)
		}
		return nil
	})
}

func gateOf(pod *corev1.Pod) string {
	for _, c := range pod.Status.Conditions {
		if c.Type == pod.Spec.ReadinessGates[0].ConditionType {
			return string(c.Status) + " " + c.Reason
		}
	}
	return "not there"
}

func (f *fixture) judge(id, state string) {
	f.Helper()
	f.must(admin.Judge(f.Context(), aws.Verdict{Group: f.group, ID: id, Port: 8080, State: state}))
}
