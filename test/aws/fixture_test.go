package aws

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/credentials"
	classic "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing"
	elb "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	"github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/aws/smithy-go"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/mumoshu/ingress-daemonset-controller/test/aws/access"
	"github.com/mumoshu/ingress-daemonset-controller/test/aws/api"
	"github.com/mumoshu/ingress-daemonset-controller/test/aws/cloud"
)

const (
	region = "eu-central-1"
	zoneA  = "eu-central-1a"
	zoneB  = "eu-central-1b"
	// patience is for what comes sooner or later; no test passes by waiting it out.
	patience = 30 * time.Second
)

var everything = json.RawMessage(`{"Version": "2012-10-17", "Statement": {"Effect": "Allow", "Action": "*", "Resource": "*"}}`)

// hasty lags let a test wait for all that happens. Those of AWS take minutes.
var hasty = func() map[cloud.Kind]cloud.Lags {
	lags := map[cloud.Kind]cloud.Lags{}
	for kind := range cloud.RealLags {
		lags[kind] = cloud.Lags{Check: cloud.Range{Min: 1, Max: 2}, Serve: cloud.Range{Min: 3, Max: 5}, Linger: cloud.Range{Min: 10, Max: 15}, Fade: cloud.Range{Min: 3, Max: 5}}
	}
	slow := lags[cloud.Network] // enough to do something meanwhile on a busy machine
	slow.Linger = cloud.Range{Min: 30, Max: 40}
	lags[cloud.Network] = slow
	return lags
}()

// fixture is a server and clients of it.
type fixture struct {
	*testing.T
	*Server
	admin *Client
}

// local is an address on loopback. Two runs on one machine have different ones. Those
// with 1 are in zone a, those with 2 in zone b, those with 9 are balancers'.
func local(third, fourth int) string {
	return fmt.Sprintf("127.%d.%d.%d", 1+os.Getpid()%250, third, fourth)
}

var pod, other = local(1, 1), local(2, 1)

// serve starts a server.
func serve(t *testing.T, change func(*Config)) *fixture {
	t.Helper()
	config := Config{
		Spec: cloud.Spec{
			Seed: uint64(time.Now().UnixNano()), Scale: 10, Region: region,
			VPC: cloud.VPC{Subnets: []cloud.Subnet{
				{CIDR: netip.MustParsePrefix(local(1, 0) + "/24"), Zone: zoneA}, {CIDR: netip.MustParsePrefix(local(2, 0) + "/24"), Zone: zoneB},
			}},
			Instances: []cloud.Instance{
				{ID: "i-a", Address: netip.MustParseAddr(pod), Zone: zoneA}, {ID: "i-b", Address: netip.MustParseAddr(other), Zone: zoneB},
			},
		},
		Access: access.Config{Users: []access.User{{Name: "admin", AccessKeyID: "AKIAADMIN", SecretKey: "admin-secret", Policy: everything}}},
		Limits: api.Limits{"v2 Describe": {Capacity: -1}, "v2 Register": {Capacity: -1}, "classic Describe": {Capacity: -1}, "classic Register": {Capacity: -1}},
	}
	if change != nil {
		change(&config)
	}
	server, err := start(context.Background(), config, hasty)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Stop)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("seed %d", config.Seed)
		}
	})
	return &fixture{t, server, NewClient(server.Admin)}
}

// assumed is a group that sends no health checks, behind a balancer that has no sockets.
func assumed(c *Config) {
	c.TargetGroups = append(c.TargetGroups, cloud.TargetGroup{
		Name: "pods", Protocol: "TCP", Port: 80, TargetType: "ip", AssumeHealthy: true, Tags: map[string]string{"cluster": "one"},
		Attributes: map[string]string{"deregistration_delay.timeout_seconds": "10"},
	})
	c.LoadBalancers = append(c.LoadBalancers, cloud.LoadBalancer{
		Name: "front", Type: "network", Zones: []cloud.Zone{{Name: zoneA}, {Name: zoneB}}, Tags: map[string]string{"cluster": "one"},
		Listeners: []cloud.Listener{{Protocol: "TCP", Port: 80, TargetGroup: "pods"}},
	})
}

func (f *fixture) config(provider sdk.CredentialsProvider) sdk.Config {
	return sdk.Config{
		Region: region, BaseEndpoint: sdk.String("http://" + f.API), Credentials: provider,
		Retryer: func() sdk.Retryer { return retry.AddWithMaxAttempts(retry.NewStandard(), 1) },
	}
}

func static(key, secret string) sdk.CredentialsProvider {
	return credentials.NewStaticCredentialsProvider(key, secret, "")
}

func (f *fixture) elb() *elb.Client {
	return elb.NewFromConfig(f.config(static("AKIAADMIN", "admin-secret")))
}
func (f *fixture) classic() *classic.Client {
	return classic.NewFromConfig(f.config(static("AKIAADMIN", "admin-secret")))
}
func (f *fixture) sts() *sts.Client {
	return sts.NewFromConfig(f.config(static("AKIAADMIN", "admin-secret")))
}

func (f *fixture) must(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

// refused expects an error of the API, with a code and a part of its message.
func (f *fixture) refused(err error, code, message string) {
	f.Helper()
	var refusal smithy.APIError
	if !errors.As(err, &refusal) || refusal.ErrorCode() != code || !strings.Contains(refusal.ErrorMessage(), message) {
		f.Errorf("%v, not %s: %s", err, code, message)
	}
}

// arn is that of a target group.
func (f *fixture) arn(name string) *string {
	f.Helper()
	groups, err := f.admin.TargetGroups(f.Context())
	f.must(err)
	for _, g := range groups {
		if g.Name == name {
			return &g.ARN
		}
	}
	f.Fatalf("there is no group %s", name)
	return nil
}

func targets(ids ...string) []types.TargetDescription {
	var list []types.TargetDescription
	for _, id := range ids {
		list = append(list, types.TargetDescription{Id: sdk.String(id)})
	}
	return list
}

func (f *fixture) register(group string, ids ...string) error {
	f.Helper()
	_, err := f.elb().RegisterTargets(f.Context(), &elb.RegisterTargetsInput{TargetGroupArn: f.arn(group), Targets: targets(ids...)})
	return err
}

func (f *fixture) deregister(group string, ids ...string) error {
	f.Helper()
	_, err := f.elb().DeregisterTargets(f.Context(), &elb.DeregisterTargetsInput{TargetGroupArn: f.arn(group), Targets: targets(ids...)})
	return err
}

// state is state and reason of a target.
func (f *fixture) state(group, id string) string {
	f.Helper()
	found, err := f.elb().DescribeTargetHealth(f.Context(), &elb.DescribeTargetHealthInput{TargetGroupArn: f.arn(group), Targets: targets(id)})
	f.must(err)
	health := found.TargetHealthDescriptions[0].TargetHealth
	return strings.TrimSpace(string(health.State) + " " + string(health.Reason))
}

// await waits until a condition holds.
func (f *fixture) await(what string, holds func() bool) {
	f.Helper()
	is := func(context.Context) (bool, error) { return holds(), nil }
	if err := wait.PollUntilContextTimeout(context.Background(), 20*time.Millisecond, patience, true, is); err != nil {
		f.Fatalf("waited in vain until %s", what)
	}
}

func (f *fixture) awaitState(group, id, wanted string) {
	f.Helper()
	last := ""
	is := func(context.Context) (bool, error) {
		last = f.state(group, id)
		return last == wanted, nil
	}
	if err := wait.PollUntilContextTimeout(f.Context(), 50*time.Millisecond, patience, true, is); err != nil {
		f.Fatalf("%s in %s is %s and never %s", id, group, last, wanted)
	}
}

func (f *fixture) expect(what string, got, wanted any) {
	f.Helper()
	if got != wanted {
		f.Errorf("%s: %v, not %v", what, got, wanted)
	}
}

// words are values with a space between them.
func words(values ...any) string { return strings.TrimSpace(fmt.Sprintln(values...)) }
