package cloud

import (
	"cmp"
	"slices"
	"strconv"
	"time"
)

// TargetHealth is what the API says of a target.
type TargetHealth struct {
	Target
	CheckPort                  string
	State, Reason, Description string
	// Override is what a zonal shift makes of it, whatever its state; "" where no load
	// balancer uses its group.
	Override Override
}

// Health describes the targets of a group as they were at a moment: all that are
// registered or draining, or those that are named.
func (c *Cloud) Health(arn string, named []Target, at time.Time) ([]TargetHealth, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	g, err := c.findGroup(arn)
	if err != nil {
		return nil, err
	}
	listed := g.listed(at)
	if len(named) == 0 {
		var all []TargetHealth
		for _, r := range listed {
			all = append(all, c.healthOf(g, r, at))
		}
		return all, nil
	}
	var answers []TargetHealth
	for _, t := range named {
		t.Port = cmp.Or(t.Port, g.Port)
		if i := slices.IndexFunc(listed, func(r *registration) bool { return r.is(t) }); i >= 0 {
			answers = append(answers, c.healthOf(g, listed[i], at))
			continue
		}
		answers = append(answers, TargetHealth{
			Target: t, CheckPort: g.checkPort(t.Port),
			State: Unused, Reason: "Target.NotRegistered", Description: "Target is not registered to the target group",
		})
	}
	return answers, nil
}

func (g *group) checkPort(port int) string {
	if g.HealthCheck.Port == "traffic-port" {
		return strconv.Itoa(port)
	}
	return g.HealthCheck.Port
}

func (c *Cloud) healthOf(g *group, r *registration, at time.Time) TargetHealth {
	h := TargetHealth{Target: r.target, CheckPort: g.checkPort(r.target.Port)}
	h.State, h.Reason, h.Description = c.stateOf(g, r, at)
	for _, b := range c.balancersOf(g) {
		if h.Override = b.overrides(r, at); h.Override != noOverride {
			break
		}
	}
	return h
}

// stateOf is the state of a listed registration.
func (c *Cloud) stateOf(g *group, r *registration, at time.Time) (state, reason, description string) {
	if r.isGone(at) {
		return Draining, "Target.DeregistrationInProgress", "Target deregistration is in progress"
	}
	if reason, description := c.unusedReason(g, r); reason != "" {
		return Unused, reason, description
	}
	v, since, _ := r.verdictAt(at)
	switch {
	case at.Before(r.checksAt):
		return Initial, "Elb.RegistrationInProgress", "Target registration is in progress"
	case v.state == "" || at.Before(r.servesAt):
		return Initial, "Elb.InitialHealthChecking", "Initial health checks in progress"
	case v.state == Unhealthy && c.drainsUnhealthy(g, since, at):
		return UnhealthyDraining, v.reason, v.description
	}
	return v.state, v.reason, v.description
}

// drainsUnhealthy reports whether the flows of a target that turned unhealthy are still left alone.
func (c *Cloud) drainsUnhealthy(g *group, since, at time.Time) bool {
	interval := g.number(attributeUnhealthyDrain)
	return g.kind == Network && g.Attributes[attributeCutOnUnhealthy] == "false" && at.Before(since.Add(c.seconds(interval)))
}

// unusedReason is why a registered target gets neither health checks nor flows.
func (c *Cloud) unusedReason(g *group, r *registration) (reason, description string) {
	if i, isInstance := c.instances[r.target.ID]; isInstance && i.State != Running {
		return "Target.InvalidState", "Target is in the " + i.State + " state"
	}
	users := c.balancersOf(g)
	if len(users) == 0 {
		return "Target.NotInUse", "Target group is not configured to receive traffic from the load balancer"
	}
	inZone := r.zone == "all"
	for _, b := range users {
		inZone = inZone || b.hasZone(r.zone)
		if slices.ContainsFunc(b.Zones, func(z Zone) bool { return z.Address == r.address }) {
			return "Target.IpUnusable", "The target IP address is reserved for use by a load balancer"
		}
	}
	if !inZone {
		return "Target.NotInUse", "Target is in an Availability Zone that is not enabled for the load balancer"
	}
	return "", ""
}

// InstanceState is what the API says of an instance of a classic load balancer.
type InstanceState struct{ ID, State, ReasonCode, Description string }

// InstanceHealth describes instances of a classic load balancer as they were at a
// moment: all that are registered, or those that are named.
func (c *Cloud) InstanceHealth(name string, named []string, at time.Time) ([]InstanceState, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	b, err := c.findClassic(name)
	if err != nil {
		return nil, err
	}
	listed := b.group.listed(at)
	if len(named) == 0 {
		for _, r := range listed {
			if !r.isGone(at) {
				named = append(named, r.target.ID)
			}
		}
	}
	var answers []InstanceState
	for _, id := range named {
		if _, found := c.instances[id]; !found {
			return nil, refuse("InvalidInstance", "Could not find EC2 instance %s.", id)
		}
		i := slices.IndexFunc(listed, func(r *registration) bool { return r.target.ID == id })
		if i < 0 {
			answers = append(answers, InstanceState{id, "OutOfService", "Instance", "Instance is not currently registered with the LoadBalancer."})
			continue
		}
		answers = append(answers, c.instanceState(b, listed[i], at))
	}
	return answers, nil
}

func (c *Cloud) instanceState(b *balancer, r *registration, at time.Time) InstanceState {
	id := r.target.ID
	v, _, _ := r.verdictAt(at)
	switch i := c.instances[id]; {
	case r.isGone(at):
		return InstanceState{id, "InService", "N/A", "Instance deregistration currently in progress."}
	case i.State != Running:
		return InstanceState{id, "OutOfService", "Instance", "Instance is in " + i.State + " state."}
	case !b.hasZone(r.zone):
		return InstanceState{id, "OutOfService", "ELB", "Instance is in the EC2 Availability Zone for which LoadBalancer is not configured to route traffic to."}
	case v.state == "" || at.Before(r.servesAt):
		return InstanceState{id, "OutOfService", "ELB", "Instance registration is still in progress."}
	case v.state == Unhealthy:
		return InstanceState{id, "OutOfService", "Instance", "Instance has failed at least the UnhealthyThreshold number of health checks consecutively."}
	case v.state == Unavailable:
		return InstanceState{id, "Unknown", "ELB", "A transient error occurred. Please try again later."}
	}
	return InstanceState{id, "InService", "N/A", "N/A"}
}
