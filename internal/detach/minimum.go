package detach

import "github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"

// countAttached counts the nodes that would be left if more were taken out, and how many must
// be: a percentage is of all that are ever taken out, whether or not they are ready.
func (p *planner) countAttached() {
	all := 0
	for i := range p.Nodes {
		n := &p.Nodes[i]
		if !n.Exists || n.controlPlane() {
			continue
		}
		all++
		if n.Ready && n.Attachment == nil {
			p.attached++
		}
	}
	var err error
	if p.minAttached, err = v1alpha1.Resolve(p.MinAttached, all); err != nil {
		p.minAttached = all
	}
}

// mayBegin reports whether enough nodes are left attached without this one. Targets have
// minimums of their own, in each group.
func (p *planner) mayBegin(n *Node) bool { return !n.Ready || p.attached > p.minAttached }

// begin counts a node as taken out that was attached.
func (p *planner) begin(n *Node) {
	if n.Ready && n.Attachment == nil {
		p.attached--
	}
}
