package routing

import (
	"testing"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestAlike: what is written again and again without a matter here is told apart from what is read.
func TestAlike(t *testing.T) {
	soon := metav1.NewTime(noon.Add(time.Minute))
	node := func() *corev1.Node {
		n := nodeAt("one", "192.0.2.1")
		n.Labels = map[string]string{"pool": "a"}
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeDiskPressure}, {Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(noon)}}
		return n
	}
	ofNode := func(change func(*corev1.Node)) [2]metav1.Object {
		n := node()
		change(n)
		return [2]metav1.Object{node(), n}
	}
	ofDeployment := func(change func(*appsv1.Deployment)) [2]metav1.Object {
		d := nodeDeployment("proxy", "one")
		change(d)
		return [2]metav1.Object{nodeDeployment("proxy", "one"), d}
	}
	ofSlice := func(change func(*discoveryv1.EndpointSlice)) [2]metav1.Object {
		slice := func() *discoveryv1.EndpointSlice {
			return &discoveryv1.EndpointSlice{ObjectMeta: meta("shop", "web-1"), Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"10.0.0.1"}}}}
		}
		s := slice()
		change(s)
		return [2]metav1.Object{slice(), s}
	}
	ofSet := func(change func(*IngressDaemonSet)) [2]metav1.Object {
		s := &IngressDaemonSet{ObjectMeta: meta("ingress", "proxy")}
		change(s)
		return [2]metav1.Object{&IngressDaemonSet{ObjectMeta: meta("ingress", "proxy")}, s}
	}
	for name, test := range map[string]struct {
		objects [2]metav1.Object
		alike   bool
	}{
		"a heartbeat": {ofNode(func(n *corev1.Node) {
			n.ResourceVersion, n.Status.Conditions[1].LastHeartbeatTime = "2", soon
		}), true},
		"another condition":       {ofNode(func(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionTrue }), true},
		"an annotation of a Node": {ofNode(func(n *corev1.Node) { n.Annotations = map[string]string{"a": "b"} }), true},
		"a kubelet that is lost":  {ofNode(func(n *corev1.Node) { n.Status.Conditions[1].Status = corev1.ConditionUnknown }), false},
		"one that was lost":       {ofNode(func(n *corev1.Node) { n.Status.Conditions[1].LastTransitionTime = soon }), false},
		"no word of a kubelet":    {ofNode(func(n *corev1.Node) { n.Status.Conditions = nil }), false},
		"an address":              {ofNode(func(n *corev1.Node) { n.Status.Addresses[0].Address = "192.0.2.2" }), false},
		"a label":                 {ofNode(func(n *corev1.Node) { n.Labels["pool"] = "b" }), false},
		"a taint":                 {ofNode(func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{{Key: "a"}} }), false},
		"a Node that is deleted":  {ofNode(func(n *corev1.Node) { n.DeletionTimestamp = &soon }), false},
		"a Node that is detached": {ofNode(func(n *corev1.Node) { n.Annotations = map[string]string{v1alpha1.AnnotationNodeDetaching: "true"} }), false},
		"a rollout of a node":     {ofDeployment(func(d *appsv1.Deployment) { d.Generation, d.Status.UpdatedReplicas, d.Status.ReadyReplicas = 2, 1, 2 }), true},
		"no ready pod":            {ofDeployment(func(d *appsv1.Deployment) { d.Status.ReadyReplicas = 0 }), false},
		"a mark":                  {ofDeployment(func(d *appsv1.Deployment) { d.Annotations[v1alpha1.DefaultMarkKey] = "" }), false},
		"another owner":           {ofDeployment(func(d *appsv1.Deployment) { d.OwnerReferences[0].UID = "another" }), false},
		"a Deployment that goes":  {ofDeployment(func(d *appsv1.Deployment) { d.DeletionTimestamp = &soon }), false},
		"a Deployment of another": {ofDeployment(func(d *appsv1.Deployment) { d.Labels[v1alpha1.LabelName] = "another" }), false},
		"a trigger time": {ofSlice(func(s *discoveryv1.EndpointSlice) {
			s.Annotations, s.Generation = map[string]string{corev1.EndpointsLastChangeTriggerTime: "now"}, 2
		}), true},
		"an endpoint":            {ofSlice(func(s *discoveryv1.EndpointSlice) { s.Endpoints[0].Addresses[0] = "10.0.0.2" }), false},
		"a Service":              {ofSlice(func(s *discoveryv1.EndpointSlice) { s.Labels = map[string]string{discoveryv1.LabelServiceName: "web"} }), false},
		"a status of a rollout":  {ofSet(func(s *IngressDaemonSet) { s.ResourceVersion = "2" }), true},
		"a node selector":        {ofSet(func(s *IngressDaemonSet) { s.NodeSelector = map[string]string{"a": "b"} }), false},
		"an annotation":          {[2]metav1.Object{&corev1.Namespace{}, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"a": "b"}}}}, true},
		"a label of a Namespace": {[2]metav1.Object{&corev1.Namespace{}, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"a": "b"}}}}, false},
		"nothing of an Ingress":  {[2]metav1.Object{ingressFor("a", "b", "c", "d", "e"), ingressFor("a", "b", "c", "d", "e")}, false},
	} {
		if got := Alike(test.objects[0], test.objects[1]); got != test.alike {
			t.Errorf("%s: alike is %t", name, got)
		}
	}
}

// TestSecretAlike: a Secret with the certificate that it had has nothing compiled again.
func TestSecretAlike(t *testing.T) {
	m := newModel(Options{})
	m.set(&IngressDaemonSet{ObjectMeta: meta("ingress", "proxy")})
	m.set(classFor("ids", "proxy"))
	in := ingressFor("default", "web", "ids", "web.example", "web")
	in.Spec.TLS = tlsOf("key", "web.example")
	m.set(in)
	m.compile(noon)
	key := func(hosts string) *corev1.Secret {
		s := &corev1.Secret{ObjectMeta: meta("default", "key"), StringData: map[string]string{"hosts": hosts}}
		fill(t, s)
		return s
	}
	first := key("web.example")
	m.Set(first)
	m.compile(noon)
	annotated := first.DeepCopy()
	annotated.Annotations = map[string]string{"a": "b"}
	if m.Set(annotated); len(m.dirty) > 0 {
		t.Errorf("compiled again is %v", m.dirty)
	}
	if m.Set(key("web.example")); len(m.dirty) == 0 {
		t.Error("of another certificate nothing is compiled again")
	}
}
