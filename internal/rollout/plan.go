package rollout

import (
	"cmp"
	"slices"
	"strings"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
)

// Plan decides what to do now. The same State always gives the same Decision.
func Plan(s State) Decision {
	p := newPlanner(s)
	if s.Deletion != NotDeleted {
		p.finalize()
		return p.out
	}
	p.recordRevision()
	p.readAnalysis()
	p.assignTargets()
	p.applyCheckers()
	// In the order of their names: the turn of a node sees what those before it were told to do.
	for i := range p.views {
		p.settle(&p.views[i], p.turn(&p.views[i]))
	}
	p.continueWave()
	p.continueAnalysis()
	p.rejectOverdue()
	p.writeStatus()
	return p.out
}

func newPlanner(s State) *planner {
	p := &planner{pass: pass{State: s, strategy: s.Spec.Strategy(), pods: s.Spec.Pods(), goal: s.Revision, wave: map[string]bool{}, timedOut: map[string]bool{}}}
	for _, name := range s.Status.Wave {
		p.wave[name] = true
	}
	if t := s.Status.DetachTimedOut; t != nil && t.Generation == s.Generation {
		for _, name := range t.Nodes {
			p.timedOut[name] = true
		}
		p.out.Status.DetachTimedOut = t.DeepCopy()
	}
	p.views = make([]view, len(s.Nodes))
	nodes := slices.Clone(s.Nodes)
	for i := range nodes {
		n := &nodes[i]
		n.Pods = sorted(n.Pods, func(a, b Pod) int { return strings.Compare(a.Name, b.Name) })
		n.Checks = sorted(n.Checks, func(a, b Check) int { return cmp.Compare(a.Port, b.Port) })
		n.Pods = p.readyAsSeen(n)
		p.views[i] = view{Node: n, seen: p.seen(n), group: p.groupOf(n)}
		ignored := p.ignores(&p.views[i])
		p.views[i].ignored = ignored.yes
		p.take(ignored)
		if n.Wanted {
			p.desired++
		}
	}
	slices.SortFunc(p.views, func(a, b view) int { return strings.Compare(a.Name, b.Name) })
	p.Checkers = sorted(s.Checkers, func(a, b Checker) int { return cmp.Compare(a.Port, b.Port) })
	var tooMany, tooFew Fault
	p.maxNodes, tooMany = resolve("maxUnavailableNodes or maxDegradedNodes", p.strategy.MaxNodes, p.desired, 0)
	p.minServing, tooFew = resolve("minServingNodes", p.strategy.MinServingNodes, p.desired, p.desired)
	p.block(tooMany, tooFew)
	p.block(s.Faults...)
	if p.forbidden = p.forbiddenAnnotation(); p.forbidden != "" {
		p.block(Fault{v1alpha1.ReasonAnnotationNotPermitted, p.forbidden})
	}
	return p
}

// recordRevision puts the present template on record. One that is brought back
// becomes the newest again.
func (p *planner) recordRevision() {
	if !p.Revisions[p.Revision] || p.BroughtBack {
		p.do(Step{Action: RecordRevision, Revision: p.Revision})
	}
}
