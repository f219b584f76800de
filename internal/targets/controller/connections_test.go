package controller

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/nodehealth/healthclient"
	"github.com/mumoshu/ingress-daemonset-controller/internal/targets"
	corev1 "k8s.io/api/core/v1"
	polling "k8s.io/apimachinery/pkg/util/wait"
)

func TestHeard(t *testing.T) {
	asked, answered := now, now.Add(time.Second)
	earlier := now.Add(-time.Minute)
	before := map[int32]targets.Quiet{80: {Came: earlier, From: earlier, To: now.Add(-time.Second)}}
	for name, c := range map[string]struct {
		answer []v1alpha1.PortConnections
		want   map[int32]targets.Quiet
	}{
		"no answer":          {nil, map[int32]targets.Quiet{80: {Came: earlier}}},
		"an old one is open": {[]v1alpha1.PortConnections{{Port: 80, Open: 1, QuietSeconds: 30}}, map[int32]targets.Quiet{80: {Came: earlier}}},
		"one came":           {[]v1alpha1.PortConnections{{Port: 80, Open: 1, QuietSeconds: 4, CameSeconds: new(5.0)}}, map[int32]targets.Quiet{80: {Came: asked.Add(-5 * time.Second)}}},
		"one came long ago":  {[]v1alpha1.PortConnections{{Port: 80, Open: 1, CameSeconds: new(500.0)}}, map[int32]targets.Quiet{80: {Came: earlier}}},
		"none is open":       {[]v1alpha1.PortConnections{{Port: 80, QuietSeconds: 30}}, map[int32]targets.Quiet{80: {Came: earlier, From: answered.Add(-30 * time.Second), To: asked}}},
		"nothing is known":   {[]v1alpha1.PortConnections{{Port: 80, Unknown: "lost"}}, map[int32]targets.Quiet{80: {Came: earlier}}},
		"of another port": {[]v1alpha1.PortConnections{{Port: 443, QuietSeconds: 2}},
			map[int32]targets.Quiet{80: {Came: earlier}, 443: {From: answered.Add(-2 * time.Second), To: asked}}},
	} {
		if diff := cmp.Diff(c.want, heard(before, c.answer, asked, answered)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestPortsAreNotRememberedWithoutEnd(t *testing.T) {
	var known map[int32]targets.Quiet
	for port := range int32(4 * mostRemembered) {
		known = heard(known, []v1alpha1.PortConnections{{Port: port}}, time.Now(), time.Now())
	}
	if len(known) > mostRemembered+1 {
		t.Errorf("%d ports are remembered", len(known))
	}
}

func TestCheckersOf(t *testing.T) {
	node := &corev1.Node{Status: corev1.NodeStatus{Addresses: []corev1.NodeAddress{
		{Type: corev1.NodeHostName, Address: "node-a"}, {Type: corev1.NodeInternalIP, Address: "10.9.0.1"},
	}}}
	unreachable := &corev1.Node{}
	set := func(name string, change func(*v1alpha1.IngressDaemonSetSpec)) v1alpha1.IngressDaemonSet {
		out := v1alpha1.IngressDaemonSet{}
		out.Namespace, out.Name = "ingress", name
		out.Spec.Template.Spec.HostNetwork, out.Spec.HealthCheckNodePorts = true, []int32{10080, 10081}
		if change != nil {
			change(&out.Spec)
		}
		return out
	}
	pod := func(set, node string) *corev1.Pod {
		out := &corev1.Pod{Spec: corev1.PodSpec{NodeName: node, HostNetwork: true}}
		out.Namespace, out.Labels = "ingress", map[string]string{v1alpha1.LabelName: set, v1alpha1.LabelNode: node}
		return out
	}
	stranger, ended := pod("caddy", "node-a"), pod("caddy", "node-a")
	stranger.Spec.HostNetwork, ended.Status.Phase = false, corev1.PodSucceeded
	found := map[string]healthclient.Port{"node-a": {Node: "node-a", Address: "10.9.0.1", Number: 10080}}
	for name, c := range map[string]struct {
		sets []v1alpha1.IngressDaemonSet
		pods []*corev1.Pod
		node *corev1.Node
		want map[string]healthclient.Port
	}{
		"one":                      {[]v1alpha1.IngressDaemonSet{set("nginx", nil)}, []*corev1.Pod{pod("nginx", "node-a"), pod("nginx", "node-a"), pod("caddy", "node-b")}, node, found},
		"two sets":                 {[]v1alpha1.IngressDaemonSet{set("nginx", nil), set("caddy", nil)}, []*corev1.Pod{pod("nginx", "node-a"), pod("caddy", "node-a")}, node, nil},
		"pods of one that went":    {[]v1alpha1.IngressDaemonSet{set("nginx", nil)}, []*corev1.Pod{pod("nginx", "node-a"), pod("caddy", "node-a")}, node, nil},
		"others of other networks": {[]v1alpha1.IngressDaemonSet{set("nginx", nil)}, []*corev1.Pod{pod("nginx", "node-a"), stranger, ended}, node, found},
		"none":                     {[]v1alpha1.IngressDaemonSet{set("nginx", nil)}, []*corev1.Pod{pod("nginx", "node-b")}, node, nil},
		"pods with networks":       {[]v1alpha1.IngressDaemonSet{set("nginx", func(s *v1alpha1.IngressDaemonSetSpec) { s.Template.Spec.HostNetwork = false })}, []*corev1.Pod{pod("nginx", "node-a")}, node, nil},
		"no health checker":        {[]v1alpha1.IngressDaemonSet{set("nginx", func(s *v1alpha1.IngressDaemonSetSpec) { s.HealthCheckNodePorts = nil })}, []*corev1.Pod{pod("nginx", "node-a")}, node, nil},
		"a node without address":   {[]v1alpha1.IngressDaemonSet{set("nginx", nil)}, []*corev1.Pod{pod("nginx", "node-a")}, unreachable, nil},
	} {
		if c.want == nil {
			c.want = map[string]healthclient.Port{}
		}
		c.node.Name = "node-a"
		if diff := cmp.Diff(c.want, checkersOf([]*corev1.Node{c.node}, c.sets, c.pods)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// answering answers as a health checker does, for a node.
type answering struct {
	node   atomic.Pointer[string]
	answer atomic.Pointer[[]v1alpha1.PortConnections]
	asked  atomic.Int32
}

func (a *answering) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.asked.Add(1)
	if !r.URL.Query().Has("connections") || r.Header.Get(v1alpha1.HeaderClient) == "" {
		http.Error(w, "no such question", http.StatusBadRequest)
		return
	}
	w.WriteHeader(http.StatusServiceUnavailable)
	json.NewEncoder(w).Encode(v1alpha1.HealthCheckAnswer{Node: *a.node.Load(), Connections: *a.answer.Load()})
}

// TestConnections asks a health checker while that is wanted, calls for a pass when a
// port has been quiet for long, and believes no other node's.
func TestConnections(t *testing.T) {
	t.Parallel()
	a := &answering{}
	says := func(node string, answer ...v1alpha1.PortConnections) { a.node.Store(&node); a.answer.Store(&answer) }
	says("node-a", v1alpha1.PortConnections{Port: 80, Open: 2, QuietSeconds: 20, CameSeconds: new(21.0)})
	server := httptest.NewServer(a)
	defer server.Close()
	address := netip.MustParseAddrPort(server.Listener.Addr().String())
	triggered := make(chan struct{}, 10)
	c := newConnections(func() { triggered <- struct{}{} })
	// Each question gives way to the next.
	c.slots = make(chan struct{}, 1)
	at := healthclient.Port{Node: "node-a", Address: address.Addr().String(), Number: int32(address.Port())}
	until := func(what string, is func(q targets.Quiet, known bool) bool) {
		t.Helper()
		var q targets.Quiet
		var known bool
		err := polling.PollUntilContextTimeout(t.Context(), 10*time.Millisecond, time.Minute, true, func(context.Context) (bool, error) {
			q, known = c.known()["node-a"][80]
			return is(q, known), nil
		})
		if err != nil {
			t.Fatalf("not %s: %+v %t", what, q, known)
		}
	}
	c.want(t.Context(), []healthclient.Port{at})
	until("busy", func(q targets.Quiet, known bool) bool { return !q.Came.IsZero() })
	select {
	case <-triggered:
		t.Error("a pass is called for while a connection is open")
	default:
	}
	says("node-a", v1alpha1.PortConnections{Port: 80, QuietSeconds: 12})
	until("quiet", func(q targets.Quiet, known bool) bool { return q.Long() && !q.Came.IsZero() })
	select {
	case <-triggered:
	case <-time.After(time.Minute):
		t.Error("no pass is called for")
	}
	says("node-b", v1alpha1.PortConnections{Port: 80, QuietSeconds: 15})
	until("unknown", func(q targets.Quiet, known bool) bool { return known && q.To.IsZero() })
	c.want(t.Context(), nil)
	until("forgotten", func(q targets.Quiet, known bool) bool { return !known })
	if len(triggered) > 0 {
		t.Error("a pass is called for without news")
	}
}
