package routing

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	networkingv1 "k8s.io/api/networking/v1"
)

// TestMerge: entries of others stay where ours come and go, also those that are equal to ours.
func TestMerge(t *testing.T) {
	type entries = []networkingv1.IngressLoadBalancerIngress
	ip := func(a string) networkingv1.IngressLoadBalancerIngress {
		return networkingv1.IngressLoadBalancerIngress{IP: a}
	}
	host := networkingv1.IngressLoadBalancerIngress{Hostname: "elb.example"}
	rich := networkingv1.IngressLoadBalancerIngress{IP: "192.0.2.1", Ports: []networkingv1.IngressPortStatus{{Port: 80, Protocol: "TCP"}}}
	for name, test := range map[string]struct {
		current  entries
		recorded string
		wanted   []string
		want     IngressStatus
	}{
		"the first":                  {nil, "", []string{"192.0.2.1", "lb.example"}, IngressStatus{entries{ip("192.0.2.1"), {Hostname: "lb.example"}}, "192.0.2.1,lb.example"}},
		"a foreign one stays":        {entries{host}, "", []string{"192.0.2.1"}, IngressStatus{entries{ip("192.0.2.1"), host}, "192.0.2.1"}},
		"ours of before goes":        {entries{ip("192.0.2.1"), host}, "192.0.2.1", []string{"192.0.2.2"}, IngressStatus{entries{ip("192.0.2.2"), host}, "192.0.2.2"}},
		"ours go to the last":        {entries{ip("192.0.2.1"), ip("192.0.2.2"), host}, "192.0.2.1,192.0.2.2", nil, IngressStatus{entries{host}, ""}},
		"a foreign one as we want":   {entries{ip("192.0.2.1")}, "", []string{"192.0.2.1", "192.0.2.2"}, IngressStatus{entries{ip("192.0.2.2"), ip("192.0.2.1")}, "192.0.2.2"}},
		"it stays when we leave":     {entries{ip("192.0.2.2"), ip("192.0.2.1")}, "192.0.2.2", nil, IngressStatus{entries{ip("192.0.2.1")}, ""}},
		"a foreign one beside ours":  {entries{ip("192.0.2.1"), ip("192.0.2.1")}, "192.0.2.1", nil, IngressStatus{entries{ip("192.0.2.1")}, ""}},
		"and we still want ours":     {entries{ip("192.0.2.1"), ip("192.0.2.1")}, "192.0.2.1", []string{"192.0.2.1"}, IngressStatus{entries{ip("192.0.2.1")}, ""}},
		"one that says more is not":  {entries{rich}, "192.0.2.1", nil, IngressStatus{entries{rich}, ""}},
		"and is enough":              {entries{rich}, "192.0.2.1", []string{"192.0.2.1"}, IngressStatus{entries{rich}, ""}},
		"ours that somebody took":    {entries{host}, "192.0.2.1", []string{"192.0.2.1"}, IngressStatus{entries{ip("192.0.2.1"), host}, "192.0.2.1"}},
		"an empty one is somebody's": {entries{{}}, "", nil, IngressStatus{entries{{}}, ""}},
		"a lost record owns nothing": {entries{ip("192.0.2.1")}, "", []string{"192.0.2.1"}, IngressStatus{entries{ip("192.0.2.1")}, ""}},
	} {
		got := merge(test.current, test.recorded, test.wanted)
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		// What is written and read again asks for no other write.
		if diff := cmp.Diff(got, merge(got.LoadBalancer, got.Addresses, test.wanted)); diff != "" {
			t.Errorf("%s, a second time (-first +second):\n%s", name, diff)
		}
	}
}
