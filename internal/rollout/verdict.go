package rollout

import (
	"slices"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
)

// verdict is what the turn of one node comes to. It is a value: rules make it and change nothing,
// and settle takes it into the decision.
type verdict struct {
	state  v1alpha1.NodeState
	reason string
	since  time.Time
	// steps are what is to be done; acted says whether one of them has to be seen before anything
	// else is done to the node.
	steps []Step
	acted bool
	// wake is when to look again, blocks is what stands in the way.
	wake   time.Time
	blocks []Fault
	// starts says whether the node waits for its turn.
	starts bool
	// done says whether all its pods are available and no other is left; emptied that it
	// is, and that there are to be none.
	done, overdue, emptied bool
	// returning says whether load balancers may not have put it back yet, unreturned whether it
	// is not put back in time.
	returning, unreturned bool
	// halts is why the node is given up and the rollout halts.
	halts string
	// goesOn says whether the next rule is asked, too.
	goesOn bool
}

// waits is the verdict that a node is in a state, and why.
func waits(state v1alpha1.NodeState, since time.Time, reason string) verdict {
	return verdict{state: state, since: since, reason: reason}
}

// act is the verdict with a step for the node, which then waits until the step is seen.
func (w verdict) act(s Step) verdict {
	w.steps, w.acted = append(slices.Clip(w.steps), s), true
	return w
}

// lookAt is the verdict with another look at a moment that lies ahead.
func (w verdict) lookAt(t time.Time) verdict {
	w.wake = sooner(w.wake, t)
	return w
}

// given is the verdict with what else an answer says that it goes by.
func (w verdict) given(a answer) verdict {
	w.wake = sooner(w.wake, a.until)
	if a.why != (Fault{}) {
		w.blocks = append(slices.Clip(w.blocks), a.why)
	}
	if a.asks {
		w.steps = append(slices.Clip(w.steps), Step{Action: DryRunDeployment})
	}
	return w
}

// and is the verdict with what comes next: that tells the state, where it tells any.
func (w verdict) and(next verdict) verdict {
	switch {
	case next.state != "":
		w.state, w.since, w.reason = next.state, next.since, next.reason
	case next.reason != "":
		w.reason = next.reason
	}
	w.steps = append(slices.Clip(w.steps), next.steps...)
	w.blocks = append(slices.Clip(w.blocks), next.blocks...)
	w.wake = sooner(w.wake, next.wake)
	w.acted, w.starts = w.acted || next.acted, w.starts || next.starts
	w.done, w.overdue, w.emptied = w.done || next.done, w.overdue || next.overdue, w.emptied || next.emptied
	w.returning, w.unreturned = w.returning || next.returning, w.unreturned || next.unreturned
	if next.halts != "" {
		w.halts = next.halts
	}
	w.goesOn = next.goesOn
	return w
}
