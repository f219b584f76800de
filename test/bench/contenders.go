package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"sync"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	elb "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	"github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mumoshu/ingress-daemonset-controller/test/aws"
	"github.com/mumoshu/ingress-daemonset-controller/test/aws/access"
	"github.com/mumoshu/ingress-daemonset-controller/test/aws/api"
	"github.com/mumoshu/ingress-daemonset-controller/test/aws/cloud"
)

const (
	machineName = "machine"
	region      = "eu-central-1"
	zone        = region + "a"
	keyID       = "AKIABENCH"
	secretKey   = "bench-secret"
	// scale is how much faster than AWS's the load balancers are.
	scale = 10
	// pollEvery is how often the other program looks.
	pollEvery = 5 * time.Second
	haproxy   = "/usr/sbin/haproxy"
)

// contender keeps pods registered with the groups of a cloud account.
type contender struct {
	name   string
	server *aws.Server
	admin  *aws.Client
	// groups are their ARNs by name, fronts the addresses of those with a data plane.
	groups, fronts map[string]string
}

// begin starts both, with no pod there yet.
func (c *contest) begin(ctx context.Context, pods int) (err error) {
	c.served = []string{"network", "application"}
	if _, err := os.Stat(haproxy); err != nil {
		c.served = c.served[:1]
		fmt.Fprintf(os.Stderr, "%s is not there: nothing is said of application load balancers\n", haproxy)
	}
	if c.controller, err = newContender(ctx, "controller", 1, pods, c.served); err != nil {
		return err
	}
	if c.poller, err = newContender(ctx, "poller", 2, pods, c.served); err != nil {
		return err
	}
	if err := c.makeRoom(ctx); err != nil {
		return err
	}
	if c.seen, err = c.watchPods(ctx); err != nil {
		return err
	}
	if err := c.startController(ctx); err != nil {
		return err
	}
	for app, groups := range map[string][]string{"bulk": bulk, "served": c.served} {
		if err := c.attachGroups(ctx, app, groups); err != nil {
			return err
		}
		go c.poller.poll(ctx, c.client, app, c.poller.arns(groups))
	}
	// The controller looks for the groups when it has started.
	for _, group := range slices.Concat(bulk, c.served) {
		a := attachment(group)
		err := until(ctx, func() (bool, error) { err := c.get(ctx, a); return a.Status.GroupCount == 1, err })
		if err != nil {
			return err
		}
	}
	return nil
}

// makeRoom makes the machine of all pods, and waits until there can be pods.
func (c *contest) makeRoom(ctx context.Context) error {
	if err := c.client.Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: machineName}}); err != nil {
		return err
	}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "default"}}
	return until(ctx, func() (bool, error) {
		err := c.get(ctx, account)
		return err == nil, client.IgnoreNotFound(err)
	})
}

// newContender starts a cloud account with all groups.
func newContender(ctx context.Context, name string, number, pods int, served []string) (*contender, error) {
	c := &contender{name: name, groups: map[string]string{}, fronts: map[string]string{}}
	config := contenderConfig(name, pods)
	for i, group := range slices.Concat(bulk, served) {
		g := cloud.TargetGroup{Name: group, Protocol: "TCP", Port: 80, TargetType: "ip", AssumeHealthy: true}
		b := cloud.LoadBalancer{Name: group, Type: "network", Zones: []cloud.Zone{{Name: zone}}}
		if group == "application" {
			g.Protocol, b.Type = "HTTP", "application"
		}
		if slices.Contains(served, group) {
			b.Zones[0].Address = local(8+number, 1+i)
			c.fronts[group] = fmt.Sprintf("%s:%d", b.Zones[0].Address, podPort)
		}
		b.Listeners = []cloud.Listener{{Protocol: g.Protocol, Port: podPort, TargetGroup: group}}
		config.TargetGroups, config.LoadBalancers = append(config.TargetGroups, g), append(config.LoadBalancers, b)
	}
	return c, c.start(ctx, config)
}

// contenderConfig is that of an account without groups.
func contenderConfig(name string, pods int) aws.Config {
	return aws.Config{
		Spec: cloud.Spec{
			Seed: 1, Scale: scale, Region: region,
			VPC: cloud.VPC{Subnets: []cloud.Subnet{{CIDR: netip.MustParsePrefix("10.0.0.0/8"), Zone: zone}, {CIDR: netip.MustParsePrefix("127.0.0.0/8"), Zone: zone}}},
			// Targets that drain count as well.
			Quotas: cloud.Quotas{TargetsPerGroup: 4 * pods, TargetsPerZone: 4 * pods, TargetsPerBalancer: 4 * pods},
		},
		Access:  access.Config{Users: []access.User{{Name: name, AccessKeyID: keyID, SecretKey: secretKey, Policy: json.RawMessage(everything)}}},
		HAProxy: haproxy,
	}
}

// start starts the account.
func (c *contender) start(ctx context.Context, config aws.Config) (err error) {
	if c.server, err = aws.Start(ctx, config); err != nil {
		return fmt.Errorf("starting the cloud account of the %s: %w", c.name, err)
	}
	c.admin = aws.NewClient(c.server.Admin)
	groups, err := c.admin.TargetGroups(ctx)
	for _, g := range groups {
		c.groups[g.Name] = g.ARN
	}
	return err
}

const everything = `{"Version": "2012-10-17", "Statement": {"Effect": "Allow", "Action": "*", "Resource": "*"}}`

// local is an address on loopback. Two runs on one computer have different ones.
func local(third, fourth int) string {
	return fmt.Sprintf("127.%d.%d.%d", 1+os.Getpid()%250, third, fourth)
}

// startController starts the controller.
func (c *contest) startController(ctx context.Context) error {
	cmd, err := c.controllerCommand(ctx)
	if err != nil {
		return err
	}
	cmd.Args = append(cmd.Args, fmt.Sprintf("--network-floor=%s", 300*time.Second/scale), fmt.Sprintf("--other-floor=%s", 30*time.Second/scale))
	_, err = c.launch(ctx, cmd, "controller")
	return err
}

// controllerCommand builds the controller, which is to run outside the cluster's network,
// where the cloud is.
func (c *contest) controllerCommand(ctx context.Context) (*exec.Cmd, error) {
	config, err := c.RESTConfig()
	if err != nil {
		return nil, err
	}
	kubeconfig, err := c.kubeconfig(ctx, config.Host)
	if err != nil {
		return nil, fmt.Errorf("making the controller's kubeconfig: %w", err)
	}
	program, err := c.build(ctx, c.controllerPackage)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, program, "--kubeconfig="+kubeconfig, "--healthchecker-image=none", "--metrics-bind-address=0", "--health-probe-bind-address=0",
		"--cloud=aws", "--aws-region="+region, "--aws-endpoint=http://"+c.controller.server.API)
	cmd.Env = append(cmd.Environ(), "AWS_ACCESS_KEY_ID="+keyID, "AWS_SECRET_ACCESS_KEY="+secretKey)
	return cmd, nil
}

// callsSince are the calls that came in after a moment.
func (c *contender) callsSince(ctx context.Context, start time.Time) ([]api.Call, error) {
	calls, err := c.admin.Calls(ctx, 0)
	return slices.DeleteFunc(calls, func(call api.Call) bool { return call.At.Before(start) }), err
}

// poll keeps the pods of an app registered with groups without any event: it compares
// them with what is registered, again and again.
func (c *contender) poll(ctx context.Context, pods client.Client, app string, groups []string) {
	api := elb.New(elb.Options{
		Region: region, BaseEndpoint: sdk.String("http://" + c.server.API), Credentials: credentials.NewStaticCredentialsProvider(keyID, secretKey, ""),
	})
	ticker := time.NewTicker(pollEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		for _, group := range groups {
			if err := pollOnce(ctx, pods, api, app, group); err != nil && ctx.Err() == nil {
				fmt.Fprintln(os.Stderr, "the poller:", err)
			}
		}
	}
}

func pollOnce(ctx context.Context, pods client.Client, api *elb.Client, app, group string) error {
	list := &corev1.PodList{}
	if err := pods.List(ctx, list, client.InNamespace(namespace), client.MatchingLabels{"app": app}); err != nil {
		return err
	}
	health, err := api.DescribeTargetHealth(ctx, &elb.DescribeTargetHealthInput{TargetGroupArn: &group})
	if err != nil {
		return err
	}
	registered := map[string]bool{}
	for _, t := range health.TargetHealthDescriptions {
		if t.TargetHealth.State != types.TargetHealthStateEnumDraining {
			registered[*t.Target.Id] = true
		}
	}
	var in, out []types.TargetDescription
	for i := range list.Items {
		address := list.Items[i].Status.PodIP
		if address == "" || list.Items[i].DeletionTimestamp != nil {
			continue
		}
		if !registered[address] {
			in = append(in, target(address))
		}
		delete(registered, address)
	}
	for address := range registered {
		out = append(out, target(address))
	}
	for chunk := range slices.Chunk(in, perCall) {
		if _, err := api.RegisterTargets(ctx, &elb.RegisterTargetsInput{TargetGroupArn: &group, Targets: chunk}); err != nil {
			return err
		}
	}
	for chunk := range slices.Chunk(out, perCall) {
		if _, err := api.DeregisterTargets(ctx, &elb.DeregisterTargetsInput{TargetGroupArn: &group, Targets: chunk}); err != nil {
			return err
		}
	}
	return nil
}

func target(address string) types.TargetDescription {
	return types.TargetDescription{Id: &address, Port: sdk.Int32(podPort)}
}

// sightings are when pods were seen to get their addresses, and to end, by a watch of the
// benchmark's own.
type sightings struct {
	mu sync.Mutex
	// came and went are by address.
	came, went map[string]time.Time
}

func (b *bench) watchPods(ctx context.Context) (*sightings, error) {
	config, err := b.RESTConfig()
	if err != nil {
		return nil, err
	}
	clientset, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	s := &sightings{came: map[string]time.Time{}, went: map[string]time.Time{}}
	pods := informers.NewSharedInformerFactoryWithOptions(clientset, 0, informers.WithNamespace(namespace)).Core().V1().Pods().Informer()
	see := func(obj any) { s.see(obj, time.Now()) }
	if _, err := pods.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: see, UpdateFunc: func(_, obj any) { see(obj) }}); err != nil {
		return nil, err
	}
	go pods.RunWithContext(ctx)
	if !cache.WaitForCacheSync(ctx.Done(), pods.HasSynced) {
		return nil, context.Cause(ctx)
	}
	return s, nil
}

// see notes what a pod has become. It is deleted before it is gone.
func (s *sightings) see(obj any, now time.Time) {
	pod := obj.(*corev1.Pod)
	if pod.Status.PodIP == "" {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	// No address is given out twice.
	address := pod.Status.PodIP
	s.came[address] = cmp.Or(s.came[address], now)
	if pod.DeletionTimestamp != nil {
		s.went[address] = cmp.Or(s.went[address], now)
	}
}

// addressed is when addresses were given out since a moment.
func (s *sightings) addressed(start time.Time) map[string]time.Time { return s.since(s.came, start) }

// ended is when pods began to end since a moment.
func (s *sightings) ended(start time.Time) map[string]time.Time { return s.since(s.went, start) }

func (s *sightings) since(all map[string]time.Time, start time.Time) map[string]time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := map[string]time.Time{}
	for address, at := range all {
		if !at.Before(start) {
			out[address] = at
		}
	}
	return out
}
