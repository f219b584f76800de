package kubectl

import (
	"fmt"
	"strings"
	"testing"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/rollout/objects"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// TestTwoUndosAtOnce goes back once: the second, which saw the spec as it was before the
// first, would take back what that did.
func TestTwoUndosAtOnce(t *testing.T) {
	f := newFakeAPI(t)
	set := midway()
	f.put(kindSet, set)
	for _, r := range records(t, set) {
		f.put(kindRevision, &r)
	}
	image := func() string {
		f.read(kindSet, "nginx", set)
		return set.Spec.Template.Spec.Containers[0].Image
	}
	f.beforePatch = func() {
		if out, err := f.ids("rollout", "undo", "nginx"); err != nil || !strings.Contains(out, "rolled back to revision 2") {
			t.Errorf("the first: %v, %s", err, out)
		}
	}
	out, err := f.ids("rollout", "undo", "nginx")
	if err == nil || !strings.Contains(err.Error(), `somebody else changed the spec of ingressdaemonset "nginx" at the same time`) || out != "" {
		t.Errorf("the second: %v, %s", err, out)
	}
	if got := image(); got != "nginx:1.21" {
		t.Errorf("the spec has %s", got)
	}
}

// TestNotInstalled: where the CRDs are missing, that is what is said, and not which part of discovery failed.
func TestNotInstalled(t *testing.T) {
	f := newFakeAPI(t)
	f.missing = v1alpha1.GroupVersion.Group
	for _, args := range [][]string{{"list"}, {"list", "-A"}, {"status", "nginx"}, {"explain", "nginx", "node-1"}, {"rollout", "status", "nginx"}, {"rollout", "undo", "nginx"}, {"set", "image", "nginx", "nginx=nginx:1.23"}} {
		if out, err := f.ids(args...); err == nil || !strings.HasPrefix(err.Error(), "this cluster has no IngressDaemonSets: ") {
			t.Errorf("%v: %v, %s", args, err, out)
		}
	}
	if out, err := f.ids("attach", "--all"); err != nil || !strings.Contains(out, "No node is out") {
		t.Errorf("attach, which is for the end too: %v, %s", err, out)
	}
}

// TestChangeOutlastsTheController writes again where only the status changed meanwhile.
func TestChangeOutlastsTheController(t *testing.T) {
	f := newFakeAPI(t)
	set := midway()
	f.put(kindSet, set)
	f.beforePatch = func() {
		set.Status.UpdatedNodes++
		f.put(kindSet, set)
	}
	if out, err := f.ids("rollout", "pause", "nginx"); err != nil || !strings.Contains(out, "paused") {
		t.Errorf("%v, %s", err, out)
	}
	if f.read(kindSet, "nginx", set); !set.Spec.Paused || set.Status.UpdatedNodes != 2 {
		t.Errorf("paused %t, %d nodes updated", set.Spec.Paused, set.Status.UpdatedNodes)
	}
}

// TestChangeGivesUp where each of its writes is too late, and says why.
func TestChangeGivesUp(t *testing.T) {
	f := newFakeAPI(t)
	set := midway()
	f.put(kindSet, set)
	writes := 0
	var again func()
	again = func() {
		writes++
		f.put(kindSet, set)
		f.mu.Lock()
		defer f.mu.Unlock()
		f.beforePatch = again
	}
	f.beforePatch = again
	out, err := f.ids("rollout", "pause", "nginx")
	if !apierrors.IsConflict(err) || out != "" {
		t.Errorf("%v, %s", err, out)
	}
	if writes != 4 {
		t.Errorf("it was written %d times", writes)
	}
}

// TestPromoteCommand goes past the partition with the flag only.
func TestPromoteCommand(t *testing.T) {
	f := newFakeAPI(t)
	set := midway()
	u := set.Spec.UpdateStrategy.RollingUpdate
	u.Partition, u.Analysis = new(intstr.FromString("90%")), []v1alpha1.AnalysisCheck{{Name: "shop"}}
	set.Status.Analysis = &v1alpha1.AnalysisStatus{Revision: objects.Revision(objects.Template(set)), Began: metav1.NewMicroTime(now), Phase: v1alpha1.AnalysisPassed}
	f.put(kindSet, set)
	partition := func() *intstr.IntOrString {
		set := &v1alpha1.IngressDaemonSet{}
		f.read(kindSet, "nginx", set)
		return set.Spec.UpdateStrategy.RollingUpdate.Partition
	}
	if out, err := f.ids("rollout", "promote", "nginx"); err == nil || partition() == nil {
		t.Errorf("without the flag: %v, %s, partition %v", err, out, partition())
	}
	if out, err := f.ids("rollout", "promote", "nginx", "--partition"); err != nil || partition() != nil {
		t.Errorf("with the flag: %v, %s, partition %v", err, out, partition())
	}
}

// TestReleasePort closes a port that was removed, and refuses one that is in the spec,
// one that is released already, and one that nobody answers on.
func TestReleasePort(t *testing.T) {
	f := newFakeAPI(t)
	set := midway()
	set.Annotations = map[string]string{v1alpha1.AnnotationReleasedPorts: "10079, 10080,x"}
	f.put(kindSet, set)
	for _, port := range []int32{10079, 10080, 10081, 10082} {
		f.put(kindDaemonSet, &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprint("checker-", port), Namespace: "default",
			Labels: map[string]string{v1alpha1.LabelName: "nginx", v1alpha1.LabelHealthCheckPort: objects.PortLabel(port)},
		}})
	}
	for _, step := range []struct{ port, says, refuses, released string }{
		{"10080", "", "port 10080 is in spec.healthCheckNodePorts", "10079, 10080,x"},
		{"10079", "", "port 10079 is released already", "10079, 10080,x"},
		{"10083", "", `no health checker of ingressdaemonset "nginx" answers on port 10083`, "10079, 10080,x"},
		{"http", "", `"http" is not a port`, "10079, 10080,x"},
		{"0", "", `"0" is not a port`, "10079, 10080,x"},
		{"65616", "", `"65616" is not a port`, "10079, 10080,x"},
		{"10082", "nginx released port 10082", "", "10079,10082"},
		{"10081", "nginx released port 10081", "", "10079,10081,10082"},
	} {
		out, err := f.ids("port", "release", "nginx", step.port)
		if (err != nil) != (step.refuses != "") || err != nil && !strings.Contains(err.Error(), step.refuses) || !strings.Contains(out, step.says) {
			t.Errorf("%s: %v, %s", step.port, err, out)
		}
		if f.read(kindSet, "nginx", set); set.Annotations[v1alpha1.AnnotationReleasedPorts] != step.released {
			t.Errorf("%s: released are %q, want %q", step.port, set.Annotations[v1alpha1.AnnotationReleasedPorts], step.released)
		}
	}
}

// TestTreeSaysWhoAsks shows, as what is wrong, that somebody still asks a removed port.
func TestTreeSaysWhoAsks(t *testing.T) {
	set := midway()
	const message = "port 10079 was removed and is still asked, by 10.0.0.9, 12s ago"
	set.Status.Conditions = append(set.Status.Conditions, metav1.Condition{
		Type: v1alpha1.ConditionWarning, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonHealthCheckPortAsked, Message: message,
	})
	text := tree(set, "", nil, now, style{terminal: true}, false)
	if !strings.Contains(text, "\x1b[31mWarning=True\x1b[0m") || !strings.Contains(text, v1alpha1.ReasonHealthCheckPortAsked) || !strings.Contains(text, message) {
		t.Error(text)
	}
}
