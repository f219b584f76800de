package targets

import "time"

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
