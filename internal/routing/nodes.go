package routing

import (
	"net/netip"
	"slices"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// servingNodes are the addresses of the nodes on which an IngressDaemonSet serves: those with a ready pod that
// nobody takes out of their load balancers.
func (v *view) servingNodes(set *IngressDaemonSet) (out []string) {
	for _, d := range v.deployments(set) {
		if !metav1.IsControlledBy(d, set) || !serves(d) {
			continue
		}
		if node := v.node(d.Annotations[v1alpha1.AnnotationNode]); node != nil && attached(node) {
			out = append(out, addressesOf(node)...)
		}
	}
	return out
}

// deployments are those of an IngressDaemonSet's nodes, in the order of their names.
func (v *view) deployments(set *IngressDaemonSet) []*appsv1.Deployment {
	return listed[appsv1.Deployment](v, deploymentsOf(set.Namespace, v1alpha1.LabelValue(set.Name)))
}

// deploymentsOf is the list of the Deployments that have an IngressDaemonSet's label.
func deploymentsOf(namespace, label string) key {
	return key{fact: nodeDeployments, namespace: namespace, name: label}
}

func (v *view) node(name string) *corev1.Node {
	return read[corev1.Node](v, nodeObject, types.NamespacedName{Name: name})
}

// serves reports whether a node's Deployment has a ready pod, and the health checks were not told to fail.
func serves(d *appsv1.Deployment) bool {
	_, marked := v1alpha1.MarkOf(d.Annotations)
	return d.DeletionTimestamp == nil && !marked && d.Status.ReadyReplicas > 0
}

// attached reports whether a node is neither out of its load balancers nor on its way out.
func attached(node *corev1.Node) bool {
	_, excluded := node.Labels[v1alpha1.LabelExclude]
	return node.DeletionTimestamp == nil && !excluded && node.Annotations[v1alpha1.AnnotationNodeDetaching] != "true"
}

// heardFor is for how long a node is ready again until its pods' readiness is believed: its kubelet reads what was
// written of them, and corrects it, within that.
const heardFor = time.Minute

// unheard reports whether a node's kubelet is not heard, or has been for less than a minute, until when, zero for any
// time. The node lifecycle controller then writes that pods are not ready of which nobody knows more than that they were.
// After an API server was away that may be all there are.
func (v *view) unheard(name string) (is bool, until time.Time) {
	node := v.node(name)
	if node == nil {
		return false, until
	}
	for _, c := range node.Status.Conditions {
		if c.Type != corev1.NodeReady {
			continue
		}
		until = c.LastTransitionTime.Add(heardFor)
		if c.Status == corev1.ConditionTrue {
			return v.c.now.Before(until), until
		}
		return true, time.Time{}
	}
	return false, until
}

// addressesOf are where a node is reached from outside: its external addresses, or where it has none, all its
// internal ones. Clouds call IPv6 addresses internal that are reached from everywhere: such a one stands beside
// an external address of IPv4.
func addressesOf(node *corev1.Node) (out []string) {
	external := addressesOfType(node, corev1.NodeExternalIP)
	for _, a := range addressesOfType(node, corev1.NodeInternalIP) {
		covered := slices.ContainsFunc(external, func(e netip.Addr) bool { return e.Is4() == a.Is4() })
		if len(external) == 0 || !covered && !a.IsPrivate() {
			out = append(out, a.String())
		}
	}
	for _, a := range external {
		out = append(out, a.String())
	}
	return out
}

func addressesOfType(node *corev1.Node, kind corev1.NodeAddressType) (out []netip.Addr) {
	for _, a := range node.Status.Addresses {
		address, err := netip.ParseAddr(a.Address)
		// The API server refuses others in a status, all of it.
		if address = address.Unmap(); err == nil && a.Type == kind && address.Zone() == "" && address.IsGlobalUnicast() {
			out = append(out, address)
		}
	}
	return out
}
