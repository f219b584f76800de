package targets

import "time"

// How often the inventory is read, and what failed is tried again. A read is one
// call of the account's limit, whatever the size of the group.
const (
	// idle is the age at which an inventory is read again though nothing moves.
	idle = time.Minute
	// moving is the same while health checks, or a drain, are waited for.
	moving = 5 * time.Second
	// settling is after how long a call's effect is looked for once more.
	settling = 2 * time.Second
	// lingering is how long after an answer a call that was sent before may still
	// take effect, or a list not show the answered one. Nothing is published: it is
	// a guess on the safe side.
	lingering = 15 * time.Second
	// longestRetry bounds the time between two attempts.
	longestRetry = 5 * time.Minute
)

// planner holds one decision while it is made.
type planner struct {
	GroupState
	desired map[Target]desired
	records map[Target]Record
	refused map[Target]Refusal
	// sightings are those of the records with a LeftAt, and of what somebody else takes out.
	sightings map[Target]Sighting
	changed   bool
	out       GroupDecision

	// group, zones and unzoned count the targets, once all are seen to that come in.
	group, unzoned count
	zones          map[string]count
}

// place is where the inventory has the target.
func (p *planner) place(t Target) place {
	if p.ReadAt.IsZero() {
		return unread
	}
	return placeIn(p.Registered, t)
}

func (p *planner) record(r Record) {
	if old, known := p.records[r.Target]; !known || old != r {
		before := p.counts(r.Target)
		p.records[r.Target] = r
		p.recount(r.Target, before, p.counts(r.Target))
		p.changed = true
		p.found(r)
	}
}

// found notes what this process found itself: the times of that are by its own clock.
func (p *planner) found(r Record) { p.sight(r, p.sightings[r.Target], r.LeftAt, r.QuietAt) }

// sight notes since when it is known what a record says: what was not known before
// since left and quiet.
func (p *planner) sight(r Record, before Sighting, left, quiet time.Time) {
	if r.LeftAt.IsZero() {
		delete(p.sightings, r.Target)
		return
	}
	s := Sighting{LeftAt: r.LeftAt, QuietAt: r.QuietAt, Left: left, Quiet: quiet}
	if before.LeftAt.Equal(r.LeftAt) {
		s.Left = before.Left
		if before.QuietAt.Equal(r.QuietAt) {
			s.Quiet = before.Quiet
		}
	}
	p.sightings[r.Target] = s
}

func (p *planner) forget(t Target) {
	delete(p.sightings, t)
	before := p.counts(t)
	delete(p.records, t)
	p.recount(t, before, p.counts(t))
	p.changed = true
}

func (p *planner) report(t Target, phase Phase, since, until time.Time, message string) {
	owner := p.desired[t].Owner
	if owner == "" {
		owner = p.records[t].Owner
	}
	p.out.Reports = append(p.out.Reports, Report{Target: t, Owner: owner, Phase: phase, Since: since, Until: until, Message: message})
	if until.After(p.Now) {
		p.wake(until)
	}
}

// wake asks for a decision at a moment to come.
func (p *planner) wake(at time.Time) {
	if at.After(p.Now) && (p.out.WakeAt.IsZero() || at.Before(p.out.WakeAt)) {
		p.out.WakeAt = at
	}
}

// readBy asks for a read that is sent at a moment, or now if that is over.
func (p *planner) readBy(at time.Time) {
	at = later(at, p.Now)
	if p.out.ReadAt.IsZero() || at.Before(p.out.ReadAt) {
		p.out.ReadAt = at
	}
}

// delay is why a call is not made yet.
type delay struct {
	phase        Phase
	since, until time.Time
	why          string
	needs        needs
}

// due reports whether the call for the target may be made now: not while the last one
// may take effect still, nor soon after it had none or was refused. Something may have to be
// read also where it may.
func (p *planner) due(t Target, register bool) (d delay, due bool) {
	if r, refused := p.refused[t]; refused && r.Register == register {
		if !register && !p.ReadAt.After(r.At) {
			d.needs.readBy(r.At) // It may have gone without us, and then nothing is to be tried again.
		}
		if at := p.retryAt(r); p.Now.Before(at) {
			return delay{Refused, r.Since, at, "the cloud refused it: " + r.Why, d.needs}, false
		}
	}
	d.phase = Leaving
	if register {
		d.phase = Registering
	}
	a, known := p.Answers[t]
	if !known || a.Register != register || a.At.IsZero() {
		return d, true
	}
	if again := a.At.Add(pause(settling, a.Times)); p.ReadAt.Before(again) {
		d.until, d.why = again, "the cloud has accepted it, and does not show it yet"
		d.needs.readBy(earlier(again, p.ReadAt.Add(moving)))
		// What leaves is looked for at once, since its time begins when it is seen.
		if p.ReadAt.Before(a.At) && !register {
			d.needs.readBy(a.At)
		}
		return d, false
	}
	return d, true
}

// retryAt is when to try again what was refused. A full group is tried again as
// soon as a target has left it.
func (p *planner) retryAt(r Refusal) time.Time {
	at := r.At.Add(pause(moving, r.Times))
	if !r.Full {
		return at
	}
	for _, a := range p.Answers {
		if !a.Register && a.At.After(r.At) {
			return r.At
		}
	}
	return at
}

// pause is how long to wait after the nth attempt that had no effect.
func pause(first time.Duration, n int) time.Duration {
	d := first
	for ; n > 1 && d < longestRetry; n-- {
		d *= 2
	}
	return min(d, longestRetry)
}

// count is how many targets are registered, and how many of them are healthy.
type count struct{ healthy, all int }

func (c count) plus(o count) count { return count{c.healthy + o.healthy, c.all + o.all} }

func (c count) minus(o count) count { return count{c.healthy - o.healthy, c.all - o.all} }

// counts is what a target counts for. One that leaves, or is being put back, is
// among all for as long as it is listed, and never healthy.
func (p *planner) counts(t Target) count {
	switch {
	case p.place(t) != registered:
		return count{}
	case p.Registered[t].serves() && !p.records[t].Leaving:
		return count{1, 1}
	}
	return count{0, 1}
}

func (p *planner) recount(t Target, before, after count) {
	if p.zones == nil || p.place(t) != registered {
		return
	}
	change := after.minus(before)
	p.group = p.group.plus(change)
	if h := p.Registered[t]; h.zoned() {
		p.zones[h.Zone] = p.zones[h.Zone].plus(change)
	} else {
		p.unzoned = p.unzoned.plus(change)
	}
}

// needs is what a question about a target comes to beside its answer: what is to be read before the
// answer can be another one. Whoever asks has it read, by need.
type needs struct {
	// live is an inventory that is read for a removal alone; lists are those that Wants are made
	// from, and zones the Nodes that tell the zones of targets.
	live, lists, zones bool
	// read is when the inventory is to be read once more, zero where it is not.
	read time.Time
}

// readBy needs a read at a moment, or sooner.
func (n *needs) readBy(at time.Time) {
	if n.read.IsZero() || at.Before(n.read) {
		n.read = at
	}
}

// need asks for what a question came to.
func (p *planner) need(n needs) {
	p.out.NeedLiveRead = p.out.NeedLiveRead || n.live
	p.out.NeedLists = p.out.NeedLists || n.lists
	p.out.NeedZones = p.out.NeedZones || n.zones
	if !n.read.IsZero() {
		p.readBy(n.read)
	}
}
