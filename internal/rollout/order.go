package rollout

import (
	"cmp"
	"slices"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
)

// assignTargets decides which revision each node should have. All but
// `partition` nodes get the present one: first those that have it already, then
// by order. The others stay as they are; a node without a Deployment gets the
// revision that the others stay at.
func (p *planner) assignTargets() {
	if p.DryRun.Refusal != "" {
		p.block(Fault{v1alpha1.ReasonDeploymentRefused, p.refusal()})
	}
	wanted := p.ordered(func(v *view) bool { return v.Wanted })
	slices.SortStableFunc(wanted, func(a, b *view) int { return cmp.Compare(p.distance(a), p.distance(b)) })
	stay, wrong := resolve("partition", p.strategy.Partition, len(wanted), len(wanted))
	p.block(wrong)
	for i, v := range wanted {
		v.target = p.goal
		if p.rejected == nil && (i >= len(wanted)-stay || p.DryRun.Refusal != "") {
			v.target = p.stayingAt(v)
		}
	}
}

// refused reports whether nodes wait for the present template because the API server refuses it.
func (p *planner) refused() bool {
	return p.DryRun.Refusal != "" && p.out.Status.UpdatedNodes < p.out.Status.DesiredNodes
}

// distance sorts nodes that have the present revision before those on the way
// to it, and these before the others. One that somebody wants out keeps its pods as they are,
// and one whose kubelet rejected the present ones keeps its place, in the wave or not. A claim by
// itself takes nobody's place: it may be for something else, and dropped for the place that it took.
func (p *pass) distance(v *view) int {
	switch d := v.Deployment; {
	case d != nil && d.Revision == p.goal:
		return 0
	case (v.Marked() || p.wave[v.Name] && !p.untouched(v)) && !v.keptOut(), d != nil && d.heldBack() && d.Hold.Revision == p.goal:
		return 1
	default:
		return 2
	}
}

// stayingAt is the revision that a node stays at.
func (p *pass) stayingAt(v *view) string {
	switch current := p.Status.CurrentRevision; {
	case v.Deployment != nil && p.Revisions[v.Deployment.Revision]:
		return v.Deployment.Revision
	case p.Revisions[current]:
		return current
	default:
		return p.goal
	}
}

// ordered are those of the nodes that are asked for, in the order in which they are updated:
// canaries, then by the value of the topology key, then by name.
func (p *pass) ordered(asked func(*view) bool) []*view {
	out := make([]*view, 0, len(p.views))
	for i := range p.views {
		if v := &p.views[i]; asked(v) {
			out = append(out, v)
		}
	}
	slices.SortStableFunc(out, func(a, b *view) int { return compareGroups(a.group, b.group) })
	return out
}

func (p *pass) groupOf(n *Node) group {
	g := group{afterCanaries: !p.canary(n)}
	if key := p.strategy.TopologyKey; key != "" {
		g.topology = n.Labels[key]
		g.unlabelled = g.topology == ""
	}
	return g
}

func (p *pass) canary(n *Node) bool {
	if len(p.strategy.CanaryNodeSelector) == 0 {
		return false
	}
	for key, value := range p.strategy.CanaryNodeSelector {
		if got, ok := n.Labels[key]; !ok || got != value {
			return false
		}
	}
	return true
}

// groupInTurn is the first group that is not finished; the nodes after it have to
// wait. A node that is NotReady holds up nobody, since it may never return, and neither does
// one that is not tried again, that an analysis of others keeps from beginning, or that waits for
// its health checkers, but for canaries: these are there to be waited for.
func (p *pass) groupInTurn() (first group, found bool) {
	for i := range p.views {
		v := &p.views[i]
		if !v.Wanted || !v.Ready || p.timedOut[v.Name] || found && compareGroups(v.group, first) >= 0 {
			continue
		}
		inWave := p.wave[v.Name] && v.state != v1alpha1.NodeServing && !v.emptied && !v.leftToOthers()
		stalls := v.group.afterCanaries && (v.blind() || !v.CheckersSettled || v.unheard() != nil)
		if inWave || v.starts && !p.barred(v) && !stalls {
			first, found = v.group, true
		}
	}
	return first, found
}
