package controller

import (
	"slices"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/rollout"
	"github.com/mumoshu/ingress-daemonset-controller/internal/rollout/objects"
	corev1 "k8s.io/api/core/v1"
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
func (r *Reconciler) assemble(o *observed, name string, n *nodeObjects) (rollout.Node, error) {
	out, err := o.reader.Node(name, n.node, n.deployment, n.pods)
	out.CheckersSettled = objects.CheckersSettled(o.set, o.checkers, n.checkers)
	if n.deployment != nil {
		out.Checks = r.answers(o, n)
	}
	return out, err
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
