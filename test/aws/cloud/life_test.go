package cloud

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"
)

// tester is a test, or a history of one.
type tester interface {
	Helper()
	Errorf(string, ...any)
	Fatal(...any)
	Fatalf(string, ...any)
}

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// after is a moment some seconds of AWS's time after the start.
func (c *Cloud) after(seconds float64) time.Time {
	return start.Add(c.scaled(time.Duration(seconds * float64(time.Second))))
}

const (
	zoneA, zoneB = "eu-central-1a", "eu-central-1b"
	checkEvery   = 5
)

// account has a network balancer in two zones, in front of a group of addresses and one
// of instances.
func account(t tester, change func(*Spec)) *Cloud {
	t.Helper()
	spec := Spec{
		Seed: 7, Scale: 10,
		VPC: VPC{Subnets: []Subnet{{CIDR: netip.MustParsePrefix("10.0.1.0/24"), Zone: zoneA}, {CIDR: netip.MustParsePrefix("10.0.2.0/24"), Zone: zoneB}, {CIDR: netip.MustParsePrefix("10.0.3.0/24"), Zone: "eu-central-1c"}}},
		Instances: []Instance{
			{ID: "i-a", Address: netip.MustParseAddr("10.0.1.100"), Zone: zoneA},
			{ID: "i-b", Address: netip.MustParseAddr("10.0.2.100"), Zone: zoneB},
			{ID: "i-stopped", Address: netip.MustParseAddr("10.0.2.101"), Zone: zoneB, State: Stopped},
		},
		TargetGroups: []TargetGroup{
			{Name: "pods", Protocol: "TCP", Port: 80, TargetType: "ip", HealthCheck: HealthCheck{IntervalSeconds: checkEvery, HealthyThreshold: 2}},
			{Name: "nodes", Protocol: "TCP", Port: 80, TargetType: "instance", HealthCheck: HealthCheck{IntervalSeconds: checkEvery, HealthyThreshold: 2}},
			{Name: "web", Protocol: "HTTP", Port: 80, TargetType: "ip"},
			{Name: "spare", Protocol: "TCP", Port: 80, TargetType: "ip"},
			{Name: "six", Protocol: "TCP", Port: 80, TargetType: "ip", AddressType: "ipv6"},
		},
		LoadBalancers: []LoadBalancer{{
			Name: "front", Type: "network", Zones: []Zone{{zoneA, "10.0.1.5"}, {zoneB, "10.0.2.5"}}, Any: "10.0.9.9",
			Listeners: []Listener{{"TCP", 80, "pods"}, {"TCP", 81, "nodes"}},
		}},
		ClassicLoadBalancers: []ClassicLoadBalancer{{
			Name: "old", Zones: []Zone{{zoneA, "10.0.1.6"}}, Listeners: []ClassicListener{{"TCP", 80, 8080}},
			Check: ClassicCheck{Target: "TCP:8080", HealthyThreshold: 2},
		}},
	}
	if change != nil {
		change(&spec)
	}
	c, err := New(spec, RealLags, start)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func (c *Cloud) arn(name string) string { return c.groups[name].arn }

func must(t tester, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// run passes time and answers every health check that is due, as answer says.
func run(c *Cloud, from, to float64, answer func(Probe) bool) {
	for s := from; s < to; s++ {
		now := c.after(s)
		for _, p := range c.Probes(now) {
			c.Checked(p.Number, Result{OK: answer(p), Reason: "Target.Timeout", Description: "Request timed out"}, now)
		}
	}
}

func well(Probe) bool { return true }
func ill(Probe) bool  { return false }

// state is state and reason of a target of a group.
func state(t tester, c *Cloud, group, id string, seconds float64) string {
	t.Helper()
	found, err := c.Health(c.arn(group), []Target{{ID: id}}, c.after(seconds))
	must(t, err)
	return strings.TrimSpace(found[0].State + " " + found[0].Reason)
}

// socket is the address of a zone, or with "" the DNS name.
func socket(c *Cloud, port int, zone string) Socket {
	all, _ := c.Sockets()
	i := slices.IndexFunc(all, func(s Socket) bool { return s.Port == port && s.Zone == zone })
	return all[i]
}

// reached are the ids that new flows to a zone reach.
func reached(c *Cloud, zone string, seconds float64) []string {
	var ids []string
	for _, lease := range c.Eligible(socket(c, 80, zone), "", c.after(seconds)) {
		ids = append(ids, lease.Target.ID)
	}
	return ids
}

// moment is the first second in which a condition holds.
func moment(t tester, from, to float64, holds func(float64) bool) float64 {
	t.Helper()
	for s := from; s <= to; s++ {
		if holds(s) {
			return s
		}
	}
	t.Fatalf("it did not happen until %g s", to)
	return 0
}

func expect(t tester, what string, got, wanted any) {
	t.Helper()
	if got != wanted {
		t.Errorf("%s: %v, not %v", what, got, wanted)
	}
}

func within(t tester, what string, got, low, high float64) {
	t.Helper()
	if got < low || got > high+1 {
		t.Errorf("%s after %g s: must be %g to %g", what, got, low, high)
	}
}

const pod = "10.0.1.1"

// The life of a target of a network load balancer, all of its default attributes.
func TestLifeOfANetworkTarget(t *testing.T) {
	c := account(t, nil)
	expect(t, "before", state(t, c, "pods", pod, 0), "unused Target.NotRegistered")
	must(t, c.Register(c.arn("pods"), []Target{{ID: pod}}, start))
	expect(t, "registered", state(t, c, "pods", pod, 0), "initial Elb.RegistrationInProgress")
	run(c, 0, 340, well)

	checked := moment(t, 0, 320, func(s float64) bool { return state(t, c, "pods", pod, s) == "initial Elb.InitialHealthChecking" })
	within(t, "checked", checked, 30, 60)
	healthy := moment(t, checked, 320, func(s float64) bool { return state(t, c, "pods", pod, s) == "healthy" })
	within(t, "healthy", healthy, 90, 300)
	served := moment(t, 0, 340, func(s float64) bool { return len(reached(c, zoneA, s)) == 1 })
	within(t, "served", served, healthy, healthy+30)

	run(c, 340, 1000, well)
	must(t, c.Deregister(c.arn("pods"), []Target{{ID: pod}}, c.after(1000)))
	run(c, 1000, 1400, well)
	expect(t, "leaving", state(t, c, "pods", pod, 1299), "draining Target.DeregistrationInProgress")
	expect(t, "left", state(t, c, "pods", pod, 1300), "unused Target.NotRegistered")
	silent := moment(t, 1000, 1400, func(s float64) bool { return len(reached(c, zoneA, s)) == 0 })
	within(t, "the last new flow", silent-1000, 120, 300)
}

// The first check that passes makes a new target healthy. The threshold is for one that
// was unhealthy.
func TestThresholds(t *testing.T) {
	c := account(t, func(s *Spec) {
		s.TargetGroups[0].HealthCheck = HealthCheck{IntervalSeconds: 30, HealthyThreshold: 10, UnhealthyThreshold: 3}
		s.TargetGroups[1].HealthCheck = HealthCheck{IntervalSeconds: 300, HealthyThreshold: 2}
	})
	must(t, c.Register(c.arn("pods"), []Target{{ID: pod}}, start))
	must(t, c.Register(c.arn("nodes"), []Target{{ID: "i-a"}}, start))
	run(c, 0, 400, well)
	expect(t, "after the longest registration", state(t, c, "nodes", "i-a", 301), "healthy")
	run(c, 400, 520, ill)
	turned := moment(t, 400, 520, func(s float64) bool { return state(t, c, "pods", pod, s) != "healthy" })
	within(t, "unhealthy", turned-400, 60, 90)
	run(c, 520, 900, well)
	within(t, "healthy again", moment(t, 520, 900, func(s float64) bool { return state(t, c, "pods", pod, s) == "healthy" })-520, 270, 300)
}

func TestNewFlowsOutliveUnused(t *testing.T) {
	c := account(t, func(s *Spec) { s.TargetGroups[0].Attributes = map[string]string{attributeDelay: "0"} })
	must(t, c.Register(c.arn("pods"), []Target{{ID: pod}}, start))
	run(c, 0, 340, well)
	must(t, c.Deregister(c.arn("pods"), []Target{{ID: pod}}, c.after(340)))
	expect(t, "state", state(t, c, "pods", pod, 341), "unused Target.NotRegistered")
	expect(t, "targets 119 s later", len(reached(c, zoneA, 340+119)), 1)
}

func TestUnhealthyFadesAndCuts(t *testing.T) {
	c := account(t, nil)
	must(t, c.Register(c.arn("pods"), []Target{{ID: pod}, {ID: "10.0.1.2"}}, start))
	run(c, 0, 400, well)
	one := c.Eligible(socket(c, 80, zoneA), "", c.after(399))[0].Number
	run(c, 400, 460, func(p Probe) bool { return !strings.HasPrefix(p.Address, pod+":") })
	turned := moment(t, 400, 460, func(s float64) bool { return state(t, c, "pods", pod, s) == "unhealthy Target.FailedHealthChecks" })
	faded := moment(t, turned, 460, func(s float64) bool { return !slices.Contains(reached(c, zoneA, s), pod) })
	within(t, "the last new flow", faded-turned, 30, 40)
	expect(t, "a flow that was open is reset", Cut(c.Cuts(one), c.after(399), c.after(turned)), true)
	expect(t, "before it turned", Cut(c.Cuts(one), c.after(399), c.after(turned-1)), false)
	expect(t, "a flow that was opened afterwards is reset", Cut(c.Cuts(one), c.after(turned), c.after(600)), false)
}

// With no healthy target left the balancer fails open, and resets nothing.
func TestTheLastHealthyTargetKeepsItsFlows(t *testing.T) {
	c := account(t, nil)
	must(t, c.Register(c.arn("pods"), []Target{{ID: pod}, {ID: "10.0.2.1"}}, start))
	run(c, 0, 400, well)
	a, b := c.Eligible(socket(c, 80, zoneA), "", c.after(399))[0].Number, c.Eligible(socket(c, 80, zoneB), "", c.after(399))[0].Number
	run(c, 400, 450, func(p Probe) bool { return !strings.HasPrefix(p.Address, pod+":") })
	run(c, 450, 500, ill)
	expect(t, "the first one's flows are reset", Cut(c.Cuts(a), c.after(399), c.after(499)), true)
	expect(t, "the last one's flows are reset", Cut(c.Cuts(b), c.after(399), c.after(499)), false)
}

func TestUnhealthyDrainingKeepsFlowsForAnInterval(t *testing.T) {
	c := account(t, func(s *Spec) {
		s.TargetGroups[0].Attributes = map[string]string{attributeCutOnUnhealthy: "false", attributeUnhealthyDrain: "60"}
	})
	must(t, c.Register(c.arn("pods"), []Target{{ID: pod}, {ID: "10.0.2.1"}}, start))
	run(c, 0, 400, well)
	number := c.Eligible(socket(c, 80, zoneA), "", c.after(399))[0].Number
	run(c, 400, 420, func(p Probe) bool { return !strings.HasPrefix(p.Address, pod+":") })
	turned := moment(t, 400, 420, func(s float64) bool { return strings.HasPrefix(state(t, c, "pods", pod, s), "unhealthy.draining ") })
	expect(t, "at the end", Cut(c.Cuts(number), c.after(399), c.after(turned+60)), true)
	expect(t, "its state then", state(t, c, "pods", pod, turned+60), "unhealthy Target.FailedHealthChecks")
	run(c, 420, turned+59, well) // it recovers in time
	expect(t, "recovered", state(t, c, "pods", pod, turned+58), "healthy")
	expect(t, "after recovering", Cut(c.Cuts(number), c.after(399), c.after(turned+100)), false)
}

func TestRegisteredAgainWhileDraining(t *testing.T) {
	c := account(t, nil)
	must(t, c.Register(c.arn("pods"), []Target{{ID: pod}}, start))
	run(c, 0, 320, well)
	must(t, c.Deregister(c.arn("pods"), []Target{{ID: pod}}, c.after(320)))
	must(t, c.Register(c.arn("pods"), []Target{{ID: pod}}, c.after(330)))
	expect(t, "state", state(t, c, "pods", pod, 330), "initial Elb.RegistrationInProgress")
	expect(t, "state before", state(t, c, "pods", pod, 329), "draining Target.DeregistrationInProgress")
	all, err := c.Health(c.arn("pods"), nil, c.after(331))
	must(t, err)
	expect(t, "listed", len(all), 1)
}

func TestUnusedHasItsReasons(t *testing.T) {
	c := account(t, nil)
	must(t, c.Register(c.arn("spare"), []Target{{ID: pod}}, start))
	must(t, c.Register(c.arn("pods"), []Target{{ID: "10.0.3.1"}, {ID: "10.0.2.5"}}, start))
	must(t, c.Register(c.arn("nodes"), []Target{{ID: "i-a"}}, start))
	must(t, c.PutInstance(Instance{ID: "i-a", Address: netip.MustParseAddr("10.0.1.100"), Zone: zoneA, State: Stopped}, start))
	for id, wanted := range map[[2]string]string{
		{"spare", pod}:       "unused Target.NotInUse",
		{"pods", "10.0.3.1"}: "unused Target.NotInUse",
		{"pods", "10.0.2.5"}: "unused Target.IpUnusable",
		{"nodes", "i-a"}:     "unused Target.InvalidState",
	} {
		expect(t, id[0]+" "+id[1], state(t, c, id[0], id[1], 1), wanted)
	}
	must(t, c.PutInstance(Instance{ID: "i-a", Address: netip.MustParseAddr("10.0.1.100"), Zone: zoneA, State: Terminated}, c.after(2)))
	expect(t, "terminated", state(t, c, "nodes", "i-a", 2), "draining Target.DeregistrationInProgress")
}

func TestTheSeedDrawsTheLags(t *testing.T) {
	healthy := func(seed uint64) float64 {
		c := account(t, func(s *Spec) { s.Seed = seed })
		must(t, c.Register(c.arn("pods"), []Target{{ID: "10.0.1.2"}}, start)) // whatever came before
		must(t, c.Register(c.arn("pods"), []Target{{ID: pod}}, start))
		run(c, 0, 320, well)
		return moment(t, 0, 320, func(s float64) bool { return state(t, c, "pods", pod, s) == "healthy" })
	}
	drawn := map[float64]bool{}
	for seed := range uint64(20) {
		expect(t, "the same seed again", healthy(seed), healthy(seed))
		drawn[healthy(seed)] = true
	}
	if len(drawn) < 10 {
		t.Errorf("20 seeds draw %v", drawn)
	}
}
