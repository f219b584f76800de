package kubectl

import (
	"strings"
	"testing"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

func TestMayDetach(t *testing.T) {
	for name, c := range map[string]struct {
		nodes  int
		node   string
		change func(*v1alpha1.IngressDaemonSet, fleet)
		want   string
	}{
		"one of two":     {2, "node-1", func(*v1alpha1.IngressDaemonSet, fleet) {}, ""},
		"the last":       {1, "node-1", func(*v1alpha1.IngressDaemonSet, fleet) {}, "taking out node node-1 would leave 0 nodes serving, minServingNodes is 1"},
		"elsewhere":      {2, "node-3", func(*v1alpha1.IngressDaemonSet, fleet) {}, `does not run on node "node-3"`},
		"nobody is told": {2, "node-1", func(set *v1alpha1.IngressDaemonSet, _ fleet) { set.Spec.HealthCheckNodePorts = nil }, "nothing would tell the load balancer"},
		"degraded mode": {2, "node-1", func(set *v1alpha1.IngressDaemonSet, _ fleet) {
			set.Spec.UpdateStrategy.RollingUpdate = &v1alpha1.RollingUpdate{MaxDegradedNodes: new(intstr.FromInt(1))}
		}, ""},
		"paused": {2, "node-1", func(set *v1alpha1.IngressDaemonSet, _ fleet) { set.Spec.Paused = true }, ""},
		"another is out": {3, "node-1", func(_ *v1alpha1.IngressDaemonSet, f fleet) {
			f.deployments["node-2"].Annotations = map[string]string{
				v1alpha1.AnnotationNode: "node-2", v1alpha1.AnnotationPodsPerNode: "2",
				v1alpha1.AnnotationDetached: "somebody", v1alpha1.DefaultMarkKey: "2026-01-01T11:00:00Z/r",
			}
		}, "node node-2 does not serve (somebody wants it out of the load balancer), which uses up the budget"},
	} {
		t.Run(name, func(t *testing.T) {
			set := midway()
			set.Status = v1alpha1.IngressDaemonSetStatus{}
			f := onNodes(c.nodes, "aaaaaaaaaa")
			c.change(set, f)
			s, err := f.state(set, set, now)
			if err != nil {
				t.Fatal(err)
			}
			err = mayDetach(s, set, c.node)
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}
