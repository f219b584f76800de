package rollout

import (
	"testing"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
)

// Nodes that are halfway through an update in place when they are to have no pods instead.

// TestNoPodsInTheMiddleOfAnUpdate: nodes whose pods are replaced while they serve are not out, and
// the floor keeps the last of them; beside another that serves they go.
func TestNoPodsInTheMiddleOfAnUpdate(t *testing.T) {
	for others, want := range map[int]string{0: "", 1: "Mark n0000, Mark n0001"} {
		s := servingFleet(2 + others)
		s.Spec.UpdateStrategy.RollingUpdate = &v1alpha1.RollingUpdate{MaxDegradedNodes: number(2)}
		s.Spec.PodsPerNode = new(int32(0))
		s.Revision, s.Revisions["r2"], s.Status.Wave = "r2", true, []string{"n0000", "n0001"}
		for i := range 2 {
			n := &s.Nodes[i]
			n.Deployment.Revision, n.Deployment.Settled, n.Deployment.ReadyReplicas = "r2", false, 1
			n.Pods[0].Revision, n.Pods[0].Ready = "r2", false
		}
		d := Plan(s)
		if got := steps(d); got != want {
			t.Errorf("beside %d: got\n%s", others, summary(d))
		}
		if blocked := condition(t, d, v1alpha1.ConditionBlocked).Reason; (blocked == v1alpha1.ReasonFloorReached) != (others == 0) {
			t.Errorf("beside %d it is blocked by %s", others, blocked)
		}
	}
}

// TestNoPodsHalfwayInALaterGroup: a node that is halfway does not wait for its group where it is to have
// no pods instead: it uses up the budget for which that waits.
func TestNoPodsHalfwayInALaterGroup(t *testing.T) {
	s := servingFleet(2)
	s.Spec.UpdateStrategy.RollingUpdate = &v1alpha1.RollingUpdate{MaxDegradedNodes: number(1)}
	s.Spec.UpdateStrategy.RollingUpdate.Order.TopologyKey = "zone"
	s.Spec.PodsPerNode = new(int32(0))
	s.Status.Wave = []string{"n0001"}
	s.Nodes[0].Labels, s.Nodes[1].Labels = map[string]string{"zone": "a"}, map[string]string{"zone": "b"}
	s.Nodes[1].Deployment.Settled = false
	if d := Plan(s); steps(d) != "Mark n0001" {
		t.Errorf("got\n%s", summary(d))
	}
}
