package aws

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing"
	"github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	"github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"
	"github.com/mumoshu/ingress-daemonset-controller/internal/targets"
)

// Register puts at most 200 targets into a group with one request: all of them or
// none. Targets that are there are left as they are, and one that drains is put back.
func (c *Client) Register(ctx context.Context, g targets.Group, rs []targets.Registration) error {
	var ts []targets.Target
	for _, r := range rs {
		ts = append(ts, r.Target)
	}
	switch err := sendable(registerTargets, g, ts); {
	case err != nil || len(ts) == 0:
		return err
	case g.Balancer == targets.Classic:
		_, err := call(ctx, c, registerInstances, g.ID, c.classic.RegisterInstancesWithLoadBalancer,
			&elasticloadbalancing.RegisterInstancesWithLoadBalancerInput{LoadBalancerName: &g.ID, Instances: instances(ts)})
		return naming(err, ts)
	}
	var described []types.TargetDescription
	for _, r := range rs {
		d := description(r.Target)
		if r.Zone != "" {
			d.AvailabilityZone = &r.Zone
		}
		described = append(described, d)
	}
	_, err := call(ctx, c, registerTargets, g.ID, c.v2.RegisterTargets,
		&elasticloadbalancingv2.RegisterTargetsInput{TargetGroupArn: &g.ID, Targets: described})
	return naming(err, ts)
}

// Deregister takes at most 200 targets out of a group with one request. That it was
// accepted says nothing: AWS accepts a target that is not there, and traffic flows on
// for a while. What became of it is what List says.
func (c *Client) Deregister(ctx context.Context, g targets.Group, ts []targets.Target) error {
	switch err := sendable(deregisterTargets, g, ts); {
	case err != nil || len(ts) == 0:
		return err
	case g.Balancer == targets.Classic:
		_, err := call(ctx, c, deregisterInstances, g.ID, c.classic.DeregisterInstancesFromLoadBalancer,
			&elasticloadbalancing.DeregisterInstancesFromLoadBalancerInput{LoadBalancerName: &g.ID, Instances: instances(ts)})
		return naming(err, ts)
	}
	var described []types.TargetDescription
	for _, t := range ts {
		described = append(described, description(t))
	}
	_, err := call(ctx, c, deregisterTargets, g.ID, c.v2.DeregisterTargets,
		&elasticloadbalancingv2.DeregisterTargetsInput{TargetGroupArn: &g.ID, Targets: described})
	return naming(err, ts)
}

// sendable refuses what AWS would take for something else. A target that was
// registered with a port of its own and is deregistered without stays where it is,
// and AWS reports success.
func sendable(a Action, g targets.Group, ts []targets.Target) error {
	f := &Failure{Kind: Invalid, Action: a.Permission()}
	if len(ts) > most {
		f.Message = fmt.Sprintf("%d targets in one request, which takes %d", len(ts), most)
		return f
	}
	for _, t := range ts {
		if t.ID == "" || t.Port == 0 && g.Balancer != targets.Classic {
			f.Targets = append(f.Targets, t)
		}
	}
	if len(f.Targets) > 0 {
		f.Message = "a target without an id or a port"
		return f
	}
	return nil
}
