package aws

import (
	"context"
	"strconv"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	"github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"
	"github.com/mumoshu/ingress-daemonset-controller/internal/targets"
)

// Keys of attributes, their defaults and bounds: API_TargetGroupAttribute and
// API_LoadBalancerAttribute in the API reference 2015-12-01.
const (
	delayKey        = "deregistration_delay.timeout_seconds"
	endsAfterDelay  = "deregistration_delay.connection_termination.enabled"
	endsOfUnhealthy = "target_health_state.unhealthy.connection_termination.enabled"
	crossZoneKey    = "load_balancing.cross_zone.enabled"

	failoverCount   = "target_group_health.dns_failover.minimum_healthy_targets.count"
	failoverPercent = "target_group_health.dns_failover.minimum_healthy_targets.percentage"
	routingCount    = "target_group_health.unhealthy_state_routing.minimum_healthy_targets.count"
	routingPercent  = "target_group_health.unhealthy_state_routing.minimum_healthy_targets.percentage"

	defaultDelay = 300 * time.Second
	// longestDelay is assumed where the delay cannot be read: to wait too long loses nothing.
	longestDelay = time.Hour
)

// addAttributes adds what the attributes of a target group say, and those of its
// load balancers where the group leaves it to them.
func (c *Client) addAttributes(ctx context.Context, g *targets.Group) error {
	values, err := c.attributes.get(g.ID, func() (map[string]string, error) { return c.groupAttributes(ctx, g.ID) })
	if err != nil {
		return err
	}
	g.Delay = delay(values[delayKey])
	g.EndsConnectionsAfterDelay = values[endsAfterDelay] == "true"
	// Only network load balancers have it, where it is on unless it is turned off.
	g.EndsConnectionsOfUnhealthy = g.Balancer == targets.Network && values[endsOfUnhealthy] != "false"
	g.MinHealthy = max(minimum(values, failoverCount, 1), minimum(values, routingCount, 1))
	g.MinHealthyPercent = max(minimum(values, failoverPercent, 0), minimum(values, routingPercent, 0))
	g.CrossZone, err = c.crossZone(ctx, g.Balancer, values[crossZoneKey], g.Balancers)
	return err
}

// crossZone is the group's own setting, or otherwise that of the load balancers
// that use it: always on for application load balancers, off by default for network
// ones.
func (c *Client) crossZone(ctx context.Context, kind targets.Balancer, own string, balancers []string) (bool, error) {
	switch {
	case own == "true" || own == "false":
		return own == "true", nil
	case kind == targets.Application:
		return true, nil
	}
	on := len(balancers) > 0
	for _, arn := range balancers {
		values, err := c.attributes.get(arn, func() (map[string]string, error) { return c.balancerAttributes(ctx, arn) })
		if err != nil {
			return false, err
		}
		on = on && values[crossZoneKey] == "true"
	}
	return on, nil
}

func (c *Client) groupAttributes(ctx context.Context, arn string) (map[string]string, error) {
	out, err := call(ctx, c, describeTargetGroupAttributes, arn, c.v2.DescribeTargetGroupAttributes,
		&elasticloadbalancingv2.DescribeTargetGroupAttributesInput{TargetGroupArn: &arn})
	switch {
	case err != nil:
		return nil, err
	case out.Attributes == nil:
		return nil, unreadable(describeTargetGroupAttributes, "attributes")
	}
	return byKey(out.Attributes, func(a types.TargetGroupAttribute) (key, value *string) { return a.Key, a.Value }), nil
}

func (c *Client) balancerAttributes(ctx context.Context, arn string) (map[string]string, error) {
	out, err := call(ctx, c, describeLoadBalancerAttributes, "", c.v2.DescribeLoadBalancerAttributes,
		&elasticloadbalancingv2.DescribeLoadBalancerAttributesInput{LoadBalancerArn: &arn})
	switch {
	case err != nil:
		return nil, err
	case out.Attributes == nil:
		return nil, unreadable(describeLoadBalancerAttributes, "attributes")
	}
	return byKey(out.Attributes, func(a types.LoadBalancerAttribute) (key, value *string) { return a.Key, a.Value }), nil
}

// byKey are attributes or tags by their keys.
func byKey[T any](list []T, of func(T) (key, value *string)) map[string]string {
	values := map[string]string{}
	for _, one := range list {
		key, value := of(one)
		values[sdk.ToString(key)] = sdk.ToString(value)
	}
	return values
}

func delay(value string) time.Duration {
	if value == "" {
		return defaultDelay
	}
	seconds, err := strconv.Atoi(value)
	if err != nil || seconds < 0 {
		return longestDelay
	}
	return time.Duration(seconds) * time.Second
}

// minimum is a number of targets or a percentage, which may be "off".
func minimum(values map[string]string, key string, unset int) int {
	if values[key] == "off" {
		return 0
	}
	n, err := strconv.Atoi(values[key])
	if err != nil {
		return unset
	}
	return n
}
