package controller

import (
	"slices"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/rollout"
)

// What becomes of the answers of health-check ports by what is written to the DaemonSets
// behind them.

// portCloses judges the end of a health checker whose DaemonSet was deleted. A port that
// came back into the spec a moment ago may have been decided upon before, and of one that
// does not answer nobody knows who asks it.
func (a *audit) portCloses(c *simCheck) {
	until, removed := a.w.asked[c.port]
	d := a.w.deployments[c.node.name]
	if !c.up || c.hangs || !c.node.alive || !c.serving || d == nil || a.deletion() != rollout.NotDeleted {
		return
	}
	if removed && a.w.now.Before(until) && !a.w.released[c.port] {
		a.fault("port %d of %s closes while the load balancer asks it", c.port, c.node.name)
	}
	if !removed && a.w.now.After(a.w.wanted[c.port].Add(aMoment)) {
		a.fault("port %d of %s closes although it is in the spec", c.port, c.node.name)
	}
}

// checkCheckers: no health checker is deleted while its answer keeps traffic away from pods,
// unless somebody released its port, and no node is taken out while its checker is being
// replaced.
func (a *audit) checkCheckers(seen *picture, s rollout.Step) {
	if s.Action == rollout.DeleteChecker && seen.Deletion == rollout.NotDeleted && !a.w.released[s.Port] {
		for _, name := range a.w.order() {
			if n := a.w.nodes[name]; !seen.givenUp(name) && a.keepsTrafficAway(n, seen.taken) {
				a.fault("%s while %s is marked", s, name)
			}
		}
	}
	n := seen.node(s.Node)
	if s.Action != rollout.Mark || s.Drained || outOfTurn(string(s.Mark)) || !n.Wanted || n.Marked() || seen.Deletion != rollout.NotDeleted {
		return
	}
	w := a.w.nodes[s.Node]
	if w == nil {
		return
	}
	for _, c := range w.checks {
		// One that retires may be down: its answer counts all the same.
		if slices.Contains(seen.Spec.HealthCheckNodePorts, c.port) && !c.settled(a.w) && c.movedAt.Before(seen.taken) && a.w.daemonSets[c.port] != nil && a.w.daemonSets[c.port].movedAt.Before(seen.taken) {
			a.fault("%s while its health checker is being replaced", s)
		}
	}
}

// keepsTrafficAway reports whether the answers of a node's health checkers keep traffic from pods
// that are ready, and did at a time. The new checker of a node that is dead, or out for as long
// as somebody likes, by a mark of theirs too, fails until it has read the mark.
func (a *audit) keepsTrafficAway(n *simNode, then time.Time) bool {
	d := a.w.deployments[n.name]
	if d != nil {
		mark, _ := d.mark()
		// Nobody finds one under the key of before, of which somebody took the record.
		_, found := v1alpha1.MarkOf(d.api.Annotations, a.w.spec().Strategy().MarkKey)
		if _, ours := v1alpha1.Mark(mark).At(); !ours || d.unrecorded && !found {
			return false
		}
	}
	return n.ready() && d != nil && !d.keptOut() && d.marked() && d.markedAt.Before(then) && a.w.readyPods(n.name) > 0 && !a.readyUnseen(n.name)
}

// givenUp reports whether somebody kept the node out, or it was dead, when the picture was taken. They may
// let it go, and it may be back, before who writes has heard of that.
func (p *picture) givenUp(name string) bool {
	if p == nil {
		return false
	}
	n := p.node(name)
	return n != nil && (!n.Ready || n.Deployment != nil && n.Deployment.Detached)
}

// takesOver: no health checker is replaced while its answer keeps traffic away, and did when
// the new template of them was decided upon.
func (a *audit) takesOver(c *simCheck) {
	if s := a.w.daemonSets[c.port]; s != nil && c.needed && a.keepsTrafficAway(c.node, s.decidedAt) {
		a.fault("the health checker of port %d on %s is replaced while the node is marked", c.port, c.node.name)
	}
}

// moves: another template of health checkers, by its node selector or its tolerations, takes
// none away that answers for pods that serve.
func (a *audit) moves(s *simDaemonSet, write func()) {
	var had []*simCheck
	for _, name := range a.w.order() {
		if c := a.w.nodes[name].checks[s.port]; c != nil && s.api != nil && s.runsOn(c.node) {
			had = append(had, c)
		}
	}
	write()
	for _, c := range had {
		c.needed = a.keepsTrafficAway(c.node, s.decidedAt) && !(a.w.writer != nil && a.w.writer.seen.givenUp(c.node.name))
		d := a.w.deployments[c.node.name]
		if c.up && c.serving && c.node.alive && !s.runsOn(c.node) && d != nil && a.deletion() == rollout.NotDeleted {
			a.fault("the health checker of port %d leaves %s, which serves", c.port, c.node.name)
		}
	}
}
