// Package cloud is the model of an AWS account's load balancers: what is registered
// where, what the API says of it, and where new flows really go, which the API does not
// say. It opens no socket and reads no clock: the time is an argument, so that every
// question can also be asked of a moment that has passed.
package cloud

import "net/netip"

// Spec is an account as it is at the beginning. All of it can be changed later.
type Spec struct {
	Seed    uint64  `json:"seed"`    // of every draw
	Scale   float64 `json:"scale"`   // AWS's times are divided by it; 1 to 10, default 1
	Account string  `json:"account"` // default 123456789012
	Region  string  `json:"region"`  // default eu-central-1
	VPC     VPC     `json:"vpc"`
	Quotas  Quotas  `json:"quotas"`

	// Lags are used in place of AWS's: of the kinds and things that are named. What is 0
	// to 0 is AWS's.
	Lags map[Kind]Lags `json:"lags,omitempty"`

	Instances            []Instance            `json:"instances,omitempty"`
	TargetGroups         []TargetGroup         `json:"targetGroups,omitempty"`
	LoadBalancers        []LoadBalancer        `json:"loadBalancers,omitempty"`
	ClassicLoadBalancers []ClassicLoadBalancer `json:"classicLoadBalancers,omitempty"`
}

// VPC is the network of all target groups.
type VPC struct {
	ID      string   `json:"id"` // default vpc-1
	Subnets []Subnet `json:"subnets"`
}

// Subnet says which zone an address is in. A load balancer that is made by the API names it by its ID.
type Subnet struct {
	ID   string       `json:"id,omitempty"`
	CIDR netip.Prefix `json:"cidr"`
	Zone string       `json:"zone"`
}

// Quotas are limits on registrations; 0 is the default of AWS.
type Quotas struct {
	TargetsPerGroup        int `json:"targetsPerGroup,omitempty"`        // default 1,000
	TargetsPerZone         int `json:"targetsPerZone,omitempty"`         // of a network balancer, default 500
	TargetsPerBalancer     int `json:"targetsPerBalancer,omitempty"`     // default 3,000 network, 1,000 application
	RegistrationsPerTarget int `json:"registrationsPerTarget,omitempty"` // of one id with one balancer, default 100
	TargetsPerCall         int `json:"targetsPerCall,omitempty"`         // default 200
}

// States of an instance.
const (
	Running    = "running"
	Pending    = "pending"
	Stopped    = "stopped"
	Terminated = "terminated"
)

// Instance is a machine that can be registered by its id.
type Instance struct {
	ID      string     `json:"id"`
	Address netip.Addr `json:"address"`
	Zone    string     `json:"zone"`
	State   string     `json:"state,omitempty"` // default running
}

// TargetGroup is a target group of version 2 of the API.
type TargetGroup struct {
	Name        string            `json:"name"`
	Protocol    string            `json:"protocol"` // TCP, QUIC, TCP_QUIC: of a network balancer; HTTP: of an application balancer
	Port        int               `json:"port"`
	TargetType  string            `json:"targetType"`              // instance or ip
	AddressType string            `json:"ipAddressType,omitempty"` // ipv4 (default) or ipv6
	HealthCheck HealthCheck       `json:"healthCheck"`
	Attributes  map[string]string `json:"attributes,omitempty"` // those that differ from the default
	Tags        map[string]string `json:"tags,omitempty"`

	// AssumeHealthy sends no health checks: every target passes them, unless Judge says
	// otherwise. It is for tests of the API alone.
	AssumeHealthy bool `json:"assumeHealthy,omitempty"`
}

// HealthCheck is how the targets of a group are checked. What is not set has AWS's default.
type HealthCheck struct {
	Protocol           string `json:"protocol,omitempty"` // TCP or HTTP
	Port               string `json:"port,omitempty"`     // a number or traffic-port
	Path               string `json:"path,omitempty"`
	Matcher            string `json:"matcher,omitempty"` // codes and ranges of them, such as 200-299,304
	IntervalSeconds    int    `json:"intervalSeconds,omitempty"`
	TimeoutSeconds     int    `json:"timeoutSeconds,omitempty"`
	HealthyThreshold   int    `json:"healthyThreshold,omitempty"`
	UnhealthyThreshold int    `json:"unhealthyThreshold,omitempty"`
}

// LoadBalancer is a network or an application load balancer.
type LoadBalancer struct {
	Name       string            `json:"name"`
	Type       string            `json:"type"`             // network or application
	Scheme     string            `json:"scheme,omitempty"` // default internet-facing
	Zones      []Zone            `json:"zones"`
	Any        string            `json:"any,omitempty"` // an address that stands for the DNS name: each connection goes to one of the zones
	Listeners  []Listener        `json:"listeners,omitempty"`
	Attributes map[string]string `json:"attributes,omitempty"`
	Tags       map[string]string `json:"tags,omitempty"`

	// SecurityGroups are told when they are asked for; they keep nothing out.
	SecurityGroups []string `json:"securityGroups,omitempty"`
}

// Zone is an availability zone that a balancer is enabled in, and the address it has there.
type Zone struct {
	Name    string `json:"name"`
	Address string `json:"address,omitempty"` // to listen at; without one it has no data plane there
}

// Listener forwards a port to one target group.
type Listener struct {
	Protocol    string `json:"protocol"` // that of the group; of QUIC nothing is forwarded, of TCP_QUIC the TCP
	Port        int    `json:"port"`
	TargetGroup string `json:"targetGroup"` // its name
}

// ClassicLoadBalancer is a load balancer of the API of 2012.
type ClassicLoadBalancer struct {
	Name      string            `json:"name"`
	Zones     []Zone            `json:"zones"`
	Any       string            `json:"any,omitempty"`
	Listeners []ClassicListener `json:"listeners"`
	Check     ClassicCheck      `json:"healthCheck"`
	CrossZone bool              `json:"crossZone,omitempty"`
	Draining  bool              `json:"connectionDraining,omitempty"`
	Timeout   int               `json:"connectionDrainingTimeout,omitempty"` // seconds, default 300
	Tags      map[string]string `json:"tags,omitempty"`

	AssumeHealthy bool `json:"assumeHealthy,omitempty"` // as of a TargetGroup
}

// ClassicListener forwards a port to one port of every instance.
type ClassicListener struct {
	Protocol     string `json:"protocol"` // TCP or HTTP
	Port         int    `json:"port"`
	InstancePort int    `json:"instancePort"`
}

// ClassicCheck is the health check of a classic load balancer.
type ClassicCheck struct {
	Target             string `json:"target"` // PROTOCOL:PORT, with HTTP also /PATH
	IntervalSeconds    int    `json:"intervalSeconds,omitempty"`
	TimeoutSeconds     int    `json:"timeoutSeconds,omitempty"`
	HealthyThreshold   int    `json:"healthyThreshold,omitempty"`
	UnhealthyThreshold int    `json:"unhealthyThreshold,omitempty"`
}
