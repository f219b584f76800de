package rollout

import (
	"testing"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
)

// Nodes that are halfway through an update in place when they are to have no pods instead.

// TestNoPodsInTheMiddleOfAnUpdate: nodes whose pods are replaced while they serve are not out, and
// minServingNodes keeps the last of them; beside another that serves they go.
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

// TestFewerPodsInTheMiddleOfAnUpdate: a Deployment that is asked for fewer pods while several
// ReplicaSets have some loses of each, and its controller then counts those that go among the ones
// that serve. So the update in place ends first, with as many pods as it began with.
func TestFewerPodsInTheMiddleOfAnUpdate(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Deployment)
		want   int32
	}{
		"older pods of the same revision are left": {func(*Deployment) {}, 3},
		"somebody changes its template meanwhile":  {func(d *Deployment) { d.Drifted = true }, 3},
		"somebody asked for more":                  {func(d *Deployment) { d.Drifted, d.Replicas = true, 4 }, 1},
		"no older pod is left":                     {func(d *Deployment) { d.OlderReplicas = 0 }, 1},
	} {
		s := servingFleet(1)
		s.Spec.UpdateStrategy.RollingUpdate = &v1alpha1.RollingUpdate{MaxDegradedNodes: number(1)}
		s.Spec.PodsPerNode, s.Status.Wave = new(int32(1)), []string{"n0000"}
		n := &s.Nodes[0]
		d := n.Deployment
		d.PodsPerNode, d.Replicas, d.UpdatedReplicas, d.OlderReplicas = 3, 3, 2, 1
		n.Pods = []Pod{n.Pods[0], n.Pods[0], n.Pods[0]}
		c.change(d)
		plan := Plan(s)
		if len(plan.Steps) != 1 || plan.Steps[0].Action != Update || plan.Steps[0].Replicas != c.want {
			t.Errorf("%s: got\n%s", name, summary(plan))
			continue
		}
		// What is written is asked for once, and the rest when the older pods have gone.
		d.PodsPerNode, d.Replicas, d.Drifted, d.Hold = 1, c.want, false, plan.Steps[0].Hold
		if again := Plan(s); c.want == 3 && steps(again) != "" {
			t.Errorf("%s: again\n%s", name, summary(again))
		}
		d.UpdatedReplicas, d.OlderReplicas = 3, 0
		if last := Plan(s); c.want == 3 && (steps(last) != "Update n0000 to r1 x1" || !last.Steps[0].Keep) {
			t.Errorf("%s: at last\n%s", name, summary(last))
		}
	}
}
