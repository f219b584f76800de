package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/rollout/objects"
	"github.com/mumoshu/ingress-daemonset-controller/test/cluster"
	"github.com/mumoshu/ingress-daemonset-controller/test/harness"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// mostPerAttempt is how many pods a kubelet may reject before the controller
// holds the node back. A ReplicaSet on its own makes ten a second.
const mostPerAttempt = 20

// TestRejectedPods surges where the node has no CPU left for another pod, so that
// the kubelet rejects each: the pods that serve stay, the rejected ones are few
// and tried again ever more rarely, and the fleet recovers when it is told how.
func TestRejectedPods(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), patient)
	defer cancel()
	tight := scenario{example: "nginx.yaml", adjust: func(set *v1alpha1.IngressDaemonSet) {
		set.Spec.UpdateStrategy = v1alpha1.UpdateStrategy{}
		set.Spec.Template.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("800m")}
	}}
	fleet := tight.open(ctx, t)
	before, err := fleet.Pods(ctx)
	if err != nil {
		t.Fatal(err)
	}
	failed := fleet.WatchFailed(ctx)
	if err := fleet.Change(ctx, harness.SetVersion("v2")); err != nil {
		t.Fatal(err)
	}
	if err := waitFor(ctx, fleet, v1alpha1.ConditionDegraded, v1alpha1.ReasonPodsRejected); err != nil {
		t.Fatal(err)
	}
	time.Sleep(20 * time.Second)
	attempts, err := fleet.Attempts(ctx)
	if err != nil {
		t.Fatal(err)
	}
	count, example := failed.Count()
	t.Logf("%d pods rejected in %d attempts, such as %s", count, attempts, example)
	if count == 0 || count > mostPerAttempt*attempts {
		t.Errorf("%d pods were rejected in %d attempts: at least 1 and at most %d an attempt are expected", count, attempts, mostPerAttempt)
	}
	if err := allServe(ctx, fleet, before); err != nil {
		t.Error(err)
	}
	// Without a pod more, the new ones take the places of the old ones.
	err = fleet.Change(ctx, func(set *v1alpha1.IngressDaemonSet) {
		set.Spec.UpdateStrategy.RollingUpdate = &v1alpha1.RollingUpdate{
			MaxSurgedPodsPerNode: new(intstr.FromInt32(0)), MaxUnavailablePodsPerNode: new(intstr.FromInt32(1)),
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := fleet.WaitServing(ctx); err != nil {
		t.Fatal(err)
	}
	if err := fleet.CheckReplaced(ctx, before); err != nil {
		t.Error(err)
	}
	count, _ = failed.Count()
	t.Logf("%d pods rejected in all", count)
}

// allServe is an error where a pod that served before pods were rejected was removed.
func allServe(ctx context.Context, fleet *harness.Fleet, before map[types.UID]*corev1.Pod) error {
	now, err := fleet.Pods(ctx)
	if err != nil {
		return err
	}
	for uid, pod := range before {
		if now[uid] == nil || now[uid].DeletionTimestamp != nil || !objects.PodReady(now[uid]) {
			return fmt.Errorf("pod %s served before pods were rejected and does not any more", pod.Name)
		}
	}
	return nil
}

// TestPortHeld starts a fleet where a foreign process holds the port on one
// node: that node is named, no pod is Failed, and no other node is touched for a
// rollout until it serves.
func TestPortHeld(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), patient)
	defer cancel()
	holder := holdPort(ctx, t, theHarness.Nodes()[0], 80)
	held := scenario{example: "nginx.yaml"}
	fleet := held.apply(ctx, t)
	failed := fleet.WatchFailed(ctx)
	if err := fleet.WaitStatus(ctx, "two nodes to serve", func(s v1alpha1.IngressDaemonSetStatus) bool { return s.ServingNodes == nodes-1 }); err != nil {
		t.Fatal(err)
	}
	if err := fleet.Change(ctx, harness.SetVersion("v2")); err != nil {
		t.Fatal(err)
	}
	if err := waitFor(ctx, fleet, v1alpha1.ConditionBlocked, v1alpha1.ReasonBudgetExhausted); err != nil {
		t.Fatal(err)
	}
	set, err := fleet.Set(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if set.Status.ServingNodes != nodes-1 || set.Status.UpdatedNodes > 1 {
		t.Errorf("other nodes were touched: %s", harness.Describe(set))
	}
	holder()
	if err := fleet.WaitServing(ctx); err != nil {
		t.Fatal(err)
	}
	if n, example := failed.Count(); n > 0 {
		t.Errorf("%d pods were Failed, such as %s", n, example)
	}
}

// waitFor waits until a condition is True for a reason.
func waitFor(ctx context.Context, f *harness.Fleet, condition, reason string) error {
	return f.WaitStatus(ctx, condition+" for "+reason, func(s v1alpha1.IngressDaemonSetStatus) bool {
		c := meta.FindStatusCondition(s.Conditions, condition)
		return c != nil && c.Status == "True" && c.Reason == reason
	})
}

// holdPort listens on a port of a node, as a foreign process, until the function that it
// returns is called.
func holdPort(ctx context.Context, t *testing.T, node *cluster.Node, port int) (release func()) {
	t.Helper()
	config := filepath.Join(t.TempDir(), "haproxy.cfg")
	content := fmt.Sprintf("defaults\n  timeout client 5s\n  timeout connect 5s\n  timeout server 5s\nglobal\n  maxconn 100\n  noreuseport\nlisten holder\n  bind :%d\n", port)
	if err := os.WriteFile(config, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	holder := node.Command(ctx, "haproxy", "-db", "-f", config)
	if err := holder.Start(); err != nil {
		t.Fatal(err)
	}
	release = sync.OnceFunc(func() {
		_ = holder.Process.Kill()
		_ = holder.Wait()
	})
	t.Cleanup(release)
	return release
}
