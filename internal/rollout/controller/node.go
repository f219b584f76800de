package controller

import (
	"maps"
	"slices"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/nodehealth/healthclient"
	"github.com/mumoshu/ingress-daemonset-controller/internal/rollout"
	"github.com/mumoshu/ingress-daemonset-controller/internal/rollout/objects"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

// ports are the health-check ports of every node, without an address: those of the spec,
// and those that were removed from it and are still answered.
func (o *observed) ports() []endpoint {
	var out []endpoint
	for _, port := range o.set.Spec.HealthCheckNodePorts {
		if !o.taken[port] || o.checkers[port] != nil {
			out = append(out, endpoint{Port: healthclient.Port{Number: port}})
		}
	}
	for _, port := range slices.Sorted(maps.Keys(o.checkers)) {
		if o.retiring(port) {
			out = append(out, endpoint{
				Port: healthclient.Port{Number: port}, deserted: !o.seated[port], barred: port < lowestPort || rollout.OfTheSystem(port),
			})
		}
	}
	if o.service != nil && o.service.Spec.HealthCheckNodePort != 0 {
		out = append(out, endpoint{Port: healthclient.Port{Number: o.service.Spec.HealthCheckNodePort, Plain: true}})
	}
	return out
}

// lowestPort is the lowest that a spec may name (docs/adr/0007).
const lowestPort = 1024

// retiring reports whether a port that is answered was removed from the spec.
func (o *observed) retiring(port int32) bool {
	return o.checkers[port] != nil && !slices.Contains(o.set.Spec.HealthCheckNodePorts, port)
}

// endpointsAt are the ports of a node.
func endpointsAt(node *corev1.Node, ports []endpoint) []endpoint {
	if node == nil {
		return nil
	}
	out, address := slices.Clone(ports), nodeAddress(node)
	for i := range out {
		out[i].Node, out[i].Address = node.Name, address
	}
	return out
}

func nodeAddress(node *corev1.Node) string {
	for _, a := range node.Status.Addresses {
		if a.Type == corev1.NodeInternalIP {
			return a.Address
		}
	}
	return ""
}

// checkerRevisions are those of the health checkers, by port.
func (o *observed) checkerRevisions() map[int32]string {
	out := map[int32]string{}
	for port, ds := range o.checkers {
		out[port] = objects.CheckerRevision(ds.Spec.Template.Labels)
	}
	return out
}

// readings are what was read the last time with one spec of an IngressDaemonSet, to be used by one
// pass at a time. Most objects are the same in the next pass, and reading them is most of its work.
// Objects of the cache never change: a newer version is another object.
type readings struct {
	generation int64
	deleted    bool
	// ports and checkers are the health-check ports, and the revisions of the health
	// checkers behind them, that the readings were made with.
	ports    []endpoint
	checkers map[int32]string
	// revision is that of the template, wantedCheckers are those that the health checkers
	// should have, as far as they were asked for.
	revision       string
	wantedCheckers map[int32]string
	// nodes are nil before all were read once.
	nodes map[string]*nodeObjects
	// names are the nodes', in order; nil where nodes came or went.
	names []string
	// unread are the nodes to be read again, moved says whether there are other
	// endpoints than before.
	unread map[string]bool
	moved  bool
}

// reading is what was read from these objects.
type reading struct {
	node       *corev1.Node
	deployment *appsv1.Deployment
	pods       []*corev1.Pod
	checkers   []*corev1.Pod
	// endpoints are the node's health-check ports, gone whether no health checker is
	// left behind each.
	endpoints []endpoint
	gone      []bool
	out       rollout.Node
	// err is why the node cannot be matched with the spec: it then belongs where it did.
	err error
}

// replace puts the objects of all nodes.
func (r *readings) replace(all map[string]*nodeObjects) {
	if r.nodes == nil {
		r.nodes, r.unread = map[string]*nodeObjects{}, map[string]bool{}
	}
	for name := range r.nodes {
		if all[name] == nil {
			r.put(name, nil)
		}
	}
	for name, n := range all {
		r.put(name, n)
	}
}

// put puts the objects of one node; nil where nothing is left of it.
func (r *readings) put(name string, n *nodeObjects) {
	old := r.nodes[name]
	if (old == nil) != (n == nil) {
		r.names, r.moved = nil, true
	}
	if n == nil {
		delete(r.nodes, name)
		delete(r.unread, name)
		return
	}
	if old != nil {
		n.reading, n.compared = old.reading, old.compared
	}
	r.nodes[name], r.unread[name] = n, true
}

// with has all nodes read again where ports or health checkers are others.
func (r *readings) with(ports []endpoint, checkers map[int32]string) {
	if slices.Equal(r.ports, ports) && maps.Equal(r.checkers, checkers) {
		return
	}
	r.ports, r.checkers, r.moved = ports, checkers, true
	for name, n := range r.nodes {
		n.reading, r.unread[name] = nil, true
	}
}

// order are the names of the nodes in order.
func (r *readings) order() []string {
	if r.names == nil {
		r.names = slices.Sorted(maps.Keys(r.nodes))
	}
	return r.names
}

// read reads the nodes that changed, and reports whether there are other endpoints now.
func (r *readings) read(o *observed) (moved bool) {
	for name := range r.unread {
		n := r.nodes[name]
		last := n.reading
		if last != nil && last.of(n) {
			continue
		}
		n.reading = o.read(name, n)
		r.moved = r.moved || last == nil || !slices.Equal(last.endpoints, n.reading.endpoints)
	}
	moved, r.moved = r.moved, false
	clear(r.unread)
	return moved
}

// read makes the planner's view of one node, but for the answers of its ports.
func (o *observed) read(name string, n *nodeObjects) *reading {
	r := &reading{node: n.node, deployment: n.deployment, pods: n.pods, checkers: n.checkers}
	r.out, r.err = o.reader.Node(name, n.node, n.deployment, n.pods)
	r.out.CheckersSettled = objects.CheckersSettled(o.set, o.checkers, n.checkers)
	if n.deployment != nil {
		r.endpoints = endpointsAt(n.node, o.session.readings.ports)
	}
	for _, e := range r.endpoints {
		gone := !e.Plain && !slices.ContainsFunc(n.checkers, func(p *corev1.Pod) bool { return placeOf(p).port == objects.PortLabel(e.Number) })
		r.gone = append(r.gone, gone)
	}
	return r
}

// readingsOf are those of the IngressDaemonSet as it is now.
func (s *session) readingsOf(set *v1alpha1.IngressDaemonSet) *readings {
	deleted := set.DeletionTimestamp != nil
	if s.readings == nil || s.readings.generation != set.Generation || s.readings.deleted != deleted {
		s.readings = &readings{
			generation: set.Generation, deleted: deleted,
			revision: objects.Revision(objects.Template(set)), wantedCheckers: map[int32]string{},
		}
	}
	return s.readings
}

// of reports whether it was read from just these objects, in whatever order.
func (r *reading) of(n *nodeObjects) bool {
	return r.node == n.node && r.deployment == n.deployment && samePods(r.pods, n.pods) && samePods(r.checkers, n.checkers)
}

func samePods(a, b []*corev1.Pod) bool {
	return len(a) == len(b) && !slices.ContainsFunc(b, func(pod *corev1.Pod) bool { return !slices.Contains(a, pod) })
}

// answers are the last of a node's health-check ports.
func (o *observed) answers(n *nodeObjects) []rollout.Check {
	var out []rollout.Check
	for i, e := range n.reading.endpoints {
		c := o.session.checks.last(e)
		c.Gone, c.Retiring = n.reading.gone[i] || e.deserted, o.retiring(e.Number)
		out = append(out, c)
	}
	return out
}
