package controller

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
)

func now() string { return time.Now().UTC().Format(time.RFC3339) }

// TestTimestamp waits for the detacher's answer: not for one that is empty,
// malformed or older than the question, and once more for its withdrawal.
func TestTimestamp(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 1)
	node := f.nodes[0]
	stale := `{"metadata": {"annotations": {"` + timestampKey + `": %q}}}`
	set := f.create("proxy", answered, rolling(func(u *v1alpha1.RollingUpdate) { u.MinServingNodes = new(intstr.IntOrString) }))
	f.complete(set)
	f.change(set, version("v2"))
	f.waitAsked(node)
	for value, want := range map[string]string{"": "has not written its timestamp", "soon": "not RFC 3339"} {
		f.patch(f.node(node), fmt.Sprintf(stale, value))
		f.waitFor("waits because it "+want, set, func(set *v1alpha1.IngressDaemonSet) bool {
			return len(set.Status.Nodes) == 1 && set.Status.Nodes[0].State == v1alpha1.NodeDetaching && strings.Contains(set.Status.Nodes[0].Reason, want)
		})
	}
	if d := f.deployment(set, node); d.Spec.Template.Spec.Containers[0].Image != "proxy:v1" || !marked(d) {
		t.Error("it did not wait")
	}
	f.answer(node)
	f.waitFor("waits for the detacher to withdraw", set, func(set *v1alpha1.IngressDaemonSet) bool {
		return len(set.Status.Nodes) == 1 && set.Status.Nodes[0].State == v1alpha1.NodeAttaching && strings.Contains(set.Status.Nodes[0].Reason, "has not cleared its timestamp")
	})
	f.must(f.clear(node))
	f.complete(set)
}

// TestSharedNode lets two IngressDaemonSets detach the same node: it is released
// when the last lets go.
func TestSharedNode(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 1)
	node := f.nodes[0]
	on := func(port int32, timestamp string) change {
		return func(set *v1alpha1.IngressDaemonSet) {
			answered(set)
			set.Spec.HealthCheckNodePorts = []int32{port}
			set.Spec.UpdateStrategy.RollingUpdate.MinServingNodes = new(intstr.IntOrString)
			set.Spec.UpdateStrategy.RollingUpdate.WaitForDetachmentByAnnotatedTimestamp.Key = timestamp
		}
	}
	a, b := f.create("a", on(port, "example.com/a")), f.create("b", on(port+1, "example.com/b"))
	sets := []*v1alpha1.IngressDaemonSet{a, b}
	before := f.node(node)
	for _, set := range sets {
		f.complete(set)
		f.change(set, version("v2"))
	}
	f.eventually("both ask for the node", func() error {
		if asked := f.requests(node); len(asked) != 3 {
			return fmt.Errorf("there are %v", asked)
		}
		return nil
	})
	f.checkManagers(node, sets...)
	for i, set := range sets {
		timestamp := set.Spec.UpdateStrategy.RollingUpdate.WaitForDetachmentByAnnotatedTimestamp.Key
		f.patch(f.node(node), fmt.Sprintf(`{"metadata": {"annotations": {%q: %q}}}`, timestamp, now()))
		f.waitFor("it has let go", set, func(set *v1alpha1.IngressDaemonSet) bool {
			return !slices.Contains(f.requests(node), v1alpha1.AnnotationDetachPrefix+string(set.UID))
		})
		f.patch(f.node(node), fmt.Sprintf(`{"metadata": {"annotations": {%q: null}}}`, timestamp))
		if held := slices.Contains(f.requests(node), detachKey); held != (i == 0) {
			t.Errorf("after %s let go the node is held: %v", set.Name, held)
		}
	}
	for _, set := range sets {
		f.complete(set)
	}
	after := f.node(node)
	for _, n := range []*corev1.Node{before, after} {
		// It grows with the number of nodes.
		delete(n.Annotations, "node.alpha.kubernetes.io/ttl")
	}
	if diff := cmp.Diff(before.Annotations, after.Annotations); diff != "" {
		t.Errorf("annotations:\n%s", diff)
	}
	if diff := cmp.Diff(before.Labels, after.Labels); diff != "" {
		t.Errorf("labels:\n%s", diff)
	}
}

// checkManagers fails where an IngressDaemonSet claims anything on the Node but
// its two annotations.
func (f *fixture) checkManagers(node string, sets ...*v1alpha1.IngressDaemonSet) {
	f.Helper()
	claims := map[string][]string{}
	for _, e := range f.node(node).ManagedFields {
		if !strings.HasPrefix(e.Manager, "ids/") {
			continue
		}
		var fields struct {
			Metadata struct {
				Annotations map[string]any `json:"f:annotations"`
			} `json:"f:metadata"`
		}
		f.must(json.Unmarshal(e.FieldsV1.GetRawBytes(), &fields))
		claims[e.Manager] = slices.Sorted(maps.Keys(fields.Metadata.Annotations))
		if n := strings.Count(e.FieldsV1.GetRawString(), "{}"); n != len(claims[e.Manager]) {
			f.Errorf("%s claims %s", e.Manager, e.FieldsV1.GetRawString())
		}
	}
	want := map[string][]string{}
	for _, set := range sets {
		want["ids/"+f.ns+"/"+set.Name] = []string{"f:" + v1alpha1.AnnotationDetachPrefix + string(set.UID), "f:" + detachKey}
	}
	if diff := cmp.Diff(want, claims); diff != "" {
		f.Errorf("claims:\n%s", diff)
	}
}

// TestForeignDetachment adopts the value of somebody who has the node detached,
// and leaves it to them.
func TestForeignDetachment(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 2)
	set := f.create("proxy", annotated, rolling(func(u *v1alpha1.RollingUpdate) { u.MinServingNodes = new(intstr.IntOrString) }))
	f.complete(set)
	node := f.nodes[0]
	f.kubectl("annotate", "node", node, detachKey+"=maintenance")
	f.waitFor("the node does not serve", set, func(set *v1alpha1.IngressDaemonSet) bool { return set.Status.ServingNodes == 1 })
	f.change(set, version("v2"))
	f.eventually("it is updated all the same", func() error {
		if image := f.deployment(set, node).Spec.Template.Spec.Containers[0].Image; image != "proxy:v2" || marked(f.deployment(set, node)) {
			return fmt.Errorf("it has %s", image)
		}
		return nil
	})
	f.eventually("only theirs is left", func() error {
		if left := f.requests(node); !slices.Equal(left, []string{detachKey}) {
			return fmt.Errorf("there are %v", left)
		}
		return nil
	})
	if value := f.node(node).Annotations[detachKey]; value != "maintenance" {
		t.Errorf("the value is %q", value)
	}
	f.kubectl("annotate", "node", node, detachKey+"-")
	f.complete(set)
}

// TestDetachmentTimesOut reattaches the node, reports, and halts until the spec
// changes.
func TestDetachmentTimesOut(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 2)
	set := f.create("proxy", answered, rolling(func(u *v1alpha1.RollingUpdate) { u.DetachTimeoutSeconds = new(int32(2)) }))
	f.complete(set)
	f.change(set, version("v2"))
	halted := f.waitReason(set, v1alpha1.ConditionProgressing, v1alpha1.ReasonDetachTimedOut)
	if !strings.Contains(halted.Message, f.nodes[0]) {
		t.Errorf("the message is %q", halted.Message)
	}
	f.released(f.nodes...)
	f.waitFor("both nodes serve", set, func(set *v1alpha1.IngressDaemonSet) bool { return set.Status.ServingNodes == 2 })
	for _, d := range f.deployments(set) {
		if marked(d) || d.Spec.Template.Spec.Containers[0].Image != "proxy:v1" {
			t.Errorf("%s has %s and annotations %v", d.Name, d.Spec.Template.Spec.Containers[0].Image, d.Annotations)
		}
	}
	f.change(set, rolling(func(u *v1alpha1.RollingUpdate) { u.DetachTimeoutPolicy = v1alpha1.ProceedOnDetachTimeout }))
	f.complete(set)
}

// TestDrain gives way to kubectl drain, whether it evicts pods or deletes them, and
// returns when the node is uncordoned. Pods that are evicted may end before anybody looks.
func TestDrain(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		how     string
		lingers bool
	}{
		"evictions": {"--disable-eviction=false", true},
		"at once":   {"--disable-eviction=false", false},
		"deletions": {"--disable-eviction", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			drain(t, test.how, test.lingers)
		})
	}
}

func drain(t *testing.T, how string, lingers bool) {
	f := newFixture(t, 1)
	k := f.addKubelet()
	node := k.node
	set := f.create("proxy", func(set *v1alpha1.IngressDaemonSet) {
		set.Spec.Template.Spec.TerminationGracePeriodSeconds = new(int64(30))
	})
	f.complete(set)
	before := f.pods(set, node)
	// Most pods take their time to end.
	k.lingers.Store(lingers)
	drained := make(chan string, 1)
	go func() { drained <- f.kubectl("drain", node, "--ignore-daemonsets", "--timeout=60s", how) }()
	f.eventually("its Deployment is scaled to 0", func() error {
		if d := f.deployment(set, node); *d.Spec.Replicas != 0 || !marked(d) {
			return fmt.Errorf("it has %d replicas, marked: %v", *d.Spec.Replicas, marked(d))
		}
		return nil
	})
	k.lingers.Store(false)
	t.Log(<-drained)
	f.waitFor("the node is drained", set, func(set *v1alpha1.IngressDaemonSet) bool {
		return len(set.Status.Nodes) == 1 && set.Status.Nodes[0].State == v1alpha1.NodeDrained && set.Status.ServingNodes == 1
	})
	if note := f.event(set, "NodeDrained"); !strings.Contains(note, node) {
		t.Errorf("the event says %q", note)
	}
	if left := f.pods(set, node); len(left) > 0 {
		t.Errorf("%d pods are left", len(left))
	}
	f.kubectl("uncordon", node)
	f.complete(set)
	for uid := range f.pods(set, node) {
		if before[uid] != nil {
			t.Error("an evicted pod is still there")
		}
	}
}

// TestCordoned nodes go on serving, and are updated like the others.
func TestCordoned(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 2)
	set := f.create("proxy")
	f.complete(set)
	for _, node := range f.nodes {
		f.kubectl("cordon", node)
	}
	f.change(set, version("v2"))
	f.complete(set)
}
