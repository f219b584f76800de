package e2e

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/test/harness"
	"github.com/mumoshu/ingress-daemonset-controller/test/lb"
	"github.com/mumoshu/ingress-daemonset-controller/test/traffic"
	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const poolLabel = "e2e/pool"

// TestSmallerPool takes two nodes out of the set by changing its selector: they leave the
// load balancer one after the other, and keep their health checkers until then.
func TestSmallerPool(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), patient)
	defer cancel()
	for i, pool := range []string{"large", "large", "small"} {
		label := poolLabel + "=" + pool
		if out, err := theHarness.Kubectl(ctx, "label", "--overwrite", "node", theHarness.Nodes()[i].Name(), label).CombinedOutput(); err != nil {
			t.Fatalf("labelling: %v: %s", err, out)
		}
	}
	t.Cleanup(func() { _ = theHarness.Kubectl(context.Background(), "label", "nodes", "--all", poolLabel+"-").Run() })
	s := scenario{example: "nginx.yaml", told: hostTold}
	fleet := s.open(ctx, t)
	front, err := theHarness.Front(ctx, s.told)
	if err != nil {
		t.Fatal(err)
	}
	defer front.Stop()
	sender, err := theHarness.Send(ctx, rate)
	if err != nil {
		t.Fatal(err)
	}
	defer sender.Stop()
	time.Sleep(2 * time.Second)
	if err := fleet.Change(ctx, func(set *v1alpha1.IngressDaemonSet) {
		set.Spec.NodeSelector = map[string]string{poolLabel: "small"}
	}); err != nil {
		t.Fatal(err)
	}
	most := 0
	if err := harness.Wait(ctx, "two nodes to have left", func() (bool, error) {
		present, out, err := presentAndOut(ctx, fleet, front)
		most = max(most, len(out))
		return len(present) == 1, err
	}); err != nil {
		t.Fatal(err)
	}
	if most != 1 {
		t.Errorf("of nodes that still had a Deployment up to %d were out of the load balancer at a time, want 1", most)
	}
	time.Sleep(2 * time.Second)
	judge(t, sender)
}

// judge ends the traffic, of which nothing may have failed.
func judge(t *testing.T, sender *traffic.Process) {
	t.Helper()
	report, err := sender.Stop()
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d requests in %.0f s, %d failed", report.Requests, report.Elapsed.Seconds(), report.Failed)
	if report.Failed != 0 || report.Requests < enough {
		t.Errorf("%d failed: %s", report.Failed, report)
	}
}

// presentAndOut are the nodes that have a Deployment, and those of them that the load
// balancer takes for down.
func presentAndOut(ctx context.Context, fleet *harness.Fleet, front *lb.LB) (present, out []string, err error) {
	list := &appsv1.DeploymentList{}
	if err := theHarness.List(ctx, list, client.InNamespace(fleet.Key.Namespace)); err != nil {
		return nil, nil, err
	}
	servers, err := front.Servers()
	if err != nil {
		return nil, nil, err
	}
	for _, d := range list.Items {
		name := d.Annotations[v1alpha1.AnnotationNode]
		present = append(present, name)
		if slices.ContainsFunc(servers, func(s lb.ServerState) bool { return s.Name == name && s.Status != lb.Up }) {
			out = append(out, name)
		}
	}
	if len(present) == 0 {
		return nil, nil, fmt.Errorf("no Deployment is left")
	}
	return present, out, nil
}
