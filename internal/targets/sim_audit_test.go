package targets

import (
	"fmt"
	"reflect"
	"slices"
	"time"
)

// audit holds every decision and every call against what must never happen. It
// judges by the world itself and by its own counting.
type audit struct {
	w      *world
	faults []string
	// begun are targets that a want had taken out, by group, while they are on record.
	begun map[string]map[Target]bool
	// since is since when a target is on record, settled whether that says that no
	// call of ours can register it any more, by group.
	since   map[string]map[Target]time.Time
	settled map[string]map[Target]bool
	counts  map[string]int
}

func (a *audit) count(what string) { a.counts[what]++ }

func (a *audit) fault(format string, args ...any) {
	a.faults = append(a.faults, fmt.Sprintf("%s: ", a.w.now.Sub(start))+fmt.Sprintf(format, args...)+a.w.c.describe())
}

// decided checks what holds of every decision.
func (a *audit) decided(g *fakeGroup, s GroupState, d GroupDecision) {
	a.checkPure(s, d)
	a.checkWake(s, d)
	s.Wants = withPorts(s.Wants, g.Port)
	a.noteWanted(g, s)
	recorded := map[Target]Record{}
	for _, r := range s.Records {
		recorded[r.Target] = r
	}
	now := recorded
	if d.Records != nil {
		now = map[Target]Record{}
		for _, r := range d.Records {
			now[r.Target] = r
		}
	}
	a.noteBegun(g, s, now)
	for _, t := range d.Deregister {
		if r := now[t]; !r.Leaving {
			a.fault("%v is deregistered, and that it leaves is not on record", t)
		}
		a.checkCause(s, t, recorded[t])
	}
	for _, r := range d.Register {
		if _, known := now[r.Target]; !known {
			a.fault("%v is registered without a record", r.Target)
		}
	}
	for _, r := range d.Reports {
		a.count(string(r.Phase))
		if r.Phase == Stopped {
			a.count(string(r.Evidence))
			a.checkStopped(g, s, r)
		}
	}
}

// withPorts has the group's own port where none is given.
func withPorts(wants []Want, port int32) []Want {
	wants = slices.Clone(wants)
	for i := range wants {
		if wants[i].Port == 0 {
			wants[i].Port = port
		}
	}
	return wants
}

// noteWanted remembers when a target was wanted: from then on it is ours.
func (a *audit) noteWanted(g *fakeGroup, s GroupState) {
	if a.w.wantedAt[g.ID] == nil {
		a.w.wantedAt[g.ID] = map[Target]time.Time{}
	}
	for _, w := range s.Wants {
		if w.In {
			a.w.wantedAt[g.ID][w.Target] = s.Now
		}
	}
}

// noteBegun remembers what is being taken out because a want said so.
func (a *audit) noteBegun(g *fakeGroup, s GroupState, now map[Target]Record) {
	begun := map[Target]bool{}
	for t, r := range now {
		named := slices.ContainsFunc(s.Wants, func(w Want) bool { return w.Target == t })
		begun[t] = r.Leaving && r.LeftAt.IsZero() && (named || a.begun[g.ID][t])
	}
	a.begun[g.ID] = begun
	since, settled := map[Target]time.Time{}, map[Target]bool{}
	for _, r := range s.Records {
		since[r.Target], settled[r.Target] = s.Now, r.Settled
		if old, more := a.since[g.ID][r.Target]; more {
			since[r.Target] = old
		}
	}
	a.since[g.ID], a.settled[g.ID] = since, settled
}

// checkCause: a target leaves because that was seen, or because lists that are
// complete and an inventory that was read for it lack it; and never while it is wanted.
func (a *audit) checkCause(s GroupState, t Target, r Record) {
	var in, seen bool
	for _, w := range s.Wants {
		in = in || w.Target == t && w.In
		seen = seen || w.Target == t && w.Seen
	}
	decided := r.Leaving && r.LeftAt.IsZero()
	switch {
	case in:
		a.fault("%v is deregistered while it is wanted", t)
	case !seen && !decided && (!s.Synced || !s.Live):
		a.fault("%v is deregistered for being absent from lists, synced %t, live %t", t, s.Synced, s.Live)
	case !seen && !decided:
		a.count("absence")
	}
}

// checkStopped: no new connection can come to what is said to have stopped, except
// by what somebody else did meanwhile and no read could show.
func (a *audit) checkStopped(g *fakeGroup, s GroupState, r Report) {
	e := g.targets[r.Target]
	var leftAt time.Time
	for _, rec := range s.Records {
		if rec.Target == r.Target {
			leftAt = rec.LeftAt
		}
	}
	_, in := e.at(a.w.now)
	shown := e.inAt.Before(s.ReadAt.Add(-maxLag))
	theirs := e.by == them && e.inAt.After(leftAt.Add(-maxLag))
	switch {
	case in && (shown || e.by == us):
		a.fault("%v is said to have stopped (%s), and is registered", r.Target, r.Evidence)
	case !in && g.routes(r.Target) && !theirs:
		a.fault("%v is said to have stopped (%s), and gets new connections until %s", r.Target, r.Evidence, e.routesUntil.Sub(start))
	}
}

// checkPure: the same State in another order gives the same Decision.
func (a *audit) checkPure(s GroupState, d GroupDecision) {
	o := s
	o.Wants, o.Records, o.Refused = slices.Clone(s.Wants), slices.Clone(s.Records), slices.Clone(s.Refused)
	slices.Reverse(o.Wants)
	slices.Reverse(o.Records)
	slices.Reverse(o.Refused)
	if again := Decide(o); !reflect.DeepEqual(again, d) {
		a.fault("another order of the same State gives another Decision:\n%+v\n%+v", d, again)
	}
}

// checkWake: nothing else would be decided before the time to wake up.
func (a *audit) checkWake(s GroupState, d GroupDecision) {
	if d.Records != nil {
		s.Records = d.Records
	}
	first := Decide(s)
	late := s
	late.Now = s.Now.Add(time.Hour)
	if !first.WakeAt.IsZero() {
		late.Now = first.WakeAt.Add(-1)
	}
	late.Sightings = first.Sightings
	again := Decide(late)
	first.ReadAt, again.ReadAt = time.Time{}, time.Time{}
	first.At, again.At = time.Time{}, time.Time{}
	if !reflect.DeepEqual(first, again) {
		a.fault("nobody would wake up at %s for another decision:\n%+v\n%+v", late.Now.Sub(start), first, again)
	}
}

// sends checks a call as it is made.
func (a *audit) sends(g *fakeGroup, c Call) {
	if len(c.Targets) > 200 {
		a.fault("a call names %d targets", len(c.Targets))
	}
	for _, r := range c.Targets {
		if !slices.ContainsFunc(a.w.records[g.ID], func(rec Record) bool { return rec.Target == r.Target }) {
			a.fault("%v is on no record, and in a call (%d)", r.Target, c.Kind)
		}
		if c.Kind == Deregister {
			a.checkForeign(g, r.Target)
		}
	}
	if c.Kind == Deregister {
		a.checkMinimum(g, c)
	}
}

// checkForeign: what somebody else registered is touched only in a group that is
// ours, or where a want names it, or named it when it was begun.
func (a *audit) checkForeign(g *fakeGroup, t Target) {
	e := g.targets[t]
	s := a.w.c.state[g.ID]
	named := slices.ContainsFunc(s.Wants, func(w Want) bool { return w.Target == t })
	isTheirs := e.by == them && e.present && !e.draining
	if isTheirs && !g.whole && !named && !a.begun[g.ID][t] && !a.adopted(g, t) {
		a.fault("%v is somebody else's, and is deregistered", t)
	}
}

// adopted reports whether a target that others registered was wanted while it was in,
// or may be ours by all that can be known: it is on record since before, and not
// settled.
func (a *audit) adopted(g *fakeGroup, t Target) bool {
	e := g.targets[t]
	since, recorded := a.since[g.ID][t]
	ours := recorded && since.Before(e.inAt) && !a.settled[g.ID][t]
	return ours || a.w.wantedAt[g.ID][t].After(e.inAt.Add(-lingering))
}
