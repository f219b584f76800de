package aws

import (
	"context"
	"strconv"
	"strings"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing"
	"github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing/types"
	"github.com/mumoshu/ingress-daemonset-controller/internal/targets"
)

// classicBalancers reads classic load balancers page by page.
func (c *Client) classicBalancers(ctx context.Context, in *elasticloadbalancing.DescribeLoadBalancersInput) ([]targets.Group, error) {
	var groups []targets.Group
	err := pages(describeClassicBalancers, func(marker *string) (*string, error) {
		in.Marker = marker
		out, err := call(ctx, c, describeClassicBalancers, "", c.classic.DescribeLoadBalancers, in)
		switch {
		case err != nil:
			return nil, err
		case out.LoadBalancerDescriptions == nil:
			return nil, unreadable(describeClassicBalancers, "list of load balancers")
		}
		for _, d := range out.LoadBalancerDescriptions {
			if sdk.ToString(d.LoadBalancerName) == "" {
				return nil, unreadable(describeClassicBalancers, "name of a load balancer")
			}
			groups = append(groups, describeClassic(d))
		}
		return out.NextMarker, nil
	})
	if err != nil {
		return nil, err
	}
	return groups, nil
}

// describeClassic is what a classic load balancer says of itself. An instance is
// registered in it once, whatever the ports of its listeners; the first of them
// stands for all.
func describeClassic(d types.LoadBalancerDescription) targets.Group {
	g := targets.Group{
		ID:       sdk.ToString(d.LoadBalancerName),
		Name:     sdk.ToString(d.LoadBalancerName),
		Balancer: targets.Classic,
		Type:     targets.Instance,
		InUse:    len(d.ListenerDescriptions) > 0,
	}
	checked := checkedPort(d.HealthCheck)
	for _, l := range d.ListenerDescriptions {
		if l.Listener == nil {
			continue
		}
		port := sdk.ToInt32(l.Listener.InstancePort)
		if g.Port == 0 {
			g.Port = port
		}
		if port != 0 {
			g.Ports = append(g.Ports, port)
		}
		g.ChecksTarget = g.ChecksTarget || port != 0 && port == checked
	}
	return g
}

// checkedPort is that of a health check's target, such as HTTP:10080/healthz.
func checkedPort(h *types.HealthCheck) int32 {
	if h == nil {
		return 0
	}
	_, rest, _ := strings.Cut(sdk.ToString(h.Target), ":")
	digits, _, _ := strings.Cut(rest, "/")
	port, err := strconv.ParseInt(digits, 10, 32)
	if err != nil {
		return 0
	}
	return int32(port)
}

func (c *Client) classicTags(ctx context.Context, names []string) ([]tagged, error) {
	out, err := call(ctx, c, describeClassicTags, "", c.classic.DescribeTags, &elasticloadbalancing.DescribeTagsInput{LoadBalancerNames: names})
	switch {
	case err != nil:
		return nil, err
	case out.TagDescriptions == nil:
		return nil, unreadable(describeClassicTags, "list of tags")
	}
	var all []tagged
	for _, d := range out.TagDescriptions {
		all = append(all, tagged{sdk.ToString(d.LoadBalancerName), byKey(d.Tags, func(t types.Tag) (key, value *string) { return t.Key, t.Value })})
	}
	return all, nil
}

// addClassicAttributes adds what a classic load balancer's attributes say. Without
// connection draining it closes the connections of an instance as soon as that is
// deregistered or unhealthy; with it, those of a deregistered one when the time is
// over, and those of an unhealthy one never (Classic Load Balancers guide,
// "Configure connection draining").
func (c *Client) addClassicAttributes(ctx context.Context, g *targets.Group) error {
	values, err := c.attributes.get(g.ID, func() (map[string]string, error) { return c.classicAttributes(ctx, g.ID) })
	if err != nil {
		return err
	}
	g.CrossZone = values[crossZoneKey] == "true"
	g.Delay = delay(values[delayKey])
	g.EndsConnectionsAfterDelay = true
	g.EndsConnectionsOfUnhealthy = g.Delay == 0
	return nil
}

// classicAttributes are those of a classic load balancer under the keys that target
// groups have for them. The time of connection draining is at least a second, so 0
// says that it is off.
func (c *Client) classicAttributes(ctx context.Context, name string) (map[string]string, error) {
	out, err := call(ctx, c, describeClassicAttributes, name, c.classic.DescribeLoadBalancerAttributes,
		&elasticloadbalancing.DescribeLoadBalancerAttributesInput{LoadBalancerName: &name})
	switch {
	case err != nil:
		return nil, err
	case out.LoadBalancerAttributes == nil:
		return nil, unreadable(describeClassicAttributes, "attributes")
	}
	values := map[string]string{delayKey: "0"}
	if z := out.LoadBalancerAttributes.CrossZoneLoadBalancing; z != nil {
		values[crossZoneKey] = strconv.FormatBool(z.Enabled)
	}
	if d := out.LoadBalancerAttributes.ConnectionDraining; d != nil && d.Enabled {
		values[delayKey] = ""
		if d.Timeout != nil {
			values[delayKey] = strconv.Itoa(int(*d.Timeout))
		}
	}
	return values, nil
}
