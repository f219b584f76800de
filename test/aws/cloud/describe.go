package cloud

import (
	"slices"
	"strings"
	"time"
)

// GroupView is a target group as the API describes it.
type GroupView struct {
	TargetGroup
	ARN, VPC  string
	Balancers []string // their ARNs
}

// BalancerView is a load balancer as the API describes it.
type BalancerView struct {
	LoadBalancer
	ARN, Host, VPC string
	Kind           Kind
	Created        time.Time
	Classic        *ClassicLoadBalancer
	Instances      []string // of a classic one
}

// ListenerView is a listener as the API describes it.
type ListenerView struct {
	ARN, Balancer, Protocol, Group string
	Port                           int
}

// Groups are all target groups, by name.
func (c *Cloud) Groups() []GroupView {
	c.mu.Lock()
	defer c.mu.Unlock()
	views := make([]GroupView, 0, len(c.groups))
	for _, g := range c.allGroups() {
		if g.kind != Classic {
			views = append(views, c.view(g))
		}
	}
	return views
}

// Group is the target group of an ARN.
func (c *Cloud) Group(arn string) (GroupView, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	g, err := c.findGroup(arn)
	if err != nil {
		return GroupView{}, err
	}
	return c.view(g), nil
}

func (c *Cloud) view(g *group) GroupView {
	v := GroupView{TargetGroup: g.TargetGroup, ARN: g.arn, VPC: c.vpc.ID}
	for _, b := range c.balancersOf(g) {
		v.Balancers = append(v.Balancers, b.arn)
	}
	return v
}

// Balancers are all load balancers of version 2 of the API, or all classic ones, by name.
func (c *Cloud) Balancers(classic bool) []BalancerView {
	c.mu.Lock()
	defer c.mu.Unlock()
	var views []BalancerView
	for _, b := range c.allBalancers() {
		if (b.kind == Classic) != classic {
			continue
		}
		v := BalancerView{LoadBalancer: b.LoadBalancer, ARN: b.arn, Host: b.host, VPC: c.vpc.ID, Kind: b.kind, Created: b.created, Classic: b.classic}
		if classic {
			for _, r := range b.group.live {
				v.Instances = append(v.Instances, r.target.ID)
			}
		}
		views = append(views, v)
	}
	return views
}

// Listeners are those of version 2 of the API.
func (c *Cloud) Listeners() []ListenerView {
	c.mu.Lock()
	defer c.mu.Unlock()
	var views []ListenerView
	for _, b := range c.allBalancers() {
		for _, l := range b.listeners {
			if b.kind != Classic {
				views = append(views, ListenerView{ARN: l.arn, Balancer: b.arn, Protocol: l.protocol, Group: l.group.arn, Port: l.port})
			}
		}
	}
	return views
}

// Tags are those of a resource. Listeners have those of their balancer.
func (c *Cloud) Tags(arn string) (tags map[string]string, found bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if g := c.index.groupsByARN[arn]; g != nil {
		return g.Tags, true
	}
	for _, b := range c.allBalancers() {
		listens := slices.ContainsFunc(b.listeners, func(l listener) bool { return l.arn == arn })
		if b.arn == arn || listens && arn != "" {
			return b.Tags, true
		}
	}
	return nil, false
}

// ClassicARN is how policies name a classic load balancer, whether it exists or not.
func (c *Cloud) ClassicARN(name string) string { return c.resource("loadbalancer/" + name) }

// resourcePath is what follows the kind of a resource in its ARN.
func resourcePath(arn string) string {
	_, path, _ := strings.Cut(arn, "/")
	return path
}
