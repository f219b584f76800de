package rollout

import (
	"fmt"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// count is how many nodes serve, do not serve, and are under way.
type count struct {
	serving, down, underWay int
	// acting is how many of those under way are past waiting for their turn.
	acting int
	// blocked says whether a node had to wait for the budget.
	blocked bool
}

// permits reports whether budget and minServingNodes permit to take the node out, and the count then.
func (p *pass) permits(v *view, c count) (after count, permitted answer) {
	after = p.with(v, c)
	switch free := p.takesNothing(v); {
	case p.finishes(v) && after.acting < p.budget(v):
		// It is under way already. Where the budget has shrunk since, those that are
		// take turns.
		after.acting++
	case after.down > p.budget(v) && !((free || p.crippled(v)) && after.underWay <= p.budget(v)):
		c.blocked = true
		return c, answer{}
	case !free && !p.crippled(v) && after.serving < p.mustServe(v):
		return c, no(v1alpha1.ReasonFloorReached, fmt.Sprintf("taking out node %s would leave %d nodes serving, minServingNodes is %s",
			v.Name, after.serving, p.minServingInWords()))
	}
	return after, answer{yes: true}
}

// with is the count when the node is taken out, too.
func (p *pass) with(v *view, c count) count {
	if !p.isUnderWay(v) {
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

// budget is how many nodes may be out together. A node that leaves the set, or that
// somebody wants out, must be able to go even where no update is allowed.
func (p *pass) budget(v *view) int {
	if v.Wanted && !v.keptOut() {
		return p.maxNodes
	}
	return max(1, p.maxNodes)
}

// mustServe is how many nodes of the set must go on serving when the node goes.
func (p *pass) mustServe(v *view) int {
	switch {
	case !v.Wanted:
		return min(p.desired, p.minServing)
	case p.takesOut(), v.keptOut():
		return p.minServing
	default:
		return 0
	}
}

// minServingInWords is minServingNodes, and where it is a percentage how many nodes that is.
func (p *pass) minServingInWords() string {
	if p.strategy.MinServingNodes.Type == intstr.Int {
		return p.strategy.MinServingNodes.String()
	}
	return fmt.Sprintf("%s, which is %d of %d", p.strategy.MinServingNodes.String(), p.minServing, p.desired)
}

// tally counts the nodes. One that waits for its turn counts as what it is, even
// when it is named in the wave. A node that has left the set does not
// count as serving, and counts as down once it is marked.
func (p *pass) tally(underWay, acting int) count {
	c := count{underWay: underWay, acting: acting}
	for i := range p.views {
		switch v := &p.views[i]; {
		case p.down(v):
			c.down++
		case v.emptied, v.ignored:
			// They use up no budget, and do not count as serving.
		case v.Wanted:
			c.serving++
		}
	}
	return c
}

// down reports whether the node uses up budget already. A degraded one that waits for
// its update does not once load balancers have put it back: the update is what may cure it.
func (p *pass) down(v *view) bool {
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

// ignores reports whether the budget leaves the node out, since it has been NotReady for as
// long as the spec says. minServingNodes never does: it does not serve.
func (p *pass) ignores(v *view) answer {
	if p.strategy.IgnoreNotReadyAfter == 0 || !v.Wanted || v.Ready {
		return answer{}
	}
	return p.over(v.seen.Ready.Add(p.strategy.IgnoreNotReadyAfter))
}

// underWay are the nodes that are under way, and how many of them do not wait for their turn.
func (p *pass) underWay() (names []string, acting int) {
	for i := range p.views {
		if v := &p.views[i]; p.isUnderWay(v) {
			names = append(names, v.Name)
			if !v.starts || v.acted {
				acting++
			}
		}
	}
	return names, acting
}

// isUnderWay reports whether the node is of the wave, was touched and does not serve yet. One that is
// not waited for any more is not.
func (p *pass) isUnderWay(v *view) bool {
	// One that is returning is known to be by its place here alone, should another lead meanwhile.
	inTurn := v.Marked() || p.wave[v.Name] && (!v.starts || v.returning)
	touched := inTurn && !v.outOfTurn() || v.Detachment.Requested || p.midway(v)
	// One that is kept out uses up the budget, but is under way no more.
	touched = touched && !(v.keptOut() && v.Marked()) && !v.leftToOthers() && !v.ignored && !(v.emptied && !v.Marked())
	return v.Exists && touched && v.state != v1alpha1.NodeServing && v.state != ""
}

// midway reports whether an update that is to be changed still goes on, or somebody took the
// mark of a node whose detachment we still ask for: it keeps its place, and is finished
// even when the rollout is paused. One whose pods are all ready lacks nothing, though they
// may not have been so for long enough yet, nor does one that could not be detached for what
// it is to have now, with as many pods as it had.
func (p *pass) midway(v *view) bool {
	begun := !p.strategy.Detaching || v.Detachment.Requested
	if !begun || !v.Wanted || v.keptOut() || !v.starts || !p.wave[v.Name] {
		return false
	}
	whole, _, _ := v.complete(p.Now, 0)
	givenUp := p.takesOut() && p.timedOut[v.Name] && v.settled()
	return !whole && !givenUp
}

// takesNothing reports whether an update takes nothing more from the load balancer.
func (p *pass) takesNothing(v *view) bool { return v.Wanted && v.out() || p.finishes(v) }

// finishes reports whether what is left of an update that goes on takes nothing more. It does where pods
// are replaced while the node serves, and it is to have none instead.
func (p *pass) finishes(v *view) bool {
	empties := p.pods == 0 && !p.strategy.Detaching && !v.Detachment.Requested
	return p.midway(v) && !empties
}

// crippled reports whether the node fails a health check, for all that one of somebody else may say,
// and will until it is updated: somebody left it fewer pods than make it serve, or had it serve
// with none.
func (p *pass) crippled(v *view) bool {
	if !v.Wanted || v.Deployment == nil || !p.down(v) {
		return false
	}
	d := v.Deployment
	passes, _, _ := v.checksPass()
	return !passes && (d.Replicas < d.PodsPerNode || d.PodsPerNode == 0 && (p.pods > 0 || d.Replicas > 0))
}

// budgetExhausted names a node that uses up the budget although nothing is under way.
func (p *pass) budgetExhausted() Fault {
	for i := range p.views {
		if v := &p.views[i]; p.down(v) {
			reason, waysOut := v.reason, ""
			if !v.Ready {
				reason = "the Node is NotReady"
				waysOut = ": repair or delete it, raise maxUnavailableNodes or maxDegradedNodes, or set updateStrategy.rollingUpdate.ignoreNotReadyNodesAfterSeconds"
			}
			return Fault{v1alpha1.ReasonBudgetExhausted, fmt.Sprintf("node %s does not serve (%s), which uses up the budget%s", v.Name, reason, waysOut)}
		}
	}
	return Fault{}
}

// untouched reports whether a node was claimed and nothing shows that it was begun with. It uses up
// the budget until its claim is dropped: another controller may have begun with it, whose mark
// is yet to be seen.
func (p *pass) untouched(v *view) bool {
	claimed := p.wave[v.Name] && v.Deployment != nil && !v.Marked()
	return claimed && !later(v.seen.Updated, v.seen.Attached).After(v.seen.Claim)
}
