package controller

import (
	"maps"
	"slices"
	"sync"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/rollout"
	"github.com/mumoshu/ingress-daemonset-controller/internal/rollout/objects"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ports are the health-check ports of every node, without an address.
func (o *observed) ports() []endpoint {
	var out []endpoint
	for _, port := range o.set.Spec.HealthCheckNodePorts {
		if !o.taken[port] {
			out = append(out, endpoint{port: port})
		}
	}
	if o.service != nil && o.service.Spec.HealthCheckNodePort != 0 {
		out = append(out, endpoint{port: o.service.Spec.HealthCheckNodePort, plain: true})
	}
	return out
}

// at are the ports of a node.
func at(node *corev1.Node, ports []endpoint) []endpoint {
	if node == nil {
		return nil
	}
	out, address := slices.Clone(ports), nodeAddress(node)
	for i := range out {
		out[i].address = address
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

// read makes the planner's view of one node, but for the answers of its ports.
func (o *observed) read(name string, n *nodeObjects) *reading {
	if last := o.known.nodes[name]; last != nil && last.of(n) {
		return last
	}
	r := &reading{node: n.node, deployment: n.deployment, pods: n.pods, checkers: n.checkers}
	o.known.nodes[name] = r
	r.out, r.err = o.reader.Node(name, n.node, n.deployment, n.pods)
	r.out.CheckersSettled = objects.CheckersSettled(o.set, o.checkers, n.checkers)
	if n.deployment != nil {
		r.endpoints = at(n.node, o.known.ports)
	}
	for _, e := range r.endpoints {
		gone := !e.plain && !slices.ContainsFunc(n.checkers, func(p *corev1.Pod) bool { return o.known.pods[p].port == objects.PortLabel(e.port) })
		r.gone = append(r.gone, gone)
	}
	return r
}

// checkerRevisions are those of the health checkers, by port.
func (o *observed) checkerRevisions() map[int32]string {
	out := map[int32]string{}
	for port, ds := range o.checkers {
		out[port] = objects.CheckerRevision(ds.Spec.Template.Labels)
	}
	return out
}

// memory keeps what was read from the objects of each IngressDaemonSet the last
// time. Most objects are the same in the next pass, and reading them is most of its
// work. Objects of the cache never change: a newer version is another object.
type memory struct {
	mu   sync.Mutex
	sets map[types.NamespacedName]*readings
}

// readings are those with one spec of an IngressDaemonSet, the same health-check
// ports and the same health checkers, to be used by one pass at a time.
type readings struct {
	uid        types.UID
	generation int64
	deleted    bool
	ports      []endpoint
	checkers   map[int32]string
	// names are the nodes', in order.
	names []string
	nodes map[string]*reading
	pods  map[*corev1.Pod]place
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
	// err is why the node cannot be read with the spec, out is of no use then.
	err error
}

// place is where a pod belongs: to which node, if any, and behind which health-check
// port where it is a health checker.
type place struct{ node, port string }

func newMemory() *memory { return &memory{sets: map[types.NamespacedName]*readings{}} }

// of are the readings of the IngressDaemonSet.
func (m *memory) of(set *v1alpha1.IngressDaemonSet) *readings {
	m.mu.Lock()
	defer m.mu.Unlock()
	key := client.ObjectKeyFromObject(set)
	deleted := set.DeletionTimestamp != nil
	last := m.sets[key]
	if last == nil || last.uid != set.UID || last.generation != set.Generation || last.deleted != deleted {
		last = &readings{uid: set.UID, generation: set.Generation, deleted: deleted, nodes: map[string]*reading{}}
		m.sets[key] = last
	}
	return last
}

func (m *memory) forget(set types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.sets, set)
}

// with drops what was read with other ports or health checkers.
func (r *readings) with(ports []endpoint, checkers map[int32]string) {
	if !slices.Equal(r.ports, ports) || !maps.Equal(r.checkers, checkers) {
		r.ports, r.checkers, r.nodes = ports, checkers, map[string]*reading{}
	}
}

// order gives the names of the nodes in order, and forgets the others.
func (r *readings) order(nodes map[string]*nodeObjects) []string {
	known := func(name string) bool { return nodes[name] != nil }
	if len(r.names) != len(nodes) || !every(r.names, known) {
		r.names = slices.Sorted(maps.Keys(nodes))
		maps.DeleteFunc(r.nodes, func(name string, _ *reading) bool { return !known(name) })
	}
	return r.names
}

func every(names []string, holds func(string) bool) bool {
	return !slices.ContainsFunc(names, func(name string) bool { return !holds(name) })
}

// of is whether it was read from just these objects, in whatever order.
func (r *reading) of(n *nodeObjects) bool {
	return r.node == n.node && r.deployment == n.deployment && samePods(r.pods, n.pods) && samePods(r.checkers, n.checkers)
}

func samePods(a, b []*corev1.Pod) bool {
	return len(a) == len(b) && !slices.ContainsFunc(b, func(pod *corev1.Pod) bool { return !slices.Contains(a, pod) })
}

// answers are the last of a node's health-check ports.
func (r *Reconciler) answers(o *observed, n *nodeObjects) []rollout.Check {
	var out []rollout.Check
	for i, e := range n.reading.endpoints {
		c := r.checks.last(client.ObjectKeyFromObject(o.set), e)
		c.Gone = n.reading.gone[i]
		out = append(out, c)
	}
	return out
}
