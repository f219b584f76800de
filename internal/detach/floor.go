package detach

// countAttached counts the nodes that would be left if more were taken out.
func (p *planner) countAttached() {
	for i := range p.Nodes {
		if n := &p.Nodes[i]; n.Exists && n.Ready && n.Attachment == nil && !n.controlPlane() {
			p.attached++
		}
	}
}

// mayBegin is whether enough nodes are left attached without this one. It counts
// it as taken out where it may. Targets have floors of their own, in each group.
func (p *planner) mayBegin(n *Node) bool {
	if !n.Ready {
		return true
	}
	if p.attached <= p.MinAttached {
		return false
	}
	p.attached--
	return true
}
