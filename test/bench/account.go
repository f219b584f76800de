package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"syscall"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	elb "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	"github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/test/aws/api"
	"github.com/mumoshu/ingress-daemonset-controller/test/aws/cloud"
)

// The account of largestAccount groups, AWS's quota for a region, with AWS's throttling.
// Every third group is of addresses, all others of instances.
const (
	largestAccount = 3000
	maxNamedSec    = 2
	maxTaggedSec   = 60
	maxFoundSec    = 15

	namedGroup, taggedGroup, nodeGroup = "group-2998", "group-2995", "group-2000"
	instanceID                         = "i-0123456789abcdef0"
)

// accountResult is what the controller did in the large account.
type accountResult struct {
	Case   string `json:"case"`
	Groups int    `json:"groups"`
	// NamedSec and TaggedSec are from the controller's start to the first call about a group
	// that is named, and that is selected by a tag.
	NamedSec  float64 `json:"namedSec"`
	TaggedSec float64 `json:"taggedSec"`
	// P99Ms is as in targetsResult, while all groups are looked through.
	P99Ms float64 `json:"p99Ms"`
	// SweepSec is until all groups of instances were looked through for nodes, from the start.
	SweepSec float64 `json:"sweepSec"`
	// FoundSec is from when a node is to be out to its deregistration where the last look
	// found it, DetachedSec to its timestamp.
	FoundSec    float64 `json:"foundSec"`
	DetachedSec float64 `json:"detachedSec"`
	// TakeoverSec is from the start of another controller to its first call about a pod that
	// came while none ran, in the group that is named.
	TakeoverSec float64 `json:"takeoverSec"`
	Throttled   int     `json:"throttled"`
	Bars        []bar   `json:"bars"`
}

// account is the controller in the large account.
type account struct {
	*contest
	elb *elb.Client
}

// keepAccount measures the controller in an account as large as AWS allows.
func (b *bench) keepAccount(ctx context.Context, r *report) error {
	ctx, stop := context.WithTimeout(ctx, patience)
	defer stop()
	a := &account{contest: &contest{bench: b, report: r}}
	if err := a.begin(ctx); err != nil {
		return fmt.Errorf("preparing a large account: %w", err)
	}
	result := &accountResult{Case: "an account of 3,000 groups", Groups: largestAccount}
	if err := a.measure(ctx, result); err != nil {
		return fmt.Errorf("a large account: %w", err)
	}
	result.Bars = []bar{
		atMost("s from the start to the first call in a group that is named", result.NamedSec, maxNamedSec),
		atMost("s from the start to the first call in a group selected by a tag", result.TaggedSec, maxTaggedSec),
		atMost("p99 ms from what was seen to the call", result.P99Ms, maxCallMs),
		atMost("s until a node is deregistered where it was found", result.FoundSec, maxFoundSec),
		atMost("s from the start of another controller to its first call", result.TakeoverSec, maxNamedSec),
	}
	return r.write(result, result.Case, result.Bars)
}

// begin makes the account, two nodes, of which one is in a group, and a pod.
func (a *account) begin(ctx context.Context) (err error) {
	if a.controller, err = largeContender(ctx); err != nil {
		return err
	}
	a.elb = elb.New(elb.Options{
		Region: region, BaseEndpoint: sdk.String("http://" + a.controller.server.API), Credentials: credentials.NewStaticCredentialsProvider(keyID, secretKey, ""),
	})
	if err := a.makeRoom(ctx); err != nil {
		return err
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "out"}, Spec: corev1.NodeSpec{ProviderID: "aws:///" + zone + "/" + instanceID}}
	if err := a.client.Create(ctx, node); err != nil {
		return err
	}
	id := instanceID
	if _, err := a.elb.RegisterTargets(ctx, &elb.RegisterTargetsInput{TargetGroupArn: sdk.String(a.controller.groups[nodeGroup]), Targets: []types.TargetDescription{{Id: &id}}}); err != nil {
		return err
	}
	if a.seen, err = a.watchPods(ctx); err != nil {
		return err
	}
	for name, selector := range map[string]v1alpha1.TargetGroupSelector{
		"named": {Name: namedGroup}, "tagged": {Tags: map[string]string{"tagged": "yes"}},
	} {
		o := attachment(name)
		o.Spec = v1alpha1.TargetGroupAttachmentSpec{
			TargetGroup: selector, TargetType: "ip", Port: intstr.FromString("http"), PodSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "account"}},
		}
		if err := a.client.Create(ctx, o); err != nil {
			return err
		}
	}
	return a.startPods(ctx, "account", bulkAddresses(0, 1))
}

// largeContender starts the account.
func largeContender(ctx context.Context) (*contender, error) {
	c := &contender{name: "controller", groups: map[string]string{}}
	config := contenderConfig(c.name, singles)
	config.Instances = []cloud.Instance{{ID: instanceID, Address: netip.MustParseAddr("10.2.0.1"), Zone: zone}}
	for i := range largestAccount {
		g := cloud.TargetGroup{Name: fmt.Sprintf("group-%04d", i), Protocol: "TCP", Port: 80, TargetType: "instance", AssumeHealthy: true, Tags: map[string]string{"number": fmt.Sprint(i)}}
		if i%3 == 1 {
			g.TargetType = "ip"
		}
		if g.Name == taggedGroup {
			g.Tags["tagged"] = "yes"
		}
		config.TargetGroups = append(config.TargetGroups, g)
	}
	return c, c.start(ctx, config)
}

// measure runs the controller and fills the result.
func (a *account) measure(ctx context.Context, r *accountResult) error {
	controller, started, err := a.startController(ctx, "controller")
	if err != nil {
		return err
	}
	first := func(group string) (float64, error) { return a.until(ctx, started, "RegisterTargets", group) }
	if r.NamedSec, err = first(namedGroup); err != nil {
		return err
	}
	if r.TaggedSec, err = first(taggedGroup); err != nil {
		return err
	}
	if r.P99Ms, err = a.pods(ctx); err != nil {
		return err
	}
	if r.SweepSec, err = a.sweep(ctx, started); err != nil {
		return err
	}
	asked := time.Now()
	if err := a.detach(ctx); err != nil {
		return err
	}
	if r.FoundSec, err = a.until(ctx, asked, "DeregisterTargets", nodeGroup); err != nil {
		return err
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "out"}}
	err = until(ctx, func() (bool, error) {
		err := a.get(ctx, node)
		return node.Annotations[v1alpha1.AnnotationDetachmentTimestamp] != "", err
	})
	r.DetachedSec = rounded(time.Since(asked).Seconds())
	calls, callsErr := a.controller.callsSince(ctx, started)
	for _, c := range calls {
		if c.Outcome == "Throttling" {
			r.Throttled++
		}
	}
	if err := errors.Join(err, callsErr); err != nil {
		return err
	}
	r.TakeoverSec, err = a.takeOver(ctx, controller)
	return err
}

// startController builds the controller and starts it then.
func (a *account) startController(ctx context.Context, name string) (controller *os.Process, started time.Time, err error) {
	cmd, err := a.controllerCommand(ctx)
	if err != nil {
		return nil, started, err
	}
	cmd.Args = append(cmd.Args, "--detach", "--detach-min-attached=0", "--network-floor=0s")
	started = time.Now()
	controller, err = a.launch(ctx, cmd, name)
	return controller, started, err
}

// takeOver ends the controller, has a pod come, and starts another.
func (a *account) takeOver(ctx context.Context, controller *os.Process) (seconds float64, err error) {
	if err := controller.Signal(syscall.SIGTERM); err != nil {
		return 0, err
	}
	if err := until(ctx, func() (bool, error) { return controller.Signal(syscall.Signal(0)) != nil, nil }); err != nil {
		return 0, err
	}
	if err := a.startPods(ctx, "account", bulkAddresses(1+singles, 1)); err != nil {
		return 0, err
	}
	_, started, err := a.startController(ctx, "controller-2")
	if err != nil {
		return 0, err
	}
	return a.until(ctx, started, "RegisterTargets", namedGroup)
}

// until is the time in seconds until a call of an action about a group.
func (a *account) until(ctx context.Context, since time.Time, action, group string) (seconds float64, err error) {
	err = until(ctx, func() (bool, error) {
		calls, err := a.controller.callsSince(ctx, since)
		i := slices.IndexFunc(calls, func(c api.Call) bool {
			return c.Action == action && c.CarriedOut && c.Resource == a.controller.groups[group]
		})
		if i >= 0 {
			seconds = rounded(calls[i].At.Sub(since).Seconds())
		}
		return i >= 0, err
	})
	return seconds, err
}

// pods is how soon pods that come one by one are called for.
func (a *account) pods(ctx context.Context) (p99 float64, err error) {
	addresses := bulkAddresses(1, singles)
	begun := time.Now()
	if err := a.paced(ctx, addresses, func(ctx context.Context, address string) error { return a.startPods(ctx, "account", []string{address}) }); err != nil {
		return 0, err
	}
	groups := a.controller.arns([]string{namedGroup, taggedGroup})
	err = until(ctx, func() (bool, error) {
		calls, err := a.controller.callsSince(ctx, begun)
		waited := waits(firstCalls(calls, "RegisterTargets", groups), a.seen.addressed(begun))
		if len(waited) < len(addresses)*len(groups) {
			return false, err
		}
		p99 = percentile(waited, 99)
		return true, err
	})
	return p99, err
}

// sweep is when the last group of instances was looked through for the first time.
func (a *account) sweep(ctx context.Context, since time.Time) (seconds float64, err error) {
	err = until(ctx, func() (bool, error) {
		calls, err := a.controller.callsSince(ctx, since)
		seen := map[string]bool{}
		for _, c := range calls {
			if c.Action == "DescribeTargetHealth" && c.CarriedOut && !seen[c.Resource] {
				seen[c.Resource] = true
				seconds = rounded(c.At.Sub(since).Seconds())
			}
		}
		return len(seen) >= 2*largestAccount/3, err
	})
	return seconds, err
}

// detach has the node go.
func (a *account) detach(ctx context.Context) error {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "out"}}
	if err := a.get(ctx, node); err != nil {
		return err
	}
	patch := client.MergeFrom(node.DeepCopy())
	node.Annotations = map[string]string{v1alpha1.AnnotationNodeDetached: ""}
	return a.client.Patch(ctx, node, patch)
}
