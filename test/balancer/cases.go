package balancer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/test/aws/api"
	"github.com/mumoshu/ingress-daemonset-controller/test/harness"
)

// Case is something that moves targets.
type Case struct {
	Name string
	// What says it in a sentence.
	What string
	// Group is the target group whose targets move, and to which requests are sent.
	Group string
	// Loses says whether requests are lost, as is to be expected: it stands beside another.
	Loses bool
	// Minutes says whether there are connections of minutes too.
	Minutes bool

	prepare, run func(context.Context, *caseRun) error
}

// Cases are all, in an order in which each finds what it needs.
func Cases() []Case {
	return []Case{
		{
			Name: "rollout-instance-targets", Group: "nodes",
			What: "a rollout, two of four nodes at a time, whose nodes are the targets",
			run:  rollOut,
		},
		{
			Name: "controller-killed", Group: "nodes",
			What: "such a rollout of half of the nodes, in which the leading controller is killed at random moments",
			run:  rollOutKilling,
		},
		{
			Name: "api-throttled", Group: "nodes",
			What: "such a rollout of half of the nodes, in which AWS throttles every call for 30 s",
			run:  rollOutThrottled,
		},
		{
			Name: "rollout-late-and-early", Group: "nodes",
			What: "a rollout whose targets read unused at once, and then get their last connections as early, and those that return their first as late, as AWS was seen to do it",
			run:  rollOutUnkindly,
		},
		{
			Name: "flows-of-minutes", Group: "nodes", Minutes: true,
			What:    "a rollout of half of the nodes by the manifest that the guide recommends, with connections of 5 minutes",
			prepare: recommend, run: rollOutUnderFlows,
		},
		{
			Name: "rollout-ip-targets", Group: "pods",
			What: "a rollout, two of four nodes at a time, whose pods are the targets",
			run:  rollOut,
		},
		{
			Name: "drain-without-hook", Group: "pods", Loses: true,
			What: "kubectl drain of a node whose pods have no drain hook, for comparison",
			run:  drain,
		},
		{
			Name: "scaling-ip-targets", Group: "pods",
			What:    "pods with a drain hook scaled up and down, before they are done with the change before",
			prepare: addHook, run: scale,
		},
		{
			Name: "drain", Group: "pods",
			What:    "kubectl drain of a node whose pods have a drain hook",
			prepare: addHook, run: drain,
		},
		{
			Name: "drain-beyond-settle-time", Group: "pods", Loses: true,
			What:    "such a drain where the load balancer sends new connections for longer than the settle time, for comparison",
			prepare: addHook, run: drainBeyondSettleTime,
		},
	}
}

// rollOut changes the template and sees the change through.
func rollOut(ctx context.Context, p *caseRun) error {
	before, err := p.fleet.Pods(ctx)
	if err != nil {
		return err
	}
	if err := p.change(ctx, nodes); err != nil {
		return err
	}
	if err := p.serve(ctx); err != nil {
		return err
	}
	return p.fleet.CheckReplaced(ctx, before)
}

// change changes the template on some of the nodes.
func (p *caseRun) change(ctx context.Context, most int32) error {
	return p.fleet.Change(ctx, func(set *v1alpha1.IngressDaemonSet) {
		harness.SetVersion(time.Now().UTC().Format("150405"))(set)
		set.Spec.UpdateStrategy.RollingUpdate.Partition = new(intstr.FromInt32(nodes - most))
	})
}

// rollOutWhile changes the template on half of the nodes, does something from when the
// first are taken out, and sees the change through.
func (p *caseRun) rollOutWhile(ctx context.Context, during func(context.Context) error) error {
	if err := p.change(ctx, nodes/2); err != nil {
		return err
	}
	begun := func(s v1alpha1.IngressDaemonSetStatus) bool { return len(s.Wave) > 0 }
	if err := p.fleet.WaitStatus(ctx, "the first nodes to be taken out", begun); err != nil {
		return err
	}
	if err := during(ctx); err != nil {
		return err
	}
	done := func(s v1alpha1.IngressDaemonSetStatus) bool {
		return s.UpdatedNodes == nodes/2 && s.ServingNodes == nodes && len(s.Wave) == 0
	}
	if err := p.fleet.WaitStatus(ctx, "half of the nodes to be updated, and all to serve", done); err != nil {
		return err
	}
	return errors.Join(p.healthy(ctx), p.fleet.CheckUnmarked(ctx))
}

// kills is how often the controller is killed. The kubelet starts it again ever later.
const kills = 4

func rollOutKilling(ctx context.Context, p *caseRun) error {
	return p.rollOutWhile(ctx, func(ctx context.Context) error {
		leader, err := p.Leader(ctx, "")
		for range kills {
			if err != nil {
				return err
			}
			pause(ctx, p.atMost(p.scaled(2*time.Minute)))
			if err := p.KillController(ctx, leader); err != nil {
				return err
			}
			fmt.Fprintln(p.Log, "         the leading controller was killed")
			leader, err = p.Leader(ctx, leader)
		}
		return err
	})
}

// atMost is a random time.
func (p *caseRun) atMost(d time.Duration) time.Duration {
	return time.Duration(p.random.Int64N(int64(d)))
}

const throttledFor = 30 * time.Second

func rollOutThrottled(ctx context.Context, p *caseRun) error {
	err := p.rollOutWhile(ctx, func(ctx context.Context) error {
		return p.account.admin.SetFaults(ctx, api.Fault{Kind: api.Throttle, Action: "*", For: throttledFor.Seconds()})
	})
	if err != nil {
		return err
	}
	calls, err := p.calls(ctx)
	if err == nil && throttled(calls) == 0 {
		err = errors.New("no call was throttled, so that the case proves nothing")
	}
	return err
}

// addHook gives the pods a drain hook, unless they have it, and lets them be replaced
// while their node serves: it alone keeps requests from being lost.
func addHook(ctx context.Context, p *caseRun) error {
	set, err := p.fleet.Set(ctx)
	if err != nil || set.Spec.DrainHook != nil {
		return err
	}
	err = p.fleet.Change(ctx, func(set *v1alpha1.IngressDaemonSet) {
		set.Spec.DrainHook = &v1alpha1.DrainHook{}
		set.Spec.UpdateStrategy.RollingUpdate = &v1alpha1.RollingUpdate{MaxDegradedNodes: new(intstr.FromString("100%"))}
	})
	if err != nil {
		return err
	}
	if err := p.serve(ctx); err != nil {
		return err
	}
	// The pods that had none are gone, and would get connections for so long.
	pause(ctx, p.scaled(networkSettleTime))
	return nil
}

// scale changes the number of pods faster than targets follow.
func scale(ctx context.Context, p *caseRun) error {
	for _, pods := range []int32{4, 1, 3, 1, 4, 2} {
		if err := p.fleet.Change(ctx, func(set *v1alpha1.IngressDaemonSet) { set.Spec.PodsPerNode = new(pods) }); err != nil {
			return err
		}
		pause(ctx, p.atMost(p.scaled(2*time.Minute)))
	}
	return p.serve(ctx)
}

// drain drains a node as an administrator does, and gives it back.
func drain(ctx context.Context, p *caseRun) error {
	node := p.Nodes()[p.random.IntN(nodes)].Name()
	for _, args := range [][]string{
		{"drain", node, "--ignore-daemonsets", "--delete-emptydir-data", "--timeout=10m"},
		{"uncordon", node},
	} {
		if out, err := p.Kubectl(ctx, args...).CombinedOutput(); err != nil {
			return fmt.Errorf("kubectl %v: %w: %s", args, err, out)
		}
	}
	return p.serve(ctx)
}

// serve waits until all serves as before.
func (p *caseRun) serve(ctx context.Context) error {
	if err := p.fleet.WaitServing(ctx); err != nil {
		return err
	}
	return p.healthy(ctx)
}

// healthy waits until all targets of the fleet are.
func (p *caseRun) healthy(ctx context.Context) error {
	set, err := p.fleet.Set(ctx)
	if err != nil {
		return err
	}
	targets := nodes
	if p.fleet.Key.Namespace == "pods" {
		targets *= int(*set.Spec.PodsPerNode)
	}
	return p.account.waitHealthy(ctx, p.fleet.Key.Namespace, targets)
}
