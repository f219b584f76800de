package targets

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"
)

// TestPodsThatEndAreNoTargetsToWaitFor is Ready though a pod that has failed, or
// lingers, was never registered.
func TestPodsThatEndAreNoTargetsToWaitFor(t *testing.T) {
	s := fleetOf(webGroup(IP), at80("10.0.0.1"))
	a := s.attachment("web", onPods(IP))
	a.Pods = []*corev1.Pod{podOf("a", "10.0.0.1"), podOf("b", "10.0.0.2")}
	a.Pods[1].Status.Phase = corev1.PodFailed
	got := plan(t, s).of("web").Status
	if ready := meta.FindStatusCondition(got.Conditions, v1alpha1.ConditionReady); ready.Status != metav1.ConditionTrue || got.Targets != 1 || got.Healthy != 1 {
		t.Errorf("%+v, %+v", ready, got)
	}
}

// TestFloorsThatAreAskedFor goes by what was asked for, also while that is being deleted,
// and by the longest.
func TestFloorsThatAreAskedFor(t *testing.T) {
	seconds := func(n int32) *int32 { return &n }
	for name, c := range map[string]struct {
		asked   []*int32
		deleted bool
		want    time.Duration
	}{
		"none":        {[]*int32{nil}, false, time.Minute},
		"0":           {[]*int32{seconds(0)}, false, 0},
		"two":         {[]*int32{seconds(5), seconds(3)}, false, 5 * time.Second},
		"two and one": {[]*int32{seconds(3), nil, seconds(5)}, false, 5 * time.Second},
		"deleted":     {[]*int32{seconds(7)}, true, 7 * time.Second},
	} {
		s := fleetOf(webGroup(Instance), at80("i-b"))
		for i, asked := range c.asked {
			spec := onNodes("node-b")
			spec.DetachFloorSeconds = asked
			a := s.attachment(fmt.Sprint("web-", i), spec, leaving80(noon.Add(-time.Hour), "i-c:80"))
			if c.deleted {
				a.Object.DeletionTimestamp = &metav1.Time{Time: noon}
			}
		}
		d := plan(t, s)
		at := slices.IndexFunc(d.Groups[0].Reports, func(r Report) bool { return r.ID == "i-c" })
		r := d.Groups[0].Reports[at]
		if r.Until.IsZero() {
			// It is over, and read once more.
			r.Until = noon
		}
		if r.Phase != Leaving || r.Until.Sub(noon) != c.want {
			t.Errorf("%s: %s until %s", name, r.Phase, r.Until)
		}
	}
}

func TestMatches(t *testing.T) {
	for name, c := range map[string]struct {
		selector v1alpha1.TargetGroupSelector
		kind     string
		ok       bool
		fault    string
	}{
		"name":         {v1alpha1.TargetGroupSelector{Name: "web"}, "instance", true, ""},
		"another name": {v1alpha1.TargetGroupSelector{Name: "we"}, "instance", false, ""},
		"ARN":          {v1alpha1.TargetGroupSelector{ARN: "arn:web"}, "instance", true, ""},
		"tags":         {v1alpha1.TargetGroupSelector{Tags: map[string]string{"a": "b"}}, "instance", true, ""},
		"more tags":    {v1alpha1.TargetGroupSelector{Tags: map[string]string{"a": "b", "c": ""}}, "instance", false, ""},
		"wrong type":   {v1alpha1.TargetGroupSelector{Name: "web"}, "ip", false, "target group web is of type instance: set targetType to that, or name another group"},
	} {
		o := &v1alpha1.TargetGroupAttachment{Spec: v1alpha1.TargetGroupAttachmentSpec{TargetGroup: c.selector, TargetType: c.kind}}
		a := &attachment{GroupAttachment: GroupAttachment{Object: o}}
		if ok, fault := a.matches(webGroup(Instance)); ok != c.ok || fault != c.fault {
			t.Errorf("%s: %t %q", name, ok, fault)
		}
	}
}

// TestRecordsDoNotDependOnNames takes out what an object registered whatever it is called
// beside one that is new, and waits for its floor.
func TestRecordsDoNotDependOnNames(t *testing.T) {
	for _, names := range [][]string{{"old", "new"}, {"a-old", "z-new"}, {"z-old", "a-new"}} {
		older, newer := names[0], names[1]
		// What was registered is not wanted any more, and a new object wants something else.
		s := fleetOf(webGroup(Instance), at80("i-a", "i-b", "i-c"))
		s.attachment(older, onNodes("node-b"), in80("i-a:80", "i-b:80"))
		s.attachment(newer, onNodes("node-c"))
		s.detachment("node-a", "i-a", v1alpha1.WantDetached)
		d := plan(t, s)
		if d.calls() != "out i-a:80" || len(d.of(older).Status.Groups[0].Leaving) != 1 || d.node("node-a").Done {
			t.Errorf("%v: %s, %+v, %+v", names, d.calls(), d.of(older).Status.Groups, d.node("node-a"))
		}
		// The new one wants it, its node is out, and what is on record leaves.
		s = fleetOf(webGroup(Instance), at80("i-b", "i-c"))
		s.attachment(older, onNodes("node-a", "node-b"), leaving80(noon.Add(-10*time.Second), "i-a:80"))
		s.attachment(newer, onNodes("node-a"))
		s.detachment("node-a", "i-a", v1alpha1.WantDetached)
		d = plan(t, s)
		if r := d.Groups[0].Reports[0]; r.Phase != Leaving || d.node("node-a").Done {
			t.Errorf("%v: %+v, %+v", names, r, d.node("node-a"))
		}
	}
}

// TestATargetGoesOver keeps a target on record where it was until it stands where it is
// wanted, so that a write that fails in between loses nothing; and then there alone.
func TestATargetGoesOver(t *testing.T) {
	for _, names := range [][]string{{"a", "z"}, {"z", "a"}} {
		before, after := names[0], names[1]
		s := fleetOf(webGroup(Instance), at80("i-a", "i-b"))
		old := s.attachment(before, onNodes("node-a"), in80("i-a:80"))
		old.Object.DeletionTimestamp = &metav1.Time{Time: noon}
		s.attachment(after, onNodes("node-a"))
		d := plan(t, s)
		if d.calls() != "" || d.of(before).Release || len(d.of(before).Status.Groups) != 1 || len(d.of(after).Status.Groups) != 1 {
			t.Errorf("%v: %s, %+v, %+v", names, d.calls(), d.of(before), d.of(after).Status.Groups)
		}
		s = d.apply(s)
		d = plan(t, s)
		if d.calls() != "" || !d.of(before).Release || len(d.of(before).Status.Groups) != 0 || len(d.of(after).Status.Groups) != 1 {
			t.Errorf("%v, then: %s, %+v, %+v", names, d.calls(), d.of(before), d.of(after).Status.Groups)
		}
	}
}

// TestATargetWaitsForWhoMayWantIt takes nothing out of a group for an object that is deleted while
// another selects by tags, and those of the group are not read, or others may not be known yet.
func TestATargetWaitsForWhoMayWantIt(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*State)
		calls  string
	}{
		"tags are not read":       {func(s *State) { s.group().Tags = nil }, ""},
		"others are not known":    {func(s *State) { s.Behind, s.Attachments = true, s.Attachments[:1] }, ""},
		"the other is on it":      {func(*State) {}, ""},
		"the other is on another": {func(s *State) { s.group().Tags = map[string]string{"a": "c"} }, "out i-a:80, out i-b:80"},
		"the other is deleted too": {func(s *State) {
			s.group().Tags, s.Attachments[1].Object.DeletionTimestamp = nil, &metav1.Time{Time: noon}
		}, "out i-a:80, out i-b:80"},
	} {
		s := fleetOf(webGroup(Instance), at80("i-a", "i-b"))
		s.attachment("old", onNodes("node-a", "node-b"), in80("i-a:80", "i-b:80")).Object.DeletionTimestamp = &metav1.Time{Time: noon}
		spec := onNodes("node-a", "node-b")
		spec.TargetGroup.Tags = map[string]string{"a": "b"}
		s.attachment("web", spec)
		c.change(&s)
		if got := plan(t, s).calls(); got != c.calls {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// TestNothingIsConcludedFromWhatCannotBeRead leaves a group alone of which a record cannot be
// read: its targets are nobody's to call out or foreign.
func TestNothingIsConcludedFromWhatCannotBeRead(t *testing.T) {
	for name, g := range map[string]v1alpha1.AttachedGroup{"a target": in80("10.0.0.9:80", "i-c"), "what leaves": leaving80(noon, "::1")} {
		s := fleetOf(webGroup(IP), at80("10.0.0.1", "10.0.0.2"))
		broken := s.attachment("broken", onPods(IP), g)
		broken.Object.DeletionTimestamp = &metav1.Time{Time: noon}
		web := s.attachment("web", onPods(IP))
		web.Pods = []*corev1.Pod{hookedPod("a", "10.0.0.1", true)}
		web.Pods[0].Annotations = map[string]string{v1alpha1.AnnotationTargets: v1alpha1.TargetsIn}
		s.detachment("node-a", "i-a", v1alpha1.WantDetached)
		d := plan(t, s)
		switch {
		case d.calls() != "" || len(d.Hooks) > 0 || d.of("broken").Release:
			t.Errorf("%s: %s, hooks %+v, released %t", name, d.calls(), d.Hooks, d.of("broken").Release)
		case d.node("node-a").Done || !strings.Contains(d.node("node-a").Waits, "unreadable record"):
			t.Errorf("%s: %+v", name, d.node("node-a"))
		case !strings.Contains(d.blocked("web"), "TargetGroupAttachment ns/broken has an unreadable record"):
			t.Errorf("%s: %s", name, d.blocked("web"))
		case cmp.Diff(broken.Object.Status.Groups, d.of("broken").Status.Groups) != "":
			t.Errorf("%s: the record changes: %+v", name, d.of("broken").Status.Groups)
		}
	}
}

// TestANodeIsNotOutWhileARecordCannotBeRead in whatever group it is, also one that nobody is on any
// more.
func TestANodeIsNotOutWhileARecordCannotBeRead(t *testing.T) {
	for record, done := range map[string]bool{"10.0.0.9:80": true, "what is this": false} {
		s := fleetOf(webGroup(IP), at80("10.0.0.1"))
		two := webGroup(IP)
		two.ID, two.Name = "arn:two", "two"
		s.Accounts[0].Groups = append(s.Accounts[0].Groups, KnownGroup{Group: two, ReadAt: asOf, Live: true, Registered: map[Target]Health{}})
		spec := onPods(IP)
		spec.TargetGroup.Name = "two"
		s.attachment("web", spec, in80(record))
		s.detachment("node-a", "i-a", v1alpha1.WantDetached)
		if got := plan(t, s).node("node-a"); got.Done != done || strings.Contains(got.Waits, "unreadable record") == done {
			t.Errorf("%s: %+v", record, got)
		}
	}
}

// TestNothingIsTakenOutOnAGuess leaves what is on record where it is not known what is
// selected.
func TestNothingIsTakenOutOnAGuess(t *testing.T) {
	owned := in80("i-b:80", "i-c:80")
	for name, change := range map[string]func(*GroupAttachment){
		"no Service": func(a *GroupAttachment) { a.Unknown = "there is no Service proxy" },
		"no port": func(a *GroupAttachment) {
			a.Object.Spec.NodeSelector, a.Object.Spec.PodSelector = nil, &metav1.LabelSelector{}
			a.Object.Spec.Port = intstr.FromString("http")
			a.Pods = []*corev1.Pod{podOf("b", "10.0.0.2"), podOf("c", "10.0.0.3")}
		},
	} {
		s := fleetOf(webGroup(Instance), at80("i-a", "i-b", "i-c"))
		change(s.attachment("web", onNodes("node-a"), owned))
		d := plan(t, s)
		got := d.of("web").Status.Groups
		if strings.Contains(d.calls(), "out") || len(got) != 1 || !slices.Contains(got[0].Targets, "i-b:80") || !slices.Contains(got[0].Targets, "i-c:80") {
			t.Errorf("%s: %s, %+v", name, d.calls(), got)
		}
		if d.blocked("web") == "" {
			t.Errorf("%s: nothing is said", name)
		}
	}
	s := fleetOf(webGroup(Instance), at80("i-a", "i-b", "i-c"))
	s.attachment("web", onNodes("node-a"), owned)
	if got := plan(t, s).calls(); got != "out i-b:80, out i-c:80" {
		t.Errorf("what is selected no more is not taken out: %s", got)
	}
}

// setOf names an IngressDaemonSet whose pods are of the host network, by the revisions of
// their templates, each with a port called http.
func setOf(kind TargetType, pods map[string]string, ports map[string]int32) GroupAttachment {
	spec := onPods(kind)
	spec.PodSelector, spec.IngressDaemonSet, spec.Port = nil, &v1alpha1.LocalReference{Name: "nginx"}, intstr.FromString("http")
	a := GroupAttachment{Object: &v1alpha1.TargetGroupAttachment{Spec: spec}, Set: &v1alpha1.IngressDaemonSet{}, Templates: map[string]corev1.PodSpec{}}
	for revision, port := range ports {
		a.Templates[revision] = corev1.PodSpec{HostNetwork: true, Containers: []corev1.Container{{Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: port}}}}}
		a.Set.Spec.Template.Spec = a.Templates[revision]
	}
	for _, name := range slices.Sorted(maps.Keys(pods)) {
		p := podOf(name, "")
		p.Spec.HostNetwork = true
		p.Labels = map[string]string{v1alpha1.LabelName: "nginx", v1alpha1.LabelNode: p.Spec.NodeName, v1alpha1.LabelRevision: pods[name]}
		a.Pods = append(a.Pods, p)
	}
	return a
}

// with adds a TargetGroupAttachment like another.
func (s *State) with(a GroupAttachment, groups ...v1alpha1.AttachedGroup) *GroupAttachment {
	added := s.attachment("web", a.Object.Spec, groups...)
	added.Set, added.Templates, added.Pods, added.Neighbours = a.Set, a.Templates, a.Pods, a.Neighbours
	return added
}

// TestAPodsPortIsThePods goes by the template that a pod was made from: a port that changes
// in the set takes nothing out before a pod is replaced.
func TestAPodsPortIsThePods(t *testing.T) {
	registered := at80("i-a", "i-b", "i-c")
	owned := in80("i-a:80", "i-b:80", "i-c:80")
	ports := map[string]int32{"one": 80, "two": 81}
	s := fleetOf(webGroup(Instance), registered)
	a := setOf(Instance, map[string]string{"a": "one", "b": "one", "c": "one"}, ports)
	a.Set.Spec.Template.Spec = a.Templates["two"]
	s.with(a, owned)
	if got := plan(t, s).calls(); got != "" {
		t.Errorf("the template changes: %s", got)
	}
	s = fleetOf(webGroup(Instance), registered)
	s.with(setOf(Instance, map[string]string{"a": "two", "b": "one", "c": "one"}, ports), owned)
	if got := plan(t, s).calls(); got != "out i-a:80, in i-a:81" {
		t.Errorf("a pod is replaced: %s", got)
	}
	// Of a revision that is not on record nothing is known.
	s = fleetOf(webGroup(Instance), registered)
	s.with(setOf(Instance, map[string]string{"a": "lost", "b": "one", "c": "one"}, ports), owned)
	d := plan(t, s)
	if d.calls() != "" || !strings.Contains(d.blocked("web"), "ns/a has no target") {
		t.Errorf("an unknown revision: %s, %s", d.calls(), d.blocked("web"))
	}
	// It ends, or its node is to be out, all the same.
	ends := fleetOf(webGroup(Instance), registered)
	ended := setOf(Instance, map[string]string{"a": "lost", "b": "one", "c": "one"}, ports)
	ended.Pods[0].Status.Phase = corev1.PodFailed
	ends.with(ended, owned)
	if got := plan(t, ends).calls(); got != "out i-a:80" {
		t.Errorf("a pod of an unknown revision ends: %s", got)
	}
	s.detachment("node-a", "i-a", v1alpha1.WantDetached)
	if got := plan(t, s).calls(); got != "out i-a:80" {
		t.Errorf("its node is to be out: %s", got)
	}
}

// TestASetThatIsNotThere adds nothing, takes out nothing that lives, and says so; what is
// gone with it goes.
func TestASetThatIsNotThere(t *testing.T) {
	ports := map[string]int32{"one": 80}
	for _, kind := range []TargetType{Instance, IP} {
		ids := []string{"i-a", "i-b", "i-c"}
		if kind == IP {
			ids = []string{"10.9.0.1", "10.9.0.2", "10.9.0.3"}
		}
		var owned []string
		for _, id := range ids {
			owned = append(owned, id+":80")
		}
		for name, c := range map[string]struct {
			mistyped bool
			living   []string
			calls    string
		}{
			"orphaned":                  {false, []string{"a", "b", "c"}, ""},
			"mistyped":                  {true, []string{"a", "b", "c"}, ""},
			"orphaned, and one is gone": {false, []string{"a", "b"}, "out " + owned[2]},
			"mistyped, and one is gone": {true, []string{"a", "b"}, "out " + owned[2]},
			"deleted":                   {false, nil, "out " + owned[0] + ", out " + owned[1]},
		} {
			s := fleetOf(webGroup(kind), at80(ids...))
			pods := map[string]string{}
			for _, name := range c.living {
				pods[name] = "one"
			}
			a := setOf(kind, pods, ports)
			for _, p := range a.Pods {
				p.Status.PodIP = "10.9.0." + map[string]string{"a": "1", "b": "2", "c": "3"}[p.Name]
			}
			a.Set, a.Neighbours = nil, a.Pods
			if c.mistyped {
				a.Pods, a.Templates = nil, nil
			}
			s.with(a, in80(owned...))
			d := plan(t, s)
			if d.calls() != c.calls || !strings.Contains(d.blocked("web"), "there is no IngressDaemonSet nginx") {
				t.Errorf("%s, %s: %s, %s", kind, name, d.calls(), d.blocked("web"))
			}
			s = fleetOf(webGroup(kind), map[Target]Health{})
			s.with(a)
			if got := plan(t, s).calls(); got != "" {
				t.Errorf("%s, %s, and none is registered: %s", kind, name, got)
			}
		}
	}
}

// TestASetThatIsNotThereChangesNothing takes out nothing on a node that does not say which
// machine it is, and puts nothing back that was leaving before.
func TestASetThatIsNotThereChangesNothing(t *testing.T) {
	a := setOf(Instance, map[string]string{"a": "one", "b": "one"}, map[string]int32{"one": 80})
	a.Set, a.Neighbours, a.Pods, a.Templates = nil, a.Pods, nil, nil
	s := fleetOf(webGroup(Instance), at80("i-a", "i-b", "i-c"))
	s.Nodes[0].Spec.ProviderID = ""
	s.with(a, in80("i-a:80", "i-b:80"))
	if got := plan(t, s).calls(); got != "" {
		t.Errorf("a node without a providerID: %s", got)
	}
	for name, c := range map[string]struct {
		moved, settled bool
		calls          string
	}{
		"it left":                       {false, false, ""},
		"its node returns":              {true, false, "in i-a:80"},
		"nobody wanted it when it left": {false, true, ""},
		"nor does as its node returns":  {true, true, ""},
	} {
		s = fleetOf(webGroup(Instance), at80("i-b", "i-c"))
		record := leaving80(noon.Add(-10*time.Second), "i-a:80")
		record.Leaving[0].Settled = c.settled
		s.with(a, record)
		if c.moved {
			s.detachment("node-a", "i-a", v1alpha1.WantAttached)
		}
		if got := plan(t, s).calls(); got != c.calls {
			t.Errorf("%s: %s", name, got)
		}
	}
	// It is being put back.
	s = fleetOf(webGroup(Instance), map[Target]Health{{"i-a", 80}: {Condition: Draining}, {"i-b", 80}: {Condition: Healthy}})
	s.group().Answers = map[Target]Answer{{"i-a", 80}: {Register: true}}
	s.with(a, leaving80(time.Time{}, "i-a:80"))
	if got := plan(t, s).calls(); got != "in i-a:80" {
		t.Errorf("it is being put back: %s", got)
	}
	// It was put back a moment ago.
	s = fleetOf(webGroup(Instance), at80("i-a", "i-b"))
	s.with(a, leaving80(time.Time{}, "i-a:80"))
	if got := plan(t, s).calls(); strings.Contains(got, "out") {
		t.Errorf("it was put back: %s", got)
	}
}

// TestAPodWithoutThePortIsSkipped names it, and goes on with all others.
func TestAPodWithoutThePortIsSkipped(t *testing.T) {
	spec := onPods(IP)
	spec.Port = intstr.FromString("http")
	s := fleetOf(webGroup(IP), at80("10.0.0.2"))
	a := s.attachment("web", spec, in80("10.0.0.2:80"))
	a.Pods = []*corev1.Pod{podOf("a", "10.0.0.1"), podOf("b", "10.0.0.2"), podOf("c", "10.0.0.3")}
	for _, p := range []int{0, 2} {
		a.Pods[p].Spec.Containers[0].Ports = []corev1.ContainerPort{{Name: "http", ContainerPort: 80}}
	}
	d := plan(t, s)
	if d.calls() != "in 10.0.0.1:80, in 10.0.0.3:80" || !strings.HasPrefix(d.blocked("web"), "ns/b has no target: no container declares a port named") {
		t.Errorf("%s, %s", d.calls(), d.blocked("web"))
	}
}

// TestCountsAreOfOnesOwn counts, waits for and lets go by one's own targets, whatever a
// neighbour has in the group.
func TestCountsAreOfOnesOwn(t *testing.T) {
	registered := at80("10.0.0.1")
	registered[Target{"10.0.0.2", 80}] = Health{Condition: Unhealthy}
	s := fleetOf(webGroup(IP), registered)
	one := s.attachment("one", onPods(IP), in80("10.0.0.1:80"))
	one.Pods = []*corev1.Pod{podOf("a", "10.0.0.1")}
	s.attachment("two", onPods(IP), in80("10.0.0.2:80")).Pods = []*corev1.Pod{podOf("b", "10.0.0.2")}
	leaves := s.attachment("leaves", onPods(IP))
	leaves.Object.DeletionTimestamp = &metav1.Time{Time: noon}
	d := plan(t, s)
	for name, healthy := range map[string]int32{"one": 1, "two": 0} {
		got := d.of(name).Status
		ready := meta.IsStatusConditionTrue(got.Conditions, v1alpha1.ConditionReady)
		if got.Targets != 1 || got.Healthy != healthy || ready != (healthy == 1) {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if !d.of("leaves").Release {
		t.Error("it waits for a neighbour's targets")
	}
}

// TestTargetsAreTakenOutAsWhoRegisteredThem goes by the role on record where another is
// named by then, and needs the account of that until nothing is left there.
func TestTargetsAreTakenOutAsWhoRegisteredThem(t *testing.T) {
	spec := onNodes("node-a")
	spec.AssumeRole = &roleB
	record := in80("i-a:80")
	record.AssumeRole = &roleA
	s := fleetOf(Group{ID: "arn:ours", Name: "ours"}, nil)
	s.attachment("web", spec, record).Object.DeletionTimestamp = &metav1.Time{Time: noon}
	s.Accounts = []Account{
		{Role: roleA, ListedAt: asOf, Groups: []KnownGroup{{Group: webGroup(Instance), Registered: at80("i-a", "i-b"), ReadAt: asOf, Live: true}}},
		{Role: roleB, ListedAt: asOf},
	}
	d := plan(t, s)
	if d.calls() != "out i-a:80" || d.Groups[0].Role != roleA || d.of("web").Release || *d.of("web").Status.Groups[0].AssumeRole != roleA {
		t.Errorf("%s as %v, %+v", d.calls(), d.Groups, d.of("web"))
	}
	if len(d.Accounts) != 2 || d.Accounts[0].Role != roleA {
		t.Errorf("%+v", d.Accounts)
	}
	s.Accounts = s.Accounts[1:]
	if d := plan(t, s); d.of("web").Release {
		t.Error("it is let go while what it registered is not known")
	}
	s.Attachments[0].Object.Status.Groups = nil
	s.Accounts = nil
	if d := plan(t, s); !d.of("web").Release {
		t.Error("one that has registered nothing waits for a role")
	}
}

// TestARoleThatIsNotPermitted: what was registered as it is kept until it is permitted again,
// and Blocked says so. What never was holds up no node.
func TestARoleThatIsNotPermitted(t *testing.T) {
	const refusal = "role a may not be assumed"
	record := v1alpha1.AttachedGroup{ID: "arn:theirs", Targets: []string{"i-a:80"}, AssumeRole: &roleA}
	for name, c := range map[string]struct {
		records []v1alpha1.AttachedGroup
		deleted bool
		kept    bool
	}{
		"nothing was registered":     {nil, false, false},
		"something was":              {[]v1alpha1.AttachedGroup{record}, false, true},
		"deleted, and nothing was":   {nil, true, false},
		"deleted, and something was": {[]v1alpha1.AttachedGroup{record}, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			spec := onNodes("node-a")
			spec.AssumeRole, spec.TargetGroup.Name = &roleA, "other"
			s := fleetOf(webGroup(Instance), at80("i-b"))
			object := s.attachment("web", spec, c.records...).Object
			if c.deleted {
				object.DeletionTimestamp = &metav1.Time{Time: noon}
			}
			s.detachment("node-c", "i-c", v1alpha1.WantDetached)
			s.Accounts = append(s.Accounts, Account{Role: roleA, Failure: refusal, Refused: true})
			d := plan(t, s)
			blocked := meta.FindStatusCondition(d.of("web").Status.Conditions, v1alpha1.ConditionBlocked)
			if says := blocked.Status == metav1.ConditionTrue && strings.HasSuffix(blocked.Message, refusal); says != (c.kept || !c.deleted) {
				t.Errorf("Blocked is %+v", blocked)
			}
			if d.calls() != "" || d.of("web").Release != (c.deleted && !c.kept) || len(d.of("web").Status.Groups) != len(c.records) {
				t.Errorf("%s, %+v", d.calls(), d.of("web"))
			}
			waits := d.NodeAttachments[0].Status.Waits
			if held := strings.Contains(waits, refusal); held != c.kept {
				t.Errorf("a node waits: %q", waits)
			}
		})
	}
}

// TestAClassicLoadBalancerIsTheirsWhoListIt takes what was registered as ourselves out as
// ourselves when a role is written, though its name says nothing of its account.
func TestAClassicLoadBalancerIsTheirsWhoListIt(t *testing.T) {
	g := webGroup(Instance)
	g.ID, g.Balancer = "web", Classic
	s := fleetOf(g, at80("i-a", "i-b"))
	spec := onNodes()
	spec.AssumeRole, spec.TargetGroup.Name = &roleA, "other"
	s.attachment("web", spec, v1alpha1.AttachedGroup{ID: "web", Balancer: "classic", Targets: []string{"i-a:80", "i-b:80"}})
	s.Accounts = append(s.Accounts, Account{Role: roleA, ListedAt: asOf})
	if d := plan(t, s); d.calls() != "out i-a:80" {
		t.Errorf("%s, %+v", d.calls(), d.of("web").Status.Groups)
	}
	// An older version wrote no role, and it was that of the object.
	s.Accounts[0].Groups, s.Accounts[1].Groups = nil, s.Accounts[0].Groups
	if d := plan(t, s); d.calls() != "out i-a:80" {
		t.Errorf("as the role: %s, %+v", d.calls(), d.of("web").Status.Groups)
	}
}

// TestAGroupIsReachedAsOneRole joins what all want of a group that two roles list, makes
// the calls as one of them, and stays with that one.
func TestAGroupIsReachedAsOneRole(t *testing.T) {
	s := fleetOf(webGroup(Instance), at80("i-a"))
	known := s.Accounts[0].Groups
	s.Accounts = []Account{{Role: roleA, ListedAt: asOf, Groups: known}, {Role: roleB, ListedAt: asOf, Groups: slices.Clone(known)}}
	for i, role := range []v1alpha1.AssumeRole{roleA, roleB} {
		spec := onNodes([]string{"node-a", "node-b"}[i])
		spec.AssumeRole = &role
		s.attachment([]string{"one", "two"}[i], spec)
	}
	d := plan(t, s)
	if len(d.Groups) != 1 || d.Groups[0].Role != roleA || d.calls() != "in i-b:80" || len(d.of("one").Status.Groups) != 1 {
		t.Errorf("%+v", d.Groups)
	}
	s.Memory.Groups[GroupKey{ID: "arn:web"}] = GroupMemory{Role: roleB}
	if d := plan(t, s); d.Groups[0].Role != roleB {
		t.Errorf("it changes to %v", d.Groups[0].Role)
	}
	// Another leader goes by what is on record.
	s.Memory = Memory{}
	record := in80("i-b:80")
	record.AssumeRole = &roleB
	s.Attachments[1].Object.Status.Groups = []v1alpha1.AttachedGroup{record}
	if d := plan(t, s); d.Groups[0].Role != roleB {
		t.Errorf("another leader reaches it as %v", d.Groups[0].Role)
	}
}

// TestAnInstanceIsOnceInAClassicLoadBalancer takes an instance out only when none of those
// that select it wants it, whatever ports they name.
func TestAnInstanceIsOnceInAClassicLoadBalancer(t *testing.T) {
	g := Group{ID: "web", Name: "web", Balancer: Classic, Type: Instance, Port: 8080, InUse: true, CrossZone: true, Tags: map[string]string{"a": "b"}}
	s := fleetOf(g, map[Target]Health{{"i-a", 8080}: {Condition: Healthy}, {"i-b", 8080}: {Condition: Healthy}})
	for name, port := range map[string]int32{"one": 80, "two": 81} {
		spec := onNodes("node-a")
		spec.TargetGroup.Tags, spec.Port = g.Tags, intstr.FromInt32(port)
		s.attachment(name, spec)
	}
	s.Attachments[0].Object.Status.Groups = []v1alpha1.AttachedGroup{{ID: "web", Balancer: "classic", Targets: []string{"i-a:80"}}}
	s.Attachments[0].Object.DeletionTimestamp = &metav1.Time{Time: noon}
	d := plan(t, s)
	if d.calls() != "" {
		t.Error(d.calls())
	}
	if d = plan(t, d.apply(s)); d.calls() != "" || !d.of(s.Attachments[0].Object.Name).Release {
		t.Errorf("%s, %+v", d.calls(), d.of(s.Attachments[0].Object.Name))
	}
}

// TestABoundGroupIsLeftAlone neither registers nor deregisters, keeps the record, and
// says what to change; a node is taken out of it all the same.
func TestABoundGroupIsLeftAlone(t *testing.T) {
	const refusal = "target group web belongs to TargetGroupBinding ns/web, whose controller removes what others register: set spec.multiClusterTargetGroup: true there, delete it, or use another group"
	for name, bound := range map[string][]Binding{"bound": {{Name: "ns/web", ARN: "arn:web"}}, "not bound": nil} {
		s := fleetOf(webGroup(Instance), at80("i-b", "i-c", "i-d"))
		s.Bindings.All = bound
		record := in80("i-b:80")
		s.attachment("web", onNodes("node-a"), record)
		s.detachment("node-c", "i-c", v1alpha1.WantDetached)
		d := plan(t, s)
		status := d.of("web").Status
		ready, blocked := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionReady), meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionBlocked)
		want := "out i-b:80, out i-c:80, in i-a:80"
		if bound != nil {
			want = "out i-c:80"
			if diff := cmp.Diff([]v1alpha1.AttachedGroup{record}, status.Groups); diff != "" || status.GroupCount != 1 {
				t.Errorf("%s: %d groups, %s", name, status.GroupCount, diff)
			}
			for _, condition := range []*metav1.Condition{ready, blocked} {
				if condition.Reason != v1alpha1.ReasonGroupBound || condition.Message != refusal {
					t.Errorf("%s: %+v", name, condition)
				}
			}
			if ready.Status != "False" || blocked.Status != "True" {
				t.Errorf("%s: %+v, %+v", name, ready, blocked)
			}
		}
		if d.calls() != want {
			t.Errorf("%s: %s", name, d.calls())
		}
	}
}

// TestABindingThatAppearsWhileATargetLeaves waits for the traffic to that all the same.
func TestABindingThatAppearsWhileATargetLeaves(t *testing.T) {
	s := fleetOf(webGroup(Instance), at80("i-b"))
	s.Bindings.All = []Binding{{Name: "ns/web", ARN: "arn:web"}}
	s.attachment("web", onNodes("node-a"), leaving80(noon.Add(-10*time.Second), "i-a:80"))
	s.detachment("node-a", "i-a", v1alpha1.WantDetached)
	d := plan(t, s)
	if d.calls() != "" || d.node("node-a").Done || len(d.of("web").Status.Groups) != 1 {
		t.Errorf("%s, %+v, %+v", d.calls(), d.node("node-a"), d.of("web").Status.Groups)
	}
	s = d.apply(s).later(61*time.Second, at80("i-b"))
	if d := plan(t, s); !d.node("node-a").Done {
		t.Errorf("%+v", d.node("node-a"))
	}
}

// TestNothingIsDecidedBeforeBindingsAreKnown leaves every group alone that somebody
// else may have to itself.
func TestNothingIsDecidedBeforeBindingsAreKnown(t *testing.T) {
	for why, bindings := range map[string]Bindings{"the TargetGroupBindings are being read": {}, "forbidden": {Failure: "forbidden"}} {
		s := fleetOf(webGroup(Instance), at80("i-b"))
		s.Bindings = bindings
		s.attachment("web", onNodes())
		s.detachment("node-a", "i-a", v1alpha1.WantDetached)
		d := plan(t, s)
		ready := meta.FindStatusCondition(d.of("web").Status.Conditions, v1alpha1.ConditionReady)
		if len(d.Groups) > 0 || ready.Message != why || d.node("node-a").Waits != why {
			t.Errorf("%v, %q, %q", d.Groups, ready.Message, d.node("node-a").Waits)
		}
	}
}

// TestBoundsOfRecords registers with no more groups than can be recorded, and says which
// are left out; a node with more is not said to be out.
func TestBoundsOfRecords(t *testing.T) {
	s := fleetOf(webGroup(Instance), nil)
	s.Accounts[0].Groups = nil
	for i := range mostNodeGroups + 1 {
		g := webGroup(Instance)
		g.ID, g.Name = fmt.Sprintf("arn:%03d", i), fmt.Sprintf("web-%03d", i)
		s.Accounts[0].Groups = append(s.Accounts[0].Groups, KnownGroup{Group: g, Registered: at80("i-a", "i-b"), ReadAt: asOf, Live: true})
	}
	s.detachment("node-a", "i-a", v1alpha1.WantDetached)
	d := plan(t, s)
	if got := d.node("node-a"); len(got.Groups) != mostNodeGroups || got.Done || !strings.Contains(got.Waits, "web-200") || strings.Count(d.calls(), "out") != mostNodeGroups {
		t.Errorf("%d groups, %s", len(got.Groups), got.Waits)
	}
	s.NodeAttachments = nil
	spec := onNodes("node-c")
	spec.TargetGroup.Tags = map[string]string{"a": "b"}
	s.attachment("web", spec)
	d = plan(t, s)
	if got := d.of("web").Status; len(got.Groups) != mostGroups || strings.Count(d.calls(), "in i-c") != mostGroups || !strings.Contains(d.blocked("web"), "web-100") {
		t.Errorf("%d groups, %s", len(got.Groups), d.blocked("web"))
	}
	// Nor is anything taken out there by one whose groups are all its own, with targets or without.
	for _, selected := range []string{"node-c", "none"} {
		spec := onNodes(selected)
		spec.TargetGroup.Tags, spec.Ownership = map[string]string{"a": "b"}, v1alpha1.OwnGroup
		s.Attachments = nil
		s.attachment("web", spec)
		d = plan(t, s)
		if got := d.of("web").Status; len(got.Groups) != mostGroups || strings.Count(d.calls(), "out i-a") != mostGroups {
			t.Errorf("of %s: %d groups, and %d calls", selected, len(got.Groups), strings.Count(d.calls(), "out i-a"))
		}
	}
}

// TestGroupsThatAreGoneAreForgotten makes room for others: by who sees that they are not there any
// more, and not by who sees no group of their owner.
func TestGroupsThatAreGoneAreForgotten(t *testing.T) {
	const ours = "arn:aws:elasticloadbalancing:eu-west-1:111111111111:targetgroup/"
	for name, c := range map[string]struct {
		id, role string
		missing  bool
		kept     bool
	}{
		"gone":               {ours + "old/1", "", true, false},
		"not asked for":      {ours + "old/1", "", false, true},
		"there":              {ours + "web/2", "", true, true},
		"of another account": {"arn:aws:elasticloadbalancing:eu-west-1:222222222222:targetgroup/old/1", "", true, true},
		"of another region":  {"arn:aws:elasticloadbalancing:us-east-1:111111111111:targetgroup/old/1", "", true, true},
		"classic":            {"old", "", true, true},
		"as another role":    {ours + "old/1", roleA.ARN, true, true},
	} {
		g := webGroup(Instance)
		g.ID = ours + "web/2"
		s := fleetOf(g, at80("i-a"))
		s.Accounts[0].Missing = map[string]bool{c.id: c.missing}
		record := in80("i-a:80")
		if record.ID = c.id; c.role != "" {
			record.AssumeRole = &v1alpha1.AssumeRole{ARN: c.role}
		}
		s.attachment("web", onNodes("node-a"), record)
		d := plan(t, s)
		kept := slices.ContainsFunc(d.of("web").Status.Groups, func(g v1alpha1.AttachedGroup) bool { return g.ID == c.id })
		if kept != c.kept {
			t.Errorf("%s: kept %t", name, kept)
		}
	}
}

// TestCallsWaitForWhatTheyNeed makes no call about a target whose record, finalizer or hook
// is not written, and all others.
func TestCallsWaitForWhatTheyNeed(t *testing.T) {
	s := fleetOf(webGroup(IP), at80("10.0.0.3", "10.0.0.4", "10.0.0.5"))
	one := s.attachment("one", onPods(IP), in80("10.0.0.3:80"))
	one.Pods = []*corev1.Pod{podOf("a", "10.0.0.1")}
	two := s.attachment("two", onPods(IP), in80("10.0.0.2:80"))
	two.Pods = []*corev1.Pod{hookedPod("b", "10.0.0.2", false)}
	shared := s.attachment("shared", onPods(IP))
	shared.Pods = []*corev1.Pod{two.Pods[0]}
	free := s.attachment("free", onPods(IP), in80("10.0.0.6:80"))
	free.Pods = []*corev1.Pod{podOf("c", "10.0.0.6")}
	d := plan(t, s)
	if len(d.Hooks) != 1 {
		t.Fatalf("%+v", d.Hooks)
	}
	pod := Ref{KindPod, "ns", "b", "b"}
	for name, c := range map[string]struct {
		unwritten Ref
		calls     string
	}{
		"all is written":                {Ref{}, "out 10.0.0.3:80, in 10.0.0.1:80, in 10.0.0.2:80, in 10.0.0.6:80"},
		"a record":                      {one.Ref(), "in 10.0.0.2:80, in 10.0.0.6:80"},
		"a hook":                        {pod, "out 10.0.0.3:80, in 10.0.0.1:80, in 10.0.0.6:80"},
		"nothing that changes a record": {free.Ref(), "out 10.0.0.3:80, in 10.0.0.1:80, in 10.0.0.2:80, in 10.0.0.6:80"},
	} {
		after := d.Groups[0].After(func(ref Ref) bool { return ref != c.unwritten })
		if got := (result{Decision{Groups: []GroupPlan{{GroupDecision: after}}}, t}).calls(); got != c.calls {
			t.Errorf("%s: %s", name, got)
		}
	}
	// Without its finalizer nothing is called, though all is on record.
	s.Attachments[3].Object.Finalizers = nil
	d = plan(t, s)
	after := d.Groups[0].After(func(ref Ref) bool { return ref != free.Ref() })
	if got := (result{Decision{Groups: []GroupPlan{{GroupDecision: after}}}, t}).calls(); strings.Contains(got, "10.0.0.6") || !d.of("free").AddFinalizer {
		t.Errorf("no finalizer: %s", got)
	}
	// One that goes over to another object, as it stands.
	s = fleetOf(webGroup(Instance), at80("i-b"))
	s.attachment("old", onNodes("node-a"), in80("i-a:80")).Object.DeletionTimestamp = &metav1.Time{Time: noon}
	heir := s.attachment("heir", onNodes("node-a")).Ref()
	d = plan(t, s)
	if got := d.Groups[0].After(func(ref Ref) bool { return ref != heir }); d.calls() != "in i-a:80" || len(got.Register) > 0 {
		t.Errorf("%s; where it does not stand with the other one, %v", d.calls(), got.Register)
	}
	// The record of a node.
	s = fleetOf(webGroup(Instance), at80("i-a", "i-b", "i-c"))
	a := s.detachment("node-a", "i-a", v1alpha1.WantDetached)
	d = plan(t, s)
	if got := d.Groups[0].After(func(ref Ref) bool { return ref != RefOf(a) }); len(got.Deregister) > 0 {
		t.Errorf("an Attachment is not written, and %v is taken out", got.Deregister)
	}
}

// TestReleaseWaits holds the finalizer until what was registered is out and its traffic has
// stopped.
func TestReleaseWaits(t *testing.T) {
	s := fleetOf(webGroup(Instance), at80("i-a", "i-b"))
	s.attachment("web", onNodes("node-a"), in80("i-a:80")).Object.DeletionTimestamp = &metav1.Time{Time: noon}
	d := plan(t, s)
	if d.of("web").Release || d.calls() != "out i-a:80" {
		t.Errorf("%s, %+v", d.calls(), d.of("web"))
	}
	s = d.apply(s).later(time.Second, at80("i-b"), Target{"i-a", 80})
	if d = plan(t, s); d.of("web").Release {
		t.Error("it is let go when its target is out")
	}
	s = d.apply(s).later(59*time.Second, at80("i-b"), Target{"i-a", 80})
	if d = plan(t, s); d.of("web").Release {
		t.Error("it is let go before the floor")
	}
	s = d.apply(s).later(3*time.Second, at80("i-b"), Target{"i-a", 80})
	if d = plan(t, s); !d.of("web").Release {
		t.Errorf("it is held: %+v", d.Groups[0].Reports)
	}
}

// TestWhatHoldsAFinalizerIsSaid names what stands in the way of the end of one that is deleted, and
// counts what is left.
func TestWhatHoldsAFinalizerIsSaid(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*State, *v1alpha1.TargetGroupAttachment)
		says   string
	}{
		"nothing": {func(*State, *v1alpha1.TargetGroupAttachment) {}, ""},
		"a role": {func(s *State, o *v1alpha1.TargetGroupAttachment) {
			o.Status.Groups = append(o.Status.Groups, v1alpha1.AttachedGroup{ID: "arn:far", AssumeRole: &roleA, Targets: []string{"i-a:80"}})
			s.Accounts = append(s.Accounts, Account{Role: roleA, Failure: "denied"})
		}, "as role " + roleA.ARN + ": denied"},
		"a record": {func(_ *State, o *v1alpha1.TargetGroupAttachment) {
			o.Status.Groups[0].Targets = append(o.Status.Groups[0].Targets, "?")
		}, "unreadable record"},
		"a group": {func(s *State, _ *v1alpha1.TargetGroupAttachment) { s.group().Failing = "not authorized" }, "web: not authorized"},
		"a refusal": {func(s *State, _ *v1alpha1.TargetGroupAttachment) {
			s.group().Refused = []Refusal{{Target: Target{"i-a", 80}, Why: "no", At: noon, Times: 1}}
		}, "i-a: the cloud refused it: no"},
		"no condition": {func(_ *State, o *v1alpha1.TargetGroupAttachment) { o.Status.Conditions = nil }, ""},
	} {
		s := fleetOf(webGroup(Instance), at80("i-a", "i-b"))
		o := s.attachment("web", onNodes("node-a"), in80("i-a:80")).Object
		o.DeletionTimestamp = &metav1.Time{Time: noon}
		o.Status.Targets, o.Status.Conditions = 1, []metav1.Condition{{Type: v1alpha1.ConditionBlocked, Status: metav1.ConditionFalse}}
		c.change(&s, o)
		before := o.DeepCopy()
		d := plan(t, s)
		if got := d.blocked("web"); !strings.Contains(got, c.says) || (got == "") != (c.says == "") || d.of("web").Release || len(d.of("web").Events) > 0 != (c.says != "") {
			t.Errorf("%s: %q, %v", name, got, d.of("web").Events)
		}
		if got := d.of("web").Status; name == "nothing" && (got.Targets != 0 || got.Leaving != 1) {
			t.Errorf("%d targets, and %d leave", got.Targets, got.Leaving)
		}
		if diff := cmp.Diff(before, o); diff != "" {
			t.Errorf("%s: what was read is written to: %s", name, diff)
		}
	}
}

func TestRecordsSurviveTheObject(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var records []Record
		ids := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"10.0.0.1", "fd00::1", "i-0abc", "10.0.0.2"}), 0, 4, rapid.ID).Draw(t, "ids")
		slices.Sort(ids)
		for _, id := range ids {
			r := Record{Owner: "owner", Leaving: rapid.Bool().Draw(t, "leaving")}
			r.ID, r.Port = id, rapid.Int32Range(1, 65535).Draw(t, "port")
			r.Zone = rapid.SampledFrom([]string{"", "all", "eu-west-1a"}).Draw(t, "zone")
			if r.Leaving {
				r.Settled = rapid.Bool().Draw(t, "settled")
			}
			if r.Leaving && rapid.Bool().Draw(t, "left") {
				r.LeftAt = noon.Add(time.Duration(rapid.IntRange(0, 1000).Draw(t, "left")) * time.Second)
				if rapid.Bool().Draw(t, "quiet") {
					r.QuietAt = r.LeftAt.Add(time.Minute)
				}
			}
			records = append(records, r)
		}
		g, _ := attachedGroup(webGroup(IP), ourselves, records, nil)
		got, err := recordsOf(g, "owner")
		if err != nil {
			t.Fatal(err)
		}
		slices.SortFunc(got, func(a, b Record) int { return strings.Compare(a.ID, b.ID) })
		if diff := cmp.Diff(records, got); diff != "" {
			t.Fatal(diff)
		}
	})
}

// TestWhatIsNotKnownYetStays takes nothing out for being missing while another leader may have
// seen more pods and nodes, asks for all to be known, and says of no node that it is out while
// what was registered may be on it. What somebody asks to be out goes all the same.
func TestWhatIsNotKnownYetStays(t *testing.T) {
	const missing = "the pods of targets that another leader registered are being read"
	for behind, want := range map[bool]struct {
		calls, waits string
	}{true: {"", missing}, false: {"out 10.0.0.9:80", ""}} {
		s := fleetOf(webGroup(IP), at80("10.0.0.1", "10.0.0.9"))
		a := s.attachment("web", onPods(IP), in80("10.0.0.1:80", "10.0.0.9:80"))
		a.Behind, a.Pods = behind, []*corev1.Pod{podOf("a", "10.0.0.1")}
		s.detachment("node-b", "i-b", v1alpha1.WantDetached)
		d := plan(t, s)
		if d.calls() != want.calls || d.of("web").CatchUp != behind || d.node("node-b").Waits != want.waits || d.node("node-b").Done == behind {
			t.Errorf("behind %t: %q, catches up %t, %+v", behind, d.calls(), d.of("web").CatchUp, d.node("node-b"))
		}
		// Nothing is missing.
		s.Attachments[0].Object.Status.Groups = []v1alpha1.AttachedGroup{in80("10.0.0.1:80")}
		if d := plan(t, s); d.of("web").CatchUp || !d.node("node-b").Done {
			t.Errorf("behind %t, and nothing is missing: catches up %t, %+v", behind, d.of("web").CatchUp, d.node("node-b"))
		}
		// It is deleted: what it has on record goes, whosever that is.
		s.Attachments[0].Object.Status.Groups = []v1alpha1.AttachedGroup{in80("10.0.0.1:80", "10.0.0.9:80")}
		s.Attachments[0].Object.DeletionTimestamp = &metav1.Time{Time: noon}
		if got := plan(t, s).calls(); !strings.Contains(got, "out 10.0.0.9:80") {
			t.Errorf("behind %t, deleted: %q", behind, got)
		}
	}
}

// TestARemovalThatWasOnlyWrittenIsNotGoneThroughWith leaves in what another leader was about to
// take out, while a Node may be that machine and does not say so yet; what has left stays out.
func TestARemovalThatWasOnlyWrittenIsNotGoneThroughWith(t *testing.T) {
	for name, c := range map[string]struct {
		registered map[Target]Health
		at         time.Time
		named      bool
		out        bool
	}{
		"only written":        {at80("i-a", "i-b", "i-c"), time.Time{}, false, false},
		"every Node is known": {at80("i-a", "i-b", "i-c"), time.Time{}, true, true},
		"it has left":         {at80("i-b", "i-c"), noon.Add(-time.Second), false, false},
	} {
		s := fleetOf(webGroup(Instance), c.registered)
		s.Nodes[0].Spec.ProviderID = ""
		if c.named {
			s.Nodes[0].Spec.ProviderID = "aws:///z1/i-another"
		}
		s.attachment("web", onNodes(), leaving80(c.at, "i-a:80"))
		calls := plan(t, s).calls()
		if strings.Contains(calls, "out i-a:80") != c.out || !c.at.IsZero() && strings.Contains(calls, "i-a:80") {
			t.Errorf("%s: %s", name, calls)
		}
	}
}

// TestADrainHookMayHaveBeenLetGo registers no pod by a hook that is seen to hold it, while what
// is seen may be of before another leader let go of that.
func TestADrainHookMayHaveBeenLetGo(t *testing.T) {
	for behind, want := range map[bool]string{true: "in 10.0.0.2:80, in 10.0.0.3:80", false: "in 10.0.0.1:80, in 10.0.0.2:80, in 10.0.0.3:80"} {
		s := fleetOf(webGroup(IP), at80())
		a := s.attachment("web", onPods(IP))
		a.Behind, a.Pods = behind, []*corev1.Pod{hookedPod("a", "10.0.0.1", false), hookedPod("b", "10.0.0.2", false), podOf("c", "10.0.0.3")}
		a.Pods[0].Annotations = map[string]string{v1alpha1.AnnotationTargets: v1alpha1.TargetsIn}
		if d := plan(t, s); d.calls() != want || d.of("web").CatchUp != behind || len(d.Hooks) != 1 {
			t.Errorf("behind %t: %s, catches up %t, %d hooks", behind, d.calls(), d.of("web").CatchUp, len(d.Hooks))
		}
	}
}

// TestListsAreAskedForWhereSomethingWaits: a record that is to be forgotten waits for complete
// lists as a removal does, and so does one of what somebody else registered since.
func TestListsAreAskedForWhereSomethingWaits(t *testing.T) {
	long := leaving80(noon.Add(-10*time.Minute), "10.0.0.9:80")
	settled := leaving80(noon.Add(-10*time.Minute), "10.0.0.9:80")
	settled.Leaving[0].Settled = true
	for name, c := range map[string]struct {
		registered map[Target]Health
		record     v1alpha1.AttachedGroup
	}{
		"gone for long":        {at80("10.0.0.1"), long},
		"registered by others": {at80("10.0.0.1", "10.0.0.9"), settled},
		"to be taken out":      {at80("10.0.0.1", "10.0.0.9"), in80("10.0.0.9:80")},
	} {
		s := fleetOf(webGroup(IP), c.registered)
		s.group().ReadAt = noon
		a := s.attachment("web", onPods(IP), c.record)
		a.Behind, a.Pods = true, []*corev1.Pod{podOf("a", "10.0.0.1")}
		// It is known where the address is, and nobody selects that.
		s.Bystanders = []*corev1.Pod{podOf("b", "10.0.0.9")}
		left := noon.Add(-10 * time.Minute)
		s.Memory.Groups[GroupKey{ID: "arn:web"}] = GroupMemory{Sightings: map[Target]Sighting{{"10.0.0.9", 80}: {LeftAt: left, Left: left}}}
		d := plan(t, s)
		if !d.of("web").CatchUp || len(d.of("web").Status.Groups) != 1 || len(d.of("web").Status.Groups[0].Leaving) != len(c.record.Leaving) {
			t.Errorf("%s: catches up %t, %+v", name, d.of("web").CatchUp, d.of("web").Status.Groups)
		}
	}
}
