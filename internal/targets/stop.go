package targets

import (
	"slices"
	"time"
)

// left waits for the traffic to end of a target that is out.
func (p *planner) left(r Record, where place) {
	if r.LeftAt.IsZero() {
		r.LeftAt = roundUp(p.ReadAt)
		p.found(r)
	}
	_, wanted := p.desired[r.Target]
	r.Settled = r.Settled || !wanted && p.outForGood(r)
	over, evidence := p.over(r, where)
	switch drained := p.drained(r.Target, where); {
	case !p.Now.Before(over):
	case p.Now.Before(drained):
		// Of a target that still drains, quiet would say nothing of the time to come.
		p.wake(drained)
	case r.QuietAt.IsZero() && p.Quiet[r.Target].since(p.sightings[r.Target].Left):
		// It counts when it is on record.
		r.QuietAt = roundUp(p.Now)
	}
	p.record(r)
	switch {
	case p.Now.Before(over):
		p.readBy(over)
		p.report(r.Target, Leaving, r.LeftAt, over, "it is deregistered, and may still get new connections")
	case p.ReadAt.Before(over):
		// Somebody may have registered it again meanwhile.
		p.readBy(over)
		p.report(r.Target, Leaving, r.LeftAt, time.Time{}, "its time is over: the inventory is read once more")
	default:
		p.report(r.Target, Stopped, over, time.Time{}, evidence.sentence())
		p.out.Reports[len(p.out.Reports)-1].Evidence = evidence
	}
	forgotten, needs := p.mayForget(r, where, over)
	p.need(needs)
	if forgotten {
		p.forget(r.Target)
		return
	}
	if p.isDone(r) && !p.outForGood(r) {
		p.readBy(p.ReadAt.Add(moving))
	}
}

// over is when the traffic to a target that is out has ended, by our own clock, and how
// that is known: its delay is over, where the cloud still drains it, and the settle time has
// passed or it was seen quiet.
func (p *planner) over(r Record, where place) (time.Time, Evidence) {
	seen := p.sightings[r.Target]
	at, evidence := seen.Left.Add(p.settleTimeOf(r.Target)), FloorPassed
	if !r.QuietAt.IsZero() && seen.Quiet.Before(at) {
		at, evidence = seen.Quiet, SeenQuiet
	}
	if where == draining || p.Group.Balancer == Classic {
		// A classic load balancer does not list what drains.
		at = later(at, seen.Left.Add(p.Group.Delay))
	}
	return at, evidence
}

// drained is when the cloud no longer drains a target that it drains; zero where it does not.
func (p *planner) drained(t Target, where place) time.Time {
	if where != draining {
		return time.Time{}
	}
	return p.sightings[t].Left.Add(p.Group.Delay)
}

// mayForget reports whether a target that is not registered needs no record any more: nothing can
// come to it by its load balancer, and nobody speaks of it, or what served there ended.
func (p *planner) mayForget(r Record, where place, over time.Time) (may bool, n needs) {
	over = later(over, p.sightings[r.Target].Left.Add(p.settleTimeOf(r.Target)))
	switch {
	case where != absent || p.Now.Before(over) || p.ReadAt.Before(over):
		return false, n
	case !p.synced(r.Target):
		return false, needs{lists: true}
	}
	return p.isDone(r) && p.outForGood(r), n
}

// isDone reports whether nobody speaks of a target that left, or what served there ended.
func (p *planner) isDone(r Record) bool {
	w, wanted := p.desired[r.Target]
	return !wanted || !w.voluntary && !w.Borrowed
}

// mayComeBack reports whether a target that left may be registered again by a call that was sent before.
func (p *pass) mayComeBack(g *group, t Target) bool {
	return g.ReadAt.Before(p.out.Memory.Groups[g.key].Sightings[t].Left.Add(lingering))
}

// isOver reports whether nothing comes any more by what an object has on record of a target that left,
// though another object wants that in: it may never be able to take the record over.
func (p *pass) isOver(g *group, t Target, by Ref) bool {
	left := p.out.Memory.Groups[g.key].Sightings[t].Left
	over := left.Add(max(lingering, g.state.settleTimeOf(t)))
	if placeIn(g.Registered, t) == draining || g.Balancer == Classic {
		over = later(over, left.Add(g.Delay))
	}
	return g.isOut(t) && !g.ReadAt.Before(over) && slices.ContainsFunc(g.at[t], func(h held) bool { return h.by == by && !h.LeftAt.IsZero() })
}

func (e Evidence) sentence() string {
	if e == SeenQuiet {
		return "it is deregistered, and its node saw the last connection end"
	}
	return "it is deregistered, and its load balancer's settle time has passed"
}

// roundUp is the next whole second, since objects keep no more.
func roundUp(t time.Time) time.Time {
	if down := t.Truncate(time.Second); down.Before(t) {
		return down.Add(time.Second)
	}
	return t
}

// outForGood reports whether nothing of ours that was sent before can have registered
// a target again that left.
func (p *planner) outForGood(r Record) bool {
	return !r.LeftAt.IsZero() && !p.ReadAt.Before(p.sightings[r.Target].Left.Add(lingering))
}
