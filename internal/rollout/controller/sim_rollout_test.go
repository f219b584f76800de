package controller

import (
	"testing"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
)

// TestOneRollout takes the whole way once: two nodes get a new template, one after the
// other, from the shell itself.
func TestOneRollout(t *testing.T) {
	w := newWorld(0)
	w.addNode("n1", nil)
	w.addNode("n2", nil)
	w.begin(v1alpha1.IngressDaemonSetSpec{
		PodsPerNode: new(int32(2)), HealthCheckNodePorts: []int32{10080},
		UpdateStrategy: v1alpha1.UpdateStrategy{RollingUpdate: &v1alpha1.RollingUpdate{MaxUnavailableNodes: number(1)}},
	})
	w.run(start.Add(time.Minute))
	w.changeTemplate("r2")
	w.run(w.now.Add(5 * time.Minute))
	w.mustHold(t, "unfinished", w.unfinished)
}
