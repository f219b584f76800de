package harness

import "github.com/mumoshu/ingress-daemonset-controller/test/cluster"

// Split gives so many lanes, each with the same number of the harness's nodes and with ports of its
// own for load balancer and client. What is shown on one lane sees nothing of the others, as long as
// its fleets keep to its nodes.
func (s *Harness) Split(lanes int) []*Harness {
	each := len(s.nodes) / lanes
	var out []*Harness
	for i := range lanes {
		lane := *s
		lane.lane, lane.nodes = i, s.nodes[i*each:(i+1)*each]
		out = append(out, &lane)
	}
	return out
}

// Nodes are the real nodes of the lane.
func (s *Harness) Nodes() []*cluster.Node { return s.nodes }
