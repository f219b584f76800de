package controller

import (
	"context"
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/nodehealth/healthclient"
	"github.com/mumoshu/ingress-daemonset-controller/internal/rollout"
	"github.com/mumoshu/ingress-daemonset-controller/internal/rollout/objects"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// remembering is a controller that remembers of an IngressDaemonSet whatever it may remember.
func remembering(t *testing.T) (r *Reconciler, set *v1alpha1.IngressDaemonSet, stopped context.Context) {
	t.Helper()
	set = evictedSet()
	set.UID, set.Finalizers = "first", []string{v1alpha1.Finalizer}
	r, _, err := newReconciler(set)
	if err != nil {
		t.Fatal(err)
	}
	var listening context.Context
	r.sessions.listen = func(ctx context.Context, _ *checks, _ *caller) { listening = ctx }
	r.sessions.measuring.beside = func(func()) {}
	s := r.sessions.pass(set)
	s.readingsOf(set)
	s.seated = map[types.UID]seating{"checker": {taken: true}}
	s.sights.Thawed(time.Now())
	s.tell([]rollout.Step{{Action: rollout.Update}, {Action: rollout.Measure}})
	s.tick(true, time.Now())
	s.decided = true
	s.dryRun.set("r1", nil)
	s.changes.take()
	s.evictions.of(objects.NodeSetOf(set))
	tainted := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1"}}
	tainted.Spec.Taints = []corev1.Taint{{Key: "maintenance", Effect: corev1.TaintEffectNoExecute}}
	r.saw(tainted)
	r.saw(evictedPod(set, "DeletionByTaintManager"))
	s.checks.want([]endpoint{{Port: healthclient.Port{Node: "node-1"}}})
	s.measurements.begin(v1alpha1.AnalysisCheck{Name: "errors"}, "a1", rollout.Wave{})
	s.throttle.report(time.Now(), "1")
	writes(r, set)
	if len(s.untold) != 1 || !s.evictions.from("node-1") || s.waveBegan.IsZero() {
		t.Fatalf("it does not remember: %+v", s)
	}
	return r, set, listening
}

// everyWrite is how many notes are kept of what writes writes.
const everyWrite = 5

// writes notes whatever may be written for an IngressDaemonSet. No cache shows any of it.
func writes(r *Reconciler, set *v1alpha1.IngressDaemonSet) {
	r.mutations.remember(set.DeepCopy())
	d := benchDeployment(set, string(set.UID))
	d.UID = "deployment of " + set.UID
	r.mutations.remember(d)
	r.mutations.stamp(set, d.UID)
	pod := evictedPod(set, evicted)
	pod.UID = "pod of " + set.UID
	r.mutations.replace(set, d.UID, []*corev1.Pod{pod})
	r.mutations.bury(set, pod, "node-1")
}

// written is how much is kept that was written for each IngressDaemonSet, by its UID.
func written(r *Reconciler) map[types.UID]int {
	of := map[types.UID]int{}
	for _, mine := range r.mutations.objects {
		of[setOwning(mine.Object).uid]++
	}
	for _, pod := range r.mutations.deleted {
		of[pod.of.uid]++
	}
	for _, s := range r.mutations.stamped {
		of[s.of.uid]++
	}
	for _, before := range r.mutations.replaced {
		of[before.of.uid]++
	}
	return of
}

// TestNothingIsKeptOfWhatIsGone: neither by whoever finds an IngressDaemonSet gone, nor for another one
// of its name, also where a cache never showed that the one before was gone.
func TestNothingIsKeptOfWhatIsGone(t *testing.T) {
	const another = "another has its name"
	deleted := func(finalizers ...string) func(*Reconciler, *v1alpha1.IngressDaemonSet) error {
		return func(r *Reconciler, set *v1alpha1.IngressDaemonSet) error {
			set.Finalizers = finalizers
			if err := r.client.Update(t.Context(), set); err != nil {
				return err
			}
			if err := r.client.Delete(t.Context(), set); err != nil {
				return err
			}
			_, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(set)})
			return err
		}
	}
	for name, end := range map[string]func(*Reconciler, *v1alpha1.IngressDaemonSet) error{
		"it is gone":                        deleted(),
		"what it owns is yet to be deleted": deleted(metav1.FinalizerDeleteDependents),
		another: func(r *Reconciler, set *v1alpha1.IngressDaemonSet) error {
			second := set.DeepCopy()
			second.UID = "second"
			// It gets its finalizer before its session begins.
			writes(r, second)
			r.sessions.pass(second)
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			r, set, listening := remembering(t)
			before := r.sessions.of(client.ObjectKeyFromObject(set))
			if err := end(r, set); err != nil {
				t.Fatal(err)
			}
			if listening.Err() == nil {
				t.Error("its nodes are still asked")
			}
			if turns := r.sessions.measuring.turns; len(turns.waiting) > 0 || len(before.measurements.underWay) > 0 {
				t.Errorf("it is still measured: %+v", turns)
			}
			for _, s := range r.sessions.open() {
				anew := r.sessions.begin(s.key)
				anew.uid = "second"
				if s == before || !remembersTheSame(s, anew) {
					t.Errorf("%+v is kept", s)
				}
			}
			if name != another && len(r.sessions.open()) > 0 {
				t.Error("there is a session of what is gone")
			}
			if kept := written(r); kept["first"] != 0 || name == another && kept["second"] != everyWrite {
				t.Errorf("what was written is kept, by UID: %v", kept)
			}
		})
	}
}

// remembersTheSame compares what two sessions remember, but for functions.
func remembersTheSame(a, b *session) bool {
	return a.key == b.key && a.uid == b.uid && a.readings == b.readings && len(a.seated) == len(b.seated) && reflect.DeepEqual(a.sights, b.sights) &&
		len(a.untold) == len(b.untold) && a.decided == b.decided && a.waveBegan == b.waveBegan && a.dryRun.of("r1") == b.dryRun.of("r1") &&
		len(a.changes.nodes) == len(b.changes.nodes) && len(a.evictions.seen) == len(b.evictions.seen) && len(a.checks.callers) == len(b.checks.callers) &&
		len(a.measurements.underWay) == len(b.measurements.underWay) && a.throttle.lastReport() == b.throttle.lastReport()
}

// TestAFailedReadEndsNoSession: it does not say that the IngressDaemonSet is gone.
func TestAFailedReadEndsNoSession(t *testing.T) {
	r, set, _ := remembering(t)
	r.client = unreadable{r.client}
	before := r.sessions.of(client.ObjectKeyFromObject(set))
	if _, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(set)}); err == nil {
		t.Error("the failure is not told")
	}
	if r.sessions.of(client.ObjectKeyFromObject(set)) != before {
		t.Error("what was remembered is lost")
	}
	if kept := written(r); kept[set.UID] != everyWrite {
		t.Errorf("what was written is lost, and not kept but %v", kept)
	}
}

// unreadable fails to read.
type unreadable struct{ client.Client }

func (unreadable) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return errors.New("the cache is not started")
}

// TestObjectsOfNobodyOpenNoSession: pods and Nodes that belong to no IngressDaemonSet leave nothing behind.
func TestObjectsOfNobodyOpenNoSession(t *testing.T) {
	r := emptyReconciler(time.Now)
	pod := evictedPod(evictedSet(), evicted)
	delete(pod.Labels, v1alpha1.LabelName)
	r.saw(pod)
	r.saw(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1"}})
	if open := r.sessions.open(); len(open) > 0 {
		t.Errorf("%+v", open[0])
	}
}
