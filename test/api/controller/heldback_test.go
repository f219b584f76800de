package controller

import (
	"fmt"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
)

// TestHeldBackOutOfTurn shows that a node whose pods are rejected after somebody else's
// change goes back to the pods that run, although the template would be rendered
// otherwise by now. In a rollout that is paused no turn comes in which they may go.
func TestHeldBackOutOfTurn(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 0)
	k := f.addKubelet()
	set := f.create("proxy", withoutChecks, func(set *v1alpha1.IngressDaemonSet) {
		set.Spec.UpdateStrategy.RollingUpdate = &v1alpha1.RollingUpdate{}
	})
	f.complete(set)
	before := uids(f.pods(set, k.node))
	f.change(set, func(set *v1alpha1.IngressDaemonSet) {
		set.Spec.Paused, set.Spec.PodPlacement = true, v1alpha1.PlaceByScheduler
	})
	k.rejects.Store(true)
	f.kubectl("set", "env", "deployment/proxy-"+k.node, "FOREIGN=1")
	f.eventually("the node is held back", func() error {
		if d := f.deployment(set, k.node); d.Annotations[v1alpha1.AnnotationHold] == "" || d.Spec.Template.Spec.Containers[0].Env != nil {
			return fmt.Errorf("it is not: %v", d.Annotations)
		}
		return nil
	})
	f.waitFor("the status tells of it", set, func(set *v1alpha1.IngressDaemonSet) bool {
		return reason(set, v1alpha1.ConditionDegraded) != v1alpha1.ReasonAsExpected
	})
	k.rejects.Store(false)
	f.waitFor("the node serves", set, func(set *v1alpha1.IngressDaemonSet) bool {
		return reason(set, v1alpha1.ConditionDegraded) == v1alpha1.ReasonAsExpected && set.Status.ServingNodes == 1
	})
	if d := f.deployment(set, k.node); d.Spec.Template.Spec.Affinity != nil || d.Annotations[v1alpha1.AnnotationHold] != "" {
		t.Errorf("the template is placed by %v, %v", d.Spec.Template.Spec.Affinity, d.Annotations)
	}
	if now := uids(f.pods(set, k.node)); fmt.Sprint(now) != fmt.Sprint(before) {
		t.Errorf("the pods were %v and are %v", before, now)
	}
	for _, pod := range f.allPods(set) {
		if pod.Status.Phase == corev1.PodFailed {
			t.Errorf("%s is left", pod.Name)
		}
	}
}

// TestTaintedWhileADetacherIsSlow shows that pods which a taint evicts are not made again
// while their node waits to leave the load balancer, and are when the taint is gone.
func TestTaintedWhileADetacherIsSlow(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 2)
	node := f.nodes[0]
	set := f.create("proxy", answered, func(set *v1alpha1.IngressDaemonSet) {
		// Long enough for the detacher to be asked before the pods are evicted.
		set.Spec.Template.Spec.Tolerations = []corev1.Toleration{{
			Key: "maintenance", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: new(int64(10)),
		}}
	})
	f.complete(set)
	made := f.podsMade(node)
	f.kubectl("taint", "node", node, "maintenance=now:NoExecute")
	f.waitAsked(node)
	f.eventually("no pod is asked for", func() error {
		if d := f.deployment(set, node); *d.Spec.Replicas != 0 || !marked(d) {
			return fmt.Errorf("%d are, marked %t", *d.Spec.Replicas, marked(d))
		}
		return nil
	})
	f.eventually("no pod is left", func() error {
		if left := f.pods(set, node); len(left) > 0 {
			return fmt.Errorf("%d are", len(left))
		}
		return nil
	})
	f.kubectl("taint", "node", node, "maintenance-")
	f.answer(node)
	f.eventually("the node is released", func() error { return f.clear(node) })
	f.complete(set)
	if got := len(f.pods(set, node)); got != 2 {
		t.Errorf("%d pods are on the node again", got)
	}
	if n := made(); n > 22 {
		t.Errorf("%d pods were made", n)
	}
}

// podsMade counts the pods that are made on a node from now on.
func (f *fixture) podsMade(node string) func() int {
	f.Helper()
	w, err := api.Watch(f.Context(), &corev1.PodList{}, client.InNamespace(f.ns))
	f.must(err)
	f.Cleanup(w.Stop)
	before := map[types.UID]bool{}
	list := &corev1.PodList{}
	f.must(api.List(f.Context(), list, client.InNamespace(f.ns)))
	for _, pod := range list.Items {
		before[pod.UID] = true
	}
	var made atomic.Int32
	go func() {
		for e := range w.ResultChan() {
			pod, ok := e.Object.(*corev1.Pod)
			if ok && e.Type == watch.Added && !before[pod.UID] && pod.Labels[v1alpha1.LabelNode] == v1alpha1.LabelValue(node) {
				made.Add(1)
			}
		}
	}()
	return func() int { return int(made.Load()) }
}
