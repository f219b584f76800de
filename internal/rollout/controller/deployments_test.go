package controller

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/onepass"
	"github.com/mumoshu/ingress-daemonset-controller/internal/rollout"
	"github.com/mumoshu/ingress-daemonset-controller/internal/rollout/objects"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
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
			step.Node, step.Hold = "node-1", &v1alpha1.Hold{Revision: "r1", Attempts: 1}
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

// TestUpdateEndsWhatWasPatched: a hold or a drain is over with an update that does not set
// it, also where the patch that set it changed nothing of the spec. Server-side apply alone
// would leave it, and the Deployment would be updated again and again.
func TestUpdateEndsWhatWasPatched(t *testing.T) {
	hold := &v1alpha1.Hold{Revision: "r1", Attempts: 1}
	for name, test := range map[string]struct {
		patch rollout.Step
		key   string
	}{
		"a hold at the pods that there are": {rollout.Step{Action: rollout.HoldBack, Keep: true, Replicas: 2, Hold: hold}, v1alpha1.AnnotationHold},
		"a drain that emptied no node":      {rollout.Step{Action: rollout.Mark, Mark: "a mark", Drained: true}, v1alpha1.AnnotationDrainedAt},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(0)
			w.addNode("n1", nil)
			w.begin(v1alpha1.IngressDaemonSetSpec{PodsPerNode: new(int32(2))})
			w.run(start.Add(time.Minute))
			r := w.leaders[0].r
			step := func(s rollout.Step) map[string]string {
				o, err := r.look(ctx, w.set())
				if err != nil {
					t.Fatal(err)
				}
				s.Node, s.Revision, s.At = "n1", o.state.Revision, w.now
				if err := r.carryOut(ctx, o, s); err != nil {
					t.Fatal(err)
				}
				return w.deployments["n1"].api.Annotations
			}
			if set := step(test.patch); set[test.key] == "" {
				t.Fatalf("it was not set: %v", set)
			}
			set := step(rollout.Step{Action: rollout.Update, Replicas: 2})
			for _, key := range temporary {
				if value, there := set[key]; there {
					t.Errorf("after the update %s is %q", key, value)
				}
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
	d := benchDeployment(set, "node-1")
	o := &observed{set: set, nodes: map[string]*nodeObjects{"node-1": {deployment: d}}}
	hold := rollout.Step{Action: rollout.HoldBack, Node: "node-1", ReplicaSet: "gone", Hold: &v1alpha1.Hold{}}
	if err := r.carryOut(t.Context(), o, hold); !onepass.OnlyConflicts(err) || !strings.Contains(err.Error(), "deployments") {
		t.Errorf("where the Deployment is gone: got %v", err)
	}
	d.ResourceVersion = ""
	if err := r.client.Create(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	if err := r.carryOut(t.Context(), o, hold); !onepass.OnlyConflicts(err) || !strings.Contains(err.Error(), "replicasets") {
		t.Errorf("where the ReplicaSet is gone: got %v", err)
	}
}

// TestRoomForWhatWasSized: who goes back to a ReplicaSet leaves room for as many pods as it was
// sized for, also where the Deployment's surge was changed since.
func TestRoomForWhatWasSized(t *testing.T) {
	for name, test := range map[string]struct {
		most       string
		have, want rollout.Rolling
	}{
		"it was sized for more": {"4", rollout.Rolling{Surge: 1, Unavailable: 1}, rollout.Rolling{Surge: 2, Unavailable: 1}},
		"for fewer":             {"2", rollout.Rolling{Surge: 1}, rollout.Rolling{Surge: 1}},
		"it does not say":       {"", rollout.Rolling{Surge: 1}, rollout.Rolling{Surge: 1}},
		"nothing is scaled":     {"4", rollout.Rolling{Unavailable: 2}, rollout.Rolling{Unavailable: 2}},
		"as the spec says":      {"4", rollout.Rolling{}, rollout.Rolling{}},
	} {
		t.Run(name, func(t *testing.T) {
			set := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{annotationMaxReplicas: test.most}}}
			if got := roomFor(set, rollout.Step{Replicas: 2, Rolling: test.have}); got != test.want {
				t.Errorf("got %+v, want %+v", got, test.want)
			}
		})
	}
}

// TestTakesOverWhatWasLeft: a Deployment that was deleted without its pods is made again of what
// they are made from, and of as many, so that it replaces and stops none.
func TestTakesOverWhatWasLeft(t *testing.T) {
	for name, test := range map[string]struct {
		change   func(set *appsv1.ReplicaSet)
		left     bool
		replicas int32
		// wanted is how many pods there are to be; 2, where it is nil.
		wanted *int32
	}{
		"it was left":          {func(*appsv1.ReplicaSet) {}, true, 3, nil},
		"there are to be none": {func(*appsv1.ReplicaSet) {}, true, 3, new(int32(0))},
		"by one of the longer name": {func(set *appsv1.ReplicaSet) {
			set.Name = objects.DeploymentName(benchSet(), "node-1", true) + "-old"
		}, true, 3, nil},
		"it has fewer":          {func(set *appsv1.ReplicaSet) { set.Spec.Replicas = new(int32(1)) }, true, 2, nil},
		"it goes too":           {func(set *appsv1.ReplicaSet) { set.OwnerReferences[0].Controller = new(true) }, false, 2, nil},
		"it is gone":            {func(set *appsv1.ReplicaSet) { set.Name = "another" }, false, 2, nil},
		"it is of another node": {func(set *appsv1.ReplicaSet) { set.Name = "proxy-node-2-old" }, false, 2, nil},
	} {
		t.Run(name, func(t *testing.T) {
			set, wanted, serve := benchSet(), int32(2), "2"
			if test.wanted != nil {
				set.Spec.PodsPerNode, wanted, serve = test.wanted, *test.wanted, "3"
			}
			r, _, err := newReconciler(set)
			if err != nil {
				t.Fatal(err)
			}
			deployment := benchDeployment(set, "node-1")
			left := &appsv1.ReplicaSet{
				ObjectMeta: metav1.ObjectMeta{Namespace: set.Namespace, Name: deployment.Name + "-old", OwnerReferences: []metav1.OwnerReference{
					{APIVersion: "apps/v1", Kind: "Deployment", Name: deployment.Name, UID: "before"},
				}},
				Spec: appsv1.ReplicaSetSpec{Replicas: new(int32(3)), Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{
					appsv1.DefaultDeploymentUniqueLabelKey: "old", v1alpha1.LabelRevision: "r0",
				}}}},
			}
			test.change(left)
			if err := r.client.Create(t.Context(), left); err != nil {
				t.Fatal(err)
			}
			o := &observed{set: set, strategy: set.Spec.Strategy(), template: objects.Template(set)}
			if err := r.carryOut(t.Context(), o, rollout.Step{Action: rollout.Create, Node: "node-1", Replicas: wanted, ReplicaSet: "old"}); err != nil {
				t.Fatal(err)
			}
			made := &appsv1.Deployment{}
			if err := r.live.Get(t.Context(), client.ObjectKeyFromObject(deployment), made); err != nil {
				t.Fatal(err)
			}
			_, hashed := made.Spec.Template.Labels[appsv1.DefaultDeploymentUniqueLabelKey]
			if old := made.Spec.Template.Labels[v1alpha1.LabelRevision] == "r0"; old != test.left || *made.Spec.Replicas != test.replicas || hashed {
				t.Errorf("of what was left: %t, %d pods, with the hash: %t", old, *made.Spec.Replicas, hashed)
			}
			if got := made.Annotations[v1alpha1.AnnotationPodsPerNode]; got != serve {
				t.Errorf("%s pods are to serve, want %s", got, serve)
			}
		})
	}
}

// TestAdoptsDeployments that are the node's already, instead of making a second one,
// which would give the node twice the pods. Its spec stays as it is.
func TestAdoptsDeployments(t *testing.T) {
	elder := *metav1.NewControllerRef(&v1alpha1.IngressDaemonSet{ObjectMeta: metav1.ObjectMeta{Name: "proxy", UID: "elder"}}, v1alpha1.Kind)
	other := metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: "other", UID: "other"}
	for name, test := range map[string]struct {
		change func(d *appsv1.Deployment)
		adopts bool
		owners int
	}{
		"left by one of the same name": {func(d *appsv1.Deployment) { d.OwnerReferences = nil }, true, 1},
		"with another owner":           {func(d *appsv1.Deployment) { d.OwnerReferences = []metav1.OwnerReference{other} }, true, 2},
		"without its labels":           {func(d *appsv1.Deployment) { d.Labels = map[string]string{"team": "edge"} }, true, 1},
		"without its annotation":       {func(d *appsv1.Deployment) { delete(d.Annotations, v1alpha1.AnnotationNode) }, true, 1},
		"of an owner that still is":    {func(d *appsv1.Deployment) { d.OwnerReferences[0] = elder }, false, 1},
		"left by one of another name": {func(d *appsv1.Deployment) {
			d.OwnerReferences, d.Labels[v1alpha1.LabelName] = nil, "another"
		}, false, 0},
		"of another node": {func(d *appsv1.Deployment) { d.Annotations[v1alpha1.AnnotationNode] = "node-2" }, false, 1},
		"left on another node": {func(d *appsv1.Deployment) {
			d.OwnerReferences, d.Annotations[v1alpha1.AnnotationNode] = nil, "node-2"
		}, false, 0},
		"left without its annotation": {func(d *appsv1.Deployment) {
			d.OwnerReferences = nil
			delete(d.Annotations, v1alpha1.AnnotationNode)
		}, false, 0},
		"somebody's": {func(d *appsv1.Deployment) { d.OwnerReferences, d.Annotations = nil, nil }, false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			set := benchSet()
			r, _, err := newReconciler(set)
			if err != nil {
				t.Fatal(err)
			}
			d := benchDeployment(set, "node-1")
			d.ResourceVersion, d.Spec.Template.Spec.NodeName = "", "as it is"
			test.change(d)
			if err := r.client.Create(t.Context(), d); err != nil {
				t.Fatal(err)
			}
			o := &observed{set: set, strategy: set.Spec.Strategy()}
			if err := r.carryOut(t.Context(), o, rollout.Step{Action: rollout.Create, Node: "node-1", Replicas: 2}); err != nil {
				t.Fatal(err)
			}
			list := &appsv1.DeploymentList{}
			if err := r.client.List(t.Context(), list); err != nil {
				t.Fatal(err)
			}
			if want := map[bool]int{true: 1, false: 2}[test.adopts]; len(list.Items) != want {
				t.Fatalf("there are %d Deployments, want %d", len(list.Items), want)
			}
			before := d.DeepCopy()
			if err := r.live.Get(t.Context(), client.ObjectKeyFromObject(d), d); err != nil {
				t.Fatal(err)
			}
			found := d.Labels[v1alpha1.LabelName] == set.Name && d.Labels[v1alpha1.LabelNode] == "node-1" && d.Annotations[v1alpha1.AnnotationNode] == "node-1"
			if test.adopts && !(found && controlledBy(d, set.UID)) || len(d.OwnerReferences) != test.owners {
				t.Errorf("it is now %v", d.ObjectMeta)
			}
			if diff := cmp.Diff(before.Spec, d.Spec); diff != "" || !test.adopts && d.ResourceVersion != before.ResourceVersion {
				t.Errorf("it was changed (-before +after):\n%s", diff)
			}
			if got := unseen(r.mutations, set.UID, func(*appsv1.Deployment) bool { return false }); len(got) != 1 {
				t.Errorf("the next pass would not see it: %v", got)
			}
		})
	}
}

// TestLostAfterAWrite: what somebody took from a Deployment since the controller last wrote
// it is seen at once, although the next event may never come.
func TestLostAfterAWrite(t *testing.T) {
	for name, take := range map[string]func(d *appsv1.Deployment){
		"its name":       func(d *appsv1.Deployment) { d.Labels[v1alpha1.LabelName] = "another" },
		"its annotation": func(d *appsv1.Deployment) { delete(d.Annotations, v1alpha1.AnnotationNode) },
	} {
		t.Run(name, func(t *testing.T) {
			set := benchSet()
			r, full, err := newReconciler(set)
			if err != nil {
				t.Fatal(err)
			}
			node := benchNode(1)
			node.Status.Addresses = nil
			own := benchDeployment(set, node.Name)
			r.mutations.remember(own)
			for _, lost := range []bool{false, true} {
				if lost {
					d := own.DeepCopy()
					d.ResourceVersion = "2"
					take(d)
					if err := full.of(d).GetIndexer().Add(d); err != nil {
						t.Fatal(err)
					}
					r.saw(own)
				}
				if err := full.of(node).GetIndexer().Add(node); err != nil {
					t.Fatal(err)
				}
				o, err := r.look(t.Context(), set)
				if err != nil {
					t.Fatal(err)
				}
				if seen := o.state.Nodes[0].Deployment != nil; seen == lost {
					t.Errorf("lost: %t, seen: %t", lost, seen)
				}
			}
		})
	}
}

// TestPutsBack the labels by which the health checkers find a Deployment, and how many pods
// make its node serve.
func TestPutsBack(t *testing.T) {
	set := benchSet()
	r, _, err := newReconciler(set)
	if err != nil {
		t.Fatal(err)
	}
	d := benchDeployment(set, "node-1")
	d.ResourceVersion = ""
	delete(d.Labels, v1alpha1.LabelNode)
	d.Annotations[v1alpha1.AnnotationPodsPerNode] = "0"
	if err := r.client.Create(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	o := &observed{set: set, strategy: set.Spec.Strategy(), nodes: map[string]*nodeObjects{"node-1": {deployment: d}}}
	if err := r.carryOut(t.Context(), o, rollout.Step{Action: rollout.SetFields, Node: "node-1", PodsPerNode: new(int32(2))}); err != nil {
		t.Fatal(err)
	}
	if err := r.live.Get(t.Context(), client.ObjectKeyFromObject(d), d); err != nil {
		t.Fatal(err)
	}
	if pods := d.Annotations[v1alpha1.AnnotationPodsPerNode]; d.Labels[v1alpha1.LabelNode] != "node-1" || pods != "2" {
		t.Errorf("its labels are %v, and %s pods make it serve", d.Labels, pods)
	}
}

// TestCreatesNoneTwice: a controller that was frozen before it creates a Deployment leaves
// alone the one that another leader has made meanwhile, though both write by one name.
func TestCreatesNoneTwice(t *testing.T) {
	w := newWorld(0)
	w.addNode("n1", nil)
	w.begin(v1alpha1.IngressDaemonSetSpec{PodsPerNode: new(int32(2))})
	w.run(start.Add(time.Minute))
	made := w.deployments["n1"].api
	l := w.leaders[0]
	o, err := l.r.look(ctx, w.set())
	if err != nil {
		t.Fatal(err)
	}
	l.r.live = blind{}
	err = l.r.create(ctx, o, rollout.Step{Action: rollout.Create, Node: "n1", Revision: o.state.Revision, Replicas: 1})
	if !apierrors.IsConflict(err) || w.deployments["n1"].api != made {
		t.Errorf("got %v", err)
	}
}

// blind finds nothing.
type blind struct{ client.Reader }

func (blind) Get(_ context.Context, key client.ObjectKey, _ client.Object, _ ...client.GetOption) error {
	return apierrors.NewNotFound(schema.GroupResource{}, key.Name)
}

// TestAdoptsHealthCheckers that were left behind, without replacing them; what gives
// them access is used as it is.
func TestAdoptsHealthCheckers(t *testing.T) {
	set := benchSet()
	r, _, err := newReconciler(set)
	if err != nil {
		t.Fatal(err)
	}
	ds, binding, account := objects.Checker(set, 10080, "old"), objects.CheckerRoleBinding(set), objects.CheckerServiceAccount(set)
	for _, object := range []client.Object{ds, binding, account} {
		object.SetOwnerReferences(nil)
		if err := r.client.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	o := &observed{set: set, taken: map[int32]bool{}, session: r.sessions.pass(set)}
	o.session.readingsOf(set)
	if err := r.observeCheckers(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	r.compareCheckers(o)
	if len(o.state.Faults) > 0 || len(o.state.Checkers) != 1 || !o.state.Checkers[0].Exists || !o.state.Checkers[0].Outdated {
		t.Errorf("faults %v, health checkers %+v", o.state.Faults, o.state.Checkers)
	}
	if err := r.grant(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	if err := r.live.Get(t.Context(), client.ObjectKeyFromObject(ds), ds); err != nil {
		t.Fatal(err)
	}
	if image := ds.Spec.Template.Spec.Containers[0].Image; !controlledBy(ds, set.UID) || image != "old" {
		t.Errorf("it belongs to %v and runs %s", ds.OwnerReferences, image)
	}
	binding.RoleRef.Name = "cluster-admin"
	if grantsTheSame(binding, objects.CheckerRoleBinding(set)) || grantsTheSame(ds, ds) {
		t.Error("what grants something else is taken for the same")
	}
}
