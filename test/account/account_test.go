// Package account asks an AWS account what the controller relies on: the emulator of
// AWS, or, where `make aws-check` runs it, a real one. Both must answer
// alike. All that is changed is whether one target is registered with one group.
package account

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/mumoshu/ingress-daemonset-controller/internal/targets"
	client "github.com/mumoshu/ingress-daemonset-controller/internal/targets/aws"
	"github.com/mumoshu/ingress-daemonset-controller/test/aws"
	"github.com/mumoshu/ingress-daemonset-controller/test/aws/access"
	"github.com/mumoshu/ingress-daemonset-controller/test/aws/cloud"
)

// What says which account is asked.
const (
	realVariable   = "AWS_CHECK"
	groupVariable  = "AWS_CHECK_TARGET_GROUP"
	targetVariable = "AWS_CHECK_TARGET"
)

// patience is for reads that lag behind writes.
const patience = time.Minute

// account is one, with the group and the target that may be used.
type account struct {
	*testing.T
	*client.Client
	group  targets.Group
	target targets.Target
}

// open opens the account that is asked for. The target is not registered, and will not
// be in the end.
func open(t *testing.T) *account {
	t.Helper()
	options, arn, id := client.Options{}, os.Getenv(groupVariable), os.Getenv(targetVariable)
	switch {
	case os.Getenv(realVariable) == "":
		options, arn, id = emulator(t)
	case arn == "" || id == "":
		t.Fatalf("set %s to the ARN of a target group that takes no traffic, and %s to the ID of an instance, or the address, that may be registered with it for a moment; "+
			"region and credentials are found as by every AWS SDK, such as in AWS_REGION, AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY", groupVariable, targetVariable)
	}
	c, err := client.New(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	a := &account{T: t, Client: c}
	groups, err := c.Named(t.Context(), []targets.GroupName{{ID: arn}})
	if err != nil || len(groups) != 1 {
		t.Fatalf("%s: %d groups, %v", groupVariable, len(groups), err)
	}
	if a.group, err = c.Describe(t.Context(), groups[0]); err != nil {
		t.Fatalf("%s: %v", groupVariable, err)
	}
	a.target = targets.Target{ID: id, Port: a.group.Port}
	if h := a.health(); !isOut(h) {
		t.Fatalf("%s: %s is in the group already (%s): name one that is not", targetVariable, a.target, cmp.Or(string(h.Reason), string(h.Condition)))
	}
	t.Cleanup(func() {
		if err := c.Deregister(context.Background(), a.group, []targets.Target{a.target}); err != nil {
			t.Errorf("%s may still be registered: %v", a.target, err)
		}
	})
	return a
}

// emulator is an account of the emulator of AWS.
func emulator(t *testing.T) (o client.Options, arn, id string) {
	t.Helper()
	policy, err := os.ReadFile("../../config/aws/policy.json")
	if err != nil {
		t.Fatal(err)
	}
	const region, zone, address = "eu-central-1", "eu-central-1a", "10.0.0.1"
	server, err := aws.Start(context.Background(), aws.Config{
		Spec: cloud.Spec{
			Seed: 1, Scale: 10, Region: region,
			VPC:           cloud.VPC{Subnets: []cloud.Subnet{{CIDR: netip.MustParsePrefix("10.0.0.0/16"), Zone: zone}}},
			TargetGroups:  []cloud.TargetGroup{{Name: "check", Protocol: "TCP", Port: 80, TargetType: "ip", AssumeHealthy: true}},
			LoadBalancers: []cloud.LoadBalancer{{Name: "check", Type: "network", Zones: []cloud.Zone{{Name: zone}}, Listeners: []cloud.Listener{{Protocol: "TCP", Port: 80, TargetGroup: "check"}}}},
		},
		Access: access.Config{Users: []access.User{{Name: "check", AccessKeyID: "AKIACHECK", SecretKey: "check-secret", Policy: json.RawMessage(policy)}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Stop)
	t.Setenv("AWS_ACCESS_KEY_ID", "AKIACHECK")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "check-secret")
	groups, err := aws.NewClient(server.Admin).TargetGroups(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return client.Options{Region: region, Endpoint: "http://" + server.API}, groups[0].ARN, address
}

// health is what the account says of the target.
func (a *account) health() targets.Health {
	a.Helper()
	found, err := a.List(a.Context(), a.group, []targets.Target{a.target})
	if err != nil {
		a.Fatal(err)
	}
	return found[a.target]
}

// await waits until what the account says of the target is as it should be.
func (a *account) await(what string, is func(targets.Health) bool) {
	a.Helper()
	var last targets.Health
	err := wait.PollUntilContextTimeout(a.Context(), time.Second, patience, true, func(context.Context) (bool, error) {
		last = a.health()
		return is(last), nil
	})
	if err != nil {
		a.Fatalf("it is not %s but %+v", what, last)
	}
}

func (a *account) register(ids ...string) error {
	var rs []targets.Registration
	for _, id := range ids {
		rs = append(rs, targets.Registration{Target: targets.Target{ID: id, Port: a.target.Port}})
	}
	return a.Register(a.Context(), a.group, rs)
}

func (a *account) deregister() error {
	return a.Deregister(a.Context(), a.group, []targets.Target{a.target})
}

func isIn(h targets.Health) bool {
	return h.Reason != targets.NotRegistered && h.Condition != targets.Draining
}
func isOut(h targets.Health) bool {
	return h.Reason == targets.NotRegistered || h.Condition == targets.Draining && h.Reason == targets.DeregistrationInProgress
}

// TestAccount follows one target in and out, each of it twice.
func TestAccount(t *testing.T) {
	a := open(t)
	groups, err := a.Groups(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	listed := false
	for _, g := range groups {
		listed = listed || g.ID == a.group.ID && g.Type == a.group.Type && g.Port == a.group.Port
	}
	if !listed {
		t.Errorf("%s is not among the %d groups", a.group.ID, len(groups))
	}
	steps := []struct {
		what string
		do   func() error
		is   func(targets.Health) bool
	}{
		{"registered", func() error { return a.register(a.target.ID) }, isIn},
		{"registered", func() error { return a.register(a.target.ID) }, isIn},
		{"deregistered", a.deregister, isOut},
		{"deregistered", a.deregister, isOut},
	}
	for _, s := range steps {
		if err := s.do(); err != nil {
			t.Fatal(err)
		}
		a.await(s.what, s.is)
	}
}

// TestOneBadTargetSpoilsACall registers none where one is refused, and says that the
// targets are at fault.
func TestOneBadTargetSpoilsACall(t *testing.T) {
	a := open(t)
	bad := map[targets.TargetType]string{targets.Instance: "i-00000000000000000", targets.IP: "203.0.113.1"}[a.group.Type]
	err := a.register(a.target.ID, bad)
	if f, ok := errors.AsType[*client.Failure](err); !ok || f.Kind != client.Invalid {
		t.Errorf("registering %s was not refused as invalid: %v", bad, err)
	}
	if h := a.health(); !isOut(h) {
		t.Errorf("%s was registered beside a bad one: %s", a.target, fmt.Sprint(h))
	}
}
