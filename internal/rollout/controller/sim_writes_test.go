package controller

import (
	"fmt"
	"testing"
	"time"
)

// TestWrites: a rollout that nobody disturbs costs three writes of a node's
// Deployment and two of its Node, where both ways of detaching are used; and one
// of its Deployment where nodes are not detached.
func TestWrites(t *testing.T) {
	for seed := range 12 {
		w := newWorld(int64(seed + 1))
		w.detacher.keys = map[string]string{detacherKey: detacherTimestamp}
		spec := specOfStories()
		deployment, node := 3, 2
		if seed%2 == 1 {
			deployment, node = 1, 0
		} else {
			byBoth(&spec)
		}
		spec.UpdateStrategy.RollingUpdate.MinServingNodes = number(0)
		for i := range 1 + seed/2 {
			w.addNode(fmt.Sprintf("n%d", i+1), nil)
		}
		w.begin(spec)
		w.run(start.Add(time.Minute))
		w.audit.deploymentWrites, w.audit.nodeWrites = map[string]int{}, map[string]int{}
		w.changeTemplate("r2")
		w.run(w.now.Add(time.Hour))
		w.mustHold(t, "unfinished", w.unfinished)
		for _, name := range w.order() {
			if d, n := w.audit.deploymentWrites[name], w.audit.nodeWrites[name]; d != deployment || n != node {
				t.Errorf("%s: %d writes of the Deployment and %d of the Node, want %d and %d", name, d, n, deployment, node)
			}
		}
	}
}
