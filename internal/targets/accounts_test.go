package targets

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// account is what an account is needed for, as a role.
func (r result) account(role v1alpha1.AssumeRole) AccountPlan {
	r.t.Helper()
	for _, a := range r.Accounts {
		if a.Role == role {
			return a
		}
	}
	r.t.Fatalf("no account is needed as %v", role)
	return AccountPlan{}
}

// swept is an account with groups of instances that were looked through for some.
func swept(s *State, n int, at time.Time, instances ...string) {
	account := &s.Accounts[0]
	account.LooksFor = map[string]time.Time{"i-a": asOf.Add(-time.Hour), "i-b": asOf.Add(-time.Hour)}
	account.LooksPerSecond = 5
	for i := range n {
		g := KnownGroup{Group: Group{ID: fmt.Sprint("arn:", i), Name: fmt.Sprint("g", i), Balancer: Network, Type: Instance, Port: 80, CrossZone: true, InUse: true}, SweptAt: at, Instances: map[string]bool{}}
		for _, id := range instances {
			g.Instances[id] = true
		}
		account.Groups = append(account.Groups, g)
	}
}

// TestNamedGroupsAreReadDirectly: those that are selected by ARN or name, and those on
// record, unless they are known.
func TestNamedGroupsAreReadDirectly(t *testing.T) {
	s := fleetOf(webGroup(Instance), nil)
	for name, selector := range map[string]v1alpha1.TargetGroupSelector{
		"known": {Name: "web"}, "known-arn": {ARN: "arn:web"}, "named": {Name: "new"}, "arn": {ARN: "arn:new"}, "tags": {Tags: map[string]string{"a": "b"}},
	} {
		spec := onNodes()
		spec.TargetGroup = selector
		s.attachment(name, spec)
	}
	spec := onNodes()
	spec.TargetGroup.Name, spec.AssumeRole = "theirs", &roleA
	s.attachment("theirs", spec)
	s.attachment("recorded", onNodes(), v1alpha1.AttachedGroup{ID: "arn:old", Targets: []string{"i-a:80"}}, v1alpha1.AttachedGroup{ID: "arn:b", AssumeRole: &roleB, Targets: []string{"i-a:80"}})
	s.detachment("node-a", "i-a", v1alpha1.WantAttached, v1alpha1.AttachedGroup{ID: "classic", Targets: []string{"i-a:80"}})
	d := plan(t, s)
	for role, want := range map[v1alpha1.AssumeRole][]GroupName{
		ourselves: {{Name: "new"}, {ID: "arn:new"}, {ID: "arn:old"}, {ID: "classic"}}, roleA: {{Name: "theirs"}}, roleB: {{ID: "arn:b"}},
	} {
		if diff := cmp.Diff(want, d.account(role).Named); diff != "" {
			t.Errorf("as %v: %s", role, diff)
		}
	}
	if !d.account(ourselves).Tags || d.account(roleA).Tags {
		t.Errorf("tags are read where nobody selects by them, or not where somebody does: %+v", d.Accounts)
	}
}

// TestWhatIsNamedWaitsForNoList acts in a group that is known before all are listed.
func TestWhatIsNamedWaitsForNoList(t *testing.T) {
	s := fleetOf(webGroup(Instance), at80("i-a", "i-b"))
	s.Accounts[0].ListedAt = time.Time{}
	s.attachment("web", onNodes())
	d := plan(t, s)
	if got := d.apply(s); d.calls() != "in i-c:80" || got.Attachments[0].Object.Status.GroupCount != 1 {
		t.Errorf("%s: %+v", d.calls(), got.Attachments[0].Object.Status)
	}
}

// TestTagsThatAreNotReadChangeNothing: what is in a group stays, hooks are told nothing, and
// the status says what is waited for.
func TestTagsThatAreNotReadChangeNothing(t *testing.T) {
	spec := onPods(Instance)
	spec.TargetGroup.Tags = map[string]string{"a": "b"}
	for _, known := range []bool{true, false} {
		s := fleetOf(webGroup(Instance), at80("i-a", "i-b", "i-c"))
		if !known {
			s.group().Tags = nil
		}
		pod := podOf("a", "")
		withDrainHook(pod)
		pod.Annotations = map[string]string{v1alpha1.AnnotationTargets: v1alpha1.TargetsIn}
		a := s.attachment("web", spec, in80("i-a:80", "i-b:80"))
		a.Pods = []*corev1.Pod{pod}
		d := plan(t, s)
		ready := meta.FindStatusCondition(d.of("web").Status.Conditions, v1alpha1.ConditionReady)
		switch {
		case known && d.calls() != "out i-b:80":
			t.Errorf("with tags: %s", d.calls())
		case !known && (d.calls() != "" || len(d.Hooks) > 0):
			t.Errorf("without: %s, %d hooks", d.calls(), len(d.Hooks))
		case !known && (ready.Reason != v1alpha1.ReasonGroupsUnknown || ready.Message != "the tags of 1 of 1 target groups are being read"):
			t.Errorf("%+v", ready)
		}
	}
}

func withDrainHook(pod *corev1.Pod) {
	pod.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 80, HostPort: 80}}
	pod.Spec.Containers[0].Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{HTTPGet: &corev1.HTTPGetAction{Path: v1alpha1.DrainPath}}}
}

// TestGroupsOfAnotherRegionAreRefused names the region, and asks for nothing.
func TestGroupsOfAnotherRegionAreRefused(t *testing.T) {
	const there = "arn:aws:elasticloadbalancing:us-east-1:123456789012:targetgroup/web/73e2d6bc24d8a067"
	for region, refused := range map[string]bool{"eu-west-1": true, "us-east-1": false, "": false} {
		s := fleetOf(webGroup(Instance), nil)
		s.Accounts[0].Region = region
		spec := onNodes()
		spec.TargetGroup.ARN = there
		s.attachment("web", spec)
		d := plan(t, s)
		if blocked := d.blocked("web"); strings.Contains(blocked, "is in region us-east-1, and this controller looks after "+region) != refused || (len(d.account(ourselves).Named) == 0) != refused {
			t.Errorf("in %q: %q, %+v", region, blocked, d.Accounts)
		}
	}
}

// TestGroupsThatAreLeftAlone are touched for nobody, say why, and hold no node up.
func TestGroupsThatAreLeftAlone(t *testing.T) {
	g := webGroup(Instance)
	g.LeftAlone = "its protocol is QUIC"
	s := fleetOf(g, nil)
	s.group().ReadAt, s.group().SweptAt, s.group().Instances = time.Time{}, asOf.Add(-time.Hour), map[string]bool{"i-a": true}
	s.attachment("web", onNodes())
	s.detachment("node-a", "i-a", v1alpha1.WantDetached)
	d := plan(t, s)
	ready := meta.FindStatusCondition(d.of("web").Status.Conditions, v1alpha1.ConditionReady)
	if want := "target group web is left alone: its protocol is QUIC"; d.blocked("web") != want || ready.Message != want || ready.Reason != v1alpha1.ReasonTargetsRefused {
		t.Errorf("%q, %+v", d.blocked("web"), ready)
	}
	if n := d.node("node-a"); d.calls() != "" || !n.Done || !cmp.Equal(n.Foreign, []string{"i-a in web"}) || len(n.Groups) > 0 {
		t.Errorf("%q: %+v", d.calls(), n)
	}
	s = fleetOf(g, nil)
	a := s.attachment("web", onNodes(), in80("i-a:80"))
	a.Object.DeletionTimestamp = &metav1.Time{Time: noon}
	if d := plan(t, s); d.calls() != "" || !d.of("web").Release {
		t.Errorf("%q: %+v", d.calls(), d.of("web"))
	}
}

// TestANodeIsTakenOutWhereItWasFound reads, and moves a target in, a group in which the last
// look found the node, while others are looked through; and none in which it was not.
func TestANodeIsTakenOutWhereItWasFound(t *testing.T) {
	s := fleetOf(Group{ID: "arn:pods", Name: "pods", Type: IP, Port: 80}, nil)
	s.Accounts[0].Groups = nil
	swept(&s, 1, asOf.Add(-time.Minute), "i-a")
	swept(&s, 3, asOf.Add(-time.Minute))
	for i := range s.Accounts[0].Groups {
		s.Accounts[0].Groups[i].ID = fmt.Sprint("arn:", i)
	}
	s.detachment("node-a", "i-a", v1alpha1.WantDetached)
	d := plan(t, s)
	if len(d.Groups) != 1 || d.Groups[0].ID != "arn:0" || !d.Groups[0].ReadAt.Equal(noon) {
		t.Errorf("%+v", d.Groups)
	}
	if since := d.account(ourselves).Sweep.Since; !since.Equal(asOf) {
		t.Errorf("the others are looked through since %s", since)
	}
	g := s.group()
	g.Registered, g.ReadAt, g.Live = at80("i-a", "i-b"), noon, true
	d = plan(t, s)
	if d.calls() != "out i-a:80" || d.node("node-a").Done {
		t.Errorf("%q: %+v", d.calls(), d.node("node-a"))
	}
}

// TestANodeIsOutWhenAllWereLookedThrough counts a look that was begun after the Attachment
// asked, and after the look was told of the instance; and says how far that is.
func TestANodeIsOutWhenAllWereLookedThrough(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*State)
		waits  string
	}{
		"all were": {func(*State) {}, ""},
		"none was": {func(s *State) {
			for i := range s.Accounts[0].Groups {
				s.Accounts[0].Groups[i].SweptAt = asOf.Add(-1)
			}
		}, "3 of 3 target groups that may have it are being read"},
		"one was not":        {func(s *State) { s.group().SweptAt = asOf.Add(-1) }, "target group g0 is being read"},
		"it was read":        {func(s *State) { s.group().SweptAt, s.group().ReadAt = time.Time{}, asOf }, ""},
		"for others":         {func(s *State) { s.Accounts[0].LooksFor["i-a"] = noon }, "3 of 3 target groups that may have it are being read"},
		"not for it":         {func(s *State) { delete(s.Accounts[0].LooksFor, "i-a") }, "3 of 3 target groups that may have it are being read"},
		"looks fail":         {func(s *State) { s.group().SweptAt, s.Accounts[0].LookFailure = time.Time{}, "denied" }, "denied"},
		"a group of pods":    {func(s *State) { s.group().SweptAt, s.group().Type = time.Time{}, IP }, ""},
		"without the tag":    {func(s *State) { s.group().SweptAt, s.group().Tags = time.Time{}, map[string]string{} }, ""},
		"it left":            {func(s *State) { s.group().Left = map[string]time.Time{"i-a": asOf.Add(-30 * time.Second)} }, "i-a: somebody took it out of target group g0, and new connections may come until 12:00:29"},
		"it left long ago":   {func(s *State) { s.group().Left = map[string]time.Time{"i-a": asOf.Add(-time.Minute)} }, ""},
		"another left":       {func(s *State) { s.group().Left = map[string]time.Time{"i-b": asOf} }, ""},
		"it left pods":       {func(s *State) { s.group().Left, s.group().Type = map[string]time.Time{"i-a": asOf}, IP }, ""},
		"tags are not known": {func(s *State) { s.group().SweptAt, s.group().Tags = time.Time{}, nil }, "target group g0 is being read"},
		"tags are refused": {func(s *State) {
			s.group().SweptAt, s.group().Tags, s.Accounts[0].Failure = time.Time{}, nil, "reading the tags: denied"
		}, "reading the tags: denied"},
	} {
		s := fleetOf(webGroup(Instance), nil)
		s.Accounts[0].Groups = nil
		s.DetachTagged = map[string]string{"nodes": "yes"}
		swept(&s, 3, asOf)
		for i := range s.Accounts[0].Groups {
			s.Accounts[0].Groups[i].Tags = map[string]string{"nodes": "yes"}
		}
		s.detachment("node-a", "i-a", v1alpha1.WantDetached)
		c.change(&s)
		if got := plan(t, s).node("node-a"); got.Done != (c.waits == "") || got.Waits != c.waits {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// TestWhatOthersTakeOutIsWaitedFor until the settle time is over, though nothing is read of the group
// any more; but what is on record is waited for by that.
func TestWhatOthersTakeOutIsWaitedFor(t *testing.T) {
	s := fleetOf(webGroup(Instance), nil)
	s.Accounts[0].Groups = nil
	swept(&s, 1, asOf)
	s.group().Left = map[string]time.Time{"i-a": asOf}
	s.detachment("node-a", "i-a", v1alpha1.WantDetached)
	if d := Plan(s); d.NodeAttachments[0].Status.Done || !d.WakeAt.Equal(asOf.Add(time.Minute)) {
		t.Errorf("to be decided again at %s: %+v", d.WakeAt, d.NodeAttachments[0].Status)
	}
	s.Now = asOf.Add(time.Minute)
	if got := plan(t, s).node("node-a"); !got.Done {
		t.Errorf("when the settle time is over: %+v", got)
	}
	s.Now = noon
	s.group().ReadAt = asOf
	s.NodeAttachments[0].Status.Groups = []v1alpha1.AttachedGroup{{ID: s.group().ID, Targets: []string{"i-a:80"}}}
	if got := plan(t, s).node("node-a"); strings.Contains(got.Waits, "somebody") {
		t.Errorf("on record: %+v", got)
	}
}

// TestALargeAccountSaysWhatToDo where looking through all groups takes more than half of what
// somebody waits.
func TestALargeAccountSaysWhatToDo(t *testing.T) {
	for timeout, says := range map[time.Duration]bool{15 * time.Minute: true, 25 * time.Minute: false, 0: false} {
		s := fleetOf(webGroup(Instance), nil)
		s.Accounts[0].Groups = nil
		swept(&s, 3000, time.Time{})
		s.DetachTimeout = timeout
		s.detachment("node-a", "i-a", v1alpha1.WantDetached)
		waits := Plan(s).NodeAttachments[0].Status.Waits
		want := "3000 of 3000 target groups that may have it are being read"
		if says {
			want += ", which takes 10m0s for all, more than half of the 15m0s of detachTimeoutSeconds: tag those that nodes are in, and start the controller with --detach-groups-tagged"
		}
		if waits != want {
			t.Errorf("%s: %q", timeout, waits)
		}
	}
}

// TestNodesAreLookedForWhereTheyMayBe: only in groups with the tags, but for those where
// something is on record; and somebody looks before a node is to be out.
func TestNodesAreLookedForWhereTheyMayBe(t *testing.T) {
	for name, c := range map[string]struct {
		tags  map[string]string
		held  bool
		calls string
	}{
		"with the tag":       {map[string]string{"nodes": "yes"}, false, "out i-a:80"},
		"another value":      {map[string]string{"nodes": "no"}, false, ""},
		"not known":          {nil, false, ""},
		"without, on record": {map[string]string{}, true, "out i-a:80"},
	} {
		g := webGroup(Instance)
		g.Tags = c.tags
		s := fleetOf(g, at80("i-a", "i-b"))
		s.DetachTagged = map[string]string{"nodes": "yes"}
		a := s.detachment("node-a", "i-a", v1alpha1.WantDetached)
		if c.held {
			a.Status.Groups = []v1alpha1.AttachedGroup{leaving80(time.Time{}, "i-a:80")}
		}
		if d := plan(t, s); d.calls() != c.calls || (len(d.Groups) > 0) != (c.calls != "") {
			t.Errorf("%s: %q, in %d groups", name, d.calls(), len(d.Groups))
		}
	}
	s := fleetOf(webGroup(Instance), nil)
	if d := plan(t, s); len(d.Accounts) > 0 {
		t.Errorf("nobody asks, and %+v", d.Accounts)
	}
	s.Detaching, s.DetachTagged = true, map[string]string{"nodes": "yes"}
	sweep := plan(t, s).account(ourselves)
	want := &Sweep{Tagged: s.DetachTagged, Instances: map[string]bool{"i-a": true, "i-b": true, "i-c": true}}
	if diff := cmp.Diff(want, sweep.Sweep); diff != "" || !sweep.TagsOfInstances || sweep.Tags {
		t.Errorf("%+v: %s", sweep, diff)
	}
}

// TestForeignAddressesAreNamed and delay nothing.
func TestForeignAddressesAreNamed(t *testing.T) {
	g := webGroup(IP)
	s := fleetOf(g, at80("10.0.0.1", "10.0.0.2", "10.0.0.9"))
	s.Nodes[0].Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.0.0.1"}}
	a := s.attachment("web", onPods(IP), in80("10.0.0.2:80"))
	a.Pods = []*corev1.Pod{podOf("b", "10.0.0.2")}
	s.detachment("node-a", "i-a", v1alpha1.WantDetached)
	d := plan(t, s)
	if n := d.node("node-a"); !n.Done || !cmp.Equal(n.Foreign, []string{"10.0.0.1:80 in web"}) || d.calls() != "" {
		t.Errorf("%q: %+v", d.calls(), n)
	}
	ours := s
	spoken := *a.Object
	spoken.Status.Groups = []v1alpha1.AttachedGroup{in80("10.0.0.1:80", "10.0.0.2:80")}
	ours.Attachments = []GroupAttachment{{Object: &spoken, Pods: a.Pods}}
	if n := plan(t, ours).node("node-a"); n.Done || n.Foreign != nil {
		t.Errorf("what we registered: %+v", n)
	}
	s.NodeAttachments[0].Spec.Wanted, s.NodeAttachments[0].Status.Foreign = v1alpha1.WantAttached, []string{"10.0.0.1:80 in web"}
	if n := plan(t, s).node("node-a"); n.Foreign != nil {
		t.Errorf("%+v", n)
	}
}

// TestWhatCannotBeReadBackIsNotRecorded: an id with an @ would make the records of its group
// unreadable, for good.
func TestWhatCannotBeReadBackIsNotRecorded(t *testing.T) {
	s := fleetOf(webGroup(Instance), at80("i-b", "i-a@x"))
	s.Nodes[0].Spec.ProviderID = "aws:///z1/i-a@x"
	s.attachment("web", onNodes())
	s.detachment("node-z", "i-a@x", v1alpha1.WantDetached)
	d := plan(t, s)
	if d.calls() != "in i-c:80" || !strings.Contains(d.blocked("web"), "node-a has no target: its providerID aws:///z1/i-a@x names no instance") {
		t.Errorf("%q: %s", d.calls(), d.blocked("web"))
	}
	for _, g := range append(d.of("web").Status.Groups, d.node("node-z").Groups...) {
		if _, err := recordsOf(g, ""); err != nil {
			t.Error(err)
		}
	}
	if why := (Group{Type: Instance}).unfit(Target{"i-a@x", 80}); why != `"i-a@x" is no id of a target` {
		t.Error(why)
	}
}

// TestAccess names the row of the table, and what it gives.
func TestAccess(t *testing.T) {
	for name, c := range map[string]struct {
		kind        TargetType
		hostNetwork bool
		hostPort    int32
		want        *v1alpha1.TargetAccess
	}{
		"nodes":           {Instance, true, 0, &v1alpha1.TargetAccess{Mode: "instance", HostNetwork: true, HostPort: true, Note: "nodes are the targets, as ever"}},
		"nodes by a port": {Instance, false, 80, &v1alpha1.TargetAccess{Mode: "instance", HostPort: true, Note: "nodes are the targets, as ever"}},
		"no such row":     {Instance, false, 0, nil},
		"addresses of nodes": {IP, true, 0, &v1alpha1.TargetAccess{Mode: "ip", HostNetwork: true, HostPort: true,
			Note: "with hostNetwork a pod's address is its node's: the group gains little over instance targets, and a node has one target whatever the number of its pods"}},
		"bound to nodes": {IP, false, 80, &v1alpha1.TargetAccess{Mode: "ip", HostPort: true,
			Note: "the load balancer does not use the hostPort, which keeps a second pod from the node: remove it to scale freely"}},
		"free": {IP, false, 0, &v1alpha1.TargetAccess{Mode: "ip", Note: "pods scale freely, and each is a target of its own"}},
	} {
		s := fleetOf(webGroup(c.kind), nil)
		pod := podOf("a", "10.0.0.1")
		pod.Spec.HostNetwork = c.hostNetwork
		pod.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 80, HostPort: c.hostPort}}
		a := s.attachment("web", onPods(c.kind))
		a.Pods = []*corev1.Pod{pod}
		if diff := cmp.Diff(c.want, plan(t, s).of("web").Status.Access); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	s := fleetOf(webGroup(Instance), nil)
	s.attachment("web", onNodes())
	if got := plan(t, s).of("web").Status.Access; got != nil {
		t.Errorf("nodes that are selected: %+v", got)
	}
}

// TestAnUnreadableRecordHoldsNodesWhereTheyWereNotFound too: it may say that one is there.
func TestAnUnreadableRecordHoldsNodesWhereTheyWereNotFound(t *testing.T) {
	s := fleetOf(webGroup(Instance), at80("i-b"))
	spec := onNodes()
	spec.TargetGroup.Name = "other"
	s.attachment("web", spec, in80("i-a@x:80"))
	s.detachment("node-a", "i-a", v1alpha1.WantDetached)
	if n := plan(t, s).node("node-a"); n.Done || !strings.Contains(n.Waits, "unreadable record of arn:web") {
		t.Errorf("%+v", n)
	}
}

// TestWhoWasUnhealthyIsRememberedInEveryGroup that somebody is on, also where nodes are not
// looked for: nobody waits for it to get healthy.
func TestWhoWasUnhealthyIsRememberedInEveryGroup(t *testing.T) {
	registered := at80("i-a", "i-b")
	registered[Target{"i-a", 80}] = Health{Condition: Unhealthy}
	registered[Target{"i-a", 81}] = Health{Condition: Healthy}
	s := fleetOf(webGroup(Instance), registered)
	s.DetachTagged = map[string]string{"nodes": "yes"}
	s.attachment("web", onNodes("node-a", "node-b"), in80("i-a:80", "i-b:80"))
	s.detachment("node-a", "i-a", v1alpha1.WantDetached)
	d := plan(t, s)
	if n := d.node("node-a"); d.calls() != "out i-a:80" || len(n.Groups) != 1 || !cmp.Equal(n.Groups[0].Unhealthy, []string{"i-a:80"}) {
		t.Errorf("%q: %+v", d.calls(), n)
	}
}

// TestHooksWaitForTags: a pod whose target is out of the group that is known may get traffic in
// one of which the tags are not.
func TestHooksWaitForTags(t *testing.T) {
	for known, told := range map[bool]int{true: 1, false: 0} {
		spec := onPods(Instance)
		spec.TargetGroup.Tags = map[string]string{"a": "b"}
		s := fleetOf(webGroup(Instance), at80("i-b"))
		if !known {
			other := webGroup(Instance)
			other.ID, other.Name, other.Tags = "arn:other", "other", nil
			s.Accounts[0].Groups = append(s.Accounts[0].Groups, KnownGroup{Group: other, Registered: at80("i-a", "i-b"), ReadAt: asOf})
		}
		pod := podOf("a", "")
		withDrainHook(pod)
		pod.Annotations, pod.DeletionTimestamp = map[string]string{v1alpha1.AnnotationTargets: v1alpha1.TargetsIn}, &metav1.Time{Time: noon.Add(time.Minute)}
		a := s.attachment("web", spec)
		a.Pods = []*corev1.Pod{pod}
		if d := plan(t, s); len(d.Hooks) != told {
			t.Errorf("all tags known: %t, and %d hooks are told", known, len(d.Hooks))
		}
	}
}
