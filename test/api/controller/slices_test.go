package controller

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
)

// service is a Service that the controller can publish to.
func (f *fixture) service(name string) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.ns, Name: name},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeLoadBalancer, ExternalTrafficPolicy: corev1.ServiceExternalTrafficPolicyLocal,
			Ports: []corev1.ServicePort{{Name: "http", Port: 80, TargetPort: intstr.FromString("web")}},
		},
	}
}

// slices are those that the controller published, by node.
func (f *fixture) slices(set *v1alpha1.IngressDaemonSet) map[string]*discoveryv1.EndpointSlice {
	f.Helper()
	list := &discoveryv1.EndpointSliceList{}
	if err := api.List(context.Background(), list, client.InNamespace(f.ns), client.MatchingLabels{discoveryv1.LabelManagedBy: "ingressdaemonsets.mumoshu.github.io"}); err != nil {
		f.Error(err)
	}
	out := map[string]*discoveryv1.EndpointSlice{}
	for i, s := range list.Items {
		if !metav1.IsControlledBy(&s, set) {
			f.Errorf("EndpointSlice %s is not owned", s.Name)
		}
		out[*s.Endpoints[0].NodeName] = &list.Items[i]
	}
	return out
}

// flags are how a node is published: ready, serving, terminating.
func (f *fixture) flags(set *v1alpha1.IngressDaemonSet, node string) (string, error) {
	f.Helper()
	s := f.slices(set)[node]
	if s == nil {
		return "", fmt.Errorf("%s is not published", node)
	}
	out := ""
	for _, e := range s.Endpoints {
		out = fmt.Sprintf("%t %t %t", *e.Conditions.Ready, *e.Conditions.Serving, *e.Conditions.Terminating)
	}
	return out, nil
}

// TestEndpointSlices publishes the pods of each node, those of a node under
// update as terminating, and touches no slice of others.
func TestEndpointSlices(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 2)
	service := f.service("edge")
	f.must(api.Create(t.Context(), service))
	foreign := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: f.ns, Name: "edge-foreign", Labels: map[string]string{discoveryv1.LabelServiceName: "edge", v1alpha1.LabelName: "proxy"}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{"10.1.2.3"}}},
	}
	f.must(api.Create(t.Context(), foreign))
	set := f.create("proxy", answered, func(set *v1alpha1.IngressDaemonSet) {
		set.Spec.HealthCheckNodePorts = nil
		set.Spec.ServiceName = "edge"
		set.Spec.Template.Spec.Containers[0].Ports = []corev1.ContainerPort{{Name: "web", ContainerPort: 8080}}
	})
	proxies := f.kubeProxies(set, service)
	f.complete(set)
	for _, node := range f.nodes {
		s := f.slices(set)[node]
		if s == nil {
			t.Fatalf("%s is not published", node)
		}
		var want []discoveryv1.Endpoint
		for _, e := range s.Endpoints {
			pod := &corev1.Pod{}
			f.must(api.Get(t.Context(), client.ObjectKey{Namespace: f.ns, Name: e.TargetRef.Name}, pod))
			want = append(want, discoveryv1.Endpoint{
				Addresses:  []string{pod.Status.PodIP},
				Conditions: discoveryv1.EndpointConditions{Ready: new(true), Serving: new(true), Terminating: new(false)},
				NodeName:   &node,
				TargetRef:  &corev1.ObjectReference{Kind: "Pod", Namespace: f.ns, Name: pod.Name, UID: pod.UID},
			})
		}
		if diff := cmp.Diff(want, s.Endpoints); diff != "" || len(want) != 2 {
			t.Errorf("endpoints:\n%s", diff)
		}
		ports := []discoveryv1.EndpointPort{{Name: new("http"), Protocol: new(corev1.ProtocolTCP), Port: new(int32(8080))}}
		if diff := cmp.Diff(ports, s.Ports); diff != "" {
			t.Errorf("ports:\n%s", diff)
		}
		if s.Labels[discoveryv1.LabelServiceName] != "edge" {
			t.Errorf("labels: %v", s.Labels)
		}
	}

	t.Log("a node under update is terminating and serves")
	f.change(set, version("v2"))
	node := f.waitAsked(f.nodes...)
	for _, name := range f.nodes {
		want := map[bool]string{true: "false true true", false: "true true false"}[name == node]
		f.eventually(name+" is published as "+want, func() error {
			got, err := f.flags(set, name)
			if err == nil && got != want {
				err = fmt.Errorf("it is %s", got)
			}
			return err
		})
	}

	t.Log("a Service that becomes unusable keeps what is published")
	f.patch(service, `{"spec": {"externalTrafficPolicy": "Cluster"}}`)
	f.waitReason(set, v1alpha1.ConditionBlocked, v1alpha1.ReasonServiceUnusable)
	if got := f.slices(set); len(got) != 2 {
		t.Errorf("%d slices are left", len(got))
	}
	f.patch(service, `{"spec": {"externalTrafficPolicy": "Local"}}`)
	f.read(service)
	proxies(service)
	f.waitReason(set, v1alpha1.ConditionBlocked, v1alpha1.ReasonAsExpected)

	t.Log("a node that leaves takes its slice with it")
	f.answer(node)
	f.eventually("the node is released", func() error { return f.clear(node) })
	f.change(set, rolling(func(u *v1alpha1.RollingUpdate) { u.WaitForDetachmentByAnnotatedTimestamp = nil }))
	f.complete(set)
	f.kubectl("label", "node", node, fixtureLabel+"-")
	f.eventually("its slice is gone", func() error {
		if got := f.slices(set); len(got) != 1 || got[node] != nil {
			return fmt.Errorf("there are %d", len(got))
		}
		return nil
	})
	version := foreign.ResourceVersion
	if f.read(foreign); foreign.ResourceVersion != version {
		t.Error("the foreign slice was touched")
	}

	t.Log("without a Service nothing is published")
	f.change(set, withoutChecks, func(set *v1alpha1.IngressDaemonSet) { set.Spec.ServiceName = "" })
	f.eventually("no slice is left", func() error {
		if got := f.slices(set); len(got) != 0 {
			return fmt.Errorf("there are %d", len(got))
		}
		return nil
	})
}

// kubeProxies answer on the Service's own health-check port of each node, as
// kube-proxy does: 200 where an endpoint of the node is ready. The function that
// it returns moves them to the port that the Service has then.
func (f *fixture) kubeProxies(set *v1alpha1.IngressDaemonSet, service *corev1.Service) (move func(*corev1.Service)) {
	f.Helper()
	set = set.DeepCopy() // The test goes on with its own.
	stop := func() {}
	move = func(service *corev1.Service) {
		f.Helper()
		stop()
		ctx, cancel := context.WithCancel(f.Context())
		stop = cancel
		for _, node := range f.nodes {
			address := net.JoinHostPort(f.node(node).Status.Addresses[0].Address, strconv.Itoa(int(service.Spec.HealthCheckNodePort)))
			l, err := net.Listen("tcp", address)
			f.must(err)
			server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if flags, err := f.flags(set, node); err != nil || flags != "true true false" {
					w.WriteHeader(http.StatusServiceUnavailable)
				}
			})}
			context.AfterFunc(ctx, func() { server.Close() })
			go func() { _ = server.Serve(l) }()
		}
	}
	move(service)
	return move
}
