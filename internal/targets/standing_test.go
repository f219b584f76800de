package targets

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/kstatus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// standingOf is the one of the three conditions that is True, with its reason, all of a generation.
func standingOf(t *testing.T, conditions []metav1.Condition, generation int64) string {
	t.Helper()
	var yes []string
	for _, kind := range kstatus.Conditions {
		c := meta.FindStatusCondition(conditions, kind)
		if c == nil || c.ObservedGeneration != generation {
			t.Fatalf("%s is %+v", kind, c)
		}
		if c.Status == metav1.ConditionTrue {
			yes = append(yes, kind+" "+c.Reason)
		}
	}
	return strings.Join(yes, ", ")
}

// TestStandings says of each TargetGroupAttachment in one condition how far it is.
func TestStandings(t *testing.T) {
	named := onPods(IP)
	named.Port = intstr.FromString("http")
	for name, c := range map[string]struct {
		spec   v1alpha1.TargetGroupAttachmentSpec
		change func(*State)
		want   string
	}{
		"all healthy":    {onPods(IP), func(*State) {}, "Ready TargetsHealthy"},
		"registering":    {onPods(IP), func(s *State) { s.group().Registered = map[Target]Health{} }, "Reconciling TargetsNotHealthy"},
		"not listed yet": {onPods(IP), func(s *State) { s.Accounts = nil }, "Reconciling GroupsUnknown"},
		"no such group":  {onPods(IP), func(s *State) { s.Accounts[0].Groups = nil }, "Reconciling NoGroup"},
		"bound":          {onPods(IP), func(s *State) { s.Bindings.All = []Binding{{Name: "ns/web", ARN: "arn:web"}} }, "Stalled GroupBound"},
		"left alone":     {onPods(IP), func(s *State) { s.group().LeftAlone = "its protocol is QUIC" }, "Stalled TargetsRefused"},
		"of others": {onPods(IP), func(s *State) {
			s.group().Tags = map[string]string{NamespacesTag: "other"}
			s.Attachments[0].Pods = append(s.Attachments[0].Pods, podOf("b", "10.0.0.2"))
		}, "Stalled TargetsRefused"},
		"a pod has none":  {named, func(*State) {}, "Reconciling TargetsRefused"},
		"the group fails": {onPods(IP), func(s *State) { s.group().Failing = "not authorized" }, "Reconciling TargetsRefused"},
		"deleted":         {onPods(IP), func(s *State) { s.Attachments[0].Object.DeletionTimestamp = &metav1.Time{Time: noon} }, "Reconciling TargetsLeaving"},
		"one leaves still": {onPods(IP), func(s *State) {
			s.Attachments[0].Object.Status.Groups = []v1alpha1.AttachedGroup{leaving80(noon.Add(-time.Second), "10.0.0.9:80")}
		}, "Ready TargetsHealthy"},
	} {
		s := fleetOf(webGroup(IP), at80("10.0.0.1"))
		a := s.attachment("web", c.spec, in80("10.0.0.1:80"))
		a.Object.Generation, a.Pods = 2, []*corev1.Pod{podOf("a", "10.0.0.1")}
		c.change(&s)
		if got := standingOf(t, plan(t, s).of("web").Status.Conditions, 2); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// TestNodesStand says the same of the Attachments of nodes.
func TestNodesStand(t *testing.T) {
	for name, c := range map[string]struct {
		wanted v1alpha1.AttachmentWanted
		change func(*State)
		want   string
	}{
		"not read yet":      {v1alpha1.WantDetached, func(s *State) { s.Accounts[0].ListedAt = time.Time{} }, "Reconciling Detaching"},
		"registered":        {v1alpha1.WantDetached, func(s *State) { s.group().Registered = at80("i-a", "i-b") }, "Reconciling Detaching"},
		"out":               {v1alpha1.WantDetached, func(*State) {}, "Ready Detached"},
		"nothing to return": {v1alpha1.WantAttached, func(*State) {}, "Ready Attached"},
		"something returns": {v1alpha1.WantAttached, func(s *State) {
			s.NodeAttachments[0].Status.Groups = []v1alpha1.AttachedGroup{leaving80(noon.Add(-time.Hour), "i-a:80")}
		}, "Reconciling Attaching"},
		"a role is unknown":  {v1alpha1.WantDetached, func(s *State) { s.attachment("far", farOnNodes()) }, "Reconciling Detaching"},
		"bindings not known": {v1alpha1.WantDetached, func(s *State) { s.Bindings = Bindings{} }, "Reconciling Detaching"},
	} {
		s := fleetOf(webGroup(Instance), at80("i-b"))
		s.detachment("node-a", "i-a", c.wanted)
		c.change(&s)
		if got := standingOf(t, plan(t, s).node("node-a").Conditions, 3); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// farOnNodes is reached as a role of which nothing is known.
func farOnNodes() v1alpha1.TargetGroupAttachmentSpec {
	spec := onNodes()
	spec.AssumeRole, spec.TargetGroup.Name = &roleA, "far"
	return spec
}

// TestIdle says that nobody keeps a TargetGroupAttachment, keeps what is on record, rests, and is said no
// more by a controller that has a cloud.
func TestIdle(t *testing.T) {
	s := fleetOf(webGroup(IP), at80("10.0.0.1"))
	a := s.attachment("web", onPods(IP), in80("10.0.0.1:80"))
	a.Object.Generation, a.Pods = 2, []*corev1.Pod{podOf("a", "10.0.0.1")}
	a.Object.Status = plan(t, s).of("web").Status
	before := a.Object.DeepCopy()
	idle := Idle(a.Object, noon.Add(time.Hour))
	if diff := cmp.Diff(before, a.Object); diff != "" {
		t.Errorf("what was read is written to: %s", diff)
	}
	if got := standingOf(t, idle.Conditions, 2); got != "Stalled NoCloud" || idle.ObservedGeneration != 2 || idle.Targets != 1 || !cmp.Equal(idle.Groups, before.Status.Groups) {
		t.Errorf("%s: %+v", got, idle)
	}
	blocked := meta.FindStatusCondition(idle.Conditions, v1alpha1.ConditionBlocked)
	if blocked.Status != metav1.ConditionTrue || !strings.HasSuffix(blocked.Message, "--cloud=aws, also to delete this object, which goes when its targets are out") {
		t.Errorf("%+v", blocked)
	}
	unkept := before.DeepCopy()
	unkept.Finalizers = nil
	if stalled := meta.FindStatusCondition(Idle(unkept, noon).Conditions, v1alpha1.ConditionStalled); !strings.HasSuffix(stalled.Message, "--cloud=aws, or delete this object") {
		t.Errorf("%+v", stalled)
	}
	a.Object.Status = idle
	if diff := cmp.Diff(idle, Idle(a.Object, noon.Add(2*time.Hour))); diff != "" {
		t.Errorf("it is said anew: %s", diff)
	}
	d := plan(t, s)
	if got := standingOf(t, d.of("web").Status.Conditions, 2); got != "Ready TargetsHealthy" || d.blocked("web") != "" {
		t.Errorf("with a cloud: %s, %q", got, d.blocked("web"))
	}
}

// TestWithoutACloudNothingWasRemembered: what a controller without a cloud has answered says nothing of the
// targets that a node has, to one with a cloud that has not read them yet.
func TestWithoutACloudNothingWasRemembered(t *testing.T) {
	for _, without := range []bool{false, true} {
		s := fleetOf(webGroup(Instance), at80("i-b"))
		a := s.detachment("node-a", "i-a", v1alpha1.WantDetached)
		a.Status = v1alpha1.AttachmentStatus{ObservedGeneration: 3, Done: true, Evidence: "webhook edge", WithoutCloud: without}
		s.Accounts[0].ListedAt, s.Memory = time.Time{}, Memory{Nodes: map[types.UID]NodeMemory{}}
		if got := plan(t, s).node("node-a"); got.Done == without || got.WithoutCloud != without {
			t.Errorf("without a cloud %t, nothing is read: %+v", without, got)
		}
		s.Accounts[0].ListedAt, s.Memory.Nodes[a.UID] = asOf, NodeMemory{3, asOf}
		if got := plan(t, s).node("node-a"); !got.Done || got.WithoutCloud || got.Evidence != "no target group has it" {
			t.Errorf("without a cloud %t, all is read: %+v", without, got)
		}
	}
}
