package rollout

import (
	"fmt"
	"slices"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// maxWave bounds the nodes that begin together, because their names are written
// into the status, which has room for all nodes that others take out beside them.
const maxWave = 1000

// continueWave lets nodes begin, within the budget and above the floor. A node
// begins in two steps: its name is written into status.wave, and only when that
// is seen it is touched. So a controller that acts on an old status cannot
// begin more than the budget: its write of the status is refused.
//
// Invariant: a node is taken out, or made degraded, only if the nodes that do not
// serve, for whatever reason, are then at most maxNodes; where it is so already,
// only if at most maxNodes are then under way. And the serving nodes that are not
// under way never fall below the floor by our doing.
func (p *planner) continueWave() {
	wave, acting := p.underWay()
	c, candidates := p.tally(len(wave), acting), p.candidates()
	for i := range p.views {
		if v := &p.views[i]; p.untouched(v) && !slices.Contains(candidates, v) {
			c = p.with(v, c)
		}
	}
	for _, v := range candidates {
		if len(wave) >= maxWave {
			continue
		}
		if !p.permits(v, &c) {
			if p.untouched(v) {
				c = p.with(v, c)
			}
			continue
		}
		wave = append(wave, v.Name)
		if p.wave[v.Name] && !p.awaitsAnswer(v) {
			p.begin(v)
		}
	}
	if c.blocked && !slices.ContainsFunc(wave, p.ready) {
		p.blockOnBudget()
	}
	slices.Sort(wave)
	p.out.Status.Wave = slices.Compact(wave)
	p.dropClaims()
}

// dropClaims stamps the Deployments of nodes whose claim ends without that they were
// touched. A controller that was frozen before it touched one then finds that the
// Deployment has changed, and is refused (docs/adr/0001).
func (p *planner) dropClaims() {
	for _, name := range p.Status.Wave {
		v := p.find(name)
		if _, kept := slices.BinarySearch(p.out.Status.Wave, name); kept || v == nil || v.acted || !p.untouched(v) {
			continue
		}
		p.act(v, Step{Action: Stamp, Reason: "its claim is dropped", At: p.moment(v.Node)})
	}
}

// untouched is whether a node was claimed and nothing shows that it was begun with. It uses up
// the budget until its claim is dropped: another controller may have begun with it, whose mark
// is yet to be seen.
func (p *planner) untouched(v *view) bool {
	touched := later(v.seen.Updated, v.seen.Attached).After(v.seen.Claim)
	return p.wave[v.Name] && v.Deployment != nil && !v.Marked() && !touched
}

// permits is whether budget and floor permit to take the node out; it is counted then.
func (p *planner) permits(v *view, c *count) bool {
	after := p.with(v, *c)
	switch free := p.takesNothing(v); {
	case p.finishes(v) && after.acting < p.budget(v):
		// It is under way already. Where the budget has shrunk since, those that are
		// take turns.
		after.acting++
	case after.down > p.budget(v) && !((free || p.crippled(v)) && after.underWay <= p.budget(v)):
		c.blocked = true
		return false
	case !free && !p.crippled(v) && after.serving < p.floor(v):
		p.block(v1alpha1.ReasonFloorReached, fmt.Sprintf("taking out node %s would leave %d nodes serving, minServingNodes is %s",
			v.Name, after.serving, p.floorInWords()))
		return false
	}
	*c = after
	return true
}

// with is the count when the node is taken out, too.
func (p *planner) with(v *view, c count) count {
	if !v.underWay {
		c.underWay++
	}
	if !p.down(v) {
		c.down++
		if v.Wanted {
			c.serving--
		}
	}
	return c
}

// takesOut is whether nodes leave the load balancer for their update: one that is to have no pods
// does, however others are updated.
func (p *planner) takesOut() bool { return p.strategy.Detaching || p.pods == 0 }

// begin touches a node whose name stands in status.wave.
func (p *planner) begin(v *view) {
	if !v.Wanted || v.keptOut() || p.takesOut() {
		p.wait(v, v1alpha1.NodeDetaching, p.Now, "it is being marked")
		p.act(v, Step{Action: Mark, Mark: p.markValue(v), Reason: p.cause(v)})
		return
	}
	p.update(v, p.cause(v))
}

func (p *planner) markValue(v *view) v1alpha1.Mark {
	kind := ""
	if p.strategy.FailAfterDetachment {
		kind = v1alpha1.MarkServing
	}
	return v1alpha1.NewMark(p.moment(v.Node), p.revisionOf(v), kind)
}

func (p *planner) revisionOf(v *view) string {
	if v.target == "" {
		return v.Deployment.Revision
	}
	return v.target
}

func (p *planner) cause(v *view) string {
	switch d := v.Deployment; {
	case p.Deletion != NotDeleted:
		return "the IngressDaemonSet is being deleted"
	case !v.Wanted:
		return "the node is not in the node set any more"
	case v.keptOut():
		return keptOutReason
	case d.Revision != v.target:
		return "it has revision " + d.Revision
	case d.PodsPerNode != p.pods:
		return fmt.Sprintf("it has %d pods instead of %d", d.PodsPerNode, p.pods)
	default:
		return "somebody else changed its Deployment"
	}
}

// budget is how many nodes may be out together. A node that leaves the set, or that
// somebody wants out, must be able to go even where no update is allowed.
func (p *planner) budget(v *view) int {
	if v.Wanted && !v.keptOut() {
		return p.maxNodes
	}
	return max(1, p.maxNodes)
}

// floor is how many nodes of the set must go on serving when the node goes.
func (p *planner) floor(v *view) int {
	switch {
	case !v.Wanted:
		return min(p.desired, p.minServing)
	case p.takesOut(), v.keptOut():
		return p.minServing
	default:
		return 0
	}
}

// floorInWords is minServingNodes, and where it is a percentage how many nodes that is.
func (p *planner) floorInWords() string {
	if p.strategy.MinServingNodes.Type == intstr.Int {
		return p.strategy.MinServingNodes.String()
	}
	return fmt.Sprintf("%s, which is %d of %d", p.strategy.MinServingNodes.String(), p.minServing, p.desired)
}

// count is how many nodes serve, do not serve, are under way, and of those do not
// wait for their turn.
type count struct {
	serving, down, underWay, acting int
	// blocked is whether a node had to wait for the budget.
	blocked bool
}

// tally counts the nodes. One that waits for its turn counts as what it is, even
// when it is named in the wave. A node that has left the set serves nobody's
// floor, and counts as down once it is marked.
func (p *planner) tally(underWay, acting int) count {
	c := count{underWay: underWay, acting: acting}
	for i := range p.views {
		switch v := &p.views[i]; {
		case p.down(v):
			c.down++
		case v.emptied, v.ignored:
			// They use up no budget, and serve no floor.
		case v.Wanted:
			c.serving++
		}
	}
	return c
}

// down is whether the node uses up budget already. A degraded one that waits for
// its update does not once load balancers have put it back: the update is what may cure it.
func (p *planner) down(v *view) bool {
	switch {
	case !v.Exists:
		// Its Deployment may stay for as long as somebody's finalizer does.
		return false
	case !v.Wanted:
		// One that was claimed, and is to be marked out of turn, may have been begun with
		// by another controller whose mark is yet to be seen.
		begun := p.wave[v.Name] && v.Deployment != nil && !v.Marked() && !v.starts
		return begun || v.Marked() && !v.outOfTurn()
	case v.emptied, v.ignored:
		return false
	case v.state == v1alpha1.NodeDegraded:
		// No update cures one that somebody wants out.
		return !v.starts || v.returning || p.midway(v) || v.keptOut()
	default:
		return v.state != v1alpha1.NodeServing
	}
}

// ignores is whether the budget leaves the node out, since it has been NotReady for as
// long as the spec says. The floor never does: it does not serve.
func (p *planner) ignores(v *view) bool {
	if p.strategy.IgnoreNotReadyAfter == 0 || !v.Wanted || v.Ready {
		return false
	}
	return p.over(v.seen.Ready.Add(p.strategy.IgnoreNotReadyAfter))
}

// underWay are the nodes of the wave that were touched and do not serve yet, and
// how many of them do not wait for their turn. What is not waited for any more is not
// among them.
func (p *planner) underWay() (names []string, acting int) {
	for i := range p.views {
		v := &p.views[i]
		// One that is returning is known to be by its place here alone, should another lead meanwhile.
		inTurn := v.Marked() || p.wave[v.Name] && (!v.starts || v.returning)
		touched := inTurn && !v.outOfTurn() || v.Detachment.Requested || p.midway(v)
		// One that is kept out uses up the budget, but is under way no more.
		touched = touched && !(v.keptOut() && v.Marked()) && !v.leftToOthers() && !v.ignored && !(v.emptied && !v.Marked())
		if v.Exists && touched && v.state != v1alpha1.NodeServing && v.state != "" {
			names = append(names, v.Name)
			v.underWay = true
			if !v.starts || v.acted {
				acting++
			}
		}
	}
	return names, acting
}

// leftToOthers is whether nothing is left to do on a node that is not put back in time.
func (v *view) leftToOthers() bool { return v.unreturned && v.done }

// midway is whether an update that is to be changed still goes on, or somebody took the
// mark of a node whose detachment we still ask for: it keeps its place, and is finished
// even when the rollout is paused. One whose pods are all ready lacks nothing, though they
// may not have been so for long enough yet, nor does one that could not be detached for what
// it is to have now, with as many pods as it had.
func (p *planner) midway(v *view) bool {
	begun := !p.strategy.Detaching || v.Detachment.Requested
	if !begun || !v.Wanted || v.keptOut() || !v.starts || !p.wave[v.Name] {
		return false
	}
	whole, _, _ := v.complete(p.Now, 0)
	givenUp := p.takesOut() && p.timedOut[v.Name] && v.settled()
	return !whole && !givenUp
}

// takesNothing is whether an update takes nothing more from the load balancer.
func (p *planner) takesNothing(v *view) bool { return v.Wanted && v.out() || p.finishes(v) }

// finishes is whether what is left of an update that goes on takes nothing more. It does where pods
// are replaced while the node serves, and it is to have none instead.
func (p *planner) finishes(v *view) bool {
	empties := p.pods == 0 && !p.strategy.Detaching && !v.Detachment.Requested
	return p.midway(v) && !empties
}

// crippled is whether the node fails a health check, for all that one of somebody else may say,
// and will until it is updated: somebody left it fewer pods than make it serve, or had it serve
// with none.
func (p *planner) crippled(v *view) bool {
	if !v.Wanted || v.Deployment == nil || !p.down(v) {
		return false
	}
	d := v.Deployment
	passes, _, _ := v.checksPass()
	return !passes && (d.Replicas < d.PodsPerNode || d.PodsPerNode == 0 && (p.pods > 0 || d.Replicas > 0))
}

// mayStart is whether nodes may begin at all: not while something must change
// first, such as a Service by which the load balancer would learn of it.
func (p *planner) mayStart() bool {
	return !p.Spec.Paused && !p.halted() && p.halts == "" && len(p.Faults) == 0 && p.forbidden == ""
}

// candidates are the nodes that may begin now, those first that were named in the wave already,
// of these those first whose mark may be yet to be seen, then those that do not serve, then by
// order. A node of which nothing is taken does not wait for its group, nor one that is halfway or that
// nothing else cures: it may be what holds up the others.
func (p *planner) candidates() []*view {
	var out []*view
	turn, found := p.groupInTurn()
	for _, v := range p.ordered() {
		inTurn := !v.Wanted || v.keptOut() || !found || p.takesNothing(v) || p.midway(v) || p.crippled(v) || compareGroups(v.group, turn) <= 0
		if v.starts && !v.acted && p.allowed(v) && inTurn {
			out = append(out, v)
		}
	}
	first := func(v *view) int {
		switch {
		case p.wave[v.Name] && !v.Marked():
			return 0
		case p.wave[v.Name]:
			return 1
		case v.state != v1alpha1.NodeServing:
			return 2
		default:
			return 3
		}
	}
	slices.SortStableFunc(out, func(a, b *view) int { return first(a) - first(b) })
	return out
}

// allowed is whether nothing but budget and floor keeps the node from beginning.
func (p *planner) allowed(v *view) bool {
	switch {
	case p.forbidden != "" && !p.midway(v):
		return false
	case !v.Wanted:
		return p.Deletion != NotDeleted || p.checkersCurrent() && !p.leavesBlind(v)
	case v.keptOut():
		return p.checkersCurrent() && v.CheckersSettled && !p.stillReleased(v)
	case !p.mayStart() && !p.midway(v):
		return false
	case p.barred(v) && !p.midway(v), p.takesOut() && p.timedOut[v.Name]:
		return false
	case !v.Ready:
		p.block(v1alpha1.ReasonNodeNotReady, "node "+v.Name+" waits for its update until it is Ready")
		return false
	case !p.accepted(v.target) && !p.awaitsAnswer(v):
		return false
	case !p.checkersCurrent() || !v.CheckersSettled:
		p.block(v1alpha1.ReasonHealthCheckerNotReady, "node "+v.Name+" waits for its update until its health checkers are up to date and ready")
		return false
	case v.blind():
		p.block(v1alpha1.ReasonHealthCheckerBlind, "node "+v.Name+" waits for its update until its health checkers can read the API server")
		return false
	case v.unheard() != nil && !p.midway(v):
		// It would never acknowledge a mark, and the time-out of that halts the others.
		p.block(v1alpha1.ReasonHealthCheckerNotReady, fmt.Sprintf("node %s waits for its update until its health check on port %d answers", v.Name, v.unheard().Port))
		return false
	}
	return !p.stillReleased(v)
}

// leavesBlind is whether a node that leaves the set waits for health checkers that can read the
// API server: no other would acknowledge its mark.
func (p *planner) leavesBlind(v *view) bool {
	if v.Ready && v.blind() {
		p.block(v1alpha1.ReasonHealthCheckerBlind, "node "+v.Name+" waits for its removal until its health checkers can read the API server")
		return true
	}
	return false
}

// awaitsAnswer is whether nothing but the API server's answer about the template keeps a node
// from its first touch that was claimed before. A new leader asks for it anew, and drops no
// claim for that: it would stamp each node of a wave, and claim it again a moment later.
func (p *planner) awaitsAnswer(v *view) bool {
	return p.wave[v.Name] && v.Wanted && !v.keptOut() && v.target == p.Revision && !p.DryRun.Done
}

// stillReleased is whether a detacher has yet to let go of a node that we
// released: asked again before that, it would not notice and never answer. But a
// timestamp that no detacher removes must not hold up the node for ever.
func (p *planner) stillReleased(v *view) bool {
	until := v.seen.Attached.Add(p.strategy.DetachTimeout)
	if v.Detachment.Timestamp == "" || v.Detachment.Held || !p.Now.Before(until) {
		return false
	}
	p.wake(until)
	return true
}

// blockOnBudget reports a node that uses up the budget although nothing is under way.
func (p *planner) blockOnBudget() {
	for i := range p.views {
		if v := &p.views[i]; p.down(v) {
			reason, waysOut := v.reason, ""
			if !v.Ready {
				reason = "the Node is NotReady"
				waysOut = ": repair or delete it, raise maxUnavailableNodes or maxDegradedNodes, or set updateStrategy.rollingUpdate.ignoreNotReadyNodesAfterSeconds"
			}
			p.block(v1alpha1.ReasonBudgetExhausted, fmt.Sprintf("node %s does not serve (%s), which uses up the budget%s", v.Name, reason, waysOut))
			return
		}
	}
}

// resolve is a number of nodes. Admission refuses what cannot be resolved; if it
// comes through all the same it is safest, so that nothing is started, and the reason is
// reported.
func (p *planner) resolve(field string, value intstr.IntOrString, nodes, safest int) int {
	n, err := v1alpha1.Resolve(value, nodes)
	if err != nil {
		p.block(v1alpha1.ReasonInvalidSpec, field+": "+err.Error())
		return safest
	}
	return n
}
