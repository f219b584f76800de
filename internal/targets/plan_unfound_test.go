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

// TestANodeLeavesWithWhatNobodyKnows takes out and puts back what is on record for a TargetGroupAttachment
// of which it is not known what it selects, as its node goes and returns: not what is on another node, nor
// what had left before, and not for one that is on the group no more. Its node is back when that was put back.
func TestANodeLeavesWithWhatNobodyKnows(t *testing.T) {
	settled := leaving80(noon.Add(-time.Hour), "i-a:80")
	settled.Leaving[0].Settled = true
	back := map[Target]Answer{{"i-a", 80}: {Register: true, At: asOf.Add(-time.Minute), Times: 1}}
	for name, c := range map[string]struct {
		wanted     v1alpha1.AttachmentWanted
		registered map[Target]Health
		record     v1alpha1.AttachedGroup
		answers    map[Target]Answer
		calls      string
		done       bool
	}{
		"it goes":                   {v1alpha1.WantDetached, at80("i-a", "i-b"), in80("i-a:80", "i-b:80"), nil, "out i-a:80", false},
		"it is the last one":        {v1alpha1.WantDetached, at80("i-a"), in80("i-a:80"), nil, "", false},
		"it returns":                {v1alpha1.WantAttached, at80("i-b"), leaving80(noon.Add(-time.Hour), "i-a:80"), nil, "in i-a:80", false},
		"it is being put back":      {v1alpha1.WantAttached, at80("i-a", "i-b"), leaving80(noon.Add(-time.Hour), "i-a:80"), nil, "in i-a:80", false},
		"it is put back":            {v1alpha1.WantAttached, at80("i-a", "i-b"), leaving80(noon.Add(-time.Hour), "i-a:80"), back, "", true},
		"it had left before":        {v1alpha1.WantAttached, at80("i-b"), settled, nil, "", true},
		"it was never out":          {v1alpha1.WantAttached, at80("i-a", "i-b"), in80("i-a:80"), nil, "", true},
		"it was registered by hand": {v1alpha1.WantAttached, at80("i-b"), in80("i-a:80"), nil, "", true},
	} {
		s := fleetOf(webGroup(Instance), c.registered)
		s.group().Answers = c.answers
		s.Memory.Groups[GroupKey{ID: "arn:web"}] = GroupMemory{Sightings: map[Target]Sighting{{"i-a", 80}: {LeftAt: noon.Add(-time.Hour), Left: noon.Add(-time.Hour)}}}
		a := s.attachment("web", onPods(Instance), c.record)
		a.Unknown, a.Pods = "there is no Service web", []*corev1.Pod{podOf("a", "")}
		s.detachment("node-a", "i-a", c.wanted)
		if d := plan(t, s); d.calls() != c.calls || d.node("node-a").Done != c.done {
			t.Errorf("%s: %q, %+v", name, d.calls(), d.node("node-a"))
		}
		s.Attachments[0].Unknown, s.Attachments[0].Object.Spec.TargetGroup.Name = "there is no Service web", "another"
		if d := plan(t, s); strings.Contains(d.calls(), "in i-a:80") {
			t.Errorf("%s, and another group is meant: %q", name, d.calls())
		}
	}
}

// TestNoNodeIsBackWhileAttachmentsAreUnknown: what another leader took out may be the node's.
func TestNoNodeIsBackWhileAttachmentsAreUnknown(t *testing.T) {
	for _, behind := range []bool{true, false} {
		s := fleetOf(webGroup(Instance), at80("i-b"))
		s.Behind = behind
		a := s.detachment("node-a", "i-a", v1alpha1.WantAttached)
		if got := plan(t, s).node("node-a"); got.Done == behind {
			t.Errorf("behind %t: %+v", behind, got)
		}
		// What was answered stands.
		a.Status.Done, a.Status.ObservedGeneration = true, a.Generation
		if got := plan(t, s).node("node-a"); !got.Done {
			t.Errorf("behind %t, answered: %+v", behind, got)
		}
	}
}

// TestANodeThatIsOutStaysOut: what selects it registers nothing on it after that was answered.
func TestANodeThatIsOutStaysOut(t *testing.T) {
	s := fleetOf(webGroup(Instance), at80("i-b", "i-c"))
	s.attachment("web", onNodes(), leaving80(noon.Add(-time.Hour), "i-a:80"), in80())
	s.Attachments[0].Object.Status.Groups = []v1alpha1.AttachedGroup{leaving80(noon.Add(-time.Hour), "i-a:80")}
	s.Attachments[0].Object.Status.Groups[0].Targets = []string{"i-b:80", "i-c:80"}
	a := s.detachment("node-a", "i-a", v1alpha1.WantDetached)
	a.Status.Done, a.Status.ObservedGeneration = true, a.Generation
	if d := plan(t, s); d.calls() != "" {
		t.Errorf("%s", d.calls())
	}
}

// TestAShortSettleTimeIsNoShorterThanACall: what left, and may come back by a call that was sent before, is on
// record, holds its finalizer, and is not taken for absent, until no such call can arrive.
func TestAShortSettleTimeIsNoShorterThanACall(t *testing.T) {
	settle := int32(5)
	for since, over := range map[time.Duration]bool{6 * time.Second: false, 16 * time.Second: true} {
		left := asOf.Add(-since)
		fleet := func(spec v1alpha1.TargetGroupAttachmentSpec, record v1alpha1.AttachedGroup) (State, *GroupAttachment) {
			s := fleetOf(webGroup(IP), at80("10.0.0.2"))
			s.Memory.Groups[GroupKey{ID: "arn:web"}] = GroupMemory{Sightings: map[Target]Sighting{{"10.0.0.1", 80}: {LeftAt: left, Left: left}}}
			spec.DetachFloorSeconds = &settle
			a := s.attachment("web", spec, record)
			return s, a
		}
		s, a := fleet(onPods(IP), leaving80(left, "10.0.0.1:80"))
		ends := podOf("a", "10.0.0.1")
		ends.Status.Phase = corev1.PodFailed
		a.Pods = []*corev1.Pod{ends}
		if got := plan(t, s).onRecord("web"); got == 0 != over {
			t.Errorf("%s after it left: %d on record", since, got)
		}
		// One that is deleted, and another that wants the same and may never have the record.
		s, a = fleet(onPods(IP), leaving80(left, "10.0.0.1:80"))
		a.Object.DeletionTimestamp = &metav1.Time{Time: noon}
		if got := plan(t, s).of("web").Release; got != over {
			t.Errorf("%s after it left, alone: released %t", since, got)
		}
		heir := s.attachment("heir", onPods(IP))
		heir.Object.Spec.DetachFloorSeconds, heir.Pods = &settle, []*corev1.Pod{podOf("a", "10.0.0.1")}
		if got := plan(t, s).of("web").Release; got != over {
			t.Errorf("%s after it left: released %t", since, got)
		}
		// One of a set that is not found only stays.
		spec := onPods(IP)
		spec.PodSelector, spec.IngressDaemonSet = nil, &v1alpha1.LocalReference{Name: "web"}
		s, a = fleet(spec, in80("10.0.0.1:80"))
		a.Pods = []*corev1.Pod{podOf("a", "10.0.0.1")}
		if got := plan(t, s).Groups[0].Reports[0].Phase; got == Absent != over {
			t.Errorf("%s after it left: %s", since, got)
		}
	}
}

// TestASetThatIsNotThereHasPodsAtOtherPorts has what leaves put back, and what a pod ends at kept in, for no pod
// that cannot serve there: of one on the host network, or behind a Service, nobody can tell.
func TestASetThatIsNotThereHasPodsAtOtherPorts(t *testing.T) {
	leaves, in := leaving80(time.Time{}, "i-a:80"), in80("i-a:80")
	classic := func(s *State) { s.group().Balancer, s.group().Ports = Classic, []int32{80, 81} }
	for name, c := range map[string]struct {
		change func(*State)
		ends   bool
		record v1alpha1.AttachedGroup
		calls  string
	}{
		"another port":                {func(*State) {}, false, leaves, "out i-a:80"},
		"another port, of what ends":  {func(*State) {}, true, in, "out i-a:80"},
		"another port, of what stays": {func(*State) {}, false, in, ""},
		"its port":                    {func(s *State) { s.neighbour().Spec.Containers[0].Ports[0].HostPort = 80 }, false, leaves, "in i-a:80"},
		"its port, and another ends":  {func(s *State) { s.neighbour().Spec.Containers[0].Ports[0].HostPort = 80 }, true, in, ""},
		"the host network":            {func(s *State) { s.neighbour().Spec.HostNetwork = true }, false, leaves, "in i-a:80"},
		"a Service":                   {func(s *State) { s.Attachments[0].Object.Spec.Service = &v1alpha1.LocalReference{Name: "edge"} }, false, leaves, "in i-a:80"},
		"another of a classic one's":  {classic, false, leaves, "in i-a:80"},
		"no port of a classic one's":  {func(s *State) { classic(s); s.group().Ports = []int32{80} }, false, leaves, "out i-a:80"},
		"an address":                  {func(s *State) { *s = s.byAddress() }, false, in80("10.9.0.1:80"), ""},
		"an address that leaves":      {func(s *State) { *s = s.byAddress() }, false, leaving80(time.Time{}, "10.9.0.1:80"), "in 10.9.0.1:80"},
		"its port is another now":     {func(s *State) { *s = s.byAddress().atPort(90) }, false, in80("10.9.0.1:80"), ""},
		"and it leaves for that":      {func(s *State) { *s = s.byAddress().atPort(90) }, false, leaving80(time.Time{}, "10.9.0.1:80"), "out 10.9.0.1:80"},
	} {
		s := fleetOf(webGroup(Instance), at80("i-a", "i-b", "i-c"))
		// It is being taken out.
		s.group().Answers = map[Target]Answer{{"i-a", 80}: {}}
		spec := onPods(Instance)
		spec.PodSelector, spec.IngressDaemonSet = nil, &v1alpha1.LocalReference{Name: "mistyped"}
		spec.TargetGroup.ARN = "arn:web"
		next, before := podOf("a", "10.9.0.1"), podOf("before", "10.9.0.2")
		next.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 80, HostPort: 81}}
		before.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 80, HostPort: 80}}
		before.Spec.NodeName, before.DeletionTimestamp = "node-a", &metav1.Time{Time: noon}
		a := s.attachment("web", spec, c.record)
		if a.Neighbours = []*corev1.Pod{next}; c.ends {
			a.Neighbours = append(a.Neighbours, before)
		}
		c.change(&s)
		if got := plan(t, s).calls(); got != c.calls {
			t.Errorf("%s: %q, want %q", name, got, c.calls)
		}
	}
}

func (s State) neighbour() *corev1.Pod { return s.Attachments[0].Neighbours[0] }

// byAddress has the group hold addresses.
func (s State) byAddress() State {
	s.group().Type, s.group().Registered = IP, at80("10.9.0.1", "10.9.0.2")
	s.Attachments[0].Object.Spec.TargetType = string(IP)
	return s
}

// atPort has the attachment name another port.
func (s State) atPort(port int32) State {
	s.Attachments[0].Object.Spec.Port = intstr.FromInt32(port)
	return s
}

// edited is the first attachment, which is edited instead of deleted.
func (s State) edited() *v1alpha1.TargetGroupAttachment {
	s.Attachments[0].Object.DeletionTimestamp = nil
	return s.Attachments[0].Object
}

// TestWhatIsDeletedStaysForASetThatIsNotThere: where another on the group names a set that is not found, as
// for a Service that is not, nobody knows whether it selects what one has there that is deleted, or selects
// it no more.
func TestWhatIsDeletedStaysForASetThatIsNotThere(t *testing.T) {
	const says = "its targets stay while it is not known whether TargetGroupAttachment next selects them: there is no IngressDaemonSet mistyped"
	for name, c := range map[string]struct {
		change func(*State)
		calls  string
	}{
		"mistyped":               {func(*State) {}, ""},
		"its pod is gone":        {func(s *State) { s.Attachments[1].Neighbours = nil }, "out 10.9.0.1:80"},
		"its pod ends":           {func(s *State) { s.Attachments[1].Neighbours[0].DeletionTimestamp = &metav1.Time{Time: noon} }, "out 10.9.0.1:80"},
		"it names another port":  {func(s *State) { s.Attachments[1].Object.Spec.Port = intstr.FromInt32(90) }, "out 10.9.0.1:80"},
		"it is on another group": {func(s *State) { s.Attachments[1].Object.Spec.TargetGroup.Name = "another" }, "out 10.9.0.1:80"},
		"it is deleted as well":  {func(s *State) { s.Attachments[1].Object.DeletionTimestamp = &metav1.Time{Time: noon} }, "out 10.9.0.1:80"},
		"it began to leave before": {func(s *State) {
			s.Attachments[0].Object.Status.Groups = []v1alpha1.AttachedGroup{leaving80(time.Time{}, "10.9.0.1:80")}
		}, "out 10.9.0.1:80"},
		"it is of another namespace": {func(s *State) { s.Attachments[1].Object.Namespace = "another" }, "out 10.9.0.1:80"},
		"it names another port now":  {func(s *State) { s.edited().Spec.Port = intstr.FromInt32(90) }, ""},
		"it names another, and next does": {func(s *State) {
			s.edited().Spec.Port = intstr.FromInt32(90)
			s.Attachments[1].Object.Spec.Port = intstr.FromInt32(90)
		}, "out 10.9.0.1:80"},
	} {
		s := fleetOf(webGroup(IP), at80("10.9.0.1", "10.9.0.2"))
		pod := podOf("a", "10.9.0.1")
		pod.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 80}}
		s.attachment("before", onPods(IP), in80("10.9.0.1:80")).Object.DeletionTimestamp = &metav1.Time{Time: noon}
		spec := onPods(IP)
		spec.PodSelector, spec.IngressDaemonSet = nil, &v1alpha1.LocalReference{Name: "mistyped"}
		s.attachment("next", spec).Neighbours = []*corev1.Pod{pod}
		c.change(&s)
		d := plan(t, s)
		if got := d.calls(); got != c.calls {
			t.Errorf("%s: %q, want %q", name, got, c.calls)
		}
		if stays := strings.Contains(d.blocked("before"), says); stays != (c.calls == "") {
			t.Errorf("%s: %q", name, d.blocked("before"))
		}
	}
}
