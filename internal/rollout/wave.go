package rollout

import (
	"fmt"
	"slices"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
)

// maxWave bounds the nodes that begin together, because their names are written
// into the status, which has room for all nodes that others take out beside them.
const maxWave = 1000

// continueWave lets nodes begin, within the budget and as minServingNodes permits. A node
// begins in two steps: its name is written into status.wave, and only when that
// is seen it is touched. So a controller that acts on an old status cannot
// begin more than the budget: its write of the status is refused.
//
// Invariant: a node is taken out, or made degraded, only if the nodes that do not
// serve, for whatever reason, are then at most maxNodes; where it is so already,
// only if at most maxNodes are then under way. And the serving nodes that are not
// under way never fall below the minimum by our doing.
func (p *planner) continueWave() {
	var allowed []*view
	for _, v := range p.waiting() {
		may := p.allowed(v)
		if p.take(may); may.yes {
			allowed = append(allowed, v)
		}
	}
	p.letBegin(p.candidates(allowed))
	p.dropClaims()
}

// letBegin takes nodes into the wave for as long as budget and minimum permit.
func (p *planner) letBegin(candidates []*view) {
	wave, acting := p.underWay()
	c := p.tally(len(wave), acting)
	for i := range p.views {
		if v := &p.views[i]; p.untouched(v) && !slices.Contains(candidates, v) {
			c = p.with(v, c)
		}
	}
	for _, v := range candidates {
		if len(wave) >= maxWave {
			continue
		}
		after, permitted := p.permits(v, c)
		p.take(permitted)
		switch c = after; {
		case permitted.yes:
			wave = append(wave, v.Name)
			if p.wave[v.Name] && !p.awaitsAnswer(v) {
				p.settle(v, p.begin(v))
			}
		case p.untouched(v):
			c = p.with(v, c)
		}
	}
	if c.blocked && !slices.ContainsFunc(wave, p.ready) {
		p.block(p.budgetExhausted())
	}
	slices.Sort(wave)
	p.out.Status.Wave = slices.Compact(wave)
}

// dropClaims stamps the Deployments of nodes whose claim ends before they were touched. A controller that was frozen before it touched one then finds that the
// Deployment has changed, and is refused (docs/adr/0001).
func (p *planner) dropClaims() {
	for _, name := range p.Status.Wave {
		v := p.find(name)
		if _, kept := slices.BinarySearch(p.out.Status.Wave, name); kept || v == nil || v.acted || !p.untouched(v) {
			continue
		}
		p.settle(v, verdict{}.act(Step{Action: Stamp, Reason: "its claim is dropped", At: p.moment(v.Node)}))
	}
}

// begin touches a node whose name stands in status.wave.
func (p *pass) begin(v *view) verdict {
	if !v.Wanted || v.keptOut() || p.takesOut() {
		return waits(v1alpha1.NodeDetaching, p.Now, "it is being marked").
			act(Step{Action: Mark, Mark: p.markValue(v), Reason: p.cause(v)})
	}
	return p.update(v, p.cause(v))
}

func (p *pass) cause(v *view) string {
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

// candidates are the nodes that are in their turn, in the order in which they may begin. Nodes that
// the wave names already come first, and among them those with a mark that may not have been seen
// yet; then nodes that do not serve; then all others in the order of the strategy.
func (p *pass) candidates(allowed []*view) []*view {
	turn, found := p.groupInTurn()
	out := slices.Clone(allowed)
	if found {
		out = slices.DeleteFunc(out, func(v *view) bool { return !p.inTurn(v, turn) })
	}
	slices.SortStableFunc(out, func(a, b *view) int { return p.precedence(a) - p.precedence(b) })
	return out
}

// waiting are the nodes that wait to begin, in their order.
func (p *pass) waiting() []*view {
	return p.ordered(func(v *view) bool { return v.starts && !v.acted })
}

// inTurn reports whether the node does not wait for its group. One of which nothing is taken does not,
// nor one that is halfway or that nothing else cures: it may be what holds up the others.
func (p *pass) inTurn(v *view, turn group) bool {
	return !v.Wanted || v.keptOut() || p.takesNothing(v) || p.midway(v) || p.crippled(v) || compareGroups(v.group, turn) <= 0
}

// precedence orders those that may begin.
func (p *pass) precedence(v *view) int {
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

// allowed reports whether nothing but budget and minimum keeps the node from beginning.
func (p *pass) allowed(v *view) answer {
	switch {
	case p.forbidden != "" && !p.midway(v):
		return answer{}
	case !v.Wanted:
		return p.mayLeave(v)
	case v.keptOut() && (!p.checkersCurrent() || !v.CheckersSettled):
		return answer{}
	case v.keptOut():
		return p.released(v)
	case !p.mayStart() && !p.midway(v):
		return answer{}
	case p.barred(v) && !p.midway(v), p.takesOut() && p.timedOut[v.Name]:
		return answer{}
	case !v.Ready:
		return no(v1alpha1.ReasonNodeNotReady, "node "+v.Name+" waits for its update until it is Ready")
	}
	accepted := p.accepted(v.target)
	if !accepted.yes && !p.awaitsAnswer(v) {
		return accepted
	}
	ready := p.checkersReady(v)
	ready.asks = accepted.asks
	return ready
}

// mayLeave is allowed for a node that leaves the set. It waits for health checkers that can read
// the API server: no other would acknowledge its mark.
func (p *pass) mayLeave(v *view) answer {
	switch {
	case p.Deletion != NotDeleted:
		return answer{yes: true}
	case p.checkersCurrent() && v.Ready && v.blind():
		return no(v1alpha1.ReasonHealthCheckerBlind, "node "+v.Name+" waits for its removal until its health checkers can read the API server")
	}
	return answer{yes: p.checkersCurrent()}
}

// checkersReady reports whether the node's health checkers can acknowledge a mark, and its detacher
// would notice that it is asked.
func (p *pass) checkersReady(v *view) answer {
	switch {
	case !p.checkersCurrent() || !v.CheckersSettled:
		return no(v1alpha1.ReasonHealthCheckerNotReady, "node "+v.Name+" waits for its update until its health checkers are up to date and ready")
	case v.blind():
		return no(v1alpha1.ReasonHealthCheckerBlind, "node "+v.Name+" waits for its update until its health checkers can read the API server")
	case v.unheard() != nil && !p.midway(v):
		// It would never acknowledge a mark, and the time-out of that halts the others.
		return no(v1alpha1.ReasonHealthCheckerNotReady, fmt.Sprintf("node %s waits for its update until its health check on port %d answers", v.Name, v.unheard().Port))
	}
	return p.released(v)
}

// awaitsAnswer reports whether nothing but the API server's answer about the template keeps a node
// from its first touch that was claimed before. A new leader asks for it anew, and drops no
// claim for that: it would stamp each node of a wave, and claim it again a moment later.
func (p *pass) awaitsAnswer(v *view) bool {
	return p.wave[v.Name] && v.Wanted && !v.keptOut() && v.target == p.Revision && !p.DryRun.Done
}

// released reports whether the detacher has let go of a node that we released: asked again before
// that, it would not notice and never answer. But a timestamp that no detacher removes must not
// hold up the node for ever.
func (p *pass) released(v *view) answer {
	until := v.seen.Attached.Add(p.strategy.DetachTimeout)
	if v.Detachment.Timestamp == "" || v.Detachment.Held || !p.Now.Before(until) {
		return answer{yes: true}
	}
	return answer{until: until}
}
