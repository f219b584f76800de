package cloud

import (
	"maps"
	"slices"
	"time"
)

// What the API makes, changes and deletes, in one step each. What tests put there goes past it, in change.go.

// MakeTargetGroup makes a group of a name that no other has.
func (c *Cloud) MakeTargetGroup(spec TargetGroup) (GroupView, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	defer c.reindex()
	if c.groups[spec.Name] != nil {
		return GroupView{}, refuse("DuplicateTargetGroupName", "A target group with the same name '%s' exists, but with different settings", spec.Name)
	}
	if err := c.putTargetGroup(spec); err != nil {
		return GroupView{}, refuse("ValidationError", "%v", err)
	}
	return c.view(c.groups[spec.Name]), nil
}

// SetGroupAttributes changes attributes of a group, and leaves all others as they are.
func (c *Cloud) SetGroupAttributes(arn string, changes map[string]string) (map[string]string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	g, err := c.findGroup(arn)
	if err != nil {
		return nil, err
	}
	set := maps.Clone(g.Attributes)
	maps.Copy(set, changes)
	if set, err = withAttributes(groupAttributes(g.kind, g.TargetType), set); err != nil {
		return nil, refuse("InvalidConfigurationRequest", "%v", err)
	}
	g.Attributes = set
	return set, nil
}

// MakeLoadBalancer makes a balancer of a name that no other has, without listeners.
func (c *Cloud) MakeLoadBalancer(spec LoadBalancer, now time.Time) error {
	c.mu.Lock()
	taken := c.balancers[spec.Name] != nil
	c.mu.Unlock()
	if taken {
		return refuse("DuplicateLoadBalancerName", "A load balancer with the same name '%s' exists, but with different settings", spec.Name)
	}
	if err := c.PutLoadBalancer(spec, now); err != nil {
		return refuse("ValidationError", "%v", err)
	}
	return nil
}

// MakeListener has a balancer listen at a port where it does not yet.
func (c *Cloud) MakeListener(balancerARN, groupARN, protocol string, port int, now time.Time) error {
	return c.changeBalancer(balancerARN, now, func(b *LoadBalancer) error {
		if slices.ContainsFunc(b.Listeners, func(l Listener) bool { return l.Port == port }) {
			return refuse("DuplicateListener", "A listener already exists on this port for this load balancer")
		}
		g, err := c.Group(groupARN)
		if err != nil {
			return err
		}
		b.Listeners = append(slices.Clone(b.Listeners), Listener{Protocol: protocol, Port: port, TargetGroup: g.Name})
		return nil
	})
}

// RemoveLoadBalancer deletes a balancer with its listeners. One that is gone already is no failure.
func (c *Cloud) RemoveLoadBalancer(arn string) {
	for _, b := range c.Balancers(false) {
		if b.ARN == arn {
			_ = c.DeleteLoadBalancer(b.Name)
		}
	}
}

// RemoveTargetGroup deletes a group that no listener uses. One that is gone already is no failure.
func (c *Cloud) RemoveTargetGroup(arn string) error {
	g, err := c.Group(arn)
	if err != nil {
		return nil
	}
	if err := c.DeleteTargetGroup(g.Name); err != nil {
		return refuse("ResourceInUse", "Target group '%s' is currently in use by a listener or a rule", arn)
	}
	return nil
}

// SetBalancerAttributes changes attributes of a balancer, and leaves all others as they are.
func (c *Cloud) SetBalancerAttributes(arn string, changes map[string]string, now time.Time) error {
	return c.changeBalancer(arn, now, func(b *LoadBalancer) error {
		b.Attributes = maps.Clone(b.Attributes)
		maps.Copy(b.Attributes, changes)
		return nil
	})
}

// changeBalancer changes what a balancer was made of.
func (c *Cloud) changeBalancer(arn string, now time.Time, change func(*LoadBalancer) error) error {
	spec, err := c.balancerOf(arn)
	if err == nil {
		err = change(&spec)
	}
	if err != nil {
		return err
	}
	if err := c.PutLoadBalancer(spec, now); err != nil {
		return refuse("InvalidConfigurationRequest", "%v", err)
	}
	return nil
}

func (c *Cloud) balancerOf(arn string) (LoadBalancer, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, b := range c.balancers {
		if b.arn == arn {
			return b.LoadBalancer, nil
		}
	}
	return LoadBalancer{}, refuse("LoadBalancerNotFound", "Load balancer '%s' not found", arn)
}

// SetTags adds tags to a group or a balancer, or gives those that it has another value.
func (c *Cloud) SetTags(arn string, tags map[string]string) (found bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	merged := func(have map[string]string) map[string]string {
		out := maps.Clone(tags)
		for key, value := range have {
			if _, set := tags[key]; !set {
				out[key] = value
			}
		}
		return out
	}
	if g := c.index.groupsByARN[arn]; g != nil {
		g.Tags = merged(g.Tags)
		return true
	}
	for _, b := range c.balancers {
		if b.arn == arn {
			b.Tags = merged(b.Tags)
			return true
		}
	}
	return false
}

// ZoneOfSubnet is the zone of a subnet that has an ID.
func (c *Cloud) ZoneOfSubnet(id string) (string, bool) {
	for _, s := range c.vpc.Subnets {
		if s.ID == id && id != "" {
			return s.Zone, true
		}
	}
	return "", false
}

// VPCID is the one VPC's.
func (c *Cloud) VPCID() string { return c.vpc.ID }
