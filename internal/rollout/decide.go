package rollout

import (
	"slices"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
)

// planner is the work of one call of Plan: what is decided, of what a pass says.
type planner struct {
	pass
	blocked        []Fault
	askedForDryRun bool
	// waits says whether a deletion that leaves the Deployments waits for one of them.
	waits bool
	out   Decision
}

// do is the one place where a decision gets a step. The API server is asked once.
func (p *planner) do(s Step) {
	if s.Action == DryRunDeployment {
		if p.askedForDryRun {
			return
		}
		p.askedForDryRun, s.Revision = true, p.Revision
	}
	p.out.Steps = append(p.out.Steps, s)
}

// wake asks for another look at t, where that lies ahead.
func (p *planner) wake(t time.Time) {
	if t.After(p.Now) && (p.out.WakeAt.IsZero() || t.Before(p.out.WakeAt)) {
		p.out.WakeAt = t
	}
}

// block reports what stands in the way.
func (p *planner) block(faults ...Fault) {
	for _, f := range faults {
		if f != (Fault{}) {
			p.blocked = append(p.blocked, f)
		}
	}
}

// take takes what else an answer says into the decision.
func (p *planner) take(a answer) {
	p.wake(a.until)
	p.block(a.why)
	if a.asks {
		p.do(Step{Action: DryRunDeployment})
	}
}

// settle takes a verdict into the decision, beside what was settled about the node before.
func (p *planner) settle(v *view, w verdict) {
	v.verdict = v.verdict.and(w)
	for _, s := range w.steps {
		if s.Action != DryRunDeployment {
			s.Node = v.Name
		}
		p.do(s)
	}
	p.wake(w.wake)
	p.block(w.blocks...)
	if w.halts != "" {
		p.halts = w.halts
		p.giveUp(v.Name)
	}
}

// giveUp writes down that a node is not tried again until the spec changes.
func (p *planner) giveUp(node string) {
	t := p.out.Status.DetachTimedOut
	if t == nil {
		t = &v1alpha1.NodesTimedOut{Generation: p.Generation}
		p.out.Status.DetachTimedOut = t
	}
	t.Nodes = append(t.Nodes, node)
	slices.Sort(t.Nodes)
}
