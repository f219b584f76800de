package cloud

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestZones(t *testing.T) {
	for _, crossZone := range []string{"false", "true"} {
		c := account(t, func(s *Spec) { s.LoadBalancers[0].Attributes = map[string]string{attributeCrossZone: crossZone} })
		must(t, c.Register(c.arn("pods"), []Target{{ID: pod}, {ID: "10.0.2.1"}}, start))
		run(c, 0, 400, well)
		wanted := []string{"10.0.2.1"}
		if crossZone == "true" {
			wanted = []string{pod, "10.0.2.1"}
		}
		if got := reached(c, zoneB, 399); !slices.Equal(got, wanted) {
			t.Errorf("cross-zone %s: zone b reaches %v, not %v", crossZone, got, wanted)
		}
	}
}

// With cross-zone off a zone without a healthy target fails those clients that still have
// its address, up to the DNS name's time to live.
func TestAnEmptiedZoneLeavesDNS(t *testing.T) {
	c := account(t, func(s *Spec) { s.TargetGroups[0].Attributes = map[string]string{attributeDelay: "0"} })
	must(t, c.Register(c.arn("pods"), []Target{{ID: pod}, {ID: "10.0.2.1"}}, start))
	run(c, 0, 400, well)
	must(t, c.Deregister(c.arn("pods"), []Target{{ID: pod}}, c.after(400)))
	run(c, 400, 500, well)
	zones := func(seconds float64) (a, b int) {
		name := socket(c, 80, "")
		for i := range 400 {
			_, l := c.listenerOf(name)
			switch c.resolved(c.balancers["front"], l, fmt.Sprint("10.0.0.1:", i), c.after(seconds))[0] {
			case zoneA:
				a++
			case zoneB:
				b++
			}
		}
		return a, b
	}
	if a, b := zones(399); a < 100 || b < 100 {
		t.Errorf("before: %d and %d clients", a, b)
	}
	if a, _ := zones(430); a == 0 {
		t.Error("after 30 s nobody has the zone's address any more")
	}
	if a, _ := zones(461); a != 0 {
		t.Errorf("after the time to live %d clients still have the zone's address", a)
	}
	run(c, 500, 701, well)
	expect(t, "the emptied zone reaches", len(reached(c, zoneA, 700)), 0)
}

func TestFailsOpenWhenNoneIsHealthy(t *testing.T) {
	c := account(t, func(s *Spec) { s.LoadBalancers[0].Attributes = map[string]string{attributeCrossZone: "true"} })
	must(t, c.Register(c.arn("pods"), []Target{{ID: pod}, {ID: "10.0.2.1"}, {ID: "10.0.2.2"}}, start))
	bad := func(p Probe) bool { return strings.HasPrefix(p.Address, "10.0.2.1:") }
	run(c, 0, 400, bad)
	if got := reached(c, zoneA, 399); !slices.Equal(got, []string{"10.0.2.1"}) {
		t.Errorf("with one healthy target it reaches %v", got)
	}
	run(c, 400, 500, ill)
	expect(t, "with none healthy it reaches", len(reached(c, zoneA, 499)), 3)
}

func TestAClassicBalancerDoesNotFailOpen(t *testing.T) {
	c := account(t, nil)
	must(t, c.RegisterInstances("old", []string{"i-a"}, start))
	run(c, 0, 300, ill)
	all, _ := c.Sockets()
	i := slices.IndexFunc(all, func(s Socket) bool { return s.Kind == Classic })
	expect(t, "it reaches", len(c.Eligible(all[i], "", c.after(299))), 0)
}

func TestPickSpreadsFlows(t *testing.T) {
	c := account(t, func(s *Spec) { s.LoadBalancers[0].Attributes = map[string]string{attributeCrossZone: "true"} })
	must(t, c.Register(c.arn("pods"), []Target{{ID: pod}, {ID: "10.0.2.1"}}, start))
	run(c, 0, 400, well)
	counts := map[string]int{}
	for i := range 1000 {
		lease, found := c.Pick(socket(c, 80, zoneA), fmt.Sprint("10.0.0.1:", i), c.after(399))
		expect(t, "found", found, true)
		counts[lease.Address]++
	}
	if counts[pod+":80"] < 400 || counts["10.0.2.1:80"] < 400 {
		t.Errorf("flows went %v", counts)
	}
}

func TestClassicStates(t *testing.T) {
	c := account(t, func(s *Spec) { s.ClassicLoadBalancers[0].Draining = true })
	describe := func(seconds float64, ids ...string) string {
		found, err := c.InstanceHealth("old", ids, c.after(seconds))
		must(t, err)
		var all []string
		for _, i := range found {
			all = append(all, i.State+": "+i.Description)
		}
		return strings.Join(all, "; ")
	}
	must(t, c.RegisterInstances("old", []string{"i-a", "i-b"}, start))
	expect(t, "registered", describe(1, "i-a"), "OutOfService: Instance registration is still in progress.")
	run(c, 0, 200, well)
	expect(t, "checked", describe(199, "i-a"), "InService: N/A")
	expect(t, "in no zone of it", describe(199, "i-b"), "OutOfService: Instance is in the EC2 Availability Zone for which LoadBalancer is not configured to route traffic to.")
	must(t, c.DeregisterInstances("old", []string{"i-a"}, c.after(200)))
	expect(t, "draining", describe(210, "i-a"), "InService: Instance deregistration currently in progress.")
	expect(t, "gone", describe(500, "i-a"), "OutOfService: Instance is not currently registered with the LoadBalancer.")
	for _, number := range c.Leaving(c.after(250)) {
		c.Idle(number, c.after(250))
	}
	expect(t, "gone when it is idle", describe(250, "i-a"), "OutOfService: Instance is not currently registered with the LoadBalancer.")
	expect(t, "the others", describe(250), "OutOfService: Instance is in the EC2 Availability Zone for which LoadBalancer is not configured to route traffic to.")
}
