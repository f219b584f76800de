package attaching

import (
	"slices"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/targets"
	corev1 "k8s.io/api/core/v1"
)

// attachment is a write to an Attachment.
func (a *audit) attachment(before, after *v1alpha1.Attachment) {
	if before != nil && after != nil && after.Status.Done && !before.Status.Done {
		a.said[after.Name] = time.Now()
	}
	switch {
	case after == nil:
		a.returned[before.Name] = time.Now()
		a.forgotten(before)
	case before == nil || before.Generation != after.Generation:
		a.asked[after.Name] = time.Now()
	case after.Spec.Wanted == v1alpha1.WantDetached && after.Status.Done && !before.Status.Done && after.Answered():
		a.mustBeOut(a.writer, after.Name, "done")
	}
	if before == nil {
		a.leavesEnough(after.Name)
	}
	if before != nil && after != nil {
		a.dropped("Attachment "+after.Name, "", before.Status.Groups, after.Status.Groups)
	}
}

// leavesEnough is that as many nodes stay attached as must when one more is taken out, by the
// objects as they stand: but for Nodes that who takes it out cannot have known to be gone.
func (a *audit) leavesEnough(node string) {
	left := 0
	for _, n := range a.w.nodes {
		there := a.w.object(n) != nil || a.removed[n.name].After(a.writer.asOf())
		if n.name != node && there && a.w.attachment(n.name) == nil {
			left++
		}
	}
	if left < a.w.scenario.minAttached {
		a.failf("%s is taken out, and %d other nodes stay attached of %d that must", node, left, a.w.scenario.minAttached)
	}
}

// node is a write to a Node.
func (a *audit) node(before, after *corev1.Node) {
	if before.Annotations[v1alpha1.AnnotationDetachmentTimestamp] == "" && after.Annotations[v1alpha1.AnnotationDetachmentTimestamp] != "" {
		a.mustBeOut(a.writer, after.Name, "out, by its timestamp,")
		a.webhookMustBeOut(after.Name)
	}
}

func (a *audit) webhookMustBeOut(node string) {
	if a.w.scenario.webhook && !a.w.edge.member(node).out {
		a.failf("%s is said to be out while the webhook's load balancer sends traffic to it", node)
	}
}

// stops is a pod that is stopped since its node is out.
func (a *audit) stops(l *leader, p *pod) {
	a.refresh()
	if !l.lostAt.IsZero() {
		a.failf("pod %s is stopped by a leader that has lost its lease %s ago", p.name, time.Since(l.lostAt))
	}
	a.mustBeOut(l, p.node, "out, and its pods are stopped,")
	a.webhookMustBeOut(p.node)
}

// mustBeOut is that no load balancer that concerns us sends a new connection to a node, as far as a leader
// can know.
func (a *audit) mustBeOut(l *leader, node, what string) {
	for _, g := range a.w.groups() {
		for _, t := range g.all() {
			m := g.members[t]
			if !g.routes(t) || a.on[t.ID] != node || !a.lives(t) || a.failed(t) || !a.concerns(g, t) {
				continue
			}
			if m.by == them && (m.inAt.After(a.shown(g)) || m.outBy == them && !g.holds(t) && !a.sawIn(l, g, m)) {
				// Somebody else registered it since the group was last read, or took it out before it was.
				continue
			}
			if g.Type == targets.IP && a.w.wanted()[place{g, t}] == nil && !l.shows(t.ID, node) {
				// Somebody's pod has the address of one that was on another node, and its watch is late.
				continue
			}
			a.failf("%s is said to be %s while %s can send new connections to %s %s", node, what, g.Name, t, a.facts(place{g, t}))
			return
		}
	}
}

// sawIn reports whether any list showed a leader what somebody else took out while it was in.
func (a *audit) sawIn(l *leader, g *group, m *membership) bool {
	return slices.ContainsFunc(g.lists[l], func(shown listed) bool { return !shown.asOf.Before(m.inAt) && shown.asOf.Before(m.outAt) })
}

// takesIn is how long it takes until what a list shows is known to all loops of a leader.
const takesIn = time.Second

// shown is when what the writer knows of a group was so.
func (a *audit) shown(g *group) (asOf time.Time) {
	if a.writer == nil {
		return time.Now()
	}
	for _, l := range g.lists[a.writer] {
		if time.Since(l.sent) > takesIn {
			asOf = l.asOf
		}
	}
	return asOf
}

// concerns reports whether a target has to be out where its node is: instances as ourselves in
// every group, as others where a group attachment is on the group, or an Attachment has it on record; addresses
// that we registered.
func (a *audit) concerns(g *group, t targets.Target) bool {
	if g.Type == targets.Instance && g.role.name == "" && !g.overlooked() {
		return true
	}
	named := slices.ContainsFunc(a.w.groupAttachments(), func(c *v1alpha1.TargetGroupAttachment) bool { return selects(c, g) })
	return g.Type == targets.Instance && (named || a.heldBy(place{g, t})) || g.members[t].by == us && !g.members[t].theirs || !a.since[place{g, t}].IsZero()
}

// forgotten is an Attachment that is deleted: what was taken out must be back.
func (a *audit) forgotten(before *v1alpha1.Attachment) {
	n := a.w.node(before.Name)
	if n == nil || n.gone || n.instance != before.Spec.Instance {
		return
	}
	for _, list := range before.Status.Groups {
		for _, g := range a.w.groups() {
			for _, t := range g.all() {
				m := g.members[t]
				if g.ID == list.ID && t.ID == n.instance && slices.Contains(recordsOf(list), t.String()) && m.theirs && m.outBy == us && !g.holds(t) {
					a.failf("Attachment %s is deleted while %s is out of %s %s", before.Name, t, g.Name, a.facts(place{g, t}))
				}
			}
		}
	}
	a.cameBack(before.Name)
	if a.w.scenario.webhook && a.w.edge.member(before.Name).out {
		a.failf("Attachment %s is deleted while the webhook's load balancer leaves it out", before.Name)
	}
}

// cameBack is that what we took out of a node that returns is registered again where a group
// attachment wants it, by all that who says so can know.
func (a *audit) cameBack(node string) {
	for at, s := range a.w.wanted() {
		g, m := at.group, at.group.members[at.target]
		if a.on[at.target.ID] != node || !s.in || m == nil || m.by != us || m.outBy != us || g.holds(at.target) {
			continue
		}
		if m.outOf != node || a.madeSince(m.outAt, at) {
			// A pod has an address by now that was taken out of another node, or of another pod: that comes
			// in like any new one.
			continue
		}
		known := !a.since[at].IsZero() && a.since[at].Before(a.writer.asOf()) && !g.seemsClosed() && !g.overlooked() && g.role.openSince(a.said[node].Add(-listsAgain)) && a.w.serviceMade.Before(a.writer.asOf())
		if known && !a.w.broken(at, s.by) {
			a.failf("Attachment %s is deleted while %s is out of %s %s", node, at.target, g.Name, a.facts(at))
		}
	}
}

// madeSince reports whether the pod at a target's address was made after a moment.
func (a *audit) madeSince(moment time.Time, at place) bool {
	return at.group.Type == targets.IP && slices.ContainsFunc(a.w.pods, func(p *pod) bool {
		return p.address == at.target.ID && !p.ends && p.object() != nil && p.object().CreationTimestamp.After(moment)
	})
}
