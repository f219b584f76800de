package cloud

import (
	"errors"
	"strings"
	"testing"
)

const one, two = "0x0123456789abcdef", "0xfedcba9876543210"

func quic(s *Spec) {
	s.TargetGroups = append(s.TargetGroups,
		TargetGroup{Name: "quic", Protocol: "QUIC", Port: 443, TargetType: "ip"},
		TargetGroup{Name: "both", Protocol: "TCP_QUIC", Port: 443, TargetType: "ip"},
	)
}

func TestServerIDs(t *testing.T) {
	c := account(t, quic)
	for _, test := range []struct {
		group  string
		target Target
		wanted string
	}{
		{"quic", Target{ID: pod}, "QuicServerId is required for target '10.0.1.1' because the protocol of the target group is QUIC"},
		{"both", Target{ID: pod}, "QuicServerId is required"},
		{"quic", Target{ID: pod, QuicServerID: "0x0123456789ABCDEF"}, "lowercase"},
		{"quic", Target{ID: pod, QuicServerID: "0x01"}, "16 lowercase"},
		{"pods", Target{ID: pod, QuicServerID: one}, "cannot be specified for a target group with protocol TCP"},
		{"quic", Target{ID: pod, QuicServerID: one}, ""},
		{"quic", Target{ID: pod, QuicServerID: one}, ""},
		{"quic", Target{ID: pod, QuicServerID: two}, "cannot be modified"},
		{"quic", Target{ID: "10.0.1.2", QuicServerID: one}, "is used by target '10.0.1.1'"},
		{"quic", Target{ID: "10.0.1.2", QuicServerID: two}, ""},
		{"both", Target{ID: pod, QuicServerID: one}, ""},
	} {
		err := c.Register(c.arn(test.group), []Target{test.target}, start)
		var refusal *Error
		if errors.As(err, &refusal); (err == nil) != (test.wanted == "") || err != nil && (refusal == nil || !strings.Contains(refusal.Message, test.wanted)) {
			t.Errorf("%s %+v: %v, not %q", test.group, test.target, err, test.wanted)
		}
	}
	err := c.Register(c.arn("both"), []Target{{ID: "10.0.1.3", QuicServerID: two}, {ID: "10.0.1.4", QuicServerID: two}}, start)
	if err == nil || !strings.Contains(err.Error(), "is used by target '10.0.1.3'") {
		t.Errorf("two of one call with the same id: %v", err)
	}
	must(t, c.Deregister(c.arn("quic"), []Target{{ID: pod}}, start))
	must(t, c.Register(c.arn("quic"), []Target{{ID: pod, QuicServerID: "0x0000000000000001"}}, c.after(1)))
}

// What is forwarded of TCP_QUIC is its TCP; of QUIC nothing. A balancer has one such listener.
func TestListenersOfQUIC(t *testing.T) {
	c := account(t, quic)
	front := func(listeners ...Listener) error {
		return c.PutLoadBalancer(LoadBalancer{Name: "quic", Type: "network", Zones: []Zone{{zoneA, "10.0.1.8"}}, Listeners: listeners}, start)
	}
	must(t, front(Listener{"TCP_QUIC", 443, "both"}))
	expect(t, "protocol of the socket", socket(c, 443, zoneA).Protocol, "TCP")
	must(t, front(Listener{"QUIC", 443, "quic"}))
	all, _ := c.Sockets()
	for _, s := range all {
		if s.Port == 443 {
			t.Errorf("QUIC has a socket: %+v", s)
		}
	}
	if err := front(Listener{"QUIC", 443, "quic"}, Listener{"TCP_QUIC", 444, "both"}); err == nil || !strings.Contains(err.Error(), "at most one") {
		t.Errorf("two listeners: %v", err)
	}
	if err := c.PutTargetGroup(TargetGroup{Name: "six-quic", Protocol: "QUIC", Port: 443, TargetType: "ip", AddressType: "ipv6"}); err == nil {
		t.Error("a group of QUIC with IPv6 was taken")
	}
}
