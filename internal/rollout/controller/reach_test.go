package controller

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/rollout"
	"github.com/mumoshu/ingress-daemonset-controller/internal/rollout/objects"
	corev1 "k8s.io/api/core/v1"
)

// TestMeasuredPortsOfANode are those that a pod takes there which runs: the template says what
// it would listen on, and anybody who may make pods what they are called.
func TestMeasuredPortsOfANode(t *testing.T) {
	hostPort := func(port int32, ip string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Spec.HostNetwork = false
			p.Spec.Containers = []corev1.Container{{Ports: []corev1.ContainerPort{{ContainerPort: 80, HostPort: port, HostIP: ip}}}}
		}
	}
	node := benchNode(1)
	for name, c := range map[string]struct {
		change  func(*corev1.Pod)
		checker bool
		want    []int32
	}{
		"on the host network":                  {func(*corev1.Pod) {}, false, []int32{443, 10080}},
		"of its own network":                   {func(p *corev1.Pod) { p.Spec.HostNetwork = false }, false, nil},
		"with the hostPort":                    {hostPort(443, ""), false, []int32{443}},
		"with it on all addresses":             {hostPort(443, "0.0.0.0"), false, []int32{443}},
		"with it on the address that is asked": {hostPort(443, nodeAddress(node)), false, []int32{443}},
		"with it on another address":           {hostPort(443, "127.0.0.2"), false, nil},
		"with another hostPort":                {hostPort(80, ""), false, nil},
		"of another revision":                  {func(p *corev1.Pod) { p.Labels[v1alpha1.LabelRevision] = "r1" }, false, nil},
		"of another node":                      {func(p *corev1.Pod) { p.Spec.NodeName = "n2" }, false, nil},
		"that does not run":                    {func(p *corev1.Pod) { p.Status.Phase = corev1.PodPending }, false, nil},
		"a health checker":                     {func(*corev1.Pod) {}, true, []int32{10080}},
	} {
		t.Run(name, func(t *testing.T) {
			r, o := measuredNode(t, node)
			pod := &corev1.Pod{Spec: corev1.PodSpec{NodeName: node.Name, HostNetwork: true}, Status: corev1.PodStatus{Phase: corev1.PodRunning}}
			pod.Annotations = map[string]string{v1alpha1.AnnotationNode: node.Name}
			if n := o.nodes[node.Name]; c.checker {
				pod.Labels = map[string]string{v1alpha1.LabelHealthCheckPort: objects.PortLabel(10080)}
				n.checkers = []*corev1.Pod{pod}
			} else {
				pod.Labels = map[string]string{v1alpha1.LabelRevision: "r2", v1alpha1.LabelNode: v1alpha1.LabelValue(node.Name)}
				n.pods = []*corev1.Pod{pod}
			}
			c.change(pod)
			if got := r.measured(o).Nodes; len(got) != 1 || !slices.Equal(got[0].Ports, c.want) {
				t.Errorf("%+v, want ports %v", got, c.want)
			}
		})
	}
}

// measuredNode is an IngressDaemonSet of which one node is measured, that has no pods yet.
func measuredNode(t *testing.T, node *corev1.Node) (*Reconciler, *observed) {
	t.Helper()
	set := benchSet()
	set.Spec.Template.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 443}}
	set.Status.Analysis = &v1alpha1.AnalysisStatus{Revision: "r2", Nodes: []string{node.Name}}
	r, _, err := newReconciler(set)
	if err != nil {
		t.Fatal(err)
	}
	o := &observed{session: r.sessions.pass(set), set: set, template: objects.Template(set), strategy: set.Spec.Strategy(), nodes: map[string]*nodeObjects{
		node.Name: {node: node, reading: &reading{out: rollout.Node{Wanted: true, Ready: true}}},
	}}
	o.state.Revision = "r2"
	return r, o
}

// TestHTTPAsksWherePodsRun: nodes without a pod of the wave are not asked by HTTP, and without
// any nothing is measured. What Prometheus says of them counts.
func TestHTTPAsksWherePodsRun(t *testing.T) {
	node := benchNode(1)
	r, o := measuredNode(t, node)
	o.strategy.Analysis = []v1alpha1.AnalysisCheck{
		{Name: "http", HTTP: &v1alpha1.HTTPCheck{Port: 443}}, {Name: "prometheus", Prometheus: &v1alpha1.PrometheusCheck{}},
	}
	asked := map[string]int{}
	by := newMeasuring(func(_ context.Context, check v1alpha1.AnalysisCheck, wave rollout.Wave) error {
		asked[check.Name] += len(wave.Nodes)
		return nil
	}, r.now)
	o.session.measurements = newMeasurements(o.session.key, func() {}, by)
	var begun []func()
	by.beside = func(do func()) { begun = append(begun, do) }
	for i, c := range []struct {
		pods       []rollout.Pod
		http, prom int
	}{
		{nil, 0, 1},
		{[]rollout.Pod{{Revision: "r1", Running: true}, {Revision: "r2"}}, 0, 1},
		{[]rollout.Pod{{Revision: "r2", Running: true}}, 1, 1},
	} {
		clear(asked)
		o.nodes[node.Name].reading.out.Pods = c.pods
		for _, check := range o.strategy.Analysis {
			if err := r.measure(o, rollout.Step{Check: check.Name, Analysis: fmt.Sprint("a", i)}); err != nil {
				t.Fatal(err)
			}
		}
		for _, do := range begun {
			do()
		}
		begun = nil
		if asked["http"] != c.http || asked["prometheus"] != c.prom {
			t.Errorf("%+v: asked %v", c.pods, asked)
		}
	}
}

// TestOddKubelets are where kubelets listen at a port of the operator's choice.
func TestOddKubelets(t *testing.T) {
	for port, want := range map[int32][]netip.AddrPort{0: nil, 10250: nil, 70000: nil, 10350: {netip.MustParseAddrPort("10.0.0.1:10350")}} {
		node := benchNode(1)
		node.Status.DaemonEndpoints.KubeletEndpoint.Port = port
		r, o := measuredNode(t, node)
		if got := r.measured(o).Kubelets; !slices.Equal(got, want) {
			t.Errorf("%d: %v, want %v", port, got, want)
		}
	}
}
