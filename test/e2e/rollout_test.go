package e2e

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/test/harness"
	"github.com/mumoshu/ingress-daemonset-controller/test/lb"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// On the host network the load balancer asks the health-check node port; in the
// controls it asks the proxy itself, which knows nothing of a mark.
var (
	hostTold   = harness.Ports{Traffic: 80, Check: 10080}
	hostUntold = harness.Ports{Traffic: 80, Check: 10254, Path: "/healthz"}
)

func TestHostNetwork(t *testing.T) {
	scenario{example: "nginx.yaml", told: hostTold, untold: hostUntold}.run(t)
}

// TestHostNetworkCaddy removes the health-check port that the load balancer asks.
func TestHostNetworkCaddy(t *testing.T) {
	scenario{example: "caddy.yaml", told: hostTold, untold: hostUntold, during: removePort}.run(t)
}

// removePort replaces a health-check port while a node is under way. The old one goes on
// answering, marks included, until the load balancer asks the new one and it is released.
func removePort(ctx context.Context, t *testing.T, fleet *harness.Fleet, front *lb.LB) error {
	if err := fleet.WaitUpdated(ctx, 1); err != nil {
		return err
	}
	if err := fleet.Change(ctx, func(set *v1alpha1.IngressDaemonSet) { set.Spec.HealthCheckNodePorts = []int32{10081} }); err != nil {
		return err
	}
	if err := fleet.WaitServing(ctx); err != nil {
		return err
	}
	if err := waitFor(ctx, fleet, v1alpha1.ConditionWarning, v1alpha1.ReasonHealthCheckPortAsked); err != nil {
		return err
	}
	set, err := fleet.Set(ctx)
	if err != nil {
		return err
	}
	if warning := meta.FindStatusCondition(set.Status.Conditions, v1alpha1.ConditionWarning); !strings.Contains(warning.Message, theHarness.HostIP()) {
		t.Errorf("who asks the removed port is not told: %s", warning.Message)
	}
	for _, n := range fleet.Nodes() {
		if err := front.MoveCheck(n.Name(), 10081); err != nil {
			return err
		}
	}
	old := startPoll(ctx, fleet.Harness, 10080)
	defer old.stop()
	if err := fleet.Change(ctx, func(set *v1alpha1.IngressDaemonSet) {
		metav1.SetMetaDataAnnotation(&set.ObjectMeta, v1alpha1.AnnotationReleasedPorts, "10080")
	}); err != nil {
		return err
	}
	return old.until(ctx, "the released port to be closed", func(_ string, r record) bool { return r.kinds["connection refused"] > 0 })
}

// TestOrphaned deletes the IngressDaemonSet without its pods while a node is under way,
// and makes it again: it adopts the pods, and goes on with the others.
func TestOrphaned(t *testing.T) {
	scenario{example: "haproxy.yaml", told: hostTold, untold: hostUntold, during: orphan}.run(t)
}

func orphan(ctx context.Context, t *testing.T, fleet *harness.Fleet, _ *lb.LB) error {
	if err := fleet.WaitUpdated(ctx, 1); err != nil {
		return err
	}
	set, err := fleet.Set(ctx)
	if err != nil {
		return err
	}
	if out, err := theHarness.Kubectl(ctx, "-n", fleet.Key.Namespace, "delete", "ids", fleet.Key.Name, "--cascade=orphan").CombinedOutput(); err != nil {
		return fmt.Errorf("deleting the IngressDaemonSet: %w: %s", err, out)
	}
	asked := startPoll(ctx, fleet.Harness, 10080)
	defer asked.stop()
	time.Sleep(5 * time.Second)
	left, err := fleet.Pods(ctx)
	if err != nil {
		return err
	}
	if err := theHarness.Create(ctx, &v1alpha1.IngressDaemonSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: set.Namespace, Name: set.Name}, Spec: set.Spec,
	}); err != nil {
		return err
	}
	answers := asked.take()
	t.Logf("without an IngressDaemonSet: %s", told(answers))
	for node, r := range answers {
		if len(r.kinds) != 1 || r.kinds[fine] == 0 {
			t.Errorf("%s did not go on answering 200", node)
		}
	}
	if err := fleet.WaitServing(ctx); err != nil {
		return err
	}
	return adopted(ctx, fleet, left)
}

// adopted is an error where no pod of the present template, of those that were left, runs
// on, or a Deployment does not belong to the present IngressDaemonSet.
func adopted(ctx context.Context, fleet *harness.Fleet, left map[types.UID]*corev1.Pod) error {
	now, err := fleet.Pods(ctx)
	if err != nil {
		return err
	}
	maps.DeleteFunc(now, func(uid types.UID, _ *corev1.Pod) bool { return left[uid] == nil })
	if len(now) == 0 {
		return errors.New("none of the pods that were left runs on")
	}
	set, err := fleet.Set(ctx)
	if err != nil {
		return err
	}
	list := &appsv1.DeploymentList{}
	if err := theHarness.List(ctx, list, client.InNamespace(fleet.Key.Namespace)); err != nil {
		return err
	}
	for i := range list.Items {
		if !metav1.IsControlledBy(&list.Items[i], set) {
			return fmt.Errorf("Deployment %s was not adopted", list.Items[i].Name)
		}
	}
	return nil
}

func TestNodePort(t *testing.T) {
	scenario{
		example: "nodeport.yaml",
		told:    harness.Ports{Traffic: 30080, Check: 10080},
		untold:  harness.Ports{Traffic: 30080, Check: 30080},
	}.run(t)
}

// TestService has kube-proxy answer the load balancer's health checks.
func TestService(t *testing.T) {
	scenario{
		example: "service.yaml",
		told:    harness.Ports{Traffic: 30080, Check: 30081},
		untold:  harness.Ports{Traffic: 30080, Check: 30080},
	}.run(t)
}

// TestNodeDetacher has the load balancer ask the proxy itself: only the detacher
// takes nodes out.
func TestNodeDetacher(t *testing.T) {
	scenario{
		example: "node-detacher.yaml", told: hostUntold, untold: hostUntold, detacher: true,
	}.run(t)
}

// TestRollback goes back to the first template while a node is under way.
func TestRollback(t *testing.T) {
	scenario{
		example: "haproxy.yaml", told: hostTold, untold: hostUntold, final: "1",
		during: func(ctx context.Context, _ *testing.T, fleet *harness.Fleet, _ *lb.LB) error {
			if err := fleet.WaitUpdated(ctx, 2); err != nil {
				return err
			}
			return fleet.Change(ctx, harness.SetVersion("1"))
		},
	}.run(t)
}

// longestTakeover is how long a rollout may wait for another leader.
const longestTakeover = 20 * time.Second

// TestControllerKilled kills the leading controller at random moments, and the one
// that takes over.
func TestControllerKilled(t *testing.T) {
	scenario{
		example: "haproxy.yaml", told: hostTold, untold: hostUntold,
		during: func(ctx context.Context, t *testing.T, fleet *harness.Fleet, _ *lb.LB) error {
			leader, err := fleet.Leader(ctx, "")
			for range 2 {
				if err != nil {
					return err
				}
				pause(ctx, time.Second, 8*time.Second)
				if err := fleet.KillController(ctx, leader); err != nil {
					return err
				}
				killed := time.Now()
				if leader, err = fleet.Leader(ctx, leader); err != nil {
					return err
				}
				took := time.Since(killed)
				t.Logf("%s took over after %.1f s", leader, took.Seconds())
				if took >= longestTakeover {
					t.Errorf("the rollout had no leader for %s", took)
				}
			}
			return nil
		},
	}.run(t)
}

// TestAPIServerDown stops the API server for a minute while a node is under way.
func TestAPIServerDown(t *testing.T) {
	scenario{
		example: "nginx.yaml", told: hostTold, untold: hostUntold,
		during: func(ctx context.Context, t *testing.T, fleet *harness.Fleet, _ *lb.LB) error {
			if err := fleet.WaitUpdated(ctx, 1); err != nil {
				return err
			}
			if err := fleet.StopAPIServer(ctx); err != nil {
				return err
			}
			time.Sleep(time.Minute)
			return fleet.StartAPIServer(ctx)
		},
	}.run(t)
}
