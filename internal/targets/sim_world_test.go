package targets

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

var start = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

// world is all that there is: pods, nodes, a fake cloud, and one controller that
// dies now and then. Its events are those of the world and of its own calls.
type world struct {
	now    time.Time
	rng    *rand.Rand
	groups []*fakeGroup
	pods   []*fakePod
	nodes  []*fakeNode
	named  int

	// sick are backends that fail their checks, stopped are instances that the
	// cloud says are; invalid are IDs that it refuses.
	sick, stopped, invalid map[string]bool
	// idle are backends that nobody comes to, so that they are quiet all the time;
	// unseen are those that no health checker looks at.
	idle, unseen map[string]bool
	checkerUp    time.Time

	// wantedAt is when a target was last wanted in, by group.
	wantedAt map[string]map[Target]time.Time
	// records are what the API server holds for each group.
	records  map[string][]Record
	landings []landing
	faults   faults

	c *controller
	a *audit
}

// faults are probabilities, from 0 to 1.
type faults struct{ crash, throttle, lose, conflict float64 }

// landing is a call that takes effect at a moment.
type landing struct {
	at time.Time
	do func()
}

type fakePod struct {
	name, ip string
	ports    []int32
	// ending says whether its end was seen; it is killed at dies.
	ending    bool
	dies      time.Time
	hookUntil time.Time
	// out says whether it is to be taken out while it serves.
	out bool
}

type fakeNode struct {
	id     string
	reason bool
	// ending says whether what serves there ends at once.
	ending bool
}

func (w *world) chance(p float64) bool { return p > 0 && w.rng.Float64() < p }

// up reports whether what is at an ID answers its checks.
func (w *world) up(id string) bool {
	if w.sick[id] {
		return false
	}
	if !isPodIP(id) {
		return true
	}
	return slices.ContainsFunc(w.pods, func(p *fakePod) bool { return p.ip == id && (!p.ending || w.now.Before(p.dies)) })
}

func isPodIP(id string) bool { return len(id) > 5 && id[:5] == "10.0." }

// quiet is what the health checkers say. Where there are clients, a connection
// comes while the load balancer may send one, and lasts for some seconds.
func (w *world) quiet(g *fakeGroup) map[Target]Quiet {
	out := map[Target]Quiet{}
	for t, e := range g.targets {
		switch since := e.routesUntil.Add(3 * time.Second); {
		case w.unseen[t.ID]:
		case w.idle[t.ID]:
			out[t] = Quiet{From: w.checkerUp, To: w.now}
		case g.routes(t) || w.now.Before(since):
			out[t] = Quiet{Came: w.now}
		default:
			out[t] = Quiet{Came: since, From: later(since, w.checkerUp), To: w.now}
		}
	}
	return out
}

// wants are what the users of a group say, as far as they are seen.
func (w *world) wants(g *fakeGroup, sees func(string) bool) (out []Want) {
	if g.Type == IP {
		for _, p := range w.pods {
			if sees(p.name) {
				out = append(out, p.wants()...)
			}
		}
		return out
	}
	for _, n := range w.nodes {
		if sees(n.id) {
			out = append(out, w.nodeWants(g, n)...)
		}
	}
	return out
}

func (p *fakePod) wants() (out []Want) {
	for _, port := range p.ports {
		out = append(out, Want{
			Registration: Registration{Target: Target{p.ip, port}}, Owner: p.name, Why: "the pod says so",
			In: !p.ending && !p.out, Seen: p.ending || p.out, Ending: p.ending, HookUntil: p.hookUntil,
		})
	}
	return out
}

// nodeWants are those of a detacher: out of all that the node is in while there is
// a reason, and back to all that is on record.
func (w *world) nodeWants(g *fakeGroup, n *fakeNode) (out []Want) {
	where := map[Target]bool{}
	for _, r := range w.records[g.ID] {
		where[r.Target] = true
	}
	if n.reason {
		for t := range w.c.inventory[g.ID] {
			where[t] = true
		}
	}
	for t := range where {
		if t.ID == n.id {
			out = append(out, Want{
				Registration: Registration{Target: t}, Owner: n.id, Why: "the node says so",
				In: !n.reason, Seen: n.reason, Ending: n.ending, Borrowed: true,
			})
		}
	}
	return out
}

// run lets time pass until a moment, or says that it does not end.
func (w *world) run(until time.Time) error {
	for turns := 0; ; turns++ {
		if turns > 6000 {
			return fmt.Errorf("no rest after %d turns: %s", turns, w.c.describe())
		}
		next := w.next()
		if next.After(until) {
			w.now = until
			return nil
		}
		w.now = later(w.now, next)
		w.turn()
		if len(w.a.faults) > 0 {
			return fmt.Errorf("%s", w.a.faults[0])
		}
	}
}

// next is when the next thing happens.
func (w *world) next() time.Time {
	at := w.c.next()
	for _, l := range w.landings {
		at = earlier(at, l.at)
	}
	for _, p := range w.pods {
		if p.ending {
			at = earlier(at, p.dies)
		}
	}
	return at
}

func (w *world) turn() {
	var due []landing
	w.landings = slices.DeleteFunc(w.landings, func(l landing) bool {
		if l.at.After(w.now) {
			return false
		}
		due = append(due, l)
		return true
	})
	for _, l := range due {
		l.do()
	}
	gone := len(w.pods)
	w.pods = slices.DeleteFunc(w.pods, func(p *fakePod) bool { return p.ending && !w.now.Before(p.dies) })
	if len(w.pods) != gone {
		w.c.changed()
	}
	w.c.act()
}
