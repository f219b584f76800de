package targets

import "time"

// The way out. Its invariant: LeftAt is set only from a read that was sent after
// the cloud accepted a deregistration of this process, or was on record before;
// so it is never earlier than the deregistration, whatever was lost in between.
//
//	in -> [minimum, live read] -> Leaving recorded -> deregistered -> seen out, LeftAt
//	recorded -> settle time passed, or quiet and QuietAt recorded -> read once more ->
//	Stopped -> forgotten

// leave takes a target that nobody wants in one step further.
func (p *planner) leave(t Target) {
	r, known := p.records[t]
	where := p.place(t)
	w, wanted := p.desired[t]
	if !known {
		if !p.mayTake(where, w, wanted) {
			p.stranger(t, where, wanted)
			return
		}
		r = Record{Registration: Registration{Target: t, Zone: w.Zone}, Owner: w.Owner}
	}
	out := where == absent || where == draining
	a := p.Answers[t]
	accepted := a.accepts(false) && !p.ReadAt.Before(a.At)
	switch {
	case r.Leaving && out && (accepted || !r.LeftAt.IsZero() || where == absent && p.refusedBefore(t)):
		p.left(r, where)
	case r.Leaving && where == unread && !r.LeftAt.IsZero():
		p.report(t, Leaving, r.LeftAt, time.Time{}, "the inventory of the group is not read yet")
	case where == registered && r.Settled && !wanted && !p.Whole && p.ReadAt.Before(p.sightings[t].Left):
		p.readBy(p.Now)
		p.report(t, Leaving, r.LeftAt, time.Time{}, "it has left, and the inventory of before is read once more")
	case where == registered && r.Settled && !wanted && !p.Whole:
		p.foreignAgain(t)
	default:
		p.takeOut(r, where)
	}
}

// refusedBefore reports whether the cloud refused the deregistration, and the inventory was read
// after that: a target that is not in it then has gone without us, as one of an instance that
// was terminated, and would be refused for ever.
func (p *planner) refusedBefore(t Target) bool {
	r, refused := p.refused[t]
	return refused && !r.Register && p.ReadAt.After(r.At)
}

// mayTake reports whether a target that is not on record is ours to take out.
func (p *planner) mayTake(where place, w desired, wanted bool) bool {
	if wanted && !w.recordable() {
		return false
	}
	switch where {
	case registered:
		return p.Whole || w.Borrowed
	case unread, draining:
		return p.Whole && wanted && !w.Borrowed
	}
	return false
}

// stranger reports a target that is wanted out and not ours. One that was seen to leave may still
// get new connections, whoever took it out.
func (p *planner) stranger(t Target, where place, wanted bool) {
	if !wanted {
		return
	}
	none := time.Time{}
	seen := p.Sightings[t].unrecorded()
	over := seen.Add(p.settleTimeOf(t))
	switch {
	case where == unread:
		p.report(t, Leaving, none, none, "the inventory of the group is not read yet")
	case where == draining:
		if seen.IsZero() {
			seen = p.ReadAt
		}
		p.sightings[t] = Sighting{Left: seen}
		p.readBy(p.ReadAt.Add(moving))
		p.report(t, Leaving, none, none, "somebody else is taking it out")
	case where == absent && !seen.IsZero() && (p.Now.Before(over) || p.ReadAt.Before(over)):
		p.sightings[t] = Sighting{Left: seen}
		p.readBy(over)
		p.report(t, Leaving, seen, over, "somebody else took it out, and it may still get new connections")
	case where == absent:
		p.report(t, Absent, none, none, "it is not registered, and was not taken out by us")
	default:
		p.report(t, Foreign, none, none, "somebody else registered it, and only what we registered is ours to take out")
	}
}

// foreignAgain drops the record of a target that left, that no want names any more,
// and that somebody else registered since.
func (p *planner) foreignAgain(t Target) {
	if p.synced(t) {
		p.forget(t)
		// Its node is not out by that.
		p.report(t, Foreign, time.Time{}, time.Time{}, "somebody else registered it once more")
		return
	}
	p.out.NeedLists = true
	p.report(t, Held, time.Time{}, time.Time{}, "somebody else registered it, and the lists of pods or nodes are not complete yet")
}

// takeOut deregisters a target when nothing holds it back. What holds back is
// asked again until the cloud has accepted it: the controller may have died after
// it wrote the record, and the group be another one by now.
func (p *planner) takeOut(r Record, where place) {
	t, w := r.Target, p.desired[r.Target]
	begun := r.Leaving && r.LeftAt.IsZero()
	wait, due := p.due(t, false)
	p.need(wait.needs)
	if begun && !due {
		p.report(t, wait.phase, wait.since, wait.until, wait.why)
		return
	}
	why, needs := p.holdsBack(r, where)
	p.need(needs)
	if why != "" {
		p.report(t, Held, time.Time{}, w.HookUntil, why)
		p.keep(r, where)
		return
	}
	if r.Leaving && !begun {
		p.fault("%s is registered again by somebody else while it is to be out", t)
	}
	r.Leaving, r.LeftAt, r.QuietAt, r.Settled = true, time.Time{}, time.Time{}, false
	p.record(r)
	if !due {
		p.report(t, wait.phase, wait.since, wait.until, wait.why)
		return
	}
	p.out.Deregister = append(p.out.Deregister, t)
	p.report(t, Leaving, time.Time{}, time.Time{}, "it is being deregistered, because "+p.reason(t))
}

// keep undoes the beginning of a removal that a minimum forbids by now, as when the
// controller died in between. While they are leaving, each of two targets would
// count for nothing in favour of the other, and neither could ever go.
func (p *planner) keep(r Record, where place) {
	t := r.Target
	switch {
	case !r.Leaving || !r.LeftAt.IsZero() || where != registered:
	case p.putBack(t):
		r.Leaving = false
		p.record(r)
	case p.Answers[t].accepts(true):
		p.readBy(p.Answers[t].At.Add(lingering))
	default:
		wait, due := p.due(t, true)
		p.need(wait.needs)
		if p.wake(wait.until); due {
			p.out.Register = append(p.out.Register, r.Registration)
		}
	}
}

func (p *planner) reason(t Target) string {
	if w, wanted := p.desired[t]; wanted {
		return w.Why
	}
	return "nothing wants it"
}

// holdsBack says why a target is not taken out yet, or nothing, and what is to be read first. A
// removal that was on record before needs no proof again, but must still leave enough others.
func (p *planner) holdsBack(r Record, where place) (why string, n needs) {
	w, wanted := p.desired[r.Target]
	begun := r.Leaving && r.LeftAt.IsZero()
	voluntary := w.voluntary || !wanted && !p.Vacant[r.Target]
	switch {
	case !begun && !w.Seen && !p.synced(r.Target):
		return "it is only missing, and the lists of pods or nodes are not complete yet", needs{lists: true}
	case !begun && !w.Seen && !p.Live:
		return "it is only missing: the inventory is read first", needs{live: true}
	case !voluntary:
		return "", n
	}
	// What an old inventory forbids is not asked for; what it permits is.
	if why, n = p.belowMinimum(r.Target); where == registered && why != "" {
		n.readBy(p.ReadAt.Add(moving))
		return why, n
	}
	if where == unread || !begun && !p.Live {
		n.live = true
		return "the inventory is read first, to know how many others serve", n
	}
	return "", n
}
