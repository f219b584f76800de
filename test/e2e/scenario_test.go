package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/test/lb"
	"github.com/mumoshu/ingress-daemonset-controller/test/stage"
	"github.com/mumoshu/ingress-daemonset-controller/test/traffic"
	"k8s.io/apimachinery/pkg/types"
)

const (
	rate    = 2000
	patient = 6 * time.Minute
)

// scenario is a rollout under traffic.
type scenario struct {
	// example is a file of examples/, adjust changes its IngressDaemonSet before
	// it is applied.
	example string
	adjust  func(*v1alpha1.IngressDaemonSet)
	// told is how the load balancer learns which nodes to avoid, untold how it is
	// kept from learning it in the control.
	told, untold stage.Ports
	// detacher takes nodes out of the load balancer for their annotation.
	detacher bool
	// during plays while the rollout is under way; nil for nothing.
	during func(context.Context, *testing.T, *stage.Fleet) error
	// final is the version that nodes end with, v2 where it is empty.
	final string
}

// play plays the scenario and its control.
func (s scenario) play(t *testing.T) {
	report := s.perform(t, true)
	if report.Failed != 0 {
		t.Errorf("%d of %d requests failed:\n%s", report.Failed, report.Requests, report)
	}
	if report.Rate < 0.95*rate {
		t.Errorf("%.0f requests a second were sent instead of %d", report.Rate, rate)
	}
	t.Logf("%d requests in %.0f s, %d failed", report.Requests, report.Elapsed.Seconds(), report.Failed)
	if t.Failed() {
		return
	}
	control := s.perform(t, false)
	t.Logf("control: %d requests in %.0f s, %d failed", control.Requests, control.Elapsed.Seconds(), control.Failed)
	if control.Failed == 0 {
		t.Errorf("the control lost nothing of %d requests, so that the test proves nothing", control.Requests)
	}
}

// perform plays once; the load balancer is told of the nodes under way or not.
func (s scenario) perform(t *testing.T, told bool) traffic.Report {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patient)
	defer cancel()
	fleet := s.open(ctx, t)
	ports := s.told
	if !told {
		ports = s.untold
	}
	front, err := theStage.Front(ctx, ports)
	if err != nil {
		t.Fatal(err)
	}
	defer front.Stop()
	if s.detacher {
		defer detacher{stage: theStage, front: front, idle: !told}.start(ctx, t)()
	}
	client, err := theStage.Send(ctx, rate)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Stop()
	time.Sleep(2 * time.Second)
	if err := s.rollOut(ctx, t, fleet); err != nil {
		t.Error(err)
	}
	if err := allUp(ctx, front); err != nil {
		t.Error(err)
	}
	time.Sleep(time.Second)
	report, err := client.Stop()
	if err != nil {
		t.Fatal(err)
	}
	if t.Failed() || told && report.Failed > 0 {
		t.Log("the load balancer's log:\n" + front.Log())
	}
	return report
}

// open applies the example to a namespace of its own and waits until it serves.
func (s scenario) open(ctx context.Context, t *testing.T) *stage.Fleet {
	t.Helper()
	namespace := fmt.Sprintf("e2e-%d", time.Now().UnixNano())
	manifest, err := theStage.Example(s.example)
	if err != nil {
		t.Fatal(err)
	}
	if err := theStage.MakeNamespace(ctx, namespace); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.close(t, namespace) })
	fleet := &stage.Fleet{Stage: theStage, Key: types.NamespacedName{
		Namespace: namespace, Name: manifest.Kind("IngressDaemonSet").GetName()}}
	if err := manifest.AdjustSet(s.adjusted); err != nil {
		t.Fatal(err)
	}
	if err := theStage.Apply(ctx, namespace, manifest); err != nil {
		t.Fatal(err)
	}
	if err := fleet.WaitServing(ctx); err != nil {
		t.Fatal(err)
	}
	return fleet
}

// adjusted shortens the graces, which the examples make long enough for load
// balancers that check every few seconds.
func (s scenario) adjusted(set *v1alpha1.IngressDaemonSet) {
	grace := int32(3)
	u := set.Spec.UpdateStrategy.RollingUpdate
	if u.AnnotateDeploymentToDetach != nil {
		u.AnnotateDeploymentToDetach.GracePeriodSeconds = &grace
	}
	if s.adjust != nil {
		s.adjust(set)
	}
}

func (s scenario) close(t *testing.T, namespace string) {
	ctx, cancel := context.WithTimeout(context.Background(), patient)
	defer cancel()
	if err := theStage.RemoveNamespace(ctx, namespace); err != nil {
		t.Error(err)
	}
}

// rollOut changes the template and sees the change through.
func (s scenario) rollOut(ctx context.Context, t *testing.T, fleet *stage.Fleet) error {
	before, err := fleet.Pods(ctx)
	if err != nil {
		return err
	}
	if err := fleet.Change(ctx, stage.SetVersion("v2")); err != nil {
		return err
	}
	if s.during != nil {
		if err := s.during(ctx, t, fleet); err != nil {
			return err
		}
	}
	if err := fleet.WaitServing(ctx); err != nil {
		return err
	}
	if s.final != "" {
		return fleet.CheckUnmarked(ctx)
	}
	return fleet.CheckReplaced(ctx, before)
}

// allUp waits until the load balancer has every node again.
func allUp(ctx context.Context, front *lb.LB) error {
	for _, n := range theStage.Nodes() {
		if err := front.WaitUp(ctx, n.Name()); err != nil {
			return err
		}
	}
	return nil
}

// pause waits for a random time between the two.
func pause(ctx context.Context, least, most time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(least + rand.N(most-least)):
	}
}
