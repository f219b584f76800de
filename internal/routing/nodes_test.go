package routing

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestServingNodes: without a Service that leads there, an Ingress is reached at the nodes with a ready pod that
// nobody takes out of their load balancers.
func TestServingNodes(t *testing.T) {
	soon := metav1.NewTime(noon.Add(time.Minute))
	for name, test := range map[string]struct {
		change func(*appsv1.Deployment, *corev1.Node)
		serves bool
	}{
		"with a ready pod":        {func(*appsv1.Deployment, *corev1.Node) {}, true},
		"with too few ready pods": {func(d *appsv1.Deployment, _ *corev1.Node) { d.Annotations[v1alpha1.AnnotationPodsPerNode] = "2" }, true},
		"that is cordoned":        {func(_ *appsv1.Deployment, n *corev1.Node) { n.Spec.Unschedulable = true }, true},
		"that was attached again": {func(_ *appsv1.Deployment, n *corev1.Node) {
			n.Annotations = map[string]string{v1alpha1.AnnotationNodeDetaching: "false"}
		}, true},
		"without a ready pod": {func(d *appsv1.Deployment, _ *corev1.Node) { d.Status.ReadyReplicas = 0 }, false},
		"that is marked":      {func(d *appsv1.Deployment, _ *corev1.Node) { d.Annotations[v1alpha1.DefaultMarkKey] = "" }, false},
		"that is marked under another key": {func(d *appsv1.Deployment, _ *corev1.Node) {
			d.Annotations[v1alpha1.AnnotationMarkKey], d.Annotations["example.com/out"] = "example.com/out", "x"
		}, false},
		"whose Deployment goes": {func(d *appsv1.Deployment, _ *corev1.Node) { d.DeletionTimestamp = &soon }, false},
		"of another":            {func(d *appsv1.Deployment, _ *corev1.Node) { d.OwnerReferences[0].UID = "another" }, false},
		"with another's label":  {func(d *appsv1.Deployment, _ *corev1.Node) { d.Labels[v1alpha1.LabelName] = "another" }, false},
		"in another namespace":  {func(d *appsv1.Deployment, _ *corev1.Node) { d.Namespace = "another" }, false},
		"that is not there":     {func(d *appsv1.Deployment, _ *corev1.Node) { d.Annotations[v1alpha1.AnnotationNode] = "gone" }, false},
		"that is deleted":       {func(_ *appsv1.Deployment, n *corev1.Node) { n.DeletionTimestamp = &soon }, false},
		"that is being detached": {func(_ *appsv1.Deployment, n *corev1.Node) {
			n.Annotations = map[string]string{v1alpha1.AnnotationNodeDetaching: "true"}
		}, false},
		"that load balancers leave out": {func(_ *appsv1.Deployment, n *corev1.Node) { n.Labels = map[string]string{v1alpha1.LabelExclude: ""} }, false},
	} {
		m := newModel(Options{})
		m.set(&IngressDaemonSet{ObjectMeta: meta("ingress", "proxy")})
		m.set(classFor("ids", "proxy"))
		m.set(ingressFor("default", "web", "ids", "web.example", "web"))
		m.compile(noon)
		d, n := nodeDeployment("proxy", "one"), nodeAt("one", "192.0.2.1")
		test.change(d, n)
		m.set(d)
		m.set(n)
		r := m.compile(noon)
		var want []Status
		if test.serves {
			want = []Status{{Object: Ref{"Ingress", "default", "web"}, Ingress: &IngressStatus{
				LoadBalancer: []networkingv1.IngressLoadBalancerIngress{{IP: "192.0.2.1"}}, Addresses: "192.0.2.1",
			}}}
		}
		if diff := cmp.Diff(want, r.Statuses); diff != "" {
			t.Errorf("a node %s: statuses are wrong (-want +got):\n%s", name, diff)
		}
	}
}

// TestManyNodes: each Ingress has a copy of the addresses, so that there are not more than DNS has use for.
func TestManyNodes(t *testing.T) {
	m := newModel(Options{})
	m.set(&IngressDaemonSet{ObjectMeta: meta("ingress", "proxy")})
	m.set(classFor("ids", "proxy"))
	m.set(ingressFor("default", "web", "ids", "web.example", "web"))
	for i := range mostAddresses + 1 {
		name := fmt.Sprintf("node-%03d", i)
		m.set(nodeDeployment("proxy", name))
		m.set(nodeAt(name, fmt.Sprintf("192.0.2.%d", i+100)))
	}
	got := m.compile(noon).Statuses[0].Ingress.LoadBalancer
	if n := len(got); n != mostAddresses || got[0].IP != "192.0.2.100" || got[n-1].IP != "192.0.2.163" {
		t.Errorf("%d addresses: %v", n, got)
	}
}

func nodeAt(name string, addresses ...string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: meta("", name)}
	for _, a := range addresses {
		n.Status.Addresses = append(n.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: a})
	}
	return n
}

// TestAddressesOfNodes: external ones go before internal ones, of each family.
func TestAddressesOfNodes(t *testing.T) {
	for name, test := range map[string]struct {
		external, internal []string
		want               []string
	}{
		"internal":                       {nil, []string{"10.0.0.1"}, []string{"10.0.0.1"}},
		"internal of both families":      {nil, []string{"10.0.0.1", "fd00::1"}, []string{"10.0.0.1", "fd00::1"}},
		"external":                       {[]string{"203.0.113.1"}, []string{"10.0.0.1"}, []string{"203.0.113.1"}},
		"external of both families":      {[]string{"203.0.113.1", "2001:db8::1"}, []string{"10.0.0.1", "fd00::1"}, []string{"203.0.113.1", "2001:db8::1"}},
		"an IPv6 that is reached":        {[]string{"203.0.113.1"}, []string{"10.0.0.1", "2001:db8::1"}, []string{"203.0.113.1", "2001:db8::1"}},
		"an IPv6 that is private":        {[]string{"203.0.113.1"}, []string{"10.0.0.1", "fd00::1"}, []string{"203.0.113.1"}},
		"an external that is no address": {[]string{"node.example"}, []string{"10.0.0.1"}, []string{"10.0.0.1"}},
		"an IPv6 in another form":        {nil, []string{"2001:DB8:0::1"}, []string{"2001:db8::1"}},
		"none":                           {nil, nil, nil},
	} {
		n := nodeAt("one", test.internal...)
		n.Status.Addresses = append(n.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeHostName, Address: "192.0.2.99"})
		for _, a := range test.external {
			n.Status.Addresses = append(n.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeExternalIP, Address: a})
		}
		got := addressesOf(n)
		slices.Sort(got)
		slices.Sort(test.want)
		if !slices.Equal(got, test.want) {
			t.Errorf("%s: it is reached at %v, want %v", name, got, test.want)
		}
	}
}
