package e2e

import (
	"context"
	"fmt"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/test/harness"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// apart has the API server away for a minute, then the controller that leads killed while a backend comes and goes, then
// neither of them there while of the proxies of a node one is killed and another freezes: they serve what they were told
// last.
func apart(ctx context.Context, t *testing.T, fleet *harness.Fleet) {
	sleeps := client.ObjectKey{Namespace: fleet.Key.Namespace, Name: endings[0].name}
	watching, unwatch := context.WithCancel(ctx)
	defer unwatch()
	story := fleet.TellBackend(watching, sleeps.Name, client.MatchingLabels{"app": sleeps.Name})
	_, stop := sending(ctx, t, fleet.Nodes(), proxyPort, harness.Request{Method: "GET", Host: sleeps.Name}, harness.Request{Method: "POST", Host: sleeps.Name})
	if err := awayForAMinute(ctx, fleet); err != nil {
		t.Error(err)
	}
	t.Log("the API server was away for a minute")
	if err := waitFollowed(ctx, fleet.Key.Namespace, endings[1].name); err != nil {
		t.Error(err)
	}
	if err := killLeader(ctx, t, fleet, sleeps); err != nil {
		t.Error(err)
	}
	losesNothing(t, stop())
	if t.Failed() {
		t.Log("what happened:\n" + strings.Join(story.Lines(), "\n"))
		return
	}
	back, err := removeControllers(ctx)
	if err != nil {
		t.Fatal(err)
	}
	breakProxies(ctx, t, fleet, sleeps.Name)
	if err := back(); err != nil {
		t.Fatal(err)
	}
	const late = "late"
	ingress := served(fleet.Key.Namespace, late)
	if err := create(ctx, append(ingress, (ending{name: late}).pods(fleet.Key.Namespace, late, 1))...); err != nil {
		t.Fatal(err)
	}
	for _, node := range fleet.Nodes() {
		if _, err := waitAnswer(ctx, node.IP(), late); err != nil {
			t.Error(err)
		}
	}
}

func awayForAMinute(ctx context.Context, fleet *harness.Fleet) error {
	if err := fleet.StopAPIServer(ctx); err != nil {
		return err
	}
	time.Sleep(time.Minute)
	return fleet.StartAPIServer(ctx)
}

// waitFollowed scales a backend without requests until its EndpointSlices follow within a second: who writes them was
// without an API server, too, and may be late for longer than pods sleep before they end.
func waitFollowed(ctx context.Context, namespace, name string) error {
	replicas := int32(most)
	return harness.Wait(ctx, "EndpointSlices to follow at once", func() (bool, error) {
		if replicas--; replicas == 0 {
			replicas = most
		}
		key := client.ObjectKey{Namespace: namespace, Name: name}
		if err := scaleTo(ctx, key, replicas); err != nil {
			return false, err
		}
		ready := func() (n int32, err error) {
			slices := &discoveryv1.EndpointSliceList{}
			err = theHarness.List(ctx, slices, client.InNamespace(namespace), client.MatchingLabels{discoveryv1.LabelServiceName: name})
			for _, slice := range slices.Items {
				for _, e := range slice.Endpoints {
					if e.Conditions.Ready != nil && *e.Conditions.Ready {
						n++
					}
				}
			}
			return n, err
		}
		time.Sleep(time.Second)
		n, err := ready()
		return err == nil && n == replicas, err
	})
}

// killLeader kills it while pods end and while they come, and waits for another.
func killLeader(ctx context.Context, t *testing.T, fleet *harness.Fleet, backend client.ObjectKey) error {
	for _, replicas := range []int32{1, most} {
		// Where the other replica is not there, which begins anew after an API server that was away, nobody tells proxies.
		if err := waitControllers(ctx); err != nil {
			return err
		}
		var leader string
		// Those that ended while the API server was away are known there by what they were.
		if err := harness.Wait(ctx, "the leader to be killed", func() (killed bool, err error) {
			if leader, err = fleet.Leader(ctx, ""); err != nil {
				return false, err
			}
			return fleet.KillController(ctx, leader) == nil, nil
		}); err != nil {
			return err
		}
		if err := scaleTo(ctx, backend, replicas); err != nil {
			return err
		}
		next, err := fleet.Leader(ctx, leader)
		if err != nil {
			return err
		}
		t.Logf("%s leads after %s was killed", next, leader)
	}
	return nil
}

// waitControllers waits until both replicas are ready, and no other is to become one of them.
func waitControllers(ctx context.Context) error {
	return harness.Wait(ctx, "both controllers to be ready", func() (bool, error) {
		deployment := &appsv1.Deployment{}
		err := theHarness.Get(ctx, client.ObjectKey{Namespace: harness.Namespace, Name: "ingress-daemonset-controller"}, deployment)
		s := deployment.Status
		return s.ObservedGeneration == deployment.Generation && s.Replicas == 2 && s.UpdatedReplicas == 2 && s.ReadyReplicas == 2, err
	})
}

// removeControllers leaves none, until back.
func removeControllers(ctx context.Context) (back func() error, err error) {
	const name = "ingress-daemonset-controller"
	scaleController := func(replicas int) error {
		out, err := theHarness.Kubectl(ctx, "-n", harness.Namespace, "scale", "deployment/"+name, fmt.Sprintf("--replicas=%d", replicas)).CombinedOutput()
		if err != nil {
			return fmt.Errorf("scaling the controller: %w: %s", err, out)
		}
		return nil
	}
	if err := scaleController(0); err != nil {
		return nil, err
	}
	return func() error { return scaleController(2) }, harness.Wait(ctx, "no controller to be left", func() (bool, error) {
		out, err := theHarness.Kubectl(ctx, "-n", harness.Namespace, "get", "pods", "-o", "name").CombinedOutput()
		return !strings.Contains(string(out), "/"+name), err
	})
}

// breakProxies kills one proxy of a node and freezes the other, under traffic to all other nodes, while the API server is
// away, and waits until they answer again: the kubelet has their probes.
func breakProxies(ctx context.Context, t *testing.T, fleet *harness.Fleet, host string) {
	t.Helper()
	node, others := fleet.Nodes()[0], fleet.Nodes()[1:]
	broken, err := proxiesOn(ctx, fleet, node.Name())
	if err != nil || len(broken) != 2 {
		t.Fatalf("%d proxies on %s: %v", len(broken), node.Name(), err)
	}
	_, stop := sending(ctx, t, others, proxyPort, harness.Request{Method: "GET", Host: host}, harness.Request{Method: "POST", Host: host})
	if err := fleet.StopAPIServer(ctx); err != nil {
		t.Fatal(err)
	}
	for pod, signal := range map[*corev1.Pod]syscall.Signal{broken[0]: syscall.SIGKILL, broken[1]: syscall.SIGSTOP} {
		if err := harness.Signal(pod, signal); err != nil {
			t.Error(err)
		}
	}
	answered, err := waitAnswer(ctx, node.IP(), host)
	if err != nil {
		t.Error(err)
	}
	frozen := time.Now()
	err = harness.Wait(ctx, "both proxies of the node to answer", func() (bool, error) {
		// They share the port: of so many connections in a row, both have some.
		for range 30 {
			if _, err := get(ctx, net.JoinHostPort(node.IP(), "80"), host, "/"); err != nil {
				return false, nil
			}
		}
		return true, nil
	})
	if err != nil {
		t.Error(err)
	}
	t.Logf("a frozen proxy was begun anew after %.0f s, while no API server was there", time.Since(frozen).Seconds())
	if err := fleet.StartAPIServer(ctx); err != nil {
		t.Fatal(err)
	}
	losesNothing(t, stop())
	for _, pod := range broken {
		began, err := startedAt(ctx, client.ObjectKeyFromObject(pod))
		if err != nil {
			t.Error(err)
		} else if pod == broken[0] {
			t.Logf("%s answered from its snapshot %.1f s after it had started", pod.Name, answered.Sub(began).Seconds())
		}
	}
}

// proxiesOn are those of a node.
func proxiesOn(ctx context.Context, fleet *harness.Fleet, node string) (out []*corev1.Pod, err error) {
	pods, err := fleet.Pods(ctx)
	for _, pod := range pods {
		if pod.Spec.NodeName == node {
			out = append(out, pod)
		}
	}
	return out, err
}

// waitAnswer waits until a node's proxies serve a host, and says when they first did.
func waitAnswer(ctx context.Context, ip, host string) (at time.Time, err error) {
	ctx, cancel := context.WithTimeout(ctx, patient/2)
	defer cancel()
	ask := func() error {
		// Half of all connections are to the one that is frozen.
		ctx, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
		defer cancel()
		_, err := get(ctx, net.JoinHostPort(ip, fmt.Sprint(proxyPort)), host, "/")
		return err
	}
	for {
		if err = ask(); err == nil {
			return time.Now(), nil
		}
		select {
		case <-ctx.Done():
			return at, fmt.Errorf("%s at %s: %w", host, ip, err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// startedAt is when a proxy's process began, by its log, which says as well that no controller told it what it serves.
func startedAt(ctx context.Context, pod types.NamespacedName) (time.Time, error) {
	const restored = "serving what the last snapshot says"
	out, err := theHarness.Kubectl(ctx, "-n", pod.Namespace, "logs", pod.Name).CombinedOutput()
	log := string(out)
	if err != nil || !strings.Contains(log, restored) {
		return time.Time{}, fmt.Errorf("%s does not say %q: %w: %s", pod, restored, err, out)
	}
	first, _, _ := strings.Cut(log, " ")
	return time.Parse(time.RFC3339, strings.TrimPrefix(first, "time="))
}
