package controller

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"

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
