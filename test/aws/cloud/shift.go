package cloud

import (
	"fmt"
	"slices"
	"time"
)

// Override is a state of the API's AdministrativeOverride.
type Override string

const (
	noOverride       Override = "no_override"
	zonalShiftActive Override = "zonal_shift_active"
	// zonalShiftDelegated is of a balancer whose nodes send to their own zone only: its zone
	// leaves the DNS name, and its node goes on sending to the targets.
	zonalShiftDelegated Override = "zonal_shift_delegated_to_dns"
)

// Reason and Description are what the API says beside the state.
func (o Override) Reason() string {
	return map[Override]string{
		noOverride: "AdministrativeOverride.NoOverride", zonalShiftActive: "AdministrativeOverride.ZonalShiftActive",
		zonalShiftDelegated: "AdministrativeOverride.ZonalShiftDelegatedToDns",
	}[o]
}

func (o Override) Description() string {
	return map[Override]string{
		noOverride: "No override is currently active on target", zonalShiftActive: "Zonal shift is active on target",
		zonalShiftDelegated: "Zonal shift is delegated to DNS for target",
	}[o]
}

// shift is a time in which a balancer is shifted away from a zone.
type shift struct {
	zone     string
	from, to time.Time // to is zero while it goes on
}

// ShiftZone shifts a balancer away from one of its zones, as a zonal shift of Amazon
// Application Recovery Controller does, or with "" ends that.
func (c *Cloud) ShiftZone(name, zone string, now time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	b := c.balancers[name]
	if b == nil {
		return fmt.Errorf("there is no load balancer %s", name)
	}
	if zone != "" {
		if err := b.shiftable(zone); err != nil {
			return fmt.Errorf("zonal shift of %s: %w", name, err)
		}
	}
	if n := len(b.shifts); n > 0 && b.shifts[n-1].to.IsZero() {
		b.shifts[n-1].to = now
	}
	if zone != "" {
		b.shifts = append(b.shifts, shift{zone: zone, from: now})
	}
	return nil
}

// shiftable refuses what AWS refuses.
func (b *balancer) shiftable(zone string) error {
	switch {
	case b.Attributes[attributeZonalShift] != "true":
		return fmt.Errorf("attribute %s is not true", attributeZonalShift)
	case !b.hasZone(zone):
		return fmt.Errorf("it is not in zone %s", zone)
	case b.kind != Network || b.Attributes[attributeCrossZone] != "true":
		return nil
	}
	for _, g := range b.groups() {
		switch {
		case g.Protocol != "TCP":
			return fmt.Errorf("target group %s has protocol %s, not TCP", g.Name, g.Protocol)
		case g.Attributes[attributeCutOnUnhealthy] != "false":
			return fmt.Errorf("target group %s: attribute %s is not false", g.Name, attributeCutOnUnhealthy)
		case !b.crossZone(g):
			return fmt.Errorf("target group %s: attribute %s is false", g.Name, attributeCrossZone)
		}
	}
	return nil
}

// shifted is the zone that the balancer was shifted away from then, or "".
func (b *balancer) shifted(at time.Time) string {
	i := slices.IndexFunc(b.shifts, func(s shift) bool { return !at.Before(s.from) && (s.to.IsZero() || at.Before(s.to)) })
	if i < 0 {
		return ""
	}
	return b.shifts[i].zone
}

// overrides is what a zonal shift of the balancer made of a target then.
func (b *balancer) overrides(r *registration, at time.Time) Override {
	switch zone := b.shifted(at); {
	case zone == "" || zone != r.zone:
		return noOverride
	case !b.crossZone(r.group):
		return zonalShiftDelegated
	}
	return zonalShiftActive
}
