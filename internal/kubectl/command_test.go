package kubectl

import (
	"strings"
	"testing"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/rollout/objects"
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
