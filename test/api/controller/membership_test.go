package controller

import (
	"fmt"
	"strconv"
	"sync"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
)

// TestRelabel takes a node that leaves the set out first, and brings it back.
func TestRelabel(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 2)
	set := f.create("proxy", func(set *v1alpha1.IngressDaemonSet) {
		set.Spec.Template.Spec.NodeSelector = map[string]string{fixtureLabel: f.ns}
	})
	f.complete(set)
	node := f.nodes[0]
	seen := f.record(set)
	f.kubectl("label", "node", node, fixtureLabel+"-")
	f.eventually("its Deployment is gone", func() error {
		if f.deployments(set)[node] != nil {
			return fmt.Errorf("it is there")
		}
		return nil
	})
	wasMarked := false
	for _, d := range seen() {
		wasMarked = wasMarked || d.Name == "proxy-"+node && marked(d)
	}
	if !wasMarked {
		t.Error("the Deployment was deleted without a mark")
	}
	f.complete(set)
	f.kubectl("label", "node", node, fixtureLabel+"="+f.ns)
	f.waitFor("both nodes serve", set, func(set *v1alpha1.IngressDaemonSet) bool { return set.Status.ServingNodes == 2 && isComplete(set) })
}

// TestRelabelledBack while it is being detached: it is reattached, its pods live on.
func TestRelabelledBack(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 2)
	set := f.create("proxy", answered)
	f.complete(set)
	node := f.nodes[0]
	before := uids(f.pods(set, node))
	f.kubectl("label", "node", node, fixtureLabel+"-")
	f.waitAsked(node)
	f.kubectl("label", "node", node, fixtureLabel+"="+f.ns)
	f.released(node)
	f.complete(set)
	if now := uids(f.pods(set, node)); fmt.Sprint(now) != fmt.Sprint(before) {
		t.Errorf("the pods were %v and are %v", before, now)
	}
}

// TestOtherSelector: nodes that a change of the selector takes out of the set keep their
// health checkers until they have left one after the other, since without them they
// would all leave the load balancer at once.
func TestOtherSelector(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 2)
	f.addNode(f.ns+"-3", func(n *corev1.Node) { n.Labels[fixtureLabel] = f.ns + "-b" })
	set := f.create("proxy")
	f.complete(set)
	left := f.lastOf(set)
	f.change(set, func(set *v1alpha1.IngressDaemonSet) {
		set.Spec.NodeSelector = map[string]string{fixtureLabel: f.ns + "-b"}
	})
	f.waitFor("the other node serves alone", set, func(set *v1alpha1.IngressDaemonSet) bool {
		return isComplete(set) && set.Status.ServingNodes == 1 && len(f.deployments(set)) == 1
	})
	f.eventually("no health checker is left on the others", func() error {
		for _, pod := range f.allPods(set) {
			if pod.Labels[v1alpha1.LabelHealthCheckPort] != "" && pod.Spec.NodeName != f.nodes[2] {
				return fmt.Errorf("%s is on %s", pod.Name, pod.Spec.NodeName)
			}
		}
		return nil
	})
	for _, node := range f.nodes[:2] {
		deployment, checker := left(node)
		if deployment == 0 || checker < deployment {
			t.Errorf("on %s the Deployment was deleted at revision %d, the last health checker at %d", node, deployment, checker)
		}
	}
}

// lastOf returns a function that tells the resource versions at which a node's Deployment
// was deleted, and the last of its health checkers was told to end; 0 for not yet.
func (f *fixture) lastOf(set *v1alpha1.IngressDaemonSet) func(node string) (deployment, checker int64) {
	f.Helper()
	var mu sync.Mutex
	deployments, checkers, ending := map[string]int64{}, map[string]int64{}, map[types.UID]bool{}
	see := func(e watch.Event) {
		mu.Lock()
		defer mu.Unlock()
		switch o := e.Object.(type) {
		case *appsv1.Deployment:
			if e.Type == watch.Deleted {
				deployments[o.Annotations[v1alpha1.AnnotationNode]] = revisionOf(o)
			}
		case *corev1.Pod:
			if o.Labels[v1alpha1.LabelHealthCheckPort] != "" && !ending[o.UID] && (o.DeletionTimestamp != nil || e.Type == watch.Deleted) {
				checkers[o.Spec.NodeName], ending[o.UID] = revisionOf(o), true
			}
		}
	}
	for _, list := range []client.ObjectList{&appsv1.DeploymentList{}, &corev1.PodList{}} {
		w, err := api.Watch(f.Context(), list, client.InNamespace(f.ns), client.MatchingLabels{v1alpha1.LabelName: set.Name})
		f.must(err)
		f.Cleanup(w.Stop)
		go func() {
			for e := range w.ResultChan() {
				see(e)
			}
		}()
	}
	return func(node string) (int64, int64) {
		mu.Lock()
		defer mu.Unlock()
		return deployments[node], checkers[node]
	}
}

func revisionOf(o client.Object) int64 {
	n, _ := strconv.ParseInt(o.GetResourceVersion(), 10, 64)
	return n
}

// TestTaints keeps pods off nodes as a DaemonSet does: a new taint NoSchedule
// leaves those that are there.
func TestTaints(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 1)
	f.addNode(f.ns+"-tainted", func(n *corev1.Node) {
		n.Spec.Taints = []corev1.Taint{{Key: "special", Effect: corev1.TaintEffectNoSchedule}}
	})
	set := f.create("proxy")
	f.complete(set)
	if set.Status.DesiredNodes != 1 {
		t.Errorf("%d nodes are desired", set.Status.DesiredNodes)
	}
	f.kubectl("taint", "node", f.nodes[0], "special:NoSchedule")
	f.change(set, func(set *v1alpha1.IngressDaemonSet) {
		set.Spec.Template.Spec.Tolerations = []corev1.Toleration{{Key: "special", Operator: corev1.TolerationOpExists}}
	})
	f.waitFor("both nodes serve", set, func(set *v1alpha1.IngressDaemonSet) bool { return set.Status.ServingNodes == 2 && isComplete(set) })
}

// TestJoin gives a node that joins in the middle of a rollout the newest pods at once.
func TestJoin(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 2)
	set, node := f.stuck()
	f.addNode(f.ns + "-new")
	f.eventually("it runs the new pods", func() error {
		d := f.deployments(set)[f.ns+"-new"]
		if d == nil || d.Status.ReadyReplicas != 2 || d.Spec.Template.Spec.Containers[0].Image != "proxy:v2" {
			return fmt.Errorf("it does not: %v", d != nil)
		}
		return nil
	})
	if f.deployment(set, node).Spec.Template.Spec.Containers[0].Image != "proxy:v1" {
		t.Error("the rollout did not wait for the detacher")
	}
}

// images counts the nodes by the version that their Deployment has.
func (f *fixture) images(set *v1alpha1.IngressDaemonSet) map[string]int {
	f.Helper()
	out := map[string]int{}
	for _, d := range f.deployments(set) {
		out[d.Spec.Template.Spec.Containers[0].Image]++
	}
	return out
}

// TestPartition leaves as many nodes as they are, and a node that joins gets what
// those have.
func TestPartition(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 4)
	partition := func(to intstr.IntOrString) change {
		return rolling(func(u *v1alpha1.RollingUpdate) { u.Partition = &to })
	}
	set := f.create("proxy", rolling(func(u *v1alpha1.RollingUpdate) { u.MaxUnavailableNodes = new(intstr.FromInt32(2)) }))
	f.complete(set)
	f.change(set, version("v2"), partition(intstr.FromString("75%")))
	f.waitReason(set, v1alpha1.ConditionProgressing, v1alpha1.ReasonComplete)
	if got := f.images(set); got["proxy:v2"] != 1 || set.Status.UpdatedNodes != 1 {
		t.Errorf("the images are %v, the status says %d", got, set.Status.UpdatedNodes)
	}
	f.change(set, partition(intstr.FromInt32(3)))
	f.addNode(f.ns + "-new")
	f.waitFor("the new node serves, and two are updated", set, func(set *v1alpha1.IngressDaemonSet) bool {
		return set.Status.ServingNodes == 5 && set.Status.UpdatedNodes == 2 && len(set.Status.Wave) == 0
	})
	if got := f.images(set); got["proxy:v1"] != 3 {
		t.Errorf("the images are %v", got)
	}
	f.change(set, partition(intstr.FromInt32(0)))
	f.complete(set)
}

// TestPause finishes the node under way and touches no other.
func TestPause(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 3)
	set, node := f.stuck()
	f.change(set, func(set *v1alpha1.IngressDaemonSet) { set.Spec.Paused = true })
	f.answer(node)
	f.eventually("the node under way is finished", func() error { return f.clear(node) })
	f.waitReason(set, v1alpha1.ConditionProgressing, v1alpha1.ReasonPaused)
	if got := f.images(set); got["proxy:v2"] != 1 || set.Status.ServingNodes != 3 {
		t.Errorf("the images are %v, %d nodes serve", got, set.Status.ServingNodes)
	}
	f.change(set, func(set *v1alpha1.IngressDaemonSet) {
		set.Spec.Paused = false
		set.Spec.UpdateStrategy.RollingUpdate.WaitForDetachmentByAnnotatedTimestamp = nil
	})
	f.complete(set)
}

// TestCanaries go first and alone.
func TestCanaries(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 3)
	canary := f.nodes[2]
	f.kubectl("label", "node", canary, "canary=yes")
	set := f.create("proxy", answered, rolling(func(u *v1alpha1.RollingUpdate) {
		u.MaxUnavailableNodes = new(intstr.FromInt32(2))
		u.CanaryNodeSelector = map[string]string{"canary": "yes"}
	}))
	f.complete(set)
	f.change(set, version("v2"))
	if first := f.waitAsked(f.nodes...); first != canary {
		t.Errorf("%s went first", first)
	}
	f.answer(canary)
	f.eventually("the canary is released", func() error { return f.clear(canary) })
	f.waitAsked(f.nodes[0], f.nodes[1])
	if got := f.images(set); got["proxy:v2"] != 1 {
		t.Errorf("the images are %v", got)
	}
}

// TestRevert in the middle of a rollout: who was not touched is left alone.
func TestRevert(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 2)
	set, node := f.stuck()
	before := uids(f.pods(set, ""))
	f.change(set, version("v1"))
	f.released(node)
	f.complete(set)
	if now := uids(f.pods(set, "")); fmt.Sprint(now) != fmt.Sprint(before) {
		t.Errorf("the pods were %v and are %v", before, now)
	}
}
