package aws

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/mumoshu/ingress-daemonset-controller/internal/targets"
)

func failureIn(t *testing.T, err error) *Failure {
	t.Helper()
	f, ok := errors.AsType[*Failure](err)
	if !ok {
		t.Fatalf("%v (%T): want a Failure", err, err)
	}
	return f
}

// kind is that of the Failure in an error, empty if there is none.
func kind(err error) Kind {
	if f, ok := errors.AsType[*Failure](err); ok {
		return f.Kind
	}
	return ""
}

// TestKinds reads errors as AWS sends them.
func TestKinds(t *testing.T) {
	for _, test := range []struct {
		status        int
		code, message string
		want          Kind
	}{
		{400, "Throttling", "Rate exceeded", Throttled},
		{400, "ThrottlingException", "Rate exceeded", Throttled},
		{503, "RequestLimitExceeded", "Request limit exceeded.", Throttled},
		{429, "TooManyRequestsException", "slow down", Throttled},
		{400, "DependencyThrottle", "a dependency is throttled", Throttled},
		{400, "InvalidTarget", "The following targets are not in a running state and cannot be registered: 'i-1'", Invalid},
		{400, "ValidationError", "Instance ID 'x' is not valid", Invalid},
		{400, "TooManyTargets", "The maximum number of targets per target group '1000' has been reached", Full},
		{400, "TooManyRegistrationsForTargetId", "You cannot register a target to more than '5' target groups", Full},
		{400, "TargetGroupNotFound", "One or more target groups not found", NotFound},
		{400, "LoadBalancerNotFound", "There is no ACTIVE Load Balancer named 'old'", NotFound},
		{400, "AccessPointNotFound", "There is no ACTIVE Load Balancer named 'old'", NotFound},
		{403, "AccessDenied", "User: arn:aws:iam::1:user/u is not authorized to perform: elasticloadbalancing:RegisterTargets on resource: arn:x", Denied},
		{403, "InvalidClientTokenId", "The security token included in the request is invalid.", Denied},
		{403, "SignatureDoesNotMatch", "The request signature we calculated does not match", Denied},
		{403, "ExpiredToken", "The security token included in the request is expired", Expired},
		{400, "RequestExpired", "Request has expired.", Expired},
		{500, "InternalFailure", "An internal error occurred", Unknown},
		{503, "ServiceUnavailable", "unavailable", Unknown},
		{500, "HealthUnavailable", "not now", Unknown},
		{400, "SomethingNew", "who knows", Unknown},
	} {
		s := newServer(t)
		c := client(t, s, Options{})
		s.on(registerTargets, refused(test.status, test.code, test.message))
		f := failureIn(t, c.Register(t.Context(), ipGroup, []targets.Registration{registration("10.0.0.1", 80, "")}))
		if f.Kind != test.want || f.Code != test.code || f.Message != test.message || f.Action != registerTargets.Permission() {
			t.Errorf("%s: %+v, want %s, its code and its message", test.code, f, test.want)
		}
		if n := len(s.all()); n != 1 {
			t.Errorf("%s: sent %d times: retries are the caller's", test.code, n)
		}
	}
}

func TestReadsAreNotRetried(t *testing.T) {
	for name, answer := range map[string]answer{
		"throttled": refused(400, "Throttling", "Rate exceeded"), "500": raw(500, "<html>oops</html>"), "503": raw(503, ""), "lost": lost,
	} {
		s := newServer(t)
		static(t)
		t.Setenv("AWS_MAX_ATTEMPTS", "5")
		t.Setenv("AWS_RETRY_MODE", "adaptive")
		c := connect(t, s, Options{})
		s.on(describeTargetHealth, answer)
		s.on(describeInstanceHealth, answer)
		for _, g := range []targets.Group{ipGroup, classicGroup} {
			if _, err := c.List(t.Context(), g, nil); kind(err) == "" {
				t.Errorf("%s: %v", name, err)
			}
		}
		if n := len(s.all()); n != 2 {
			t.Errorf("%s: %d requests for 2 calls", name, n)
		}
	}
}

func TestInvalidTargetsAreNamed(t *testing.T) {
	for _, test := range []struct {
		code, message string
		group         targets.Group
		asked, want   []targets.Target
	}{
		{"InvalidTarget", "The following targets are not in a running state and cannot be registered: 'i-11', 'i-3'", instanceGroup,
			[]targets.Target{at("i-1", 80), at("i-11", 80), at("i-11", 81), at("i-3", 80)}, []targets.Target{at("i-11", 80), at("i-11", 81), at("i-3", 80)}},
		{"ValidationError", "The IP address '10.0.0.10' is not within a valid private address range", ipGroup,
			[]targets.Target{at("10.0.0.1", 80), at("10.0.0.10", 80)}, []targets.Target{at("10.0.0.10", 80)}},
		{"InvalidTarget", "These addresses are not usable: 2001:db8::2, 2001:db8::3.", ipGroup,
			[]targets.Target{at("2001:db8::", 80), at("2001:db8::3", 80)}, []targets.Target{at("2001:db8::3", 80)}},
		{"InvalidInstance", "Could not find EC2 instance i-2.", classicGroup,
			[]targets.Target{at("i-1", 0), at("i-2", 0)}, []targets.Target{at("i-2", 0)}},
		{"InvalidTarget", "Some of them are wrong", ipGroup, []targets.Target{at("10.0.0.1", 80)}, nil},
		{"TooManyTargets", "i-1 is one too many", instanceGroup, []targets.Target{at("i-1", 80)}, nil},
	} {
		s := newServer(t)
		c := client(t, s, Options{})
		for _, a := range []Action{registerTargets, registerInstances, deregisterTargets, deregisterInstances} {
			s.on(a, refused(400, test.code, test.message))
		}
		var asked []targets.Registration
		for _, target := range test.asked {
			asked = append(asked, targets.Registration{Target: target})
		}
		for _, err := range []error{c.Register(t.Context(), test.group, asked), c.Deregister(t.Context(), test.group, test.asked)} {
			if f := failureIn(t, err); !cmp.Equal(f.Targets, test.want) {
				t.Errorf("%s: %v, want %v", test.message, f.Targets, test.want)
			}
		}
	}
}

// TestLostAnswer sends a write once and calls its outcome unknown.
func TestLostAnswer(t *testing.T) {
	s := newServer(t)
	c := client(t, s, Options{})
	s.on(describeTargetHealth, result(members("TargetHealthDescriptions")))
	s.on(deregisterTargets, lost)
	// On a connection that is in use already, too.
	list(t, c, ipGroup)
	err := c.Deregister(t.Context(), ipGroup, []targets.Target{at("10.0.0.1", 80)})
	if f := failureIn(t, err); f.Kind != Unknown || f.Code != "" || f.Message == "" {
		t.Errorf("%+v, want Unknown with what happened", f)
	}
	if n := len(s.sent(deregisterTargets)); n != 1 {
		t.Errorf("it was sent %d times", n)
	}
}

func TestNobodyAnswers(t *testing.T) {
	s := newServer(t)
	c := client(t, s, Options{})
	s.Close()
	if _, err := c.Groups(t.Context()); kind(err) != Unknown {
		t.Errorf("%v, want Unknown", err)
	}
}

// stuck answers only when the client has gone.
func stuck(until <-chan struct{}) answer {
	return func(http.ResponseWriter, request) { <-until }
}

func TestDeadlineIsTheCallers(t *testing.T) {
	s := newServer(t)
	over := make(chan struct{})
	t.Cleanup(func() { close(over) })
	s.on(describeTargetHealth, stuck(over))
	c := client(t, s, Options{})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := c.List(ctx, ipGroup, nil); !errors.Is(err, context.DeadlineExceeded) || kind(err) != "" {
		t.Errorf("%v, want the context's deadline", err)
	}
	why := errors.New("no leader any more")
	ctx, stop := context.WithCancelCause(t.Context())
	stop(why)
	if _, err := c.List(ctx, ipGroup, nil); !errors.Is(err, why) || kind(err) != "" {
		t.Errorf("%v, want the context's cause", err)
	}
}

func TestTimeoutOfARequest(t *testing.T) {
	s := newServer(t)
	over := make(chan struct{})
	t.Cleanup(func() { close(over) })
	s.on(describeTargetHealth, stuck(over))
	c := client(t, s, Options{Timeout: 50 * time.Millisecond})
	if _, err := c.List(t.Context(), ipGroup, nil); kind(err) != Unknown || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v, want Unknown", err)
	}
}

func TestBefore(t *testing.T) {
	s := newServer(t)
	everything(s)
	wait := errors.New("no token is left")
	c := client(t, s, Options{Before: func(_ context.Context, call Call) error {
		if call.Class == Register {
			return wait
		}
		return nil
	}})
	err := c.Register(t.Context(), ipGroup, []targets.Registration{registration("10.0.0.1", 80, "")})
	if !errors.Is(err, wait) || kind(err) != "" {
		t.Errorf("%v, want what Before returned", err)
	}
	if n := len(s.all()); n > 0 {
		t.Errorf("%d requests were sent in spite of it", n)
	}
	if err := c.Deregister(t.Context(), ipGroup, []targets.Target{at("10.0.0.1", 80)}); err != nil {
		t.Error(err)
	}
}

// TestBeforeIsAskedLast has the credentials first, which may take longer than what is decided holds.
func TestBeforeIsAskedLast(t *testing.T) {
	s := newServer(t)
	s.on(assumeRole, issued("ROLE", time.Hour))
	s.on(describeTargetHealth, inventory())
	var assumed []int
	c := client(t, s, Options{Role: Role{ARN: "arn:aws:iam::2:role/r"}, Before: func(context.Context, Call) error {
		assumed = append(assumed, len(s.sent(assumeRole)))
		return nil
	}})
	list(t, c, ipGroup)
	if !slices.Equal(assumed, []int{1}) {
		t.Errorf("it was asked when the role was assumed %v times", assumed)
	}
}

func TestFailureText(t *testing.T) {
	f := &Failure{Kind: Denied, Action: "elasticloadbalancing:RegisterTargets", Code: "AccessDenied", Message: "no"}
	if got := f.Error(); got != "elasticloadbalancing:RegisterTargets: AccessDenied: no" {
		t.Error(got)
	}
	s := newServer(t)
	s.on(describeTargetHealth, lost)
	_, err := client(t, s, Options{}).List(t.Context(), ipGroup, nil)
	if text := err.Error(); !strings.HasPrefix(text, "elasticloadbalancing:DescribeTargetHealth: ") || !strings.Contains(text, "EOF") {
		t.Error(text)
	}
}
