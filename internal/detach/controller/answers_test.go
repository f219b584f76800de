package controller

import (
	"slices"
	"testing"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestARestartWithACloudForgetsWhatWasAnsweredWithout: without a cloud this controller says itself that a node
// is out. One that has a cloud excludes the node, and says that its traffic has stopped, only when its
// load balancers were asked.
func TestARestartWithACloudForgetsWhatWasAnsweredWithout(t *testing.T) {
	fresh := detached("a")
	fresh.Status = v1alpha1.AttachmentStatus{ObservedGeneration: -1}
	c := newCluster(t, cordoned("a"), fresh)
	r := c.reconciler()
	r.Targets = false
	for range 2 {
		if err := c.pass(t, r); err != nil {
			t.Fatal(err)
		}
	}
	stored := &v1alpha1.Attachment{}
	read := func(into client.Object) {
		t.Helper()
		if err := c.Get(t.Context(), client.ObjectKey{Name: "a"}, into); err != nil {
			t.Fatal(err)
		}
	}
	read(stored)
	if s := stored.Status; !s.Done || !s.WithoutCloud || s.ObservedGeneration != stored.Generation || !meta.IsStatusConditionTrue(s.Conditions, v1alpha1.ConditionReady) {
		t.Fatalf("without a cloud: %+v", s)
	}
	writes := c.Writes()
	if err := c.pass(t, r); err != nil || !slices.Equal(c.Writes(), writes) {
		t.Errorf("it is written again: %v, %v", err, c.Writes())
	}

	if err := c.pass(t, c.reconciler()); err != nil {
		t.Fatal(err)
	}
	node := &corev1.Node{}
	read(node)
	_, stopped := node.Annotations[v1alpha1.AnnotationDetachmentTimestamp]
	_, excluded := node.Labels[v1alpha1.LabelExclude]
	if stopped || excluded || node.Annotations[v1alpha1.AnnotationNodeDetaching] != "true" {
		t.Errorf("with a cloud that was not asked: %v, %v", node.Annotations, node.Labels)
	}

	read(stored)
	stored.Status.WithoutCloud, stored.Status.Evidence = false, "FloorPassed"
	if err := c.Status().Update(t.Context(), stored); err != nil {
		t.Fatal(err)
	}
	if err := c.pass(t, c.reconciler()); err != nil {
		t.Fatal(err)
	}
	read(node)
	if node.Annotations[v1alpha1.AnnotationDetachmentEvidence] != "FloorPassed" || node.Labels[v1alpha1.LabelExclude] != v1alpha1.ExcludedByUs {
		t.Errorf("answered with a cloud: %v, %v", node.Annotations, node.Labels)
	}
}
