package targets

import (
	"strings"
	"testing"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// TestNothingIsOverWhileAttachmentsAreUnknown takes no node for out, lets go of no pod and of no
// finalizer, and makes no call, while another leader may know of TargetGroupAttachments, or of records,
// that this one does not.
func TestNothingIsOverWhileAttachmentsAreUnknown(t *testing.T) {
	for _, behind := range []bool{true, false} {
		s := fleetOf(webGroup(IP), at80("10.0.0.1", "10.0.0.2"))
		s.Behind = behind
		s.detachment("node-b", "i-b", v1alpha1.WantDetached)
		spec := onPods(IP)
		spec.Ownership = v1alpha1.OwnGroup
		pod := hookedPod("a", "10.0.0.3", true)
		pod.Annotations = map[string]string{v1alpha1.AnnotationTargets: v1alpha1.TargetsIn}
		s.attachment("web", spec, in80("10.0.0.1:80")).Pods = []*corev1.Pod{podOf("c", "10.0.0.1"), podOf("d", "10.0.0.4"), pod}
		gone := s.attachment("gone", onPods(IP))
		gone.Object.DeletionTimestamp = &metav1.Time{Time: noon}
		d := plan(t, s)
		if d.of("gone").Release == behind || d.node("node-b").Done == behind || d.calls() != map[bool]string{false: "out 10.0.0.2:80, in 10.0.0.4:80"}[behind] || (len(d.hooks()) == 0) != behind {
			t.Errorf("behind %t: %+v, %s, %v", behind, d.node("node-b"), d.calls(), d.hooks())
		}
		if leaves := len(d.of("web").Status.Groups[0].Leaving) > 0; leaves == behind {
			t.Errorf("behind %t: %+v", behind, d.of("web").Status.Groups)
		}
	}
}

// TestABrokenSelector holds what may be missing of its own namespace, and nothing of others: who may
// write TargetGroupAttachments could keep what is gone in any group, and its node from leaving.
func TestABrokenSelector(t *testing.T) {
	for name, c := range map[string]struct {
		namespace string
		tags      map[string]string
		calls     string
	}{
		"its own":                       {"", nil, ""},
		"of another namespace":          {"tenant", nil, "out 10.0.0.1:80"},
		"of one that may not come here": {"tenant", map[string]string{NamespacesTag: "ns"}, "out 10.0.0.1:80"},
	} {
		g := webGroup(IP)
		if c.tags != nil {
			g.Tags = c.tags
		}
		s := fleetOf(g, at80("10.0.0.1", "10.0.0.2"))
		s.attachment("web", onPods(IP), in80("10.0.0.1:80", "10.0.0.2:80")).Pods = []*corev1.Pod{podOf("d", "10.0.0.2")}
		broken := s.attachment("broken", onPods(IP))
		broken.Unknown = "podSelector: it cannot be read"
		if c.namespace != "" {
			broken.Object.Namespace = c.namespace
		}
		if got := plan(t, s).calls(); got != c.calls {
			t.Errorf("%s: %q, want %q", name, got, c.calls)
		}
	}
}

// TestWhatAnUnknownOneMaySelect stays when the TargetGroupAttachment is deleted that has it on record, until it
// is known whether another of its namespace selects it, and goes and returns with its node; and what was
// being put back is put back.
func TestWhatAnUnknownOneMaySelect(t *testing.T) {
	for name, c := range map[string]struct {
		change func(s *State, old, other *GroupAttachment)
		calls  string
		kept   bool
	}{
		"is not known":    {func(*State, *GroupAttachment, *GroupAttachment) {}, "", true},
		"is known":        {func(_ *State, _, other *GroupAttachment) { other.Unknown = "" }, "out i-a:80, out i-b:80", false},
		"of others":       {func(_ *State, _, other *GroupAttachment) { other.Object.Namespace = "tenant" }, "out i-a:80, out i-b:80", false},
		"is deleted, too": {func(_ *State, _, other *GroupAttachment) { other.Object.DeletionTimestamp = &metav1.Time{Time: noon} }, "out i-a:80, out i-b:80", false},
		"is not known, and old is edited": {func(s *State, old, _ *GroupAttachment) {
			old.Object.DeletionTimestamp, old.Object.Spec.Port = nil, intstr.FromInt32(90)
			for _, id := range []string{"i-a", "i-b", "i-c"} {
				s.group().Registered[Target{id, 90}] = Health{Condition: Healthy}
			}
			old.Object.Status.Groups = []v1alpha1.AttachedGroup{in80("i-a:80", "i-b:80", "i-a:90", "i-b:90", "i-c:90")}
		}, "", true},
		"is known, and old is edited": {func(s *State, old, other *GroupAttachment) {
			old.Object.DeletionTimestamp, old.Object.Spec.Port = nil, intstr.FromInt32(90)
			for _, id := range []string{"i-a", "i-b", "i-c"} {
				s.group().Registered[Target{id, 90}] = Health{Condition: Healthy}
			}
			old.Object.Status.Groups = []v1alpha1.AttachedGroup{in80("i-a:80", "i-b:80", "i-a:90", "i-b:90", "i-c:90")}
			other.Unknown = ""
		}, "out i-a:80, out i-b:80", false},
		"its node goes out": {func(s *State, _, _ *GroupAttachment) { s.detachment("node-a", "i-a", v1alpha1.WantDetached) }, "out i-a:80", true},
		"it was begun before": {func(_ *State, old, _ *GroupAttachment) {
			old.Object.Status.Groups = []v1alpha1.AttachedGroup{leaving80(time.Time{}, "i-a:80", "i-b:80")}
		}, "out i-a:80, out i-b:80", false},
		"it was being put back": {func(s *State, old, _ *GroupAttachment) {
			old.Object.Status.Groups = []v1alpha1.AttachedGroup{leaving80(time.Time{}, "i-a:80", "i-b:80")}
			s.group().Answers = map[Target]Answer{{"i-a", 80}: {Register: true, At: noon.Add(-time.Second)}, {"i-b", 80}: {Register: true, At: noon.Add(-time.Second)}}
		}, "", false},
	} {
		s := fleetOf(webGroup(Instance), at80("i-a", "i-b"))
		s.attachment("old", onNodes(), in80("i-a:80", "i-b:80")).Object.DeletionTimestamp = &metav1.Time{Time: noon}
		s.attachment("other", onPods(Instance)).Unknown = "there is no Service edge"
		c.change(&s, &s.Attachments[0], &s.Attachments[1])
		d := plan(t, s)
		if d.calls() != c.calls || strings.Contains(d.blocked("old"), "TargetGroupAttachment other selects them: there is no Service edge") != c.kept {
			t.Errorf("%s: %q, %q", name, d.calls(), d.blocked("old"))
		}
	}
}

// TestWhatAnotherLeaderMayHavePutBack stays while it is not known what is selected: what is put back is on record
// as leaving until it is seen back. What this process takes out, what was seen out since, and what is not
// registered goes on as it was.
func TestWhatAnotherLeaderMayHavePutBack(t *testing.T) {
	for name, c := range map[string]struct {
		registered map[Target]Health
		record     v1alpha1.AttachedGroup
		answers    map[Target]Answer
		calls      string
	}{
		"is registered":      {at80("i-a", "i-b"), leaving80(time.Time{}, "i-a:80"), nil, "in i-a:80"},
		"is taken out by us": {at80("i-a", "i-b"), leaving80(time.Time{}, "i-a:80"), map[Target]Answer{{"i-a", 80}: {}}, "out i-a:80"},
		"was seen out":       {at80("i-b"), leaving80(noon.Add(-time.Hour), "i-a:80"), nil, ""},
		"is draining":        {map[Target]Health{{"i-a", 80}: {Condition: Draining}, {"i-b", 80}: {Condition: Healthy}}, leaving80(time.Time{}, "i-a:80"), nil, "out i-a:80"},
		"is not registered":  {at80("i-b"), leaving80(time.Time{}, "i-a:80"), nil, "out i-a:80"},
		"is back":            {at80("i-a", "i-b"), in80("i-a:80"), nil, ""},
		"was seen out, and somebody registered it": {at80("i-a", "i-b"), leaving80(noon.Add(-time.Hour), "i-a:80"), nil, ""},
	} {
		s := fleetOf(webGroup(Instance), c.registered)
		s.group().Answers = c.answers
		a := s.attachment("web", onPods(Instance), c.record)
		a.Unknown, a.Pods = "there is no Service edge", []*corev1.Pod{podOf("a", "10.0.0.1")}
		a.Object.Spec.Service = &v1alpha1.LocalReference{Name: "edge"}
		if got := plan(t, s).calls(); got != c.calls {
			t.Errorf("%s: %q, want %q", name, got, c.calls)
		}
	}
}

// TestWhatMayLiveIsPutBack where it is not known what is selected, and nothing else: another leader took out what
// ended or is gone, and what goes on serving it may have put back.
func TestWhatMayLiveIsPutBack(t *testing.T) {
	unreadable := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: "odd"}}}
	nobody := func(_ *State, a *GroupAttachment) { a.Pods = []*corev1.Pod{podOf("b", "10.0.0.2")} }
	for name, c := range map[string]struct {
		id     string
		change func(s *State, a *GroupAttachment)
		back   bool
	}{
		"a pod that serves there":        {"i-a", func(*State, *GroupAttachment) {}, true},
		"a pod that ends":                {"i-a", func(_ *State, a *GroupAttachment) { a.Pods[0].DeletionTimestamp = &metav1.Time{Time: noon} }, false},
		"a pod that failed":              {"i-a", func(_ *State, a *GroupAttachment) { a.Pods[0].Status.Phase = corev1.PodFailed }, false},
		"pods on other nodes":            {"i-a", nobody, false},
		"pods that are not all known":    {"i-a", func(s *State, a *GroupAttachment) { nobody(s, a); a.Behind = true }, true},
		"Nodes that are not all known":   {"i-x", func(s *State, _ *GroupAttachment) { s.NodesBehind = true }, true},
		"a Node that does not say which": {"i-x", func(s *State, _ *GroupAttachment) { s.Nodes[2].Spec.ProviderID = "" }, true},
		"a machine that is gone":         {"i-x", func(*State, *GroupAttachment) {}, false},
		"an unreadable selector":         {"i-a", func(_ *State, a *GroupAttachment) { a.Object.Spec.PodSelector, a.Pods = unreadable, nil }, true},
		"that, and no machine":           {"i-x", func(_ *State, a *GroupAttachment) { a.Object.Spec.PodSelector, a.Pods = unreadable, nil }, false},
		"an address":                     {"10.0.0.1", func(*State, *GroupAttachment) {}, true},
		"an address of nobody":           {"10.0.0.9", func(*State, *GroupAttachment) {}, false},
		"a selector, and an address": {"10.0.0.1", func(s *State, a *GroupAttachment) {
			s.Bystanders, a.Object.Spec.PodSelector, a.Pods = a.Pods, unreadable, nil
		}, true},
		"a selector, and nobody's address": {"10.0.0.9", func(s *State, a *GroupAttachment) {
			s.Bystanders, a.Object.Spec.PodSelector, a.Pods = a.Pods, unreadable, nil
		}, false},
	} {
		kind, want := Instance, "out "+c.id+":80"
		if c.id[0] == '1' {
			kind = IP
		}
		if c.back {
			want = "in " + c.id + ":80"
		}
		s := fleetOf(webGroup(kind), at80(c.id, "i-b"))
		a := s.attachment("web", onPods(kind), leaving80(time.Time{}, c.id+":80"))
		a.Unknown, a.Pods = "there is no Service edge", []*corev1.Pod{podOf("a", "10.0.0.1")}
		a.Object.Spec.Service = &v1alpha1.LocalReference{Name: "edge"}
		c.change(&s, a)
		if got := plan(t, s).calls(); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

// TestANextPodWithoutThePort has nothing put back that was taken out for the pod before it, unless its node
// returns: it may never answer there, and the one before still ends.
func TestANextPodWithoutThePort(t *testing.T) {
	for name, c := range map[string]struct {
		record v1alpha1.AttachedGroup
		change func(s *State)
		calls  string
	}{
		"is taken out":      {leaving80(time.Time{}, "i-a:80"), func(*State) {}, "out i-a:80"},
		"is registered":     {in80("i-a:80"), func(*State) {}, ""},
		"is being put back": {leaving80(time.Time{}, "i-a:80"), func(s *State) { s.group().Answers = map[Target]Answer{{"i-a", 80}: {Register: true}} }, "in i-a:80"},
		"its node returns":  {leaving80(time.Time{}, "i-a:80"), func(s *State) { s.detachment("node-a", "i-a", v1alpha1.WantAttached) }, "in i-a:80"},
	} {
		s := fleetOf(webGroup(Instance), at80("i-a", "i-b"))
		s.attachment("web", onPods(Instance), c.record).Pods = []*corev1.Pod{podOf("a", "10.0.0.1")}
		c.change(&s)
		if got := plan(t, s).calls(); got != c.calls {
			t.Errorf("%s: %q, want %q", name, got, c.calls)
		}
	}
}

// TestWhatAnotherTookOutIsPutBackByCompleteLists only: another leader may have seen the pod go that a list of
// before shows. What this one puts back already, what only stays, and what is new is not waited for.
func TestWhatAnotherTookOutIsPutBackByCompleteLists(t *testing.T) {
	for name, c := range map[string]struct {
		record v1alpha1.AttachedGroup
		change func(s *State)
		calls  string
	}{
		"lists are late":     {leaving80(time.Time{}, "10.0.0.1:80"), func(s *State) { s.Attachments[0].Behind = true }, ""},
		"lists are complete": {leaving80(time.Time{}, "10.0.0.1:80"), func(*State) {}, "in 10.0.0.1:80"},
		"it is being put back": {leaving80(time.Time{}, "10.0.0.1:80"), func(s *State) {
			s.Attachments[0].Behind, s.group().Answers = true, map[Target]Answer{{"10.0.0.1", 80}: {Register: true}}
		}, "in 10.0.0.1:80"},
		"it is not on record":   {in80(), func(s *State) { s.Attachments[0].Behind = true }, "in 10.0.0.1:80"},
		"it is not leaving yet": {in80("10.0.0.1:80"), func(s *State) { s.Attachments[0].Behind = true }, "in 10.0.0.1:80"},
	} {
		s := fleetOf(webGroup(IP), map[Target]Health{})
		s.attachment("web", onPods(IP), c.record).Pods = []*corev1.Pod{podOf("a", "10.0.0.1")}
		c.change(&s)
		d := plan(t, s)
		if got := d.calls(); got != c.calls {
			t.Errorf("%s: %q, want %q", name, got, c.calls)
		}
		if catchesUp := d.of("web").CatchUp; catchesUp != (c.calls == "") {
			t.Errorf("%s: its list is compared: %t", name, catchesUp)
		}
	}
}

// TestCallsThatWaitAreTold in Blocked where what they wait for has not come for long.
func TestCallsThatWaitAreTold(t *testing.T) {
	for _, deleted := range []bool{false, true} {
		s := fleetOf(webGroup(IP), at80("10.0.0.1"))
		a := s.attachment("web", onPods(IP), in80("10.0.0.1:80"))
		a.Pods = []*corev1.Pod{podOf("c", "10.0.0.1")}
		if deleted {
			a.Object.DeletionTimestamp = &metav1.Time{Time: noon}
		}
		s.Behind, a.Behind = true, true
		if got := plan(t, s).blocked("web"); got != "" {
			t.Errorf("for a moment: %q", got)
		}
		s.Late, a.Late = "the watch hangs", "they are forbidden"
		if got := plan(t, s).blocked("web"); !strings.Contains(got, "known: the watch hangs") || !strings.Contains(got, "taken out: they are forbidden") {
			t.Errorf("for long: %q", got)
		}
	}
}

// TestAMachineThatIsNotKnown says of no node that it is out which does not say what it is,
// and takes out nothing that may be one that registers anew.
func TestAMachineThatIsNotKnown(t *testing.T) {
	s := fleetOf(webGroup(Instance), at80("i-a", "i-b", "i-c"))
	s.Nodes[0].Spec.ProviderID = ""
	s.detachment("node-a", "", v1alpha1.WantDetached)
	if got := plan(t, s).node("node-a"); got.Done || !strings.Contains(got.Waits, "providerID") {
		t.Errorf("%+v", got)
	}
	// The Node says which it is before its Attachment does.
	s.Nodes[0] = nodeOf("node-a", "i-a", "z1")
	if got := plan(t, s).node("node-a"); got.Done || !strings.Contains(got.Waits, "providerID") {
		t.Errorf("named a moment ago: %+v", got)
	}
	s.Nodes[0].Spec.ProviderID = ""
	s.NodeAttachments = nil
	for _, ownership := range []v1alpha1.TargetOwnership{v1alpha1.OwnRegistered, v1alpha1.OwnGroup} {
		spec := onNodes()
		spec.Ownership = ownership
		s.Attachments = nil
		s.attachment("web", spec, in80("i-a:80", "i-b:80", "i-c:80"))
		d := plan(t, s)
		if d.calls() != "" || d.blocked("web") != "node-a has no target: it has no providerID yet" {
			t.Errorf("%s: %s, %s", ownership, d.calls(), d.blocked("web"))
		}
		s.Attachments[0].Object.Status.Groups = nil
		if d := plan(t, s); strings.Contains(d.calls(), "out") {
			t.Errorf("%s, nothing on record: %s", ownership, d.calls())
		}
	}
	for _, settled := range []bool{false, true} {
		record := leaving80(noon.Add(-time.Minute), "i-a:80")
		record.Leaving[0].Settled = settled
		s.Memory.Groups[GroupKey{ID: "arn:web"}] = GroupMemory{Sightings: map[Target]Sighting{{"i-a", 80}: {LeftAt: record.Leaving[0].LeftAt.Time, Left: asOf}}}
		s.Attachments = nil
		s.attachment("web", onNodes(), record)
		if d := plan(t, s); strings.Contains(d.calls(), "out") || (len(d.of("web").Status.Groups[0].Leaving) == 0) != settled {
			t.Errorf("put back by another leader, or by others %t: %s, %+v", settled, d.calls(), d.of("web").Status.Groups)
		}
	}
	// Nothing is known before the group is read.
	unread := s
	unread.Attachments = nil
	unread.attachment("old", onNodes("node-b"), leaving80(time.Time{}, "i-a:80")).Object.DeletionTimestamp = &metav1.Time{Time: noon}
	unread.attachment("web", onNodes(), in80("i-b:80", "i-c:80"))
	unread.Accounts = []Account{{ListedAt: asOf, Groups: []KnownGroup{{Group: s.group().Group}}}}
	if got := plan(t, unread).calls(); got != "" {
		t.Errorf("unread: %s", got)
	}
	// Nor one of another that selects it as well and is deleted.
	s.Attachments = nil
	s.attachment("old", onNodes("node-b"), in80("i-a:80")).Object.DeletionTimestamp = &metav1.Time{Time: noon}
	s.attachment("web", onNodes(), in80("i-b:80", "i-c:80"))
	if d := plan(t, s); d.calls() != "" || !strings.Contains(strings.Join(d.of("web").Status.Groups[0].Targets, " "), "i-a:80") {
		t.Errorf("of another: %s, %+v", d.calls(), d.of("web").Status.Groups)
	}
	// Nor one of another that selects its pod.
	s.Attachments = nil
	s.attachment("old", onNodes("node-b"), in80("i-a:80")).Object.DeletionTimestamp = &metav1.Time{Time: noon}
	pod := podOf("a", "10.0.0.1")
	pod.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 80, HostPort: 80}}
	s.attachment("web", onPods(Instance)).Pods = []*corev1.Pod{pod}
	if d := plan(t, s); d.calls() != "" {
		t.Errorf("of another that selects its pod: %s", d.calls())
	}
	// What is being put back is not taken out once more while the inventory does not show it.
	s.Attachments = nil
	s.attachment("web", onNodes(), leaving80(time.Time{}, "i-a:80"), in80())
	leaves := s.later(time.Second, map[Target]Health{{"i-a", 80}: {Condition: Draining}, {"i-b", 80}: {Condition: Healthy}})
	for _, back := range []bool{true, false} {
		leaves.group().Answers = map[Target]Answer{{"i-a", 80}: {Register: back}}
		if got := plan(t, leaves).calls(); strings.Contains(got, "out i-a:80") == back {
			t.Errorf("put back %t: %s", back, got)
		}
	}
	// A node that is known and not selected any more goes.
	s.Attachments = nil
	s.attachment("web", onNodes("node-a", "node-b"), in80("i-a:80", "i-b:80", "i-c:80"))
	if d := plan(t, s); d.calls() != "out i-c:80" {
		t.Error(d.calls())
	}
	// A machine that is no instance of the cloud's has nothing to be taken out.
	s.Attachments, s.Nodes[0].Spec.ProviderID = nil, "other://x"
	s.detachment("node-a", "", v1alpha1.WantDetached)
	if !plan(t, s).node("node-a").Done {
		t.Error("a node of another cloud is waited for")
	}
}

// TestTheZoneOfALostNode holds the last target of a zone when its Node is gone as well: the
// machine may serve on.
func TestTheZoneOfALostNode(t *testing.T) {
	for name, lose := range map[string]func(*State){
		"gone": func(s *State) { s.Nodes = s.Nodes[1:] },
		"without a providerID": func(s *State) {
			s.Nodes = append([]*corev1.Node{nodeOf("node-a", "", "z1")}, s.Nodes[1:]...)
			s.Attachments[0].Object.Spec.NodeSelector = onNodes("node-b").NodeSelector
		},
	} {
		g := webGroup(Instance)
		g.CrossZone = false
		s := fleetOf(g, at80("i-a", "i-b", "i-c"))
		s.attachment("web", onNodes(), in80("i-a:80", "i-b:80", "i-c:80"))
		s = plan(t, s).apply(s)
		lose(&s)
		for range 2 {
			d := plan(t, s)
			if strings.Contains(d.calls(), "i-a") || !strings.Contains(d.Groups[0].Reports[0].Message, "zone z1") {
				t.Errorf("%s: %s, %+v", name, d.calls(), d.Groups[0].Reports)
			}
			s = d.apply(s)
		}
		delete(s.group().Registered, Target{"i-a", 80})
		if zone := plan(t, s).Memory.Zones["i-a"]; zone != "z1" {
			t.Errorf("%s: its zone is forgotten while it is out and on record, and may be put back: %q", name, zone)
		}
		s.Attachments[0].Object.Status.Groups = nil
		if zone := plan(t, s).Memory.Zones["i-a"]; zone != "" {
			t.Errorf("%s: its zone is remembered when it is neither registered nor on record: %s", name, zone)
		}
	}
}

// TestTheZoneOfALostNodeThatIsOnlyFound remembers it also while nobody decides about its group, for
// as long as it is found there: another zone's last target is not taken out for it.
func TestTheZoneOfALostNodeThatIsOnlyFound(t *testing.T) {
	g := webGroup(Instance)
	g.CrossZone = false
	s := fleetOf(g, at80("i-a", "i-c"))
	s.Detaching = true
	known := *s.group()
	s.group().Registered, s.group().ReadAt, s.group().SweptAt, s.group().Instances = nil, time.Time{}, asOf, map[string]bool{"i-a": true, "i-c": true}
	s = plan(t, s).apply(s)
	s.Nodes = s.Nodes[:2]
	for range 2 {
		d := plan(t, s)
		if !d.Accounts[0].Sweep.Instances["i-c"] {
			t.Errorf("it is not looked for: %+v", d.Accounts[0].Sweep)
		}
		s = d.apply(s)
	}
	out := s
	out.Accounts = []Account{{ListedAt: asOf, Groups: []KnownGroup{known}}}
	out.detachment("node-a", "i-a", v1alpha1.WantDetached)
	if d := plan(t, out); d.calls() != "" || !strings.Contains(d.node("node-a").Waits, "zone z1") {
		t.Errorf("%s, %+v", d.calls(), d.node("node-a"))
	}
	delete(s.group().Instances, "i-c")
	if d := plan(t, s); d.Memory.Zones["i-c"] != "" || d.Accounts[0].Sweep.Instances["i-c"] {
		t.Errorf("it is remembered when it is not found: %v, %+v", d.Memory.Zones, d.Accounts[0].Sweep)
	}
	// A group that is reached later may have it.
	s.detachment("node-c", "i-c", v1alpha1.WantDetached)
	if zone := plan(t, s).Memory.Zones["i-c"]; zone == "" {
		t.Error("it is forgotten while its node is to be out")
	}
}

// TestZonesOfInstances holds the last target of a zone whose clients reach no other.
func TestZonesOfInstances(t *testing.T) {
	for crossZone, want := range map[bool]string{true: "out i-a:80", false: ""} {
		g := webGroup(Instance)
		g.CrossZone = crossZone
		s := fleetOf(g, at80("i-a", "i-b", "i-c"))
		s.detachment("node-a", "i-a", v1alpha1.WantDetached)
		if got := plan(t, s).calls(); got != want {
			t.Errorf("cross-zone %t: %s", crossZone, got)
		}
	}
}
