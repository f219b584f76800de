package controller

import (
	"testing"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// delays is a queue that remembers for how long each request was to wait.
type delays struct {
	workqueue.TypedRateLimitingInterface[reconcile.Request]
	of map[string][]time.Duration
}

func (d delays) AddAfter(req reconcile.Request, after time.Duration) {
	d.of[req.Name] = append(d.of[req.Name], after)
}

// TestLostPodsDoNotWait: what is replaced as fast as it is lost is looked at at once,
// however long a pass takes; other events are gathered.
func TestLostPodsDoNotWait(t *testing.T) {
	r := emptyReconciler(time.Now)
	r.sessions.spent = lasting(time.Minute)
	r.sessions.of(theSet).throttle.effort()(true)
	for name, test := range map[string]struct {
		status corev1.PodStatus
		want   time.Duration
	}{
		"rejected": {corev1.PodStatus{Phase: corev1.PodFailed}, shortestPause},
		"evicted by a taint": {corev1.PodStatus{Conditions: []corev1.PodCondition{
			{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "DeletionByTaintManager"},
		}}, shortestPause},
		"evicted by somebody": {corev1.PodStatus{Conditions: []corev1.PodCondition{
			{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "EvictionByEvictionAPI"},
		}}, longestPause},
		"running": {corev1.PodStatus{Phase: corev1.PodRunning}, longestPause},
	} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: theSet.Namespace, Labels: map[string]string{v1alpha1.LabelName: theSet.Name}}, Status: test.status}
		q := delays{of: map[string][]time.Duration{}}
		r.enqueue(setByLabel).Update(t.Context(), event.UpdateEvent{ObjectOld: pod, ObjectNew: pod}, q)
		if got := q.of[theSet.Name]; len(got) != 1 || got[0] != test.want {
			t.Errorf("%s: it waits for %v, want %s", name, got, test.want)
		}
	}
}

// TestTakenLabel: an IngressDaemonSet hears of an object that was taken from it.
func TestTakenLabel(t *testing.T) {
	r := emptyReconciler(time.Now)
	before := benchDeployment(benchSet(), "node-1")
	after := before.DeepCopy()
	after.Labels[v1alpha1.LabelName] = "another"
	q := delays{of: map[string][]time.Duration{}}
	r.enqueue(setByLabel).Update(t.Context(), event.UpdateEvent{ObjectOld: before, ObjectNew: after}, q)
	if len(q.of["another"]) != 1 || len(q.of["proxy"]) != 1 {
		t.Errorf("these heard of it: %v", q.of)
	}
}

// TestReportOfAnother: a status that another controller wrote calls for a pass, this one's
// own does not.
func TestReportOfAnother(t *testing.T) {
	r := emptyReconciler(time.Now)
	set := func(version string, serving int32) *v1alpha1.IngressDaemonSet {
		s := benchSet()
		s.ResourceVersion, s.Status.ServingNodes = version, serving
		return s
	}
	r.sessions.of(client.ObjectKeyFromObject(benchSet())).throttle.report(time.Now(), "10")
	for name, test := range map[string]struct {
		before, after *v1alpha1.IngressDaemonSet
		want          bool
	}{
		"its own":      {set("9", 1), set("10", 2), false},
		"an older one": {set("8", 1), set("9", 2), false},
		"of another":   {set("10", 2), set("11", 1), true},
		"no status":    {set("10", 2), set("11", 2), false},
		"past nine":    {set("10", 2), set("100", 1), true},
	} {
		if got := r.changesOfItself().Update(event.UpdateEvent{ObjectOld: test.before, ObjectNew: test.after}); got != test.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// TestBackoff: what is due for other nodes does not wait for long behind a write that fails.
func TestBackoff(t *testing.T) {
	failing := backoff()
	for range 100 {
		if after := failing.When(reconcile.Request{NamespacedName: theSet}); after > longestBackoff {
			t.Fatalf("a pass waits for %s", after)
		}
	}
}
