package cloud

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"
)

// PutInstance makes or changes an instance. One that is terminated is deregistered
// everywhere, as AWS does it.
func (c *Cloud) PutInstance(i Instance, now time.Time) error {
	i.State = cmp.Or(i.State, Running)
	if i.ID == "" || !i.Address.IsValid() || i.Zone == "" {
		return fmt.Errorf("instance %q: id, address and zone are needed", i.ID)
	}
	if !slices.Contains([]string{Running, Pending, Stopped, Terminated}, i.State) {
		return fmt.Errorf("instance %s: state %q", i.ID, i.State)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.instances[i.ID] = i
	if i.State != Terminated {
		return nil
	}
	for _, g := range c.allGroups() {
		if g.TargetType == "instance" {
			c.deregister(g, func(r *registration) bool { return r.target.ID == i.ID }, now)
		}
	}
	return nil
}

// PutTargetGroup makes a group, or changes the health check, attributes and tags of one
// and keeps its targets.
func (c *Cloud) PutTargetGroup(spec TargetGroup) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	defer c.reindex()
	return c.putTargetGroup(spec)
}

func (c *Cloud) putTargetGroup(spec TargetGroup) error {
	spec, kind, err := spec.withDefaults()
	if err != nil {
		return fmt.Errorf("target group %s: %w", spec.Name, err)
	}
	if old := c.groups[spec.Name]; old != nil {
		if old.kind != kind || old.TargetType != spec.TargetType || old.Port != spec.Port || old.AddressType != spec.AddressType {
			return fmt.Errorf("target group %s: protocol, port, target type and address type cannot be changed", spec.Name)
		}
		old.TargetGroup = spec
		return nil
	}
	arn := c.resource("targetgroup/" + spec.Name + "/" + c.suffix(spec.Name))
	c.groups[spec.Name] = &group{TargetGroup: spec, arn: arn, kind: kind}
	return nil
}

// DeleteTargetGroup deletes a group that no listener uses.
func (c *Cloud) DeleteTargetGroup(name string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	g := c.groups[name]
	if g == nil {
		return fmt.Errorf("there is no target group %s", name)
	}
	if len(c.balancersOf(g)) > 0 {
		return fmt.Errorf("target group %s is used by a listener", name)
	}
	for _, r := range slices.Concat(g.live, g.past) {
		delete(c.byNumber, r.number)
	}
	delete(c.groups, name)
	c.reindex()
	return nil
}

// PutLoadBalancer makes or changes a network or application load balancer.
func (c *Cloud) PutLoadBalancer(spec LoadBalancer, now time.Time) error {
	kind := Kind(spec.Type)
	if kind != Network && kind != Application {
		return fmt.Errorf("load balancer %s: type %q: must be network or application", spec.Name, spec.Type)
	}
	if !nameFormat.MatchString(spec.Name) || len(spec.Zones) == 0 {
		return fmt.Errorf("load balancer %q: a name and zones are needed", spec.Name)
	}
	var err error
	if spec.Attributes, err = withAttributes(balancerAttributes(kind), spec.Attributes); err != nil {
		return fmt.Errorf("load balancer %s: %w", spec.Name, err)
	}
	spec.Scheme = cmp.Or(spec.Scheme, "internet-facing")
	c.mu.Lock()
	defer c.mu.Unlock()
	b := &balancer{LoadBalancer: spec, kind: kind, created: now}
	if old := c.balancers[spec.Name]; old != nil {
		b.arn, b.created, b.shifts = old.arn, old.created, old.shifts
	} else {
		path := map[Kind]string{Network: "net", Application: "app"}[kind] + "/" + spec.Name + "/" + c.suffix(spec.Name)
		b.arn = c.resource("loadbalancer/" + path)
	}
	b.host = fmt.Sprintf("%s-%x.elb.%s.amazonaws.com", spec.Name, digest(b.arn), c.region)
	for _, l := range spec.Listeners {
		g := c.groups[l.TargetGroup]
		if g == nil || g.kind != kind {
			return fmt.Errorf("load balancer %s: listener %d: there is no target group %q for it", spec.Name, l.Port, l.TargetGroup)
		}
		if l.Protocol != g.Protocol {
			return fmt.Errorf("load balancer %s: listener %d: protocol %q, and the group's is %s", spec.Name, l.Port, l.Protocol, g.Protocol)
		}
		arn := fmt.Sprintf("%s/%016x", c.resource("listener/"+resourcePath(b.arn)), digest(b.arn, strconv.Itoa(l.Port)))
		b.listeners = append(b.listeners, listener{arn: arn, protocol: l.Protocol, port: l.Port, group: g})
	}
	if quic := slices.DeleteFunc(slices.Clone(b.listeners), func(l listener) bool { return !l.group.isQUIC() }); len(quic) > 1 {
		return fmt.Errorf("load balancer %s: %d listeners of QUIC or TCP_QUIC: at most one is allowed", spec.Name, len(quic))
	}
	c.balancers[spec.Name] = b
	c.changed()
	return nil
}

// PutClassicLoadBalancer makes a classic load balancer, or changes all of one but its instances.
func (c *Cloud) PutClassicLoadBalancer(spec ClassicLoadBalancer, now time.Time) error {
	asGroup, err := spec.group()
	if err == nil && (!nameFormat.MatchString(spec.Name) || len(spec.Zones) == 0 || len(spec.Listeners) == 0) {
		err = errors.New("a name, zones and listeners are needed")
	}
	for _, l := range spec.Listeners {
		if l.Protocol != "TCP" && l.Protocol != "HTTP" {
			err = fmt.Errorf("listener %d: protocol %q: must be TCP or HTTP", l.Port, l.Protocol)
		}
	}
	if err != nil {
		return fmt.Errorf("classic load balancer %q: %w", spec.Name, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	b := &balancer{
		LoadBalancer: LoadBalancer{Name: spec.Name, Zones: spec.Zones, Any: spec.Any, Tags: spec.Tags},
		arn:          c.resource("loadbalancer/" + spec.Name), kind: Classic, created: now, classic: &spec,
	}
	b.host = fmt.Sprintf("%s-%x.%s.elb.amazonaws.com", spec.Name, digest(b.arn), c.region)
	if old := c.classics[spec.Name]; old != nil {
		b.created, b.group = old.created, old.group
		b.group.TargetGroup = asGroup
	} else {
		b.group = &group{TargetGroup: asGroup, arn: b.arn, kind: Classic}
	}
	for _, l := range spec.Listeners {
		b.listeners = append(b.listeners, listener{protocol: l.Protocol, port: l.Port, group: b.group, instancePort: l.InstancePort})
	}
	c.classics[spec.Name] = b
	c.changed()
	return nil
}

// DeleteLoadBalancer deletes a balancer of any kind.
func (c *Cloud) DeleteLoadBalancer(name string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.balancers[name] == nil && c.classics[name] == nil {
		return fmt.Errorf("there is no load balancer %s", name)
	}
	delete(c.balancers, name)
	delete(c.classics, name)
	c.changed()
	return nil
}

// changed is told when a balancer came, changed or went.
func (c *Cloud) changed() {
	c.version++
	c.reindex()
}
