package rollout

import (
	"fmt"
	"testing"
)

// BenchmarkPlan is one decision in the middle of a rollout, and one at its start
// when every node still waits.
func BenchmarkPlan(b *testing.B) {
	for _, nodes := range []int{1000, 5000} {
		for name, updated := range map[string]int{"start": 0, "middle": nodes / 2, "rest": nodes} {
			b.Run(fmt.Sprintf("%s-%d", name, nodes), func(b *testing.B) {
				s := servingFleet(nodes)
				s.Spec.UpdateStrategy.RollingUpdate.MaxUnavailableNodes = percent(5)
				s.Revision = "r2"
				for i := range updated {
					s.Nodes[i].Deployment.Revision = "r2"
					for j := range s.Nodes[i].Pods {
						s.Nodes[i].Pods[j].Revision = "r2"
					}
				}
				b.ReportAllocs()
				for b.Loop() {
					Plan(s)
				}
			})
		}
	}
}
