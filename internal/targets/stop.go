package targets

import "time"

// quietFor is how long no connection must have come to a node, nor be left.
const quietFor = 10 * time.Second

// left waits for the traffic to end of a target that is out.
func (p *planner) left(r Record, where place) {
	if r.LeftAt.IsZero() {
		r.LeftAt = roundUp(p.ReadAt)
	}
	_, wanted := p.wishes[r.Target]
	r.Settled = r.Settled || !wanted && p.outForGood(r)
	p.record(r)
	over, evidence := p.over(r, where)
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
	if p.mayForget(r, where) {
		p.forget(r.Target)
		return
	}
	if !wanted && !p.outForGood(r) {
		p.readBy(p.ReadAt.Add(moving))
	}
}

// over is when the traffic to a target that is out has ended, and how that is
// known: its delay is over, where the cloud still drains it, and the floor has
// passed or it was seen quiet. A quiet that began before the target left proves
// nothing: there may have been nobody to come.
func (p *planner) over(r Record, where place) (time.Time, Evidence) {
	at, evidence := r.LeftAt.Add(p.Floor), FloorPassed
	if since, quiet := p.Quiet[r.ID]; quiet && !since.Before(r.LeftAt) {
		if seen := since.Add(quietFor); seen.Before(at) {
			at, evidence = seen, SeenQuiet
		}
	}
	if where == draining {
		at = later(at, r.LeftAt.Add(p.Group.Delay))
	}
	return at, evidence
}

// mayForget is whether a target that is not registered needs no record any more:
// nobody speaks of it, or what served there ended and nothing can come any more.
func (p *planner) mayForget(r Record, where place) bool {
	w, wanted := p.wishes[r.Target]
	switch {
	case where != absent || !p.Synced:
		return false
	case !wanted:
		return p.outForGood(r)
	}
	floor := r.LeftAt.Add(p.Floor)
	return !w.voluntary && !w.Borrowed && !p.Now.Before(floor) && !p.ReadAt.Before(floor)
}

func (e Evidence) sentence() string {
	if e == SeenQuiet {
		return "it is deregistered, and its node saw no connection since"
	}
	return "it is deregistered, and its load balancer's floor has passed"
}

// roundUp is the next whole second, since objects keep no more.
func roundUp(t time.Time) time.Time {
	if down := t.Truncate(time.Second); down.Before(t) {
		return down.Add(time.Second)
	}
	return t
}
