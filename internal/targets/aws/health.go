package aws

import (
	"context"
	"maps"
	"net/netip"
	"slices"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	"github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"
	"github.com/mumoshu/ingress-daemonset-controller/internal/targets"
)

// most is how many targets one request carries, as the AWS Load Balancer Controller
// has it; AWS documents no bound, and was seen to refuse larger requests now and
// then (kubernetes#101592).
const most = 200

// gone is what AWS says of a target that the group does not have.
var gone = targets.Health{Condition: targets.Unused, Reason: targets.NotRegistered}

// List is the state of a group's targets: of all that are registered or draining,
// in one call however many they are, or only of those asked for, 200 a call. Of the
// latter, one that is not in the group is Unused and NotRegistered; one of which AWS
// says nothing is not in the map, and nothing is known of it. Of a classic load
// balancer AWS documents only that all registered instances are listed
// (API_DescribeInstanceHealth in the API reference 2012-06-01): whether one still
// drains shows when it is asked for.
//
// Conditions and reasons are AWS's own words, also those that package targets does
// not know; one that is missing is empty. Zones are known only for addresses. A
// target of a classic load balancer has the port of the group, or the one it was
// asked for with.
func (c *Client) List(ctx context.Context, g targets.Group, only []targets.Target) (map[targets.Target]targets.Health, error) {
	if len(only) == 0 {
		return c.ask(ctx, g, nil)
	}
	all := map[targets.Target]targets.Health{}
	for chunk := range slices.Chunk(only, most) {
		found, err := c.live(ctx, g, chunk)
		if err != nil {
			return nil, err
		}
		for _, t := range chunk {
			if health, ok := found[t]; ok {
				all[t] = health
			}
		}
	}
	return all, nil
}

// live is the state of some targets. A request that names an instance which was
// never registered, or is long terminated, is refused whole; alone, that one is not
// in the group, as AWS's own waiters take it (TargetDeregistered and
// InstanceDeregistered in the service models).
func (c *Client) live(ctx context.Context, g targets.Group, only []targets.Target) (map[targets.Target]targets.Health, error) {
	found, err := c.ask(ctx, g, only)
	if err == nil || !refusesTarget(err) {
		return found, err
	}
	if len(only) == 1 {
		return map[targets.Target]targets.Health{only[0]: gone}, nil
	}
	half := len(only) / 2
	first, err := c.live(ctx, g, only[:half])
	if err != nil {
		return nil, err
	}
	second, err := c.live(ctx, g, only[half:])
	if err != nil {
		return nil, err
	}
	maps.Copy(first, second)
	return first, nil
}

// ask makes one request.
func (c *Client) ask(ctx context.Context, g targets.Group, only []targets.Target) (map[targets.Target]targets.Health, error) {
	if g.Balancer == targets.Classic {
		return c.askClassic(ctx, g, only)
	}
	in := &elasticloadbalancingv2.DescribeTargetHealthInput{TargetGroupArn: &g.ID}
	for _, t := range only {
		in.Targets = append(in.Targets, description(t))
	}
	out, err := call(ctx, c, describeTargetHealth, g.ID, c.v2.DescribeTargetHealth, in)
	switch {
	case err != nil:
		return nil, err
	case out.TargetHealthDescriptions == nil:
		return nil, unreadable(describeTargetHealth, "list of targets")
	}
	found := map[targets.Target]targets.Health{}
	for _, d := range out.TargetHealthDescriptions {
		if d.Target == nil || sdk.ToString(d.Target.Id) == "" {
			return nil, unreadable(describeTargetHealth, "target's id beside its health")
		}
		found[target(g, d.Target)] = health(d)
	}
	return found, nil
}

func description(t targets.Target) types.TargetDescription {
	d := types.TargetDescription{Id: &t.ID}
	if t.Port != 0 {
		d.Port = &t.Port
	}
	return d
}

func target(g targets.Group, d *types.TargetDescription) targets.Target {
	t := targets.Target{ID: sdk.ToString(d.Id), Port: g.Port}
	if d.Port != nil {
		t.Port = *d.Port
	}
	if address, err := netip.ParseAddr(t.ID); err == nil {
		t.ID = address.String()
	}
	return t
}

func health(d types.TargetHealthDescription) targets.Health {
	var h targets.Health
	if d.TargetHealth != nil {
		h.Condition = targets.Condition(d.TargetHealth.State)
		h.Reason = targets.Reason(d.TargetHealth.Reason)
	}
	if o := d.AdministrativeOverride; o != nil {
		h.Shifted = o.State == types.TargetAdministrativeOverrideStateEnumZonalShiftActive || o.State == types.TargetAdministrativeOverrideStateEnumZonalShiftDelegatedToDns
	}
	// "all" is said of an address outside the network, which no zone has.
	if zone := sdk.ToString(d.Target.AvailabilityZone); zone != "all" {
		h.Zone = zone
	}
	return h
}
