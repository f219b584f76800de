package targets

import (
	"slices"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
)

// borrow adds what an Attachment wants of the group: its instance's targets out, or those
// that were taken out in again. Targets that a TargetGroupAttachment speaks of come and go
// with that. Only as ourselves are nodes looked for in groups that nobody names, and a group
// is read for a node only where it was found in it.
func (p *pass) borrow(g *group, n *nodeAttachment) {
	if g.Type != Instance || g.LeftAlone != "" || !p.mayBorrow(g, n) {
		return
	}
	g.nodes = append(g.nodes, n)
	want := func(r Registration) {
		g.borrowers[r.Target] = n.ref
		g.wants = append(g.wants, Want{
			Registration: r, Owner: n.Name, In: !n.detach(), Why: "node " + n.Name + " is detached", Seen: true, Borrowed: true,
		})
	}
	for _, h := range g.held {
		// Another machine of the node's name has no use for what the one before had.
		if h.by == n.ref && !g.spoken(h.Target) && (n.detach() || h.ID == n.Spec.Instance) {
			want(h.Registration)
		}
	}
	if !n.detach() || n.Spec.Instance == "" || !g.IsSwept(p.DetachTagged) {
		return
	}
	for _, target := range g.foundOf(p, n.Spec.Instance) {
		if _, listed := g.Registered[target]; !listed || g.spoken(target) || len(g.at[target]) > 0 && (g.binding == nil || g.heldBy(target, n.ref)) {
			continue
		}
		if !g.heldBy(target, n.ref) {
			if !p.hasRoom(g, n) {
				g.full = append(g.full, n)
				return
			}
			n.onRecord++
		}
		g.adds[n.ref] = g.adds[n.ref] || !g.holds(n.ref)
		want(Registration{Target: target})
	}
	for _, target := range g.foundOf(p, n.Spec.Instance) {
		if _, listed := g.Registered[target]; !listed && len(g.at[target]) == 0 && !g.spoken(target) {
			// Somebody else took it out a moment ago.
			want(Registration{Target: target})
		}
	}
}

// mayBorrow reports whether what a node has in the group is looked for: somebody is on the group,
// something is on record, be it unreadable, or the node was found there.
func (p *pass) mayBorrow(g *group, n *nodeAttachment) bool {
	switch {
	case g.unreadable != "",
		slices.ContainsFunc(n.Status.Groups, func(a v1alpha1.AttachedGroup) bool { return a.ID == g.ID }),
		slices.ContainsFunc(g.parts, func(t *part) bool { return t.matches }):
		return true
	}
	return g.role == (v1alpha1.AssumeRole{}) && n.detach() && g.IsSwept(p.DetachTagged) && p.foundAt(g, n.Spec.Instance)
}

// foundAt reports whether an instance was found in the group by the last look, or read, or has been
// seen to leave it.
func (p *pass) foundAt(g *group, instance string) bool {
	return len(g.foundOf(p, instance)) > 0 || g.Instances[instance]
}

// foundOf are the targets of an instance that are registered, or were seen to leave.
func (g *group) foundOf(p *pass, instance string) []Target {
	if g.found == nil {
		g.found = map[string][]Target{}
		for t := range g.Registered {
			g.found[t.ID] = append(g.found[t.ID], t)
		}
		for t := range p.Memory.Groups[g.key].Sightings {
			if _, listed := g.Registered[t]; !listed {
				g.found[t.ID] = append(g.found[t.ID], t)
			}
		}
		for _, all := range g.found {
			slices.SortFunc(all, compareTargets)
		}
	}
	return g.found[instance]
}
