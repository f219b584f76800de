package targets

import (
	"fmt"
	"hash/fnv"
	"time"
)

// controller runs Decide and Calls, and is as small as one can be. It loses
// all its memory when it dies, and nothing else.
type controller struct {
	w         *world
	born      time.Time
	syncedAt  time.Time
	calls     *Calls
	inventory map[string]map[Target]Health
	readAt    map[string]time.Time
	// seenAt is the moment that the inventory is of, for the audit alone.
	seenAt map[string]time.Time
	// decideAt is when to decide about a group next, last the last decision.
	decideAt  map[string]time.Time
	state     map[string]GroupState
	last      map[string]GroupDecision
	flights   []flight
	life      int
	sightings map[string]map[Target]Sighting
}

// flight is a call whose answer is not here yet.
type flight struct {
	call         Call
	sent, doneAt time.Time
	outcome      Outcome
	list         map[Target]Health
	listOf       time.Time
}

func (w *world) boot() {
	life := 0
	if w.c != nil {
		life = w.c.life + 1
	}
	w.c = &controller{
		w: w, born: w.now.Add(time.Duration(1+w.rng.IntN(3)) * time.Second), life: life, calls: NewCalls(DefaultRate, DefaultBurst),
		inventory: map[string]map[Target]Health{}, readAt: map[string]time.Time{}, seenAt: map[string]time.Time{},
		decideAt: map[string]time.Time{}, state: map[string]GroupState{}, last: map[string]GroupDecision{}, sightings: map[string]map[Target]Sighting{},
	}
	w.c.syncedAt = w.c.born.Add(time.Duration(w.rng.IntN(4)) * time.Second)
	w.c.changed()
	w.landings = append(w.landings, landing{w.c.syncedAt, func() { w.c.changed() }})
}

// changed has all groups decided about as soon as the controller lives.
func (c *controller) changed() {
	for _, g := range c.w.groups {
		c.decideAt[g.ID] = later(c.w.now, c.born)
	}
}

// sees reports whether the lists, while they are not complete, have an object.
func (c *controller) sees(name string) bool {
	h := fnv.New32a()
	fmt.Fprint(h, name, c.life)
	return !c.w.now.Before(c.syncedAt) || h.Sum32()%2 == 0
}

func (c *controller) next() time.Time {
	var at time.Time
	for _, g := range c.w.groups {
		if d := c.decideAt[g.ID]; !d.IsZero() {
			at = earlier(at, d)
		}
	}
	for _, f := range c.flights {
		at = earlier(at, f.doneAt)
	}
	probe := *c.calls
	if _, at2, has := peek(&probe, c.w.now); has {
		at = earlier(at, at2)
	}
	return at
}

// peek is when the next call can be made, without making it.
func peek(c *Calls, now time.Time) (call Call, at time.Time, has bool) {
	var first time.Time
	for kind := range kinds {
		for _, q := range c.groups {
			if due, work := q.due(kind); work {
				first = earlier(first, due)
				has = true
			}
		}
	}
	if !has {
		return call, at, false
	}
	first = later(first, now)
	if token := c.bucket.at(first); token.After(first) {
		first = token
	}
	return call, first, true
}

// act does all that is due: answers, decisions, calls.
func (c *controller) act() {
	w := c.w
	for i := 0; i < len(c.flights); {
		f := c.flights[i]
		if f.doneAt.After(w.now) {
			i++
			continue
		}
		c.flights = append(c.flights[:i:i], c.flights[i+1:]...)
		if c.dies() {
			return
		}
		c.land(f)
		if w.c != c {
			return
		}
	}
	for _, id := range c.calls.Stale(w.now) {
		c.decideAt[id] = w.now
	}
	for _, g := range w.groups {
		if at := c.decideAt[g.ID]; !at.IsZero() && !at.After(w.now) {
			if !c.decide(g, false) {
				return
			}
		}
	}
	for {
		call, ready, _ := c.calls.Next(w.now)
		if !ready {
			return
		}
		if c.dies() {
			return
		}
		c.send(call)
		if c.dies() {
			return
		}
	}
}

// dies reports whether the controller crashes here, and another is begun.
func (c *controller) dies() bool {
	if !c.w.chance(c.w.faults.crash) {
		return false
	}
	c.w.a.count("crash")
	c.w.boot()
	return true
}

func (c *controller) land(f flight) {
	w := c.w
	g := w.group(f.call.Group)
	c.calls.Done(w.now, f.call, f.outcome, "the cloud says so", w.rng.Float64())
	live := f.call.Kind == Read && f.outcome == Accepted
	if live {
		c.inventory[g.ID], c.readAt[g.ID], c.seenAt[g.ID] = f.list, f.sent, f.listOf
	}
	c.decide(g, live)
}

// send makes a call, which takes effect between now and its answer, unless it is
// lost: then it does so a little later, or never, and nobody knows.
func (c *controller) send(call Call) {
	w := c.w
	g := w.group(call.Group)
	w.a.sends(g, call)
	took := time.Duration(20+w.rng.IntN(800)) * time.Millisecond
	f := flight{call: call, sent: w.now, doneAt: w.now.Add(took)}
	switch {
	case w.chance(w.faults.throttle):
		f.outcome = Throttled
		w.a.count("throttled")
	case w.chance(w.faults.lose):
		f.outcome = Failed
		w.a.count("lost")
		if w.rng.IntN(2) == 0 {
			// Two lost calls about one target do not cross: deregistrations are not late.
			late := time.Duration(0)
			if call.Kind == Register {
				late = time.Duration(w.rng.Int64N(int64(maxLate)))
			}
			w.landings = append(w.landings, landing{w.now.Add(late), func() { g.carryOut(call) }})
		}
	case call.Kind == Read:
		f.listOf = w.now.Add(-time.Duration(w.rng.Int64N(int64(maxLag))))
		f.list = g.list(f.listOf)
	default:
		// The answer is that of the moment of its effect, which a crash may outlive.
		flights := &f.outcome
		if w.rng.IntN(2) == 0 {
			*flights = g.carryOut(call)
			break
		}
		*flights = g.wouldSay(call)
		if *flights == Accepted {
			w.landings = append(w.landings, landing{w.now.Add(took / 2), func() { g.carryOut(call) }})
		}
	}
	c.flights = append(c.flights, f)
}

// wouldSay is the answer to a call without its effect.
func (g *fakeGroup) wouldSay(call Call) Outcome {
	probe := *g
	probe.targets = map[Target]fakeTarget{}
	for t, e := range g.targets {
		probe.targets[t] = e
	}
	probe.history = append([]moment(nil), g.history...)
	return probe.carryOut(call)
}

// decide is one round: read what there is, decide, write the records, queue the
// calls. It is false when the controller died on the way.
func (c *controller) decide(g *fakeGroup, live bool) bool {
	w := c.w
	delete(c.decideAt, g.ID)
	s := GroupState{
		Now: w.now, Group: g.Group, Whole: g.whole, SettleTime: g.settle,
		Wants: w.wants(g, c.sees), Synced: !w.now.Before(c.syncedAt), Records: w.records[g.ID],
		Registered: c.inventory[g.ID], ReadAt: c.readAt[g.ID], Live: live,
		Answers: c.calls.Answers(g.ID), Refused: c.calls.Refused(g.ID), Quiet: w.quiet(g), Sightings: c.sightings[g.ID],
	}
	d := Decide(s)
	c.sightings[g.ID] = d.Sightings
	w.a.decided(g, s, d)
	if c.dies() {
		return false
	}
	if d.Records != nil {
		if w.chance(w.faults.conflict) {
			c.decideAt[g.ID] = w.now.Add(time.Second)
			return true
		}
		w.records[g.ID] = d.Records
	}
	if c.dies() {
		return false
	}
	c.calls.Plan(g.ID, d)
	s.Wants = withPorts(s.Wants, g.Port)
	c.state[g.ID], c.last[g.ID] = s, d
	if !d.WakeAt.IsZero() {
		c.decideAt[g.ID] = d.WakeAt
	}
	return true
}

func (w *world) group(id string) *fakeGroup {
	for _, g := range w.groups {
		if g.ID == id {
			return g
		}
	}
	panic("no group " + id)
}

func (c *controller) describe() (out string) {
	for _, g := range c.w.groups {
		out += fmt.Sprintf("\n%s %s at %s, in use %t, whole %t, quota %d, crosses zones %t, read at %s:", g.ID, g.Type, c.w.now.Sub(start), g.InUse, g.whole, g.quota, g.CrossZone, c.readAt[g.ID].Sub(start))
		for _, r := range c.last[g.ID].Reports {
			out += fmt.Sprintf("\n  %v %s: %s (%s)", r.Target, r.Phase, r.Message, r.Until.Sub(start))
		}
		for _, r := range c.w.records[g.ID] {
			out += fmt.Sprintf("\n  record %v leaving %t left %s", r.Target, r.Leaving, r.LeftAt.Sub(start))
		}
		for t, e := range g.targets {
			listed, in := e.at(c.w.now)
			out += fmt.Sprintf("\n  truth %v listed %t in %t by %s out by %s, up %t", t, listed, in, e.by, e.outBy, c.w.up(t.ID))
		}
		for _, f := range c.last[g.ID].Faults {
			out += "\n  fault " + f
		}
	}
	return out
}
