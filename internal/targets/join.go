package targets

import (
	"fmt"
	"time"
)

// join takes a target that is wanted in one step further. It is registered
// whether or not what serves there is ready, so that the load balancer's checks
// start while it starts.
func (p *planner) join(t Target, w desired) {
	if why := p.Group.unfit(t); why != "" {
		p.report(t, Refused, time.Time{}, time.Time{}, why)
		return
	}
	r, known := p.records[t]
	where := p.place(t)
	switch {
	case w.Borrowed && !known:
		// It was never taken out, or is back with its owner already.
		p.attached(t, where)
		return
	case where == unread:
		p.report(t, Registering, time.Time{}, time.Time{}, "the inventory of the group is not read yet")
		return
	}
	if r.Leaving && !w.Stay && !w.Borrowed && !p.Synced && !p.Answers[t].Register {
		// Another leader may know that what is to serve there has gone.
		p.out.NeedLists = true
		p.report(t, Registering, time.Time{}, time.Time{}, "the lists of pods or nodes are not complete yet")
		return
	}
	if w.Stay && where == absent && !r.Leaving {
		p.missing(t, known)
		return
	}
	if !known {
		// Registered by somebody or not: from now on it is ours to take out.
		r = Record{Registration: w.Registration, Owner: w.Owner}
	}
	r.Owner = w.Owner
	// It is on its way in, so the time at which it left says nothing any more.
	r.LeftAt, r.QuietAt, r.Settled = time.Time{}, time.Time{}, false
	back := where == registered && (!r.Leaving || p.putBack(t))
	if back {
		r.Leaving = false
	}
	p.record(r)
	switch {
	case back:
		p.attached(t, where)
		if phase, _ := p.attachment(t, where); phase == Attached && w.Borrowed {
			p.forget(t)
		}
	case where == registered && p.Answers[t].accepts(true):
		p.readBy(p.Answers[t].At.Add(lingering))
		p.report(t, Registering, time.Time{}, time.Time{}, "it was put back a moment ago")
	default:
		p.register(t, w)
	}
}

// missing reports a target that is only to stay, and is not registered. One on record may be yet, by
// a call that was made before, be it by another leader; and whoever took it out, it may still get
// new connections.
func (p *planner) missing(t Target, known bool) {
	seen := p.Sightings[t].Left
	if seen.IsZero() {
		seen = p.ReadAt
	}
	wait := max(lingering, p.settleTimeOf(t))
	if a := p.Answers[t]; a.Register {
		// The call of this process came after what was read then, or is under way.
		if seen = later(seen, a.At); a.At.IsZero() {
			wait += longestDecision
		}
	}
	if known {
		p.sightings[t] = Sighting{Left: seen}
	}
	if over := seen.Add(wait); known && p.ReadAt.Before(over) {
		p.readBy(over)
		p.report(t, Leaving, seen, over, "it is not registered, and may still get new connections")
		return
	}
	p.report(t, Absent, time.Time{}, time.Time{}, "it is not registered, and it is not known whether it is to be")
	if known && p.synced(t) && !p.Answers[t].Register {
		// Nothing came of the record, or whoever took it out wants it out: its node is not to bring it back.
		// What this process has begun to register may come yet.
		p.forget(t)
	}
}

// putBack reports whether a target that was leaving is registered for good: nothing
// that was sent before can take it out any more. Until then it counts as out,
// whatever the inventory has.
func (p *planner) putBack(t Target) bool {
	a := p.Answers[t]
	return a.accepts(true) && !p.ReadAt.Before(a.At.Add(lingering))
}

func (p *planner) register(t Target, w desired) {
	d, due := p.due(t, true)
	p.need(d.needs)
	if !due {
		p.report(t, d.phase, d.since, d.until, d.why)
		return
	}
	if a := p.Answers[t]; a.Register && a.Times > 1 {
		p.fault("%s was registered %d times and is not in the group: somebody else takes it out", t, a.Times)
	}
	r := w.Registration
	r.Target = t
	p.out.Register = append(p.out.Register, r)
	p.report(t, Registering, time.Time{}, time.Time{}, "it is being registered, because "+w.Why)
}

// attached reports how far a target is that is in, or should be.
func (p *planner) attached(t Target, where place) {
	phase, message := p.attachment(t, where)
	if phase == Registering || phase == Failing {
		p.readBy(p.ReadAt.Add(moving))
	}
	p.report(t, phase, time.Time{}, time.Time{}, message)
}

func (p *planner) attachment(t Target, where place) (Phase, string) {
	h := p.Registered[t]
	switch {
	case where == unread:
		return Registering, "the inventory of the group is not read yet"
	case where == absent:
		return Absent, "it is not registered, and was not taken out by us"
	case where == draining:
		return Absent, "somebody else is taking it out"
	case !p.Group.InUse:
		return Attached, "it is registered; no load balancer forwards to the group, so there is nothing more to wait for"
	case h.Reason == HealthCheckDisabled:
		return Attached, "it is registered, and its health is not checked"
	case h.healthy() && h.Shifted:
		// Nobody knows when the shift ends: who waited for it would stop every rollout.
		return Attached, "it is healthy, and traffic is shifted away from its zone"
	case h.healthy():
		return Attached, "it is healthy"
	case h.Condition == Initial || h.Reason == RegistrationInProgress:
		return Registering, "its first health checks are under way"
	case h.Reason == NotInUse:
		return Failing, "it gets no traffic: its zone, or its group, is not enabled for the load balancer"
	case h.Reason == InvalidState:
		return Failing, "it gets no traffic: its instance is stopped or terminated"
	case h.Reason == IPUnusable:
		return Failing, "it gets no traffic: its address belongs to a load balancer"
	}
	return Failing, fmt.Sprintf("it is %s (%s)", h.Condition, h.Reason)
}

// healthy reports whether its own health is good, whether or not its zone gets traffic.
func (h Health) healthy() bool {
	return h.Condition == Healthy || h.Reason == HealthCheckDisabled
}

func (p *planner) fault(format string, args ...any) {
	p.out.Faults = append(p.out.Faults, fmt.Sprintf(format, args...))
}
