package targets

import (
	"fmt"
	"maps"
	"slices"
)

// anyZone is the zone of targets outside the group's network, which the clients
// of every zone reach.
const anyZone = "all"

// belowMinimum says why the target cannot be taken out without going below what must
// stay, or nothing. Counted are healthy targets that are not leaving, those of
// others included; a target that serves nobody holds nothing up.
func (p *planner) belowMinimum(t Target) (why string, n needs) {
	h := p.Registered[t]
	if !h.serves() {
		return "", n
	}
	if why := p.tooFew(t, "the group", p.group); why != "" {
		return why, n
	}
	for _, zone := range p.zonesOf(h) {
		if why := p.tooFew(t, "zone "+zone, p.zones[zone].plus(p.unzoned)); why != "" {
			return why, n
		}
	}
	if p.ZonesBehind && !p.Group.CrossZone && (!h.zoned() || p.tooFew(t, "its zone", p.zones[h.Zone]) != "") {
		// What is of no zone counts in every one, and may turn out to be of another.
		return "it may be the last healthy target of its zone: the Nodes that tell the zones of others are read first", needs{zones: true}
	}
	return "", n
}

// tooFew says why those that were counted somewhere do not suffice without t.
// The load balancer's own minimum holds in every zone by itself where no client
// crosses zones.
func (p *planner) tooFew(t Target, where string, c count) string {
	c = c.minus(p.counts(t))
	percent := (c.all*p.Group.MinHealthyPercent + 99) / 100
	need := max(1, p.Group.MinHealthy, percent)
	switch {
	case c.healthy >= need:
		return ""
	case c.healthy == 0:
		return "it is the last healthy target of " + where
	}
	return fmt.Sprintf("%s would keep %d healthy targets, and needs %d", where, c.healthy, need)
}

// zonesOf are the zones whose clients lose the target, where zones count: its
// own, or all where it is not known. They are sorted.
func (p *planner) zonesOf(h Health) []string {
	switch {
	case p.Group.CrossZone:
		return nil
	case h.zoned():
		return []string{h.Zone}
	}
	return slices.Sorted(maps.Keys(p.zones))
}

// countAll counts all targets once; recount keeps that right as records change.
func (p *planner) countAll() {
	p.zones = map[string]count{}
	for t := range p.Registered {
		p.recount(t, count{}, p.counts(t))
	}
}
