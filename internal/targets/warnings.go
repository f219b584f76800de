package targets

import (
	"cmp"
	"strings"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// advice is what there is to warn of in the pods' template, over all groups and all
// templates: one warning, however many pods there are.
type advice struct {
	// known says whether there is a template, and a group, to judge by.
	known bool
	grace Grace
	// settle is for how long a load balancer may send new connections to a pod after its
	// deletion began, end until when it lets open ones go on: the longest of all groups.
	settle, end time.Duration
	// unchecked says why the readiness gate tells nothing, empty where it does or is
	// in no template.
	unchecked string
	// resets is a group that ends the connections of nodes whose health checks fail
	// while they still get some.
	resets string
}

// warn leaves the condition as it is while there is nothing to judge by, such as when
// there is no pod for a moment.
func (p *pass) warn(a *attachment) {
	found := a.advice(p.SettleTimes)
	if !found.known {
		return
	}
	warning := metav1.Condition{
		Type: v1alpha1.ConditionWarning, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonAsExpected, ObservedGeneration: a.Object.Generation,
	}
	var messages []string
	if found.unchecked != "" {
		warning.Reason = v1alpha1.ReasonGateNotChecked
		messages = append(messages, "the readiness gate "+v1alpha1.ReadinessGate(a.Object.Name)+" is always open, because "+found.unchecked+": remove it from the template")
	}
	if short := found.grace.Short(found.settle, found.end); short != "" {
		warning.Reason = v1alpha1.ReasonGraceTooShort
		messages = append(messages, short)
	}
	if found.resets != "" {
		warning.Reason = v1alpha1.ReasonConnectionsReset
		messages = append(messages, "target group "+found.resets+" resets the connections of nodes that turn unhealthy, and a rollout fails their health checks first:"+
			" set failHealthChecks to AfterDetachment, or target_health_state.unhealthy.connection_termination.enabled to false on the group")
	}
	if len(messages) > 0 {
		warning.Status, warning.Message = metav1.ConditionTrue, shortened(strings.Join(messages, "; "))
	}
	p.set(&a.status.Conditions, warning)
}

func (a *attachment) advice(settleTimes map[Balancer]time.Duration) advice {
	found := advice{grace: Grace{Sleep: Endless, Period: Endless}}
	gate := corev1.PodConditionType(v1alpha1.ReadinessGate(a.Object.Name))
	checked := false
	for _, g := range a.taken {
		if !g.part.matches || g.binding != nil || g.ReadAt.IsZero() {
			// Before it is read its attributes are not known.
			continue
		}
		settle := a.settleTime(settleTimes[g.Balancer])
		for _, template := range a.templates() {
			mode, err := ModeOf(template, g.Group, a.Object.Spec.Port, a.Service)
			if err != nil {
				continue
			}
			if a.Set != nil && a.Set.Spec.DrainHook != nil {
				mode.Hook, mode.HookLeaves = true, a.Set.Spec.DrainHook.StopTime()
			}
			found.known, found.grace = true, found.grace.Shorter(mode.GraceOf(template))
			if why := mode.Unchecked(g.Group); why == "" {
				checked = true
			} else if waitsFor(template, gate) {
				found.unchecked = cmp.Or(found.unchecked, why)
			}
		}
		if g.EndsConnectionsOfUnhealthy && g.Type == Instance && a.failsFirst() {
			found.resets = g.Name
		}
		found.settle, found.end = max(found.settle, settle), max(found.end, settle+g.Delay)
	}
	if checked {
		found.unchecked = ""
	}
	return found
}

// failsFirst reports whether a rollout fails the health checks of a node before it is taken
// out of its target groups.
func (a *attachment) failsFirst() bool {
	if a.Set == nil || len(a.Set.Spec.HealthCheckNodePorts) == 0 {
		return false
	}
	s := a.Set.Spec.Strategy()
	return s.Detaching && !s.FailAfterDetachment
}

// templates are what the attachment's pods are made from; none where it selects nodes.
func (a *attachment) templates() []corev1.PodSpec {
	if a.Set != nil {
		return []corev1.PodSpec{a.Set.Spec.Template.Spec}
	}
	var out []corev1.PodSpec
	for _, pod := range a.Pods {
		if _, ends := Ending(pod); !ends {
			out = append(out, pod.Spec)
		}
	}
	return out
}
