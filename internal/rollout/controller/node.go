package controller

import (
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

// endpoints are the health-check ports to listen to: of every node that has a
// Deployment.
func (o *observed) endpoints() []endpoint {
	var out []endpoint
	for _, n := range o.nodes {
		if n.deployment != nil {
			out = append(out, o.endpointsOf(n)...)
		}
	}
	return out
}

func (o *observed) endpointsOf(n *nodeObjects) []endpoint {
	if n.node == nil {
		return nil
	}
	var out []endpoint
	address := nodeAddress(n.node)
	for _, port := range o.set.Spec.HealthCheckNodePorts {
		if !o.taken[port] {
			out = append(out, endpoint{address: address, port: port})
		}
	}
	if o.service != nil && o.service.Spec.HealthCheckNodePort != 0 {
		out = append(out, endpoint{address: address, port: o.service.Spec.HealthCheckNodePort, plain: true})
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

// assemble makes the planner's view of one node.
func (r *Reconciler) assemble(o *observed, known map[string]*reading, name string, n *nodeObjects) (rollout.Node, error) {
	was := known[name]
	if was == nil || !was.of(n) {
		out, err := o.reader.Node(name, n.node, n.deployment, n.pods)
		if err != nil {
			return out, err
		}
		was = &reading{node: n.node, deployment: n.deployment, pods: n.pods, out: out}
		known[name] = was
	}
	out := was.out
	out.CheckersSettled = objects.CheckersSettled(o.set, o.checkers, n.checkers)
	if n.deployment != nil {
		out.Checks = r.answers(o, n)
	}
	return out, nil
}

// readings are what was read from the objects of each node the last time. Most
// objects are the same in the next pass, and reading them is most of its work.
type readings struct {
	mu   sync.Mutex
	sets map[types.NamespacedName]*readingsOf
}

// readingsOf are those with one spec of an IngressDaemonSet.
type readingsOf struct {
	uid        types.UID
	generation int64
	deleted    bool
	nodes      map[string]*reading
}

// reading is what was read from these objects. Objects of the cache never change:
// a newer version is another object.
type reading struct {
	node       *corev1.Node
	deployment *appsv1.Deployment
	pods       []*corev1.Pod
	out        rollout.Node
}

func newReadings() *readings { return &readings{sets: map[types.NamespacedName]*readingsOf{}} }

// of are the readings of the IngressDaemonSet's nodes, to be used by one pass at a time.
func (r *readings) of(set *v1alpha1.IngressDaemonSet) map[string]*reading {
	r.mu.Lock()
	defer r.mu.Unlock()
	key := client.ObjectKeyFromObject(set)
	deleted := set.DeletionTimestamp != nil
	last := r.sets[key]
	if last == nil || last.uid != set.UID || last.generation != set.Generation || last.deleted != deleted {
		last = &readingsOf{set.UID, set.Generation, deleted, map[string]*reading{}}
		r.sets[key] = last
	}
	return last.nodes
}

func (r *readings) forget(set types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.sets, set)
}

// of is whether it was read from just these objects, in whatever order.
func (r *reading) of(n *nodeObjects) bool {
	if r.node != n.node || r.deployment != n.deployment || len(r.pods) != len(n.pods) {
		return false
	}
	for _, pod := range n.pods {
		if !slices.Contains(r.pods, pod) {
			return false
		}
	}
	return true
}

func (r *Reconciler) answers(o *observed, n *nodeObjects) []rollout.Check {
	var out []rollout.Check
	for _, e := range o.endpointsOf(n) {
		c := r.checks.last(client.ObjectKeyFromObject(o.set), e)
		c.Gone = !e.plain && !slices.ContainsFunc(n.checkers, func(p *corev1.Pod) bool {
			return p.Labels[v1alpha1.LabelHealthCheckPort] == objects.PortLabel(e.port)
		})
		out = append(out, c)
	}
	return out
}
