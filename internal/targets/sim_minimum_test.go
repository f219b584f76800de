package targets

import (
	"slices"
)

// checkMinimum: a call that takes out a healthy target of what serves on leaves
// enough others, by the inventory, without those that we took out since.
func (a *audit) checkMinimum(g *fakeGroup, c Call) {
	s := a.w.c.state[g.ID]
	seen := a.w.c.inventory[g.ID]
	batch := map[Target]bool{}
	for _, r := range c.Targets {
		batch[r.Target] = true
	}
	for _, r := range c.Targets {
		h, listed := seen[r.Target]
		if !listed || h.Condition != Healthy || !a.voluntary(s, r.Target) {
			continue
		}
		if _, in := g.targets[r.Target].at(a.w.now); !in {
			continue
		}
		a.count("voluntary")
		stays := func(o Target) bool {
			e := g.targets[o]
			return o != r.Target && !batch[o] && !(e.outBy == us && e.outAt.After(a.w.c.seenAt[g.ID]))
		}
		if !a.enough(g, seen, stays, "") {
			a.fault("%v is taken out, which leaves too few in the group", r.Target)
		}
		if g.CrossZone {
			continue
		}
		for _, zone := range []string{"a", "b"} {
			known := slices.ContainsFunc(values(seen), func(o Health) bool { return o.Zone == zone && o.Condition != Draining })
			if known && (h.Zone == zone || h.Zone == "") && !a.enough(g, seen, stays, zone) {
				a.fault("%v is taken out, which leaves too few in zone %s", r.Target, zone)
			}
		}
	}
}

func values(m map[Target]Health) (out []Health) {
	for _, h := range m {
		out = append(out, h)
	}
	return out
}

// enough counts those that stay in a zone, or in the group.
func (a *audit) enough(g *fakeGroup, seen map[Target]Health, stays func(Target) bool, zone string) bool {
	healthy, all := 0, 0
	for o, h := range seen {
		if h.Condition == Draining || !stays(o) || zone != "" && h.Zone != "" && h.Zone != zone {
			continue
		}
		all++
		if h.Condition == Healthy {
			healthy++
		}
	}
	return healthy >= 1 && healthy >= g.MinHealthy && healthy*100 >= g.MinHealthyPercent*all
}

func (a *audit) voluntary(s GroupState, t Target) bool {
	voluntary, named := false, false
	for _, w := range s.Wants {
		if w.Target == t {
			named = true
			voluntary = voluntary || !w.Ending || s.Now.Before(w.HookUntil)
		}
	}
	return voluntary || !named
}
