package cloud

import (
	"slices"
	"strings"
	"testing"
)

func shifting(crossZone string) func(*Spec) {
	return func(s *Spec) {
		s.LoadBalancers[0].Attributes = map[string]string{attributeCrossZone: crossZone, attributeZonalShift: "true"}
		for i := range 2 {
			s.TargetGroups[i].Attributes = map[string]string{attributeCutOnUnhealthy: "false"}
		}
	}
}

// overrideOf is the override of a target, and its state.
func overrideOf(t *testing.T, c *Cloud, id string, seconds float64) string {
	t.Helper()
	found, err := c.Health(c.arn("pods"), []Target{{ID: id}}, c.after(seconds))
	must(t, err)
	return found[0].State + " " + string(found[0].Override)
}

// Across zones the targets of the zone get no new flow through any node, the zone leaves the
// DNS name, and flows that are open stay. The target's own health is what it was.
func TestZonalShift(t *testing.T) {
	c := account(t, shifting("true"))
	must(t, c.Register(c.arn("pods"), []Target{{ID: pod}, {ID: "10.0.2.1"}}, start))
	run(c, 0, 400, well)
	number := c.Eligible(socket(c, 80, zoneA), "", c.after(399))[0].Number
	expect(t, "before", overrideOf(t, c, pod, 399), "healthy no_override")
	must(t, c.ShiftZone("front", zoneA, c.after(400)))
	run(c, 400, 500, well)
	expect(t, "in the zone", overrideOf(t, c, pod, 401), "healthy zonal_shift_active")
	expect(t, "in the other", overrideOf(t, c, "10.0.2.1", 401), "healthy no_override")
	expect(t, "as it was", overrideOf(t, c, pod, 399), "healthy no_override")
	for _, zone := range []string{zoneA, zoneB} {
		if got := reached(c, zone, 401); !slices.Equal(got, []string{"10.0.2.1"}) {
			t.Errorf("zone %s reaches %v", zone, got)
		}
	}
	expect(t, "cuts", len(c.Cuts(number)), 0)
	_, l := c.listenerOf(socket(c, 80, ""))
	if zones := c.zonesInDNS(c.balancers["front"], l.group, c.after(401)); !slices.Equal(zones, []string{zoneB}) {
		t.Errorf("the name has %v", zones)
	}
	must(t, c.Deregister(c.arn("pods"), []Target{{ID: pod}}, c.after(410)))
	expect(t, "on its way out", overrideOf(t, c, pod, 411), "draining zonal_shift_active")
	must(t, c.Register(c.arn("pods"), []Target{{ID: pod}}, c.after(420)))
	must(t, c.PutLoadBalancer(c.balancers["front"].LoadBalancer, c.after(430))) // a change keeps it
	expect(t, "registered again", overrideOf(t, c, pod, 431), "initial zonal_shift_active")
	must(t, c.ShiftZone("front", "", c.after(490)))
	run(c, 500, 900, well)
	expect(t, "afterwards", overrideOf(t, c, pod, 899), "healthy no_override")
	expect(t, "zone a reaches", len(reached(c, zoneA, 899)), 2)
}

// Within zones the name alone moves clients: the node goes on sending to its targets.
func TestZonalShiftWithinZones(t *testing.T) {
	c := account(t, shifting("false"))
	must(t, c.Register(c.arn("pods"), []Target{{ID: pod}, {ID: "10.0.2.1"}}, start))
	run(c, 0, 400, well)
	must(t, c.ShiftZone("front", zoneA, c.after(400)))
	expect(t, "in the zone", overrideOf(t, c, pod, 401), "healthy zonal_shift_delegated_to_dns")
	if got := reached(c, zoneA, 401); !slices.Equal(got, []string{pod}) {
		t.Errorf("zone a reaches %v", got)
	}
}

func TestZonalShiftsThatAreRefused(t *testing.T) {
	for wanted, change := range map[string]func(*Spec){
		"zonal_shift.config.enabled is not true": func(s *Spec) { delete(s.LoadBalancers[0].Attributes, attributeZonalShift) },
		"attribute " + attributeCutOnUnhealthy:   func(s *Spec) { s.TargetGroups[1].Attributes = nil },
		"it is not in zone":                      func(s *Spec) { s.LoadBalancers[0].Zones = s.LoadBalancers[0].Zones[1:] },
		"has protocol TCP_QUIC": func(s *Spec) {
			s.TargetGroups[1].Protocol, s.LoadBalancers[0].Listeners[1].Protocol = "TCP_QUIC", "TCP_QUIC"
		},
	} {
		c := account(t, func(s *Spec) { shifting("true")(s); change(s) })
		if err := c.ShiftZone("front", zoneA, start); err == nil || !strings.Contains(err.Error(), wanted) {
			t.Errorf("expected an error with %q, got %v", wanted, err)
		}
	}
	c := account(t, nil)
	expect(t, "a group of no balancer", func() Override {
		must(t, c.Register(c.arn("spare"), []Target{{ID: pod}}, start))
		found, err := c.Health(c.arn("spare"), nil, start)
		must(t, err)
		return found[0].Override
	}(), Override(""))
}
