package controller

import (
	"maps"
	"testing"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/rollout/objects"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
)

// TestEvictions: what a taint took is known until the taint, the Node or the IngressDaemonSet
// is gone; what others took, or from others, is not.
func TestEvictions(t *testing.T) {
	set := evictedSet()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1"}}
	tainted := node.DeepCopy()
	tainted.Spec.Taints = []corev1.Taint{{Key: "maintenance", Effect: corev1.TaintEffectNoExecute}}
	dedicated := corev1.Taint{Key: "dedicated", Value: "ingress", Effect: corev1.TaintEffectNoExecute}
	set.Spec.Template.Spec.Tolerations = []corev1.Toleration{{Key: dedicated.Key, Value: dedicated.Value}}
	kept, both := node.DeepCopy(), tainted.DeepCopy()
	kept.Spec.Taints, both.Spec.Taints = []corev1.Taint{dedicated}, append(both.Spec.Taints, dedicated)
	for name, test := range map[string]struct {
		then  func(*Reconciler)
		known bool
	}{
		"the taint is there":           {func(r *Reconciler) { r.saw(tainted) }, true},
		"the taint is gone":            {func(r *Reconciler) { r.saw(node) }, false},
		"one more is there":            {func(r *Reconciler) { r.saw(both) }, true},
		"one is there that it bears":   {func(r *Reconciler) { r.saw(kept) }, false},
		"the Node is gone":             {func(r *Reconciler) { deleted(t, r, tainted) }, false},
		"the IngressDaemonSet is gone": {func(r *Reconciler) { r.sessions.end(theSet) }, false},
		"the pod is gone":              {func(r *Reconciler) { deleted(t, r, evictedPod(set, "DeletionByTaintManager")) }, true},
	} {
		t.Run(name, func(t *testing.T) {
			r := emptyReconciler(time.Now)
			evictions := func() *evictions { return r.sessions.of(theSet).evictions }
			evictions().of(objects.NodeSetOf(set))
			r.saw(tainted)
			r.saw(evictedPod(set, evicted))
			if evictions().from("node-1") {
				t.Error("a drain counts")
			}
			r.saw(evictedPod(set, "DeletionByTaintManager"))
			if test.then(r); evictions().from("node-1") != test.known {
				t.Errorf("known %t", !test.known)
			}
		})
	}
}

// deleted lets a cache tell that an object is gone.
func deleted(t *testing.T, r *Reconciler, obj client.Object) {
	r.enqueue(setByLabel).Delete(t.Context(), event.DeleteEvent{Object: obj}, delays{of: map[string][]time.Duration{}})
}

// TestWhenPodsWereTaken: who was made since a taint first took a pod of the same ReplicaSet goes, too.
func TestWhenPodsWereTaken(t *testing.T) {
	set := evictedSet()
	r := emptyReconciler(time.Now)
	evictions := func() *evictions { return r.sessions.of(theSet).evictions }
	evictions().of(objects.NodeSetOf(set))
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1"}}
	tainted := node.DeepCopy()
	tainted.Spec.Taints = []corev1.Taint{{Key: "maintenance", Effect: corev1.TaintEffectNoExecute}}
	r.saw(tainted)
	first := time.Now().Truncate(time.Second)
	for _, pod := range []struct {
		set string
		at  time.Time
	}{{"a", time.Time{}}, {"a", first}, {"b", first.Add(time.Second)}, {"a", first.Add(time.Minute)}} {
		obj := evictedPod(set, "DeletionByTaintManager")
		obj.Labels[appsv1.DefaultDeploymentUniqueLabelKey] = pod.set
		obj.DeletionTimestamp, obj.DeletionGracePeriodSeconds = nil, nil
		if !pod.at.IsZero() {
			obj.DeletionTimestamp, obj.DeletionGracePeriodSeconds = &metav1.Time{Time: pod.at.Add(20 * time.Second)}, new(int64(20))
		}
		r.saw(obj)
	}
	want := map[string]time.Time{"a": first, "b": first.Add(time.Second)}
	if got := evictions().since("node-1"); !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if got := evictions().since("node-2"); got != nil {
		t.Errorf("got %v of another node", got)
	}
	// What was evicted goes on to say so.
	for what, then := range map[string]func(){
		"the taint":            func() { r.saw(node) },
		"the Node":             func() { r.saw(tainted); deleted(t, r, tainted) },
		"the IngressDaemonSet": func() { r.saw(tainted); r.sessions.end(theSet) },
	} {
		then()
		r.saw(evictedPod(set, "DeletionByTaintManager"))
		deleted(t, r, evictedPod(set, "DeletionByTaintManager"))
		evictions().of(objects.NodeSetOf(set))
		if r.saw(tainted); evictions().from("node-1") || evictions().since("node-1") != nil {
			t.Errorf("%s is gone, and what it took is not forgotten", what)
		}
	}
}

// evicted is why a pod goes that somebody evicts.
const evicted = "EvictionByEvictionAPI"

func evictedSet() *v1alpha1.IngressDaemonSet {
	set := benchSet()
	set.Namespace, set.Name = theSet.Namespace, theSet.Name
	return set
}

func evictedPod(set *v1alpha1.IngressDaemonSet, reason string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: set.Namespace, Labels: objects.OwnLabels(set, "node-1"), Annotations: map[string]string{v1alpha1.AnnotationNode: "node-1"},
		},
		Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: reason}}},
	}
}

// TestDrainBetweenTwoPasses: that somebody evicted a pod which is gone is known until a pass
// sees the node uncordoned, or the Node or the IngressDaemonSet is gone.
func TestDrainBetweenTwoPasses(t *testing.T) {
	set := evictedSet()
	now := start
	drained := func(r *Reconciler, leaving func(string) bool) []string {
		return r.sessions.of(theSet).evictions.drained(leaving)
	}
	leaving, staying := func(string) bool { return true }, func(string) bool { return false }
	cordoned := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1"}, Spec: corev1.NodeSpec{Unschedulable: true}}
	for name, test := range map[string]struct {
		reason string
		then   func(*Reconciler)
		known  bool
	}{
		"the node is cordoned":    {evicted, func(r *Reconciler) { drained(r, leaving) }, true},
		"it is not yet":           {evicted, func(r *Reconciler) { drained(r, staying) }, true},
		"it is not for long":      {evicted, func(r *Reconciler) { now = now.Add(longestLag + time.Second); drained(r, staying) }, false},
		"it is only later":        {evicted, func(r *Reconciler) { now = now.Add(longestLag + time.Second); r.saw(cordoned) }, false},
		"it was, before any pass": {evicted, func(r *Reconciler) { r.saw(cordoned); now = now.Add(longestLag + time.Second) }, true},
		"a pass read it before":   {evicted, func(r *Reconciler) { r.saw(cordoned); drained(r, staying) }, true},
		"it is not any more":      {evicted, func(r *Reconciler) { drained(r, leaving); drained(r, staying) }, false},
		"another set's is not":    {evicted, func(r *Reconciler) { r.sessions.of(types.NamespacedName{Name: "other"}).evictions.drained(staying) }, true},
		"a taint took it":         {"DeletionByTaintManager", func(*Reconciler) {}, false},
		"the kubelet took it":     {"TerminationByKubelet", func(*Reconciler) {}, false},
		"the Node is gone":        {evicted, func(r *Reconciler) { deleted(t, r, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1"}}) }, false},
		"its IngressDaemonSet is": {evicted, func(r *Reconciler) { r.sessions.end(theSet) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := emptyReconciler(func() time.Time { return now })
			r.saw(evictedPod(set, test.reason))
			test.then(r)
			if known := len(drained(r, leaving)) == 1; known != test.known {
				t.Errorf("known %t", known)
			}
		})
	}
}
