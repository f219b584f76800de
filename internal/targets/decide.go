package targets

import (
	"maps"
	"slices"
)

// Decide says what to do about one group. Its order is that of the targets, and
// does not depend on that of the State.
//
// Its invariants: a target is registered or deregistered only when it is on
// record, by a record that was written before; what nobody asked us to move is
// left alone; and a target is Stopped only when a read that was sent after all
// waits were over still had it out.
func Decide(s GroupState) GroupDecision {
	p := &planner{GroupState: s, desired: desiredTargets(s), records: map[Target]Record{}, refused: map[Target]Refusal{}, sightings: map[Target]Sighting{}}
	for _, r := range s.Records {
		p.records[r.Target] = r
		p.sight(r, s.Sightings[r.Target], s.Now, s.Now)
	}
	for _, r := range s.Refused {
		p.refused[r.Target] = r
	}
	p.out.At = s.Now
	p.readBy(s.ReadAt.Add(idle))
	for _, w := range p.desired {
		p.wake(w.HookUntil)
	}
	in, ending, voluntary := p.sorted()
	for _, t := range in {
		p.join(t, p.desired[t])
	}
	if len(ending)+len(voluntary) > 0 {
		p.countAll()
	}
	// What ends whatever we do is gone from every count that holds others back.
	for _, t := range ending {
		p.leave(t)
	}
	for _, t := range voluntary {
		p.leave(t)
	}
	p.finish()
	return p.out
}

// sorted are all targets that may concern us: those wanted in, those of which
// what serves there ends, and all others.
func (p *planner) sorted() (in, ending, voluntary []Target) {
	all := map[Target]bool{}
	for t := range p.desired {
		all[t] = true
	}
	for t := range p.records {
		all[t] = true
	}
	for t := range p.Registered {
		if p.Whole {
			all[t] = true
		}
	}
	for _, t := range slices.SortedFunc(maps.Keys(all), compareTargets) {
		w, wanted := p.desired[t]
		switch {
		case wanted && w.In:
			in = append(in, t)
		case wanted && !w.voluntary:
			ending = append(ending, t)
		default:
			voluntary = append(voluntary, t)
		}
	}
	return in, ending, voluntary
}

// finish brings what was decided into its order, with what is to be written and read.
func (p *planner) finish() {
	if p.changed {
		p.out.Records = []Record{}
		for _, t := range slices.SortedFunc(maps.Keys(p.records), compareTargets) {
			p.out.Records = append(p.out.Records, p.records[t])
		}
	}
	p.out.Sightings = p.sightings
	byTarget := func(a, b Report) int { return compareTargets(a.Target, b.Target) }
	slices.SortFunc(p.out.Reports, byTarget)
	slices.SortFunc(p.out.Deregister, compareTargets)
	slices.SortFunc(p.out.Register, func(a, b Registration) int { return compareTargets(a.Target, b.Target) })
	slices.Sort(p.out.Faults)
	if p.ReadAt.IsZero() || p.out.NeedLiveRead {
		p.out.ReadAt = p.Now
	}
}
