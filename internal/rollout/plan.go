package rollout

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
)

// Plan decides what to do now. The same State always gives the same Decision.
func Plan(s State) Decision {
	p := newPlanner(s)
	if s.Deletion != NotDeleted {
		p.letGo()
		return p.out
	}
	p.recordRevision()
	p.openGate()
	p.assignTargets()
	p.applyCheckers()
	for i := range p.views {
		p.settle(&p.views[i], p.turn(&p.views[i]))
	}
	p.continueWave()
	p.closeGate()
	p.rejectOverdue()
	p.writeStatus()
	return p.out
}

// planner is the work of one call of Plan: what is decided, of what a pass says.
type planner struct {
	pass
	blocked        []Fault
	askedForDryRun bool
	// waits is whether a deletion that leaves the Deployments waits for one of them.
	waits bool
	out   Decision
}

// pass is what there is to decide from: the State, what it comes to, and what is settled so far.
// Its methods are questions and the rules that go by them. They change nothing, and have no
// Decision that they could change.
type pass struct {
	State
	strategy v1alpha1.Strategy
	// desired is how many nodes are wanted, maxNodes the budget, minServing the floor.
	desired, maxNodes, minServing int
	pods                          int32
	// goal is the revision that nodes are brought to: the present one, or the
	// current one where that was rejected.
	goal     string
	rejected *v1alpha1.RejectedRevision
	// timedOut are the nodes whose detachment timed out with the present spec.
	timedOut map[string]bool
	// gate is where the analysis of the last wave stands, nil where there is none.
	gate  *v1alpha1.AnalysisStatus
	wave  map[string]bool
	views []view
	// forbidden says which annotation on Nodes is not permitted, empty where all are.
	forbidden string
	// halts is why the rollout halts with this decision, empty where it goes on.
	halts string
}

// view is what is decided about one node.
type view struct {
	*Node
	// seen is when what stands on the node counts as first seen.
	seen Seen
	// target is the revision that the node should have.
	target string
	group  group
	// ignored is whether the budget does not count it, since it has been NotReady for so long.
	ignored bool
	// verdict is what is settled about it so far.
	verdict
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

// find is the view of the node of a name, nil where there is none.
func (p *pass) find(name string) *view {
	i, found := slices.BinarySearchFunc(p.views, name, func(v view, name string) int { return strings.Compare(v.Name, name) })
	if !found {
		return nil
	}
	return &p.views[i]
}

// ready is whether the node of a name is there and Ready.
func (p *pass) ready(name string) bool {
	v := p.find(name)
	return v != nil && v.Ready
}

// sorted is a list in order, so that the order of the State does not matter.
func sorted[T any](list []T, compare func(a, b T) int) []T {
	if slices.IsSortedFunc(list, compare) {
		return list
	}
	list = slices.Clone(list)
	slices.SortFunc(list, compare)
	return list
}

// recordRevision puts the present template on record. One that is brought back
// becomes the newest again.
func (p *planner) recordRevision() {
	if !p.Revisions[p.Revision] || p.BroughtBack {
		p.do(Step{Action: RecordRevision, Revision: p.Revision})
	}
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
