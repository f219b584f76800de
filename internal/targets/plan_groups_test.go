package targets

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

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

// TestBoundOfTargets registers no more than fits into a status when all of it leaves, and says which
// group is left out.
func TestBoundOfTargets(t *testing.T) {
	const size = 1000
	s := fleetOf(webGroup(IP), nil)
	s.Accounts[0].Groups = nil
	for i := range mostTargets/size + 1 {
		g := webGroup(IP)
		g.ID, g.Name = fmt.Sprintf("arn:%02d", i), fmt.Sprintf("web-%02d", i)
		s.Accounts[0].Groups = append(s.Accounts[0].Groups, KnownGroup{Group: g, ReadAt: asOf, Live: true})
	}
	spec := onPods(IP)
	spec.TargetGroup.Tags = map[string]string{"a": "b"}
	a := s.attachment("web", spec)
	for i := range size {
		a.Pods = append(a.Pods, podOf(fmt.Sprint(i), fmt.Sprintf("10.0.%d.%d", i/250, i%250+1)))
	}
	for range 2 {
		d := plan(t, s)
		if got := d.of("web").Status; len(got.Groups) != mostTargets/size || !strings.Contains(d.blocked("web"), "more than 10000 targets, which is all that its status holds: nothing is registered with web-10") {
			t.Fatalf("%d groups, %s", len(got.Groups), d.blocked("web"))
		}
		s = d.apply(s)
	}
	at := metav1.NewTime(noon)
	longest := v1alpha1.LeavingTarget{Target: "[2001:db8:1111:2222:3333:4444:5555:6666]:65535", LeftAt: &at, QuietAt: &at, Settled: true}
	data, err := json.Marshal(longest)
	if most := 3 << 19; err != nil || mostTargets*(len(data)+1) > most {
		t.Errorf("%v, or %d times %s is more than %d bytes", err, mostTargets, data, most)
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
		"classic":            {"old", "", true, false},
		"classic, and there": {"old", "", false, true},
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
	// One that names no role may be of either, and only one of them does not see the group.
	g := webGroup(Instance)
	g.ID = ours + "web/2"
	s := fleetOf(g, at80("i-a"))
	account := s.Accounts[0]
	account.Role, account.Missing = roleA, map[string]bool{ours + "old/1": true}
	s.Accounts = append(s.Accounts, account)
	spec, record := onNodes("node-a"), in80("i-a:80")
	spec.AssumeRole, record.ID = &roleA, ours+"old/1"
	s.attachment("web", spec, record)
	if groups := plan(t, s).of("web").Status.Groups; !slices.ContainsFunc(groups, func(g v1alpha1.AttachedGroup) bool { return g.ID == record.ID }) {
		t.Errorf("of a version that wrote no role: %+v", groups)
	}
}
