package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/nodehealth/healthclient"
	"github.com/mumoshu/ingress-daemonset-controller/internal/onepass"
	"github.com/mumoshu/ingress-daemonset-controller/internal/rollout"
	"github.com/mumoshu/ingress-daemonset-controller/internal/rollout/objects"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// frozen is a controller that has decided to mark a node that its claim is for, and what
// it saw; then it was frozen.
func frozen(t *testing.T) (*Reconciler, *observed, rollout.Step) {
	t.Helper()
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
	live := &v1alpha1.IngressDaemonSet{}
	if err := r.live.Get(t.Context(), client.ObjectKeyFromObject(set), live); err != nil {
		t.Fatal(err)
	}
	o := &observed{session: r.sessions.pass(live), set: live, strategy: set.Spec.Strategy(), nodes: map[string]*nodeObjects{"node-1": {deployment: d.DeepCopy(), reading: &reading{out: rollout.Node{Deployment: &rollout.Deployment{}}}}}}
	o.reader = objects.ReaderOf(set)
	o.state.Status.Wave = []string{"node-1"}
	return r, o, rollout.Step{Action: rollout.Mark, Node: "node-1", Mark: "a mark"}
}

// TestClaimsOfAFrozenController: a first touch is refused where the claim does not stand
// any more, or where its Deployment was stamped since.
func TestClaimsOfAFrozenController(t *testing.T) {
	for name, test := range map[string]struct {
		meanwhile func(t *testing.T, r *Reconciler, o *observed)
		refused   bool
	}{
		"nothing happened": {func(*testing.T, *Reconciler, *observed) {}, false},
		"the claims changed": {func(t *testing.T, r *Reconciler, o *observed) {
			other := o.set.DeepCopy()
			other.Annotations = map[string]string{"changed": "by another"}
			if err := r.client.Update(t.Context(), other); err != nil {
				t.Fatal(err)
			}
		}, true},
		"the claims were looked at before": {func(t *testing.T, r *Reconciler, o *observed) {
			o.look.once.Do(func() {})
		}, false},
		"stamped after the claims were looked at": {func(t *testing.T, r *Reconciler, o *observed) {
			o.look.once.Do(func() {})
			if err := r.carryOut(t.Context(), o, rollout.Step{Action: rollout.Stamp, Node: "node-1", At: r.now()}); err != nil {
				t.Fatal(err)
			}
			// The other controller remembers what it wrote, this one does not. And the
			// generation of a Deployment counts its annotations, which this server does not.
			r.mutations = newMutationCache(r.now)
			stamped := &appsv1.Deployment{}
			if err := r.live.Get(t.Context(), client.ObjectKeyFromObject(o.nodes["node-1"].deployment), stamped); err != nil {
				t.Fatal(err)
			}
			stamped.Generation++
			if err := r.client.Update(t.Context(), stamped); err != nil {
				t.Fatal(err)
			}
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			r, o, mark := frozen(t)
			test.meanwhile(t, r, o)
			done, err := r.apply(t.Context(), o, []rollout.Step{mark})
			if refused := len(done) == 0; refused != test.refused || refused && !onepass.OnlyConflicts(err) {
				t.Errorf("refused: %t, %v", refused, err)
			}
			d := o.nodes["node-1"].deployment.DeepCopy()
			if err := r.live.Get(t.Context(), client.ObjectKeyFromObject(d), d); err != nil {
				t.Fatal(err)
			}
			if _, marked := v1alpha1.MarkOf(d.Annotations); marked == test.refused {
				t.Errorf("marked: %t", marked)
			}
		})
	}
}

// TestOrphanThatIsLeft: an orphan is not adopted by a controller that has not seen yet that the
// object it belonged to is being deleted.
func TestOrphanThatIsLeft(t *testing.T) {
	for _, deleted := range []bool{false, true} {
		r, o, _ := frozen(t)
		o.nodes["node-2"] = &nodeObjects{reading: &reading{}}
		o.state.Revision, o.template = "r1", objects.Template(o.set)
		if deleted {
			// Its finalizer keeps it.
			if err := r.client.Delete(t.Context(), o.set.DeepCopy()); err != nil {
				t.Fatal(err)
			}
		}
		done, err := r.apply(t.Context(), o, []rollout.Step{{Action: rollout.Create, Node: "node-2", Revision: "r1", Replicas: 2}})
		if len(done) == 0 != deleted || deleted && !onepass.OnlyConflicts(err) {
			t.Errorf("deleted %t: done %v, %v", deleted, done, err)
		}
	}
}

// TestOrphanOfAfterTheLook: a Deployment that was left behind since the pass first looked at the
// object is not adopted for it, or it would be deleted with its pods as one of an owner that is gone.
func TestOrphanOfAfterTheLook(t *testing.T) {
	for _, gone := range []bool{false, true} {
		r, o, _ := frozen(t)
		o.nodes["node-2"] = &nodeObjects{reading: &reading{}}
		o.state.Revision, o.template = "r1", objects.Template(o.set)
		if err := r.setAsSeen(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		d := benchDeployment(o.set, "node-2")
		d.ResourceVersion, d.OwnerReferences = "", nil
		if err := r.client.Create(t.Context(), d); err != nil {
			t.Fatal(err)
		}
		// This server's first version of anything is that of no object.
		if err := r.client.Update(t.Context(), d); err != nil {
			t.Fatal(err)
		}
		if gone {
			released := o.set.DeepCopy()
			released.Finalizers = nil
			if err := r.client.Update(t.Context(), released); err != nil {
				t.Fatal(err)
			}
			if err := r.client.Delete(t.Context(), released); err != nil {
				t.Fatal(err)
			}
		}
		done, err := r.apply(t.Context(), o, []rollout.Step{{Action: rollout.Create, Node: "node-2", Revision: "r1", Replicas: 2}})
		if err := r.live.Get(t.Context(), client.ObjectKeyFromObject(d), d); err != nil {
			t.Fatal(err)
		}
		if adopted := controlledBy(d, o.set.UID); adopted == gone || len(done) == 0 != gone || (err != nil) != gone {
			t.Errorf("the object is gone: %t, adopted: %t, done %v, %v", gone, adopted, done, err)
		}
	}
}

// TestThawedBesideOrphans: a controller that was frozen after it looked at the object, and thaws
// when that is gone, leaves alone what another leader has made meanwhile and what is left of it.
func TestThawedBesideOrphans(t *testing.T) {
	w := newWorld(0)
	w.addNode("n1", nil)
	w.begin(v1alpha1.IngressDaemonSetSpec{PodsPerNode: new(int32(2))})
	w.run(start.Add(time.Minute))
	frozen := w.leaders[0]
	o, err := frozen.r.look(ctx, w.set())
	if err == nil {
		err = frozen.r.setAsSeen(ctx, o)
	}
	if err != nil {
		t.Fatal(err)
	}
	frozen.busy, frozen.frozenUntil = true, w.now.Add(time.Hour)
	w.lead(0)
	w.addNode("n2", nil)
	w.run(w.now.Add(time.Minute))
	w.remove(rollout.DeleteOrphaning)
	w.run(w.now.Add(time.Minute))
	if w.set() != nil || w.deployments["n2"] == nil {
		t.Fatal("the object is not gone, or has left nothing")
	}
	o.nodes["n2"] = &nodeObjects{reading: &reading{}}
	if err := frozen.r.carryOut(ctx, o, rollout.Step{Action: rollout.Create, Node: "n2", Revision: o.state.Revision, Replicas: 2}); err == nil {
		t.Error("the Deployment is made or adopted")
	}
	w.mustHold(t, "left over", func() []string { return w.remains(rollout.DeleteOrphaning) })
}

// TestCheckersThatAreLeft: nothing of health checkers is adopted or made by an old look at an
// IngressDaemonSet that is being deleted without them: the garbage collector would delete it.
func TestCheckersThatAreLeft(t *testing.T) {
	for _, deleted := range []bool{false, true} {
		r, o, _ := frozen(t)
		ds := objects.Checker(o.set, 10080, "checker")
		ds.OwnerReferences = nil
		if err := r.client.Create(t.Context(), ds); err != nil {
			t.Fatal(err)
		}
		binding := objects.CheckerRoleBinding(o.set)
		o.orphans, o.missing = []*appsv1.DaemonSet{ds}, []client.Object{binding}
		if deleted {
			// Its finalizer keeps it.
			if err := r.client.Delete(t.Context(), o.set.DeepCopy()); err != nil {
				t.Fatal(err)
			}
		}
		done, err := r.apply(t.Context(), o, []rollout.Step{{Action: rollout.ApplyChecker, Port: 10081}})
		now := &appsv1.DaemonSet{}
		if err := r.live.Get(t.Context(), client.ObjectKeyFromObject(ds), now); err != nil {
			t.Fatal(err)
		}
		made := r.live.Get(t.Context(), client.ObjectKeyFromObject(binding), binding.DeepCopyObject().(client.Object)) == nil
		if adopted := controlledBy(now, o.set.UID); adopted == deleted || made == deleted || len(done) == 0 != deleted || deleted && !onepass.OnlyConflicts(err) || !deleted && err != nil {
			t.Errorf("deleted %t: adopted %t, made %t, done %v, %v", deleted, adopted, made, done, err)
		}
	}
}

// TestPortThatIsWantedAgain: a port is not closed where the object has changed since that
// was decided: the port may be in the spec again.
func TestPortThatIsWantedAgain(t *testing.T) {
	for _, changed := range []bool{false, true} {
		r, o, _ := frozen(t)
		ds := objects.Checker(o.set, 10080, "checker")
		if err := r.client.Create(t.Context(), ds); err != nil {
			t.Fatal(err)
		}
		o.checkers = map[int32]*appsv1.DaemonSet{10080: ds}
		if changed {
			other := o.set.DeepCopy()
			other.Spec.HealthCheckNodePorts = []int32{10080}
			if err := r.client.Update(t.Context(), other); err != nil {
				t.Fatal(err)
			}
		}
		done, err := r.apply(t.Context(), o, []rollout.Step{{Action: rollout.DeleteChecker, Port: 10080}})
		gone := apierrors.IsNotFound(r.live.Get(t.Context(), client.ObjectKeyFromObject(ds), ds.DeepCopy()))
		if gone == changed || len(done) == 0 != changed || changed && !onepass.OnlyConflicts(err) {
			t.Errorf("changed %t: gone %t, done %v, %v", changed, gone, done, err)
		}
	}
}

// TestNodeThatASuccessorTookOut is not let go of where the object has changed since that was
// decided: a controller that was frozen would undo what its successor does.
func TestNodeThatASuccessorTookOut(t *testing.T) {
	for _, changed := range []bool{false, true} {
		r, o, mark := frozen(t)
		live := o.nodes["node-1"].deployment
		if err := r.carryOut(t.Context(), o, mark); err != nil {
			t.Fatal(err)
		}
		if err := r.live.Get(t.Context(), client.ObjectKeyFromObject(live), live); err != nil {
			t.Fatal(err)
		}
		if changed {
			other := o.set.DeepCopy()
			other.Annotations = map[string]string{"changed": "by another"}
			if err := r.client.Update(t.Context(), other); err != nil {
				t.Fatal(err)
			}
			o.look.once = sync.Once{}
		}
		done, err := r.apply(t.Context(), o, []rollout.Step{{Action: rollout.Unmark, Node: "node-1"}})
		if err := r.live.Get(t.Context(), client.ObjectKeyFromObject(live), live); err != nil {
			t.Fatal(err)
		}
		if _, marked := v1alpha1.MarkOf(live.Annotations); marked != changed || len(done) == 0 != changed || changed && !onepass.OnlyConflicts(err) {
			t.Errorf("changed %t: marked %t, done %v, %v", changed, marked, done, err)
		}
	}
}

// TestUnmarkOnAnOldLook: a node stays marked where a pod that was seen to serve does not any more,
// since it may be one of those that were replaced.
func TestUnmarkOnAnOldLook(t *testing.T) {
	hashed := func(hash string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{appsv1.DefaultDeploymentUniqueLabelKey: hash}}}
	}
	for name, test := range map[string]struct {
		// seen and now say how a pod was seen, and how it is.
		seen, now func(pod *corev1.Pod)
		// updated is which pods were there when the Deployment was last updated, nil where it
		// was by another controller.
		updated []*corev1.Pod
		refused bool
	}{
		"it serves":                            {nil, nil, nil, false},
		"it is another by now":                 {nil, func(pod *corev1.Pod) { pod.UID = "another" }, nil, true},
		"it ends":                              {nil, func(pod *corev1.Pod) { pod.Finalizers = []string{"example.com/ends"} }, nil, true},
		"it is not ready":                      {nil, func(pod *corev1.Pod) { pod.Status.Conditions = nil }, nil, true},
		"it is gone":                           {nil, func(pod *corev1.Pod) { pod.Name = "another" }, nil, true},
		"it is gone, and was to be replaced":   {nil, func(pod *corev1.Pod) { pod.Name = "another" }, []*corev1.Pod{hashed("old")}, true},
		"it is gone, and came with the update": {nil, func(pod *corev1.Pod) { pod.Name = "another" }, []*corev1.Pod{hashed("before")}, false},
		"it did not serve then":                {func(pod *corev1.Pod) { pod.Status.Conditions = nil }, func(pod *corev1.Pod) { pod.Name = "another" }, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			r, o, mark := frozen(t)
			if err := r.carryOut(t.Context(), o, mark); err != nil {
				t.Fatal(err)
			}
			live := o.nodes["node-1"].deployment
			if err := r.live.Get(t.Context(), client.ObjectKeyFromObject(live), live); err != nil {
				t.Fatal(err)
			}
			seen := &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Namespace: o.set.Namespace, Name: "first", UID: "first", Labels: objects.OwnLabels(o.set, "node-1")},
				Status:     corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}},
			}
			seen.Labels[appsv1.DefaultDeploymentUniqueLabelKey] = "old"
			now := seen.DeepCopy()
			if test.seen != nil {
				test.seen(seen)
			}
			if test.now != nil {
				test.now(now)
			}
			o.nodes["node-1"].pods = []*corev1.Pod{seen}
			if test.updated != nil {
				r.mutations.replace(o.set, live.UID, test.updated)
			}
			if err := r.client.Create(t.Context(), now); err != nil {
				t.Fatal(err)
			}
			if len(now.Finalizers) > 0 {
				if err := r.client.Delete(t.Context(), now); err != nil {
					t.Fatal(err)
				}
			}
			done, err := r.apply(t.Context(), o, []rollout.Step{{Action: rollout.Unmark, Node: "node-1"}})
			if refused := len(done) == 0; refused != test.refused || refused && !onepass.OnlyConflicts(err) {
				t.Errorf("refused: %t, %v", refused, err)
			}
			if err := r.live.Get(t.Context(), client.ObjectKeyFromObject(live), live); err != nil {
				t.Fatal(err)
			}
			if _, marked := v1alpha1.MarkOf(live.Annotations); marked != test.refused {
				t.Errorf("marked: %t", marked)
			}
		})
	}
}

// TestHoldBackOnAnOldLook: no fewer pods are asked for where others are ready by now than
// were when that was decided, since those would be stopped.
func TestHoldBackOnAnOldLook(t *testing.T) {
	for name, test := range map[string]struct {
		// change is what became of the second of two pods, which was ready where it was seen so.
		seenReady bool
		change    func(pod *corev1.Pod)
		refused   bool
	}{
		"ready then and now":        {true, func(*corev1.Pod) {}, false},
		"ready then":                {true, func(pod *corev1.Pod) { pod.Status.Conditions = nil }, true},
		"ready now":                 {false, func(*corev1.Pod) {}, true},
		"another of its name":       {true, func(pod *corev1.Pod) { pod.UID = "another" }, true},
		"ready now, on other nodes": {false, func(pod *corev1.Pod) { pod.Labels[v1alpha1.LabelNode] = "node-2" }, false},
	} {
		t.Run(name, func(t *testing.T) {
			r, o, _ := frozen(t)
			n := o.nodes["node-1"]
			for _, name := range []string{"first", "second"} {
				pod := &corev1.Pod{
					ObjectMeta: metav1.ObjectMeta{Namespace: o.set.Namespace, Name: name, UID: types.UID(name), Labels: objects.OwnLabels(o.set, "node-1")},
					Status:     corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}},
				}
				seen := pod.DeepCopy()
				if name == "second" {
					if !test.seenReady {
						seen.Status.Conditions = nil
					}
					test.change(pod)
				}
				n.pods = append(n.pods, seen)
				if err := r.client.Create(t.Context(), pod); err != nil {
					t.Fatal(err)
				}
			}
			hold := rollout.Step{Action: rollout.HoldBack, Node: "node-1", Replicas: 1, Keep: true, Hold: &v1alpha1.Hold{Revision: "r1"}}
			done, err := r.apply(t.Context(), o, []rollout.Step{hold})
			if refused := len(done) == 0; refused != test.refused || refused && !onepass.OnlyConflicts(err) {
				t.Errorf("refused: %t, %v", refused, err)
			}
		})
	}
}

// TestRewrittenRecord: what we have on record on a Node goes with its turn, and with the object,
// also where somebody has rewritten it, who owns the annotation since.
func TestRewrittenRecord(t *testing.T) {
	for _, deletion := range []rollout.Deletion{rollout.NotDeleted, rollout.DeleteInWaves, rollout.DeleteAtOnce, rollout.DeleteOrphaning} {
		t.Run(string(deletion), func(t *testing.T) {
			w := newWorld(0)
			spec := specOfStories()
			byBoth(&spec)
			w.detacher.keys = map[string]string{detacherKey: detacherTimestamp}
			n := w.addNode("n1", nil)
			w.addNode("n2", nil)
			w.begin(spec)
			w.run(start.Add(time.Minute))
			w.changeTemplate("r2")
			for i := 0; !n.requested() && i < 1000; i++ {
				w.run(w.now.Add(100 * time.Millisecond))
			}
			w.rewriteRecord(n)
			if deletion != rollout.NotDeleted {
				w.remove(deletion)
			}
			w.run(w.now.Add(patience))
			if n.requested() {
				t.Errorf("it is still on the Node: %v", n.api.Annotations)
			}
			if done := w.set() == nil; done != (deletion != rollout.NotDeleted) {
				t.Errorf("the object is gone: %t", done)
			}
			if deletion == rollout.NotDeleted {
				w.mustHold(t, "unfinished", w.unfinished)
			}
		})
	}
}

// TestGoesWhenEveryNodeIsReleased: an IngressDaemonSet does not go while a Node still asks
// for its detachment, which a controller that was frozen may have written a moment ago.
func TestGoesWhenEveryNodeIsReleased(t *testing.T) {
	r, o, _ := frozen(t)
	o.set.Finalizers = []string{v1alpha1.Finalizer}
	if err := r.client.Update(t.Context(), o.set); err != nil {
		t.Fatal(err)
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: "node-1", Annotations: map[string]string{v1alpha1.AnnotationDetachPrefix + string(o.set.UID): "{}"},
	}}
	if err := r.client.Create(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	remove := []rollout.Step{{Action: rollout.RemoveFinalizer}}
	if done, err := r.apply(t.Context(), o, remove); len(done) > 0 || !onepass.OnlyConflicts(err) {
		t.Errorf("it goes while a Node asks for its detachment: %v", err)
	}
	node.Annotations = nil
	if err := r.client.Update(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	if done, err := r.apply(t.Context(), o, remove); len(done) == 0 || err != nil {
		t.Errorf("it stays: %v", err)
	}
}

// TestGoesWhenEveryDeploymentWasSeen: an IngressDaemonSet does not go by a look that did not
// show what a controller that was frozen has marked or made a moment ago.
func TestGoesWhenEveryDeploymentWasSeen(t *testing.T) {
	unseen := func(_ *appsv1.Deployment, o *observed) { o.nodes["node-1"].deployment = nil }
	marked := func(d *appsv1.Deployment, _ *observed) {
		d.Annotations[v1alpha1.DefaultMarkKey] = "2026-01-01T00:00:00Z/r1"
	}
	for name, test := range map[string]struct {
		deletion rollout.Deletion
		change   func(*appsv1.Deployment, *observed)
		goes     bool
	}{
		"left as it should be":     {rollout.DeleteOrphaning, func(*appsv1.Deployment, *observed) {}, true},
		"marked":                   {rollout.DeleteOrphaning, marked, false},
		"made and left":            {rollout.DeleteOrphaning, unseen, false},
		"made":                     {rollout.DeleteInWaves, unseen, false},
		"made, and nobody waits":   {rollout.DeleteAtOnce, unseen, true},
		"marked, and nobody waits": {rollout.DeleteAtOnce, marked, true},
	} {
		t.Run(name, func(t *testing.T) {
			r, o, _ := frozen(t)
			o.state.Deletion = test.deletion
			o.set.Finalizers = []string{v1alpha1.Finalizer}
			if err := r.client.Update(t.Context(), o.set); err != nil {
				t.Fatal(err)
			}
			d := o.nodes["node-1"].deployment.DeepCopy()
			test.change(d, o)
			if err := r.client.Update(t.Context(), d); err != nil {
				t.Fatal(err)
			}
			done, err := r.apply(t.Context(), o, []rollout.Step{{Action: rollout.RemoveFinalizer}})
			if goes := len(done) > 0; goes != test.goes || !goes && !onepass.OnlyConflicts(err) {
				t.Errorf("it goes: %t, %v", goes, err)
			}
		})
	}
}

// TestHoldBackWhereATaintEvicts: pods that are ready by now on a node whose taint has taken
// others only tolerate it for a time, unless the taint is gone meanwhile.
func TestHoldBackWhereATaintEvicts(t *testing.T) {
	for name, test := range map[string]struct{ evicted, tainted, held bool }{
		"it evicts":           {true, true, true},
		"it is gone":          {true, false, false},
		"it has evicted none": {false, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			r, o, _ := frozen(t)
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1"}}
			if test.tainted {
				node.Spec.Taints = []corev1.Taint{{Key: "maintenance", Effect: corev1.TaintEffectNoExecute}}
			}
			ready := &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Namespace: o.set.Namespace, Name: "new", UID: "new", Labels: objects.OwnLabels(o.set, "node-1")},
				Status:     corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}},
			}
			for _, obj := range []client.Object{node, ready} {
				if err := r.client.Create(t.Context(), obj); err != nil {
					t.Fatal(err)
				}
			}
			if test.evicted {
				tainted := node.DeepCopy()
				tainted.Spec.Taints = []corev1.Taint{{Key: "maintenance", Effect: corev1.TaintEffectNoExecute}}
				o.session.evictions.of(objects.NodeSetOf(o.set))
				r.saw(tainted)
				gone := ready.DeepCopy()
				gone.Annotations = map[string]string{v1alpha1.AnnotationNode: "node-1"}
				gone.Status.Conditions = []corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "DeletionByTaintManager"}}
				r.saw(gone)
			}
			hold := rollout.Step{Action: rollout.HoldBack, Node: "node-1", Keep: true, Hold: &v1alpha1.Hold{Revision: "r1"}}
			done, err := r.apply(t.Context(), o, []rollout.Step{hold})
			if held := len(done) > 0; held != test.held || !held && !onepass.OnlyConflicts(err) {
				t.Errorf("held back: %t, %v", held, err)
			}
		})
	}
}

// TestGuardsForgetNothing: to look whether a Deployment is as it was seen forgets none that was
// written and is not in the cache yet: the next pass would make it again.
func TestGuardsForgetNothing(t *testing.T) {
	for name, look := range map[string]func(*Reconciler, *observed) error{
		"before a Node is written to": func(r *Reconciler, o *observed) error {
			if !r.deploymentAsSeen(t.Context(), o.nodes["node-1"].deployment) {
				return errors.New("it is not as it was seen")
			}
			return nil
		},
		"before a hold": func(r *Reconciler, o *observed) error {
			// A pod is ready that was not observed.
			pod := &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Namespace: o.set.Namespace, Name: "new", UID: "new", Labels: objects.OwnLabels(o.set, "node-1")},
				Status:     corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}},
			}
			if err := r.client.Create(t.Context(), pod); err != nil {
				return err
			}
			if err := r.holdBack(t.Context(), o, rollout.Step{Action: rollout.HoldBack, Node: "node-1", Keep: true}); !apierrors.IsConflict(err) {
				return fmt.Errorf("the hold is not refused: %w", err)
			}
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			r, o, _ := frozen(t)
			d := o.nodes["node-1"].deployment
			r.mutations.remember(d)
			if err := look(r, o); err != nil {
				t.Fatal(err)
			}
			if r.mutations.objects[identityOf(d)].Object == nil {
				t.Error("it is forgotten that the Deployment was written")
			}
		})
	}
}

// TestHoldBackInsists on the version that was there when the pods were looked at: what comes
// of them is written to the Deployment's status.
func TestHoldBackInsists(t *testing.T) {
	r, o, _ := frozen(t)
	live := o.nodes["node-1"].deployment
	reads := r.live
	r.live = afterList{reads, func() {
		changed := live.DeepCopy()
		if err := reads.Get(t.Context(), client.ObjectKeyFromObject(live), changed); err != nil {
			t.Fatal(err)
		}
		changed.Status.ReadyReplicas++
		if err := r.client.Status().Update(t.Context(), changed); err != nil {
			t.Fatal(err)
		}
	}}
	hold := rollout.Step{Action: rollout.HoldBack, Node: "node-1", Keep: true, Hold: &v1alpha1.Hold{Revision: "r1"}}
	if done, err := r.apply(t.Context(), o, []rollout.Step{hold}); len(done) > 0 || !onepass.OnlyConflicts(err) {
		t.Errorf("held back although a pod got ready: %v", err)
	}
	r.live = reads
	if done, err := r.apply(t.Context(), o, []rollout.Step{hold}); len(done) == 0 || err != nil {
		t.Errorf("not held back: %v", err)
	}
}

// afterList lets something happen after each list.
type afterList struct {
	client.Reader
	then func()
}

func (a afterList) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	defer a.then()
	return a.Reader.List(ctx, list, opts...)
}

// TestStampedOnce: what is decided upon one version of the object again and again, because
// the next is seen late, stamps a Deployment once.
func TestStampedOnce(t *testing.T) {
	r, o, _ := frozen(t)
	live := o.nodes["node-1"].deployment
	at := time.Now()
	stamps := func() string {
		at = at.Add(time.Second)
		if done, err := r.apply(t.Context(), o, []rollout.Step{{Action: rollout.Stamp, Node: "node-1", At: at}}); err != nil || len(done) != 1 {
			t.Fatalf("%v, %v", done, err)
		}
		now := live.DeepCopy()
		if err := r.live.Get(t.Context(), client.ObjectKeyFromObject(live), now); err != nil {
			t.Fatal(err)
		}
		return now.Annotations[v1alpha1.AnnotationClaimDropped]
	}
	first := stamps()
	if again := stamps(); again != first {
		t.Errorf("stamped at %s and at %s", first, again)
	}
	o.set.ResourceVersion += "1"
	if next := stamps(); next == first {
		t.Error("a later version is not stamped for")
	}
}

// TestClaimsThatCannotBeStamped stay in the status, whatever was to be written instead.
func TestClaimsThatCannotBeStamped(t *testing.T) {
	steps := []rollout.Step{
		{Action: rollout.Stamp, Node: "b"}, {Action: rollout.Stamp, Node: "a"}, {Action: rollout.SetFields, Node: "d"},
		{Action: rollout.SetFields, Node: "c"}, {Action: rollout.Mark, Node: "e"},
	}
	status := v1alpha1.IngressDaemonSetStatus{Wave: []string{"c"}}
	keepClaims(&status, []string{"a", "b", "c", "d"}, steps, steps[:1])
	if !slices.Equal(status.Wave, []string{"a", "c", "d"}) {
		t.Errorf("the wave is %v", status.Wave)
	}
}

// TestUnmarkWithoutARecord removes the mark wherever it is found.
func TestUnmarkWithoutARecord(t *testing.T) {
	for name, key := range map[string]string{"default": v1alpha1.DefaultMarkKey, "of the strategy": "example.com/out"} {
		t.Run(name, func(t *testing.T) {
			r, o, mark := frozen(t)
			o.strategy.MarkKey = key
			live := o.nodes["node-1"].deployment
			for _, step := range []rollout.Step{mark, {Action: rollout.Unmark, Node: "node-1"}} {
				if err := r.carryOut(t.Context(), o, step); err != nil {
					t.Fatal(err)
				}
				if err := r.live.Get(t.Context(), client.ObjectKeyFromObject(live), live); err != nil {
					t.Fatal(err)
				}
				delete(live.Annotations, v1alpha1.AnnotationMarkKey)
				if _, marked := live.Annotations[key]; marked != (step.Action == rollout.Mark) {
					t.Errorf("after %s: marked %t", step.Action, marked)
				}
				if step.Action == rollout.Mark {
					if err := r.client.Update(t.Context(), live); err != nil {
						t.Fatal(err)
					}
					r.mutations = newMutationCache(r.now)
				}
			}
		})
	}
}

// TestMeasuredNodes: nodes of a wave that are NotReady or have left are not measured.
func TestMeasuredNodes(t *testing.T) {
	ready, dead, left := benchNode(1), benchNode(2), benchNode(3)
	set := benchSet()
	set.Status.Analysis = &v1alpha1.AnalysisStatus{Nodes: []string{ready.Name, dead.Name, left.Name, "gone"}}
	r, _, err := newReconciler(set)
	if err != nil {
		t.Fatal(err)
	}
	o := &observed{set: set, nodes: map[string]*nodeObjects{}}
	for node, out := range map[*corev1.Node]rollout.Node{
		ready: {Wanted: true, Ready: true}, dead: {Wanted: true}, left: {Ready: true},
	} {
		o.nodes[node.Name] = &nodeObjects{node: node, reading: &reading{out: out}}
	}
	if nodes := r.measured(o).Nodes; len(nodes) != 1 || nodes[0].Name != ready.Name {
		t.Errorf("measured are %v", nodes)
	}
}

// TestMeasuredPorts are those of the template that is measured, which pods have run, and not of
// one that the object names since.
func TestMeasuredPorts(t *testing.T) {
	set := benchSet()
	set.Spec.Template.Spec.HostNetwork = true
	set.Spec.Template.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 443}}
	recorded, err := objects.ControllerRevision(set, "r1", 1)
	if err != nil {
		t.Fatal(err)
	}
	set.Spec.Template.Spec.Containers[0].Ports[0].ContainerPort = 22
	r, _, err := newReconciler(set)
	if err != nil {
		t.Fatal(err)
	}
	for revision, want := range map[string][]int32{"r1": {443, 10080}, "r2": {22, 10080}, "not on record": nil} {
		set.Status.Analysis = &v1alpha1.AnalysisStatus{Revision: revision}
		o := &observed{set: set, template: objects.Template(set), revisions: map[string]*appsv1.ControllerRevision{"r1": recorded}}
		o.state.Revision = "r2"
		if got := r.measured(o).Ports; !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", revision, got, want)
		}
	}
}

// TestThawedBesideTheNodes: what a controller decided of a health checker or an EndpointSlice
// before it was frozen is refused where another leader has written it since.
func TestThawedBesideTheNodes(t *testing.T) {
	set := benchSet()
	for name, write := range map[string]func(r *Reconciler, image string, have client.Object) error{
		"health checker": func(r *Reconciler, image string, have client.Object) error {
			r.image = image
			o := &observed{set: set, checkers: map[int32]*appsv1.DaemonSet{}}
			if have != nil {
				o.checkers[10080] = have.(*appsv1.DaemonSet)
			}
			return r.applyChecker(t.Context(), o, 10080)
		},
		"EndpointSlice": func(r *Reconciler, image string, have client.Object) error {
			var seen []*discoveryv1.EndpointSlice
			if have != nil {
				seen = append(seen, have.(*discoveryv1.EndpointSlice))
			}
			want := publication(set, image)
			return r.publishNode(t.Context(), &observed{set: set}, seen, []*discoveryv1.EndpointSlice{want})
		},
	} {
		t.Run(name, func(t *testing.T) {
			r, _, err := newReconciler(set)
			if err != nil {
				t.Fatal(err)
			}
			var first client.Object = objects.Checker(set, 10080, "first")
			if name == "EndpointSlice" {
				first = publication(set, "first")
			}
			if err := write(r, "first", nil); err != nil {
				t.Fatal(err)
			}
			if err := r.live.Get(t.Context(), client.ObjectKeyFromObject(first), first); err != nil {
				t.Fatal(err)
			}
			if err := write(r, "second", first); err != nil {
				t.Errorf("what was observed: %v", err)
			}
			if err := write(r, "late", nil); !apierrors.IsConflict(err) {
				t.Errorf("made twice: %v", err)
			}
			second := first.DeepCopyObject().(client.Object)
			if err := r.live.Get(t.Context(), client.ObjectKeyFromObject(first), second); err != nil {
				t.Fatal(err)
			}
			// This server counts no generations of what is applied.
			second.SetGeneration(first.GetGeneration() + 1)
			if err := r.client.Update(t.Context(), second); err != nil {
				t.Fatal(err)
			}
			if err := write(r, "late", first); !apierrors.IsConflict(err) {
				t.Errorf("what another has written: %v", err)
			}
		})
	}
}

func publication(set *v1alpha1.IngressDaemonSet, address string) *discoveryv1.EndpointSlice {
	return &discoveryv1.EndpointSlice{
		TypeMeta:   metav1.TypeMeta{APIVersion: "discovery.k8s.io/v1", Kind: "EndpointSlice"},
		ObjectMeta: metav1.ObjectMeta{Namespace: set.Namespace, Name: "proxy-node-1", OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(set, v1alpha1.Kind)}},
		Endpoints:  []discoveryv1.Endpoint{{Addresses: []string{address}}},
	}
}

// TestThawed: what a controller decided before it was frozen is refused where the node's
// Deployment has changed since, and done where only others wrote to the Node.
func TestThawed(t *testing.T) {
	for _, action := range []rollout.Action{rollout.Delete, rollout.RequestDetachment, rollout.ReleaseDetachment} {
		for changed, want := range map[string]func(error) bool{
			"nothing":           func(err error) bool { return err == nil },
			"the Node":          func(err error) bool { return err == nil },
			"both":              apierrors.IsConflict,
			"the owner":         apierrors.IsConflict,
			"the Node's record": func(err error) bool { return (err == nil) == (action == rollout.Delete) },
			"who holds it":      func(err error) bool { return (err == nil) == (action != rollout.RequestDetachment) },
			"the answer":        func(err error) bool { return (err == nil) == (action != rollout.RequestDetachment) },
		} {
			t.Run(fmt.Sprint(action, " after a change of ", changed), func(t *testing.T) {
				w := newWorld(0)
				n := w.addNode("n1", nil)
				w.begin(v1alpha1.IngressDaemonSetSpec{PodsPerNode: new(int32(2)), UpdateStrategy: v1alpha1.UpdateStrategy{RollingUpdate: &v1alpha1.RollingUpdate{
					MaxUnavailableNodes: number(1), AnnotateNodeToDetach: &v1alpha1.AnnotateNodeToDetach{Key: "detached"},
					WaitForDetachmentByAnnotatedTimestamp: &v1alpha1.WaitForDetachmentByAnnotatedTimestamp{Key: "at"},
				}}})
				w.run(start.Add(time.Minute))
				r := w.leaders[0].r
				o, err := r.look(ctx, w.set())
				if err != nil {
					t.Fatal(err)
				}
				if changed == "the owner" {
					w.orphan("Deployment", client.ObjectKeyFromObject(w.deployments["n1"].api))
				}
				if changed == "both" {
					w.rewrite(w.deployments["n1"], func(d *appsv1.Deployment) { annotate(d, v1alpha1.AnnotationAttachedAt, "later") })
				}
				if changed != "nothing" {
					record := map[string]string{
						"the Node's record": v1alpha1.AnnotationDetachPrefix + string(w.set().UID), "who holds it": "detached", "the answer": "at",
					}[changed]
					if record == "" {
						record = "somebody's"
					}
					w.edit(n, func(node *corev1.Node) { annotate(node, record, "{}") })
				}
				if err := r.carryOut(ctx, o, rollout.Step{Action: action, Node: "n1"}); !want(err) {
					t.Errorf("got %v", err)
				}
			})
		}
	}
}

// TestNodeThatIsNotYetSeen: a Deployment is not deleted for want of a Node that is there: the
// watch of Nodes may lag behind that of Deployments.
func TestNodeThatIsNotYetSeen(t *testing.T) {
	for _, there := range []bool{true, false} {
		r, o, _ := frozen(t)
		o.nodes["node-1"].node = nil
		if there {
			if err := r.client.Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1"}}); err != nil {
				t.Fatal(err)
			}
		}
		err := r.carryOut(t.Context(), o, rollout.Step{Action: rollout.Delete, Node: "node-1"})
		if apierrors.IsConflict(err) != there || !there && err != nil {
			t.Errorf("the Node is there: %t, %v", there, err)
		}
	}
}

// TestRevisionsOfTwoControllers: where two recorded revisions under one number, the present
// one is recorded anew.
func TestRevisionsOfTwoControllers(t *testing.T) {
	for _, other := range []int64{1, 2, 3} {
		r, o, _ := frozen(t)
		o.session.readingsOf(o.set)
		o.state.Revision = "present"
		for revision, number := range map[string]int64{"present": 2, "other": other} {
			cr, err := objects.ControllerRevision(o.set, revision, number)
			if err == nil {
				err = r.client.Create(t.Context(), cr)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if err := r.observeRevisions(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		if got, want := o.state.BroughtBack, other >= 2; got != want {
			t.Errorf("beside number %d it is to be recorded anew: %t", other, got)
		}
	}
}

// inPages gives one object at a time, whatever the limit.
type inPages struct {
	client.Reader
	all  []metav1.PartialObjectMetadata
	read int
}

func (p *inPages) List(_ context.Context, list client.ObjectList, options ...client.ListOption) error {
	o := (&client.ListOptions{}).ApplyOptions(options)
	if o.Limit == 0 {
		return errors.New("all are read at once")
	}
	at := len(o.Continue)
	page := list.(*metav1.PartialObjectMetadataList)
	if p.read++; at < len(p.all) {
		page.Items = p.all[at : at+1]
	}
	if at+1 < len(p.all) {
		page.Continue = strings.Repeat("x", at+1)
	}
	return nil
}

// TestEveryPageIsLookedAt finds what stands in the way of the end of an IngressDaemonSet on whichever page it is.
func TestEveryPageIsLookedAt(t *testing.T) {
	set := benchSet()
	node := func(name string, asked bool) metav1.PartialObjectMetadata {
		n := metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if asked {
			n.Annotations = map[string]string{v1alpha1.DetachmentRequestKey(set.UID): "Detached"}
		}
		return n
	}
	for asked := range 4 {
		r, _, err := newReconciler(set)
		if err != nil {
			t.Fatal(err)
		}
		pages := &inPages{}
		for i := range 3 {
			pages.all = append(pages.all, node(fmt.Sprint("node-", i), i == asked))
		}
		r.live = pages
		switch err := r.everyNodeReleased(t.Context(), set); {
		case asked < 3 && (!apierrors.IsConflict(err) || !onepass.OnlyConflicts(err) || pages.read != asked+1):
			t.Errorf("a Node on page %d asks: %v, %d pages read", asked+1, err, pages.read)
		case asked == 3 && (err != nil || pages.read != 3):
			t.Errorf("no Node asks: %v, %d pages read", err, pages.read)
		}
	}
}

// TestFleetThatOnlyWaitsIsNotAsked: what is left of an IngressDaemonSet without our finalizer is for the
// garbage collector, which may take minutes, and nobody needs to know whether its nodes serve.
func TestFleetThatOnlyWaitsIsNotAsked(t *testing.T) {
	set := benchSet()
	set.Finalizers, set.DeletionTimestamp = []string{metav1.FinalizerDeleteDependents}, &metav1.Time{Time: time.Now()}
	r, _, err := newReconciler(set)
	if err != nil {
		t.Fatal(err)
	}
	key := client.ObjectKeyFromObject(set)
	r.sessions.listen = func(context.Context, *checks, *caller) {}
	checks := r.sessions.of(key).checks
	checks.want([]endpoint{{Port: healthclient.Port{Node: "node-1"}}})
	if _, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: key}); err != nil {
		t.Fatal(err)
	}
	if len(checks.callers)+len(r.sessions.open()) > 0 {
		t.Error("its nodes are still asked, or it is remembered")
	}
}
