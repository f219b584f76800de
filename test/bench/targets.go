package main

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/targets"
	"github.com/mumoshu/ingress-daemonset-controller/test/aws/api"
)

const (
	// maxCallMs is from what happens to a pod to the call about it, while the
	// controller's bucket has tokens.
	maxCallMs = 200
	// Of so many pods one comes, or ends, at a time. That takes less than is granted.
	singles = 60
	pace    = 2 * time.Second
	// perCall is how many targets one call takes.
	perCall = 200

	podPort = 8080
)

// bulk are groups for nothing but to register pods with.
var bulk = []string{"bulk-1", "bulk-2"}

// contest is the controller and a program that polls, which keep the same pods
// registered, each with a cloud account of its own.
type contest struct {
	*bench
	report             *report
	controller, poller *contender
	seen               *sightings
	// served are groups whose load balancers send requests.
	served []string
}

// targetsResult is one line: what one of the two did about pods.
type targetsResult struct {
	Case   string `json:"case"`
	Kind   string `json:"kind"`
	Pods   int    `json:"pods"`
	Groups int    `json:"groups"`
	// P50Ms and P99Ms are from when a watch of the benchmark's own saw a pod get its
	// address, or end, to when the cloud got the call about it.
	P50Ms float64 `json:"p50Ms,omitempty"`
	P99Ms float64 `json:"p99Ms,omitempty"`
	// Seconds is until the last of these calls.
	Seconds float64 `json:"seconds"`
	// Calls are all that were made until then, by action.
	Calls map[string]int `json:"calls"`
	// FewestTokens is how many the controller's bucket held at least, before a call.
	FewestTokens *float64 `json:"fewestTokens,omitempty"`
	Bars         []bar    `json:"bars,omitempty"`
}

// keepTargets measures how soon pods are in target groups when they have an address,
// and out when they end; with how many calls; and when they are served.
func (b *bench) keepTargets(ctx context.Context, r *report, pods int) error {
	ctx, stop := context.WithTimeout(ctx, patience)
	defer stop()
	c := &contest{bench: b, report: r}
	if err := c.begin(ctx, pods); err != nil {
		return fmt.Errorf("preparing target groups: %w", err)
	}
	if err := c.fillBucket(ctx); err != nil {
		return fmt.Errorf("waiting for the controller's first reads to end: %w", err)
	}
	if err := c.oneByOne(ctx); err != nil {
		return err
	}
	if err := c.allAtOnce(ctx, pods); err != nil {
		return err
	}
	return c.serve(ctx)
}

// oneByOne has pods come one after the other, and end one after the other.
func (c *contest) oneByOne(ctx context.Context) error {
	addresses := bulkAddresses(0, singles)
	err := c.both(ctx, "pods come one by one", registering, addresses, func(ctx context.Context) error {
		return c.paced(ctx, addresses, func(ctx context.Context, address string) error { return c.startPods(ctx, "bulk", []string{address}) })
	})
	if err != nil {
		return err
	}
	return c.both(ctx, "pods end one by one", deregistering, addresses, func(ctx context.Context) error {
		return c.paced(ctx, addresses, func(ctx context.Context, address string) error { return c.endPods(ctx, []string{address}) })
	})
}

// allAtOnce has many pods come, be let go, be taken on again, and end.
func (c *contest) allAtOnce(ctx context.Context, pods int) error {
	addresses := bulkAddresses(singles, pods)
	err := c.both(ctx, "pods come at once", registering, addresses, func(ctx context.Context) error {
		return c.startPods(ctx, "bulk", addresses)
	})
	if err != nil {
		return err
	}
	err = c.alone(ctx, "TargetGroupAttachments are deleted", deregistering, pods, func(ctx context.Context) error {
		return c.detachGroups(ctx, bulk)
	})
	if err != nil {
		return err
	}
	err = c.alone(ctx, "TargetGroupAttachments are created", registering, pods, func(ctx context.Context) error {
		return c.attachGroups(ctx, "bulk", bulk)
	})
	if err != nil {
		return err
	}
	return c.both(ctx, "pods end at once", deregistering, addresses, func(ctx context.Context) error {
		return c.endPods(ctx, addresses)
	})
}

// What is called for, and what is seen before.
var (
	registering   = movement{"RegisterTargets", (*sightings).addressed}
	deregistering = movement{"DeregisterTargets", (*sightings).ended}
)

type movement struct {
	action string
	events func(*sightings, time.Time) map[string]time.Time
}

// both measures how soon both call for every address in every group.
func (c *contest) both(ctx context.Context, name string, m movement, addresses []string, happen func(context.Context) error) error {
	start := time.Now()
	if err := happen(ctx); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	for _, who := range []*contender{c.controller, c.poller} {
		var calls []api.Call
		var waited []float64
		err := until(ctx, func() (_ bool, err error) {
			calls, err = who.callsSince(ctx, start)
			waited = waits(firstCalls(calls, m.action, who.arns(bulk)), m.events(c.seen, start))
			return len(waited) == len(addresses)*len(bulk), err
		})
		if err != nil {
			return fmt.Errorf("%s: %s made %d of %d calls about a target: %w", name, who.name, len(waited), len(addresses)*len(bulk), err)
		}
		result := who.summarize(name, m, len(addresses), calls, start)
		result.P50Ms, result.P99Ms = percentile(waited, 50), percentile(waited, 99)
		if who == c.controller {
			err = c.judge(ctx, result, m, start)
		}
		if err == nil {
			err = c.report.write(result, name, result.Bars)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// judge adds how many tokens the controller had, and the bars where no call waited for
// one: such a call finds just one.
func (c *contest) judge(ctx context.Context, r *targetsResult, m movement, start time.Time) error {
	all, err := c.controller.admin.Calls(ctx, 0)
	if err != nil {
		return err
	}
	fewest := rounded(fewestTokens(all, start))
	r.FewestTokens = &fewest
	switch {
	case fewest >= 2:
		r.Bars = append(r.Bars,
			atMost("p99 ms from what was seen to the call", r.P99Ms, maxCallMs),
			atMost("calls of "+m.action, float64(r.Calls[m.action]), float64(r.Pods*r.Groups)))
	case r.Pods == singles:
		return fmt.Errorf("%s: the controller ran out of tokens, so that its speed was not measured", r.Case)
	}
	return nil
}

// alone counts the calls by which the controller moves all pods, which it knows of.
func (c *contest) alone(ctx context.Context, name string, m movement, pods int, happen func(context.Context) error) error {
	start := time.Now()
	if err := happen(ctx); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	var calls []api.Call
	err := until(ctx, func() (_ bool, err error) {
		calls, err = c.controller.callsSince(ctx, start)
		return moved(calls, m.action) >= pods*len(bulk), err
	})
	if err != nil {
		return fmt.Errorf("%s: %d of %d targets were moved: %w", name, moved(calls, m.action), pods*len(bulk), err)
	}
	result := c.controller.summarize(name, m, pods, calls, start)
	needed := len(bulk) * ((pods + perCall - 1) / perCall)
	result.Bars = append(result.Bars, atMost("calls of "+m.action, float64(result.Calls[m.action]), float64(needed)))
	return c.report.write(result, name, result.Bars)
}

// moved is how many targets were in calls.
func moved(calls []api.Call, action string) (n int) {
	for _, call := range calls {
		if call.Action == action && call.CarriedOut {
			n += len(call.Targets)
		}
	}
	return n
}

// registration is an address in a group.
type registration struct{ group, address string }

// firstCalls are when the first call of an action about each address came in.
func firstCalls(calls []api.Call, action string, groups []string) map[registration]time.Time {
	first := map[registration]time.Time{}
	for _, call := range calls {
		if call.Action != action || !call.CarriedOut || !slices.Contains(groups, call.Resource) {
			continue
		}
		for _, t := range call.Targets {
			r := registration{call.Resource, t.ID}
			first[r] = cmp.Or(first[r], call.At)
		}
	}
	return first
}

// waits are the milliseconds from each event to the first call about it, in each group.
func waits(calls map[registration]time.Time, events map[string]time.Time) (ms []float64) {
	for r, at := range calls {
		if event, seen := events[r.address]; seen {
			ms = append(ms, at.Sub(event).Seconds()*1000)
		}
	}
	return ms
}

// fillBucket waits until the controller's bucket is full again, after all that it reads when it begins.
func (c *contest) fillBucket(ctx context.Context) error {
	return until(ctx, func() (bool, error) {
		calls, err := c.controller.admin.Calls(ctx, 0)
		now := time.Now()
		return fewestTokens(append(calls, api.Call{At: now}), now) >= targets.DefaultBurst-1, err
	})
}

// fewestTokens replays calls against a bucket as the controller's is by default.
func fewestTokens(calls []api.Call, from time.Time) float64 {
	calls = slices.SortedFunc(slices.Values(calls), func(a, b api.Call) int { return a.At.Compare(b.At) })
	tokens, fewest, last := float64(targets.DefaultBurst), math.Inf(1), time.Time{}
	for _, call := range calls {
		if !last.IsZero() {
			tokens = min(targets.DefaultBurst, tokens+targets.DefaultRate*call.At.Sub(last).Seconds())
		}
		last = call.At
		if !call.At.Before(from) {
			fewest = min(fewest, tokens)
		}
		tokens--
	}
	return fewest
}

// percentile is by the nearest rank.
func percentile(values []float64, percent float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return rounded(sorted[max(0, int(math.Ceil(percent/100*float64(len(sorted))))-1)])
}

// paced does something about each address, one every other second.
func (c *contest) paced(ctx context.Context, addresses []string, do func(context.Context, string) error) error {
	ticker := time.NewTicker(pace)
	defer ticker.Stop()
	for _, address := range addresses {
		if err := do(ctx, address); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
	}
	return nil
}

// bulkAddresses are those of pods that nobody connects to.
func bulkAddresses(from, n int) (out []string) {
	for i := from; i < from+n; i++ {
		out = append(out, fmt.Sprintf("10.1.%d.%d", i/250, 1+i%250))
	}
	return out
}

// startPods creates a pod for each address and then gives them out, as fast as the API
// server takes them.
func (b *bench) startPods(ctx context.Context, app string, addresses []string) error {
	err := forEach(ctx, addresses, func(ctx context.Context, address string) error {
		return b.client.Create(ctx, addressedPod(app, address))
	})
	if err != nil {
		return err
	}
	return forEach(ctx, addresses, func(ctx context.Context, address string) error {
		pod := addressedPod(app, address)
		patch := client.MergeFrom(pod.DeepCopy())
		pod.Status = corev1.PodStatus{
			Phase: corev1.PodRunning, PodIP: address, PodIPs: []corev1.PodIP{{IP: address}},
			Conditions: []corev1.PodCondition{
				{Type: corev1.ContainersReady, Status: corev1.ConditionTrue}, {Type: corev1.PodReady, Status: corev1.ConditionTrue},
			},
		}
		return b.client.Status().Patch(ctx, pod, patch)
	})
}

// endPods deletes pods, which terminate until they are removed.
func (b *bench) endPods(ctx context.Context, addresses []string) error {
	return forEach(ctx, addresses, func(ctx context.Context, address string) error {
		return b.client.Delete(ctx, addressedPod("", address))
	})
}

// addressedPod is on a machine without a kubelet: it runs, and ends, when we say so.
func addressedPod(app, address string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "pod-" + address, Labels: map[string]string{"app": app}},
		Spec: corev1.PodSpec{
			NodeName:    machineName,
			Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
			Containers:  []corev1.Container{{Name: "proxy", Image: "proxy", Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: podPort}}}},
		},
	}
}

// forEach does something about each address, many at a time.
func forEach(ctx context.Context, addresses []string, do func(context.Context, string) error) error {
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(32)
	for _, address := range addresses {
		group.Go(func() error { return do(groupCtx, address) })
	}
	return group.Wait()
}

// attachGroups has the controller keep the pods of an app registered with groups.
func (b *bench) attachGroups(ctx context.Context, app string, groups []string) error {
	for _, group := range groups {
		a := attachment(group)
		a.Spec = v1alpha1.TargetGroupAttachmentSpec{
			TargetGroup: v1alpha1.TargetGroupSelector{Name: group}, TargetType: "ip", Port: intstr.FromString("http"),
			PodSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}},
		}
		if err := b.client.Create(ctx, a); err != nil {
			return err
		}
	}
	return nil
}

func attachment(group string) *v1alpha1.TargetGroupAttachment {
	return &v1alpha1.TargetGroupAttachment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: group}}
}

// detachGroups returns when the TargetGroupAttachments are gone.
func (b *bench) detachGroups(ctx context.Context, groups []string) error {
	for _, group := range groups {
		if err := b.client.Delete(ctx, attachment(group)); err != nil {
			return err
		}
	}
	for _, group := range groups {
		err := until(ctx, func() (bool, error) {
			err := b.get(ctx, attachment(group))
			return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// summarize is what a contender called since a moment.
func (c *contender) summarize(name string, m movement, pods int, calls []api.Call, start time.Time) *targetsResult {
	r := &targetsResult{Case: name, Kind: c.name, Pods: pods, Groups: len(bulk), Calls: map[string]int{}}
	for _, call := range calls {
		r.Calls[call.Action]++
		if call.Action == m.action {
			r.Seconds = max(r.Seconds, rounded(call.At.Sub(start).Seconds()))
		}
	}
	return r
}

// arns are those of groups.
func (c *contender) arns(groups []string) (out []string) {
	for _, name := range groups {
		out = append(out, c.groups[name])
	}
	return out
}
