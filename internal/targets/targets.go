// Package targets decides what to register with the target groups of a cloud's
// load balancers, what to deregister, and when the traffic to what was deregistered
// has stopped. Nothing here does I/O, reads a clock or remembers
// anything: what must survive a crash is in the State, which comes from the
// objects in the API server and from the cloud.
//
// Its files, in the order in which to open them:
//
//   - targets.go: the words. state.go: everything that is decided from. decision.go: everything that can be said.
//   - plan.go: Plan from top to bottom, over all groups and objects; its invariants stand at the head. pass.go: what
//     there is of one decision while it is made. index.go: what is looked up in the State.
//   - records.go: what is ours. parts.go: who wants what of a group. borrow.go: what an Attachment takes out of the
//     group. admission.go: whose new targets the group takes. unknown.go: what stays because nobody can know whose it
//     is. bounds.go: what fits into a status.
//   - group.go: one group, and in which object each record is to stand.
//   - groupstate.go, groupdecision.go, decide.go: Decide, for one group, from top to bottom. planner.go: what holds
//     that decision while it is made. want.go: what several wants of one target come to. join.go: the way in. leave.go: the
//     way out; its invariant stands at the head. stop.go: when traffic has stopped. minimum.go: what must stay.
//   - nodes.go: when a node is out or back, and what calls need. hooks.go, gates.go, gate.go: what pods are told.
//   - status.go, conditions.go, warnings.go, grace.go: what users are told, idle.go where there is no cloud.
//   - calls.go, queue.go: which call goes next, over all groups. accounts.go, sweep.go: what is asked of accounts
//     beside, and which group is looked through for nodes next.
//   - modes.go, pods.go: which targets pods and nodes stand for. access.go: what that gives.
//
// Nothing that answers a question acts. Plan fills one pass: what newPass indexes stays, each group is decided once,
// and statuses are made from decided groups.
package targets

import (
	"slices"
	"time"
)

// Target is one registration in a group, which holds each at most once.
type Target struct {
	// ID is an instance id, or an IP address in its canonical text form.
	ID   string
	Port int32
}

// Registration is a target to register.
type Registration struct {
	Target
	// Zone is given only for an address outside the group's network: a zone, or "all".
	Zone string
}

// Balancer is the kind of load balancer that a group is of.
type Balancer string

// Kinds of load balancers.
const (
	Network     Balancer = "network"
	Application Balancer = "application"
	Classic     Balancer = "classic"
)

// TargetType is what the ID of a group's targets is.
type TargetType string

// Types of targets.
const (
	Instance TargetType = "instance"
	IP       TargetType = "ip"
)

// Group is a target group, or a classic load balancer, as the cloud describes it.
type Group struct {
	// ID is the ARN of a target group, the name of a classic load balancer.
	ID, Name string
	Balancer Balancer
	Type     TargetType
	// IPv6 says whether the addresses of its targets are IPv6; they are IPv4 otherwise.
	IPv6 bool
	// Port is what a target gets where it is registered without one. A classic load balancer has
	// an instance once, whatever the Ports to which its listeners forward; the first stands for all.
	Port  int32
	Ports []int32
	// Datagrams says whether it takes UDP, of which no connections tell.
	Datagrams bool
	// Tags are nil where they were not read.
	Tags map[string]string
	// Balancers are the load balancers that forward to it, as far as they matter to its
	// attributes. InUse says whether any does.
	Balancers []string
	InUse     bool
	// LeftAlone says why nothing can be registered with it by us, empty where it can.
	LeftAlone string
	// ChecksTarget says whether health checks go to the port that takes the traffic.
	ChecksTarget bool
	// Delay is how long the load balancer drains what is deregistered.
	Delay time.Duration
	// EndsConnectionsAfterDelay says whether connections that outlive Delay are ended,
	// EndsConnectionsOfUnhealthy whether those of a target that turns unhealthy are.
	EndsConnectionsAfterDelay, EndsConnectionsOfUnhealthy bool
	// CrossZone says whether the clients of one zone reach the targets of another.
	CrossZone bool
	// MinHealthy and MinHealthyPercent are below how many healthy targets the load
	// balancer acts as if none was; the greater counts, and 0 is none.
	MinHealthy, MinHealthyPercent int
}

// DescribedBy is the group with the attributes that an earlier reading of it has. A list
// of groups is without: they cost a request each.
func (g Group) DescribedBy(o Group) Group {
	g.Delay, g.EndsConnectionsAfterDelay, g.EndsConnectionsOfUnhealthy = o.Delay, o.EndsConnectionsAfterDelay, o.EndsConnectionsOfUnhealthy
	g.CrossZone, g.MinHealthy, g.MinHealthyPercent = o.CrossZone, o.MinHealthy, o.MinHealthyPercent
	return g
}

// hasTags reports whether the group has all of these tags.
func (g Group) hasTags(all map[string]string) bool {
	for key, value := range all {
		if has, tagged := g.Tags[key]; !tagged || has != value {
			return false
		}
	}
	return true
}

// forwardsTo reports whether traffic comes to a port of a target's that is registered.
func (g Group) forwardsTo(port int32) bool {
	return g.Balancer != Classic || port == 0 || port == g.Port || slices.Contains(g.Ports, port)
}

// MayHold reports whether nodes may have to be taken out of the group: it is of instances, and
// has, or may have while they were not read, the tags of those in which they are looked for.
func (g Group) MayHold(tagged map[string]string) bool {
	return g.IsSwept(tagged) || g.Type == Instance && g.Tags == nil
}

// IsSwept reports whether nodes are looked for in the group, as far as is known.
func (g Group) IsSwept(tagged map[string]string) bool {
	return g.Type == Instance && g.hasTags(tagged)
}

// GroupName is how somebody names a group: by its ID, or a target group by its name.
type GroupName struct{ ID, Name string }

// Names reports whether the group is meant.
func (n GroupName) Names(g Group) bool {
	return n.ID != "" && n.ID == g.ID || n.ID == "" && n.Name == g.Name && g.Balancer != Classic
}

// Condition is the state of a target. It never says alone whether traffic flows:
// Reason does, since Unused is also said of targets in use elsewhere.
type Condition string

// Conditions of a target, as the Elastic Load Balancing API has them.
const (
	Initial           Condition = "initial"
	Healthy           Condition = "healthy"
	Unhealthy         Condition = "unhealthy"
	UnhealthyDraining Condition = "unhealthy.draining"
	Draining          Condition = "draining"
	Unused            Condition = "unused"
	Unavailable       Condition = "unavailable"
)

// Reason is why a target is in its condition.
type Reason string

// Reasons that decisions are made from, as the Elastic Load Balancing API has them.
const (
	NotRegistered            Reason = "Target.NotRegistered"
	NotInUse                 Reason = "Target.NotInUse"
	InvalidState             Reason = "Target.InvalidState"
	IPUnusable               Reason = "Target.IpUnusable"
	DeregistrationInProgress Reason = "Target.DeregistrationInProgress"
	RegistrationInProgress   Reason = "Elb.RegistrationInProgress"
	HealthCheckDisabled      Reason = "Target.HealthCheckDisabled"
)

// Health is what the cloud says of a registered target.
type Health struct {
	Condition Condition
	Reason    Reason
	// Zone is the target's, empty where it is not known.
	Zone string
	// Shifted says whether the load balancer keeps new connections from the target, whatever
	// its health, because somebody shifted traffic away from its zone.
	Shifted bool
}
