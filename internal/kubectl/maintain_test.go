package kubectl

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
		"out already, and others are blocked": {2, "node-1", func(set *v1alpha1.IngressDaemonSet, f fleet) {
			f.deployments["node-1"].Annotations[v1alpha1.DefaultMarkKey] = "2026-01-01T11:00:00Z/r"
			set.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionBlocked, Status: "True", Reason: v1alpha1.ReasonDeploymentRefused}}
		}, ""},
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

// TestAttachOfAnUnlistedNode does not take a node to serve because the status, which
// lists other nodes, has no room for it.
func TestAttachOfAnUnlistedNode(t *testing.T) {
	f := newFakeAPI(t)
	set := midway()
	set.Status.Nodes, set.Status.Wave = nil, nil
	for i := range mostListed {
		set.Status.Nodes = append(set.Status.Nodes, v1alpha1.NodeStatus{Name: fmt.Sprintf("a-%d", i), State: v1alpha1.NodeUnavailable})
	}
	f.put(kindSet, set)
	objects := onNodes(1, "aaaaaaaaaa")
	f.put(kindNode, &objects.nodes[0])
	d := objects.deployments["node-1"]
	d.Namespace, d.Labels = "default", map[string]string{v1alpha1.LabelName: "nginx", v1alpha1.LabelNode: "node-1"}
	d.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(set, v1alpha1.Kind)}
	d.Annotations[v1alpha1.AnnotationDetached], d.Annotations[v1alpha1.DefaultMarkKey] = "somebody", "2026-01-01T11:00:00Z/aaaaaaaaaa"
	f.put(kindDeployment, d)
	for _, pod := range objects.pods["node-1"] {
		pod.Namespace, pod.Labels = "default", d.Labels
		pod.Labels[v1alpha1.LabelRevision] = "aaaaaaaaaa"
		f.put(kindPod, pod)
	}
	out, err := f.idsUntil("node-1", "attach", "node-1")
	if !errors.Is(err, errInterrupted) || strings.Contains(out, " attached") {
		t.Errorf("while it is marked: %v, %s", err, out)
	}
	f.read(kindDeployment, d.Name, d)
	if _, detached := d.Annotations[v1alpha1.AnnotationDetached]; detached {
		t.Error("it was not asked back")
	}
	delete(d.Annotations, v1alpha1.DefaultMarkKey)
	f.put(kindDeployment, d)
	if out, err := f.ids("attach", "node-1"); err != nil || !strings.Contains(out, "nginx attached") {
		t.Errorf("when it serves: %v, %s", err, out)
	}
	if state, reason := stateOf(set, "node-1"); state != "" || !strings.Contains(reason, "more do not serve") {
		t.Errorf("the status says %q, %s", state, reason)
	}
}

// TestDetachByAnOldStatus does not take a node for detached that was attached since the
// status was written.
func TestDetachByAnOldStatus(t *testing.T) {
	f := newFakeAPI(t)
	set := midway()
	set.Status.Wave = nil
	set.Status.Nodes = []v1alpha1.NodeStatus{{Name: "node-1", State: v1alpha1.NodeDetached}}
	on := onNodes(2, "aaaaaaaaaa")
	f.putFleet(set, on)
	out, err := f.idsUntil("its mark is not written yet", "detach", "node-1")
	if !errors.Is(err, errInterrupted) || strings.Contains(out, "nginx detached") {
		t.Errorf("without a mark: %v, %s", err, out)
	}
	d := on.deployments["node-1"]
	d.Annotations[v1alpha1.DefaultMarkKey] = "2026-01-01T11:00:00Z/aaaaaaaaaa"
	f.put(kindDeployment, d)
	if out, err := f.ids("detach", "node-1"); err != nil || !strings.Contains(out, "nginx detached") {
		t.Errorf("with its mark: %v, %s", err, out)
	}
}

// TestOrphansOfTheNode: what an IngressDaemonSet that is gone left on a node keeps nobody
// from detaching and attaching the others.
func TestOrphansOfTheNode(t *testing.T) {
	for name, owners := range map[string][]metav1.OwnerReference{
		"no owner":            nil,
		"gone":                {{APIVersion: v1alpha1.GroupVersion.String(), Kind: v1alpha1.Kind.Kind, Name: "old", UID: "9", Controller: new(true)}},
		"another of its name": {{APIVersion: v1alpha1.GroupVersion.String(), Kind: v1alpha1.Kind.Kind, Name: "nginx", UID: "9", Controller: new(true)}},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFakeAPI(t)
			set := midway()
			f.put(kindSet, set)
			objects := onNodes(1, "aaaaaaaaaa")
			f.put(kindNode, &objects.nodes[0])
			d := objects.deployments["node-1"]
			d.Namespace, d.Labels = "default", map[string]string{v1alpha1.LabelName: "nginx", v1alpha1.LabelNode: "node-1"}
			d.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(set, v1alpha1.Kind)}
			d.Annotations[v1alpha1.AnnotationDetached] = "somebody"
			f.put(kindDeployment, d)
			left := d.DeepCopy()
			left.Name, left.OwnerReferences = "old-node-1", owners
			f.put(kindDeployment, left)
			if out, err := f.ids("attach", "node-1", "--wait=false"); err != nil {
				t.Errorf("%v: %s", err, out)
			}
			f.read(kindDeployment, d.Name, d)
			if _, detached := d.Annotations[v1alpha1.AnnotationDetached]; detached {
				t.Error("it is not asked back")
			}
		})
	}
}
