package targets

import (
	"strings"
	"testing"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestAGroupThatAListLeavesOut lets nothing end by which something is on record there: no finalizer goes,
// no node is out, and none is back, before it is known that the group is gone.
func TestAGroupThatAListLeavesOut(t *testing.T) {
	record, taken := in80("i-a:80"), v1alpha1.AttachedGroup{ID: goneARN, Balancer: "network", Leaving: []v1alpha1.LeavingTarget{{Target: "i-a:80"}}}
	record.ID = goneARN
	for name, c := range map[string]struct {
		missing, seen bool
		says          string
	}{
		"it is not asked for yet": {false, true, "is being read"},
		"it is not found":         {true, false, "see as whom the controller reaches them"},
		"it is gone":              {true, true, ""},
	} {
		fleet := func() State {
			s := fleetOf(webGroup(Instance), at80("i-b"))
			s.Accounts[0].Missing = map[string]bool{goneARN: c.missing}
			if c.seen {
				s.group().ID = ourOwner + ":targetgroup/web/2"
			}
			return s
		}
		s := fleet()
		s.attachment("web", onNodes("node-a"), record)
		s.Attachments[0].Object.Spec.TargetGroup.Name = "gone"
		s.detachment("node-a", "i-a", v1alpha1.WantDetached)
		s.detachment("node-b", "i-b", v1alpha1.WantDetached)
		d := plan(t, s)
		if got := d.node("node-a"); got.Done != (c.says == "") || !strings.Contains(got.Waits, c.says) {
			t.Errorf("%s: out %t, %q", name, got.Done, got.Waits)
		}
		if got := d.node("node-b").Waits; strings.Contains(got, goneARN) {
			t.Errorf("%s: another node waits: %q", name, got)
		}
		s.Attachments[0].Object.DeletionTimestamp = &metav1.Time{Time: noon}
		if d := plan(t, s); d.of("web").Release != (c.says == "") || strings.Contains(d.blocked("web"), goneARN) != (c.missing && !c.seen) {
			t.Errorf("%s: released %t, %q", name, d.of("web").Release, d.blocked("web"))
		}
		s = fleet()
		s.detachment("node-a", "i-a", v1alpha1.WantAttached, taken)
		if got := plan(t, s).node("node-a"); got.Done != (c.says == "") || !strings.Contains(got.Waits, c.says) {
			t.Errorf("%s: back %t, %q", name, got.Done, got.Waits)
		}
		s = fleet()
		s.detachment("node-a", "i-another", v1alpha1.WantAttached, taken)
		if got := plan(t, s).node("node-a"); !got.Done {
			t.Errorf("%s: another machine of the node's name waits: %q", name, got.Waits)
		}
	}
}
