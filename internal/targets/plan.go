package targets

import (
	"maps"
	"slices"
)

// Plan decides about all groups and all objects at once. It is deterministic, and does
// not depend on the order of what it is given, nor on what objects are called.
//
// Its invariants: all records are read before anything is wanted, so that what is ours
// does not depend on who asks first; where a record cannot be read, nothing is
// concluded about its group; and a node, a finalizer or a drain hook is let go only by
// the inventories of all groups that may concern it.
func Plan(s State) Decision {
	p := newPass(s)
	p.readRecords()
	p.reached = p.reachedGroups()
	for _, g := range p.reached {
		p.byKey[g.key] = g
	}
	p.findUnfound()
	for _, g := range p.reached {
		p.takeParts(g)
		if len(g.parts)+len(g.nodes) > 0 {
			p.groups = append(p.groups, g)
			g.decide(p)
			g.indexReports(p)
		}
	}
	p.planGroups()
	p.tellHooks()
	for _, a := range p.attachments {
		p.tellGates(a)
		p.decideAttachment(a)
	}
	for _, n := range p.nodeAttachments {
		p.decideNodeAttachment(n)
	}
	p.rememberZones()
	p.planAccounts()
	return p.out
}

// rememberZones remembers those of lost instances also where nobody decides about the groups in
// which they were found, those of nodes that are moved, and of what is on record, which may be out
// now and put back: somebody may decide about them in the next pass.
func (p *pass) rememberZones() {
	for _, records := range p.held {
		for _, h := range records {
			p.keepZone(h.ID)
		}
	}
	for id := range p.Memory.Zones {
		if p.hasAttachment(id) || slices.ContainsFunc(p.reached, func(g *group) bool { return g.Instances[id] }) {
			p.keepZone(id)
		}
	}
	p.out.Memory.Zones = p.zones
	if len(p.lost) > 0 {
		p.out.Memory.Zones = maps.Clone(p.zones)
		maps.Copy(p.out.Memory.Zones, p.lost)
	}
}
