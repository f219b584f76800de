package kubectl

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/testing/golden"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// fleets are IngressDaemonSets of which each stands elsewhere.
func fleets() []v1alpha1.IngressDaemonSet {
	named := func(namespace, name string, change func(*v1alpha1.IngressDaemonSet)) v1alpha1.IngressDaemonSet {
		set := midway()
		set.Namespace, set.Name, set.CreationTimestamp = namespace, name, ago(48*time.Hour)
		change(set)
		return *set
	}
	fine := func(set *v1alpha1.IngressDaemonSet) {
		set.Status.Nodes, set.Status.Wave, set.Status.ServingNodes, set.Status.UnavailableNodes, set.Status.UpdatedNodes = nil, nil, 4, 0, 4
		set.Status.Conditions[1].Reason, set.Status.Conditions[2].Status = v1alpha1.ReasonComplete, metav1.ConditionFalse
	}
	return []v1alpha1.IngressDaemonSet{
		named("default", "complete", fine),
		named("default", "degraded", func(set *v1alpha1.IngressDaemonSet) {
			fine(set)
			set.Status.Conditions[2].Status = metav1.ConditionTrue
		}),
		named("edge", "blocked", func(set *v1alpha1.IngressDaemonSet) {
			b := &set.Status.Conditions[3]
			b.Status, b.Reason, b.Message = metav1.ConditionTrue, v1alpha1.ReasonFloorReached, "taking out node node-2 would leave 0 nodes serving"
		}),
		named("edge", "halted", func(set *v1alpha1.IngressDaemonSet) {
			p := &set.Status.Conditions[1]
			p.Status, p.Reason, p.Message = metav1.ConditionFalse, v1alpha1.ReasonDetachTimedOut, "node node-2 was not detached in time"
		}),
		named("edge", "many", func(set *v1alpha1.IngressDaemonSet) {
			set.Status.Conditions[2].Status = metav1.ConditionFalse
			for _, name := range []string{"node-5", "node-6", "node-7", "node-8"} {
				set.Status.Nodes = append(set.Status.Nodes, v1alpha1.NodeStatus{Name: name, State: v1alpha1.NodeDetached, Reason: "somebody wants it out"})
			}
		}),
		named("edge", "unseen", func(set *v1alpha1.IngressDaemonSet) { set.Generation = 3 }),
	}
}

func TestFleetRows(t *testing.T) {
	for name, text := range map[string]string{
		"list.txt":         columns(fleetRows(fleets()[:2], false, false, now, style{}), ""),
		"list-wide.txt":    columns(fleetRows(fleets(), true, true, now, style{}), ""),
		"top.txt":          topText(fleets(), true, now, style{}),
		"top-terminal.txt": topText(fleets()[2:], false, now, style{terminal: true}),
	} {
		golden.Equal(t, *update, filepath.Join("testdata", name), text)
	}
	if text := topText(nil, true, now, style{}); text != "0 IngressDaemonSets; 0 nodes desired, 0 serving, 0 unavailable\n" {
		t.Errorf("of none: %q", text)
	}
}

// TestList shows why each stands, and nothing where there are none.
func TestList(t *testing.T) {
	f := newFakeAPI(t)
	if out, err := f.ids("list"); err != nil || out != "" {
		t.Errorf("of none: %v\n%s", err, out)
	}
	set := midway()
	f.put(kindSet, set)
	for _, args := range [][]string{{"list"}, {"list", "-A"}, {"list", "-o", "wide"}} {
		out, err := f.ids(args...)
		if err != nil || !strings.Contains(out, "RollingOut") || !strings.Contains(out, "node node-4: the Node is NotReady") ||
			strings.Contains(out, "NAMESPACE") != (len(args) == 2) || strings.Contains(out, "nginx:1.22") != (len(args) == 3) {
			t.Errorf("%v: %v\n%s", args, err, out)
		}
	}
	for output, want := range map[string]string{"json": `"kind": "IngressDaemonSetList"`, "yaml": "kind: IngressDaemonSetList"} {
		if out, err := f.ids("list", "-A", "-o", output); err != nil || !strings.Contains(out, want) || !strings.Contains(out, "nginx:1.22") {
			t.Errorf("%s: %v\n%s", output, err, out)
		}
	}
}

// TestTopForgets what is deleted.
func TestTopForgets(t *testing.T) {
	f := newFakeAPI(t)
	for _, set := range fleets()[:2] {
		f.put(kindSet, &set)
	}
	f.beforeWatch = func() { f.remove(kindSet, "degraded") }
	out, err := f.idsUntil("1 IngressDaemonSets: 1 Complete", "top")
	if err != nil && !errors.Is(err, errInterrupted) || !strings.Contains(out, "2 IngressDaemonSets: 2 Complete") {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestTop shows all that there are, and again what changes.
func TestTop(t *testing.T) {
	f := newFakeAPI(t)
	for _, set := range fleets()[:2] {
		f.put(kindSet, &set)
	}
	f.beforeWatch = func() {
		set := fleets()[1]
		set.Status.Conditions[1].Status, set.Status.Conditions[1].Reason = metav1.ConditionFalse, v1alpha1.ReasonPaused
		f.put(kindSet, &set)
	}
	out, err := f.idsUntil("1 Paused", "top", "-A")
	if err != nil && !errors.Is(err, errInterrupted) || !strings.Contains(out, "2 IngressDaemonSets: 2 Complete") || !strings.Contains(out, "1 Complete, 1 Paused") {
		t.Errorf("%v\n%s", err, out)
	}
}
