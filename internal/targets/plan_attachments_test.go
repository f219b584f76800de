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

// TestSettleTimesThatAreAskedFor goes by what was asked for, also while that is being deleted,
// and by the longest, to which the default belongs where one asks for nothing.
func TestSettleTimesThatAreAskedFor(t *testing.T) {
	seconds := func(n int32) *int32 { return &n }
	for name, c := range map[string]struct {
		asked   []*int32
		deleted bool
		want    time.Duration
	}{
		"none":                     {[]*int32{nil}, false, time.Minute},
		"0":                        {[]*int32{seconds(0)}, false, 0},
		"two":                      {[]*int32{seconds(5), seconds(3)}, false, 5 * time.Second},
		"one asks for the default": {[]*int32{seconds(3), nil, seconds(5)}, false, time.Minute},
		"more than the default":    {[]*int32{nil, seconds(90)}, false, 90 * time.Second},
		"deleted":                  {[]*int32{seconds(7)}, true, 7 * time.Second},
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

// TestSettleTimesOfOthers count for their own targets: who may write TargetGroupAttachments could have
// every node that leaves the group wait for an hour.
func TestSettleTimesOfOthers(t *testing.T) {
	for _, asked := range []int32{0, 3600} {
		s := fleetOf(webGroup(Instance), at80("i-a", "i-b"))
		s.attachment("web", onNodes("node-b"), leaving80(noon.Add(-time.Hour), "i-c:80"))
		spec := onNodes("node-a")
		spec.DetachFloorSeconds = &asked
		s.attachment("other", spec, in80("i-a:80"))
		reports := plan(t, s).Groups[0].Reports
		at := slices.IndexFunc(reports, func(r Report) bool { return r.ID == "i-c" })
		if r := reports[at]; r.Phase != Leaving || r.Until.Sub(noon) != time.Minute {
			t.Errorf("others ask for %d s: %s until %s", asked, r.Phase, r.Until)
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
// beside one that is new, and waits for its settle time.
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
			if kind == IP && name == "deleted" {
				// Nothing lives at any of these addresses.
				c.calls += ", out " + owned[2]
			}
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
	for _, name := range []string{"d", "e", "f", "g"} {
		a.Pods = append(a.Pods, podOf(name, "10.0.0.9"))
	}
	if said := plan(t, s).blocked("web"); !strings.HasPrefix(said, "ns/b has no target: ") || !strings.HasSuffix(said, "; and 2 more") {
		t.Errorf("of five it names the first three, and counts the others: %s", said)
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

// TestNothingIsSelected is said, and so is what stays though nobody selects it any more: a selector that
// was mistyped would read as if all were well.
func TestNothingIsSelected(t *testing.T) {
	for name, c := range map[string]struct {
		selected        string
		records         []string
		reason, message string
	}{
		"nothing":             {"node-x", nil, v1alpha1.ReasonNoTargets, "it selects nothing that should be registered"},
		"what is the last":    {"node-x", []string{"i-a:80"}, v1alpha1.ReasonNoTargets, "it selects nothing that should be registered, and i-a stays: "},
		"one, and that stays": {"node-a", []string{"i-a:80"}, v1alpha1.ReasonTargetsHealthy, "1 targets are healthy"},
	} {
		s := fleetOf(webGroup(Instance), at80("i-a"))
		s.attachment("web", onNodes(c.selected), in80(c.records...))
		d := plan(t, s)
		got := meta.FindStatusCondition(d.of("web").Status.Conditions, v1alpha1.ConditionReady)
		if got.Status != metav1.ConditionTrue || got.Reason != c.reason || !strings.HasPrefix(got.Message, c.message) || len(d.calls()) > 0 {
			t.Errorf("%s: %+v, %s", name, got, d.calls())
		}
	}
}
