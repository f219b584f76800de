package controller

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/targets"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"
)

var (
	now  = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	asOf = now.Add(-time.Second)
)

func group(kind targets.TargetType) targets.Group {
	return targets.Group{ID: "arn:web", Name: "web", Balancer: targets.Network, Type: kind, Port: 80, InUse: true, CrossZone: true, Tags: map[string]string{"a": "b"}}
}

// shared is a share of a group that was read a moment ago.
func shared(g targets.Group, registered map[targets.Target]targets.Health) *share {
	a := &account{calls: targets.NewCalls(4, 20), inventory: map[string]inventory{g.ID: {asOf, registered, true}}, moved: make(chan struct{}), ring: func() {}}
	return newShare(a, g, &observed{now: now, zones: map[string]string{"i-a": "z1", "i-b": "z2", "i-c": "z2"}}, time.Minute)
}

func healthy(ids ...string) map[targets.Target]targets.Health {
	out := map[targets.Target]targets.Health{}
	for _, id := range ids {
		out[targets.Target{ID: id, Port: 80}] = targets.Health{Condition: targets.Healthy}
	}
	return out
}

func holdOf(wanted v1alpha1.AttachmentWanted, groups ...v1alpha1.AttachedGroup) *hold {
	a := &v1alpha1.Attachment{Spec: v1alpha1.AttachmentSpec{Instance: "i-a", Wanted: wanted}, Status: v1alpha1.AttachmentStatus{Groups: groups}}
	a.Name, a.Generation = "node-a", 3
	return &hold{object: a, status: *a.Status.DeepCopy()}
}

func nodeClaim(change func(*v1alpha1.TargetGroupAttachmentSpec)) *claim {
	a := &v1alpha1.TargetGroupAttachment{Spec: v1alpha1.TargetGroupAttachmentSpec{
		TargetGroup: v1alpha1.TargetGroupSelector{Name: "web"}, TargetType: "instance", Port: intstr.FromInt32(80), NodeSelector: &metav1.LabelSelector{},
	}}
	a.Name = "web"
	if change != nil {
		change(&a.Spec)
	}
	node := &corev1.Node{Spec: corev1.NodeSpec{ProviderID: "aws:///z/i-a"}}
	node.Name = "node-a"
	return &claim{object: a, nodes: map[string]*corev1.Node{"node-a": node}}
}

// TestWhatANodeHasIsRememberedFirst takes a node out that somebody else registered:
// what is written before the call names all that it has, and what was not healthy.
func TestWhatANodeHasIsRememberedFirst(t *testing.T) {
	registered := healthy("i-a", "i-b", "i-c")
	registered[targets.Target{ID: "i-a", Port: 81}] = targets.Health{Condition: targets.Unhealthy}
	s, h := shared(group(targets.Instance), registered), holdOf(v1alpha1.WantDetached)
	s.hold(h)
	s.decide(map[*hold]time.Time{h: asOf})
	s.keep()
	want := []v1alpha1.AttachedGroup{{
		ID: "arn:web", Balancer: "network", Unhealthy: []string{"i-a:81"}, Leaving: []v1alpha1.LeavingTarget{{Target: "i-a:80"}, {Target: "i-a:81"}},
	}}
	if diff := cmp.Diff(want, h.status.Groups); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]targets.Target{{ID: "i-a", Port: 80}, {ID: "i-a", Port: 81}}, s.decision.Deregister); diff != "" {
		t.Error(diff)
	}
	h.tell()
	if h.status.Done || h.status.ObservedGeneration != 3 || !strings.Contains(h.status.Waits, "i-a") {
		t.Errorf("%+v", h.status)
	}
}

// TestEveryGroupIsReadBeforeANodeIsKnown does not answer from what was read before
// the Attachment asked.
func TestEveryGroupIsReadBeforeANodeIsKnown(t *testing.T) {
	s, h := shared(group(targets.Instance), healthy("i-b")), holdOf(v1alpha1.WantDetached)
	s.hold(h)
	s.decide(map[*hold]time.Time{h: now})
	h.tell()
	if h.status.Done || h.status.ObservedGeneration != 0 || h.status.Waits != "target group web is being read" || !s.decision.ReadAt.Equal(now) {
		t.Errorf("%+v, reads at %s", h.status, s.decision.ReadAt)
	}
	s, h = shared(group(targets.Instance), healthy("i-b")), holdOf(v1alpha1.WantDetached)
	s.hold(h)
	s.decide(map[*hold]time.Time{h: asOf})
	h.tell()
	if !h.status.Done || h.status.Evidence != "no target group has it" {
		t.Errorf("%+v", h.status)
	}
}

// TestPuttingBackWaitsForWhatWasHealthy does not wait for what was not.
func TestPuttingBackWaitsForWhatWasHealthy(t *testing.T) {
	record := v1alpha1.AttachedGroup{ID: "arn:web", Unhealthy: []string{"i-a:81"}, Targets: []string{"i-a:80", "i-a:81"}}
	for name, c := range map[string]struct {
		one, other targets.Condition
		done       bool
	}{
		"both healthy":        {targets.Healthy, targets.Healthy, true},
		"one is still sick":   {targets.Healthy, targets.Unhealthy, true},
		"one turned sick":     {targets.Unhealthy, targets.Healthy, false},
		"one is being tested": {targets.Initial, targets.Unhealthy, false},
	} {
		s := shared(group(targets.Instance), map[targets.Target]targets.Health{
			{ID: "i-a", Port: 80}: {Condition: c.one}, {ID: "i-a", Port: 81}: {Condition: c.other},
		})
		h := holdOf(v1alpha1.WantAttached, record)
		s.hold(h)
		s.decide(map[*hold]time.Time{h: asOf})
		s.keep()
		h.tell()
		if h.status.Done != c.done {
			t.Errorf("%s: %+v", name, h.status)
		}
	}
}

// TestADetachedNodeIsTheClaimsToMove leaves the record of a target where it stands
// when a TargetGroupAttachment and an Attachment speak of the same one.
func TestADetachedNodeIsTheClaimsToMove(t *testing.T) {
	c, h := nodeClaim(nil), holdOf(v1alpha1.WantDetached)
	c.status.Groups = []v1alpha1.AttachedGroup{{ID: "arn:web", Targets: []string{"i-a:80"}}}
	s := shared(group(targets.Instance), healthy("i-a", "i-b"))
	s.join(c, map[string]string{"node-a": "it is detached"}, c.nodes)
	s.hold(h)
	s.decide(map[*hold]time.Time{h: asOf})
	s.keep()
	if len(s.decision.Deregister) != 1 || len(h.status.Groups) != 0 || len(c.status.Groups) != 1 || len(c.status.Groups[0].Leaving) != 1 {
		t.Errorf("%+v: %+v, %+v", s.decision, c.status.Groups, h.status.Groups)
	}
	if h.tell(); h.status.Done {
		t.Error("the node is out while its target leaves")
	}
}

// TestPodsThatEndAreNoTargetsToWaitFor is Ready though a pod that has failed, or
// lingers, was never registered.
func TestPodsThatEndAreNoTargetsToWaitFor(t *testing.T) {
	c := podClaim(map[string]string{"a": "10.0.0.1", "b": "10.0.0.2"})
	c.pod("b").Status.Phase = corev1.PodFailed
	s := shared(group(targets.IP), healthy("10.0.0.1"))
	s.join(c, nil, nil)
	s.decide(nil)
	c.tell(now, []*share{s})
	ready := meta.FindStatusCondition(c.status.Conditions, v1alpha1.ConditionReady)
	if ready.Status != metav1.ConditionTrue || c.status.Targets != 1 || c.status.Healthy != 1 {
		t.Errorf("%+v, %+v", ready, c.status)
	}
}

// TestFloors goes by what was asked for, also while that is being deleted, and by the
// longest.
func TestFloors(t *testing.T) {
	claimOf := func(seconds *int32) *claim {
		return nodeClaim(func(s *v1alpha1.TargetGroupAttachmentSpec) { s.DetachFloorSeconds = seconds })
	}
	deleted := claimOf(new(int32(7)))
	deleted.object.DeletionTimestamp = &metav1.Time{Time: now}
	for name, c := range map[string]struct {
		claims []*claim
		want   time.Duration
	}{
		"none":        {[]*claim{claimOf(nil)}, time.Minute},
		"0":           {[]*claim{claimOf(new(int32(0)))}, 0},
		"two":         {[]*claim{claimOf(new(int32(5))), claimOf(new(int32(3)))}, 5 * time.Second},
		"two and one": {[]*claim{claimOf(new(int32(3))), claimOf(nil), claimOf(new(int32(5)))}, 5 * time.Second},
		"deleted":     {[]*claim{deleted}, 7 * time.Second},
	} {
		s := shared(group(targets.Instance), nil)
		for _, claim := range c.claims {
			s.join(claim, nil, nil)
		}
		s.decide(nil)
		if s.state.Floor != c.want {
			t.Errorf("%s: %s", name, s.state.Floor)
		}
	}
}

// TestZonesOfInstances holds the last target of a zone whose clients reach no other.
func TestZonesOfInstances(t *testing.T) {
	for crossZone, want := range map[bool]int{true: 1, false: 0} {
		g := group(targets.Instance)
		g.CrossZone = crossZone
		s, h := shared(g, healthy("i-a", "i-b", "i-c")), holdOf(v1alpha1.WantDetached)
		s.hold(h)
		s.decide(map[*hold]time.Time{h: asOf})
		if len(s.decision.Deregister) != want {
			t.Errorf("cross-zone %t: %v", crossZone, s.decision.Deregister)
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
		claim := nodeClaim(func(s *v1alpha1.TargetGroupAttachmentSpec) { s.TargetGroup, s.TargetType = c.selector, c.kind })
		if ok, fault := claim.matches(group(targets.Instance)); ok != c.ok || fault != c.fault {
			t.Errorf("%s: %t %q", name, ok, fault)
		}
	}
}

// TestNothingIsTakenOutOnAGuess leaves what is on record where it is not known what
// is selected, or what the record says.
func TestNothingIsTakenOutOnAGuess(t *testing.T) {
	owned := []v1alpha1.AttachedGroup{{ID: "arn:web", Targets: []string{"i-b:80", "i-c:80"}}}
	for name, change := range map[string]func(*claim){
		"no Service": func(c *claim) { c.incomplete = "there is no Service proxy" },
		"no port": func(c *claim) {
			c.nodes, c.pods, c.object.Spec.NodeSelector = nil, []*corev1.Pod{{}}, nil
			c.object.Spec.Port = intstr.FromString("http")
		},
		"unreadable": func(c *claim) {
			c.status.Groups = []v1alpha1.AttachedGroup{{ID: "arn:web", Targets: []string{"i-b:80", "i-c"}}}
		},
		"unreadable times": func(c *claim) {
			c.status.Groups = []v1alpha1.AttachedGroup{{ID: "arn:web", Leaving: []v1alpha1.LeavingTarget{{Target: "::1"}}}}
		},
	} {
		c := nodeClaim(nil)
		c.status.Groups = owned
		change(c)
		before := c.status.DeepCopy()
		s := shared(group(targets.Instance), healthy("i-a", "i-b", "i-c"))
		s.join(c, nil, c.nodes)
		s.decide(nil)
		s.keep()
		if diff := cmp.Diff(before.Groups, c.status.Groups); diff != "" {
			t.Errorf("%s: the record changes: %s", name, diff)
		}
		if unreadable := strings.HasPrefix(name, "unreadable"); len(s.decision.Deregister) > 0 && !unreadable || unreadable != (s.broken != "") {
			t.Errorf("%s: %+v, %s", name, s.decision.Deregister, s.broken)
		}
	}
	c := nodeClaim(nil)
	c.status.Groups = owned
	s := shared(group(targets.Instance), healthy("i-a", "i-b", "i-c"))
	s.join(c, nil, c.nodes)
	s.decide(nil)
	if len(s.decision.Deregister) != 2 {
		t.Errorf("what is selected no more is not taken out: %+v", s.decision)
	}
}

func TestRecordsSurviveTheObject(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var records []targets.Record
		ids := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"10.0.0.1", "fd00::1", "i-0abc", "10.0.0.2"}), 0, 4, rapid.ID).Draw(t, "ids")
		slices.Sort(ids)
		for _, id := range ids {
			r := targets.Record{Owner: "owner", Leaving: rapid.Bool().Draw(t, "leaving")}
			r.ID, r.Port = id, rapid.Int32Range(1, 65535).Draw(t, "port")
			r.Zone = rapid.SampledFrom([]string{"", "all", "eu-west-1a"}).Draw(t, "zone")
			if r.Leaving {
				r.Settled = rapid.Bool().Draw(t, "settled")
			}
			if r.Leaving && rapid.Bool().Draw(t, "left") {
				r.LeftAt = now.Add(time.Duration(rapid.IntRange(0, 1000).Draw(t, "left")) * time.Second)
				if rapid.Bool().Draw(t, "quiet") {
					r.QuietAt = r.LeftAt.Add(time.Minute)
				}
			}
			records = append(records, r)
		}
		g, _ := groupOf(group(targets.IP), records, nil)
		got, err := recordsOf(g, "owner")
		if err != nil {
			t.Fatal(err)
		}
		slices.SortFunc(got, func(a, b targets.Record) int { return strings.Compare(a.ID, b.ID) })
		if diff := cmp.Diff(records, got); diff != "" {
			t.Fatal(diff)
		}
	})
}

// fakeCloud stands in for a cloud that answers at once.
type fakeCloud struct{ calls chan string }

func (f fakeCloud) Groups(context.Context) ([]targets.Group, error) { return nil, errors.New("denied") }
func (f fakeCloud) List(context.Context, targets.Group, []targets.Target) (map[targets.Target]targets.Health, error) {
	f.calls <- "List"
	return healthy("i-a"), nil
}
func (f fakeCloud) Register(context.Context, targets.Group, []targets.Registration) error {
	f.calls <- "Register"
	return nil
}
func (f fakeCloud) Deregister(context.Context, targets.Group, []targets.Target) error {
	f.calls <- "Deregister"
	return errors.New("broken")
}

// TestCallsAreMade has the calls of a decision made, and what was read is fresh
// until the next.
func TestCallsAreMade(t *testing.T) {
	g := group(targets.Instance)
	cloud := fakeCloud{make(chan string)}
	rung := make(chan struct{}, 10)
	a := &account{
		cloud: cloud, outcome: func(error) targets.Outcome { return targets.Failed }, ring: func() { rung <- struct{}{} }, calls: targets.NewCalls(100, 100),
		groups: &listing[targets.Group]{all: []targets.Group{g}, read: true, at: time.Now()}, inventory: map[string]inventory{}, moved: make(chan struct{}),
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { a.run(ctx); close(ended) }()
	a.plan(g.ID, targets.Decision{
		Register: []targets.Registration{{Target: targets.Target{ID: "i-b", Port: 80}}}, Deregister: []targets.Target{{ID: "i-a", Port: 80}}, ReadAt: time.Now(),
		Reports: []targets.Report{{Target: targets.Target{ID: "i-a", Port: 80}}, {Target: targets.Target{ID: "i-b", Port: 80}}},
	})
	for _, want := range []string{"Deregister", "Register", "List"} {
		if got := <-cloud.calls; got != want {
			t.Errorf("%s was called, want %s", got, want)
		}
		<-rung
	}
	if why := a.failing(g.ID); why != "broken" {
		t.Errorf("failing: %q", why)
	}
	s := newShare(a, g, &observed{now: now}, 0)
	if !s.state.Live || len(s.state.Registered) != 1 {
		t.Errorf("%+v", s.state)
	}
	a.plan(g.ID, targets.Decision{})
	if s := newShare(a, g, &observed{now: now}, 0); s.state.Live {
		t.Error("what was decided upon is taken for fresh")
	}
	stop()
	<-ended
}
