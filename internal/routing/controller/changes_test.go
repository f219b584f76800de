package controller

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// TestHeartbeats: what a kubelet writes again and again of its Node leads to no pass, and what is read of it to one.
func TestHeartbeats(t *testing.T) {
	c := newCluster(t, true)
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	defer queue.ShutDown()
	update := func(before, after *corev1.Node) int {
		c.changes.handler().Update(t.Context(), event.UpdateEvent{ObjectOld: before, ObjectNew: after}, queue)
		return len(c.changes.take())
	}
	node := nodeAt("n1", "192.0.2.7")
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	beat := node.DeepCopy()
	beat.ResourceVersion, beat.Status.Conditions[0].LastHeartbeatTime = "2", metav1.Now()
	if n := update(node, beat); n > 0 || queue.Len() > 0 {
		t.Errorf("a heartbeat is noted as %d changes, and calls for %d passes", n, queue.Len())
	}
	lost := beat.DeepCopy()
	lost.Status.Conditions[0].Status = corev1.ConditionUnknown
	if n := update(beat, lost); n != 1 || queue.Len() != 1 {
		t.Errorf("a kubelet that is lost is noted as %d changes, and calls for %d passes", n, queue.Len())
	}
}
