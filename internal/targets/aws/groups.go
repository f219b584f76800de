package aws

import (
	"context"
	"slices"
	"strconv"
	"strings"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	"github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"
	"github.com/mumoshu/ingress-daemonset-controller/internal/targets"
)

const (
	// pageSize is the API's upper bound, and its default.
	pageSize = 400
	// tagged is how many resources the tags of which can be asked for at once, in both
	// versions of the API.
	tagged = 20
)

// Groups are all target groups of network and application load balancers that hold
// instances or addresses, and all classic load balancers, of the region and the
// role's account. Attributes may be as old as Options.AttributesFor, the rest is
// read now.
//
// It fails as a whole: with a part of the groups missing, the rest would look
// deleted. NotFound here says that a group was deleted while the others were read.
func (c *Client) Groups(ctx context.Context) ([]targets.Group, error) {
	found, err := c.targetGroups(ctx, &elasticloadbalancingv2.DescribeTargetGroupsInput{PageSize: sdk.Int32(pageSize)})
	if err != nil {
		return nil, err
	}
	groups, err := c.whole(ctx, found, false)
	if err != nil {
		return nil, err
	}
	classic, err := c.classicBalancers(ctx, "", false)
	if err != nil {
		return nil, err
	}
	c.attributes.forget()
	return append(groups, classic...), nil
}

// Group is the group of that ID: the ARN of a target group, the name of a classic
// load balancer. Everything is read now, attributes included, in three or four
// calls. A group that Groups leaves out is NotFound.
func (c *Client) Group(ctx context.Context, id string) (targets.Group, error) {
	if strings.HasPrefix(id, "arn:") {
		return c.oneTargetGroup(ctx, id, &elasticloadbalancingv2.DescribeTargetGroupsInput{TargetGroupArns: []string{id}})
	}
	found, err := c.classicBalancers(ctx, id, true)
	return single(describeClassicBalancers, id, found, err)
}

// GroupNamed is the target group of that name, read as Group does.
func (c *Client) GroupNamed(ctx context.Context, name string) (targets.Group, error) {
	return c.oneTargetGroup(ctx, name, &elasticloadbalancingv2.DescribeTargetGroupsInput{Names: []string{name}})
}

func (c *Client) oneTargetGroup(ctx context.Context, name string, in *elasticloadbalancingv2.DescribeTargetGroupsInput) (targets.Group, error) {
	found, err := c.targetGroups(ctx, in)
	if err != nil {
		return targets.Group{}, err
	}
	groups, err := c.whole(ctx, found, true)
	return single(describeTargetGroups, name, groups, err)
}

func single(a Action, name string, found []targets.Group, err error) (targets.Group, error) {
	switch {
	case err != nil:
		return targets.Group{}, err
	case len(found) != 1:
		return targets.Group{}, &Failure{Kind: NotFound, Action: a.Permission(),
			Message: "there is no " + name + " that takes instances or addresses and is of a network, application or classic load balancer"}
	}
	return found[0], nil
}

// targetGroups reads target groups page by page.
func (c *Client) targetGroups(ctx context.Context, in *elasticloadbalancingv2.DescribeTargetGroupsInput) ([]types.TargetGroup, error) {
	var found []types.TargetGroup
	err := pages(describeTargetGroups, func(marker *string) (*string, error) {
		in.Marker = marker
		out, err := call(ctx, c, describeTargetGroups, "", c.v2.DescribeTargetGroups, in)
		switch {
		case err != nil:
			return nil, err
		case out.TargetGroups == nil:
			return nil, unreadable(describeTargetGroups, "list of target groups")
		case slices.ContainsFunc(out.TargetGroups, func(tg types.TargetGroup) bool { return sdk.ToString(tg.TargetGroupArn) == "" }):
			return nil, unreadable(describeTargetGroups, "ARN of a target group")
		}
		found = append(found, out.TargetGroups...)
		return out.NextMarker, nil
	})
	return found, err
}

// pages asks for pages until there are no more.
func pages(a Action, read func(marker *string) (next *string, err error)) error {
	var marker *string
	for {
		next, err := read(marker)
		switch {
		case err != nil:
			return err
		case sdk.ToString(next) == "":
			return nil
		case sdk.ToString(next) == sdk.ToString(marker):
			return unreadable(a, "page but one that was read before")
		}
		marker = next
	}
}

// whole adds tags and attributes to what describes target groups, and leaves out
// those of other kinds.
func (c *Client) whole(ctx context.Context, found []types.TargetGroup, live bool) ([]targets.Group, error) {
	found = slices.DeleteFunc(found, func(tg types.TargetGroup) bool { return balancer(tg) == "" || targetType(tg) == "" })
	var arns []string
	for _, tg := range found {
		arns = append(arns, sdk.ToString(tg.TargetGroupArn))
	}
	tags, err := c.tags(ctx, arns)
	if err != nil {
		return nil, err
	}
	var groups []targets.Group
	for _, tg := range found {
		g := describe(tg)
		g.Tags = tags[g.ID]
		if err := c.addAttributes(ctx, &g, tg.LoadBalancerArns, live); err != nil {
			return nil, err
		}
		groups = append(groups, g)
	}
	return groups, nil
}

// describe is what a target group says of itself.
func describe(tg types.TargetGroup) targets.Group {
	checked := sdk.ToString(tg.HealthCheckPort)
	return targets.Group{
		ID:           sdk.ToString(tg.TargetGroupArn),
		Name:         sdk.ToString(tg.TargetGroupName),
		Balancer:     balancer(tg),
		Type:         targetType(tg),
		IPv6:         tg.IpAddressType == types.TargetGroupIpAddressTypeEnumIpv6,
		Port:         sdk.ToInt32(tg.Port),
		Datagrams:    datagrams(tg.Protocol),
		InUse:        len(tg.LoadBalancerArns) > 0,
		ChecksTarget: checked == "traffic-port" || checked == strconv.Itoa(int(sdk.ToInt32(tg.Port))),
	}
}

// balancer is the kind of load balancer that a target group is made for: its
// protocol says so also where none uses it. Gateway load balancers have GENEVE.
func balancer(tg types.TargetGroup) targets.Balancer {
	switch tg.Protocol {
	case types.ProtocolEnumHttp, types.ProtocolEnumHttps:
		return targets.Application
	case types.ProtocolEnumTcp, types.ProtocolEnumTls, types.ProtocolEnumUdp, types.ProtocolEnumTcpUdp,
		types.ProtocolEnumQuic, types.ProtocolEnumTcpQuic:
		return targets.Network
	}
	return ""
}

func datagrams(p types.ProtocolEnum) bool {
	return p == types.ProtocolEnumUdp || p == types.ProtocolEnumTcpUdp || p == types.ProtocolEnumQuic || p == types.ProtocolEnumTcpQuic
}

func targetType(tg types.TargetGroup) targets.TargetType {
	switch tg.TargetType {
	case types.TargetTypeEnumInstance:
		return targets.Instance
	case types.TargetTypeEnumIp:
		return targets.IP
	}
	return ""
}

// tags are those of the groups, by ARN.
func (c *Client) tags(ctx context.Context, arns []string) (map[string]map[string]string, error) {
	all := map[string]map[string]string{}
	for chunk := range slices.Chunk(arns, tagged) {
		out, err := call(ctx, c, describeTags, "", c.v2.DescribeTags, &elasticloadbalancingv2.DescribeTagsInput{ResourceArns: chunk})
		switch {
		case err != nil:
			return nil, err
		case out.TagDescriptions == nil:
			return nil, unreadable(describeTags, "list of tags")
		}
		for _, d := range out.TagDescriptions {
			all[sdk.ToString(d.ResourceArn)] = byKey(d.Tags, func(t types.Tag) (key, value *string) { return t.Key, t.Value })
		}
	}
	return all, nil
}
