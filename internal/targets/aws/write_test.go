package aws

import (
	"fmt"
	"net/url"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/mumoshu/ingress-daemonset-controller/internal/targets"
)

func registration(id string, port int32, zone string) targets.Registration {
	return targets.Registration{Target: at(id, port), Zone: zone}
}

func TestWrites(t *testing.T) {
	for name, test := range map[string]struct {
		write func(*Client) error
		want  url.Values
	}{
		"register": {
			func(c *Client) error {
				return c.Register(t.Context(), ipGroup, []targets.Registration{registration("10.0.0.1", 80, ""), registration("10.9.0.1", 81, "all")})
			},
			url.Values{"Action": {"RegisterTargets"}, "Version": {"2015-12-01"}, "TargetGroupArn": {ipGroup.ID},
				"Targets.member.1.Id": {"10.0.0.1"}, "Targets.member.1.Port": {"80"},
				"Targets.member.2.Id": {"10.9.0.1"}, "Targets.member.2.Port": {"81"}, "Targets.member.2.AvailabilityZone": {"all"}},
		},
		"deregister": {
			func(c *Client) error {
				return c.Deregister(t.Context(), instanceGroup, []targets.Target{at("i-1", 80), at("i-1", 81)})
			},
			url.Values{"Action": {"DeregisterTargets"}, "Version": {"2015-12-01"}, "TargetGroupArn": {instanceGroup.ID},
				"Targets.member.1.Id": {"i-1"}, "Targets.member.1.Port": {"80"}, "Targets.member.2.Id": {"i-1"}, "Targets.member.2.Port": {"81"}},
		},
		"register classic": {
			func(c *Client) error {
				return c.Register(t.Context(), classicGroup, []targets.Registration{registration("i-1", 30080, ""), registration("i-1", 30443, ""), registration("i-2", 0, "")})
			},
			url.Values{"Action": {"RegisterInstancesWithLoadBalancer"}, "Version": {"2012-06-01"}, "LoadBalancerName": {"old"},
				"Instances.member.1.InstanceId": {"i-1"}, "Instances.member.2.InstanceId": {"i-2"}},
		},
		"deregister classic": {
			func(c *Client) error {
				return c.Deregister(t.Context(), classicGroup, []targets.Target{at("i-1", 30080)})
			},
			url.Values{"Action": {"DeregisterInstancesFromLoadBalancer"}, "Version": {"2012-06-01"}, "LoadBalancerName": {"old"},
				"Instances.member.1.InstanceId": {"i-1"}},
		},
	} {
		s := newServer(t)
		everything(s)
		c := client(t, s, Options{})
		if err := test.write(c); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if requests := s.all(); len(requests) != 1 || !cmp.Equal(requests[0].form, test.want) {
			t.Errorf("%s: %+v, want one request of %v", name, requests, test.want)
		}
	}
}

// TestPortsAreNamed sends nothing that AWS would accept and not do.
func TestPortsAreNamed(t *testing.T) {
	s := newServer(t)
	c := client(t, s, Options{})
	bad := at("i-2", 0)
	err := c.Deregister(t.Context(), instanceGroup, []targets.Target{at("i-1", 80), bad})
	if f := failureIn(t, err); f.Kind != Invalid || !cmp.Equal(f.Targets, []targets.Target{bad}) {
		t.Errorf("%+v, want Invalid that names %v", f, bad)
	}
	err = c.Register(t.Context(), instanceGroup, []targets.Registration{{Target: bad}})
	if f := failureIn(t, err); f.Kind != Invalid || !cmp.Equal(f.Targets, []targets.Target{bad}) {
		t.Errorf("%+v, want Invalid that names %v", f, bad)
	}
	if err := c.Deregister(t.Context(), classicGroup, []targets.Target{{}}); kind(err) != Invalid {
		t.Errorf("%v, want Invalid", err)
	}
	if sent := s.all(); len(sent) > 0 {
		t.Errorf("%v was sent", sent)
	}
}

func TestWritesOfNoneAndOfTooMany(t *testing.T) {
	s := newServer(t)
	everything(s)
	c := client(t, s, Options{})
	for _, g := range []targets.Group{ipGroup, classicGroup} {
		if err := c.Register(t.Context(), g, nil); err != nil {
			t.Error(err)
		}
		if err := c.Deregister(t.Context(), g, nil); err != nil {
			t.Error(err)
		}
		var many []targets.Target
		for i := range most + 1 {
			many = append(many, at(fmt.Sprint("i-", i), 80))
		}
		if err := c.Deregister(t.Context(), g, many); kind(err) != Invalid {
			t.Errorf("%v, want Invalid", err)
		}
		if sent := s.all(); len(sent) > 0 {
			t.Errorf("%v was sent", sent)
		}
	}
	var just []targets.Target
	for i := range most {
		just = append(just, at(fmt.Sprint("i-", i), 80))
	}
	if err := c.Deregister(t.Context(), ipGroup, just); err != nil || !s.all()[0].form.Has("Targets.member.200.Port") {
		t.Errorf("200 targets in one request: %v", err)
	}
}
