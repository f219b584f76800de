package controller

import (
	"cmp"
	"strings"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/targets"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// advice is what there is to warn of in the pods' template, over all groups and all
// templates: one warning, however many pods there are.
type advice struct {
	// known is whether there is a template, and a group, to judge by.
	known bool
	grace targets.Grace
	// floor is for how long a load balancer may send new connections to a pod after its
	// deletion began, end until when it lets open ones go on: the longest of all groups.
	floor, end time.Duration
	// unchecked says why the readiness gate tells nothing, empty where it does or is
	// in no template.
	unchecked string
	// resets is a group that ends the connections of nodes whose health checks fail
	// while they still get some.
	resets string
}

// setWarning leaves the condition as it is while there is nothing to judge by, such as
// when there is no pod for a moment.
func (c *claim) setWarning(now time.Time, shares []*share) {
	a := c.advice(c.matching(shares))
	if !a.known {
		return
	}
	warning := metav1.Condition{
		Type: v1alpha1.ConditionWarning, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonAsExpected, ObservedGeneration: c.object.Generation,
	}
	var messages []string
	if a.unchecked != "" {
		warning.Reason = v1alpha1.ReasonGateNotChecked
		messages = append(messages, "the readiness gate "+v1alpha1.ReadinessGate(c.object.Name)+" is always open, because "+a.unchecked+": remove it from the template")
	}
	if short := a.grace.Short(a.floor, a.end); short != "" {
		warning.Reason = v1alpha1.ReasonGraceTooShort
		messages = append(messages, short)
	}
	if a.resets != "" {
		warning.Reason = v1alpha1.ReasonConnectionsReset
		messages = append(messages, "target group "+a.resets+" resets the connections of nodes that turn unhealthy, and a rollout fails their health checks first:"+
			" set failHealthChecks to AfterDetachment, or target_health_state.unhealthy.connection_termination.enabled to false on the group")
	}
	if len(messages) > 0 {
		warning.Status, warning.Message = metav1.ConditionTrue, shortened(strings.Join(messages, "; "))
	}
	set(&c.status.Conditions, warning, now)
}

func (c *claim) advice(shares []*share) advice {
	a := advice{grace: targets.Grace{Sleep: targets.Endless, Period: targets.Endless}}
	gate := corev1.PodConditionType(v1alpha1.ReadinessGate(c.object.Name))
	checked := false
	for _, s := range shares {
		g, floor := s.state.Group, s.state.Floor
		for _, template := range c.templates() {
			mode, err := c.mode(template, g)
			if err != nil {
				continue
			}
			a.known, a.grace = true, a.grace.Shorter(mode.GraceOf(template))
			if why := mode.Unchecked(g); why == "" {
				checked = true
			} else if waitsFor(&corev1.Pod{Spec: template}, gate) {
				a.unchecked = cmp.Or(a.unchecked, why)
			}
		}
		if g.EndsFlowsOfUnhealthy && g.Type == targets.Instance && c.failsFirst() {
			a.resets = g.Name
		}
		a.floor, a.end = max(a.floor, floor), max(a.end, floor+g.Delay)
	}
	if checked {
		a.unchecked = ""
	}
	return a
}

// failsFirst is whether a rollout fails the health checks of a node before it is taken
// out of its target groups.
func (c *claim) failsFirst() bool {
	if c.set == nil || len(c.set.Spec.HealthCheckNodePorts) == 0 {
		return false
	}
	s := c.set.Spec.Strategy()
	return s.Detaching && !s.FailAfterDetachment
}

// templates are what the claim's pods are made from; none where it selects nodes.
func (c *claim) templates() []corev1.PodSpec {
	if c.set != nil {
		return []corev1.PodSpec{c.set.Spec.Template.Spec}
	}
	var out []corev1.PodSpec
	for _, pod := range c.pods {
		if _, ends := targets.Ending(pod); !ends {
			out = append(out, pod.Spec)
		}
	}
	return out
}
