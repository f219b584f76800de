package cloud

import (
	"cmp"
	"net"
	"slices"
	"strconv"
	"time"
)

// Socket is an address and port that a balancer listens at.
type Socket struct {
	Balancer string // its ARN
	Kind     Kind
	Protocol string // TCP or HTTP
	Port     int
	Zone     string // "" stands for the DNS name
	Address  string // host:port
}

// Sockets is what there is to listen at, and a number that changes when that does.
func (c *Cloud) Sockets() (sockets []Socket, version int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, b := range c.allBalancers() {
		for _, l := range b.listeners {
			protocol := l.protocol
			switch protocol {
			case "QUIC":
				continue
			case "TCP_QUIC":
				protocol = "TCP"
			}
			add := func(zone, host string) {
				if host != "" {
					address := net.JoinHostPort(host, strconv.Itoa(l.port))
					sockets = append(sockets, Socket{b.arn, b.kind, protocol, l.port, zone, address})
				}
			}
			add("", b.Any)
			for _, z := range b.Zones {
				add(z.Name, z.Address)
			}
		}
	}
	return sockets, c.version
}

// Lease is where a flow goes.
type Lease struct {
	Number  int // of the registration
	Group   string
	Target  Target
	Address string // host:port
}

// Pick chooses where a new flow of a client goes, as a hash of its addresses does. There
// may be no target for it.
func (c *Cloud) Pick(s Socket, client string, now time.Time) (Lease, bool) {
	eligible := c.Eligible(s, client, now)
	if len(eligible) == 0 {
		return Lease{}, false
	}
	return eligible[c.choose(len(eligible), client, s.Address)], true
}

// Eligible are the targets that may get a new flow of a client. Without a client, those
// of all zones where the socket stands for the DNS name.
func (c *Cloud) Eligible(s Socket, client string, now time.Time) []Lease {
	c.mu.Lock()
	defer c.mu.Unlock()
	b, l := c.listenerOf(s)
	if b == nil {
		return nil
	}
	zones := []string{s.Zone}
	if s.Zone == "" {
		zones = c.resolved(b, l, client, now)
	}
	var leases []Lease
	for _, zone := range zones {
		for _, r := range c.routed(b, l.group, zone, now) {
			if !slices.ContainsFunc(leases, func(lease Lease) bool { return lease.Number == r.number }) {
				leases = append(leases, leaseOf(l, r))
			}
		}
	}
	return leases
}

func leaseOf(l listener, r *registration) Lease {
	port := strconv.Itoa(cmp.Or(l.instancePort, r.target.Port))
	return Lease{Number: r.number, Group: l.group.arn, Target: r.target, Address: net.JoinHostPort(r.address, port)}
}

func (c *Cloud) listenerOf(s Socket) (*balancer, listener) {
	for _, b := range c.allBalancers() {
		for _, l := range b.listeners {
			if b.arn == s.Balancer && l.port == s.Port {
				return b, l
			}
		}
	}
	return nil, listener{}
}

// resolved is the zone that a client connects to by name. It may have asked the name
// server up to dnsTTL ago.
func (c *Cloud) resolved(b *balancer, l listener, client string, now time.Time) []string {
	if client == "" {
		return c.zonesInDNS(b, l.group, now)
	}
	age := Chance(c.seed, client, l.group.arn, "dns")
	zones := c.zonesInDNS(b, l.group, now.Add(-time.Duration(age*float64(c.scaled(dnsTTL)))))
	return []string{zones[c.choose(len(zones), client, "zone")]}
}

// choose is one of n, by a hash of the event.
func (c *Cloud) choose(n int, event ...string) int {
	return int(Chance(c.seed, event...) * float64(n))
}

// zonesInDNS are the zones with enough healthy targets, or all where no zone has.
func (c *Cloud) zonesInDNS(b *balancer, g *group, at time.Time) []string {
	var all, fit []string
	shifted := b.shifted(at)
	for _, z := range b.Zones {
		if z.Name == shifted {
			continue
		}
		all = append(all, z.Name)
		if healthy := c.healthyIn(b, g, z.Name, at); healthy >= g.number(attributeDNSMinimum) {
			fit = append(fit, z.Name)
		}
	}
	switch {
	case len(fit) > 0:
		return fit
	case len(all) > 0:
		return all
	}
	return []string{shifted} // it has no other zone
}

func (c *Cloud) healthyIn(b *balancer, g *group, zone string, at time.Time) (n int) {
	for _, r := range c.reachable(b, g, zone, at) {
		if r.counts(at) {
			n++
		}
	}
	return n
}

// routed are the registrations to which the balancer's node in a zone sends new flows.
//
// Invariant: at least as many healthy ones as the minimum says, or every registered target
// that is through its registration, healthy or not (failing open).
func (c *Cloud) routed(b *balancer, g *group, zone string, at time.Time) []*registration {
	open := c.healthyIn(b, g, zone, at) < g.number(attributeRoutingMinimum)
	n := node{b.Name, zone}
	var to []*registration
	for _, r := range c.reachable(b, g, zone, at) {
		if c.takesNew(r, n, at) || open && c.failsOpen(r, n, at) {
			to = append(to, r)
		}
	}
	return to
}

// reachable are the registrations that a balancer's node in a zone may use at all.
func (c *Cloud) reachable(b *balancer, g *group, zone string, at time.Time) []*registration {
	all := slices.Concat(g.past, g.live)
	crossZone := b.crossZone(g)
	return slices.DeleteFunc(all, func(r *registration) bool {
		if b.overrides(r, at) == zonalShiftActive {
			return true
		}
		if i, isInstance := c.instances[r.target.ID]; isInstance && i.State != Running {
			return true
		}
		if r.zone == "all" {
			return false
		}
		return !b.hasZone(r.zone) || !crossZone && r.zone != zone
	})
}

// crossZone reports whether a node of the balancer sends to targets of other zones.
func (b *balancer) crossZone(g *group) bool {
	value := g.Attributes[attributeCrossZone]
	if value == likeBalancer {
		value = b.Attributes[attributeCrossZone]
	}
	return value == "true"
}

// Taking reports whether new flows may still go to a target of a group.
func (c *Cloud) Taking(group string, t Target, now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, b := range c.allBalancers() {
		for _, l := range b.listeners {
			if l.group.arn != group {
				continue
			}
			for _, z := range b.Zones {
				for _, r := range c.routed(b, l.group, z.Name, now) {
					if r.is(t) {
						return true
					}
				}
			}
		}
	}
	return false
}
