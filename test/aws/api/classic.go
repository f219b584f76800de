package api

import (
	"cmp"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/test/aws/cloud"
)

const (
	classicVersion   = "2012-06-01"
	classicNamespace = "http://elasticloadbalancing.amazonaws.com/doc/2012-06-01/"
)

func classic(class string, resources func(*Server, params) []string, do func(*Server, request) (any, error), parameters ...string) action {
	return action{service: "elasticloadbalancing", namespace: classicNamespace, parameters: parameters, class: class, resources: resources, do: do}
}

type classicAnswer struct {
	LoadBalancerName, DNSName, Scheme, VPCId string
	CreatedTime                              time.Time
	AvailabilityZones                        members[string]
	Instances                                members[instanceAnswer]
	ListenerDescriptions                     members[classicListener]
	HealthCheck                              struct {
		Target                                                  string
		Interval, Timeout, HealthyThreshold, UnhealthyThreshold int
	}
}

type instanceAnswer struct{ InstanceId string }

type classicListener struct {
	Listener struct {
		Protocol, InstanceProtocol     string
		LoadBalancerPort, InstancePort int
	}
}

func classicOf(b cloud.BalancerView) classicAnswer {
	answer := classicAnswer{
		LoadBalancerName: b.Name, DNSName: b.Host, Scheme: "internet-facing", VPCId: b.VPC, CreatedTime: b.Created.UTC().Truncate(time.Second),
		AvailabilityZones: membersOf(b.Zones, func(z cloud.Zone) string { return z.Name }),
		Instances:         membersOf(b.Instances, func(id string) instanceAnswer { return instanceAnswer{id} }),
		ListenerDescriptions: membersOf(b.Classic.Listeners, func(l cloud.ClassicListener) (a classicListener) {
			a.Listener.Protocol, a.Listener.InstanceProtocol = l.Protocol, l.Protocol
			a.Listener.LoadBalancerPort, a.Listener.InstancePort = l.Port, l.InstancePort
			return a
		}),
	}
	check := b.Classic.Check
	answer.HealthCheck.Target = check.Target
	answer.HealthCheck.Interval, answer.HealthCheck.Timeout = cmp.Or(check.IntervalSeconds, 30), cmp.Or(check.TimeoutSeconds, 5)
	answer.HealthCheck.HealthyThreshold, answer.HealthCheck.UnhealthyThreshold = cmp.Or(check.HealthyThreshold, 10), cmp.Or(check.UnhealthyThreshold, 2)
	return answer
}

func noBalancer(name string) error {
	return &Error{400, "LoadBalancerNotFound", "There is no ACTIVE Load Balancer named '" + name + "'"}
}

func (s *Server) classics(names []string) ([]cloud.BalancerView, error) {
	return named(s.Cloud.Balancers(true), names, func(b cloud.BalancerView) string { return b.Name }, noBalancer)
}

func describeClassic(s *Server, r request) (any, error) {
	found, err := s.classics(r.list("LoadBalancerNames", ""))
	if err != nil {
		return nil, err
	}
	found, next, err := page(found, r.params, 400, func(b cloud.BalancerView) string { return b.Name })
	return struct {
		LoadBalancerDescriptions members[classicAnswer]
		NextMarker               string `xml:",omitempty"`
	}{membersOf(found, classicOf), next}, err
}

type instanceState struct{ InstanceId, State, ReasonCode, Description string }

func describeInstanceHealth(s *Server, r request) (any, error) {
	found, err := s.Cloud.InstanceHealth(r.text("LoadBalancerName"), r.list("Instances", ".InstanceId"), r.seen())
	return struct{ InstanceStates members[instanceState] }{membersOf(found, func(i cloud.InstanceState) instanceState {
		return instanceState{i.ID, i.State, i.ReasonCode, i.Description}
	})}, err
}

func registerInstances(s *Server, r request) (any, error) {
	return changeInstances(s, r, s.Cloud.RegisterInstances)
}

func deregisterInstances(s *Server, r request) (any, error) {
	return changeInstances(s, r, s.Cloud.DeregisterInstances)
}

// changeInstances answers with the instances that are registered afterwards.
func changeInstances(s *Server, r request, change func(string, []string, time.Time) error) (any, error) {
	name, ids := r.text("LoadBalancerName"), r.list("Instances", ".InstanceId")
	if len(ids) == 0 {
		return nil, invalid("At least one instance must be specified")
	}
	if err := change(name, ids, r.now); err != nil {
		return nil, err
	}
	found, err := s.classics([]string{name})
	if err != nil {
		return nil, err
	}
	return struct{ Instances members[instanceAnswer] }{classicOf(found[0]).Instances}, nil
}

type classicAttributes struct {
	CrossZoneLoadBalancing struct{ Enabled bool }
	ConnectionDraining     struct {
		Enabled bool
		Timeout int
	}
	ConnectionSettings struct{ IdleTimeout int }
	AccessLog          struct{ Enabled bool }
}

func describeClassicAttributes(s *Server, r request) (any, error) {
	found, err := s.classics([]string{r.text("LoadBalancerName")})
	if err != nil {
		return nil, err
	}
	var a classicAttributes
	a.CrossZoneLoadBalancing.Enabled = found[0].Classic.CrossZone
	a.ConnectionDraining.Enabled = found[0].Classic.Draining
	a.ConnectionDraining.Timeout = cmp.Or(found[0].Classic.Timeout, 300)
	a.ConnectionSettings.IdleTimeout = 60
	return struct{ LoadBalancerAttributes classicAttributes }{a}, nil
}

func describeClassicTags(s *Server, r request) (any, error) {
	names := r.list("LoadBalancerNames", "")
	if len(names) == 0 || len(names) > mostTagged {
		return nil, invalid("The number of load balancer names must be between 1 and %d, not %d", mostTagged, len(names))
	}
	found, err := s.classics(names)
	return struct{ TagDescriptions members[tagsAnswer] }{membersOf(found, func(b cloud.BalancerView) tagsAnswer {
		return tagsAnswer{LoadBalancerName: b.Name, Tags: attributesOf(b.Tags).Attributes}
	})}, err
}
