package cloud

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// Error is an answer of the API that refuses a call.
type Error struct{ Code, Message string }

func (e *Error) Error() string { return e.Code + ": " + e.Message }

func refuse(code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// resolved is a target of which is known where it is.
type resolved struct {
	Target
	zone, address string
}

// Register registers targets with a group, all or none of them. Those that are
// registered already stay as they are.
func (c *Cloud) Register(arn string, targets []Target, now time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	g, err := c.findGroup(arn)
	if err != nil {
		return err
	}
	if len(targets) > c.quotas.TargetsPerCall {
		return refuse("ValidationError", "%d targets in one call: at most %d can be registered", len(targets), c.quotas.TargetsPerCall)
	}
	var fresh []resolved
	for _, t := range targets {
		r, err := c.resolve(g, t)
		if err != nil {
			return err
		}
		if err := g.checkServerID(r.Target, fresh); err != nil {
			return err
		}
		known := func(other resolved) bool { return other.ID == r.ID && other.Port == r.Port }
		if g.find(r.Target) == nil && !slices.ContainsFunc(fresh, known) {
			fresh = append(fresh, r)
		}
	}
	if err := c.checkQuotas(g, g.unlisted(fresh, now), now); err != nil {
		return err
	}
	for _, r := range fresh {
		g.live = append(g.live, c.newRegistration(g, r, now))
	}
	return nil
}

// Deregister takes targets out of a group. Those that are not in it are passed over.
func (c *Cloud) Deregister(arn string, targets []Target, now time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	g, err := c.findGroup(arn)
	if err != nil {
		return err
	}
	for _, t := range targets {
		t.Port = cmp.Or(t.Port, g.Port)
		c.deregister(g, func(r *registration) bool { return r.is(t) }, now)
	}
	return nil
}

// Unregistered are those of some targets that are not registered with a group.
func (c *Cloud) Unregistered(arn string, targets []Target) (not []string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	g, err := c.findGroup(arn)
	if err != nil {
		return nil, err
	}
	for _, t := range targets {
		t.Port = cmp.Or(t.Port, g.Port)
		if g.find(t) == nil {
			not = append(not, t.ID)
		}
	}
	return not, nil
}

// RegisterInstances registers instances with a classic load balancer, all or none.
func (c *Cloud) RegisterInstances(name string, ids []string, now time.Time) error {
	return c.withInstances(name, ids, func(g *group) {
		for _, id := range ids {
			if i := c.instances[id]; g.find(Target{ID: id}) == nil {
				r := resolved{Target{ID: id}, i.Zone, i.Address.String()}
				g.live = append(g.live, c.newRegistration(g, r, now))
			}
		}
	})
}

// DeregisterInstances takes instances out of a classic load balancer. An instance that
// does not exist refuses the call; one that is not registered is passed over.
func (c *Cloud) DeregisterInstances(name string, ids []string, now time.Time) error {
	return c.withInstances(name, ids, func(g *group) {
		c.deregister(g, func(r *registration) bool { return slices.Contains(ids, r.target.ID) }, now)
	})
}

func (c *Cloud) withInstances(name string, ids []string, do func(*group)) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	b, err := c.findClassic(name)
	if err != nil {
		return err
	}
	for _, id := range ids {
		if i, found := c.instances[id]; !found || i.State == Terminated {
			return refuse("InvalidInstance", "Could not find EC2 instance %s.", id)
		}
	}
	do(b.group)
	return nil
}

func (c *Cloud) deregister(g *group, which func(*registration) bool, now time.Time) {
	kept := g.live[:0:0]
	for _, r := range g.live {
		if which(r) {
			c.leave(r, now)
			g.past = append(g.past, r)
			continue
		}
		kept = append(kept, r)
	}
	g.live = kept
}

func (g *group) find(t Target) *registration {
	for _, r := range g.live {
		if r.is(t) {
			return r
		}
	}
	return nil
}

func (c *Cloud) findGroup(arn string) (*group, error) {
	if !strings.Contains(arn, ":targetgroup/") {
		return nil, refuse("ValidationError", "'%s' is not a valid target group ARN", arn)
	}
	if g := c.index.groupsByARN[arn]; g != nil {
		return g, nil
	}
	return nil, refuse("TargetGroupNotFound", "Target groups '%s' not found", arn)
}

func (c *Cloud) findClassic(name string) (*balancer, error) {
	if b := c.classics[name]; b != nil {
		return b, nil
	}
	return nil, refuse("LoadBalancerNotFound", "There is no ACTIVE Load Balancer named '%s'", name)
}

// resolve checks a target and finds out where it is.
func (c *Cloud) resolve(g *group, t Target) (resolved, error) {
	if t.Port = cmp.Or(t.Port, g.Port); t.Port < 1 || t.Port > 65535 {
		return resolved{}, refuse("ValidationError", "Port '%d' is not valid: it must be between 1 and 65535", t.Port)
	}
	if g.TargetType == "instance" {
		return c.resolveInstance(t)
	}
	return c.resolveAddress(g, t)
}

func (c *Cloud) resolveInstance(t Target) (resolved, error) {
	switch i, found := c.instances[t.ID]; {
	case !strings.HasPrefix(t.ID, "i-"):
		return resolved{}, refuse("ValidationError", "Instance ID '%s' is not valid", t.ID)
	case t.Zone != "":
		return resolved{}, refuse("ValidationError", "You cannot specify an Availability Zone for the instance target '%s'", t.ID)
	case !found:
		return resolved{}, refuse("InvalidTarget", "The following targets do not exist: '%s'", t.ID)
	case i.State != Running:
		return resolved{}, refuse("InvalidTarget", "The following targets are not in a running state and cannot be registered: '%s'", t.ID)
	default:
		return resolved{t, i.Zone, i.Address.String()}, nil
	}
}

// outside are the ranges that an address outside the VPC may be in.
var outside = []netip.Prefix{
	netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("100.64.0.0/10"),
	netip.MustParsePrefix("172.16.0.0/12"), netip.MustParsePrefix("192.168.0.0/16"),
}

func (c *Cloud) resolveAddress(g *group, t Target) (resolved, error) {
	address, err := netip.ParseAddr(t.ID)
	if err != nil {
		return resolved{}, refuse("ValidationError", "The IP address '%s' is not valid", t.ID)
	}
	if address.Is4() != (g.AddressType == "ipv4") {
		return resolved{}, refuse("InvalidTarget", "The IP address '%s' is not an %s address, as the targets of this target group must be", t.ID, g.AddressType)
	}
	zone, inside := c.zoneOf(address)
	allowed := slices.ContainsFunc(outside, func(p netip.Prefix) bool { return p.Contains(address) })
	switch {
	case inside && t.Zone == "all":
		return resolved{}, refuse("ValidationError", "The IP address '%s' is within the VPC, and cannot have its Availability Zone overridden to 'all' from '%s'", t.ID, zone)
	case inside && t.Zone != "" && t.Zone != zone:
		return resolved{}, refuse("ValidationError", "The IP address '%s' is within the VPC, and cannot have its Availability Zone overridden to '%s' from '%s'", t.ID, t.Zone, zone)
	case inside:
		t.Zone = zone
	case !allowed:
		return resolved{}, refuse("InvalidTarget", "The IP address '%s' is neither in a subnet of the VPC nor in a range that targets outside of it may be in", t.ID)
	case t.Zone == "":
		return resolved{}, refuse("ValidationError", "The Availability Zone is required for IP address '%s' because it is not in the VPC", t.ID)
	case t.Zone != "all" && g.kind == Application:
		return resolved{}, refuse("ValidationError", "The Availability Zone for IP address '%s' must be 'all' for Application Load Balancer target groups, when not within the VPC", t.ID)
	case t.Zone != "all" && !slices.ContainsFunc(c.vpc.Subnets, func(s Subnet) bool { return s.Zone == t.Zone }):
		return resolved{}, refuse("ValidationError", "You must specify a valid Availability Zone or select 'all' for all enabled Availability zones, since the IP address '%s' is outside the VPC", t.ID)
	}
	return resolved{t, t.Zone, address.String()}, nil
}

// unlisted are those that do not drain in the group either.
func (g *group) unlisted(targets []resolved, now time.Time) []resolved {
	listed := g.listed(now)
	return slices.DeleteFunc(slices.Clone(targets), func(t resolved) bool {
		return slices.ContainsFunc(listed, func(r *registration) bool { return r.is(t.Target) })
	})
}

// checkQuotas refuses more targets than fit. Targets that drain still take their place.
func (c *Cloud) checkQuotas(g *group, fresh []resolved, now time.Time) error {
	if n := len(g.listed(now)) + len(fresh); n > c.quotas.TargetsPerGroup {
		return refuse("TooManyTargets", "You cannot have more than %d targets per target group", c.quotas.TargetsPerGroup)
	}
	for _, b := range c.balancersOf(g) {
		if err := c.checkBalancer(b, fresh, now); err != nil {
			return err
		}
	}
	return nil
}

func (c *Cloud) checkBalancer(b *balancer, fresh []resolved, now time.Time) error {
	limit := cmp.Or(c.quotas.TargetsPerBalancer, map[Kind]int{Network: 3000, Application: 1000}[b.kind])
	total, zones, ids := len(fresh), map[string]int{}, map[string]int{}
	for _, t := range fresh {
		zones[t.zone]++
		ids[t.ID]++
	}
	for _, g := range b.groups() {
		for _, r := range g.listed(now) {
			total++
			zones[r.zone]++
			ids[r.target.ID]++
		}
	}
	if total > limit {
		return refuse("TooManyTargets", "You cannot have more than %d targets per %s load balancer", limit, b.kind)
	}
	for _, t := range fresh {
		if b.kind == Network && zones[t.zone] > c.quotas.TargetsPerZone {
			return refuse("TooManyTargets", "You cannot have more than %d targets per Availability Zone per network load balancer", c.quotas.TargetsPerZone)
		}
		if ids[t.ID] > c.quotas.RegistrationsPerTarget {
			return refuse("TooManyRegistrationsForTargetId", "You cannot register '%s' more than %d times with a load balancer", t.ID, c.quotas.RegistrationsPerTarget)
		}
	}
	return nil
}

// groups are those that the balancer's listeners forward to.
func (b *balancer) groups() []*group {
	var all []*group
	for _, l := range b.listeners {
		if !slices.Contains(all, l.group) {
			all = append(all, l.group)
		}
	}
	return all
}

// listed are the registrations that the API listed then, one a target: of one that was
// registered again while it drained, the newer.
func (g *group) listed(at time.Time) []*registration {
	type key struct {
		id   string
		port int
	}
	var list []*registration
	seen := map[key]int{}
	for _, r := range slices.Concat(g.past, g.live) {
		if !r.listed(at) {
			continue
		}
		k := key{r.target.ID, r.target.Port}
		if i, again := seen[k]; again {
			if list[i].at.Before(r.at) {
				list[i] = r
			}
			continue
		}
		seen[k] = len(list)
		list = append(list, r)
	}
	return list
}
