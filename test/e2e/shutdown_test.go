package e2e

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/test/cluster"
	"github.com/mumoshu/ingress-daemonset-controller/test/harness"
	"github.com/mumoshu/ingress-daemonset-controller/test/lb"
	"github.com/mumoshu/ingress-daemonset-controller/test/traffic"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// noticed is how long health checks fail at least before a proxy stops: several checks of
// the load balancer.
const noticed = 5 * time.Second

// TestNodeShutdown shuts a node down as systemd does, has the fleet roll out without it,
// and powers it on again. Nothing is lost: its proxies go on until the load balancer has
// taken it out, and a node that is away holds up neither the other nodes nor their health
// checkers, nor what is known to be good.
func TestNodeShutdown(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), patient)
	defer cancel()
	node := theHarness.Nodes()[nodes-1]
	systemd := startLogind(ctx, t, node, time.Minute)
	s := scenario{example: "nginx.yaml", adjust: func(set *v1alpha1.IngressDaemonSet) {
		set.Spec.DrainHook = &v1alpha1.DrainHook{LingerSeconds: new(int32(3)), StopSeconds: new(int32(5))}
		set.Spec.Template.Spec.TerminationGracePeriodSeconds = new(int64(30))
		// As proxies often do. Health checkers are then wanted on a node that is away.
		set.Spec.Template.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
		set.Spec.ProgressDeadlineSeconds = new(int32(20))
		u := set.Spec.UpdateStrategy.RollingUpdate
		u.MaxUnavailableNodes, u.FailurePolicy = new(intstr.FromInt32(2)), v1alpha1.RollBackOnFailure
	}}
	fleet := s.open(ctx, t)
	watching, stop := context.WithCancel(ctx)
	defer stop()
	// Whatever happens, the next test finds the node powered on.
	t.Cleanup(func() { _ = node.Start(context.Background()) })
	report := s.underTraffic(ctx, t, fleet, hostTold, fleet.Tell(watching), func(*lb.LB, *traffic.Process) error {
		failed := fleet.WatchFailed(watching)
		if err := shutDown(ctx, t, fleet, node, systemd); err != nil {
			return err
		}
		if err := node.Stop(ctx); err != nil {
			return err
		}
		count, example := failed.Count()
		t.Logf("%d pods were Failed, such as %s", count, example)
		if err := rollOutWithout(ctx, t, fleet, node); err != nil {
			return err
		}
		begun := time.Now()
		if err := node.Start(ctx); err != nil {
			return err
		}
		if err := takenBack(ctx, fleet, v1alpha1.ReasonRolledBack, nodes); err != nil {
			return err
		}
		t.Logf("%s came back and had what was taken back after %.0f s", node.Name(), time.Since(begun).Seconds())
		time.Sleep(3 * time.Second)
		return allHave(ctx, fleet, "v2")
	})
	losesNothing(t, report)
}

// shutDown has the kubelet stop the node's pods: health checks fail first, then the
// proxies end, and last the health checker.
func shutDown(ctx context.Context, t *testing.T, fleet *harness.Fleet, node *cluster.Node, systemd *logind) error {
	checks, proxies := startPoll(ctx, fleet.Harness, 10080), startPoll(ctx, fleet.Harness, 80)
	defer proxies.stop()
	defer checks.stop()
	begun := time.Now()
	if err := systemd.shutDown(); err != nil {
		return err
	}
	took := time.Since(begun)
	check, proxy := checks.take()[node.Name()], proxies.take()[node.Name()]
	t.Logf("at the shutdown of %s, in s: health checks failed after %.1f, proxies ended after %.1f, the health checker after %.1f, the kubelet let go after %.1f",
		node.Name(), check.failing.Sub(begun).Seconds(), proxy.heard.Sub(begun).Seconds(), check.heard.Sub(begun).Seconds(), took.Seconds())
	if check.failing.IsZero() || proxy.heard.Before(check.failing.Add(noticed)) {
		t.Error("proxies ended before the load balancer could notice")
	}
	if check.heard.Before(proxy.heard) {
		t.Error("the health checker ended before the proxies")
	}
	return nil
}

// rollOutWithout rolls out, while a node is away, first what is good, together with other
// health checkers, and then what never gets ready and is taken back.
func rollOutWithout(ctx context.Context, t *testing.T, fleet *harness.Fleet, away *cluster.Node) error {
	begun := time.Now()
	done := func(what string) {
		t.Logf("%s after %.0f s without %s", what, time.Since(begun).Seconds(), away.Name())
	}
	if err := theHarness.PushImage(ctx, next, filepath.Join(theHarness.Dir(), "ingress-daemonset-controller.tar")); err != nil {
		return err
	}
	if err := fleet.WaitStatus(ctx, away.Name()+" to be missed", func(s v1alpha1.IngressDaemonSetStatus) bool { return s.ServingNodes == nodes-1 }); err != nil {
		return err
	}
	done("it was missed")
	before, err := fleet.Set(ctx)
	if err != nil {
		return err
	}
	if err := fleet.Change(ctx, func(set *v1alpha1.IngressDaemonSet) {
		harness.SetVersion("v2")(set)
		set.Spec.HealthChecker.Image = next
	}); err != nil {
		return err
	}
	if err := checkersRun(ctx, fleet, next, nodes-1); err != nil {
		return err
	}
	done("other health checkers ran")
	if err := fleet.WaitStatus(ctx, "the revision to be current", func(s v1alpha1.IngressDaemonSetStatus) bool {
		return s.ObservedGeneration > before.Generation && s.CurrentRevision != before.Status.CurrentRevision && s.ServingNodes == nodes-1
	}); err != nil {
		return err
	}
	done("what is good was current")
	if err := fleet.Change(ctx, func(set *v1alpha1.IngressDaemonSet) {
		harness.SetVersion("bad")(set)
		set.Spec.Template.Spec.Containers[0].ReadinessProbe.HTTPGet.Path = "/nowhere"
	}); err != nil {
		return err
	}
	// It is not over before the node that is away has the template too.
	if err := takenBack(ctx, fleet, v1alpha1.ReasonRollingBack, nodes-1); err != nil {
		return err
	}
	done("what never gets ready was taken back")
	return nil
}

// takenBack waits until the present template is taken back, as far as a reason says, and
// so many nodes serve.
func takenBack(ctx context.Context, fleet *harness.Fleet, reason string, serving int32) error {
	return fleet.WaitStatus(ctx, "the template to be taken back", func(s v1alpha1.IngressDaemonSetStatus) bool {
		c := meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionProgressing)
		return c != nil && c.Reason == reason && s.ServingNodes == serving && len(s.Wave) == 0
	})
}

// allHave is an error where a pod that runs is of another version.
func allHave(ctx context.Context, fleet *harness.Fleet, version string) error {
	pods, err := fleet.Pods(ctx)
	if err != nil {
		return err
	}
	for _, pod := range pods {
		for _, env := range pod.Spec.Containers[0].Env {
			if env.Name == "VERSION" && env.Value != version && pod.DeletionTimestamp == nil {
				return fmt.Errorf("pod %s on %s is of version %s", pod.Name, pod.Spec.NodeName, env.Value)
			}
		}
	}
	return nil
}
