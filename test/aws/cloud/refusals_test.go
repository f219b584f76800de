package cloud

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

func TestRefusals(t *testing.T) {
	c := account(t, func(s *Spec) { s.Quotas.TargetsPerCall = 5 })
	many := make([]Target, 6)
	for i := range many {
		many[i] = Target{ID: fmt.Sprint("10.0.1.", 20+i)}
	}
	for _, test := range []struct {
		group         string
		targets       []Target
		code, message string
	}{
		{"nodes", []Target{{ID: "i-none"}}, "InvalidTarget", "do not exist"},
		{"nodes", []Target{{ID: "i-stopped"}}, "InvalidTarget", "not in a running state"},
		{"nodes", []Target{{ID: pod}}, "ValidationError", "Instance ID '10.0.1.1' is not valid"},
		{"nodes", []Target{{ID: "i-a", Zone: zoneA}}, "ValidationError", "cannot specify an Availability Zone"},
		{"nodes", []Target{{ID: "i-a", Port: 65536}}, "ValidationError", "Port '65536'"},
		{"pods", []Target{{ID: "i-a"}}, "ValidationError", "IP address 'i-a' is not valid"},
		{"pods", []Target{{ID: "fd00::1"}}, "InvalidTarget", "not an ipv4 address"},
		{"six", []Target{{ID: pod}}, "InvalidTarget", "not an ipv6 address"},
		{"pods", []Target{{ID: "8.8.8.8", Zone: "all"}}, "InvalidTarget", "neither in a subnet"},
		{"pods", []Target{{ID: "10.9.9.9"}}, "ValidationError", "Availability Zone is required for IP address '10.9.9.9' because it is not in the VPC"},
		{"pods", []Target{{ID: "10.9.9.9", Zone: "mars"}}, "ValidationError", "valid Availability Zone or select 'all'"},
		{"web", []Target{{ID: "10.9.9.9", Zone: zoneA}}, "ValidationError", "must be 'all' for Application"},
		{"pods", []Target{{ID: pod, Zone: "all"}}, "ValidationError", "within the VPC, and cannot have its Availability Zone overridden to 'all' from 'eu-central-1a'"},
		{"pods", []Target{{ID: pod, Zone: zoneB}}, "ValidationError", "cannot have its Availability Zone overridden"},
		{"pods", many, "ValidationError", "at most 5"},
	} {
		// A good target beside the bad ones must not be registered either.
		err := c.Register(c.arn(test.group), append(test.targets, Target{ID: map[bool]string{true: "i-b", false: "10.0.1.9"}[test.group == "nodes"]}), start)
		var refusal *Error
		if !errors.As(err, &refusal) || refusal.Code != test.code || !strings.Contains(refusal.Message, test.message) {
			t.Errorf("%s %v: %v, not %s %s", test.group, test.targets[0], err, test.code, test.message)
		}
		if all, _ := c.Health(c.arn(test.group), nil, start); len(all) != 0 {
			t.Errorf("%s %v was refused and left %v", test.group, test.targets[0], all)
		}
	}
	for _, arn := range []string{"pods", "arn:aws:elasticloadbalancing:eu-central-1:123456789012:targetgroup/pods/0"} {
		if err := c.Register(arn, []Target{{ID: pod}}, start); err == nil {
			t.Errorf("a group %s was found", arn)
		}
	}
	must(t, c.Register(c.arn("pods"), []Target{{ID: "10.9.9.9", Zone: "all"}, {ID: "10.9.9.8", Zone: zoneB}, {ID: pod}, {ID: pod, Port: 81}}, start))
}

func TestQuotas(t *testing.T) {
	c := account(t, func(s *Spec) {
		s.Quotas = Quotas{TargetsPerGroup: 4, TargetsPerZone: 3, RegistrationsPerTarget: 2}
	})
	register := func(wanted string, targets ...Target) {
		t.Helper()
		err := c.Register(c.arn("pods"), targets, start)
		var refusal *Error
		if errors.As(err, &refusal); (refusal == nil) != (wanted == "") || refusal != nil && refusal.Code != wanted {
			t.Errorf("%v: %v, not %q", targets, err, wanted)
		}
	}
	register("TooManyTargets", Target{ID: "10.0.1.1"}, Target{ID: "10.0.1.2"}, Target{ID: "10.0.1.3"}, Target{ID: "10.0.1.4"})
	register("TooManyRegistrationsForTargetId", Target{ID: pod}, Target{ID: pod, Port: 81}, Target{ID: pod, Port: 82})
	register("", Target{ID: "10.0.1.1"}, Target{ID: "10.0.1.2"}, Target{ID: "10.0.1.3"}, Target{ID: "10.0.2.4"})
	register("TooManyTargets", Target{ID: "10.0.2.5"})
	must(t, c.Deregister(c.arn("pods"), []Target{{ID: pod}}, start))
	register("TooManyTargets", Target{ID: "10.0.2.5"}) // the one that drains takes its place
	register("", Target{ID: pod})                      // and can have it again
}

func TestDeregisteringWhatIsNotThereSucceeds(t *testing.T) {
	c := account(t, nil)
	must(t, c.Register(c.arn("pods"), []Target{{ID: pod, Port: 8080}}, start))
	must(t, c.Deregister(c.arn("pods"), []Target{{ID: "10.0.1.77"}, {ID: pod}}, start))
	found, err := c.Health(c.arn("pods"), nil, start)
	must(t, err)
	expect(t, "state", found[0].State, Initial)
}

func TestSpecsThatAreRefused(t *testing.T) {
	for wanted, change := range map[string]func(*Spec){
		"scale 11":              func(s *Spec) { s.Scale = 11 },
		"scale 0.5":             func(s *Spec) { s.Scale = 0.5 },
		"is not known here":     func(s *Spec) { s.TargetGroups[0].Attributes = map[string]string{"deregistration_delay": "1"} },
		"is not modelled":       func(s *Spec) { s.TargetGroups[0].Attributes = map[string]string{"stickiness.enabled": "true"} },
		"cannot be \"never\"":   func(s *Spec) { s.TargetGroups[0].Attributes = map[string]string{attributeDelay: "never"} },
		"interval 1":            func(s *Spec) { s.TargetGroups[0].HealthCheck.IntervalSeconds = 1 },
		"there is no target":    func(s *Spec) { s.LoadBalancers[0].Listeners[0].TargetGroup = "none" },
		"must be TCP or HTTP":   func(s *Spec) { s.ClassicLoadBalancers[0].Listeners[0].Protocol = "SSL" },
		"must be PROTOCOL:PORT": func(s *Spec) { s.ClassicLoadBalancers[0].Check.Target = "TCP" },
	} {
		spec := Spec{}
		account(t, func(s *Spec) { spec = *s })
		change(&spec)
		if _, err := New(spec, RealLags, start); err == nil || !strings.Contains(err.Error(), wanted) {
			t.Errorf("expected an error with %q, got %v", wanted, err)
		}
	}
}
