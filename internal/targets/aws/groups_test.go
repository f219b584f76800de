package aws

import (
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/mumoshu/ingress-daemonset-controller/internal/targets"
)

const (
	nlbARN = "arn:aws:elasticloadbalancing:eu-west-1:1:loadbalancer/net/front/7"
	albARN = "arn:aws:elasticloadbalancing:eu-west-1:1:loadbalancer/app/front/8"
)

func TestGroups(t *testing.T) {
	s := newServer(t)
	c := client(t, s, Options{})
	s.on(describeTargetGroups, result(members("TargetGroups",
		targetGroup("a", "ip", "TCP", element("Port", "8080"), element("IpAddressType", "ipv6"), element("HealthCheckPort", "traffic-port"),
			members("LoadBalancerArns", nlbARN)),
		targetGroup("b", "instance", "HTTP", element("Port", "80"), element("IpAddressType", "ipv4"), element("HealthCheckPort", "10080"),
			members("LoadBalancerArns", albARN)),
		targetGroup("c", "ip", "TCP_UDP", element("Port", "443"), element("HealthCheckPort", "443"), members("LoadBalancerArns")),
		targetGroup("lambda", "lambda", ""),
		targetGroup("alb", "alb", "TCP"),
		targetGroup("gateway", "ip", "GENEVE"),
		targetGroup("quic", "ip", "TCP_QUIC", element("Port", "443")),
	)))
	s.on(describeTags, tagsOf(true))
	s.on(describeTargetGroupAttributes,
		result(pairs("Attributes",
			"deregistration_delay.timeout_seconds", "120",
			"deregistration_delay.connection_termination.enabled", "true",
			"target_health_state.unhealthy.connection_termination.enabled", "false",
			"load_balancing.cross_zone.enabled", "use_load_balancer_configuration",
			"target_group_health.dns_failover.minimum_healthy_targets.count", "2",
			"target_group_health.dns_failover.minimum_healthy_targets.percentage", "off",
			"target_group_health.unhealthy_state_routing.minimum_healthy_targets.count", "3",
			"target_group_health.unhealthy_state_routing.minimum_healthy_targets.percentage", "40")),
		result(pairs("Attributes",
			"deregistration_delay.timeout_seconds", "0",
			"load_balancing.cross_zone.enabled", "use_load_balancer_configuration",
			"target_group_health.dns_failover.minimum_healthy_targets.count", "off",
			"target_group_health.unhealthy_state_routing.minimum_healthy_targets.count", "off")),
		result(members("Attributes")))
	s.on(describeLoadBalancerAttributes, result(pairs("Attributes", "load_balancing.cross_zone.enabled", "true")))
	s.on(describeClassicBalancers, result(members("LoadBalancerDescriptions",
		element("LoadBalancerName", "old")+element("HealthCheck", element("Target", "HTTP:30443/healthz"))+
			members("ListenerDescriptions", element("Listener", element("InstancePort", "30080")), element("Listener", element("InstancePort", "30443"))),
		element("LoadBalancerName", "older"))))
	s.on(describeClassicTags, tagsOf(false))
	s.on(describeClassicAttributes,
		result(element("LoadBalancerAttributes", element("CrossZoneLoadBalancing", element("Enabled", "true"))+
			element("ConnectionDraining", element("Enabled", "true")+element("Timeout", "90")))),
		result(element("LoadBalancerAttributes", element("ConnectionDraining", element("Enabled", "false")+element("Timeout", "300")))))

	if listed, err := c.Groups(t.Context()); err != nil || len(listed) != 6 || listed[0].Tags != nil || len(s.all()) != 2 {
		t.Errorf("a list took %d requests: %+v, %v", len(s.all()), listed, err)
	}
	got, err := complete(t, c)
	if err != nil {
		t.Fatal(err)
	}
	want := []targets.Group{
		{ID: "a", Name: "n-a", Balancer: targets.Network, Type: targets.IP, IPv6: true, Port: 8080, Tags: map[string]string{"of": "a"},
			Balancers: []string{nlbARN}, InUse: true, ChecksTarget: true, Delay: 2 * time.Minute, EndsConnectionsAfterDelay: true, CrossZone: true, MinHealthy: 3, MinHealthyPercent: 40},
		{ID: "b", Name: "n-b", Balancer: targets.Application, Type: targets.Instance, Port: 80, Tags: map[string]string{"of": "b"},
			Balancers: []string{albARN}, InUse: true, CrossZone: true},
		{ID: "c", Name: "n-c", Balancer: targets.Network, Type: targets.IP, Port: 443, Datagrams: true, Tags: map[string]string{"of": "c"},
			ChecksTarget: true, Delay: 5 * time.Minute, EndsConnectionsOfUnhealthy: true, MinHealthy: 1},
		{ID: "quic", Name: "n-quic", Balancer: targets.Network, Type: targets.IP, Port: 443, Datagrams: true, Tags: map[string]string{"of": "quic"},
			Delay: 5 * time.Minute, EndsConnectionsOfUnhealthy: true, MinHealthy: 1,
			LeftAlone: "its protocol is TCP_QUIC, whose targets are registered with server ids that this controller does not know"},
		{ID: "old", Name: "old", Balancer: targets.Classic, Type: targets.Instance, Port: 30080, Ports: []int32{30080, 30443}, Tags: map[string]string{"of": "old"},
			InUse: true, ChecksTarget: true, Delay: 90 * time.Second, EndsConnectionsAfterDelay: true, CrossZone: true},
		{ID: "older", Name: "older", Balancer: targets.Classic, Type: targets.Instance, Tags: map[string]string{"of": "older"},
			EndsConnectionsAfterDelay: true, EndsConnectionsOfUnhealthy: true},
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Error(diff)
	}
	if asked := len(s.sent(describeLoadBalancerAttributes)); asked != 1 {
		t.Errorf("the attributes of %d load balancers were read: only those of the network load balancer matter", asked)
	}
}

func TestPages(t *testing.T) {
	s := newServer(t)
	c := client(t, s, Options{})
	s.on(describeTargetGroups,
		result(members("TargetGroups", targetGroup("a", "ip", "TCP"))+element("NextMarker", "m1")),
		result(members("TargetGroups")+element("NextMarker", "m2")),
		result(members("TargetGroups", targetGroup("b", "ip", "TCP"))))
	s.on(describeTags, tagsOf(true))
	s.on(describeTargetGroupAttributes, result(members("Attributes")))
	s.on(describeClassicBalancers,
		result(members("LoadBalancerDescriptions", element("LoadBalancerName", "x"))+element("NextMarker", "m3")),
		result(members("LoadBalancerDescriptions", element("LoadBalancerName", "y"))+element("NextMarker", "")))
	s.on(describeClassicTags, tagsOf(false))
	s.on(describeClassicAttributes, result("<LoadBalancerAttributes/>"))

	groups, err := c.Groups(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"a", "b", "x", "y"}, ids(groups)); diff != "" {
		t.Error(diff)
	}
	for _, want := range []struct {
		action  Action
		markers []string
	}{{describeTargetGroups, []string{"", "m1", "m2"}}, {describeClassicBalancers, []string{"", "m3"}}} {
		var markers []string
		for _, r := range s.sent(want.action) {
			markers = append(markers, r.form.Get("Marker"))
			if r.form.Get("PageSize") != "400" {
				t.Errorf("%s asks for pages of %q", want.action.Name, r.form.Get("PageSize"))
			}
		}
		if diff := cmp.Diff(want.markers, markers); diff != "" {
			t.Errorf("%s: %s", want.action.Name, diff)
		}
	}
}

func TestPagesThatRepeatEnd(t *testing.T) {
	s := newServer(t)
	c := client(t, s, Options{})
	s.on(describeTargetGroups, result(members("TargetGroups")+element("NextMarker", "again")))
	if _, err := c.Groups(t.Context()); kind(err) != Unknown {
		t.Errorf("%v: want Unknown", err)
	}
	if n := len(s.sent(describeTargetGroups)); n != 2 {
		t.Errorf("%d pages were read, the second of which was the first", n)
	}
}

func TestTagsOfTwentyAtATime(t *testing.T) {
	s := newServer(t)
	c := client(t, s, Options{})
	var found, classic []string
	for i := range 45 {
		found = append(found, targetGroup(fmt.Sprint("g", i), "ip", "TCP"))
		classic = append(classic, element("LoadBalancerName", fmt.Sprint("c", i)))
	}
	s.on(describeTargetGroups, result(members("TargetGroups", found...)))
	s.on(describeTags, tagsOf(true))
	s.on(describeTargetGroupAttributes, result(members("Attributes")))
	s.on(describeClassicBalancers, result(members("LoadBalancerDescriptions", classic...)))
	s.on(describeClassicTags, tagsOf(false))
	s.on(describeClassicAttributes, result("<LoadBalancerAttributes/>"))
	groups, err := complete(t, c)
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range groups {
		if g.Tags["of"] != g.ID {
			t.Errorf("%s has the tags of %q", g.ID, g.Tags["of"])
		}
	}
	for action, parameter := range map[Action]string{describeTags: "ResourceArns", describeClassicTags: "LoadBalancerNames"} {
		requests := s.sent(action)
		if len(requests) != 3 {
			t.Errorf("%s %s: %d requests for 45, want 3", action.Version, action.Name, len(requests))
		}
		for _, r := range requests {
			if r.form.Has(parameter + ".member.21") {
				t.Errorf("%s %s asks for more than 20", action.Version, action.Name)
			}
		}
	}
}

// TestNamedGroups asks for groups by what somebody has of them.
func TestNamedGroups(t *testing.T) {
	s := newServer(t)
	c := client(t, s, Options{})
	s.on(describeTargetGroups, result(members("TargetGroups", targetGroup("arn:1", "ip", "TCP"))), result(members("TargetGroups", targetGroup("arn:2", "ip", "TCP"))))
	s.on(describeClassicBalancers, result(members("LoadBalancerDescriptions", element("LoadBalancerName", "x"))))
	groups, err := c.Named(t.Context(), []targets.GroupName{{ID: "x"}, {Name: "web"}, {ID: "arn:1"}})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"arn:1", "arn:2", "x"}, ids(groups)); diff != "" {
		t.Error(diff)
	}
	var asked []string
	for _, r := range s.all() {
		asked = append(asked, r.form.Get("TargetGroupArns.member.1")+r.form.Get("Names.member.1")+r.form.Get("LoadBalancerNames.member.1"))
	}
	if diff := cmp.Diff([]string{"arn:1", "web", "x"}, asked); diff != "" {
		t.Errorf("asked for: %s", diff)
	}
}

// TestGroupsThatAreGone fail only themselves, among those that are named as well as among
// those whose tags are read.
func TestGroupsThatAreGone(t *testing.T) {
	s := newServer(t)
	c := client(t, s, Options{})
	gone := func(parameter string, answered func([]string) answer) answer {
		return func(w http.ResponseWriter, r request) {
			var names []string
			for i := 1; r.form.Has(fmt.Sprintf("%s.member.%d", parameter, i)); i++ {
				names = append(names, r.form.Get(fmt.Sprintf("%s.member.%d", parameter, i)))
			}
			if slices.Contains(names, "arn:13") {
				refused(400, "TargetGroupNotFound", "One or more target groups not found")(w, r)
				return
			}
			answered(names)(w, r)
		}
	}
	var names []targets.GroupName
	var known []targets.Group
	for i := range 30 {
		id := fmt.Sprint("arn:", i)
		names, known = append(names, targets.GroupName{ID: id}), append(known, targets.Group{ID: id})
	}
	s.on(describeTargetGroups, gone("TargetGroupArns", func(names []string) answer {
		var found []string
		for _, n := range names {
			found = append(found, targetGroup(n, "ip", "TCP"))
		}
		return result(members("TargetGroups", found...))
	}))
	s.on(describeTags, gone("ResourceArns", func([]string) answer { return tagsOf(true) }))
	groups, err := c.Named(t.Context(), names)
	if err != nil || len(groups) != 29 || slices.Contains(ids(groups), "arn:13") {
		t.Errorf("%d groups, %v", len(groups), err)
	}
	tags, err := c.Tags(t.Context(), known)
	if _, found := tags["arn:13"]; err != nil || len(tags) != 29 || found {
		t.Errorf("tags of %d groups, %v", len(tags), err)
	}
	s.on(describeTags, refused(400, "Throttling", "Rate exceeded"))
	if _, err := c.Tags(t.Context(), known); kind(err) != Throttled {
		t.Errorf("%v, want to be throttled", err)
	}
}

func TestGroupsThatAreOfNoUse(t *testing.T) {
	s := newServer(t)
	c := client(t, s, Options{})
	s.on(describeTargetGroups, result(members("TargetGroups", targetGroup("arn:lambda", "lambda", ""))), result(members("TargetGroups")))
	s.on(describeClassicBalancers, refused(400, "LoadBalancerNotFound", "There is no ACTIVE Load Balancer named 'x'"))
	for _, id := range []string{"arn:lambda", "arn:odd", "x"} {
		if groups, err := c.Named(t.Context(), []targets.GroupName{{ID: id}}); err != nil || len(groups) > 0 {
			t.Errorf("%s: %+v, %v", id, groups, err)
		}
	}
}

func TestGroupsFailWhole(t *testing.T) {
	for _, failing := range []Action{describeTargetGroups, describeTags, describeTargetGroupAttributes, describeLoadBalancerAttributes,
		describeClassicBalancers, describeClassicTags, describeClassicAttributes} {
		s := newServer(t)
		c := client(t, s, Options{})
		everything(s)
		s.on(failing, refused(403, "AccessDenied", "no"))
		if groups, err := complete(t, c); kind(err) != Denied || groups != nil {
			t.Errorf("%s fails: %v and %v, want no groups and Denied", failing.Name, ids(groups), err)
		}
	}
}

// complete are all groups with their tags and attributes.
func complete(t *testing.T, c *Client) ([]targets.Group, error) {
	groups, err := c.Groups(t.Context())
	if err != nil {
		return nil, err
	}
	tags, err := c.Tags(t.Context(), groups)
	if err != nil {
		return nil, err
	}
	for i := range groups {
		if groups[i], err = c.Describe(t.Context(), groups[i]); err != nil {
			return nil, err
		}
		groups[i].Tags = tags[groups[i].ID]
	}
	return groups, nil
}

func ids(groups []targets.Group) []string {
	var out []string
	for _, g := range groups {
		out = append(out, g.ID)
	}
	return out
}
