package aws

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	classic "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing"
	classictypes "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing/types"
	elb "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	"github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"

	"github.com/mumoshu/ingress-daemonset-controller/test/aws/api"
	"github.com/mumoshu/ingress-daemonset-controller/test/aws/cloud"
)

func TestTargetGroupsAreDescribedInPages(t *testing.T) {
	f := serve(t, func(c *Config) {
		assumed(c)
		for i := range 4 {
			c.TargetGroups = append(c.TargetGroups, cloud.TargetGroup{Name: fmt.Sprint("web", i), Protocol: "HTTP", Port: 8080, TargetType: "instance"})
		}
	})
	var names []string
	pages := elb.NewDescribeTargetGroupsPaginator(f.elb(), &elb.DescribeTargetGroupsInput{PageSize: sdk.Int32(2)})
	count := 0
	for ; pages.HasMorePages(); count++ {
		page, err := pages.NextPage(t.Context())
		f.must(err)
		for _, g := range page.TargetGroups {
			names = append(names, *g.TargetGroupName)
		}
	}
	if count != 3 || !slices.Equal(names, []string{"pods", "web0", "web1", "web2", "web3"}) {
		t.Errorf("%d pages with %v", count, names)
	}
	one, err := f.elb().DescribeTargetGroups(t.Context(), &elb.DescribeTargetGroupsInput{Names: []string{"pods"}})
	f.must(err)
	g := one.TargetGroups[0]
	f.expect("ARN", *g.TargetGroupArn, *f.arn("pods"))
	f.expect("type", g.TargetType, types.TargetTypeEnumIp)
	f.expect("check", words(g.HealthCheckProtocol, *g.HealthCheckPort, *g.HealthCheckIntervalSeconds), "TCP traffic-port 30")
	f.expect("balancers", len(g.LoadBalancerArns), 1)
	ofBalancer, err := f.elb().DescribeTargetGroups(t.Context(), &elb.DescribeTargetGroupsInput{LoadBalancerArn: sdk.String(g.LoadBalancerArns[0])})
	f.must(err)
	f.expect("groups of the balancer", len(ofBalancer.TargetGroups), 1)

	_, err = f.elb().DescribeTargetGroups(t.Context(), &elb.DescribeTargetGroupsInput{Names: []string{"none"}})
	var notFound *types.TargetGroupNotFoundException
	f.expect("not found", errors.As(err, &notFound), true)
	_, err = f.elb().DescribeTargetGroups(t.Context(), &elb.DescribeTargetGroupsInput{PageSize: sdk.Int32(401)})
	f.refused(err, "ValidationError", "PageSize")
	_, err = f.elb().DescribeTargetGroups(t.Context(), &elb.DescribeTargetGroupsInput{Marker: sdk.String("tomorrow")})
	f.refused(err, "ValidationError", "marker")
}

func TestBalancersAndListenersAreDescribed(t *testing.T) {
	f := serve(t, assumed)
	balancers, err := f.elb().DescribeLoadBalancers(t.Context(), &elb.DescribeLoadBalancersInput{Names: []string{"front"}})
	f.must(err)
	b := balancers.LoadBalancers[0]
	f.expect("type", b.Type, types.LoadBalancerTypeEnumNetwork)
	f.expect("zones", len(b.AvailabilityZones), 2)
	f.expect("state", b.State.Code, types.LoadBalancerStateEnumActive)
	listeners, err := f.elb().DescribeListeners(t.Context(), &elb.DescribeListenersInput{LoadBalancerArn: b.LoadBalancerArn})
	f.must(err)
	f.expect("group", *listeners.Listeners[0].DefaultActions[0].TargetGroupArn, *f.arn("pods"))
	attributes, err := f.elb().DescribeLoadBalancerAttributes(t.Context(), &elb.DescribeLoadBalancerAttributesInput{LoadBalancerArn: b.LoadBalancerArn})
	f.must(err)
	crossZone := slices.IndexFunc(attributes.Attributes, func(a types.LoadBalancerAttribute) bool { return *a.Key == "load_balancing.cross_zone.enabled" })
	f.expect("cross-zone", *attributes.Attributes[crossZone].Value, "false")
	ofGroup, err := f.elb().DescribeTargetGroupAttributes(t.Context(), &elb.DescribeTargetGroupAttributesInput{TargetGroupArn: f.arn("pods")})
	f.must(err)
	delay := slices.IndexFunc(ofGroup.Attributes, func(a types.TargetGroupAttribute) bool {
		return *a.Key == "deregistration_delay.timeout_seconds"
	})
	f.expect("delay", *ofGroup.Attributes[delay].Value, "10")

	tags, err := f.elb().DescribeTags(t.Context(), &elb.DescribeTagsInput{ResourceArns: []string{*b.LoadBalancerArn, *f.arn("pods")}})
	f.must(err)
	f.expect("tags", *tags.TagDescriptions[1].Tags[0].Value, "one")
	_, err = f.elb().DescribeTags(t.Context(), &elb.DescribeTagsInput{ResourceArns: slices.Repeat([]string{*b.LoadBalancerArn}, 21)})
	f.refused(err, "ValidationError", "not 21")
	_, err = f.elb().DescribeLoadBalancerAttributes(t.Context(), &elb.DescribeLoadBalancerAttributesInput{LoadBalancerArn: sdk.String("arn:aws:none")})
	f.refused(err, "LoadBalancerNotFound", "arn:aws:none")
}

func TestATargetThroughTheAPI(t *testing.T) {
	t.Parallel()
	f := serve(t, assumed)
	f.expect("before", f.state("pods", pod), "unused Target.NotRegistered")
	f.must(f.register("pods", pod))
	f.awaitState("pods", pod, "initial Elb.InitialHealthChecking")
	f.awaitState("pods", pod, "healthy")
	f.must(f.admin.Judge(t.Context(), Verdict{Group: "pods", ID: pod, Port: 80, State: "unavailable", Reason: "Elb.InternalError"}))
	f.expect("judged", f.state("pods", pod), "unavailable Elb.InternalError")
	all, err := f.elb().DescribeTargetHealth(t.Context(), &elb.DescribeTargetHealthInput{TargetGroupArn: f.arn("pods")})
	f.must(err)
	one := all.TargetHealthDescriptions[0]
	f.expect("target", words(*one.Target.Id, *one.Target.Port, *one.Target.AvailabilityZone, *one.HealthCheckPort), pod+" 80 "+zoneA+" 80")
	f.must(f.deregister("pods", pod, local(1, 99)))
	f.expect("leaving", f.state("pods", pod), "draining Target.DeregistrationInProgress")
	f.awaitState("pods", pod, "unused Target.NotRegistered")
}

func TestRefusalsReachTheClient(t *testing.T) {
	f := serve(t, assumed)
	f.refused(f.register("pods", pod, "8.8.8.8"), "InvalidTarget", "8.8.8.8")
	f.expect("the good target of a refused call", f.state("pods", pod), "unused Target.NotRegistered")
	_, err := f.elb().RegisterTargets(t.Context(), &elb.RegisterTargetsInput{TargetGroupArn: sdk.String("arn:aws:elasticloadbalancing:eu-central-1:123456789012:targetgroup/none/0"), Targets: targets(pod)})
	var notFound *types.TargetGroupNotFoundException
	f.expect("not found", errors.As(err, &notFound), true)
	_, err = f.elb().DescribeAccountLimits(t.Context(), &elb.DescribeAccountLimitsInput{})
	f.refused(err, "InvalidAction", "DescribeAccountLimits")
	_, err = f.elb().DescribeTargetHealth(t.Context(), &elb.DescribeTargetHealthInput{TargetGroupArn: f.arn("pods"), Include: []types.DescribeTargetHealthInputIncludeEnum{"All"}})
	f.refused(err, "ValidationError", "does not model the parameter Include")
}

func TestThrottling(t *testing.T) {
	f := serve(t, func(c *Config) {
		assumed(c)
		c.Limits = api.Limits{"v2 Register": {Capacity: 3, Refill: 0.001}}
	})
	for range 3 {
		f.must(f.register("pods", pod))
	}
	f.refused(f.register("pods", pod), "Throttling", "Rate exceeded")
	f.refused(f.deregister("pods", pod), "Throttling", "Rate exceeded") // the same bucket
	f.state("pods", pod)                                                // another one
	f.must(f.admin.SetFaults(t.Context(), api.Fault{Kind: api.Throttle, Action: "*", For: 3600}))
	_, err := f.elb().DescribeTargetHealth(t.Context(), &elb.DescribeTargetHealthInput{TargetGroupArn: f.arn("pods")})
	f.refused(err, "Throttling", "Rate exceeded")
	f.must(f.admin.SetFaults(t.Context()))
	f.state("pods", pod)
	calls, err := f.admin.Calls(t.Context(), 0)
	f.must(err)
	throttled := slices.DeleteFunc(calls, func(c api.Call) bool { return c.Outcome != "Throttling" })
	f.expect("throttled calls", len(throttled), 3)
	f.expect("carried out", throttled[0].CarriedOut, false)
}

func TestFaults(t *testing.T) {
	f := serve(t, assumed)
	for _, test := range []struct {
		kind, code string
		done       bool
	}{
		{api.FailBefore, "ServiceUnavailable", false},
		{api.FailAfter, "InternalFailure", true},
		{api.LoseResponse, "", true},
	} {
		f.must(f.admin.SetFaults(t.Context(), api.Fault{Kind: test.kind, Action: "RegisterTargets", Calls: 1}))
		id := map[string]string{api.FailBefore: local(1, 11), api.FailAfter: local(1, 12), api.LoseResponse: local(1, 13)}[test.kind]
		err := f.register("pods", id)
		if test.code != "" {
			f.refused(err, test.code, "")
		} else if err == nil {
			t.Error("a response that was to be lost came")
		}
		f.expect(test.kind+": carried out", f.state("pods", id) != "unused Target.NotRegistered", test.done)
		f.must(f.register("pods", id)) // it befalls one call
	}
	calls, err := f.admin.Calls(t.Context(), 0)
	f.must(err)
	i := slices.IndexFunc(calls, func(c api.Call) bool { return c.Outcome == "response lost" })
	f.expect("the lost one in the log", words(calls[i].Action, calls[i].Targets[0].ID, calls[i].Status, calls[i].CarriedOut), words("RegisterTargets", local(1, 13), 0, true))
	if err := f.admin.SetFaults(t.Context(), api.Fault{Kind: "flood", Action: "*"}); err == nil {
		t.Error("an unknown fault was taken")
	}
}

func TestStaleReads(t *testing.T) {
	f := serve(t, assumed)
	f.must(f.register("pods", pod))
	f.must(f.admin.SetFaults(t.Context(), api.Fault{Kind: api.StaleRead, Action: "DescribeTargetHealth", Seconds: 120}))
	seen := map[string]bool{}
	f.await("both an old and a new state was read", func() bool {
		seen[f.state("pods", pod)] = true
		return seen["unused Target.NotRegistered"] && len(seen) > 1
	})
}

func TestTheClassicAPI(t *testing.T) {
	t.Parallel()
	f := serve(t, func(c *Config) {
		c.ClassicLoadBalancers = []cloud.ClassicLoadBalancer{{
			Name: "old", Zones: []cloud.Zone{{Name: zoneA}, {Name: zoneB}}, Listeners: []cloud.ClassicListener{{Protocol: "TCP", Port: 80, InstancePort: 8080}},
			Check: cloud.ClassicCheck{Target: "HTTP:8080/healthz"}, AssumeHealthy: true, Tags: map[string]string{"cluster": "one"},
		}}
	})
	c, name := f.classic(), sdk.String("old")
	instances := func(ids ...string) (list []classictypes.Instance) {
		for _, id := range ids {
			list = append(list, classictypes.Instance{InstanceId: sdk.String(id)})
		}
		return list
	}
	registered, err := c.RegisterInstancesWithLoadBalancer(t.Context(), &classic.RegisterInstancesWithLoadBalancerInput{LoadBalancerName: name, Instances: instances("i-a", "i-b")})
	f.must(err)
	f.expect("registered", len(registered.Instances), 2)
	state := func(id string) string {
		found, err := c.DescribeInstanceHealth(t.Context(), &classic.DescribeInstanceHealthInput{LoadBalancerName: name, Instances: instances(id)})
		f.must(err)
		return *found.InstanceStates[0].State + ": " + *found.InstanceStates[0].Description
	}
	f.expect("state", state("i-a"), "OutOfService: Instance registration is still in progress.")
	f.await("it is in service", func() bool { return state("i-a") == "InService: N/A" })
	_, err = c.DeregisterInstancesFromLoadBalancer(t.Context(), &classic.DeregisterInstancesFromLoadBalancerInput{LoadBalancerName: name, Instances: instances("i-a")})
	f.must(err)
	f.expect("without draining", state("i-a"), "OutOfService: Instance is not currently registered with the LoadBalancer.")
	described, err := c.DescribeLoadBalancers(t.Context(), &classic.DescribeLoadBalancersInput{LoadBalancerNames: []string{"old"}})
	f.must(err)
	d := described.LoadBalancerDescriptions[0]
	f.expect("described", words(len(d.Instances), *d.Instances[0].InstanceId, *d.HealthCheck.Target, *d.ListenerDescriptions[0].Listener.InstancePort), "1 i-b HTTP:8080/healthz 8080")
	attributes, err := c.DescribeLoadBalancerAttributes(t.Context(), &classic.DescribeLoadBalancerAttributesInput{LoadBalancerName: name})
	f.must(err)
	f.expect("draining", attributes.LoadBalancerAttributes.ConnectionDraining.Enabled, false)
	tags, err := c.DescribeTags(t.Context(), &classic.DescribeTagsInput{LoadBalancerNames: []string{"old"}})
	f.must(err)
	f.expect("tags", *tags.TagDescriptions[0].Tags[0].Key, "cluster")
	_, err = c.RegisterInstancesWithLoadBalancer(t.Context(), &classic.RegisterInstancesWithLoadBalancerInput{LoadBalancerName: name, Instances: instances("i-none")})
	f.refused(err, "InvalidInstance", "i-none")
	_, err = c.DescribeInstanceHealth(t.Context(), &classic.DescribeInstanceHealthInput{LoadBalancerName: sdk.String("none")})
	var notFound *classictypes.AccessPointNotFoundException
	f.expect("not found", errors.As(err, &notFound), true)
}
