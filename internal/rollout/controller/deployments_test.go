package controller

import (
	"testing"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/rollout"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestUnmarkForgetsADrain removes all that a drain wrote, also where it was over before
// the node was emptied: what is left of it would be taken back without end.
func TestUnmarkForgetsADrain(t *testing.T) {
	set := benchSet()
	r, _, err := newReconciler(set)
	if err != nil {
		t.Fatal(err)
	}
	d := benchDeployment(set, "node-1")
	d.ResourceVersion = ""
	if err := r.client.Create(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	o := &observed{set: set, strategy: set.Spec.Strategy(), nodes: map[string]*nodeObjects{"node-1": {deployment: d}}}
	for _, s := range []rollout.Step{
		{Action: rollout.Mark, Node: "node-1", Mark: "a mark", Drained: true},
		{Action: rollout.Unmark, Node: "node-1"},
	} {
		if err := r.amend(t.Context(), o, s); err != nil {
			t.Fatal(err)
		}
		if err := r.live.Get(t.Context(), client.ObjectKeyFromObject(d), d); err != nil {
			t.Fatal(err)
		}
		for _, key := range []string{v1alpha1.AnnotationMarkKey, v1alpha1.DefaultMarkKey, v1alpha1.AnnotationDrainedAt} {
			if _, there := d.Annotations[key]; there != (s.Action == rollout.Mark) {
				t.Errorf("after %v: annotation %s is there: %v", s.Action, key, there)
			}
		}
	}
}
