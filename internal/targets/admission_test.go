package targets

import (
	"strings"
	"testing"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestWhoMayAddTargets: a group takes new targets of the namespaces that its tag names, and
// without a tag of all unless that is a must. What it does not say is waited for.
func TestWhoMayAddTargets(t *testing.T) {
	for name, c := range map[string]struct {
		tags     map[string]string
		required bool
		calls    string
		ready    string
		blocked  string
	}{
		"no tag":                 {map[string]string{}, false, "in i-b:80", v1alpha1.ReasonTargetsNotHealthy, ""},
		"no tag, a must":         {map[string]string{}, true, "", v1alpha1.ReasonTargetsRefused, "target group web has no tag " + NamespacesTag + ", without which it takes no new target"},
		"named":                  {map[string]string{NamespacesTag: "ns"}, true, "in i-b:80", v1alpha1.ReasonTargetsNotHealthy, ""},
		"named among others":     {map[string]string{NamespacesTag: " other  ns "}, false, "in i-b:80", v1alpha1.ReasonTargetsNotHealthy, ""},
		"others":                 {map[string]string{NamespacesTag: "other nss"}, false, "", v1alpha1.ReasonTargetsRefused, "target group web takes no new target of namespace ns: whoever manages it has to name that in its tag " + NamespacesTag},
		"nobody":                 {map[string]string{NamespacesTag: ""}, false, "", v1alpha1.ReasonTargetsRefused, "target group web takes no new target of namespace ns"},
		"tags that are not read": {nil, false, "", v1alpha1.ReasonGroupsUnknown, ""},
	} {
		t.Run(name, func(t *testing.T) {
			g := webGroup(Instance)
			g.Tags = c.tags
			s := fleetOf(g, at80("i-a"))
			s.RequireGroupTag = c.required
			s.attachment("web", onNodes("node-a", "node-b"), in80("i-a:80"))
			d := plan(t, s)
			if d.calls() != c.calls {
				t.Errorf("%s, want %s", d.calls(), c.calls)
			}
			conditions := d.of("web").Status.Conditions
			ready, blocked := meta.FindStatusCondition(conditions, v1alpha1.ConditionReady), meta.FindStatusCondition(conditions, v1alpha1.ConditionBlocked)
			if ready.Reason != c.ready || !strings.HasPrefix(blocked.Message, c.blocked) || (blocked.Status == metav1.ConditionTrue) != (c.blocked != "") {
				t.Errorf("Ready is %+v, Blocked %+v", ready, blocked)
			}
			if strings.Contains(blocked.Message, "other") {
				t.Errorf("it tells of others: %s", blocked.Message)
			}
			if groups := d.of("web").Status.Groups; len(groups) != 1 || groups[0].Targets[0] != "i-a:80" {
				t.Errorf("what is registered is not on record any more: %+v", groups)
			}
			if !d.account(ourselves).TagsOf["arn:web"] {
				t.Error("the tags are not asked for")
			}
		})
	}
}

// TestWhatIsThereStays until it leaves in the usual way: of a namespace that a group takes
// nothing new from, what is registered is not torn out, and what leaves goes on.
func TestWhatIsThereStays(t *testing.T) {
	left := func(s *State) *v1alpha1.TargetGroupAttachment {
		return s.attachment("web", onNodes(), leaving80(noon.Add(-2*time.Minute), "i-a:80")).Object
	}
	for name, c := range map[string]struct {
		registered map[Target]Health
		change     func(s *State)
		calls      string
	}{
		"registered":            {at80("i-a", "i-b"), func(s *State) { s.attachment("web", onNodes(), in80("i-a:80", "i-b:80")) }, ""},
		"somebody took it out":  {at80("i-b"), func(s *State) { s.attachment("web", onNodes(), in80("i-a:80", "i-b:80")) }, ""},
		"somebody else's":       {at80("i-a", "i-b"), func(s *State) { s.attachment("web", onNodes(), in80("i-a:80")) }, ""},
		"not selected any more": {at80("i-a", "i-b"), func(s *State) { s.attachment("web", onNodes("node-b"), in80("i-a:80", "i-b:80")) }, "out i-a:80"},
		"on its way out":        {at80("i-a", "i-b"), func(s *State) { s.attachment("web", onNodes("node-b"), leaving80(time.Time{}, "i-a:80")) }, "out i-a:80"},
		"deleted": {at80("i-a", "i-b"), func(s *State) {
			s.attachment("web", onNodes(), in80("i-a:80", "i-b:80")).Object.DeletionTimestamp = &metav1.Time{Time: noon}
		}, "out i-a:80, out i-b:80"},
		"its node is to be out": {at80("i-a", "i-b"), func(s *State) {
			s.attachment("web", onNodes(), in80("i-a:80", "i-b:80"))
			s.detachment("node-a", "i-a", v1alpha1.WantDetached)
		}, "out i-a:80"},
		"its node is back":        {at80("i-b"), func(s *State) { left(s); s.detachment("node-a", "i-a", v1alpha1.WantAttached) }, "in i-a:80"},
		"the group is all theirs": {at80("i-a", "i-x"), func(s *State) { s.attachment("web", whole(onNodes()), in80("i-a:80")) }, ""},
		"it goes over to nobody": {at80("i-a", "i-b"), func(s *State) {
			s.attachment("old", onNodes(), in80("i-a:80")).Object.DeletionTimestamp = &metav1.Time{Time: noon}
			s.attachment("web", onNodes())
		}, "out i-a:80"},
		"a short settle time is theirs": {at80("i-b"), func(s *State) {
			short := onNodes("node-b")
			short.DetachFloorSeconds = new(int32(0))
			other := s.attachment("other", onNodes("node-c"), leaving80(noon.Add(-30*time.Second), "i-a:80"))
			other.Object.Namespace = "admitted"
			s.attachment("web", short)
		}, "in i-c:80"},
	} {
		t.Run(name, func(t *testing.T) {
			g := webGroup(Instance)
			g.Tags = map[string]string{NamespacesTag: "admitted"}
			s := fleetOf(g, c.registered)
			c.change(&s)
			d := plan(t, s)
			if d.calls() != c.calls {
				t.Errorf("%q, want %q", d.calls(), c.calls)
			}
			for _, r := range d.Groups[0].Reports {
				if name == "a short settle time is theirs" && r.ID == "i-a" && !r.Until.Equal(noon.Add(time.Minute)) {
					t.Errorf("the settle time of those who may is cut short: %+v", r)
				}
			}
		})
	}
}

func whole(spec v1alpha1.TargetGroupAttachmentSpec) v1alpha1.TargetGroupAttachmentSpec {
	spec.Ownership = v1alpha1.OwnGroup
	return spec
}

// TestAHandoverWaitsForTags: while it is not known whether an object may have what another one
// lets go of, as after a change of leader, it stays.
func TestAHandoverWaitsForTags(t *testing.T) {
	g := webGroup(Instance)
	g.Tags = nil
	s := fleetOf(g, at80("i-a", "i-b"))
	s.attachment("old", onNodes("node-a", "node-b"), in80("i-a:80", "i-b:80")).Object.DeletionTimestamp = &metav1.Time{Time: noon}
	s.attachment("new", onNodes("node-a", "node-b"))
	d := plan(t, s)
	if d.calls() != "" || len(d.of("new").Status.Groups) > 0 || d.of("old").Release {
		t.Errorf("%s: %+v, %+v", d.calls(), d.of("new"), d.of("old"))
	}
	s.Accounts[0].Groups[0].Tags = map[string]string{}
	if d := plan(t, s); d.calls() != "" || len(d.of("new").Status.Groups) != 1 {
		t.Errorf("%s: %+v", d.calls(), d.of("new").Status.Groups)
	}
}

// TestWhatReturnsWaitsForNoTags: what another leader began to take out, and is wanted by now, is
// not taken out by one that does not know yet whether the group is still meant.
func TestWhatReturnsWaitsForNoTags(t *testing.T) {
	for name, c := range map[string]struct {
		nodes []string
		calls string
	}{
		"wanted":     {[]string{"node-a", "node-b"}, "in i-a:80"},
		"not wanted": {[]string{"node-b"}, "out i-a:80"},
	} {
		g := webGroup(Instance)
		spec := onNodes(c.nodes...)
		spec.TargetGroup.Tags = g.Tags
		g.Tags = nil
		s := fleetOf(g, at80("i-a", "i-b"))
		record := leaving80(time.Time{}, "i-a:80")
		record.Targets = []string{"i-b:80"}
		s.attachment("web", spec, record)
		if d := plan(t, s); d.calls() != c.calls {
			t.Errorf("%s: %q, want %q", name, d.calls(), c.calls)
		}
	}
}

// TestTagsThatAnotherRoleRead count: a group is the same in all accounts.
func TestTagsThatAnotherRoleRead(t *testing.T) {
	g := webGroup(Instance)
	g.Tags = nil
	s := fleetOf(g, nil)
	g.Tags = map[string]string{NamespacesTag: "ns"}
	s.Accounts = append(s.Accounts, Account{Role: roleA, ListedAt: asOf, Groups: []KnownGroup{{Group: g, ReadAt: asOf, Live: true}}})
	s.Detaching = true
	spec := onNodes("node-a")
	spec.AssumeRole = &roleA
	s.attachment("web", spec)
	d := plan(t, s)
	if d.calls() != "in i-a:80" {
		t.Errorf("%q", d.calls())
	}
	if !d.account(roleA).TagsOf["arn:web"] || len(d.account(ourselves).TagsOf) > 0 {
		t.Errorf("%+v", d.Accounts)
	}
}

// TestBarredPods: a pod that a group takes no target for is told so by its gate, and its drain
// hook is let go, but not before it is known.
func TestBarredPods(t *testing.T) {
	for name, c := range map[string]struct {
		tags   map[string]string
		hooks  int
		reason string
	}{
		"barred":    {map[string]string{NamespacesTag: "other"}, 1, GateTargetRefused},
		"not known": {nil, 0, GateTargetUnknown},
	} {
		t.Run(name, func(t *testing.T) {
			g := webGroup(IP)
			g.Tags = c.tags
			s := fleetOf(g, nil)
			pod := podOf("a", "10.0.0.1")
			pod.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: corev1.PodConditionType(v1alpha1.ReadinessGate("web"))}}
			pod.Spec.Containers[0].Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{HTTPGet: &corev1.HTTPGetAction{Path: v1alpha1.DrainPath}}}
			pod.Annotations = map[string]string{v1alpha1.AnnotationTargets: v1alpha1.TargetsIn}
			s.attachment("web", onPods(IP)).Pods = []*corev1.Pod{pod}
			d := plan(t, s)
			if len(d.Hooks) != c.hooks || len(d.Hooks) > 0 && d.Hooks[0].In {
				t.Errorf("hooks %+v", d.Hooks)
			}
			if len(d.Gates) != 1 || d.Gates[0].Condition.Reason != c.reason || d.Gates[0].Condition.Status != corev1.ConditionFalse {
				t.Errorf("gates %+v", d.Gates)
			}
		})
	}
}
