package balancer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	elb "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	"github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"

	"github.com/mumoshu/ingress-daemonset-controller/test/aws"
	"github.com/mumoshu/ingress-daemonset-controller/test/aws/access"
	"github.com/mumoshu/ingress-daemonset-controller/test/aws/cloud"
	"github.com/mumoshu/ingress-daemonset-controller/test/cluster"
	"github.com/mumoshu/ingress-daemonset-controller/test/harness"
)

const (
	region   = "eu-central-1"
	audience = "sts.amazonaws.com"
	roleName = "ingress-daemonset-controller"
	roleARN  = "arn:aws:iam::123456789012:role/" + roleName
	// ours is who stands for an administrator, or an Auto Scaling group.
	ours = "arn:aws:iam::123456789012:user/administrator"

	apiPort = 4566
	// The load balancer's ports, one for each group.
	nodesPort = 8080
	podsPort  = 8081
	// The health-check node port of the fleet whose nodes are targets.
	nodesCheckPort = 10080

	// Health checks have AWS's default interval, and a timeout that is long enough a tenth
	// of it for pods of which many start at once: a target that turned unhealthy meanwhile
	// would have its connections reset.
	checkInterval, checkTimeout = 30, 20

	// The deregistration delay is much shorter than the scaled settle time: attributes are told
	// as AWS has them, and the controller waits for a delay as it stands. What is shown is
	// that it waits for the settle time: new connections come for long after the delay.
	delayAttribute = "deregistration_delay.timeout_seconds"
	delaySeconds   = "5"
)

type target = cloud.Target

// account is the emulator of AWS, in the network outside the nodes.
type account struct {
	*aws.Process
	admin *aws.Client
	api   *elb.Client
	arns  map[string]string // of the groups, by name
	// groups are as they were made, by name.
	groups map[string]cloud.TargetGroup
	dir    string
}

// openAccount starts it with the cluster's nodes as its instances and two empty target
// groups behind one network load balancer.
func openAccount(ctx context.Context, s *harness.Harness, o Options, policy json.RawMessage) (*account, error) {
	emulator, err := s.Lab(ctx, "aws")
	if err != nil {
		return nil, err
	}
	// The path of its socket must be short.
	dir, err := os.MkdirTemp("", "aws-")
	if err != nil {
		return nil, err
	}
	config := configure(s, o, policy)
	config.Listen.Admin = "unix:" + filepath.Join(dir, "admin")
	process, err := aws.StartProcess(emulator, config)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	a := &account{Process: process, admin: aws.NewClient(config.Listen.Admin), arns: map[string]string{}, groups: map[string]cloud.TargetGroup{}, dir: dir}
	for _, g := range config.TargetGroups {
		a.groups[g.Name] = g
	}
	a.api = elb.New(elb.Options{
		Region: region, BaseEndpoint: sdk.String("http://" + config.Listen.API),
		Credentials: credentials.NewStaticCredentialsProvider("AKIAADMINISTRATOR", "administrator-secret", ""),
		HTTPClient:  &http.Client{Transport: &http.Transport{DialContext: s.DialContext}},
	})
	groups, err := a.admin.TargetGroups(ctx)
	if err != nil {
		a.close()
		return nil, err
	}
	for _, g := range groups {
		a.arns[g.Name] = g.ARN
	}
	return a, nil
}

func (a *account) close() {
	a.Stop()
	_ = os.RemoveAll(a.dir)
}

func configure(s *harness.Harness, o Options, policy json.RawMessage) aws.Config {
	config := aws.Config{
		Spec: cloud.Spec{
			Seed: o.Seed, Scale: o.Scale, Region: region,
			TargetGroups: []cloud.TargetGroup{
				{
					Name: "nodes", Protocol: "TCP", Port: 80, TargetType: "instance",
					HealthCheck: cloud.HealthCheck{Protocol: "HTTP", Port: strconv.Itoa(nodesCheckPort), IntervalSeconds: checkInterval, TimeoutSeconds: checkTimeout},
					Attributes:  map[string]string{delayAttribute: delaySeconds},
				},
				{
					Name: "pods", Protocol: "TCP", Port: 8080, TargetType: "ip", Tags: map[string]string{"ingress": "pods"},
					HealthCheck: cloud.HealthCheck{Protocol: "HTTP", Port: "10254", Path: "/healthz", IntervalSeconds: checkInterval, TimeoutSeconds: checkTimeout},
					Attributes:  map[string]string{delayAttribute: delaySeconds},
				},
			},
		},
		Access: access.Config{
			// Short, so that they are renewed meanwhile.
			LifetimeSeconds: 900,
			Users:           []access.User{{Name: "administrator", AccessKeyID: "AKIAADMINISTRATOR", SecretKey: "administrator-secret", Policy: json.RawMessage(`{"Version": "2012-10-17", "Statement": {"Effect": "Allow", "Action": "*", "Resource": "*"}}`)}},
			Roles: []access.Role{{Name: roleName, Policy: policy, WebIdentity: &access.Issuer{
				URL: cluster.Issuer, Audience: audience, Subjects: []string{"system:serviceaccount:" + harness.Namespace + ":" + serviceAccount},
			}}},
		},
		Listen: aws.Listen{API: net.JoinHostPort(s.HostIP(), strconv.Itoa(apiPort))},
	}
	front := cloud.LoadBalancer{Name: "front", Type: "network", Any: s.HostIP(), Attributes: map[string]string{"load_balancing.cross_zone.enabled": "true"}, Listeners: []cloud.Listener{
		{Protocol: "TCP", Port: nodesPort, TargetGroup: "nodes"}, {Protocol: "TCP", Port: podsPort, TargetGroup: "pods"},
	}}
	zones := map[string]bool{}
	for _, n := range s.Nodes() {
		config.Instances = append(config.Instances, cloud.Instance{ID: instanceOf(n), Address: netip.MustParseAddr(n.IP()), Zone: n.Zone()})
		config.VPC.Subnets = append(config.VPC.Subnets, cloud.Subnet{CIDR: netip.MustParsePrefix(n.PodSubnet()), Zone: n.Zone()})
		if !zones[n.Zone()] {
			zones[n.Zone()] = true
			front.Zones = append(front.Zones, cloud.Zone{Name: n.Zone()})
		}
	}
	config.LoadBalancers = []cloud.LoadBalancer{front}
	return config
}

// instanceOf is the instance that a node is.
func instanceOf(n *cluster.Node) string { return "i-" + n.Name() }

// registerNodes puts all nodes into the group of instances, as an Auto Scaling group
// does, so that they are somebody else's targets.
func (a *account) registerNodes(ctx context.Context, nodes []*cluster.Node) error {
	arn := a.arns["nodes"]
	in := &elb.RegisterTargetsInput{TargetGroupArn: &arn}
	for _, n := range nodes {
		in.Targets = append(in.Targets, types.TargetDescription{Id: sdk.String(instanceOf(n))})
	}
	if _, err := a.api.RegisterTargets(ctx, in); err != nil {
		return fmt.Errorf("registering the nodes: %w", err)
	}
	return nil
}

// waitHealthy waits until just so many targets are in a group, and all are healthy,
// those that drain apart.
func (a *account) waitHealthy(ctx context.Context, group string, want int) error {
	last := ""
	err := harness.Wait(ctx, fmt.Sprintf("%d healthy targets in group %s", want, group), func() (bool, error) {
		// Reads are limited, and the controller needs them.
		pause(ctx, time.Second)
		arn := a.arns[group]
		out, err := a.api.DescribeTargetHealth(ctx, &elb.DescribeTargetHealthInput{TargetGroupArn: &arn})
		if err != nil {
			return false, err
		}
		counts := map[types.TargetHealthStateEnum]int{}
		for _, t := range out.TargetHealthDescriptions {
			counts[t.TargetHealth.State]++
		}
		last = fmt.Sprint(counts)
		delete(counts, types.TargetHealthStateEnumDraining)
		return counts[types.TargetHealthStateEnumHealthy] == want && len(counts) == 1, nil
	})
	if err != nil {
		return fmt.Errorf("%w; last seen: %s", err, last)
	}
	return nil
}

// pause waits for a time, or until ctx is over.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
