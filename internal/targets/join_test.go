package targets

import (
	"strings"
	"testing"
)

func TestAttached(t *testing.T) {
	for _, c := range []struct {
		health Health
		unused bool
		phase  Phase
		says   string
	}{
		{health: Health{Condition: Healthy}, phase: Attached, says: "healthy"},
		{health: Health{Condition: Unavailable, Reason: HealthCheckDisabled}, phase: Attached, says: "not checked"},
		{health: Health{Condition: Unused, Reason: NotInUse}, unused: true, phase: Attached, says: "no load balancer forwards"},
		{health: Health{Condition: Initial, Reason: RegistrationInProgress}, phase: Registering, says: "first health checks"},
		{health: Health{Condition: Unhealthy, Reason: "Target.Timeout"}, phase: Failing, says: "Target.Timeout"},
		{health: Health{Condition: UnhealthyDraining, Reason: "Target.Timeout"}, phase: Failing, says: "unhealthy.draining"},
		{health: Health{Condition: Unused, Reason: NotInUse}, phase: Failing, says: "zone"},
		{health: Health{Condition: Unused, Reason: InvalidState}, phase: Failing, says: "stopped or terminated"},
		{health: Health{Condition: Unused, Reason: IPUnusable}, phase: Failing, says: "address belongs"},
	} {
		s := rested()
		s.Group.InUse = !c.unused
		s.Registered[one] = c.health
		d := decide(s)
		if len(d.Reports) != 1 || d.Reports[0].Phase != c.phase || !strings.Contains(d.Reports[0].Message, c.says) {
			t.Errorf("%+v: got %+v, want %s and %q", c.health, d.Reports, c.phase, c.says)
		}
	}
}

func TestUnfit(t *testing.T) {
	for _, c := range []struct {
		kind TargetType
		ipv6 bool
		t    Target
		says string
	}{
		{IP, false, Target{"10.0.0.1", 80}, ""},
		{IP, true, Target{"fd00::1", 80}, ""},
		{IP, false, Target{"fd00::1", 80}, "one family"},
		{IP, true, Target{"10.0.0.1", 80}, "one family"},
		{IP, true, Target{"fd00:0::1", 80}, "canonical"},
		{IP, true, Target{"::ffff:10.0.0.1", 80}, "canonical"},
		{IP, true, Target{"fe80::1%eth0", 80}, "canonical"},
		{IP, false, Target{"i-1", 80}, "this is none"},
		{Instance, false, Target{"i-1", 80}, ""},
		{Instance, false, Target{"10.0.0.1", 80}, "instances"},
		{IP, false, Target{"10.0.0.1", 0}, "not a port"},
		{IP, false, Target{"10.0.0.1", 65536}, "not a port"},
	} {
		why := Group{Type: c.kind, IPv6: c.ipv6}.unfit(c.t)
		if (why == "") != (c.says == "") || !strings.Contains(why, c.says) {
			t.Errorf("%s group, IPv6 %t, %v: %q, want %q", c.kind, c.ipv6, c.t, why, c.says)
		}
		s := rested()
		s.Group.Type, s.Group.IPv6, s.Group.Port = c.kind, c.ipv6, c.t.Port
		s.Records, s.Registered, s.Wants = nil, nil, []Want{in(c.t)}
		d := decide(s)
		if refused := d.Reports[0].Phase == Refused; refused != (c.says != "") || refused != (d.Register == nil) {
			t.Errorf("%v: got %+v", c.t, d)
		}
	}
	if why := (Group{Type: Instance, Balancer: Classic}).unfit(Target{"i-1", 0}); why != "" {
		t.Errorf("a classic load balancer has no ports of targets: %s", why)
	}
}
