package balancer

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/test/aws/cloud"
)

// withLags does something while the load balancer has other lags.
func (p *caseRun) withLags(ctx context.Context, lags map[cloud.Kind]cloud.Lags, do func(context.Context) error) error {
	if err := p.account.admin.SetLags(ctx, lags); err != nil {
		return err
	}
	return errors.Join(do(ctx), p.account.admin.SetLags(context.WithoutCancel(ctx), nil))
}

// withDelay does something while the fleet's group has another deregistration delay, of
// which the controller knows.
func (p *caseRun) withDelay(ctx context.Context, seconds string, do func(context.Context) error) error {
	group := p.account.groups[p.fleet.Key.Namespace]
	changed := group
	changed.Attributes = map[string]string{delayAttribute: seconds}
	if err := p.account.admin.PutTargetGroup(ctx, changed); err != nil {
		return err
	}
	pause(ctx, 2*p.scaled(groupsEvery))
	return errors.Join(do(ctx), p.account.admin.PutTargetGroup(context.WithoutCancel(ctx), group))
}

// rollOutUnkindly is a rollout that loses requests where `unused` is taken for the end of a
// drain, and where nobody waits until what returned is healthy: see README.md.
func rollOutUnkindly(ctx context.Context, p *caseRun) error {
	return p.withDelay(ctx, "0", func(ctx context.Context) error {
		return p.withLags(ctx, cloud.LateAndEarly, func(ctx context.Context) error { return rollOut(ctx, p) })
	})
}

// drainBeyondSettleTime drains a node whose pods hold on for the settle time, which is too short here.
func drainBeyondSettleTime(ctx context.Context, p *caseRun) error {
	return p.withLags(ctx, cloud.BeyondSettleTimes, func(ctx context.Context) error { return drain(ctx, p) })
}

const guide = "docs/guides/load-balancers.md"

// recommended is the manifest that the guide recommends for a rollout behind a network load
// balancer, from the text of its page.
func recommended(page []byte) (v1alpha1.IngressDaemonSetSpec, error) {
	var manifest struct {
		Spec v1alpha1.IngressDaemonSetSpec `json:"spec"`
	}
	_, section, found := strings.Cut(string(page), "\n## A rollout behind a network load balancer\n")
	_, block, fenced := strings.Cut(section, "```yaml\n")
	text, _, closed := strings.Cut(block, "```")
	if !found || !fenced || !closed {
		return manifest.Spec, fmt.Errorf("%s has no such manifest any more", guide)
	}
	if err := yaml.UnmarshalStrict([]byte(text), &manifest); err != nil {
		return manifest.Spec, fmt.Errorf("the manifest of %s: %w", guide, err)
	}
	u, pod := manifest.Spec.UpdateStrategy.RollingUpdate, manifest.Spec.Template.Spec
	if u == nil || u.DetachTimeoutSeconds == nil || pod.TerminationGracePeriodSeconds == nil || manifest.Spec.DrainHook == nil {
		return manifest.Spec, fmt.Errorf("the manifest of %s lacks a rolling update, detachTimeoutSeconds, drainHook or terminationGracePeriodSeconds", guide)
	}
	if w := u.WaitForDetachmentByAnnotatedTimestamp; w == nil || w.GracePeriodSeconds == nil {
		return manifest.Spec, fmt.Errorf("the manifest of %s does not wait for a grace after the timestamp, in which connections that are kept end", guide)
	}
	return manifest.Spec, nil
}

// recommend has the fleet roll out as the guide recommends it, its times divided.
func recommend(ctx context.Context, p *caseRun) error {
	page, err := os.ReadFile(filepath.Join(p.Root(), guide))
	if err != nil {
		return err
	}
	spec, err := recommended(page)
	if err != nil {
		return err
	}
	scaled := func(seconds int64) int64 { return int64(p.scaled(time.Duration(seconds)*time.Second) / time.Second) }
	grace := scaled(*spec.Template.Spec.TerminationGracePeriodSeconds)
	u := spec.UpdateStrategy.RollingUpdate
	for _, seconds := range []*int32{u.DetachTimeoutSeconds, u.WaitForDetachmentByAnnotatedTimestamp.GracePeriodSeconds} {
		*seconds = int32(scaled(int64(*seconds)))
	}
	// The pods get all of it first, while their nodes serve: no traffic is counted yet.
	err = p.fleet.Change(ctx, func(set *v1alpha1.IngressDaemonSet) {
		set.Spec.HealthCheckNodePorts, set.Spec.DrainHook = spec.HealthCheckNodePorts, spec.DrainHook
		set.Spec.Template.Spec.TerminationGracePeriodSeconds = &grace
		set.Spec.UpdateStrategy.RollingUpdate = &v1alpha1.RollingUpdate{MaxDegradedNodes: new(intstr.FromString("100%"))}
	})
	if err != nil {
		return err
	}
	if err := p.serve(ctx); err != nil {
		return err
	}
	return p.fleet.Change(ctx, func(set *v1alpha1.IngressDaemonSet) { set.Spec.UpdateStrategy = spec.UpdateStrategy })
}

// rollOutUnderFlows begins when there are as many connections of minutes as there will be.
func rollOutUnderFlows(ctx context.Context, p *caseRun) error {
	pause(ctx, p.scaled(flowOfMinutes))
	if err := p.rollOutWhile(ctx, func(context.Context) error { return nil }); err != nil {
		return err
	}
	// Those that began before the last node left have ended after it.
	pause(ctx, p.scaled(flowOfMinutes))
	if n := p.client.Snapshot().Streams[minutesStream].Requests; n < leastFlows {
		return fmt.Errorf("%d connections of minutes have ended, so that it proves nothing", n)
	}
	return nil
}

// leastFlows are fewer connections of minutes than end during the case.
const leastFlows = 100
