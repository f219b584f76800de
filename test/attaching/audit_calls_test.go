package attaching

import (
	"slices"
	"strings"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/targets"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// registers is a call as it is sent.
func (a *audit) registers(l *leader, g *group, t targets.Target) {
	a.refresh()
	a.holdsLease(l, "registers", g, t)
	if told := g.told[l]; !told.IsZero() && time.Since(told) > patienceOfCalls && g.members[t] == nil && !a.hardlyMissed(told, place{g, t}) {
		a.failf("%s is new, and registered with %s, of which %s was told %s ago that it takes none %s", t, g.Name, l.name, time.Since(told).Round(time.Second), a.facts(place{g, t}))
	}
	if n := a.w.node(a.on[t.ID]); n != nil && a.w.keptOut(n.name) && a.lives(t) && !a.failed(t) {
		stamped := a.w.object(n) != nil && a.w.object(n).Annotations[v1alpha1.AnnotationDetachmentTimestamp] != ""
		if stamped && (g.Type == targets.IP || n.instance == t.ID) {
			a.failf("%s is registered with %s by %s while node %s is said to be out %s", t, g.Name, l.name, n.name, a.facts(place{g, t}))
		}
	}
	a.wantedBack(l, place{g, t})
	for _, p := range a.w.pods {
		if !p.hook || p.ends || p.object() == nil || g.Type != targets.IP || p.address != t.ID {
			continue
		}
		if seen, _ := l.views["Pod"].held[p.name].(*corev1.Pod); seen == nil || seen.Status.PodIP != t.ID {
			// It has the address of the one before, for which it is registered, and its watch is late.
			continue
		}
		if p.object().Annotations[v1alpha1.AnnotationTargets] != v1alpha1.TargetsIn {
			a.failf("%s is registered with %s before the drain hook of pod %s was told %s", t, g.Name, p.name, a.facts(place{g, t}))
		}
	}
}

// hardlyMissed reports whether what nobody registered, and is on record, was being taken out before
// a leader that was told that its group takes nothing new had missed it there for as long as a call
// of another may take to arrive, or its load balancer to hear of one. What is taken out for its
// node comes back with it.
func (a *audit) hardlyMissed(told time.Time, at place) bool {
	begun, any := a.begun[at.leaving()]
	return any && begun.at.Sub(told) < max(patienceOfCalls, a.w.settleTime(at.group.Balancer))+2*readEvery
}

// wantedBack is that who registers a target can take it for wanted. What is on record of a node comes back
// with it, also where nobody can tell by now who wants it; and what a minimum holds is kept.
func (a *audit) wantedBack(l *leader, at place) {
	g, t := at.group, at.target
	if !a.since[at].IsZero() || !a.until[at].Before(l.asOf()) || !a.ends[t.ID].Before(l.asOf()) || !a.named[t.ID].Before(l.asOf()) || g.holds(t) || a.movesOn(l, a.on[t.ID]) {
		return
	}
	if g.Type == targets.Instance && a.anyUnnamed(l) && len(a.w.recordedBy(at)) > 0 {
		// It may be the machine of a Node that does not say which it is, of which somebody has it.
		return
	}
	if a.justEnds(l, at) || a.neverAtOnce(l, at) || a.isKept(at) {
		return
	}
	for other := range g.members {
		zone := a.zone(l, g, t)
		same := g.CrossZone || zone != "" && a.zone(l, g, other) == zone
		counts := g.healthy(other) && !a.justBecameHealthy(l, g, other) && !a.w.leavesOnRecord(place{g, other})
		if other != t && same && counts {
			a.failf("%s is registered with %s, and nobody wants it there %s", t, g.Name, a.facts(at))
			return
		}
	}
}

// justEnds reports whether what somebody speaks of is out only since the deletion of its pod began,
// which a leader may not have seen yet: where a group attachment's port changes in that very
// moment, it was never wanted by the world.
func (a *audit) justEnds(l *leader, at place) bool {
	return at.group.Type == targets.IP && a.w.wanted()[at] != nil && slices.ContainsFunc(a.w.pods, func(p *pod) bool {
		return p.address == at.target.ID && p.ends && p.object() != nil && p.object().DeletionTimestamp != nil && p.endedAt.After(l.asOf())
	})
}

// neverAtOnce reports whether what a leader may have seen was never so in the world: a group attachment
// has a new port, of what it selected, or what served there, until a moment ago.
func (a *audit) neverAtOnce(l *leader, at place) bool {
	ported := slices.ContainsFunc(a.w.groupAttachments(), func(c *v1alpha1.TargetGroupAttachment) bool {
		return speaksOf(c, at.group) && c.Spec.Service == nil && c.Spec.Port.IntVal == at.target.Port && !a.ported[c.Name].Before(l.asOf())
	})
	if !ported {
		return false
	}
	for other, until := range a.until {
		if other.group == at.group && other.target.ID == at.target.ID && !until.Before(l.asOf()) {
			return true
		}
	}
	return false
}

// isKept reports whether a group attachment has a target on record, and not as one that leaves, of which
// it selects what serves there, by a port at which that has no target: what it had of it before
// stays.
func (a *audit) isKept(at place) bool {
	return slices.ContainsFunc(a.w.groupAttachments(), func(c *v1alpha1.TargetGroupAttachment) bool {
		stays := slices.ContainsFunc(c.Status.Groups, func(g v1alpha1.AttachedGroup) bool {
			return g.ID == at.group.ID && slices.Contains(g.Targets, at.target.String())
		})
		return stays && speaksOf(c, at.group) && slices.ContainsFunc(a.w.pods, func(p *pod) bool {
			_, reached := a.w.targetOf(p, c, at.group)
			there := p.address == at.target.ID || at.group.Type == targets.Instance && a.w.node(p.node).instance == at.target.ID
			return p.set == setOf(c) && there && !p.ends && !reached
		})
	})
}

// ports is a change of a group attachment's port.
func (a *audit) ports(before, after client.Object) {
	was, is := typed[*v1alpha1.TargetGroupAttachment](before), typed[*v1alpha1.TargetGroupAttachment](after)
	if was != nil && is != nil && was.Spec.Port != is.Spec.Port {
		a.ported[is.Name] = time.Now()
	}
}

// movesOn reports whether a node has an Attachment, or had one until a moment ago, as a leader may see it.
func (a *audit) movesOn(l *leader, node string) bool {
	return a.w.attachment(node) != nil || !a.returned[node].Before(l.asOf())
}

// anyUnnamed reports whether a leader may take some Node for one that does not say which machine it is.
func (a *audit) anyUnnamed(l *leader) bool {
	return slices.ContainsFunc(a.w.nodes, func(n *node) bool {
		o := a.w.object(n)
		return o == nil || o.Spec.ProviderID == "" || !a.unnamed[n.name].Before(l.asOf())
	})
}

// patienceOfCalls is longer than a decision lasts.
const patienceOfCalls = 10 * time.Second

func (a *audit) holdsLease(l *leader, does string, g *group, t targets.Target) {
	if !l.lostAt.IsZero() {
		a.failf("%s %s %s with %s, and has lost its lease %s ago", l.name, does, t, g.Name, time.Since(l.lostAt).Round(time.Second))
	}
}

// deregisters is a call as it is sent.
func (a *audit) deregisters(l *leader, g *group, list []targets.Target) {
	a.refresh()
	for _, t := range list {
		a.holdsLease(l, "deregisters", g, t)
		at, m := place{g, t}, g.members[t]
		if m == nil || !g.holds(t) {
			continue
		}
		if since := a.since[at]; !g.seemsClosed() && !since.IsZero() && since.Before(l.asOf()) {
			a.failf("%s is deregistered from %s while it is wanted there since %s ago %s", t, g.Name, time.Since(since).Round(time.Second), a.facts(at))
		}
		if p := a.unseen(l, at); !g.seemsClosed() && p != nil {
			a.failf("%s is deregistered from %s, where pod %s serves, which %s was never shown %s", t, g.Name, p.name, l.name, a.facts(at))
		}
		if a.w.whole(g) && !a.heldBy(at) {
			// Who gave us the group wants no others in it. What an Attachment has on record is taken out
			// for its node, as when the group attachment that has the group is being deleted, and is put back.
			m.theirs = false
		}
		if !a.mayMove(l, at) {
			a.failf("%s of %s is somebody else's, and is deregistered %s", t, g.Name, a.facts(at))
		}
	}
	a.minimum(l, g, list)
}

// unseen is a pod for which a target is wanted in, and of which a leader knows nothing yet but
// what another one has recorded: a pod that was not there yet is not one that is gone.
func (a *audit) unseen(l *leader, at place) *pod {
	s := a.w.wanted()[at]
	if s == nil || !s.in || at.group.Type != targets.IP || a.begun[at.leaving()].by != l {
		return nil
	}
	for _, name := range s.by {
		now, seen := a.w.groupAttachment(name), l.views["TargetGroupAttachment"].held[name]
		if seen == nil || seen.GetUID() != now.UID || seen.GetGeneration() != now.Generation || seen.GetDeletionTimestamp() != nil {
			return nil
		}
	}
	if m := at.group.members[at.target]; a.ends[at.target.ID].After(l.listed) || m.inAt.Before(a.since[at]) {
		// It is taken out for the one before, for which it was registered: the leader was shown the end of
		// that, or its first lists are of after it.
		return nil
	}
	for _, p := range a.w.pods {
		if p.address == at.target.ID && !p.ends && l.views["Pod"].held[p.name] == nil {
			return p
		}
	}
	return nil
}

// leavingTarget is a target on record as one that leaves, in a group, beginning by whom and when that began.
type (
	leavingTarget struct{ group, target string }
	beginning     struct {
		by *leader
		at time.Time
	}
)

func (at place) leaving() leavingTarget { return leavingTarget{at.group.ID, at.target.String()} }

// begins notes by whom targets of a group attachment are being taken out, and when that began.
func (a *audit) begins(before, after *v1alpha1.TargetGroupAttachment) {
	for _, g := range after.Status.Groups {
		for _, l := range g.Leaving {
			stood := func(o v1alpha1.AttachedGroup) bool {
				return o.ID == g.ID && slices.ContainsFunc(o.Leaving, func(o v1alpha1.LeavingTarget) bool { return o.Target == l.Target })
			}
			if name, _, _ := strings.Cut(l.Target, "@"); !slices.ContainsFunc(before.Status.Groups, stood) {
				a.begun[leavingTarget{g.ID, name}] = beginning{a.writer, time.Now()}
			}
		}
	}
}

// mayMove reports whether a target is ours to take out: we registered it, somebody spoke of it,
// its node is detached, or the group is ours.
func (a *audit) mayMove(l *leader, at place) bool {
	m := at.group.members[at.target]
	if m.by == us && !m.theirs || !a.spoke[at].IsZero() {
		return true
	}
	if a.w.whole(at.group) {
		return true
	}
	node := a.on[at.target.ID]
	return a.w.attachment(node) != nil || a.asked[node].After(l.asOf())
}

// minimum is that a call leaves a healthy target, in each zone where no client crosses them,
// where what it takes out goes on serving. Who deletes a group attachment wants all of it out.
func (a *audit) minimum(l *leader, g *group, list []targets.Target) {
	for _, t := range list {
		if !g.healthy(t) || !a.goesOn(g, t) || a.deleted(place{g, t}) || a.justBecameHealthy(l, g, t) {
			continue
		}
		left, zone := 0, a.zone(l, g, t)
		for other := range g.members {
			// Where nobody can tell the zone of one, another zone's may be its own.
			elsewhere := a.zone(l, g, other)
			same := g.CrossZone || zone == "" || elsewhere == zone || elsewhere == ""
			if same && !slices.Contains(list, other) && (g.healthy(other) || a.wasHealthy(l, g, other)) {
				left++
			}
		}
		if left == 0 {
			a.failf("%s is deregistered from %s, which has no other healthy target %s", t, g.Name, a.facts(place{g, t}))
		}
	}
}

// zone is where what serves at a target is, empty where a leader cannot have known it: of
// instances only a Node tells it that says which machine it is.
func (a *audit) zone(l *leader, g *group, t targets.Target) string {
	n := a.w.node(a.on[t.ID])
	if n == nil || g.Type == targets.IP {
		return a.w.zoneOf(t)
	}
	o := a.w.object(n)
	switch {
	case a.named[t.ID].After(l.began.Add(decidedBy)):
		// It has seen the Node.
	case o == nil || o.Spec.ProviderID == "" || n.instance != t.ID:
		return ""
	case !a.unnamed[n.name].Before(l.began) && !a.unnamed[n.name].Before(l.asOf()):
		// It says so since a moment ago. As it was when it began to lead it reads it before.
		return ""
	}
	return n.zone
}

// deleted reports whether every group attachment that has a place on record is being deleted.
func (a *audit) deleted(at place) bool {
	by := a.w.recordedBy(at)
	return len(by) > 0 && !slices.ContainsFunc(by, func(name string) bool { return a.w.groupAttachment(name).DeletionTimestamp == nil })
}

// readEvery is more than the time between two reads of a group in which something moves.
const readEvery = 10 * time.Second

// goesOn reports whether what serves at a target is not about to end.
func (a *audit) goesOn(g *group, t targets.Target) bool {
	if g.Type == targets.IP {
		return slices.ContainsFunc(a.w.pods, func(p *pod) bool { return p.address == t.ID && p.goesOn() })
	}
	return t.Port == nodePort || t.Port == foreignPort ||
		slices.ContainsFunc(a.w.pods, func(p *pod) bool { return p.node == a.on[t.ID] && p.takes(t.Port) && p.goesOn() })
}

// justBecameHealthy reports whether a target may not have looked healthy when the call was decided.
func (a *audit) justBecameHealthy(l *leader, g *group, t targets.Target) bool {
	seen := l.asOf().Add(-readEvery)
	return g.members[t].healthyAt.After(seen) || a.starts[t.ID].After(seen) || g.Type == targets.Instance && a.starts[a.on[t.ID]].After(seen)
}

// wasHealthy reports whether a target may have looked healthy when the call was decided.
func (a *audit) wasHealthy(l *leader, g *group, t targets.Target) bool {
	seen := l.asOf().Add(-readEvery)
	m := g.members[t]
	if m.outBy == them && m.outAt.After(seen) {
		return true
	}
	if !g.holds(t) || time.Now().Before(m.healthyAt) {
		return false
	}
	return a.ends[t.ID].After(seen) || g.Type == targets.Instance && a.ends[a.on[t.ID]].After(seen)
}
