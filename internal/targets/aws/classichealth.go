package aws

import (
	"context"
	"slices"
	"strings"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing"
	"github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing/types"
	"github.com/mumoshu/ingress-daemonset-controller/internal/targets"
)

func (c *Client) askClassic(ctx context.Context, g targets.Group, only []targets.Target) (map[targets.Target]targets.Health, error) {
	out, err := call(ctx, c, describeInstanceHealth, g.ID, c.classic.DescribeInstanceHealth,
		&elasticloadbalancing.DescribeInstanceHealthInput{LoadBalancerName: &g.ID, Instances: instances(only)})
	switch {
	case err != nil:
		return nil, err
	case out.InstanceStates == nil:
		return nil, unreadable(describeInstanceHealth, "list of instances")
	}
	found := map[targets.Target]targets.Health{}
	for _, state := range out.InstanceStates {
		id := sdk.ToString(state.InstanceId)
		if id == "" {
			return nil, unreadable(describeInstanceHealth, "instance's id beside its state")
		}
		found[targets.Target{ID: id, Port: g.Port}] = classicHealth(state)
		for _, t := range only {
			if t.ID == id {
				found[t] = classicHealth(state)
			}
		}
	}
	return found, nil
}

// instances names each instance once.
func instances(ts []targets.Target) []types.Instance {
	var out []types.Instance
	for _, t := range ts {
		if !slices.ContainsFunc(out, func(i types.Instance) bool { return *i.InstanceId == t.ID }) {
			out = append(out, types.Instance{InstanceId: &t.ID})
		}
	}
	return out
}

// classicWords are the descriptions of an instance's state (API_InstanceState in the
// API reference 2012-06-01) in the words of target groups. They come before the
// state: an instance that is being deregistered is InService ("Configure connection
// draining" in the Classic Load Balancers guide).
var classicWords = []struct {
	description string
	health      targets.Health
}{
	{"deregistration currently in progress", targets.Health{Condition: targets.Draining, Reason: targets.DeregistrationInProgress}},
	{"not currently registered", gone},
	{"registration is still in progress", targets.Health{Condition: targets.Initial, Reason: targets.RegistrationInProgress}},
	{"has not passed the configured HealthyThreshold", targets.Health{Condition: targets.Initial, Reason: "Elb.InitialHealthChecking"}},
	{"has failed at least the UnhealthyThreshold", targets.Health{Condition: targets.Unhealthy, Reason: "Target.FailedHealthChecks"}},
	{"for which LoadBalancer is not configured", targets.Health{Condition: targets.Unused, Reason: targets.NotInUse}},
	{"in pending state", targets.Health{Condition: targets.Unused, Reason: targets.InvalidState}},
	{"in stopped state", targets.Health{Condition: targets.Unused, Reason: targets.InvalidState}},
	{"in terminated state", targets.Health{Condition: targets.Unused, Reason: targets.InvalidState}},
	{"transient error", targets.Health{Condition: targets.Unavailable, Reason: "Elb.InternalError"}},
}

func classicHealth(state types.InstanceState) targets.Health {
	said := sdk.ToString(state.Description)
	for _, w := range classicWords {
		if strings.Contains(said, w.description) {
			return w.health
		}
	}
	if sdk.ToString(state.State) == "InService" {
		return targets.Health{Condition: targets.Healthy}
	}
	return targets.Health{Condition: targets.Condition(sdk.ToString(state.State)), Reason: targets.Reason(said)}
}
