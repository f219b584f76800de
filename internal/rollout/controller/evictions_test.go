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
		then  func(*evictions)
		known bool
	}{
		"the taint is there":           {func(e *evictions) { e.saw(tainted) }, true},
		"the taint is gone":            {func(e *evictions) { e.saw(node) }, false},
		"one more is there":            {func(e *evictions) { e.saw(both) }, true},
		"one is there that it bears":   {func(e *evictions) { e.saw(kept) }, false},
		"not known what it bears":      {func(e *evictions) { clear(e.sets); e.saw(kept) }, true},
		"the Node is gone":             {func(e *evictions) { e.gone(tainted) }, false},
		"the IngressDaemonSet is gone": {func(e *evictions) { e.forget(theSet) }, false},
		"the pod is gone":              {func(e *evictions) { e.gone(evictedPod(set, "DeletionByTaintManager")) }, true},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEvictions(time.Now)
			e.of(theSet, objects.NodeSetOf(set))
			e.saw(tainted)
			e.saw(evictedPod(set, evicted))
			if e.from(theSet, "node-1") {
				t.Error("a drain counts")
			}
			e.saw(evictedPod(set, "DeletionByTaintManager"))
			if test.then(e); e.from(theSet, "node-1") != test.known {
				t.Errorf("known %t", !test.known)
			}
		})
	}
}

// TestWhenPodsWereTaken: who was made since a taint first took a pod of the same ReplicaSet goes, too.
func TestWhenPodsWereTaken(t *testing.T) {
	set := evictedSet()
	e := newEvictions(time.Now)
	e.of(theSet, objects.NodeSetOf(set))
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1"}}
	tainted := node.DeepCopy()
	tainted.Spec.Taints = []corev1.Taint{{Key: "maintenance", Effect: corev1.TaintEffectNoExecute}}
	e.saw(tainted)
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
		e.saw(obj)
	}
	want := map[string]time.Time{"a": first, "b": first.Add(time.Second)}
	if got := e.since(theSet, "node-1"); !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if got := e.since(theSet, "node-2"); got != nil {
		t.Errorf("got %v of another node", got)
	}
	// What was evicted goes on to say so.
	for what, then := range map[string]func(){
		"the taint":            func() { e.saw(node) },
		"the Node":             func() { e.saw(tainted); e.gone(tainted) },
		"the IngressDaemonSet": func() { e.saw(tainted); e.forget(theSet) },
	} {
		then()
		e.saw(evictedPod(set, "DeletionByTaintManager"))
		e.gone(evictedPod(set, "DeletionByTaintManager"))
		e.of(theSet, objects.NodeSetOf(set))
		if e.saw(tainted); e.from(theSet, "node-1") || e.since(theSet, "node-1") != nil {
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
	leaving, staying := func(string) bool { return true }, func(string) bool { return false }
	cordoned := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1"}, Spec: corev1.NodeSpec{Unschedulable: true}}
	for name, test := range map[string]struct {
		reason string
		then   func(*evictions)
		known  bool
	}{
		"the node is cordoned":    {evicted, func(e *evictions) { e.drained(theSet, leaving) }, true},
		"it is not yet":           {evicted, func(e *evictions) { e.drained(theSet, staying) }, true},
		"it is not for long":      {evicted, func(e *evictions) { now = now.Add(longestLag + time.Second); e.drained(theSet, staying) }, false},
		"it is only later":        {evicted, func(e *evictions) { now = now.Add(longestLag + time.Second); e.saw(cordoned) }, false},
		"it was, before any pass": {evicted, func(e *evictions) { e.saw(cordoned); now = now.Add(longestLag + time.Second) }, true},
		"a pass read it before":   {evicted, func(e *evictions) { e.saw(cordoned); e.drained(theSet, staying) }, true},
		"it is not any more":      {evicted, func(e *evictions) { e.drained(theSet, leaving); e.drained(theSet, staying) }, false},
		"another set's is not":    {evicted, func(e *evictions) { e.drained(types.NamespacedName{Name: "other"}, func(string) bool { return false }) }, true},
		"a taint took it":         {"DeletionByTaintManager", func(*evictions) {}, false},
		"the kubelet took it":     {"TerminationByKubelet", func(*evictions) {}, false},
		"the Node is gone":        {evicted, func(e *evictions) { e.gone(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1"}}) }, false},
		"its IngressDaemonSet is": {evicted, func(e *evictions) { e.forget(theSet) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEvictions(func() time.Time { return now })
			e.saw(evictedPod(set, test.reason))
			test.then(e)
			if known := len(e.drained(theSet, leaving)) == 1; known != test.known {
				t.Errorf("known %t", known)
			}
		})
	}
}
