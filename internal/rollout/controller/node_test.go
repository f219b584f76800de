package controller

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestReadings reads a node's objects again when one of them is another version.
func TestReadings(t *testing.T) {
	node, d, a, b := &corev1.Node{}, deployment("1"), &corev1.Pod{}, &corev1.Pod{}
	r := &reading{node: node, deployment: d, pods: []*corev1.Pod{a, b}}
	if !r.of(&nodeObjects{node: node, deployment: d, pods: []*corev1.Pod{b, a}}) {
		t.Error("the same objects are read again")
	}
	for what, n := range map[string]nodeObjects{
		"another Node":       {node: node.DeepCopy(), deployment: d, pods: []*corev1.Pod{a, b}},
		"no Node":            {deployment: d, pods: []*corev1.Pod{a, b}},
		"another Deployment": {node: node, deployment: d.DeepCopy(), pods: []*corev1.Pod{a, b}},
		"a pod less":         {node: node, deployment: d, pods: []*corev1.Pod{a}},
		"a pod more":         {node: node, deployment: d, pods: []*corev1.Pod{a, b, a.DeepCopy()}},
		"another pod":        {node: node, deployment: d, pods: []*corev1.Pod{a, b.DeepCopy()}},
		"a health checker":   {node: node, deployment: d, pods: []*corev1.Pod{a, b}, checkers: []*corev1.Pod{a}},
	} {
		if r.of(&n) {
			t.Errorf("%s is not read", what)
		}
	}
}

// TestReadingsOfAnotherSpec are not used.
func TestReadingsOfAnotherSpec(t *testing.T) {
	sessions := newSessions(time.Now)
	set := &v1alpha1.IngressDaemonSet{ObjectMeta: metav1.ObjectMeta{Name: "proxy", UID: "1", Generation: 1}}
	of := func(set *v1alpha1.IngressDaemonSet) *readings { return sessions.pass(set).readingsOf(set) }
	if known := of(set); of(set) != known {
		t.Error("they are forgotten at once")
	}
	for what, change := range map[string]func(*v1alpha1.IngressDaemonSet){
		"another spec":   func(s *v1alpha1.IngressDaemonSet) { s.Generation++ },
		"another object": func(s *v1alpha1.IngressDaemonSet) { s.UID = "2" },
		"a deletion":     func(s *v1alpha1.IngressDaemonSet) { s.DeletionTimestamp = &metav1.Time{} },
	} {
		known, other := of(set), set.DeepCopy()
		if change(other); of(other) == known {
			t.Errorf("%s is not noticed", what)
		}
	}
}

// TestChangedNodes sees the same fleet by what changed as by reading everything,
// whatever happens to it.
func TestChangedNodes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		set := benchSet()
		f := newFleetCache(t, set)
		defer f.r.sessions.end(client.ObjectKeyFromObject(set))
		for range rapid.IntRange(1, 30).Draw(t, "happenings") {
			f.happens(t)
			if rapid.Bool().Draw(t, "a pass") {
				f.compare(t)
			}
		}
		f.compare(t)
	})
}

// fleetCache is a cache that tells what changes.
type fleetCache struct {
	*filled
	r       *Reconciler
	set     *v1alpha1.IngressDaemonSet
	version int
}

func newFleetCache(t *rapid.T, set *v1alpha1.IngressDaemonSet) *fleetCache {
	r, full, err := newReconciler(set)
	if err != nil {
		t.Fatal(err)
	}
	return &fleetCache{filled: full, r: r, set: set}
}

// happens changes one object, in the cache and then for who listens; or writes one
// that the cache has yet to see.
func (f *fleetCache) happens(t *rapid.T) {
	f.version++
	i := rapid.IntRange(0, 3).Draw(t, "node")
	node := benchNode(i)
	node.Status.Addresses[0].Address = fmt.Sprintf("127.77.%d.%d", rapid.IntRange(0, 1).Draw(t, "address"), i)
	var obj client.Object
	switch rapid.IntRange(0, 5).Draw(t, "kind") {
	case 0:
		obj = node
	case 1:
		obj = benchDeployment(f.set, node.Name)
	case 2:
		f.r.mutations.remember(f.versioned(benchDeployment(f.set, node.Name)))
		return
	case 3:
		node.Annotations = map[string]string{"written": "by us"}
		f.r.mutations.remember(f.versioned(node))
		return
	default:
		pods := benchPods(f.set, node.Name)
		obj = pods[rapid.IntRange(0, len(pods)-1).Draw(t, "pod")]
		if rapid.Bool().Draw(t, "ready") {
			obj.(*corev1.Pod).Status.Conditions = nil
		}
	}
	f.versioned(obj)
	index := f.of(obj).GetIndexer()
	if rapid.IntRange(0, 2).Draw(t, "gone") == 0 {
		if _, found, _ := index.Get(obj); !found {
			return
		}
		if err := index.Delete(obj); err != nil {
			t.Fatal(err)
		}
		f.r.mutations.gone(obj)
		f.r.saw(obj)
		return
	}
	if err := index.Update(obj); err != nil {
		t.Fatal(err)
	}
	f.r.saw(obj)
}

func (f *fleetCache) versioned(obj client.Object) client.Object {
	obj.SetResourceVersion(fmt.Sprint(f.version))
	return obj
}

// compare observes the fleet as it goes, and anew.
func (f *fleetCache) compare(t *rapid.T) {
	got, err := f.r.look(t.Context(), f.set)
	if err != nil {
		t.Fatal(err)
	}
	anew := *f.r
	anew.sessions = newSessions(time.Now)
	// Since when something is so is not read anew.
	anew.sessions.pass(f.set).sights = f.r.sessions.pass(f.set).sights
	want, err := anew.look(t.Context(), f.set)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want.state.Nodes, got.state.Nodes); diff != "" {
		t.Fatalf("by what changed, and anew (-anew):\n%s", diff)
	}
	for name, n := range want.nodes {
		have := got.nodes[name]
		if have == nil || have.node != n.node || have.deployment != n.deployment {
			t.Fatalf("the objects of %s are not the newest", name)
		}
	}
	if len(got.nodes) != len(want.nodes) {
		t.Fatalf("%d nodes instead of %d", len(got.nodes), len(want.nodes))
	}
}
