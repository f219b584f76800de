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

// TestSlowPortLosesItsPod: a port that answers others and not us in time, and whose pod goes,
// may pass for others until its process ends: a node that leaves then has the grace after its
// mark.
func TestSlowPortLosesItsPod(t *testing.T) {
	for seed := range int64(20) {
		w := newWorld(seed)
		spec := specOfStories()
		byHealthCheck(&spec)
		for _, name := range []string{"n1", "n2", "n3"} {
			w.addNode(name, nil)
		}
		w.begin(spec)
		w.run(start.Add(time.Minute))
		n := w.nodes["n1"]
		w.setHangs(n, 10080, true, 0)
		w.run(w.now.Add(30 * time.Second))
		w.setHangs(n, 10080, false, answerTime+time.Second)
		w.run(w.now.Add(waitForChange + time.Minute))
		w.losePod(n)
		w.run(w.now.Add(time.Second))
		w.setWanted(n, false)
		w.run(w.now.Add(10 * time.Minute))
		w.mustHold(t, "left over", w.leftovers)
	}
}
