package targets

import (
	"fmt"
	"slices"
)

// leftovers are what is amiss at the end, when all faults have ended and all had
// its time.
func (a *audit) leftovers(g *fakeGroup) (out []string) {
	w := a.w
	wanted := map[Target]Want{}
	for _, want := range withPorts(w.wants(g, func(string) bool { return true }), g.Port) {
		if old, more := wanted[want.Target]; !more || !old.In {
			wanted[want.Target] = want
		}
	}
	say := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	room := g.quota >= 20
	phases := map[Target]Report{}
	for _, r := range w.c.last[g.ID].Reports {
		phases[r.Target] = r
	}
	for t, want := range wanted {
		_, in := g.targets[t].at(w.now)
		phase := phases[t].Phase
		switch {
		case want.In && (w.invalid[t.ID] || !room):
		case want.In && !in:
			say("%v is wanted and out (%s)", t, phase)
		case want.In && phase != Attached && !w.stopped[t.ID]:
			say("%v is wanted, in, and %s", t, phase)
		case !want.In && in && phase != Foreign && !a.mustHold(g, t):
			say("%v is to be out and in (%s)", t, phase)
		case !want.In && !in && phase != Stopped && phase != Absent:
			say("%v is out for long, and %s", t, phase)
		}
	}
	for t, e := range g.targets {
		_, named := wanted[t]
		_, in := e.at(w.now)
		// What was borrowed is its owner's again, whoever put it back.
		if in && !named && (e.by == us && g.Type == IP || g.whole) && !a.mustHold(g, t) {
			say("%v is left over", t)
		}
		node := slices.IndexFunc(w.nodes, func(n *fakeNode) bool { return n.id == t.ID })
		if !in && node >= 0 && !w.nodes[node].reason && e.outBy == us && !w.invalid[t.ID] && room {
			say("%v is left out", t)
		}
	}
	for _, r := range w.records[g.ID] {
		want, named := wanted[r.Target]
		_, in := g.targets[r.Target].at(w.now)
		if !named && !(in && a.mustHold(g, r.Target)) {
			say("the record of %v is left over", r.Target)
		}
		if named && want.In && want.Borrowed && room && !w.invalid[r.Target.ID] && !w.stopped[r.Target.ID] {
			say("the record of %v, which is attached again, is left over", r.Target)
		}
	}
	return out
}

// mustHold reports whether a target that is in can only stay, by the truth.
func (a *audit) mustHold(g *fakeGroup, t Target) bool {
	list := g.list(a.w.now)
	stays := func(o Target) bool { return o != t }
	if list[t].Condition != Healthy {
		return false
	}
	if !a.enough(g, list, stays, "") {
		return true
	}
	if g.CrossZone {
		return false
	}
	for _, zone := range []string{"a", "b"} {
		known := slices.ContainsFunc(values(list), func(o Health) bool { return o.Zone == zone })
		if known && (list[t].Zone == zone || list[t].Zone == "") && !a.enough(g, list, stays, zone) {
			return true
		}
	}
	return false
}
