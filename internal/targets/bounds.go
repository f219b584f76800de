package targets

import (
	"fmt"
	"maps"
	"slices"
)

// mostGroups and mostNodeGroups are how many groups the statuses of the two kinds of
// objects hold (maxItems in their types). mostTargets is how many targets the first has room for
// when all of them leave, which takes some 130 bytes for each: etcd takes 1.5 MiB
// (https://etcd.io/docs/v3.6/dev-guide/limit/).
const (
	mostGroups     = 100
	mostNodeGroups = 200
	mostTargets    = 10000
	// mostNodeTargets is the same of an Attachment, which may name each a second time as unhealthy.
	mostNodeTargets = 5000
)

// bound has a part ask for no more than the status of its object has room for: what cannot be recorded
// is neither registered nor taken out. A group that is new to it is taken up as a whole or not at all;
// in one that it is on already all that is on record goes on, and there is room for some more, or none.
func (p *pass) bound(g *group, t *part) {
	if g.binding != nil || !t.asks() {
		return
	}
	added, held := g.addedBy(t), g.holds(t.ref)
	room := mostTargets - t.onRecord
	switch {
	case len(added) == 0 && !t.owns() && !held:
		return
	case !held && p.recorded(t.ref, len(t.Object.Status.Groups)) >= mostGroups:
		t.full = fmt.Sprintf("it is on more than %d target groups, which is all that its status holds: nothing is registered with %s", mostGroups, g.Name)
	case !held && len(added) > room:
		t.full = fmt.Sprintf("it has more than %d targets, which is all that its status holds: nothing is registered with %s", mostTargets, g.Name)
	case len(added) > room:
		t.full = fmt.Sprintf("it has more than %d targets, which is all that its status holds: %d of %s are not registered", mostTargets, len(added)-max(room, 0), g.Name)
		t.forgo(g, added[max(room, 0):])
		added = added[:max(room, 0)]
	}
	if t.full != "" && t.left == nil {
		return
	}
	if !held {
		g.adds[t.ref] = true
	}
	t.onRecord += len(added)
	p.boundStrangers(g, t, added)
}

// boundStrangers has a part take nothing of others out of its group where its status has no room for
// that.
func (p *pass) boundStrangers(g *group, t *part, added []Target) {
	if !t.owns() {
		return
	}
	strangers := 0
	for target := range g.Registered {
		if _, own := slices.BinarySearchFunc(added, target, compareTargets); !own && len(g.at[target]) == 0 {
			strangers++
		}
	}
	if t.onRecord+strangers > mostTargets {
		t.crowded = true
		t.faults = append(t.faults, fmt.Sprintf("others have %d targets in %s, and its status holds %d: they are not taken out", strangers, g.Name, mostTargets))
		return
	}
	t.onRecord += strangers
}

// addedBy are the targets that a part has not on record and that are to be, in their order. Several
// pods may share one, and what ended is to be on record for nobody.
func (g *group) addedBy(t *part) []Target {
	added := map[Target]bool{}
	for _, m := range t.members {
		target := g.target(m.Target)
		if !m.silent && (m.In || len(g.at[target]) > 0) && !g.heldBy(target, t.ref) {
			added[target] = true
		}
	}
	return slices.SortedFunc(maps.Keys(added), compareTargets)
}

// forgo has a part ask nothing of some targets.
func (t *part) forgo(g *group, some []Target) {
	t.left = map[Target]bool{}
	for _, target := range some {
		t.left[target] = true
	}
	t.members = slices.DeleteFunc(t.members, func(m member) bool { return t.left[g.target(m.Target)] })
}

// hasRoom reports whether the status of an Attachment holds another target in a group.
func (p *pass) hasRoom(g *group, n *nodeAttachment) bool {
	return n.onRecord < mostNodeTargets && (g.holds(n.ref) || g.adds[n.ref] || p.recorded(n.ref, len(n.Status.Groups)) < mostNodeGroups)
}

// recorded is how many groups the status of an object is to hold, by what is decided.
func (p *pass) recorded(by Ref, before int) int {
	n := before
	for _, g := range p.groups {
		if g.adds[by] {
			n++
		}
	}
	return n
}
