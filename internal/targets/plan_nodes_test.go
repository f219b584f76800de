package targets

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestWhatANodeHasIsRememberedFirst takes a node out that somebody else registered:
// what is written before the call names all that it has, and what was not healthy.
func TestWhatANodeHasIsRememberedFirst(t *testing.T) {
	registered := at80("i-a", "i-b", "i-c")
	registered[Target{"i-a", 81}] = Health{Condition: Unhealthy}
	s := fleetOf(webGroup(Instance), registered)
	s.detachment("node-a", "i-a", v1alpha1.WantDetached)
	d := plan(t, s)
	want := []v1alpha1.AttachedGroup{{
		ID: "arn:web", Balancer: "network", Unhealthy: []string{"i-a:81"}, Leaving: []v1alpha1.LeavingTarget{{Target: "i-a:80"}, {Target: "i-a:81"}},
	}}
	if diff := cmp.Diff(want, d.node("node-a").Groups); diff != "" {
		t.Error(diff)
	}
	if d.calls() != "out i-a:80, out i-a:81" {
		t.Error(d.calls())
	}
	if got := d.node("node-a"); got.Done || got.ObservedGeneration != 3 || !strings.Contains(got.Waits, "i-a") {
		t.Errorf("%+v", got)
	}
}

// TestEveryGroupIsReadBeforeANodeIsKnown does not answer from what was read before
// the Attachment asked, be it a group or the list of groups.
func TestEveryGroupIsReadBeforeANodeIsKnown(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*State)
		waits  string
	}{
		"all was read":       {func(*State) {}, ""},
		"an old inventory":   {func(s *State) { s.group().ReadAt = asOf.Add(-1) }, "target group web is being read"},
		"an old list":        {func(s *State) { s.Accounts[0].ListedAt = asOf.Add(-1) }, "the target groups are being read"},
		"no list":            {func(s *State) { s.Accounts[0].ListedAt = time.Time{} }, "the target groups are being read"},
		"a list that failed": {func(s *State) { s.Accounts[0] = Account{Failure: "denied"} }, "denied"},
		"no account":         {func(s *State) { s.Accounts = nil }, "the target groups are being read"},
		"no bindings":        {func(s *State) { s.Bindings = Bindings{} }, "the TargetGroupBindings are being read"},
		"bindings fail":      {func(s *State) { s.Bindings = Bindings{Failure: "forbidden"} }, "forbidden"},
	} {
		s := fleetOf(webGroup(Instance), at80("i-b"))
		s.detachment("node-a", "i-a", v1alpha1.WantDetached)
		c.change(&s)
		d := plan(t, s)
		got := d.node("node-a")
		if got.Done != (c.waits == "") || got.Waits != c.waits || (got.ObservedGeneration == 3) != got.Done {
			t.Errorf("%s: %+v", name, got)
		}
		if name == "an old inventory" && !d.Accounts[0].Sweep.Since.Equal(asOf) {
			t.Errorf("it is looked through since %s", d.Accounts[0].Sweep.Since)
		}
		if name == "an old list" && !d.Accounts[0].List {
			t.Error("no newer list is asked for")
		}
	}
}

// TestANodeIsOutWhenEveryAccountIsRead waits for each role that a TargetGroupAttachment
// names, since a node may be registered there; and says which.
func TestANodeIsOutWhenEveryAccountIsRead(t *testing.T) {
	spec := onNodes()
	spec.AssumeRole, spec.TargetGroup.Name = &roleA, "other"
	for name, c := range map[string]struct {
		account Account
		waits   string
	}{
		"it is not connected":  {Account{Role: roleB}, "the target groups are being read"},
		"it cannot be listed":  {Account{Role: roleA, Failure: "denied"}, "as role " + roleA.ARN + ": denied"},
		"its list is old":      {Account{Role: roleA, ListedAt: asOf.Add(-1)}, "the target groups are being read"},
		"its group is unread":  {Account{Role: roleA, ListedAt: asOf, Groups: []KnownGroup{{Group: Group{ID: "arn:other", Name: "other", Type: Instance, Port: 80}}}}, "target group other is being read"},
		"its list fails since": {Account{Role: roleA, ListedAt: asOf.Add(-1), Failure: "denied"}, "denied"},
		"all is read":          {Account{Role: roleA, ListedAt: asOf}, ""},
	} {
		s := fleetOf(webGroup(Instance), at80("i-b"))
		s.attachment("other", spec)
		s.detachment("node-a", "i-a", v1alpha1.WantDetached)
		s.Accounts = append(s.Accounts, c.account)
		if got := plan(t, s).node("node-a"); got.Done != (c.waits == "") || !strings.Contains(got.Waits, c.waits) {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// TestAnswersStandWhileALeaderReads keeps what was answered about what is still wanted while
// nothing else is known, and takes no answer to what was wanted before for one to this.
func TestAnswersStandWhileALeaderReads(t *testing.T) {
	for generation, done := range map[int64]bool{3: true, 2: false} {
		s := fleetOf(webGroup(Instance), at80("i-b"))
		a := s.detachment("node-a", "i-a", v1alpha1.WantDetached)
		a.Status.Done, a.Status.ObservedGeneration, a.Status.Evidence = true, generation, "FloorPassed"
		s.Memory = Memory{}
		got := plan(t, s).node("node-a")
		if got.Done != done || got.ObservedGeneration != generation || (got.Evidence != "") != done {
			t.Errorf("answered for %d: %+v", generation, got)
		}
	}
}

// TestAnAnswerFallsByWhatIsFound takes back that a node is out where a read found it registered,
// though another role's groups are not known.
func TestAnAnswerFallsByWhatIsFound(t *testing.T) {
	for name, registered := range map[string]map[Target]Health{"out": at80("i-b"), "registered once more": at80("i-a", "i-b")} {
		s := fleetOf(webGroup(Instance), registered)
		a := s.detachment("node-a", "i-a", v1alpha1.WantDetached)
		a.Status.Done, a.Status.ObservedGeneration = true, 3
		other := onNodes()
		other.AssumeRole, other.TargetGroup.Name = &roleA, "other"
		s.attachment("other", other)
		s.Accounts = append(s.Accounts, Account{Role: roleA, Failure: "denied"})
		got := plan(t, s).node("node-a")
		if out := name == "out"; got.Done != out || strings.HasPrefix(got.Waits, "i-a: ") == out {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// TestWhatLeavesKeepsItsNode does not say that a node is out while something leaves it,
// whoever asked for that, from the pass on that only queues the call.
func TestWhatLeavesKeepsItsNode(t *testing.T) {
	two := webGroup(Instance)
	two.ID, two.Name = "arn:two", "two"
	record := in80("i-a:80")
	port := onNodes()
	port.Port = intstrOf(81)
	retargeted := onNodes()
	retargeted.TargetGroup.Name = "two"
	for name, spec := range map[string]v1alpha1.TargetGroupAttachmentSpec{
		"deselected": onNodes("node-b"), "deleted": onNodes(), "another group": retargeted, "another port": port,
	} {
		registered := at80("i-a", "i-b", "i-c")
		s := fleetOf(webGroup(Instance), registered)
		s.Accounts[0].Groups = append(s.Accounts[0].Groups, KnownGroup{Group: two, ReadAt: asOf, Live: true, Registered: map[Target]Health{}})
		a := s.attachment("web", spec, record)
		if name == "deleted" {
			a.Object.DeletionTimestamp = &metav1.Time{Time: noon}
		}
		s.detachment("node-a", "i-a", v1alpha1.WantDetached)
		d := plan(t, s)
		if !strings.Contains(d.calls(), "out i-a:80") || d.node("node-a").Done {
			t.Errorf("%s: %s, %+v", name, d.calls(), d.node("node-a"))
		}
		// It is seen out, and its load balancer goes on for a minute.
		s = d.apply(s).later(time.Second, at80("i-b", "i-c"), Target{"i-a", 80})
		d = plan(t, s)
		if d.node("node-a").Done || d.of("web").Release {
			t.Errorf("%s, seen out: %+v", name, d.node("node-a"))
		}
		s = d.apply(s).later(62*time.Second, at80("i-b", "i-c"), Target{"i-a", 80})
		if d = plan(t, s); !d.node("node-a").Done {
			t.Errorf("%s, after the settle time: %+v", name, d.node("node-a"))
		}
	}
}

// TestWhatOthersTakeOutKeepsItsNode waits for the settle time of what is seen to drain, though somebody
// else took it out, such as another controller that heeds the label of a node which goes away.
func TestWhatOthersTakeOutKeepsItsNode(t *testing.T) {
	registered := at80("i-b")
	registered[Target{"i-a", 80}] = Health{Condition: Draining, Reason: DeregistrationInProgress}
	s := fleetOf(webGroup(Instance), registered)
	s.detachment("node-a", "i-a", v1alpha1.WantDetached)
	d := plan(t, s)
	for _, after := range []time.Duration{time.Second, 57 * time.Second} {
		if got := d.node("node-a"); got.Done || !strings.HasPrefix(got.Waits, "i-a: ") || len(got.Groups) > 0 || d.calls() != "" {
			t.Errorf("%s, %+v", d.calls(), got)
		}
		s = d.apply(s).later(after, at80("i-b"))
		d = plan(t, s)
	}
	if got := d.node("node-a"); got.Done {
		t.Errorf("a second before its settle time has passed: %+v", got)
	}
	s = d.apply(s).later(2*time.Second, at80("i-b"))
	if d = plan(t, s); !d.node("node-a").Done || len(d.Memory.Groups[GroupKey{ID: "arn:web"}].Sightings) > 0 {
		t.Errorf("after its settle time: %+v, %+v", d.node("node-a"), d.Memory)
	}
}

// TestWhatWasOnRecordIsOver takes what left by us, and is on no record any more, for nobody's else: a
// status of before may have been seen once more.
func TestWhatWasOnRecordIsOver(t *testing.T) {
	s := fleetOf(webGroup(Instance), at80("i-b"))
	s.Memory.Groups[GroupKey{ID: "arn:web"}] = GroupMemory{Sightings: map[Target]Sighting{{"i-a", 80}: {LeftAt: noon.Add(-time.Hour), Left: noon}}}
	s.detachment("node-a", "i-a", v1alpha1.WantDetached)
	if d := plan(t, s); !d.node("node-a").Done {
		t.Errorf("%+v", d.node("node-a"))
	}
	spec := onPods(Instance)
	pod := hookedPod("a", "", true)
	pod.Annotations = map[string]string{v1alpha1.AnnotationTargets: v1alpha1.TargetsIn}
	pod.Spec.HostNetwork = true
	s.attachment("web", spec).Pods = []*corev1.Pod{pod}
	if d := plan(t, s); len(d.hooks()) != 1 || d.hooks()["a"] {
		t.Errorf("%v", d.hooks())
	}
}

// TestWhatOthersRegisterOnceMoreKeepsItsNode does not take a node for out in the pass that drops the
// record of what left it, and was registered by somebody else since.
func TestWhatOthersRegisterOnceMoreKeepsItsNode(t *testing.T) {
	s := fleetOf(webGroup(Instance), at80("i-a", "i-b"))
	record := leaving80(noon.Add(-time.Minute), "i-a:80")
	record.Leaving[0].Settled = true
	s.attachment("web", onNodes("node-b"), record)
	s.detachment("node-a", "i-a", v1alpha1.WantDetached)
	// What was read before it was known to have left says nothing.
	if d := plan(t, s); d.node("node-a").Done || len(d.of("web").Status.Groups[0].Leaving) != 1 {
		t.Errorf("%+v, %+v", d.node("node-a"), d.of("web").Status.Groups)
	}
	s.Memory.Groups[GroupKey{ID: "arn:web"}] = GroupMemory{Sightings: map[Target]Sighting{{"i-a", 80}: {LeftAt: record.Leaving[0].LeftAt.Time, Left: asOf}}}
	d := plan(t, s)
	if got := d.node("node-a"); got.Done || len(d.of("web").Status.Groups[0].Leaving) > 0 {
		t.Errorf("%+v, %+v", got, d.of("web").Status.Groups)
	}
	if d = plan(t, d.apply(s)); d.calls() != "out i-a:80" || d.node("node-a").Done {
		t.Errorf("%s, %+v", d.calls(), d.node("node-a"))
	}
}

// TestAClassicLoadBalancerDrainsUnseen waits for as long as one drains what it does not list any
// more, whoever asked for that.
func TestAClassicLoadBalancerDrainsUnseen(t *testing.T) {
	g := webGroup(Instance)
	g.ID, g.Name, g.Balancer, g.Delay = "web", "web", Classic, 5*time.Minute
	spec := onNodes("node-b")
	spec.TargetGroup.Tags = g.Tags
	record := in80("i-a:80")
	record.ID, record.Balancer = "web", "classic"
	for _, selected := range []bool{false, true} {
		s := fleetOf(g, at80("i-a", "i-b"))
		if selected {
			s.attachment("web", spec, record)
		}
		s.detachment("node-a", "i-a", v1alpha1.WantDetached)
		d := plan(t, s)
		s = d.apply(s).later(time.Second, at80("i-b"), Target{"i-a", 80})
		d = plan(t, s)
		s = d.apply(s).later(4*time.Minute, at80("i-b"), Target{"i-a", 80})
		if d = plan(t, s); d.node("node-a").Done {
			t.Errorf("it drains, selected %t: %+v", selected, d.Groups)
		}
		s = d.apply(s).later(62*time.Second, at80("i-b"), Target{"i-a", 80})
		if d = plan(t, s); !d.node("node-a").Done {
			t.Errorf("it has drained, selected %t: %+v", selected, d.node("node-a"))
		}
	}
}

// TestAddressesThatLeaveKeepTheirNode knows by pods of anybody where an address is that
// nobody selects any more.
func TestAddressesThatLeaveKeepTheirNode(t *testing.T) {
	s := fleetOf(webGroup(IP), at80("10.0.0.1", "10.0.0.2"))
	s.attachment("web", onPods(IP), in80("10.0.0.1:80"))
	s.Bystanders = []*corev1.Pod{podOf("a", "10.0.0.1")}
	s.detachment("node-a", "i-a", v1alpha1.WantDetached)
	s.detachment("node-b", "i-b", v1alpha1.WantDetached)
	d := plan(t, s)
	if d.node("node-a").Done || !d.node("node-b").Done {
		t.Errorf("%+v, %+v", d.node("node-a"), d.node("node-b"))
	}
	s.Bystanders[0].Status.Phase = corev1.PodFailed
	if !plan(t, s).node("node-a").Done {
		t.Error("a pod that has ended has an address")
	}
}

// TestTwoNodesWithOneAddress keeps both while traffic may come to it, and takes the word of
// neither's health checker for it.
func TestTwoNodesWithOneAddress(t *testing.T) {
	s := fleetOf(webGroup(IP), at80("10.9.0.1", "10.9.0.2"))
	for _, n := range s.Nodes[:2] {
		n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.9.0.1"}}
	}
	s.attachment("web", onPods(IP), leaving80(time.Time{}, "10.9.0.1:80"))
	s.detachment("node-a", "i-a", v1alpha1.WantDetached)
	s.detachment("node-b", "i-b", v1alpha1.WantDetached)
	s.Quiet = map[string]map[int32]Quiet{"node-a": {80: {Came: noon, From: noon, To: noon.Add(time.Minute)}}}
	d := plan(t, s)
	if d.node("node-a").Done || d.node("node-b").Done || len(d.Ask) > 0 {
		t.Errorf("%+v, %+v, asks %v", d.node("node-a"), d.node("node-b"), d.Ask)
	}
}

// TestPuttingBackWaitsForWhatWasHealthy does not wait for what was not.
func TestPuttingBackWaitsForWhatWasHealthy(t *testing.T) {
	record := v1alpha1.AttachedGroup{ID: "arn:web", Unhealthy: []string{"i-a:81"}, Targets: []string{"i-a:80", "i-a:81"}}
	for name, c := range map[string]struct {
		one, other Condition
		done       bool
	}{
		"both healthy":        {Healthy, Healthy, true},
		"one is still sick":   {Healthy, Unhealthy, true},
		"one turned sick":     {Unhealthy, Healthy, false},
		"one is being tested": {Initial, Unhealthy, false},
	} {
		s := fleetOf(webGroup(Instance), map[Target]Health{{"i-a", 80}: {Condition: c.one}, {"i-a", 81}: {Condition: c.other}})
		s.detachment("node-a", "i-a", v1alpha1.WantAttached, record)
		if got := plan(t, s).node("node-a"); got.Done != c.done {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// TestASickTargetOfOthersIsNotWaitedFor remembers of a TargetGroupAttachment's target that
// it was not healthy when its node was taken out.
func TestASickTargetOfOthersIsNotWaitedFor(t *testing.T) {
	registered := at80("i-b", "i-c")
	registered[Target{"i-a", 80}] = Health{Condition: Unhealthy}
	s := fleetOf(webGroup(Instance), registered)
	s.attachment("web", onNodes(), in80("i-a:80", "i-b:80", "i-c:80"))
	a := s.detachment("node-a", "i-a", v1alpha1.WantDetached)
	d := plan(t, s)
	if got := d.node("node-a").Groups; len(got) != 1 || len(got[0].Unhealthy) != 1 || len(got[0].Targets)+len(got[0].Leaving) > 0 {
		t.Fatalf("%+v", got)
	}
	s = d.apply(s)
	*a = *s.NodeAttachments[0]
	a.Spec.Wanted = v1alpha1.WantAttached
	s.NodeAttachments[0] = a
	s.Attachments[0].Object.Status.Groups = []v1alpha1.AttachedGroup{in80("i-a:80", "i-b:80", "i-c:80")}
	if got := plan(t, s).node("node-a"); !got.Done {
		t.Errorf("%+v", got)
	}
}

// TestADetachedNodeIsTheAttachmentsToMove leaves the record of a target where it stands
// when a TargetGroupAttachment and an Attachment speak of the same one.
func TestADetachedNodeIsTheAttachmentsToMove(t *testing.T) {
	s := fleetOf(webGroup(Instance), at80("i-a", "i-b"))
	s.attachment("web", onNodes("node-a"), in80("i-a:80"))
	s.detachment("node-a", "i-a", v1alpha1.WantDetached)
	d := plan(t, s)
	groups := d.of("web").Status.Groups
	if d.calls() != "out i-a:80" || len(d.node("node-a").Groups) != 0 || len(groups) != 1 || len(groups[0].Leaving) != 1 {
		t.Errorf("%s: %+v, %+v", d.calls(), groups, d.node("node-a").Groups)
	}
	if d.node("node-a").Done {
		t.Error("the node is out while its target leaves")
	}
}

// TestANodeReturnsWithoutWhatWasNeverTakenOut waits for no target that is not registered, and
// of which nobody knows whether it is to be; but for every record that cannot be read.
func TestANodeReturnsWithoutWhatWasNeverTakenOut(t *testing.T) {
	s := fleetOf(webGroup(Instance), at80("i-b"))
	a := setOf(Instance, map[string]string{"a": "one"}, map[string]int32{"one": 80})
	a.Set = nil
	s.with(a)
	n := s.detachment("node-a", "i-a", v1alpha1.WantAttached)
	if got := plan(t, s).node("node-a"); !got.Done {
		t.Errorf("%+v", got)
	}
	n.Status.Groups = []v1alpha1.AttachedGroup{in80("what is this")}
	if got := plan(t, s).node("node-a"); got.Done || !strings.Contains(got.Waits, "unreadable record") {
		t.Errorf("%+v", got)
	}
}

// TestAnotherMachineOfANodesName is not put back for the one that was taken out, and does not
// wait for that.
func TestAnotherMachineOfANodesName(t *testing.T) {
	s := fleetOf(webGroup(Instance), at80("i-b", "i-c"))
	s.detachment("node-a", "i-a", v1alpha1.WantAttached, leaving80(noon.Add(-time.Second), "i-old:80"))
	if d := plan(t, s); d.calls() != "" || !d.node("node-a").Done {
		t.Errorf("%s, %+v", d.calls(), d.node("node-a"))
	}
}
