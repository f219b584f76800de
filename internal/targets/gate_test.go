package targets

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func at(group string, phase Phase) Place {
	return Place{Group: group, Report: Report{Phase: phase, Message: "it is so"}}
}

func TestGateOf(t *testing.T) {
	unchecked := Place{Group: "i", Unchecked: "they are instances"}
	for name, c := range map[string]struct {
		places []Place
		want   string
	}{
		"no group is known":                    {nil, "Unknown TargetUnknown no target group is known"},
		"nothing is known":                     {[]Place{at("a", "")}, "Unknown TargetUnknown target group a: nothing is known of the pod's target yet"},
		"healthy":                              {[]Place{at("a", Attached)}, "True TargetsHealthy the pod's target takes traffic in every target group"},
		"registering":                          {[]Place{at("a", Registering)}, "False Registering target group a: the pod is being registered, or its first health checks are under way"},
		"unhealthy":                            {[]Place{at("a", Failing)}, "False TargetUnhealthy target group a: it is so"},
		"refused":                              {[]Place{at("a", Refused)}, "False TargetRefused target group a does not accept the pod: the condition Blocked of the TargetGroupAttachment says why"},
		"held back, so that it serves still":   {[]Place{at("a", Held)}, "Unknown TargetUnknown target group a: nothing is known of the pod's target yet"},
		"no group checks it":                   {[]Place{unchecked, unchecked}, "True NotChecked they are instances"},
		"one group checks it":                  {[]Place{unchecked, at("a", Attached)}, "True TargetsHealthy the pod's target takes traffic in every target group"},
		"healthy in one of two":                {[]Place{at("a", Attached), at("b", Failing)}, "False TargetUnhealthy target group b: it is so"},
		"known in one of two":                  {[]Place{at("a", ""), at("b", Attached)}, "Unknown TargetUnknown target group a: nothing is known of the pod's target yet"},
		"unhealthy where anything is known":    {[]Place{at("a", ""), at("b", Failing)}, "False TargetUnhealthy target group b: it is so"},
		"nothing is known where it is checked": {[]Place{unchecked, at("b", "")}, "Unknown TargetUnknown target group b: nothing is known of the pod's target yet"},
	} {
		g := GateOf(c.places)
		if got := fmt.Sprint(g.Status, " ", g.Reason, " ", g.Message); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

func TestUnchecked(t *testing.T) {
	for name, c := range map[string]struct {
		mode  Mode
		group Group
		want  string
	}{
		"a pod's own address":                {Mode{}, Group{Type: IP, ChecksTarget: true}, ""},
		"at another port of it":              {Mode{}, Group{Type: IP}, ""},
		"a node's address at the pod's port": {Mode{PerNode: true}, Group{Type: IP, ChecksTarget: true}, ""},
		"at the health checker's":            {Mode{PerNode: true}, Group{Name: "g", Type: IP}, "the health checks of target group g go to another port of the node than that of the pod"},
		"an instance":                        {Mode{PerNode: true}, Group{Name: "g", Type: Instance, ChecksTarget: true}, "the targets of target group g are instances, whose health says nothing of a single pod"},
	} {
		if got := c.mode.Unchecked(c.group); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// TestGateCondition never holds back a pod that passes because of what is not known, or
// is only on its way.
func TestGateCondition(t *testing.T) {
	const kind = "target-health/proxy"
	since := metav1.NewTime(noon.Add(-time.Hour))
	has := func(status corev1.ConditionStatus, reason string) *corev1.PodCondition {
		return &corev1.PodCondition{Type: kind, Status: status, Reason: reason, LastTransitionTime: since}
	}
	passes := has(corev1.ConditionTrue, GateTargetsHealthy)
	for name, c := range map[string]struct {
		gate Gate
		has  *corev1.PodCondition
		want string
	}{
		"unknown, none yet":                {Gate{corev1.ConditionUnknown, GateTargetUnknown, ""}, nil, "False TargetUnknown anew"},
		"unknown, passed":                  {Gate{corev1.ConditionUnknown, GateTargetUnknown, ""}, passes, ""},
		"unknown, waiting":                 {Gate{corev1.ConditionUnknown, GateTargetUnknown, ""}, has(corev1.ConditionFalse, GateRegistering), ""},
		"registering, none yet":            {Gate{corev1.ConditionFalse, GateRegistering, ""}, nil, "False Registering anew"},
		"registering, not known before":    {Gate{corev1.ConditionFalse, GateRegistering, ""}, has(corev1.ConditionFalse, GateTargetUnknown), "False Registering"},
		"registering elsewhere, passed":    {Gate{corev1.ConditionFalse, GateRegistering, ""}, passes, ""},
		"refused elsewhere, passed":        {Gate{corev1.ConditionFalse, GateTargetRefused, ""}, passes, ""},
		"registering, its node was out":    {Gate{corev1.ConditionFalse, GateRegistering, ""}, has(corev1.ConditionTrue, GateNodeDetached), "False Registering anew"},
		"unknown, its node was out":        {Gate{corev1.ConditionUnknown, GateTargetUnknown, ""}, has(corev1.ConditionTrue, GateNodeDetached), ""},
		"unhealthy, passed":                {Gate{corev1.ConditionFalse, GateTargetUnhealthy, ""}, passes, "False TargetUnhealthy anew"},
		"healthy, waited":                  {Gate{corev1.ConditionTrue, GateTargetsHealthy, ""}, has(corev1.ConditionFalse, GateRegistering), "True TargetsHealthy anew"},
		"healthy, passed":                  {Gate{corev1.ConditionTrue, GateTargetsHealthy, ""}, passes, ""},
		"its node is out, passed":          {Gate{corev1.ConditionTrue, GateNodeDetached, ""}, passes, "True NodeDetached"},
		"released, waited":                 {Gate{corev1.ConditionTrue, GateReleased, ""}, has(corev1.ConditionFalse, GateRegistering), "True AttachmentDeleted anew"},
		"unhealthy for another reason":     {Gate{corev1.ConditionFalse, GateTargetUnhealthy, "stopped"}, has(corev1.ConditionFalse, GateTargetUnhealthy), "False TargetUnhealthy"},
		"unhealthy for the same as before": {Gate{corev1.ConditionFalse, GateTargetUnhealthy, ""}, has(corev1.ConditionFalse, GateTargetUnhealthy), ""},
	} {
		got := ""
		if condition, ok := c.gate.Condition(kind, c.has); ok {
			got = string(condition.Status) + " " + condition.Reason
			if condition.Type != kind {
				t.Errorf("%s: type %s", name, condition.Type)
			}
			if !condition.LastTransitionTime.Equal(&since) {
				got += " anew"
			}
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
