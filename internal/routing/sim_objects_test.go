package routing

import (
	"testing"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"
)

// Few names, so that objects meet.
var (
	someNamespaces = []string{"a", "b"}
	someNames      = []string{"x", "y", "z"}
	someHosts      = []string{"", "one.example", "two.example", "*.example"}
	someClasses    = []string{"ids", "second", "nginx"}
	someSets       = []string{"proxy", "other"}
	someNodes      = []string{"one", "two"}
	somePools      = []map[string]string{nil, {"pool": "a"}, {"pool": "b"}}
)

// anObject is a random one, of few names.
func anObject(t *rapid.T, secrets []metav1.Object) metav1.Object {
	if rapid.IntRange(0, 2).Draw(t, "gateways") == 0 {
		return aGatewayObject(t)
	}
	switch rapid.IntRange(0, 13).Draw(t, "kind") {
	case 0:
		return aClass(t)
	case 1:
		return aSet(t)
	case 2, 3:
		return aService(t)
	case 4, 5:
		return aSlice(t)
	case 6:
		return rapid.SampledFrom(secrets).Draw(t, "secret")
	case 7:
		return aNode(t)
	case 8:
		return aDeployment(t)
	}
	return anIngress(t)
}

func of[T any](t *rapid.T, label string, all []T) T { return rapid.SampledFrom(all).Draw(t, label) }

func someMeta(t *rapid.T) metav1.ObjectMeta {
	m := meta(of(t, "namespace", someNamespaces), of(t, "name", someNames))
	m.CreationTimestamp = metav1.NewTime(time.Unix(int64(rapid.IntRange(1, 3).Draw(t, "age")), 0))
	m.Generation = int64(rapid.IntRange(1, 3).Draw(t, "generation"))
	return m
}

func aClass(t *rapid.T) metav1.Object {
	c := classFor(of(t, "class", someClasses[:2]), of(t, "set", someSets))
	if rapid.Bool().Draw(t, "default") {
		c.Annotations = map[string]string{networkingv1.AnnotationIsDefaultIngressClass: "true"}
	}
	c.CreationTimestamp = metav1.NewTime(time.Unix(int64(rapid.IntRange(1, 3).Draw(t, "age")), 0))
	switch rapid.IntRange(0, 6).Draw(t, "wrong") {
	case 0:
		c.Spec.Controller = "k8s.io/ingress-nginx"
	case 1:
		c.Spec.Parameters = nil
	}
	return c
}

func aSet(t *rapid.T) metav1.Object {
	s := &IngressDaemonSet{ObjectMeta: meta("ingress", of(t, "set", someSets)), HostNetwork: rapid.Bool().Draw(t, "host network")}
	s.ServiceName = of(t, "service", []string{"", "", "balancer"})
	s.CreationTimestamp = metav1.NewTime(time.Unix(int64(rapid.IntRange(1, 3).Draw(t, "age")), 0))
	s.NodeSelector = of(t, "pool", somePools)
	s.HealthCheckNodePorts = of(t, "checks", [][]int32{nil, nil, {8080}})
	s.OwnPorts = append(of(t, "own", [][]int32{nil, nil, {443}}), s.HealthCheckNodePorts...)
	return s
}

func aNode(t *rapid.T) metav1.Object {
	n := &corev1.Node{ObjectMeta: meta("", of(t, "node", someNodes))}
	n.Labels = of(t, "pool", somePools)
	n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: of(t, "address", []string{"192.0.2.1", "192.0.2.2"})}}
	if c := of(t, "heard", []corev1.NodeCondition{
		{}, {Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(noon.Add(-time.Hour))},
		{Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(noon.Add(-time.Second))}, {Status: corev1.ConditionUnknown},
	}); c.Status != "" {
		c.Type, c.LastHeartbeatTime = corev1.NodeReady, metav1.NewTime(noon.Add(time.Duration(rapid.IntRange(0, 1).Draw(t, "heartbeat"))))
		n.Status.Conditions = []corev1.NodeCondition{c}
	}
	if rapid.IntRange(0, 2).Draw(t, "detaching") == 0 {
		n.Annotations = map[string]string{v1alpha1.AnnotationNodeDetaching: "true"}
	}
	return n
}

func aDeployment(t *rapid.T) metav1.Object {
	set, node := of(t, "set", someSets), of(t, "node", someNodes)
	d := nodeDeployment(set, node)
	d.Name = of(t, "deployment", someNames)
	d.Status.ReadyReplicas = int32(rapid.IntRange(0, 1).Draw(t, "ready"))
	return d
}

func aService(t *rapid.T) metav1.Object {
	s := &corev1.Service{ObjectMeta: someMeta(t)}
	if rapid.IntRange(0, 5).Draw(t, "balancer") == 0 {
		s.Namespace, s.Name = "ingress", "balancer"
		s.Spec.ExternalIPs = of(t, "external", [][]string{nil, {"192.0.2.1"}, {"198.51.100.1"}})
	}
	s.UID = types.UID(of(t, "uid", []string{"1", "2"}))
	s.Spec.Ports = []corev1.ServicePort{{Name: "http", Port: int32(of(t, "port", []int{80, 81}))}}
	switch rapid.IntRange(0, 6).Draw(t, "odd") {
	case 0:
		s.Spec.Type = corev1.ServiceTypeExternalName
	case 1:
		s.Annotations = map[string]string{AnnotationMaxFails: of(t, "fails", []string{"3", "x"})}
	case 2:
		s.Spec.Ports = nil
	}
	return s
}

func aSlice(t *rapid.T) metav1.Object {
	name, number := "http", int32(8080)
	s := &discoveryv1.EndpointSlice{ObjectMeta: someMeta(t), AddressType: discoveryv1.AddressTypeIPv4}
	s.Labels = map[string]string{discoveryv1.LabelServiceName: of(t, "service", someNames)}
	s.Ports = []discoveryv1.EndpointPort{{Name: &name, Port: &number}}
	for _, address := range of(t, "addresses", [][]string{nil, {"10.0.0.1"}, {"10.0.0.1", "10.0.0.2"}, {"127.0.0.1", "10.0.0.3"}}) {
		ready, serving, terminating := rapid.Bool().Draw(t, "ready"), rapid.Bool().Draw(t, "serving"), rapid.Bool().Draw(t, "terminating")
		s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{
			Addresses:  []string{address},
			NodeName:   new(of(t, "on", someNodes)),
			Conditions: discoveryv1.EndpointConditions{Ready: &ready, Serving: &serving, Terminating: &terminating},
		})
	}
	if rapid.Bool().Draw(t, "owned") {
		s.OwnerReferences = []metav1.OwnerReference{{Kind: "Service", UID: types.UID(of(t, "owner", []string{"1", "2"}))}}
	}
	return s
}

func anIngress(t *rapid.T) metav1.Object {
	in := &networkingv1.Ingress{ObjectMeta: someMeta(t)}
	switch rapid.IntRange(0, 3).Draw(t, "classed") {
	case 0:
	case 1:
		in.Annotations = map[string]string{annotationClass: of(t, "class", someClasses)}
	default:
		class := of(t, "class", someClasses)
		in.Spec.IngressClassName = &class
	}
	for range rapid.IntRange(0, 2).Draw(t, "rules") {
		in.Spec.Rules = append(in.Spec.Rules, aRule(t))
	}
	if rapid.IntRange(0, 3).Draw(t, "fallback") == 0 {
		p := pathOf("/", networkingv1.PathTypePrefix, of(t, "service", someNames))
		in.Spec.DefaultBackend = &p.Backend
	}
	if rapid.IntRange(0, 2).Draw(t, "tls") == 0 {
		in.Spec.TLS = tlsOf(of(t, "secret", someNames), of(t, "host", someHosts[1:3]))
	}
	if rapid.IntRange(0, 2).Draw(t, "weighed") == 0 {
		if in.Annotations == nil {
			in.Annotations = map[string]string{}
		}
		in.Annotations[AnnotationServiceWeights] = of(t, "weights", []string{"x: 50%\ny: 50%", "w: 10%\nx: 40%", "x"})
	}
	in.Status.LoadBalancer.Ingress = of(t, "entries", [][]networkingv1.IngressLoadBalancerIngress{nil, {{IP: "192.0.2.1"}}, {{Hostname: "foreign.example"}}})
	if rapid.Bool().Draw(t, "recorded") {
		if in.Annotations == nil {
			in.Annotations = map[string]string{}
		}
		in.Annotations[AnnotationAddresses] = of(t, "record", []string{"192.0.2.1", "192.0.2.2", "192.0.2.1,192.0.2.2"})
	}
	return in
}

func aRule(t *rapid.T) networkingv1.IngressRule {
	host := of(t, "host", someHosts)
	var paths []networkingv1.HTTPIngressPath
	for range rapid.IntRange(1, 3).Draw(t, "paths") {
		paths = append(paths, pathOf(of(t, "path", []string{"/", "/p", "/p/", "/../q"}), of(t, "type", []networkingv1.PathType{networkingv1.PathTypeExact, networkingv1.PathTypePrefix}), of(t, "service", someNames)))
	}
	return ruleOf(host, paths...)
}

// manySecrets are of each name and namespace several: good ones and others.
func manySecrets(t *testing.T) (out []metav1.Object) {
	for _, namespace := range someNamespaces {
		for _, name := range someNames {
			for _, data := range []map[string]string{{"hosts": "one.example"}, {"hosts": "*.example"}, {"wrong": "malformed"}, {"wrong": "mismatched"}} {
				s := &corev1.Secret{ObjectMeta: meta(namespace, name), StringData: data}
				fill(t, s)
				out = append(out, s)
			}
		}
	}
	return out
}
