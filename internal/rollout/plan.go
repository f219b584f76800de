package rollout

import (
	"cmp"
	"maps"
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
		p.advance(&p.views[i])
	}
	p.continueWave()
	p.closeGate()
	p.rejectOverdue()
	p.writeStatus()
	return p.out
}

// planner is the work of one call of Plan.
type planner struct {
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
	gate           *v1alpha1.AnalysisStatus
	wave           map[string]bool
	views          []view
	blocked        []Fault
	askedForDryRun bool
	// forbidden says which annotation on Nodes is not permitted, empty where all are.
	forbidden string
	// halts is whether the rollout halts with this decision.
	halts string
	// waits is whether a deletion that leaves the Deployments waits for one of them.
	waits bool
	out   Decision
}

// view is what is decided about one node.
type view struct {
	*Node
	// seen is when what stands on the node counts as first seen.
	seen Seen
	// target is the revision that the node should have.
	target string
	state  v1alpha1.NodeState
	reason string
	since  time.Time
	// starts is whether the node waits for its turn, and acted whether this
	// decision already holds a step for it that has to be seen first.
	starts, acted bool
	// underWay is whether it is counted as under way already.
	underWay bool
	// done is whether all its pods are available and no other is left; emptied that it
	// is, and that there are to be none.
	done, overdue, emptied bool
	// returning is whether load balancers may not have put it back yet, unreturned whether it
	// is not put back in time, ignored whether the budget does not count it, since it has been
	// NotReady for so long.
	returning, unreturned, ignored bool
	group                          group
}

func newPlanner(s State) *planner {
	p := &planner{State: s, strategy: s.Spec.Strategy(), pods: s.Spec.Pods(), goal: s.Revision, wave: map[string]bool{}, timedOut: map[string]bool{}}
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
		p.views[i].ignored = p.ignores(&p.views[i])
		if n.Wanted {
			p.desired++
		}
	}
	slices.SortFunc(p.views, func(a, b view) int { return strings.Compare(a.Name, b.Name) })
	p.Checkers = sorted(s.Checkers, func(a, b Checker) int { return cmp.Compare(a.Port, b.Port) })
	p.maxNodes = p.resolve("maxUnavailableNodes or maxDegradedNodes", p.strategy.MaxNodes, p.desired, 0)
	p.minServing = p.resolve("minServingNodes", p.strategy.MinServingNodes, p.desired, p.desired)
	for _, f := range s.Faults {
		p.block(f.Reason, f.Message)
	}
	if p.forbidden = p.forbiddenAnnotation(); p.forbidden != "" {
		p.block(v1alpha1.ReasonAnnotationNotPermitted, p.forbidden)
	}
	return p
}

// find is the view of the node of a name, nil where there is none.
func (p *planner) find(name string) *view {
	i, found := slices.BinarySearchFunc(p.views, name, func(v view, name string) int { return strings.Compare(v.Name, name) })
	if !found {
		return nil
	}
	return &p.views[i]
}

// ready is whether the node of a name is there and Ready.
func (p *planner) ready(name string) bool {
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

// advance takes one node the next step on its way, or leaves it to
// continueWave where it must wait for its turn.
func (p *planner) advance(v *view) {
	d := v.Deployment
	switch {
	case !v.Exists:
		p.forget(v)
	case d == nil && v.Wanted:
		p.create(v)
	case d == nil:
		p.leave(v)
	case d.Deleting:
		p.wait(v, v1alpha1.NodeRemoving, p.Now, "its Deployment is being deleted")
	case p.stopsStorm(v):
	case !v.Wanted:
		p.remove(v)
	case v.drained(), p.drains(v):
		p.drain(v)
	case d.Detached:
		p.keepOut(v)
	case p.triesAgain(v):
	case v.Marked():
		p.finish(v)
	default:
		p.attached(v)
	}
	if d != nil && d.Outmoded && !v.acted && !d.Deleting && !d.heldBack() && !d.partly() && p.mayReshape(v) {
		p.act(v, Step{Action: SetFields, Hold: d.Hold, Reason: "fields that restart no pod differ from the spec"})
	}
	if d != nil && !v.acted && p.miscounted(v) {
		p.act(v, Step{Action: SetFields, Hold: d.Hold, PodsPerNode: new(p.pods), Reason: "somebody changed how many pods make it serve"})
	}
}

// miscounted is whether nothing is wrong with the pods of a node but how many of them make it
// serve, as somebody wrote: it would be down until its turn, which does not come while the
// rollout is paused. One that is held back would go on with its turn beside those that began
// since.
func (p *planner) miscounted(v *view) bool {
	d := *v.Deployment
	if !v.Wanted || v.Marked() || d.Drifted || d.heldBack() || d.Deleting || d.PodsPerNode == p.pods {
		return false
	}
	n := *v.Node
	n.Deployment, d.PodsPerNode = &d, p.pods
	whole, _, _ := n.complete(p.Now, 0)
	return whole
}

// mayReshape is whether fields of the Deployment may be set by which its controller
// replaces pods: while it does, only in the node's own turn, and only where as many pods are
// asked for as the strategy counts from. Another strategy in the middle of that could stop all
// pods of a node that traffic reaches.
func (p *planner) mayReshape(v *view) bool {
	if v.Marked() {
		return !v.rolling() || v.updatedInTurn()
	}
	whole := v.Deployment.Replicas >= v.Deployment.PodsPerNode
	ownTurn := p.rollsInTurn(v) && whole
	return !v.rolling() || ownTurn
}

// forget drops what is left of a node that is gone.
func (p *planner) forget(v *view) {
	v.state, v.reason = v1alpha1.NodeRemoving, "the Node is gone"
	if v.Deployment != nil && !v.Deployment.Deleting {
		p.act(v, Step{Action: Delete, Reason: "the Node is gone"})
	}
}

func (p *planner) create(v *view) {
	v.state, v.reason = v1alpha1.NodeUnavailable, "its Deployment does not exist yet"
	if v.target == "" || !p.accepted(v.target) {
		return
	}
	rejected := ""
	if p.rejected != nil {
		rejected = p.rejected.Revision
	}
	left := v.leftOver(rejected)
	p.act(v, Step{Action: Create, Revision: v.target, Replicas: p.pods, ReplicaSet: left, Rolling: v.keepsServing(left), Reason: "the node needs pods", At: p.Now})
}

// keepsServing is how a Deployment that is made again of a ReplicaSet replaces pods of others that
// serve, with which the one before was in the middle of an update: as many as it asks for serve
// meanwhile, since the node is attached. Where none serves it is as the spec says.
func (n *Node) keepsServing(hash string) (how Rolling) {
	for i := range n.Pods {
		if pod := &n.Pods[i]; pod.serves() && pod.ReplicaSet != hash {
			how.Surge++
		}
	}
	return how
}

// leftOver is the ReplicaSet of most of the pods that serve where there is no Deployment, or of
// most that are to stay where none serves; empty where none stays. They may have been left behind,
// as by a deletion of their Deployment with --cascade=orphan: the new one takes them over, and
// would replace those of another template, or stop those that are too many, while traffic reaches
// them. Those that do not serve may do so in a moment, as after a restart, but for those of a
// template that was rejected.
func (n *Node) leftOver(rejected string) (hash string) {
	weight := map[string]int{}
	for i := range n.Pods {
		switch pod := &n.Pods[i]; {
		case pod.serves():
			weight[pod.ReplicaSet] += 1 + len(n.Pods)
		case pod.stays() && pod.Revision != rejected:
			weight[pod.ReplicaSet]++
		}
	}
	for _, other := range slices.Sorted(maps.Keys(weight)) {
		if weight[other] > weight[hash] {
			hash = other
		}
	}
	return hash
}

// leave releases a node whose Deployment is gone, once its last pod is gone too.
// A NotReady node may never come back to tell that.
func (p *planner) leave(v *view) {
	if len(v.Pods) > 0 && v.Ready {
		p.wait(v, v1alpha1.NodeRemoving, p.Now, "its pods are terminating")
		p.reportLeft(v)
		return
	}
	if v.Detachment.Requested {
		p.wait(v, v1alpha1.NodeRemoving, p.Now, "the Node is being released")
		p.act(v, Step{Action: ReleaseDetachment, Reason: "no pod is left on it"})
	}
}

// reportLeft tells of pods that nobody stops: their Deployment cannot be found, and the garbage
// collector has had its time.
func (p *planner) reportLeft(v *view) {
	i := slices.IndexFunc(v.Pods, func(pod Pod) bool { return pod.stays() })
	if i < 0 || !p.over(v.seen.Updated.Add(collectedAfter)) {
		return
	}
	v.reason = "pod " + v.Pods[i].Name + " is left, and its Deployment is not found"
	p.block(v1alpha1.ReasonPodsLeft, "node "+v.Name+" is kept: "+v.reason+
		": put back the label and the annotation that somebody took from it, or delete it")
}

// collectedAfter is how long pods may run whose Deployment is gone.
const collectedAfter = time.Minute

// accepted is whether the API server accepts a Deployment of the revision. Only
// the present template needs to be asked about.
func (p *planner) accepted(revision string) bool {
	switch {
	case revision != p.Revision:
		return true
	case !p.DryRun.Done:
		if !p.askedForDryRun {
			p.askedForDryRun = true
			p.do(Step{Action: DryRunDeployment, Revision: revision})
		}
		return false
	default:
		return p.DryRun.Refusal == ""
	}
}

func (p *planner) do(s Step) { p.out.Steps = append(p.out.Steps, s) }

// act is do for a node, which then waits until the step is seen.
func (p *planner) act(v *view, s Step) {
	s.Node = v.Name
	v.acted = true
	p.do(s)
}

func (p *planner) wait(v *view, state v1alpha1.NodeState, since time.Time, reason string) {
	v.state, v.since, v.reason = state, since, reason
}

// wake asks for another look at t, where that lies ahead.
func (p *planner) wake(t time.Time) {
	if t.After(p.Now) && (p.out.WakeAt.IsZero() || t.Before(p.out.WakeAt)) {
		p.out.WakeAt = t
	}
}

// over is whether a deadline has passed, and had when this controller looked a while ago: one
// that was frozen sees at first what was so before, as often as it looks at once. What may
// cost something is not done for a time that has passed otherwise; a grace that an answer
// tells the age of, or a try, is no such thing.
func (p *planner) over(deadline time.Time) bool {
	switch {
	case p.Now.Before(deadline):
		p.wake(deadline)
		return false
	case !p.Began.IsZero() && p.Looked.Before(deadline):
		p.wake(p.Now.Add(lookAgain))
		return false
	}
	return true
}

// lookAgain is after how long what a deadline has ended is looked at once more.
const lookAgain = time.Second

func (p *planner) block(reason, message string) {
	p.blocked = append(p.blocked, Fault{reason, message})
}
