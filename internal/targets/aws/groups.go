package aws

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing"
	"github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	"github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"
	"github.com/mumoshu/ingress-daemonset-controller/internal/targets"
)

const (
	// pageSize is the API's upper bound, and its default.
	pageSize = 400
	// together is how many resources the tags of which can be asked for at once, in both
	// versions of the API. For the names of groups no bound is documented.
	together = 20
)

// Groups are all target groups of network and application load balancers that hold
// instances or addresses, and all classic load balancers, of the region and the role's
// account: one request for 400. They have neither tags nor attributes.
//
// It fails as a whole: with a part of the groups missing, the rest would look deleted.
func (c *Client) Groups(ctx context.Context) ([]targets.Group, error) {
	groups, err := c.targetGroups(ctx, &elasticloadbalancingv2.DescribeTargetGroupsInput{PageSize: sdk.Int32(pageSize)})
	if err != nil {
		return nil, err
	}
	classic, err := c.classicBalancers(ctx, &elasticloadbalancing.DescribeLoadBalancersInput{PageSize: sdk.Int32(pageSize)})
	if err != nil {
		return nil, err
	}
	c.attributes.forget()
	return append(groups, classic...), nil
}

// Named are those of some groups that there are, as Groups has them. A request that names
// one which is not there is refused whole, so that the others are asked for without it.
func (c *Client) Named(ctx context.Context, names []targets.GroupName) ([]targets.Group, error) {
	var arns, classic, byName []string
	for _, n := range names {
		switch {
		case strings.HasPrefix(n.ID, "arn:"):
			arns = append(arns, n.ID)
		case n.ID != "":
			classic = append(classic, n.ID)
		default:
			byName = append(byName, n.Name)
		}
	}
	var all []targets.Group
	for _, kind := range []struct {
		names []string
		read  func([]string) ([]targets.Group, error)
	}{
		{arns, func(names []string) ([]targets.Group, error) {
			return c.targetGroups(ctx, &elasticloadbalancingv2.DescribeTargetGroupsInput{TargetGroupArns: names})
		}},
		{byName, func(names []string) ([]targets.Group, error) {
			return c.targetGroups(ctx, &elasticloadbalancingv2.DescribeTargetGroupsInput{Names: names})
		}},
		{classic, func(names []string) ([]targets.Group, error) {
			return c.classicBalancers(ctx, &elasticloadbalancing.DescribeLoadBalancersInput{LoadBalancerNames: names})
		}},
	} {
		for chunk := range slices.Chunk(kind.names, together) {
			found, err := present(chunk, kind.read)
			if err != nil {
				return nil, err
			}
			all = append(all, found...)
		}
	}
	return all, nil
}

// present is what is found of some names, also where some of them are refused: those are
// not there. It asks for each half of what is refused.
func present[T any](names []string, read func([]string) ([]T, error)) ([]T, error) {
	found, err := read(names)
	if f, ok := errors.AsType[*Failure](err); !ok || f.Kind != NotFound && f.Kind != Invalid {
		return found, err
	}
	if len(names) == 1 {
		return nil, nil
	}
	first, err := present(names[:len(names)/2], read)
	if err != nil {
		return nil, err
	}
	second, err := present(names[len(names)/2:], read)
	return append(first, second...), err
}

// targetGroups reads target groups page by page.
func (c *Client) targetGroups(ctx context.Context, in *elasticloadbalancingv2.DescribeTargetGroupsInput) ([]targets.Group, error) {
	var found []targets.Group
	err := pages(describeTargetGroups, func(marker *string) (*string, error) {
		in.Marker = marker
		out, err := call(ctx, c, describeTargetGroups, "", c.v2.DescribeTargetGroups, in)
		switch {
		case err != nil:
			return nil, err
		case out.TargetGroups == nil:
			return nil, unreadable(describeTargetGroups, "list of target groups")
		}
		for _, tg := range out.TargetGroups {
			if sdk.ToString(tg.TargetGroupArn) == "" {
				return nil, unreadable(describeTargetGroups, "ARN of a target group")
			}
			if balancer(tg) != "" && targetType(tg) != "" {
				found = append(found, describe(tg))
			}
		}
		return out.NextMarker, nil
	})
	if err != nil {
		return nil, err
	}
	return found, nil
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
		Balancers:    tg.LoadBalancerArns,
		InUse:        len(tg.LoadBalancerArns) > 0,
		LeftAlone:    leftAlone(tg.Protocol),
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

// leftAlone says why nothing can be registered with groups of a protocol. The targets of QUIC
// have server ids, which those who run them choose (API_TargetDescription in the API
// reference 2015-12-01).
func leftAlone(p types.ProtocolEnum) string {
	if p == types.ProtocolEnumQuic || p == types.ProtocolEnumTcpQuic {
		return fmt.Sprintf("its protocol is %s, whose targets are registered with server ids that this controller does not know", p)
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

// Tags are those of some groups, by ID: one request for 20. Groups that are gone are not in it.
func (c *Client) Tags(ctx context.Context, groups []targets.Group) (map[string]map[string]string, error) {
	var arns, classic []string
	for _, g := range groups {
		if g.Balancer == targets.Classic {
			classic = append(classic, g.ID)
		} else {
			arns = append(arns, g.ID)
		}
	}
	all := map[string]map[string]string{}
	for _, kind := range []struct {
		ids  []string
		read func([]string) ([]tagged, error)
	}{
		{arns, func(ids []string) ([]tagged, error) { return c.tags(ctx, ids) }},
		{classic, func(ids []string) ([]tagged, error) { return c.classicTags(ctx, ids) }},
	} {
		for chunk := range slices.Chunk(kind.ids, together) {
			found, err := present(chunk, kind.read)
			if err != nil {
				return nil, err
			}
			for _, t := range found {
				all[t.id] = t.tags
			}
		}
	}
	return all, nil
}

// tagged is a group and its tags.
type tagged struct {
	id   string
	tags map[string]string
}

func (c *Client) tags(ctx context.Context, arns []string) ([]tagged, error) {
	out, err := call(ctx, c, describeTags, "", c.v2.DescribeTags, &elasticloadbalancingv2.DescribeTagsInput{ResourceArns: arns})
	switch {
	case err != nil:
		return nil, err
	case out.TagDescriptions == nil:
		return nil, unreadable(describeTags, "list of tags")
	}
	var all []tagged
	for _, d := range out.TagDescriptions {
		all = append(all, tagged{sdk.ToString(d.ResourceArn), byKey(d.Tags, func(t types.Tag) (key, value *string) { return t.Key, t.Value })})
	}
	return all, nil
}

// Describe is a group with its attributes, those of its load balancers where it leaves them
// to these: one request each, none while they are remembered.
func (c *Client) Describe(ctx context.Context, g targets.Group) (targets.Group, error) {
	if g.Balancer == targets.Classic {
		err := c.addClassicAttributes(ctx, &g)
		return g, err
	}
	err := c.addAttributes(ctx, &g)
	return g, err
}
