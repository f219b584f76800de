package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	contract "github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1/webhook"
	"github.com/mumoshu/ingress-daemonset-controller/internal/detach"
	detaching "github.com/mumoshu/ingress-daemonset-controller/internal/detach/controller"
	"github.com/mumoshu/ingress-daemonset-controller/internal/detach/webhook"
	"github.com/mumoshu/ingress-daemonset-controller/internal/targets"
	"github.com/mumoshu/ingress-daemonset-controller/internal/targets/aws"
	targeting "github.com/mumoshu/ingress-daemonset-controller/internal/targets/controller"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// loadBalancers are the flags about those outside the cluster.
type loadBalancers struct {
	cloud, region, endpoint            string
	rate, background                   float64
	burst                              int
	networkSettleTime, otherSettleTime time.Duration
	groupsEvery                        time.Duration
	detach                             bool
	reasons, webhooks                  list
	groupsTagged                       list
	minAttached                        string
	secretFile, caFile                 string
	rolesFile                          string
	requireGroupTag                    bool

	// leads says whether no other controller can lead at this moment; nil where there is
	// only one.
	leads func() bool
	// roles are those of rolesFile.
	roles []v1alpha1.AssumeRole
	// detachTagged are the tags in groupsTagged.
	detachTagged map[string]string
	// detaching is what the flags about that ask for, once they were checked.
	detaching detaching.Options
}

// list is a flag that is given more than once, or with commas.
type list []string

func (l *list) String() string { return strings.Join(*l, ",") }

func (l *list) Set(s string) error {
	*l = append(*l, strings.Split(s, ",")...)
	return nil
}

func (o *loadBalancers) register() {
	flag.StringVar(&o.cloud, "cloud", "", "cloud whose load balancers' targets are kept: aws; empty for none")
	flag.StringVar(&o.region, "aws-region", "", "region of the load balancers; empty for AWS_REGION, or that of the instance by its metadata")
	flag.StringVar(&o.endpoint, "aws-endpoint", "", "base URL of Elastic Load Balancing and STS; empty for AWS's own")
	flag.StringVar(&o.rolesFile, "assume-roles-file", "", "file with the roles that TargetGroupAttachments may assume, which is read at the start; empty for none")
	flag.BoolVar(&o.requireGroupTag, "require-group-tag", false, "register new targets with those groups only whose tag "+targets.NamespacesTag+" names the namespace; without it also with those that have no such tag")
	flag.Float64Var(&o.rate, "cloud-rate", targets.DefaultRate, "requests a second to the cloud on average, as each role")
	flag.IntVar(&o.burst, "cloud-burst", targets.DefaultBurst, "requests to the cloud at once")
	flag.Float64Var(&o.background, "cloud-background-rate", targets.BackgroundRate, "requests a second to the cloud that nobody waits for, beside those of --cloud-rate, as all roles together")
	flag.DurationVar(&o.networkSettleTime, "network-floor", targets.DefaultSettleTime(targets.Network), "how long network load balancers may send new connections to a target that was deregistered")
	flag.DurationVar(&o.otherSettleTime, "other-floor", targets.DefaultSettleTime(targets.Application), "the same of other load balancers")
	flag.DurationVar(&o.groupsEvery, "groups-every", time.Minute, "how often it is read which target groups there are")
	flag.BoolVar(&o.detach, "detach", false, "take nodes out of their load balancers while a reason holds, and put them back")
	flag.Var(&o.groupsTagged, "detach-groups-tagged", "KEY=VALUE of a tag of the target groups and classic load balancers that nodes are taken out of; may be repeated, all are needed (all groups by default)")
	flag.Var(&o.reasons, "detach-reasons", "reasons for which nodes are detached: "+reasonNames(",")+" (all by default)")
	flag.StringVar(&o.minAttached, "detach-min-attached", "1", "how many nodes stay attached whatever reasons hold: a number, or a percentage, rounded up, of all Nodes but those of the control plane, ready or not")
	flag.Var(&o.webhooks, "detach-webhook", "NAME=URL of a webhook that takes nodes out of another load balancer; may be repeated")
	flag.StringVar(&o.secretFile, "detach-webhook-secret-file", "", "file with the secret that signs requests to webhooks, at least 32 bytes")
	flag.StringVar(&o.caFile, "detach-webhook-ca-file", "", "file with further authorities that sign certificates of webhooks, PEM, which is read for each question; empty for the system's alone")
}

func reasonNames(separator string) string {
	var names []string
	for _, r := range detach.AllReasons {
		names = append(names, string(r))
	}
	return strings.Join(names, separator)
}

// check reads what the flags ask for, or says which to change, before anything is asked
// of the cluster.
func (o *loadBalancers) check() (err error) {
	switch {
	case o.cloud != "" && o.cloud != "aws":
		return fmt.Errorf("--cloud must be aws, not %q", o.cloud)
	case o.rate <= 0 || o.burst < 1 || o.background <= 0:
		return errors.New("--cloud-rate and --cloud-background-rate must be above 0, and --cloud-burst at least 1")
	case o.networkSettleTime < 0 || o.otherSettleTime < 0 || o.groupsEvery <= 0:
		return errors.New("--network-floor and --other-floor must not be below 0, and --groups-every above 0")
	case (o.rolesFile != "" || o.requireGroupTag) && o.cloud == "":
		return errors.New("--assume-roles-file and --require-group-tag need --cloud")
	case len(o.groupsTagged) > 0 && (!o.detach || o.cloud == ""):
		return errors.New("--detach-groups-tagged needs --detach and --cloud")
	case !o.detach && len(o.webhooks) > 0:
		return errors.New("--detach-webhook needs --detach")
	case o.detach && o.cloud == "" && len(o.webhooks) == 0:
		return errors.New("--detach has nothing to take nodes out of: set --cloud, or --detach-webhook")
	}
	if o.detaching.MinAttached, err = countOf(o.minAttached); err != nil {
		return fmt.Errorf("--detach-min-attached %w", err)
	}
	if o.rolesFile != "" {
		if o.roles, err = targeting.ReadRoles(o.rolesFile); err != nil {
			return fmt.Errorf("--assume-roles-file: %w", err)
		}
	}
	if o.detachTagged, err = tagsOf(o.groupsTagged); err != nil {
		return fmt.Errorf("--detach-groups-tagged %w", err)
	}
	if o.detaching.Reasons, err = o.detachReasons(); err != nil {
		return err
	}
	o.detaching.Webhooks, err = o.detachWebhooks()
	return err
}

// alone is an error where another program detaches the nodes that this one is to.
func (o *loadBalancers) alone(ctx context.Context, live client.Reader) error {
	if !o.detach {
		return nil
	}
	return detaching.Rival(ctx, live)
}

// setUp registers what the flags ask for, which were checked.
func (o *loadBalancers) setUp(ctx context.Context, mgr ctrl.Manager) error {
	if err := o.setUpTargets(ctx, mgr); err != nil {
		return err
	}
	if !o.detach {
		return nil
	}
	o.detaching.Targets, o.detaching.Leads = o.cloud != "", o.leads
	o.detaching.InstanceID = func(providerID string) string {
		id, _ := targets.InstanceID(&corev1.Node{Spec: corev1.NodeSpec{ProviderID: providerID}})
		return id
	}
	return detaching.SetUp(mgr, o.detaching)
}

func (o *loadBalancers) setUpTargets(ctx context.Context, mgr ctrl.Manager) error {
	if o.cloud == "" {
		return targeting.SetUpIdle(mgr)
	}
	return targeting.SetUp(mgr, targeting.Options{
		Rate: o.rate, Burst: o.burst, BackgroundRate: o.background, GroupsEvery: o.groupsEvery, Leads: o.leads,
		Detaching: o.detach, DetachTagged: o.detachTagged,
		Roles: o.roles, RequireGroupTag: o.requireGroupTag, Outcome: outcome,
		SettleTime: func(b targets.Balancer) time.Duration {
			if b == targets.Network {
				return o.networkSettleTime
			}
			return o.otherSettleTime
		},
		Connect: o.connector(ctx),
	})
}

// connector connects as one role after the other, which share what is found at first: the
// region, credentials and connections.
func (o *loadBalancers) connector(ctx context.Context) func(*v1alpha1.AssumeRole, func(context.Context) error) (targeting.Cloud, error) {
	var mu sync.Mutex
	var found *aws.Client
	find := func() (_ *aws.Client, err error) {
		mu.Lock()
		defer mu.Unlock()
		if found == nil {
			found, err = aws.New(ctx, aws.Options{Region: o.region, Endpoint: o.endpoint})
		}
		return found, err
	}
	return func(role *v1alpha1.AssumeRole, before func(context.Context) error) (targeting.Cloud, error) {
		client, err := find()
		if err != nil {
			return nil, err
		}
		var as aws.Role
		if role != nil {
			as = aws.Role{ARN: role.ARN, ExternalID: role.ExternalID}
		}
		ctrl.Log.WithName("targets").Info("keeping the targets of one region", "region", client.Region(), "role", as.ARN)
		return client.As(as, func(ctx context.Context, _ aws.Call) error { return before(ctx) }), nil
	}
}

// tagsOf are tags as flags give them, each KEY=VALUE.
func tagsOf(flags []string) (map[string]string, error) {
	tags := map[string]string{}
	for _, flag := range flags {
		key, value, ok := strings.Cut(flag, "=")
		if before, twice := tags[key]; !ok || key == "" || twice && before != value {
			return nil, fmt.Errorf("must be KEY=VALUE, with a key once, not %q", flag)
		}
		tags[key] = value
	}
	return tags, nil
}

// countOf is a number of things, or a percentage of them, as a flag gives it.
func countOf(flag string) (intstr.IntOrString, error) {
	count := intstr.Parse(flag)
	if most, err := v1alpha1.Resolve(count, 100); err != nil || count.Type == intstr.String && most > 100 {
		return count, fmt.Errorf("must be a number from 0 up, or a percentage from 0%% to 100%%, not %q", flag)
	}
	return count, nil
}

// outcome is what a failure of the AWS client asks for.
func outcome(err error) targets.Outcome {
	failure, ok := errors.AsType[*aws.Failure](err)
	if !ok {
		return targets.Failed
	}
	switch failure.Kind {
	case aws.Throttled:
		return targets.Throttled
	case aws.Invalid:
		return targets.Invalid
	case aws.Full:
		return targets.Full
	case aws.NotFound:
		return targets.Gone
	}
	return targets.Failed
}

func (o *loadBalancers) detachReasons() ([]detach.Reason, error) {
	if len(o.reasons) == 0 {
		return detach.AllReasons, nil
	}
	var out []detach.Reason
	for _, name := range o.reasons {
		if !slices.Contains(detach.AllReasons, detach.Reason(name)) {
			return nil, fmt.Errorf("--detach-reasons: there is no reason %q, but %s", name, reasonNames(", "))
		}
		out = append(out, detach.Reason(name))
	}
	return out, nil
}

func (o *loadBalancers) detachWebhooks() ([]detaching.Webhook, error) {
	if len(o.webhooks) == 0 {
		return nil, nil
	}
	content, err := os.ReadFile(o.secretFile)
	if err != nil {
		return nil, fmt.Errorf("--detach-webhook-secret-file: %w", err)
	}
	secret, err := contract.Secret(content)
	if err != nil {
		return nil, fmt.Errorf("--detach-webhook-secret-file: %w", err)
	}
	var out []detaching.Webhook
	names := map[string]bool{}
	for _, flag := range o.webhooks {
		name, url, ok := strings.Cut(flag, "=")
		if !ok || name == "" {
			return nil, fmt.Errorf("--detach-webhook must be NAME=URL, not %q", flag)
		}
		if names[name] {
			return nil, fmt.Errorf("--detach-webhook: two are called %s, of which one would never be asked", name)
		}
		names[name] = true
		client, err := webhook.New(webhook.Options{URL: url, Secret: secret, CAFile: o.caFile})
		if err != nil {
			return nil, fmt.Errorf("--detach-webhook %s: %w", name, err)
		}
		out = append(out, detaching.Webhook{Name: name, Ask: func(ctx context.Context, r contract.Request) (detaching.Answer, error) {
			answer, err := client.Ask(ctx, r)
			return detaching.Answer(answer), err
		}})
	}
	return out, nil
}
