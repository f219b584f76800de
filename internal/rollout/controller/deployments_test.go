package controller

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/rollout"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

// TestHoldsTheTemplateThatRuns: holding a Deployment back, and asking it for more pods
// again, makes no template anew. It stays, or is that of the ReplicaSet whose pods run.
func TestHoldsTheTemplateThatRuns(t *testing.T) {
	template := func(image string) corev1.PodTemplateSpec {
		return corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{v1alpha1.LabelRevision: "r1"}},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "proxy", Image: image}}},
		}
	}
	for name, test := range map[string]struct {
		step  rollout.Step
		image string
	}{
		"held as it is":       {rollout.Step{Action: rollout.HoldBack, Keep: true, Revision: "r1", Replicas: 1, Paused: true}, "changed"},
		"asked for more pods": {rollout.Step{Action: rollout.Update, Keep: true, Revision: "r1", Replicas: 2}, "changed"},
		"taken back":          {rollout.Step{Action: rollout.HoldBack, ReplicaSet: "running", Revision: "r1", Replicas: 1}, "running"},
	} {
		t.Run(name, func(t *testing.T) {
			set := benchSet()
			r, _, err := newReconciler(set)
			if err != nil {
				t.Fatal(err)
			}
			d := benchDeployment(set, "node-1")
			d.ResourceVersion, d.Spec.Template = "", template("changed")
			d.Annotations[v1alpha1.AnnotationDrainedAt] = "2026-01-01T00:00:00Z"
			running := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{
				Namespace: d.Namespace, Name: d.Name + "-running",
				OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(d, appsv1.SchemeGroupVersion.WithKind("Deployment"))},
			}, Spec: appsv1.ReplicaSetSpec{Template: template("running")}}
			running.Spec.Template.Labels[appsv1.DefaultDeploymentUniqueLabelKey] = "running"
			for _, object := range []client.Object{d, running} {
				if err := r.client.Create(t.Context(), object); err != nil {
					t.Fatal(err)
				}
			}
			step := test.step
			step.Node, step.Hold = "node-1", &rollout.Hold{Revision: "r1", Attempts: 1}
			o := &observed{set: set, strategy: set.Spec.Strategy(), nodes: map[string]*nodeObjects{"node-1": {deployment: d.DeepCopy()}}}
			if err := r.carryOut(t.Context(), o, step); err != nil {
				t.Fatal(err)
			}
			if err := r.live.Get(t.Context(), client.ObjectKeyFromObject(d), d); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(template(test.image), d.Spec.Template); diff != "" {
				t.Errorf("the template (-want +got):\n%s", diff)
			}
			if *d.Spec.Replicas != step.Replicas || d.Spec.Paused != step.Paused || d.Annotations[v1alpha1.AnnotationHold] == "" {
				t.Errorf("%d replicas, paused %t, %v", *d.Spec.Replicas, d.Spec.Paused, d.Annotations)
			}
			if _, drained := d.Annotations[v1alpha1.AnnotationDrainedAt]; drained != (step.Action == rollout.HoldBack) {
				t.Errorf("drained: %t", drained)
			}
		})
	}
}

// TestAReplicaSetThatIsGone: what its pods were made from cannot be known any more; the
// next look shows others.
func TestAReplicaSetThatIsGone(t *testing.T) {
	set := benchSet()
	r, _, err := newReconciler(set)
	if err != nil {
		t.Fatal(err)
	}
	o := &observed{set: set, nodes: map[string]*nodeObjects{"node-1": {deployment: benchDeployment(set, "node-1")}}}
	err = r.carryOut(t.Context(), o, rollout.Step{Action: rollout.HoldBack, Node: "node-1", ReplicaSet: "gone", Hold: &rollout.Hold{}})
	if !onlyConflicts(err) {
		t.Errorf("got %v", err)
	}
}
