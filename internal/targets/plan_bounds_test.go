package targets

import (
	"fmt"
	"strings"
	"testing"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
)

// inGroups is a State with so many groups of a kind that one TargetGroupAttachment is on.
func inGroups(groups int, kind TargetType) (State, *GroupAttachment) {
	s := fleetOf(webGroup(kind), nil)
	s.Accounts[0].Groups = nil
	for i := range groups {
		g := webGroup(kind)
		g.ID, g.Name = fmt.Sprintf("arn:%02d", i), fmt.Sprintf("web-%02d", i)
		s.Accounts[0].Groups = append(s.Accounts[0].Groups, KnownGroup{Group: g, ReadAt: asOf, Live: true})
	}
	spec := onPods(kind)
	spec.TargetGroup.Tags = map[string]string{"a": "b"}
	return s, s.attachment("web", spec)
}

func somePods(n int) (out []*corev1.Pod) {
	for i := range n {
		out = append(out, podOf(fmt.Sprint(i), fmt.Sprintf("10.0.%d.%d", i/250, i%250+1)))
	}
	return out
}

func (r result) onRecord(name string) (n int) {
	for _, g := range r.of(name).Status.Groups {
		n += len(g.Targets) + len(g.Leaving)
	}
	return n
}

// TestGrowthIsBound records no more than fits also where groups grow that were taken up before, and says
// so in Blocked, in Ready and in the gates of the pods that are left out.
func TestGrowthIsBound(t *testing.T) {
	s, a := inGroups(12, IP)
	a.Pods = somePods(50)
	s = plan(t, s).apply(s)
	pods := somePods(1000)
	gate := corev1.PodConditionType(v1alpha1.ReadinessGate("web"))
	for _, p := range pods {
		p.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: gate}}
	}
	healthy := map[Target]Health{}
	for _, p := range pods {
		healthy[Target{p.Status.PodIP, 80}] = Health{Condition: Healthy}
	}
	for i := range s.Accounts[0].Groups {
		s.Accounts[0].Groups[i].ChecksTarget, s.Accounts[0].Groups[i].Registered = true, healthy
	}
	s.Attachments[0].Pods = pods
	for range 2 {
		d := result{Plan(s), t}
		if n := d.onRecord("web"); n != mostTargets || !strings.Contains(d.blocked("web"), "more than 10000 targets") {
			t.Errorf("%d targets on record, blocked %q", n, d.blocked("web"))
		}
		ready := meta.FindStatusCondition(d.of("web").Status.Conditions, v1alpha1.ConditionReady)
		if ready.Reason != v1alpha1.ReasonTargetsRefused || !strings.Contains(ready.Message, "more than 10000 targets") {
			t.Errorf("%+v", ready)
		}
		if got := d.gates()["999"]; got != "False "+GateTargetRefused {
			t.Errorf("the gate of one that is left out: %q", got)
		}
		s = d.apply(s)
	}
	// What leaves makes room when it is forgotten, and not before: those that replace it wait.
	s.Attachments[0].Pods = pods[:50]
	d := result{Plan(s), t}
	if n := d.onRecord("web"); n != mostTargets {
		t.Errorf("%d targets on record while most of them leave", n)
	}
	s = d.apply(s)
	s.Attachments[0].Pods = somePods(1200)[1000:]
	if n := (result{Plan(s), t}).onRecord("web"); n != mostTargets {
		t.Errorf("%d targets on record when others are to follow those that leave", n)
	}
}

// TestTargetsAreCounted, and not pods: those of a node share one, and what has ended has none.
func TestTargetsAreCounted(t *testing.T) {
	s, a := inGroups(11, Instance)
	for i := range 1000 {
		p := podOf(fmt.Sprint(i), "")
		p.Spec.NodeName, p.Spec.HostNetwork = []string{"node-a", "node-b", "node-c"}[i%3], true
		if i > 2 {
			p.Status.Phase = corev1.PodFailed
		}
		a.Pods = append(a.Pods, p)
	}
	if d := plan(t, s); len(d.of("web").Status.Groups) != 11 || d.blocked("web") != "" {
		t.Errorf("%d groups, blocked %q", len(d.of("web").Status.Groups), d.blocked("web"))
	}
}

// TestTargetsOfOthersAreBound takes nothing of others out of a whole group where a status has no room for
// that, and registers one's own.
func TestTargetsOfOthersAreBound(t *testing.T) {
	for strangers, out := range map[int]int{mostTargets - 1: mostTargets - 1, mostTargets: 0} {
		s, a := inGroups(1, IP)
		s.group().Registered = map[Target]Health{}
		for i := range strangers {
			s.group().Registered[Target{fmt.Sprintf("10.%d.%d.%d", 1+i/62500, i/250%250, i%250+1), 80}] = Health{Condition: Unhealthy}
		}
		a.Object.Spec.Ownership = v1alpha1.OwnGroup
		a.Pods = somePods(1)
		d := plan(t, s)
		if got := strings.Count(d.calls(), "out "); got != out || strings.Count(d.calls(), "in ") != 1 || strings.Contains(d.blocked("web"), "they are not taken out") != (out == 0) {
			t.Errorf("%d strangers: %d are taken out, blocked %q", strangers, got, d.blocked("web"))
		}
	}
}

// TestTargetsOfANodeAreBound says of no node that it is out which has more than its status holds.
func TestTargetsOfANodeAreBound(t *testing.T) {
	s := fleetOf(webGroup(Instance), map[Target]Health{})
	for port := range int32(mostNodeTargets + 1) {
		s.group().Registered[Target{"i-a", port + 1}] = Health{Condition: Unhealthy}
	}
	s.detachment("node-a", "i-a", v1alpha1.WantDetached)
	d := plan(t, s)
	if got := d.node("node-a"); got.Done || len(got.Groups[0].Leaving) != mostNodeTargets || !strings.Contains(got.Waits, "than its status holds") {
		t.Errorf("%d leave, %q", len(got.Groups[0].Leaving), got.Waits)
	}
}
