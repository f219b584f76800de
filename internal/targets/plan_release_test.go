package targets

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"
)

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
		t.Error("it is let go before the settle time has passed")
	}
	s = d.apply(s).later(3*time.Second, at80("i-b"), Target{"i-a", 80})
	if d = plan(t, s); !d.of("web").Release {
		t.Errorf("it is held: %+v", d.Groups[0].Reports)
	}
}

// TestReleaseWaitsForNoHeir: what has left for one that is deleted, and is wanted in by another whose
// status cannot be written, holds the finalizer until its traffic has stopped and no longer. What is
// registered does, and so does what a call of before may have registered.
func TestReleaseWaitsForNoHeir(t *testing.T) {
	for name, c := range map[string]struct {
		balancer Balancer
		found    map[Target]Health
		answers  map[Target]Answer
		after    time.Duration
		released bool
	}{
		"before it has settled":       {Network, at80("i-b"), nil, 59 * time.Second, false},
		"after it":                    {Network, at80("i-b"), nil, time.Minute, true},
		"a classic one drains":        {Classic, at80("i-b"), nil, time.Minute, false},
		"and has drained":             {Classic, at80("i-b"), nil, 2 * time.Minute, true},
		"registered again":            {Network, at80("i-a", "i-b"), nil, time.Minute, false},
		"registered a moment ago":     {Network, at80("i-b"), map[Target]Answer{{"i-a", 80}: {Register: true, At: noon.Add(time.Minute)}}, time.Minute, false},
		"as it is seen for the first": {Network, at80("i-b"), nil, 0, false},
	} {
		g := webGroup(Instance)
		g.Balancer, g.Delay = c.balancer, 2*time.Minute
		s := fleetOf(g, at80("i-b"))
		record := leaving80(noon.Add(-time.Hour), "i-a:80")
		record.Balancer = string(c.balancer)
		s.attachment("web", onNodes("node-a"), record).Object.DeletionTimestamp = &metav1.Time{Time: noon}
		s.attachment("heir", onNodes("node-a"))
		d := plan(t, s)
		s.Memory = d.Memory
		s = s.later(c.after, c.found)
		s.Accounts[0].Groups[0].Answers = c.answers
		if d = plan(t, s); d.of("web").Release != c.released {
			t.Errorf("%s: released is %t: %+v", name, d.of("web").Release, d.Groups[0].Reports)
		}
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
