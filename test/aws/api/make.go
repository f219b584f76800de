package api

import (
	"cmp"
	"slices"

	"github.com/mumoshu/ingress-daemonset-controller/test/aws/cloud"
)

// What people make before targets are registered, and delete at the end. None of it counts against a bucket: a person makes few calls.

func resource(name string) func(*Server, params) []string {
	return func(_ *Server, p params) []string { return []string{p.text(name)} }
}

// pairs is a list of structures with a key and a value.
func (p params) pairs(name string) map[string]string {
	keys, values := p.list(name, ".Key"), p.list(name, ".Value")
	all := map[string]string{}
	for i, key := range keys[:min(len(keys), len(values))] {
		all[key] = values[i]
	}
	return all
}

// numbers reads several parameters that are numbers, 0 where one is not given.
func (p params) numbers(into map[string]*int) error {
	for name, number := range into {
		n, err := p.number(name)
		if err != nil {
			return err
		}
		*number = n
	}
	return nil
}

func createTargetGroup(s *Server, r request) (any, error) {
	g := cloud.TargetGroup{
		Name: r.text("Name"), Protocol: r.text("Protocol"), TargetType: cmp.Or(r.text("TargetType"), "instance"), Tags: r.pairs("Tags"),
		HealthCheck: cloud.HealthCheck{
			Protocol: r.text("HealthCheckProtocol"), Port: r.text("HealthCheckPort"), Path: r.text("HealthCheckPath"), Matcher: r.text("Matcher.HttpCode"),
		},
	}
	if err := r.numbers(map[string]*int{
		"Port": &g.Port, "HealthCheckIntervalSeconds": &g.HealthCheck.IntervalSeconds, "HealthCheckTimeoutSeconds": &g.HealthCheck.TimeoutSeconds,
		"HealthyThresholdCount": &g.HealthCheck.HealthyThreshold, "UnhealthyThresholdCount": &g.HealthCheck.UnhealthyThreshold,
	}); err != nil {
		return nil, err
	}
	if r.text("VpcId") != s.Cloud.VPCID() {
		return nil, invalid("The VPC ID '%s' is not found", r.text("VpcId"))
	}
	made, err := s.Cloud.MakeTargetGroup(g)
	return struct{ TargetGroups members[targetGroupAnswer] }{membersOf([]cloud.GroupView{made}, targetGroupOf)}, err
}

func modifyTargetGroupAttributes(s *Server, r request) (any, error) {
	all, err := s.Cloud.SetGroupAttributes(r.text("TargetGroupArn"), r.pairs("Attributes"))
	return attributesOf(all), err
}

func createLoadBalancer(s *Server, r request) (any, error) {
	b := cloud.LoadBalancer{
		Name: r.text("Name"), Type: cmp.Or(r.text("Type"), string(cloud.Application)), Scheme: r.text("Scheme"),
		SecurityGroups: r.list("SecurityGroups", ""), Tags: r.pairs("Tags"),
	}
	for _, subnet := range r.list("Subnets", "") {
		zone, found := s.Cloud.ZoneOfSubnet(subnet)
		if !found {
			return nil, &Error{400, "SubnetNotFound", "The subnet ID '" + subnet + "' does not exist"}
		}
		if slices.ContainsFunc(b.Zones, func(z cloud.Zone) bool { return z.Name == zone }) {
			return nil, &Error{400, "InvalidConfigurationRequest", "A load balancer cannot be attached to multiple subnets in the same Availability Zone"}
		}
		b.Zones = append(b.Zones, cloud.Zone{Name: zone})
	}
	if err := s.Cloud.MakeLoadBalancer(b, r.now); err != nil {
		return nil, err
	}
	made := slices.DeleteFunc(s.Cloud.Balancers(false), func(v cloud.BalancerView) bool { return v.Name != b.Name })
	return struct{ LoadBalancers members[balancerAnswer] }{membersOf(made, balancerOf)}, nil
}

func modifyLoadBalancerAttributes(s *Server, r request) (any, error) {
	if err := s.Cloud.SetBalancerAttributes(r.text("LoadBalancerArn"), r.pairs("Attributes"), r.now); err != nil {
		return nil, err
	}
	return describeLoadBalancerAttributes(s, r)
}

func createListener(s *Server, r request) (any, error) {
	kinds, groups := r.list("DefaultActions", ".Type"), r.list("DefaultActions", ".TargetGroupArn")
	if len(kinds) != 1 || len(groups) != 1 || kinds[0] != "forward" {
		return nil, invalid("this server models one default action, which forwards to one target group")
	}
	port, err := r.number("Port")
	if err == nil {
		err = s.Cloud.MakeListener(r.text("LoadBalancerArn"), groups[0], r.text("Protocol"), port, r.now)
	}
	if err != nil {
		return nil, err
	}
	made := slices.DeleteFunc(s.Cloud.Listeners(), func(l cloud.ListenerView) bool { return l.Balancer != r.text("LoadBalancerArn") || l.Port != port })
	return struct{ Listeners members[listenerAnswer] }{membersOf(made, listenerOf)}, nil
}

func deleteLoadBalancer(s *Server, r request) (any, error) {
	s.Cloud.RemoveLoadBalancer(r.text("LoadBalancerArn"))
	return struct{}{}, nil
}

func deleteTargetGroup(s *Server, r request) (any, error) {
	return struct{}{}, s.Cloud.RemoveTargetGroup(r.text("TargetGroupArn"))
}

func addTags(s *Server, r request) (any, error) {
	for _, arn := range r.list("ResourceArns", "") {
		if !s.Cloud.SetTags(arn, r.pairs("Tags")) {
			return nil, missingResource(arn)
		}
	}
	return struct{}{}, nil
}

// tagged are the resources of AddTags.
func tagged(_ *Server, p params) []string { return p.list("ResourceArns", "") }
