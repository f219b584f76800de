package controller

import (
	"strings"
	"testing"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TestHostPortShared warns the younger of two IngressDaemonSets whose pods take the same
// port of a node, and stops neither.
func TestHostPortShared(t *testing.T) {
	of := func(name string, created int64, port int32) *v1alpha1.IngressDaemonSet {
		set := benchSet()
		set.Name, set.UID, set.CreationTimestamp = name, types.UID(name), metav1.NewTime(time.Unix(created, 0))
		set.Spec.HealthCheckNodePorts = []int32{10000 + int32(created)}
		set.Spec.Template.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: port}}
		return set
	}
	for _, c := range []struct {
		name        string
		older, port int32
		selector    map[string]string
		warns       string
		asksOlder   bool
	}{
		{name: "the same port", older: 80, port: 80, warns: "IngressDaemonSet edge/older take TCP port 80 of node node-00001"},
		{name: "another port", older: 80, port: 8080},
		{name: "the same port of other nodes", older: 80, port: 80, selector: map[string]string{"none": "such"}},
		{name: "the older one", older: 80, port: 80, asksOlder: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			older, younger := of("older", 1, c.older), of("younger", 2, c.port)
			older.Spec.NodeSelector = c.selector
			if c.asksOlder {
				older, younger = younger, older // of which the second is asked
			}
			r, full, err := newReconciler(younger)
			if err != nil {
				t.Fatal(err)
			}
			if err := r.client.Create(t.Context(), older); err != nil {
				t.Fatal(err)
			}
			if err := full.of(&corev1.Node{}).GetIndexer().Add(benchNode(1)); err != nil {
				t.Fatal(err)
			}
			o, err := r.observe(t.Context(), younger)
			if err != nil {
				t.Fatal(err)
			}
			if len(o.state.Faults) > 0 {
				t.Errorf("it stops the rollout: %v", o.state.Faults)
			}
			switch got := o.state.Warnings; {
			case c.warns == "" && len(got) > 0:
				t.Errorf("it warns: %v", got)
			case c.warns != "" && (len(got) != 1 || got[0].Reason != v1alpha1.ReasonHostPortShared || !strings.Contains(got[0].Message, c.warns)):
				t.Errorf("%v, want %s", got, c.warns)
			}
		})
	}
}
