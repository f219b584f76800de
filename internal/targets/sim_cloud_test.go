package targets

import (
	"maps"
	"slices"
	"time"
)

// maxLag is how far the fake cloud's lists lag behind its answers at most, and
// maxLate how long after it was sent a call may still take effect.
const (
	maxLag  = 2 * time.Second
	maxLate = 5 * time.Second
)

// fakeGroup is a fake of a target group and its load balancer, as bad as they may
// be: lists that lag, and new connections for any time up to the settle time after a
// deregistration, whatever the list says. It is no code of the product's, and
// knows of no decision.
type fakeGroup struct {
	Group
	w       *world
	whole   bool
	settle  time.Duration
	quota   int
	targets map[Target]fakeTarget
	history []moment
}

type moment struct {
	at      time.Time
	targets map[Target]fakeTarget
}

// fakeTarget is the truth about a target.
type fakeTarget struct {
	present, draining   bool
	healthyAt, drainEnd time.Time
	// routesUntil is until when it gets new connections after it was deregistered.
	routesUntil time.Time
	// by is who registered it last, outBy who deregistered it, and when.
	by, outBy   string
	inAt, outAt time.Time
	zone        string
}

const (
	us   = "us"
	them = "them"
)

func (g *fakeGroup) note() {
	now := g.w.now
	g.history = append(g.history, moment{now, maps.Clone(g.targets)})
	for len(g.history) > 1 && now.Sub(g.history[1].at) > maxLag {
		g.history = g.history[1:]
	}
}

func (g *fakeGroup) register(t Target, by string) {
	e := g.targets[t]
	if e.present && !e.draining {
		return
	}
	e.present, e.draining, e.by, e.inAt = true, false, by, g.w.now
	e.healthyAt = g.w.now.Add(time.Duration(g.w.rng.IntN(90)) * time.Second)
	if e.zone == "" && g.w.rng.IntN(4) > 0 {
		e.zone = []string{"a", "b"}[g.w.rng.IntN(2)]
	}
	g.targets[t] = e
	g.note()
}

func (g *fakeGroup) deregister(t Target, by string) {
	e := g.targets[t]
	if !e.present || e.draining {
		return
	}
	e.outBy, e.outAt = by, g.w.now
	e.routesUntil = g.w.now.Add(time.Duration(g.w.rng.Int64N(int64(g.settle) + 1)))
	e.draining, e.drainEnd = true, g.w.now.Add(g.Delay)
	if !g.InUse {
		e.drainEnd = g.w.now
	}
	g.targets[t] = e
	g.note()
}

// at is the state of a target at a moment: what has drained is gone.
func (e fakeTarget) at(now time.Time) (listed, in bool) {
	listed = e.present && !(e.draining && !now.Before(e.drainEnd))
	return listed, e.present && !e.draining
}

// routes reports whether the load balancer may send the target a new connection.
func (g *fakeGroup) routes(t Target) bool {
	e := g.targets[t]
	_, in := e.at(g.w.now)
	return in || g.w.now.Before(e.routesUntil)
}

// list is what the cloud says that it was at a moment.
func (g *fakeGroup) list(at time.Time) map[Target]Health {
	targets := g.history[0].targets
	for _, m := range g.history {
		if !m.at.After(at) {
			targets = m.targets
		}
	}
	out := map[Target]Health{}
	for t, e := range targets {
		if listed, _ := e.at(at); listed {
			out[t] = g.health(t, e, at)
		}
	}
	return out
}

func (g *fakeGroup) health(t Target, e fakeTarget, at time.Time) Health {
	h := Health{Zone: e.zone}
	switch {
	case e.draining:
		h.Condition, h.Reason = Draining, DeregistrationInProgress
	case !g.InUse:
		h.Condition, h.Reason = Unused, NotInUse
	case g.w.stopped[t.ID]:
		h.Condition, h.Reason = Unused, InvalidState
	case at.Before(e.healthyAt):
		h.Condition, h.Reason = Initial, RegistrationInProgress
	case g.w.up(t.ID):
		h.Condition = Healthy
	default:
		h.Condition, h.Reason = Unhealthy, "Target.FailedHealthChecks"
	}
	return h
}

// carryOut is a call as it arrives.
func (g *fakeGroup) carryOut(c Call) Outcome {
	switch c.Kind {
	case Deregister:
		for _, r := range c.Targets {
			g.deregister(r.Target, us)
		}
	case Register:
		invalid := func(r Registration) bool { return g.w.invalid[r.ID] }
		if slices.ContainsFunc(c.Targets, invalid) {
			return Invalid
		}
		if g.size(c.Targets) > g.quota {
			return Full
		}
		for _, r := range c.Targets {
			g.register(r.Target, us)
		}
	}
	return Accepted
}

// size is how many targets the group would have with some more.
func (g *fakeGroup) size(more []Registration) int {
	all := map[Target]bool{}
	for t, e := range g.targets {
		if listed, _ := e.at(g.w.now); listed {
			all[t] = true
		}
	}
	for _, r := range more {
		all[r.Target] = true
	}
	return len(all)
}
