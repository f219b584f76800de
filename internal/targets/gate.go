package targets

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// Gate is what the readiness gate of a pod has to say: whether its targets take traffic.
type Gate struct {
	// Status is Unknown where nothing can be said.
	Status corev1.ConditionStatus
	Reason string
	// Message is a sentence for a person.
	Message string
}

// Reasons of gates.
const (
	// GateTargetsHealthy: the target takes traffic in every group that checks the pod.
	GateTargetsHealthy = "TargetsHealthy"
	// GateRegistering: it is on its way into a group.
	GateRegistering = "Registering"
	// GateTargetUnhealthy: a load balancer sends no traffic to it.
	GateTargetUnhealthy = "TargetUnhealthy"
	// GateTargetRefused: a group cannot hold it.
	GateTargetRefused = "TargetRefused"
	// GateTargetUnknown: a group was not read yet, or the pod has no address.
	GateTargetUnknown = "TargetUnknown"
	// GateNodeDetached: the pod's node is out of its load balancers. A pod that waited
	// for its target would keep the rollout waiting that took the node out.
	GateNodeDetached = "NodeDetached"
	// GateNotChecked: no group's health says anything of the pod.
	GateNotChecked = "NotChecked"
	// GateReleased: the gate's TargetGroupAttachment is deleted.
	GateReleased = "AttachmentDeleted"
)

// Place is what is known in one group of a pod's target.
type Place struct {
	// Group is its name.
	Group string
	// Unchecked says why the target's health says nothing of the pod; see Mode.Unchecked.
	Unchecked string
	// Report is about the target, empty where nothing is known.
	Report Report
}

// GateOf joins what is known in all groups. A group that sends no traffic closes the
// gate, and one of which nothing is known leaves it as it is. Where no group says
// anything of the pod it is open, so that none waits for ever.
func GateOf(places []Place) Gate {
	if len(places) == 0 {
		return Gate{corev1.ConditionUnknown, GateTargetUnknown, "no target group is known"}
	}
	gates := make([]Gate, len(places))
	for i, p := range places {
		gates[i] = p.gate()
	}
	return slices.MinFunc(gates, func(a, b Gate) int { return cmp.Compare(a.weight(), b.weight()) })
}

// weight orders gates: what is less outweighs what is more.
func (g Gate) weight() int {
	switch {
	case g.Status == corev1.ConditionFalse:
		return 0
	case g.Status == corev1.ConditionUnknown:
		return 1
	case g.Reason == GateNotChecked:
		return 3
	}
	return 2
}

func (p Place) gate() Gate {
	if p.Unchecked != "" {
		return Gate{corev1.ConditionTrue, GateNotChecked, p.Unchecked}
	}
	switch p.Report.Phase {
	case Attached:
		return Gate{corev1.ConditionTrue, GateTargetsHealthy, "the pod's target takes traffic in every target group"}
	case Registering:
		return Gate{corev1.ConditionFalse, GateRegistering, fmt.Sprintf("target group %s: the pod is being registered, or its first health checks are under way", p.Group)}
	case Failing:
		return Gate{corev1.ConditionFalse, GateTargetUnhealthy, fmt.Sprintf("target group %s: %s", p.Group, p.Report.Message)}
	case Refused:
		return Gate{corev1.ConditionFalse, GateTargetRefused, fmt.Sprintf("target group %s does not accept the pod: the condition Blocked of the TargetGroupAttachment says why", p.Group)}
	}
	return Gate{corev1.ConditionUnknown, GateTargetUnknown, fmt.Sprintf("target group %s: nothing is known of the pod's target yet", p.Group)}
}

// Unchecked says why the health of the pods' targets says nothing of a pod, or nothing.
// An address of the pod's own is checked in the pod, at whatever port. That of a node
// may be checked at the health checker, which itself waits until the pods are ready.
func (m Mode) Unchecked(g Group) string {
	switch {
	case g.Type != IP:
		return fmt.Sprintf("the targets of target group %s are instances, whose health says nothing of a single pod", g.Name)
	case m.PerNode && !g.ChecksTarget:
		return fmt.Sprintf("the health checks of target group %s go to another port of the node than that of the pod", g.Name)
	}
	return ""
}

// Condition is what to write on a pod that has another one, or none, which is
// nil; there is nothing to write where ok is false. A pod that passes is not held back
// again while it is on its way into a group, such as one that was tagged a moment ago,
// nor because nothing is known; but one that passed because its node was out is.
func (g Gate) Condition(kind corev1.PodConditionType, has *corev1.PodCondition) (c corev1.PodCondition, ok bool) {
	passes := has != nil && has.Status == corev1.ConditionTrue
	switch {
	case has != nil && g.Status == corev1.ConditionUnknown,
		passes && has.Reason != GateNodeDetached && (g.Reason == GateRegistering || g.Reason == GateTargetRefused):
		return corev1.PodCondition{}, false
	case g.Status == corev1.ConditionUnknown:
		g.Status = corev1.ConditionFalse
	}
	c = corev1.PodCondition{Type: kind, Status: g.Status, Reason: g.Reason, Message: g.Message}
	if has == nil {
		return c, true
	}
	if c.Status == has.Status {
		c.LastTransitionTime = has.LastTransitionTime
	}
	return c, c.Status != has.Status || c.Reason != has.Reason || c.Message != has.Message
}
