package aws

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/mumoshu/ingress-daemonset-controller/internal/targets"
)

// described is one target in an answer of DescribeTargetHealth.
func described(id, port, state, reason string, more ...string) string {
	return element("Target", element("Id", id)+element("Port", port)+strings.Join(more, "")) +
		element("TargetHealth", element("State", state)+element("Reason", reason))
}

func at(id string, port int32) targets.Target { return targets.Target{ID: id, Port: port} }

func TestList(t *testing.T) {
	s := newServer(t)
	c := client(t, s, Options{})
	s.on(describeTargetHealth, result(members("TargetHealthDescriptions",
		element("Target", element("Id", "10.0.0.1")+element("Port", "80")+element("AvailabilityZone", "eu-west-1a"))+element("TargetHealth", element("State", "healthy")),
		described("10.0.0.1", "81", "draining", "Target.DeregistrationInProgress"),
		described("10.9.0.1", "80", "initial", "Elb.RegistrationInProgress", element("AvailabilityZone", "all")),
		described("2001:DB8:0::1", "80", "unhealthy.draining", "Target.Timeout"),
		described("10.0.0.3", "80", "levitating", "Target.Magic"),
		element("Target", element("Id", "10.0.0.4")),
		described("10.0.0.5", "80", "healthy", "")+element("AdministrativeOverride", element("State", "zonal_shift_active")),
		described("10.0.0.6", "80", "healthy", "")+element("AdministrativeOverride", element("State", "zonal_shift_delegated_to_dns")),
		described("10.0.0.7", "80", "healthy", "")+element("AdministrativeOverride", element("State", "no_override")),
	)))
	want := map[targets.Target]targets.Health{
		at("10.0.0.1", 80):    {Condition: targets.Healthy, Zone: "eu-west-1a"},
		at("10.0.0.1", 81):    {Condition: targets.Draining, Reason: targets.DeregistrationInProgress},
		at("10.9.0.1", 80):    {Condition: targets.Initial, Reason: targets.RegistrationInProgress},
		at("2001:db8::1", 80): {Condition: targets.UnhealthyDraining, Reason: "Target.Timeout"},
		at("10.0.0.3", 80):    {Condition: "levitating", Reason: "Target.Magic"},
		at("10.0.0.4", 80):    {},
		at("10.0.0.5", 80):    {Condition: targets.Healthy, Shifted: true},
		at("10.0.0.6", 80):    {Condition: targets.Healthy, Shifted: true},
		at("10.0.0.7", 80):    {Condition: targets.Healthy},
	}
	if diff := cmp.Diff(want, list(t, c, ipGroup)); diff != "" {
		t.Error(diff)
	}
	if r := s.all()[0]; r.form.Get("TargetGroupArn") != ipGroup.ID || r.form.Has("Targets.member.1.Id") {
		t.Errorf("the inventory asks for %v", r.form)
	}
}

// states answers with a state for each target that was asked for, and refuses all
// for the sake of those that begin with bad.
func states(w http.ResponseWriter, r request) {
	prefix, classic := "Targets.member.%d.Id", r.action == describeInstanceHealth.Name
	if classic {
		prefix = "Instances.member.%d.InstanceId"
	}
	var list []string
	for i := 1; r.form.Has(fmt.Sprintf(prefix, i)); i++ {
		id := r.form.Get(fmt.Sprintf(prefix, i))
		switch {
		case strings.HasPrefix(id, "bad") && classic:
			refused(400, "InvalidInstance", "Could not find EC2 instance "+id+".")(w, r)
			return
		case strings.HasPrefix(id, "bad"):
			refused(400, "InvalidTarget", "The target is not valid")(w, r)
			return
		case strings.HasPrefix(id, "silent"):
		case strings.HasPrefix(id, "gone"):
			list = append(list, described(id, r.form.Get(fmt.Sprintf("Targets.member.%d.Port", i)), "unused", "Target.NotRegistered"))
		case classic:
			list = append(list, element("InstanceId", id)+element("State", "InService")+element("Description", "N/A"))
		default:
			list = append(list, described(id, r.form.Get(fmt.Sprintf("Targets.member.%d.Port", i)), "healthy", ""))
		}
	}
	if classic {
		result(members("InstanceStates", list...))(w, r)
		return
	}
	result(members("TargetHealthDescriptions", list...))(w, r)
}

func TestListOnly(t *testing.T) {
	s := newServer(t)
	c := client(t, s, Options{})
	s.on(describeTargetHealth, states)
	healthy := targets.Health{Condition: targets.Healthy}
	got := list(t, c, instanceGroup, at("i-1", 80), at("i-1", 81), at("gone-1", 80), at("silent-1", 80))
	want := map[targets.Target]targets.Health{at("i-1", 80): healthy, at("i-1", 81): healthy, at("gone-1", 80): gone}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestListOnlySplitsWhatIsRefused(t *testing.T) {
	for _, g := range []targets.Group{instanceGroup, classicGroup} {
		s := newServer(t)
		c := client(t, s, Options{})
		s.on(describeTargetHealth, states)
		s.on(describeInstanceHealth, states)
		want := map[targets.Target]targets.Health{}
		var only []targets.Target
		for i := range 16 {
			only = append(only, at(fmt.Sprint("i-", i), 80))
			want[only[i]] = targets.Health{Condition: targets.Healthy}
		}
		for _, i := range []int{3, 4} {
			delete(want, only[i])
			only[i] = at(fmt.Sprint("bad-", i), 80)
			want[only[i]] = gone
		}
		if diff := cmp.Diff(want, list(t, c, g, only...)); diff != "" {
			t.Errorf("%s: %s", g.Balancer, diff)
		}
		if n := len(s.all()); n > 20 {
			t.Errorf("%s: %d requests to find 2 of 16", g.Balancer, n)
		}
	}
}

// TestListOnlyBelievesNoOtherRefusal takes nothing for gone because a request failed
// for another reason.
func TestListOnlyBelievesNoOtherRefusal(t *testing.T) {
	s := newServer(t)
	c := client(t, s, Options{})
	for code, want := range map[string]Kind{"ValidationError": Invalid, "TargetGroupNotFound": NotFound, "Throttling": Throttled, "InternalFailure": Unknown} {
		s.on(describeTargetHealth, refused(400, code, "no"))
		if found, err := c.List(t.Context(), instanceGroup, []targets.Target{at("i-1", 80)}); kind(err) != want || found != nil {
			t.Errorf("%s: %v and %v, want %s", code, found, err, want)
		}
	}
}

// TestLargeRequests loses no answer: each of these requests is on its way in whole
// before the client has looked whether it is.
func TestLargeRequests(t *testing.T) {
	s := newServer(t)
	c := client(t, s, Options{})
	s.on(describeTargetHealth, states)
	s.on(deregisterTargets, result(""))
	var many []targets.Target
	for i := range most {
		many = append(many, at(fmt.Sprint("i-", i), 80))
	}
	for range 150 {
		list(t, c, instanceGroup, many...)
		if err := c.Deregister(t.Context(), instanceGroup, many); err != nil {
			t.Fatal(err)
		}
	}
}

func TestListOnlyInChunks(t *testing.T) {
	s := newServer(t)
	c := client(t, s, Options{})
	s.on(describeTargetHealth, states)
	var only []targets.Target
	for i := range 450 {
		only = append(only, at(fmt.Sprint("i-", i), 80))
	}
	if found := list(t, c, instanceGroup, only...); len(found) != 450 {
		t.Errorf("%d of 450 are known", len(found))
	}
	requests := s.all()
	if len(requests) != 3 || requests[0].form.Has("Targets.member.201.Id") {
		t.Errorf("%d requests for 450 targets, want 3 of at most 200", len(requests))
	}
}

func TestClassicHealth(t *testing.T) {
	for _, test := range []struct {
		state, code, description string
		want                     targets.Health
	}{
		{"InService", "N/A", "N/A", targets.Health{Condition: targets.Healthy}},
		{"InService", "", "", targets.Health{Condition: targets.Healthy}},
		{"InService", "N/A", "Instance deregistration currently in progress.", targets.Health{Condition: targets.Draining, Reason: targets.DeregistrationInProgress}},
		{"OutOfService", "ELB", "Instance registration is still in progress.", targets.Health{Condition: targets.Initial, Reason: targets.RegistrationInProgress}},
		{"OutOfService", "Instance", "Instance has not passed the configured HealthyThreshold number of health checks consecutively.", targets.Health{Condition: targets.Initial, Reason: "Elb.InitialHealthChecking"}},
		{"OutOfService", "Instance", "Instance has failed at least the UnhealthyThreshold number of health checks consecutively.", targets.Health{Condition: targets.Unhealthy, Reason: "Target.FailedHealthChecks"}},
		{"OutOfService", "N/A", "Instance is not currently registered with the LoadBalancer.", gone},
		{"Unknown", "N/A", "Instance is not currently registered with the LoadBalancer.", gone},
		{"OutOfService", "ELB", "Instance is in the EC2 Availability Zone for which LoadBalancer is not configured to route traffic to.", targets.Health{Condition: targets.Unused, Reason: targets.NotInUse}},
		{"OutOfService", "Instance", "Instance is in pending state.", targets.Health{Condition: targets.Unused, Reason: targets.InvalidState}},
		{"OutOfService", "Instance", "Instance is in stopped state.", targets.Health{Condition: targets.Unused, Reason: targets.InvalidState}},
		{"OutOfService", "Instance", "Instance is in terminated state.", targets.Health{Condition: targets.Unused, Reason: targets.InvalidState}},
		{"Unknown", "ELB", "A transient error occurred. Please try again later.", targets.Health{Condition: targets.Unavailable, Reason: "Elb.InternalError"}},
		{"OutOfService", "ELB", "Disable Availability Zone is currently in progress.", targets.Health{Condition: "OutOfService", Reason: "Disable Availability Zone is currently in progress."}},
		{"Unknown", "ELB", "N/A", targets.Health{Condition: "Unknown", Reason: "N/A"}},
		{"Levitating", "", "", targets.Health{Condition: "Levitating"}},
		{"", "", "", targets.Health{}},
	} {
		s := newServer(t)
		c := client(t, s, Options{})
		s.on(describeInstanceHealth, result(members("InstanceStates", element("InstanceId", "i-1")+element("State", test.state)+
			element("ReasonCode", test.code)+element("Description", test.description))))
		if diff := cmp.Diff(map[targets.Target]targets.Health{at("i-1", classicGroup.Port): test.want}, list(t, c, classicGroup)); diff != "" {
			t.Errorf("%s %q: %s", test.state, test.description, diff)
		}
		if diff := cmp.Diff(map[targets.Target]targets.Health{at("i-1", 99): test.want}, list(t, c, classicGroup, at("i-1", 99))); diff != "" {
			t.Errorf("asked for with a port, %s %q: %s", test.state, test.description, diff)
		}
	}
}

// TestOddAnswers takes no answer that is not whole for one that says that nothing is
// registered.
func TestOddAnswers(t *testing.T) {
	list := members("TargetHealthDescriptions", described("i-1", "80", "healthy", ""), described("i-2", "80", "healthy", ""))
	inventory := "<DescribeTargetHealthResponse><DescribeTargetHealthResult>" + list + "</DescribeTargetHealthResult></DescribeTargetHealthResponse>"
	bodies := map[string]string{
		"empty":             "",
		"HTML":              "<html><body>Welcome</body></html>",
		"text":              "ok",
		"JSON":              `{"TargetHealthDescriptions":[]}`,
		"no result":         "<DescribeTargetHealthResponse/>",
		"empty result":      "<DescribeTargetHealthResponse><DescribeTargetHealthResult/></DescribeTargetHealthResponse>",
		"another list":      "<DescribeTargetHealthResponse><DescribeTargetHealthResult><Targets/></DescribeTargetHealthResult></DescribeTargetHealthResponse>",
		"a target unnamed":  strings.Replace(inventory, element("Id", "i-2"), "", 1),
		"no target":         strings.Replace(inventory, element("Target", element("Id", "i-2")+element("Port", "80")), "", 1),
		"a port of letters": strings.Replace(inventory, element("Port", "80"), element("Port", "http"), 1),
	}
	for end := range strings.Index(inventory, "</TargetHealthDescriptions>") {
		bodies[fmt.Sprintf("cut after %d", end)] = inventory[:end]
	}
	s := newServer(t)
	c := client(t, s, Options{})
	for name, body := range bodies {
		s.on(describeTargetHealth, raw(200, body))
		if found, err := c.List(t.Context(), instanceGroup, nil); kind(err) != Unknown || found != nil {
			t.Errorf("%s: %v and %v, want Unknown", name, found, err)
		}
	}
	s.on(describeTargetHealth, raw(200, inventory))
	if found, err := c.List(t.Context(), instanceGroup, nil); len(found) != 2 || err != nil {
		t.Fatalf("the whole answer: %v %v: this test would prove nothing", found, err)
	}
}

// TestMissingLists does so for every other list, of which a part would look as if the
// rest had been deleted.
func TestMissingLists(t *testing.T) {
	for _, odd := range []Action{describeTargetGroups, describeTags, describeTargetGroupAttributes, describeLoadBalancerAttributes,
		describeClassicBalancers, describeClassicTags, describeClassicAttributes, describeInstanceHealth} {
		for name, answer := range map[string]answer{"empty": raw(200, ""), "no list": result(""), "HTML": raw(200, "<html></html>")} {
			s := newServer(t)
			c := client(t, s, Options{})
			everything(s)
			s.on(odd, answer)
			_, groups := complete(t, c)
			_, health := c.List(t.Context(), classicGroup, nil)
			if kind(errors.Join(groups, health)) != Unknown {
				t.Errorf("%s %s, %s: %v and %v, want Unknown", odd.Version, odd.Name, name, groups, health)
			}
		}
	}
}

// TestMissingFields reads descriptions that hold next to nothing without panic, and
// refuses those that do not say what they describe.
func TestMissingFields(t *testing.T) {
	s := newServer(t)
	c := client(t, s, Options{})
	everything(s)
	s.on(describeTargetGroups, result(members("TargetGroups", element("TargetGroupArn", "a")+element("TargetType", "ip")+element("Protocol", "TCP"), element("TargetGroupArn", "b"))))
	s.on(describeTags, result(members("TagDescriptions", "", members("Tags", ""))))
	s.on(describeTargetGroupAttributes, result(members("Attributes", "", element("Key", "deregistration_delay.timeout_seconds"))))
	s.on(describeClassicBalancers, result(members("LoadBalancerDescriptions",
		element("LoadBalancerName", "x")+members("ListenerDescriptions", "", "<Listener/>")+"<HealthCheck/>", element("LoadBalancerName", "y"))))
	s.on(describeClassicTags, result(members("TagDescriptions", "", members("Tags", ""))))
	s.on(describeClassicAttributes, result("<LoadBalancerAttributes><ConnectionDraining/><CrossZoneLoadBalancing/></LoadBalancerAttributes>"))
	groups, err := c.Groups(t.Context())
	if diff := cmp.Diff([]string{"a", "x", "y"}, ids(groups)); diff != "" || err != nil {
		t.Fatalf("%v %s", err, diff)
	}
	if groups[1].ChecksTarget {
		t.Error("a health check without a port goes to a listener without one")
	}
	for _, nameless := range []struct {
		action Action
		answer answer
	}{
		{describeInstanceHealth, result(members("InstanceStates", ""))},
		{describeClassicBalancers, result(members("LoadBalancerDescriptions", ""))},
		{describeTargetGroups, result(members("TargetGroups", ""))},
	} {
		everything(s)
		s.on(nameless.action, nameless.answer)
		_, groups := c.Groups(t.Context())
		_, health := c.List(t.Context(), classicGroup, nil)
		if kind(errors.Join(groups, health)) != Unknown {
			t.Errorf("%s: %v and %v, want Unknown", nameless.action.Name, groups, health)
		}
	}
}
