package cloud

import (
	"slices"
	"strconv"
	"time"
)

// Target is what is registered with a group: one id may be registered with several ports.
type Target struct {
	ID   string `json:"id"`
	Port int    `json:"port"`
	Zone string `json:"zone,omitempty"` // all, a zone, or "" where it follows from the id

	// QuicServerID is the server id of a target of QUIC: 0x and 16 hexadecimal digits.
	QuicServerID string `json:"quicServerId,omitempty"`
}

// registration is a target in a group from one call that registered it to the end of
// what followed from deregistering it. A target that is registered again while it drains
// gets a registration of its own beside the old one.
//
// Invariant: what is true of it at a moment depends on its times and verdicts up to that
// moment only, so that a question about the past is answered as it was then.
type registration struct {
	number  int
	group   *group
	target  Target
	zone    string // all, or the zone that it is in
	address string

	event []string // that its draws depend on
	lags  Lags     // of when it was registered

	at       time.Time
	checksAt time.Time // the first health check
	servesAt time.Time // new flows, at the earliest
	fade     time.Duration
	learned  map[node]time.Time // new flows through a node, at the earliest

	verdicts  []verdict // changes, oldest first
	streak    int       // consecutive checks that passed, or failed if negative
	nextCheck time.Time

	gone         time.Time          // deregistered; zero while it is not
	drainedAt    time.Time          // of one that is gone: no longer listed
	lingersUntil time.Time          // of one that is gone: no new flows through any node
	ends         map[node]time.Time // of one that is gone: no new flows through a node

	cuts []time.Time // flows that were opened before are reset
}

// verdict is what the health checks came to.
type verdict struct {
	at                         time.Time
	state, reason, description string
}

// States of a target's health.
const (
	Healthy     = "healthy"
	Unhealthy   = "unhealthy"
	Unavailable = "unavailable"
	Initial     = "initial"
	Draining    = "draining"
	Unused      = "unused"
	// UnhealthyDraining is unhealthy, with its flows left alone for an interval.
	UnhealthyDraining = "unhealthy.draining"
)

func (c *Cloud) newRegistration(g *group, t resolved, now time.Time) *registration {
	c.number++
	lags, event := c.lags[g.kind], []string{g.Name, t.ID, strconv.Itoa(t.Port), strconv.Itoa(c.occurrence(g, t.Target))}
	r := &registration{
		number: c.number, group: g, target: t.Target, zone: t.zone, address: t.address, at: now, event: event, lags: lags,
		learned:  map[node]time.Time{},
		checksAt: now.Add(c.draw(lags.Check, append(event, "check")...)),
		servesAt: now.Add(c.draw(lags.Serve, append(event, "serve")...)),
		fade:     c.draw(lags.Fade, append(event, "fade")...),
	}
	r.nextCheck = r.checksAt
	if g.AssumeHealthy {
		r.verdicts = []verdict{{at: r.checksAt, state: Healthy}}
	}
	c.byNumber[r.number] = r
	for _, n := range c.nodesFor(r) {
		c.note(r, "serves", n, c.learnedBy(r, n))
	}
	return r
}

// learnedBy is when a node of a balancer begins to send to the target.
func (c *Cloud) learnedBy(r *registration, n node) time.Time {
	at, drawn := r.learned[n]
	if !drawn {
		at = r.servesAt.Add(c.draw(r.lags.Learn, slices.Concat(r.event, []string{"learn", n.balancer, n.zone})...))
		r.learned[n] = at
	}
	return at
}

// occurrence counts the registrations of a target that are still remembered, so that
// each draws other lags than the one before.
func (c *Cloud) occurrence(g *group, t Target) (n int) {
	for _, r := range g.past {
		if r.is(t) {
			n++
		}
	}
	return n
}

func (r *registration) is(t Target) bool { return r.target.ID == t.ID && r.target.Port == t.Port }

// isGone reports whether the target was deregistered by then.
func (r *registration) isGone(at time.Time) bool { return !r.gone.IsZero() && !at.Before(r.gone) }

// listed reports whether the API listed it then.
func (r *registration) listed(at time.Time) bool {
	return !at.Before(r.at) && (!r.isGone(at) || at.Before(r.drainedAt))
}

// verdictAt is the last verdict until then; since when its state held, and whether the
// target was serving until that.
func (r *registration) verdictAt(at time.Time) (v verdict, since time.Time, hadServed bool) {
	for _, next := range r.verdicts {
		if next.at.After(at) {
			break
		}
		if next.state != v.state {
			since, hadServed = next.at, v.state != "" && v.state != Unhealthy && next.at.After(r.servesAt)
		}
		v = next
	}
	return v, since, hadServed
}

// takesNew reports whether new flows went to the target through a node then, failing open apart.
// A node that was made after the target had left does not know it.
func (c *Cloud) takesNew(r *registration, n node, at time.Time) bool {
	if at.Before(c.learnedBy(r, n)) || r.isGone(at) && !at.Before(r.ends[n]) {
		return false
	}
	switch v, since, hadServed := r.verdictAt(at); v.state {
	case "":
		return false
	case Unhealthy:
		return hadServed && at.Before(since.Add(r.fade))
	}
	return true
}

// failsOpen reports whether it is a target of a node for when none is healthy.
func (c *Cloud) failsOpen(r *registration, n node, at time.Time) bool {
	v, _, _ := r.verdictAt(at)
	return v.state == Unhealthy && !at.Before(c.learnedBy(r, n)) && !r.isGone(at)
}

// counts reports whether the target is healthy in the sense of the API.
func (r *registration) counts(at time.Time) bool {
	v, _, _ := r.verdictAt(at)
	return !r.isGone(at) && !at.Before(r.servesAt) && (v.state == Healthy || v.state == Unavailable)
}

// judge records a verdict that differs from the one before.
func (c *Cloud) judge(r *registration, v verdict) {
	var last verdict
	if len(r.verdicts) > 0 {
		last = r.verdicts[len(r.verdicts)-1]
	}
	if last.state == v.state && last.reason == v.reason && last.description == v.description {
		return
	}
	r.verdicts = append(r.verdicts, v)
	if last.state == v.state {
		return
	}
	// Flows that an unhealthy target was to lose later stay when it recovers.
	if v.state != Unhealthy {
		r.keepFlows(v.at)
		return
	}
	if at, cut := c.cutOnUnhealthy(r.group, v.at); cut && !c.allUnhealthy(r.group, v.at) {
		r.cuts = append(r.cuts, at)
	}
}

// allUnhealthy reports whether a network load balancer fails open in all its zones. It then
// resets no flows.
func (c *Cloud) allUnhealthy(g *group, at time.Time) bool {
	if g.kind != Network {
		return false
	}
	for _, b := range c.balancersOf(g) {
		for _, z := range b.Zones {
			if c.healthyIn(b, g, z.Name, at) >= g.number(attributeRoutingMinimum) {
				return false
			}
		}
	}
	return true
}

// keepFlows takes back the cuts that are still to come, but for that of leaving.
func (r *registration) keepFlows(now time.Time) {
	kept := r.cuts[:0]
	for _, at := range r.cuts {
		if !at.After(now) || !r.gone.IsZero() && at.Equal(r.drainedAt) {
			kept = append(kept, at)
		}
	}
	r.cuts = kept
}

// cutOnUnhealthy is when the flows of a target that turned unhealthy are reset, if they are.
func (c *Cloud) cutOnUnhealthy(g *group, turned time.Time) (time.Time, bool) {
	if g.Attributes[attributeCutOnUnhealthy] == "true" {
		return turned, true
	}
	interval := g.number(attributeUnhealthyDrain)
	return turned.Add(c.seconds(interval)), interval > 0
}

// number is an attribute that is one.
func (g *group) number(attribute string) int {
	n, _ := strconv.Atoi(g.Attributes[attribute])
	return n
}

// leave deregisters the target.
func (c *Cloud) leave(r *registration, now time.Time) {
	g := r.group
	r.gone = now
	r.drainedAt = now.Add(c.seconds(g.number(attributeDelay)))
	event := []string{g.Name, r.target.ID, strconv.Itoa(r.target.Port), strconv.Itoa(c.occurrence(g, r.target)), "linger"}
	r.ends, r.lingersUntil = map[node]time.Time{}, now
	for _, n := range c.nodesFor(r) {
		end := now.Add(c.draw(c.lags[g.kind].Linger, append(event, n.balancer, n.zone)...))
		r.ends[n] = end
		if end.After(r.lingersUntil) {
			r.lingersUntil = end
		}
		c.note(r, "ends", n, end)
	}
	if g.kind == Application || g.Attributes[attributeCutOnLeaving] == "true" {
		r.cuts = append(r.cuts, r.drainedAt)
	}
}

// forget drops registrations of which nothing follows any more.
func (c *Cloud) forget(g *group, now time.Time) {
	kept := g.past[:0]
	for _, r := range g.past {
		if now.Before(r.drainedAt.Add(c.scaled(Retention))) || now.Before(r.lingersUntil.Add(c.scaled(Retention))) {
			kept = append(kept, r)
			continue
		}
		delete(c.byNumber, r.number)
	}
	clear(g.past[len(kept):])
	g.past = kept
}
