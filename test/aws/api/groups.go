package api

import (
	"maps"
	"slices"
	"strings"

	"github.com/mumoshu/ingress-daemonset-controller/test/aws/cloud"
)

type targetGroupAnswer struct {
	TargetGroupArn, TargetGroupName, Protocol string
	Port                                      int
	VpcId                                     string
	HealthCheckProtocol, HealthCheckPort      string
	HealthCheckEnabled                        bool
	HealthCheckIntervalSeconds                int
	HealthCheckTimeoutSeconds                 int
	HealthyThresholdCount                     int
	UnhealthyThresholdCount                   int
	HealthCheckPath                           string   `xml:",omitempty"`
	Matcher                                   *matcher `xml:",omitempty"`
	LoadBalancerArns                          members[string]
	TargetType, IpAddressType                 string
}

type matcher struct{ HttpCode string }

func targetGroupOf(g cloud.GroupView) targetGroupAnswer {
	check := g.HealthCheck
	answer := targetGroupAnswer{
		TargetGroupArn: g.ARN, TargetGroupName: g.Name, Protocol: g.Protocol, Port: g.Port, VpcId: g.VPC,
		HealthCheckProtocol: check.Protocol, HealthCheckPort: check.Port, HealthCheckEnabled: true,
		HealthCheckIntervalSeconds: check.IntervalSeconds, HealthCheckTimeoutSeconds: check.TimeoutSeconds,
		HealthyThresholdCount: check.HealthyThreshold, UnhealthyThresholdCount: check.UnhealthyThreshold,
		HealthCheckPath: check.Path, LoadBalancerArns: members[string]{g.Balancers},
		TargetType: g.TargetType, IpAddressType: g.AddressType,
	}
	if check.Matcher != "" {
		answer.Matcher = &matcher{check.Matcher}
	}
	return answer
}

func describeTargetGroups(s *Server, r request) (any, error) {
	groups, missing := s.Cloud.Groups(), func(string) error {
		return &Error{400, "TargetGroupNotFound", "One or more target groups not found"}
	}
	given := 0
	for _, names := range []int{len(r.list("TargetGroupArns", "")), len(r.list("Names", "")), len(r.text("LoadBalancerArn"))} {
		if given += min(names, 1); given > 1 {
			return nil, invalid("Only one of target group ARNs, names and a load balancer ARN can be specified")
		}
	}
	groups, err := named(groups, r.list("TargetGroupArns", ""), func(g cloud.GroupView) string { return g.ARN }, missing)
	if err == nil {
		groups, err = named(groups, r.list("Names", ""), func(g cloud.GroupView) string { return g.Name }, missing)
	}
	if arn := r.text("LoadBalancerArn"); err == nil && arn != "" {
		if _, err = s.balancer(arn); err == nil {
			groups = slices.DeleteFunc(groups, func(g cloud.GroupView) bool { return !slices.Contains(g.Balancers, arn) })
		}
	}
	if err != nil {
		return nil, err
	}
	groups, next, err := page(groups, r.params, 400, func(g cloud.GroupView) string { return g.Name })
	return struct {
		TargetGroups members[targetGroupAnswer]
		NextMarker   string `xml:",omitempty"`
	}{membersOf(groups, targetGroupOf), next}, err
}

type attributesAnswer struct{ Attributes members[keyValue] }

func attributesOf(all map[string]string) attributesAnswer {
	return attributesAnswer{membersOf(slices.Sorted(maps.Keys(all)), func(key string) keyValue { return keyValue{key, all[key]} })}
}

func describeTargetGroupAttributes(s *Server, r request) (any, error) {
	g, err := s.Cloud.Group(r.text("TargetGroupArn"))
	return attributesOf(g.Attributes), err
}

func registerTargets(s *Server, r request) (any, error) {
	targets, err := r.targets()
	if err == nil && len(targets) == 0 {
		err = invalid("At least one target must be specified")
	}
	if err != nil {
		return nil, err
	}
	return struct{}{}, s.Cloud.Register(r.text("TargetGroupArn"), targets, r.now)
}

func deregisterTargets(s *Server, r request) (any, error) {
	targets, err := r.targets()
	if err == nil && len(targets) == 0 {
		err = invalid("At least one target must be specified")
	}
	if err != nil {
		return nil, err
	}
	if r.refusesUnregistered {
		not, err := s.Cloud.Unregistered(r.text("TargetGroupArn"), targets)
		if err != nil {
			return nil, err
		}
		if len(not) > 0 {
			return nil, &Error{400, "InvalidTarget", "The following targets are not registered with the target group: '" + strings.Join(not, "', '") + "'"}
		}
	}
	return struct{}{}, s.Cloud.Deregister(r.text("TargetGroupArn"), targets, r.now)
}

type targetAnswer struct {
	Id               string
	Port             int
	AvailabilityZone string `xml:",omitempty"`
	QuicServerId     string `xml:",omitempty"`
}

type healthAnswer struct {
	Target          targetAnswer
	HealthCheckPort string
	TargetHealth    struct {
		State       string
		Reason      string `xml:",omitempty"`
		Description string `xml:",omitempty"`
	}
	AdministrativeOverride *overrideAnswer `xml:",omitempty"`
}

type overrideAnswer struct{ State, Reason, Description string }

func describeTargetHealth(s *Server, r request) (any, error) {
	targets, err := r.targets()
	if err != nil {
		return nil, err
	}
	found, err := s.Cloud.Health(r.text("TargetGroupArn"), targets, r.seen())
	return struct{ TargetHealthDescriptions members[healthAnswer] }{membersOf(found, func(h cloud.TargetHealth) healthAnswer {
		a := healthAnswer{Target: targetAnswer{h.ID, h.Port, h.Zone, h.QuicServerID}, HealthCheckPort: h.CheckPort}
		a.TargetHealth.State, a.TargetHealth.Reason, a.TargetHealth.Description = h.State, h.Reason, h.Description
		if h.Override != "" {
			a.AdministrativeOverride = &overrideAnswer{string(h.Override), h.Override.Reason(), h.Override.Description()}
		}
		return a
	})}, err
}

// tagsAnswer is the tags of one resource. Classic load balancers are named, not by ARN.
type tagsAnswer struct {
	ResourceArn      string `xml:",omitempty"`
	LoadBalancerName string `xml:",omitempty"`
	Tags             members[keyValue]
}

// Most resources that DescribeTags takes in a call.
const mostTagged = 20

func describeTags(s *Server, r request) (any, error) {
	arns := r.list("ResourceArns", "")
	if len(arns) == 0 || len(arns) > mostTagged {
		return nil, invalid("The number of resource ARNs must be between 1 and %d, not %d", mostTagged, len(arns))
	}
	var answers members[tagsAnswer]
	for _, arn := range arns {
		tags, found := s.Cloud.Tags(arn)
		if !found {
			return nil, missingResource(arn)
		}
		answers.Member = append(answers.Member, tagsAnswer{ResourceArn: arn, Tags: attributesOf(tags).Attributes})
	}
	return struct{ TagDescriptions members[tagsAnswer] }{answers}, nil
}

func missingResource(arn string) error {
	for kind, code := range map[string]string{
		":targetgroup/": "TargetGroupNotFound", ":loadbalancer/": "LoadBalancerNotFound", ":listener/": "ListenerNotFound",
	} {
		if strings.Contains(arn, kind) {
			return notFound(code, "Resource")(arn)
		}
	}
	return invalid("'%s' is not a valid load balancer, target group or listener ARN", arn)
}
