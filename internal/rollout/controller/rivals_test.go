package controller

import (
	"strings"
	"testing"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/rollout/objects"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
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

// TestRetiredPortOfAnother: a port that another IngressDaemonSet has given up is not free while
// its health checkers may answer there. A DaemonSet without such pods, which who may make no pods
// on the host network could pass for them, takes nothing.
func TestRetiredPortOfAnother(t *testing.T) {
	const port = 10090
	for name, c := range map[string]struct {
		change func(ds *appsv1.DaemonSet, other *v1alpha1.IngressDaemonSet)
		taken  bool
	}{
		"it may answer":         {func(*appsv1.DaemonSet, *v1alpha1.IngressDaemonSet) {}, true},
		"it has no pod":         {func(ds *appsv1.DaemonSet, _ *v1alpha1.IngressDaemonSet) { ds.Status.CurrentNumberScheduled = 0 }, false},
		"its pods have no port": {func(ds *appsv1.DaemonSet, _ *v1alpha1.IngressDaemonSet) { ds.Spec.Template.Spec.HostNetwork = false }, false},
		"nobody owns it":        {func(ds *appsv1.DaemonSet, _ *v1alpha1.IngressDaemonSet) { ds.OwnerReferences = nil }, false},
		"its owner is no more":  {func(ds *appsv1.DaemonSet, _ *v1alpha1.IngressDaemonSet) { ds.OwnerReferences[0].UID = "before" }, false},
		"on other nodes": {func(_ *appsv1.DaemonSet, other *v1alpha1.IngressDaemonSet) {
			other.Spec.NodeSelector = map[string]string{"none": "such"}
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			set, other := benchSet(), benchSet()
			set.Spec.HealthCheckNodePorts, other.Spec.HealthCheckNodePorts = []int32{port}, []int32{port + 1}
			other.Namespace, other.Name, other.UID = "tenant", "other", "other"
			ds := &appsv1.DaemonSet{
				ObjectMeta: metav1.ObjectMeta{
					Namespace: "tenant", Name: "checkers", Labels: map[string]string{v1alpha1.LabelHealthCheckPort: objects.PortLabel(port)},
					OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(other, v1alpha1.Kind)},
				},
				Spec:   appsv1.DaemonSetSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{HostNetwork: true}}},
				Status: appsv1.DaemonSetStatus{CurrentNumberScheduled: 1},
			}
			c.change(ds, other)
			r, full, err := newReconciler(set)
			if err != nil {
				t.Fatal(err)
			}
			for _, obj := range []client.Object{other, ds} {
				if err := r.client.Create(t.Context(), obj); err != nil {
					t.Fatal(err)
				}
			}
			if err := full.of(&corev1.Node{}).GetIndexer().Add(benchNode(1)); err != nil {
				t.Fatal(err)
			}
			o, err := r.observe(t.Context(), set)
			if err != nil {
				t.Fatal(err)
			}
			if o.taken[port] != c.taken || (len(o.state.Faults) > 0) != c.taken {
				t.Errorf("taken %t, want %t: %v", o.taken[port], c.taken, o.state.Faults)
			}
		})
	}
}
