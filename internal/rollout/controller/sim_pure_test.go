package controller

import (
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/rollout"
)

// checkPure checks that Plan gives the same again whatever the order of its
// input, leaves its input alone, and asks to be woken before it would decide otherwise.
func (a *audit) checkPure(s rollout.State, d rollout.Decision) {
	before := copyState(s)
	shuffled := copyState(s)
	slices.Reverse(shuffled.Nodes)
	slices.Reverse(shuffled.Checkers)
	for i := range shuffled.Nodes {
		slices.Reverse(shuffled.Nodes[i].Pods)
		slices.Reverse(shuffled.Nodes[i].Checks)
	}
	if again := rollout.Plan(shuffled); !reflect.DeepEqual(d, again) {
		a.fault("another order of the same State gives another Decision:\n%s\n%s", inWords(d), inWords(again))
	}
	if !reflect.DeepEqual(s, before) {
		a.fault("Plan changed its State")
	}
	waiting := copyState(s)
	waiting.Status = *d.Status.DeepCopy()
	waiting.Now = s.Now.Add(24 * time.Hour)
	settled := rollout.Plan(copyWithStatus(s, d.Status))
	if len(d.Steps) > 0 || len(settled.Steps) > 0 || !reflect.DeepEqual(settled.Status, d.Status) {
		return
	}
	if !settled.WakeAt.IsZero() {
		waiting.Now = settled.WakeAt.Add(-time.Millisecond)
	}
	late := rollout.Plan(waiting)
	if !reflect.DeepEqual(settled.Steps, late.Steps) || !reflect.DeepEqual(settled.Status, late.Status) {
		a.fault("nobody would have woken the controller at %s for this:\n%s\n%s", settled.WakeAt, inWords(settled), inWords(late))
	}
}

func copyWithStatus(s rollout.State, status v1alpha1.IngressDaemonSetStatus) rollout.State {
	c := copyState(s)
	c.Status = *status.DeepCopy()
	return c
}

func copyState(s rollout.State) rollout.State {
	c := s
	c.Spec, c.Status = *s.Spec.DeepCopy(), *s.Status.DeepCopy()
	c.Revisions = map[string]bool{}
	for k, v := range s.Revisions {
		c.Revisions[k] = v
	}
	c.Faults, c.Checkers = slices.Clone(s.Faults), slices.Clone(s.Checkers)
	c.Nodes = slices.Clone(s.Nodes)
	for i := range c.Nodes {
		n := &c.Nodes[i]
		n.Pods, n.Checks = slices.Clone(n.Pods), slices.Clone(n.Checks)
		if n.Deployment != nil {
			d := *n.Deployment
			if d.Hold != nil {
				h := *d.Hold
				d.Hold = &h
			}
			n.Deployment = &d
		}
	}
	return c
}

func inWords(d rollout.Decision) string {
	out := fmt.Sprintf("wake %s, wave %v", d.WakeAt, d.Status.Wave)
	for _, s := range d.Steps {
		out += "\n  " + s.String()
	}
	for _, n := range d.Status.Nodes {
		out += fmt.Sprintf("\n  %s %s %q %s", n.Name, n.State, n.Reason, n.Since)
	}
	for _, c := range d.Status.Conditions {
		out += fmt.Sprintf("\n  %s=%s %s %q", c.Type, c.Status, c.Reason, c.Message)
	}
	return out
}
