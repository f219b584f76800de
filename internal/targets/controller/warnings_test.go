package controller

import (
	"testing"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/targets"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

const (
	stopsEarly = "a load balancer may send new connections to a pod for 1m0s after its deletion began, and lets open ones go on for another 30s, but " +
		"the container that serves is stopped after 0s: give it a preStop hook that sleeps, lifecycle.preStop.sleep.seconds: 60"
	killedEarly = ", and the pod is killed after 30s: set terminationGracePeriodSeconds to 90"
	alwaysOpen  = "the readiness gate " + webGate + " is always open, because the targets of target group web are instances, whose health says nothing of a single pod: remove it from the template"
)

// lasting is a pod that outlasts its load balancer.
func lasting(p *corev1.PodSpec) {
	p.TerminationGracePeriodSeconds = new(int64(90))
	p.Containers = []corev1.Container{{Lifecycle: &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: 60}}}}}
}

func TestWarnings(t *testing.T) {
	before := []metav1.Condition{{Type: v1alpha1.ConditionWarning, Status: metav1.ConditionTrue, Reason: "Before", Message: "before"}}
	for name, c := range map[string]struct {
		change  func(*claim)
		reason  string
		message string
	}{
		"pods that end at once": {func(*claim) {}, "GraceTooShort", stopsEarly + killedEarly},
		"one of them":           {func(c *claim) { lasting(&c.pods[0].Spec) }, "GraceTooShort", stopsEarly + killedEarly},
		"none of them":          {func(c *claim) { lasting(&c.pods[0].Spec); lasting(&c.pods[1].Spec) }, "AsExpected", ""},
		"one of them goes": {func(c *claim) {
			lasting(&c.pods[0].Spec)
			c.pods[1].DeletionTimestamp = &metav1.Time{Time: now}
		}, "AsExpected", ""},
		"killed": {func(c *claim) {
			lasting(&c.pods[0].Spec)
			lasting(&c.pods[1].Spec)
			c.pods[1].Spec.Containers[0].Lifecycle.PreStop.Sleep.Seconds = 1
			c.pods[1].Spec.TerminationGracePeriodSeconds = nil
		}, "GraceTooShort", "a load balancer may send new connections to a pod for 1m0s after its deletion began, and lets open ones go on for another 30s, but " +
			"the container that serves is stopped after 1s: give it a preStop hook that sleeps, lifecycle.preStop.sleep.seconds: 60" + killedEarly},
		"no pod at present": {func(c *claim) { c.pods = nil }, "Before", "before"},
		"no group":          {func(c *claim) { c.object.Spec.TargetGroup.Name = "other" }, "Before", "before"},
		"a set with a drain hook": {func(c *claim) {
			c.set = &v1alpha1.IngressDaemonSet{}
			c.set.Spec.DrainHook = &v1alpha1.DrainHook{}
		}, "GraceTooShort", "a load balancer may send new connections to a pod for 1m0s after its deletion began, and lets open ones go on for another 30s, but " +
			"the pod is killed after 30s, of which its drain hook leaves it the last 10s: set terminationGracePeriodSeconds to 100"},
		"a set's template, not its pods": {func(c *claim) {
			c.set = &v1alpha1.IngressDaemonSet{}
			lasting(&c.set.Spec.Template.Spec)
		}, "AsExpected", ""},
	} {
		claim := podClaim(map[string]string{"a": "10.0.0.1", "b": "10.0.0.2"})
		claim.status.Conditions = append([]metav1.Condition{}, before...)
		c.change(claim)
		check(t, name, claim, targets.IP, c.reason, c.message)
	}
	instances := podClaim(map[string]string{"a": "10.0.0.1"})
	instances.object.Spec.TargetType = "instance"
	instances.pods[0].Spec.HostNetwork = true
	check(t, "instances", instances, targets.Instance, "GraceTooShort", alwaysOpen+"; "+stopsEarly+killedEarly)
	lasting(&instances.pods[0].Spec)
	check(t, "instances", instances, targets.Instance, "GateNotChecked", alwaysOpen)
	instances.pods[0].Spec.ReadinessGates = nil
	check(t, "no gate", instances, targets.Instance, "AsExpected", "")
}

func check(t *testing.T, name string, c *claim, kind targets.TargetType, reason, message string) {
	t.Helper()
	g := group(kind)
	g.Delay = 30 * time.Second
	s := shared(g, nil)
	s.join(c, nil, nil)
	s.decide(nil)
	c.tell(now, []*share{s})
	got := meta.FindStatusCondition(c.status.Conditions, v1alpha1.ConditionWarning)
	if got.Reason != reason || got.Message != message || (got.Status == metav1.ConditionTrue) != (message != "") {
		t.Errorf("%s: %+v", name, got)
	}
}

// TestNodesThatAreResetAreWarnedOf asks for another order of a rollout where turning
// unhealthy ends what is open, and only there.
func TestNodesThatAreResetAreWarnedOf(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*v1alpha1.IngressDaemonSetSpec, *targets.Group)
		warns  bool
	}{
		"checks fail first": {func(*v1alpha1.IngressDaemonSetSpec, *targets.Group) {}, true},
		"checks fail last": {func(s *v1alpha1.IngressDaemonSetSpec, _ *targets.Group) {
			s.UpdateStrategy.RollingUpdate.FailHealthChecks = v1alpha1.FailAfterDetachment
		}, false},
		"nothing is reset":        {func(_ *v1alpha1.IngressDaemonSetSpec, g *targets.Group) { g.EndsFlowsOfUnhealthy = false }, false},
		"nobody answers checks":   {func(s *v1alpha1.IngressDaemonSetSpec, _ *targets.Group) { s.HealthCheckNodePorts = nil }, false},
		"nodes are not taken out": {func(s *v1alpha1.IngressDaemonSetSpec, _ *targets.Group) { s.UpdateStrategy.RollingUpdate = nil }, false},
	} {
		claim := podClaim(nil)
		claim.object.Spec.TargetType = "instance"
		claim.set = &v1alpha1.IngressDaemonSet{}
		spec := &claim.set.Spec
		lasting(&spec.Template.Spec)
		spec.Template.Spec.HostNetwork, spec.HealthCheckNodePorts = true, []int32{10080}
		spec.UpdateStrategy.RollingUpdate = &v1alpha1.RollingUpdate{MaxUnavailableNodes: new(intstr.FromInt32(1))}
		g := group(targets.Instance)
		g.EndsFlowsOfUnhealthy = true
		c.change(spec, &g)
		s := shared(g, nil)
		s.join(claim, nil, nil)
		claim.tell(now, []*share{s})
		got := meta.FindStatusCondition(claim.status.Conditions, v1alpha1.ConditionWarning)
		if warned := got.Reason == v1alpha1.ReasonConnectionsReset; warned != c.warns {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// TestAGateThatOneGroupOpensIsNotWarnedOf: it says something.
func TestAGateThatOneGroupOpensIsNotWarnedOf(t *testing.T) {
	c := podClaim(map[string]string{"a": "10.0.0.1"})
	c.pods[0].Spec.HostNetwork = true
	lasting(&c.pods[0].Spec)
	var shares []*share
	for _, id := range []string{"arn:one", "arn:two"} {
		g := group(targets.IP)
		g.ID, g.ChecksTarget = id, id == "arn:two"
		s := shared(g, nil)
		s.join(c, nil, nil)
		shares = append(shares, s)
	}
	if a := c.advice(shares); !a.known || a.unchecked != "" {
		t.Errorf("%+v", a)
	}
	if a := c.advice(shares[:1]); a.unchecked == "" {
		t.Errorf("%+v", a)
	}
}
