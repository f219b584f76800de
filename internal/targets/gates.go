package targets

import (
	"slices"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// tellGates finds the readiness gates of an attachment's pods that are to say something
// else than they do.
func (p *pass) tellGates(a *attachment) {
	kind := corev1.PodConditionType(v1alpha1.ReadinessGate(a.Object.Name))
	for _, pod := range a.Pods {
		if _, ends := Ending(pod); ends || !waitsFor(pod.Spec, kind) {
			continue
		}
		condition, ok := p.gateOf(a, pod).Condition(kind, conditionOf(pod, kind))
		if !ok {
			continue
		}
		if condition.LastTransitionTime.IsZero() {
			condition.LastTransitionTime = metav1.NewTime(p.Now)
		}
		a.gates = true
		p.out.Gates = append(p.out.Gates, GateWrite{pod, condition})
	}
}

// gateOf is what the gate of one of the attachment's pods has to say.
func (p *pass) gateOf(a *attachment, pod *corev1.Pod) Gate {
	if a.Object.DeletionTimestamp != nil {
		return Gate{Status: corev1.ConditionTrue, Reason: GateReleased, Message: "its TargetGroupAttachment is deleted"}
	}
	if why, out := p.leaves[pod.Spec.NodeName]; out {
		return Gate{Status: corev1.ConditionTrue, Reason: GateNodeDetached, Message: why}
	}
	var places []Place
	for _, in := range a.taken {
		if in.part.matches {
			places = append(places, p.placeOfPod(in.group, in.part, pod))
		}
	}
	return GateOf(places)
}

// placeOfPod is what is known of a pod's target in the group.
func (p *pass) placeOfPod(g *group, t *part, pod *corev1.Pod) Place {
	if g.binding != nil {
		return Place{Unchecked: g.binding.refusal(g.Group)}
	}
	at := Place{Group: g.Name}
	mode, err := t.mode(pod, g.Group)
	if err != nil || g.unreadable != "" {
		return at
	}
	at.Unchecked = mode.Unchecked(g.Group)
	wants, skipped := mode.PodWants(Fleet{Pods: []*corev1.Pod{pod}, Nodes: p.nodes})
	switch {
	case len(skipped) > 0, len(wants) > 0 && t.isLeft(g.target(wants[0].Target)):
		at.Report.Phase = Refused
	case len(wants) > 0 && t.admission.why != "" && !g.heldBy(g.target(wants[0].Target), t.ref):
		if !t.admission.unread {
			at.Report.Phase = Refused
		}
	case len(wants) > 0 && !g.ReadAt.IsZero():
		at.Report = g.report(g.target(wants[0].Target))
	}
	return at
}

// isLeft reports whether a target is not registered because the status of its object has no room for it.
func (t *part) isLeft(target Target) bool {
	return t.left[target] || t.full != "" && t.left == nil
}

func waitsFor(spec corev1.PodSpec, kind corev1.PodConditionType) bool {
	return slices.Contains(spec.ReadinessGates, corev1.PodReadinessGate{ConditionType: kind})
}

func conditionOf(pod *corev1.Pod, kind corev1.PodConditionType) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == kind {
			return &pod.Status.Conditions[i]
		}
	}
	return nil
}
