package cloud

import (
	"fmt"
	"maps"
	"slices"
	"time"
)

// node is a load balancer in one of its zones. Each learns by itself of a target, and by
// itself stops sending to one that left.
type node struct{ balancer, zone string }

func (n node) String() string { return n.balancer + "/" + n.zone }

// nodesFor are those that may send to a target of a group.
func (c *Cloud) nodesFor(r *registration) []node {
	var all []node
	for _, b := range c.balancersOf(r.group) {
		for _, z := range b.Zones {
			if r.zone == "all" || r.zone == z.Name || b.crossZone(r.group) {
				all = append(all, node{b.Name, z.Name})
			}
		}
	}
	return all
}

// Draw is a moment that was drawn for one node of a load balancer, of which its API says
// nothing.
type Draw struct {
	Group  string    `json:"group"` // its name
	Target Target    `json:"target"`
	What   string    `json:"what"` // serves: the first new flow, at the earliest; ends: the last one
	Node   string    `json:"node"` // BALANCER/ZONE
	From   time.Time `json:"from"` // when the target was registered, or deregistered
	At     time.Time `json:"at"`
}

// String is a line for a log, with the time as it is in this run.
func (d Draw) String() string {
	what := map[string]string{"serves": "may send new connections to", "ends": "sends new connections to"}[d.What]
	till := map[string]string{"serves": "from %.1f s after it was registered on", "ends": "until %.1f s after it was deregistered"}[d.What]
	return fmt.Sprintf("%s %s %s port %d of %s "+till, d.Node, what, d.Target.ID, d.Target.Port, d.Group, d.At.Sub(d.From).Seconds())
}

// note remembers what was drawn.
func (c *Cloud) note(r *registration, what string, n node, at time.Time) {
	from := r.at
	if what == "ends" {
		from = r.gone
	}
	c.draws = append(c.draws, Draw{Group: r.group.Name, Target: r.target, What: what, Node: n.String(), From: from, At: at})
}

// Draws are those after the first n, in the order in which they were made.
func (c *Cloud) Draws(n int) []Draw {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]Draw{}, c.draws[min(max(n, 0), len(c.draws)):]...)
}

// SetLags changes the lags of what happens from now on. What is not named is as it was at
// the beginning.
func (c *Cloud) SetLags(changed map[Kind]Lags) error {
	lags := maps.Clone(c.unchanged)
	for _, kind := range slices.Sorted(maps.Keys(changed)) {
		if _, known := lags[kind]; !known {
			return fmt.Errorf("lags: there is no kind %q", kind)
		}
		if err := changed[kind].validate(); err != nil {
			return fmt.Errorf("lags of %s: %w", kind, err)
		}
		lags[kind] = changed[kind].over(lags[kind])
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lags = lags
	return nil
}
