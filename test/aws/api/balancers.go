package api

import (
	"slices"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/test/aws/cloud"
)

type balancerAnswer struct {
	LoadBalancerArn, LoadBalancerName, DNSName, Scheme, Type, VpcId, IpAddressType string
	CreatedTime                                                                    time.Time
	State                                                                          struct{ Code string }
	AvailabilityZones                                                              members[zoneAnswer]
	SecurityGroups                                                                 members[string]
}

type zoneAnswer struct{ ZoneName string }

func balancerOf(b cloud.BalancerView) balancerAnswer {
	answer := balancerAnswer{
		LoadBalancerArn: b.ARN, LoadBalancerName: b.Name, DNSName: b.Host, Scheme: b.Scheme, Type: string(b.Kind), VpcId: b.VPC,
		IpAddressType: "ipv4", CreatedTime: b.Created.UTC().Truncate(time.Second),
		AvailabilityZones: membersOf(b.Zones, func(z cloud.Zone) zoneAnswer { return zoneAnswer{z.Name} }),
		SecurityGroups:    members[string]{b.SecurityGroups},
	}
	answer.State.Code = "active"
	return answer
}

func describeLoadBalancers(s *Server, r request) (any, error) {
	missing := func(string) error {
		return &Error{400, "LoadBalancerNotFound", "One or more load balancers not found"}
	}
	arns, names := r.list("LoadBalancerArns", ""), r.list("Names", "")
	if len(arns) > 20 || len(arns) > 0 && len(names) > 0 {
		return nil, invalid("At most 20 load balancer ARNs, or names, can be specified")
	}
	found, err := named(s.Cloud.Balancers(false), arns, func(b cloud.BalancerView) string { return b.ARN }, missing)
	if err == nil {
		found, err = named(found, names, func(b cloud.BalancerView) string { return b.Name }, missing)
	}
	if err != nil {
		return nil, err
	}
	found, next, err := page(found, r.params, 400, func(b cloud.BalancerView) string { return b.Name })
	return struct {
		LoadBalancers members[balancerAnswer]
		NextMarker    string `xml:",omitempty"`
	}{membersOf(found, balancerOf), next}, err
}

func (s *Server) balancer(arn string) (cloud.BalancerView, error) {
	found, err := named(s.Cloud.Balancers(false), []string{arn}, func(b cloud.BalancerView) string { return b.ARN }, notFound("LoadBalancerNotFound", "Load balancers"))
	if err != nil {
		return cloud.BalancerView{}, err
	}
	return found[0], nil
}

func describeLoadBalancerAttributes(s *Server, r request) (any, error) {
	b, err := s.balancer(r.text("LoadBalancerArn"))
	return attributesOf(b.Attributes), err
}

type listenerAnswer struct {
	ListenerArn, LoadBalancerArn, Protocol string
	Port                                   int
	DefaultActions                         members[forward]
}

type forward struct{ Type, TargetGroupArn string }

func describeListeners(s *Server, r request) (any, error) {
	arn, arns := r.text("LoadBalancerArn"), r.list("ListenerArns", "")
	if (arn == "") == (len(arns) == 0) {
		return nil, invalid("You must specify either listener ARNs or a load balancer ARN")
	}
	found := s.Cloud.Listeners()
	if arn != "" {
		if _, err := s.balancer(arn); err != nil {
			return nil, err
		}
		found = slices.DeleteFunc(found, func(l cloud.ListenerView) bool { return l.Balancer != arn })
	}
	found, err := named(found, arns, func(l cloud.ListenerView) string { return l.ARN }, notFound("ListenerNotFound", "Listeners"))
	if err != nil {
		return nil, err
	}
	found, next, err := page(found, r.params, 400, func(l cloud.ListenerView) string { return l.ARN })
	return struct {
		Listeners  members[listenerAnswer]
		NextMarker string `xml:",omitempty"`
	}{membersOf(found, listenerOf), next}, err
}

func listenerOf(l cloud.ListenerView) listenerAnswer {
	return listenerAnswer{l.ARN, l.Balancer, l.Protocol, l.Port, members[forward]{[]forward{{"forward", l.Group}}}}
}
