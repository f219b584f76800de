package rollout

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestBackoff(t *testing.T) {
	for attempts, want := range map[int]time.Duration{
		0: time.Second, 1: time.Second, 2: 2 * time.Second, 5: 16 * time.Second, 10: 512 * time.Second, 11: lastRetry, 1000: lastRetry,
	} {
		if got := backoff(attempts); got != want {
			t.Errorf("after %d attempts: %s, want %s", attempts, got, want)
		}
	}
}

// pods is some of a kind.
func pods(n int, name string, kind Pod) []Pod {
	var out []Pod
	for range n {
		kind.Name = name + string(rune('a'+len(out)))
		out = append(out, kind)
	}
	return out
}

var (
	oldPod      = Pod{Revision: "r1", Running: true, Ready: true, ReadySince: start.Add(-time.Hour)}
	newPod      = Pod{Revision: "r2", Running: true, Ready: true, ReadySince: start.Add(-time.Minute)}
	rejectedPod = Pod{Revision: "r2", Failed: "OutOfcpu"}
)

// TestHoldBack: what is written at the first rejection.
func TestHoldBack(t *testing.T) {
	for name, test := range map[string]struct {
		older, present int
		change         func(s *State)
		want           string
		paused         bool
		rolling        Rolling
	}{
		"only old pods run":         {2, 0, func(*State) {}, "HoldBack n0000 to r1 x3", false, Rolling{0, 3}},
		"more than there should be": {2, 0, func(s *State) { s.Nodes[0].Deployment.PodsPerNode = 1 }, "HoldBack n0000 to r1 x2", false, Rolling{1, 2}},
		"mostly old pods run":       {2, 1, func(*State) {}, "HoldBack n0000 to r1 x3", false, Rolling{}},
		"nobody knows how many there should be": {2, 1, func(s *State) {
			s.Nodes[0].Deployment.PodsPerNode = 0
		}, "HoldBack n0000 to r1 x2", false, Rolling{1, 0}},
		"as many new pods run": {1, 1, func(*State) {}, "HoldBack n0000 to r2 x2", true, Rolling{0, 3}},
		"as many, and there should be none": {1, 1, func(s *State) {
			s.Nodes[0].Deployment.PodsPerNode = 0
		}, "HoldBack n0000 to r2 x2", true, Rolling{0, 1}},
		"only new pods run": {0, 1, func(*State) {}, "HoldBack n0000 to r2 x1", false, Rolling{}},
		"only new pods run, and old ones are rejected": {0, 1, func(s *State) {
			for i := range s.Nodes[0].Pods {
				if pod := &s.Nodes[0].Pods[i]; pod.Failed != "" {
					pod.Revision = "r1"
				}
			}
		}, "HoldBack n0000 to r2 x1", false, Rolling{2, 3}},
		"only new pods are to stay, and an old one serves": {0, 1, func(s *State) {
			n := &s.Nodes[0]
			n.Tainted, n.Pods[1].Revision = true, "r3"
			n.Pods = append(n.Pods,
				Pod{Name: "evicted", Revision: "r1", Running: true, Terminating: true, Evicted: true, Deleted: start},
				Pod{Name: "doomed", Revision: "r1", Running: true, Ready: true, Created: start})
		}, "HoldBack n0000 to r2 x1", false, Rolling{}},
		"only new pods are to stay, and who was evicted is gone": {0, 1, func(s *State) {
			n := &s.Nodes[0]
			n.Tainted, n.Pods[1].Revision = true, "r3"
			n.EvictedSince = map[string]time.Time{"doomed": start, "other": start}
			n.Pods = append(n.Pods, Pod{Name: "doomed", Revision: "r1", ReplicaSet: "doomed", Running: true, Ready: true, Created: start})
		}, "HoldBack n0000 to r2 x1", false, Rolling{}},
		"no pod runs":            {0, 0, func(*State) {}, "HoldBack n0000 to r2 x0", false, Rolling{}},
		"the old one is unknown": {2, 0, func(s *State) { delete(s.Revisions, "r1") }, "HoldBack n0000 to r1 x3", false, Rolling{0, 3}},
		"more are wanted than before": {2, 0, func(s *State) {
			s.Nodes[0].Deployment.Replicas, s.Nodes[0].Deployment.Surge = 2, 2
		}, "HoldBack n0000 to r1 x3", false, Rolling{1, 3}},
		"more are wanted than before, and more are there": {2, 0, func(s *State) {
			d := s.Nodes[0].Deployment
			d.Replicas, d.Surge, d.UpdatedReplicas, d.OlderReplicas = 2, 1, 3, 2
		}, "HoldBack n0000 to r1 x3", false, Rolling{2, 3}},
		"a taint, and more are asked for than run": {2, 0, func(s *State) {
			s.Nodes[0].Deployment.Surge, s.Nodes[0].Tainted = 1, true
		}, "HoldBack n0000 to r1 x2", false, Rolling{2, 3}},
		"somebody changed it":           {0, 2, func(s *State) { s.Nodes[0].Deployment.Drifted = true }, "HoldBack n0000 to r2 x2", false, Rolling{}},
		"three templates meet":          {1, 0, threeMeet(2, 1), "HoldBack n0000 to r1 x2", false, Rolling{1, 0}},
		"three, and more are asked for": {1, 0, threeMeet(3, 0), "HoldBack n0000 to r1 x3", false, Rolling{0, 1}},
		"three, and fewer":              {1, 0, threeMeet(1, 1), "HoldBack n0000 to r1 x2", false, Rolling{}},
		"three, and a taint": {1, 0, func(s *State) {
			threeMeet(3, 0)(s)
			s.Nodes[0].Tainted = true
		}, "HoldBack n0000 to r2 x2", true, Rolling{1, 3}},
		"a third is rejected too": {1, 1, thirdRejected, "HoldBack n0000 to r2 x2", false, Rolling{1, 0}},
		"old ones are rejected too": {1, 1, func(s *State) {
			thirdRejected(s)
			s.Nodes[0].Pods[3].Revision = "r1"
		}, "HoldBack n0000 to r2 x2", true, Rolling{0, 3}},
		"a third, and one is not ready": {1, 1, func(s *State) {
			thirdRejected(s)
			s.Nodes[0].Pods[1].Ready = false
		}, "HoldBack n0000 to r2 x2", false, Rolling{1, 1}},
		"a third is being deleted": {1, 1, func(s *State) {
			n := &s.Nodes[0]
			n.Pods = append(n.Pods, Pod{Name: "gone", Revision: "r3", Failed: "OutOfcpu", Terminating: true})
		}, "HoldBack n0000 to r2 x2", true, Rolling{0, 3}},
		"a third, and it is not its turn": {1, 1, func(s *State) {
			thirdRejected(s)
			s.Status.Wave = nil
		}, "HoldBack n0000 to r2 x2", true, Rolling{0, 3}},
		"it is not its turn any more": {2, 1, func(s *State) {
			s.Status.Wave = nil
			s.Nodes[0].Deployment.Surge = 1
		}, "HoldBack n0000 to r2 x3", true, Rolling{1, 3}},
		"its turn is to leave, and no new pod serves yet": {2, 1, func(s *State) {
			n := &s.Nodes[0]
			n.Wanted, n.Pods[2].Ready = false, false
		}, "HoldBack n0000 to r1 x3", false, Rolling{0, 1}},
		"a third serves": {2, 1, func(s *State) {
			thirdRejected(s)
			n := &s.Nodes[0]
			n.Wanted, n.Pods[2].Ready = false, false
			n.Pods = append(n.Pods, Pod{Name: "third", Revision: "r3", Running: true, Ready: true})
		}, "HoldBack n0000 to r2 x4", true, Rolling{0, 3}},
		"its turn is to leave":       {2, 1, func(s *State) { s.Nodes[0].Wanted = false }, "HoldBack n0000 to r2 x3", true, Rolling{0, 3}},
		"its turn is to be kept out": {2, 1, func(s *State) { s.Nodes[0].Deployment.Detached = true }, "HoldBack n0000 to r2 x3", true, Rolling{0, 3}},
		"it is marked, and not updated yet": {2, 1, func(s *State) {
			s.Nodes[0].Deployment.Mark = v1alpha1.NewMark(start, "r2", "")
			byBoth(&s.Spec)
		}, "HoldBack n0000 to r2 x3", true, Rolling{0, 3}},
		"somebody else has marked it": {2, 1, func(s *State) {
			s.Nodes[0].Deployment.EmptyMark = true
			byBoth(&s.Spec)
		}, "HoldBack n0000 to r2 x3", true, Rolling{0, 3}},
	} {
		t.Run(name, func(t *testing.T) {
			s := rejecting(test.older, test.present)
			test.change(&s)
			d := Plan(s)
			if len(d.Steps) != 2 || d.Steps[1].Action != DeletePods || len(d.Steps[1].Pods) != 2 {
				t.Fatalf("got %s", steps(d))
			}
			hold := d.Steps[0]
			hold.Reason = ""
			if hold.String() != test.want || hold.Paused != test.paused || hold.Rolling != test.rolling {
				t.Errorf("got %s (paused %t, %+v), want %s", hold, hold.Paused, hold.Rolling, test.want)
			}
			if h := hold.Hold; h.Revision != "r2" || h.Attempts != 1 || h.Trying || !h.At.Time.Equal(start) {
				t.Errorf("remembers %+v", h)
			}
		})
	}
}

// threeMeet runs a pod of a third template where so many are asked for.
func threeMeet(replicas, surge int32) func(*State) {
	return func(s *State) {
		n := &s.Nodes[0]
		n.Deployment.Replicas, n.Deployment.Surge = replicas, surge
		n.Pods = append(n.Pods, Pod{Name: "third", Revision: "r3", Running: true, Ready: true})
	}
}

// thirdRejected makes the last of the rejected pods one of a third template.
func thirdRejected(s *State) {
	n := &s.Nodes[0]
	n.Pods[len(n.Pods)-1].Revision = "r3"
}

// rejecting is a fleet whose first node, in degraded mode, is on its way to r2
// with three pods.
func rejecting(older, present int) State {
	s := servingFleet(2)
	s.Spec.UpdateStrategy.RollingUpdate = &v1alpha1.RollingUpdate{}
	s.Spec.PodsPerNode = new(int32(3))
	s.Revision, s.Status.Wave = "r2", []string{"n0000"}
	n := &s.Nodes[0]
	n.Deployment.Revision, n.Deployment.Replicas, n.Deployment.PodsPerNode = "r2", 3, 3
	n.Pods = append(append(pods(older, "old", oldPod), pods(present, "new", newPod)...), pods(2, "rejected", rejectedPod)...)
	return s
}

// TestHeldBack: what follows while a node is held back.
func TestHeldBack(t *testing.T) {
	held := func(change func(s *State, n *Node, h *v1alpha1.Hold)) State {
		s := rejecting(2, 0)
		n := &s.Nodes[0]
		n.Pods = pods(2, "old", oldPod)
		h := &v1alpha1.Hold{Generation: 1, Revision: "r2", Attempts: 3, At: metav1.NewMicroTime(start.Add(-3 * time.Second))}
		n.Deployment.Revision, n.Deployment.Hold = "r1", h
		change(&s, n, h)
		return s
	}
	for name, test := range map[string]struct {
		change func(s *State, n *Node, h *v1alpha1.Hold)
		want   string
	}{
		"not time yet":      {func(*State, *Node, *v1alpha1.Hold) {}, ""},
		"time to try again": {func(_ *State, _ *Node, h *v1alpha1.Hold) { h.Attempts = 2 }, "Update n0000 to r2 x3"},
		"older pods terminate": {func(_ *State, n *Node, h *v1alpha1.Hold) {
			h.Attempts, h.Terminating, n.Pods[0].Terminating = 2, true, true
		}, ""},
		"older pods are gone":      {func(_ *State, _ *Node, h *v1alpha1.Hold) { h.Attempts, h.Terminating = 3, true }, "Update n0000 to r2 x3"},
		"that did not help before": {func(_ *State, _ *Node, h *v1alpha1.Hold) { h.Attempts, h.Terminating = 9, true }, ""},
		"paused, but in its turn":  {func(s *State, _ *Node, h *v1alpha1.Hold) { h.Attempts, s.Spec.Paused = 2, true }, "Update n0000 to r2 x3"},
		"another is wanted":        {func(s *State, _ *Node, _ *v1alpha1.Hold) { s.Revision, s.Revisions["r3"] = "r3", true }, "Update n0000 to r3 x3"},
		"what failed before": {func(_ *State, n *Node, h *v1alpha1.Hold) {
			h.At, n.Pods = metav1.NewMicroTime(start), append(n.Pods, rejectedPod)
		}, "DeletePods n0000"},
		"it does not end what fails": {func(_ *State, n *Node, _ *v1alpha1.Hold) {
			n.Deployment.Replicas, n.Pods = 2, append(n.Pods, rejectedPod)
		}, "HoldBack n0000 to r1 x2, DeletePods n0000"},
		"rejected once more": {func(_ *State, n *Node, _ *v1alpha1.Hold) {
			n.Pods = append(n.Pods, Pod{Name: "x", Revision: "r1", Failed: "OutOfcpu"})
		}, "HoldBack n0000 to r1 x2, DeletePods n0000"},
		"another spec": {func(s *State, _ *Node, h *v1alpha1.Hold) { s.Generation, h.Attempts = 2, 9 }, "Update n0000 to r2 x3"},
		"not seen yet": {func(_ *State, n *Node, _ *v1alpha1.Hold) {
			n.Deployment.Settled = false
			n.Pods = append(n.Pods, Pod{Name: "x", Revision: "r1", Failed: "OutOfcpu"})
		}, "DeletePods n0000"},
		"no longer wanted": {func(s *State, n *Node, _ *v1alpha1.Hold) {
			s.Revision, n.Pods, n.Deployment.UpdatedReplicas, n.Deployment.ReadyReplicas = "r1", pods(3, "old", oldPod), 3, 3
		}, "SetFields n0000"},
		"other fields wait": {func(_ *State, n *Node, _ *v1alpha1.Hold) { n.Deployment.Outmoded = true }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got := steps(Plan(held(test.change))); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// TestHoldThatEndsNothing: what fails a second after a hold is what it does not end, and is
// looked at then.
func TestHoldThatEndsNothing(t *testing.T) {
	s := rejecting(1, 2)
	n := &s.Nodes[0]
	n.Pods = append(n.Pods[:3:3], Pod{Name: "x", Revision: "r3", ReplicaSet: "c", Failed: "OutOfcpu"})
	n.Deployment.Hold = &v1alpha1.Hold{Generation: 1, Revision: "r2", Attempts: 9, Replicas: 3, At: metav1.NewMicroTime(start)}
	if d := Plan(s); steps(d) != "DeletePods n0000" || !d.WakeAt.Equal(start.Add(firstRetry)) {
		t.Errorf("at first: %s", summary(d))
	}
	s.Now = start.Add(firstRetry)
	if got := steps(Plan(s)); !strings.HasPrefix(got, "HoldBack n0000") {
		t.Errorf("a second later: %s", got)
	}
}

// TestHalfway: a node that stopped halfway, out of its turn, waits for one.
func TestHalfway(t *testing.T) {
	s := rejecting(1, 2)
	s.Status.Wave = nil
	n := &s.Nodes[0]
	n.Pods = n.Pods[:3]
	n.Deployment.UpdatedReplicas = 2
	n.Deployment.Hold = &v1alpha1.Hold{Generation: 1, Revision: "r2", Attempts: 1, Paused: true, Replicas: 3, At: metav1.NewMicroTime(start.Add(-time.Minute))}
	s.Nodes[1].Deployment.Revision, s.Nodes[1].Ready = "r2", true
	if d := Plan(s); steps(d) != "" || len(d.Status.Wave) != 1 || d.Status.Wave[0] != "n0000" {
		t.Errorf("got\n%s", summary(d))
	}
}

// TestAnotherTemplateHalfway: what may be unavailable counts from as many pods as there
// should be, also where fewer are asked for.
func TestAnotherTemplateHalfway(t *testing.T) {
	s := rejecting(2, 1)
	s.Revision, s.Revisions["r3"] = "r3", true
	n := &s.Nodes[0]
	n.Pods, n.Deployment.Replicas, n.Deployment.UpdatedReplicas = n.Pods[:3], 2, 1
	n.Deployment.Hold = &v1alpha1.Hold{Generation: 1, Revision: "r2", Attempts: 1, Replicas: 2, Trying: true, At: metav1.NewMicroTime(start)}
	d := Plan(s)
	if steps(d) != "RecordRevision, Update n0000 to r3 x2" && steps(d) != "Update n0000 to r3 x2" {
		t.Fatalf("got %s", summary(d))
	}
	if got := d.Steps[len(d.Steps)-1].Rolling; got != (Rolling{Surge: 1}) {
		t.Errorf("replaces pods by %+v", got)
	}
}

// TestTrying: an attempt that goes on, succeeds or fails.
func TestTrying(t *testing.T) {
	trying := rejecting(0, 3)
	n := &trying.Nodes[0]
	n.Pods = n.Pods[:3]
	n.Deployment.UpdatedReplicas, n.Deployment.ReadyReplicas = 3, 3
	n.Deployment.Hold = &v1alpha1.Hold{Revision: "r2", Generation: 1, Attempts: 3, Replicas: 3, Trying: true, At: metav1.NewMicroTime(start)}
	if got := steps(Plan(trying)); got != "SetFields n0000" {
		t.Errorf("accepted: %q", got)
	}
	n.Pods[0].Ready = false
	if got := steps(Plan(trying)); got != "" {
		t.Errorf("not yet: %q", got)
	}
	n.Pods[0].Running, n.Pods[0].Failed = false, "OutOfcpu"
	d := Plan(trying)
	if got := steps(d); got != "HoldBack n0000 to r2 x2, DeletePods n0000" || d.Steps[0].Hold.Attempts != 4 {
		t.Errorf("rejected again: %q", got)
	}
}

// TestHoldSurvivesUpdate: a node that is tried again in its turn remembers how
// often that was in vain.
func TestHoldSurvivesUpdate(t *testing.T) {
	s := markedFleet(3)
	h := &v1alpha1.Hold{Generation: 1, Revision: "r2", Attempts: 4, At: metav1.NewMicroTime(start.Add(-time.Hour))}
	s.Nodes[0].Deployment.Hold = h
	d := Plan(s)
	if steps(d) != "Update n0000 to r2 x2" || d.Steps[0].Hold == nil || d.Steps[0].Hold.Attempts != 4 || !d.Steps[0].Hold.Trying {
		t.Errorf("got %s, remembers %+v", steps(d), d.Steps[0].Hold)
	}
	if h.Trying {
		t.Error("the State was changed")
	}
}

// TestOverlooked: the Deployment controller may do nothing about an attempt.
func TestOverlooked(t *testing.T) {
	s := rejecting(1, 0)
	n := &s.Nodes[0]
	n.Pods = n.Pods[:1]
	n.Deployment.Replicas, n.Deployment.UpdatedReplicas, n.Deployment.OlderReplicas = 1, 0, 1
	n.Deployment.Hold = &v1alpha1.Hold{Generation: 1, Revision: "r2", Attempts: 1, Replicas: 1, Trying: true, At: metav1.NewMicroTime(start)}
	if d := Plan(s); steps(d) != "" || !d.WakeAt.Equal(start.Add(patienceWithTry)) {
		t.Errorf("at once: %s", summary(d))
	}
	s.Now = start.Add(patienceWithTry)
	if got := steps(Plan(s)); got != "Update n0000 to r2 x3" {
		t.Errorf("after a while: %q", got)
	}
}

// TestOverlookedInItsTurn: what the Deployment controller takes for a Deployment that is
// being scaled gets a pod more, and none the less when that is seen.
func TestOverlookedInItsTurn(t *testing.T) {
	s := markedFleet(2)
	patience := s.Spec.ProgressDeadline() / 2
	n := &s.Nodes[0]
	d := n.Deployment
	d.Revision, d.UpdatedReplicas, d.OlderReplicas, d.UpdatedAt = "r2", 0, 2, start
	if got := Plan(s); steps(got) != "" || !got.WakeAt.Equal(start.Add(patience)) {
		t.Errorf("at once: %s", summary(got))
	}
	s.Now = start.Add(patience)
	if got := steps(Plan(s)); got != "Update n0000 to r2 x3" {
		t.Errorf("after a while: %q", got)
	}
	d.Replicas, d.Settled, d.UpdatedAt = 3, false, s.Now
	if got := steps(Plan(s)); got != "" {
		t.Errorf("before it is seen: %q", got)
	}
	d.Settled = true
	if got := steps(Plan(s)); got != "Update n0000 to r2 x2" {
		t.Errorf("when it is seen: %q", got)
	}
	d.Replicas, s.Now = 2, s.Now.Add(patience)
	d.OlderReplicas = 1
	if got := steps(Plan(s)); got != "" {
		t.Errorf("older ones are stopped: %q", got)
	}
	d.OlderReplicas, n.Pods[0].Revision = 2, "r2"
	if got := steps(Plan(s)); got != "Update n0000 to r2 x3" {
		t.Errorf("an older one is of the same revision, with something else changed: %q", got)
	}
	n.Pods = append(slices.Clone(n.Pods), n.Pods[0])
	if got := steps(Plan(s)); got != "" {
		t.Errorf("a pod is started: %q", got)
	}
}

// TestNudgesWithinTheDeadline: a pod more that is asked for in vain, every half of the deadline,
// gives the update no more time.
func TestNudgesWithinTheDeadline(t *testing.T) {
	s := markedFleet(2)
	deadline := s.Spec.ProgressDeadline()
	d := s.Nodes[0].Deployment
	d.Revision, d.UpdatedReplicas, d.OlderReplicas, d.UpdatedAt = "r2", 0, 2, start
	sights := &Sights{}
	var asked []string
	overdue := time.Duration(0)
	for after := time.Duration(0); after < 2*deadline; after += time.Second {
		got := look(sights, s, after)
		for _, step := range got.Steps {
			asked = append(asked, fmt.Sprintf("%s: x%d", after, step.Replicas))
			d.Replicas, d.UpdatedAt, d.Hold = step.Replicas, step.At, step.Hold
		}
		if overdue == 0 && condition(t, got, v1alpha1.ConditionProgressing).Reason == v1alpha1.ReasonProgressDeadlineExceeded {
			overdue = after
		}
	}
	d.Settled, d.Replicas = false, 3
	if c := condition(t, look(sights, s, 2*deadline), v1alpha1.ConditionProgressing); c.Reason != v1alpha1.ReasonProgressDeadlineExceeded {
		t.Errorf("before the Deployment controller has seen the last: %+v", c)
	}
	if overdue < deadline || overdue > deadline+5*time.Second {
		t.Errorf("overdue after %s, not after %s", overdue, deadline)
	}
	if len(asked) != 6 || !d.UpdatedAt.Equal(start) {
		t.Errorf("updated at %s, and asked for %v", d.UpdatedAt, asked)
	}
}

// TestHoldsTheTemplateThatRuns: on a node that traffic reaches nothing is written but
// the template that is there, or that of the ReplicaSet whose pods run.
func TestHoldsTheTemplateThatRuns(t *testing.T) {
	hashed := func(p Pod, hash string, created time.Duration) Pod {
		p.ReplicaSet, p.Created = hash, start.Add(created)
		return p
	}
	old, changed := hashed(oldPod, "old", -time.Hour), hashed(oldPod, "changed", -time.Minute)
	rejected := Pod{Revision: "r1", ReplicaSet: "changed", Created: start, Failed: "OutOfcpu"}
	known := func(p Pod) Pod {
		p.Older = true
		return p
	}
	for name, test := range map[string]struct {
		pods   []Pod
		change func(s *State)
		want   Step
		paused bool
	}{
		"somebody changed it": {
			append(pods(2, "a", old), pods(1, "b", rejected)...), func(s *State) { s.Nodes[0].Deployment.Drifted = true },
			Step{Revision: "r1", Replicas: 2, ReplicaSet: "old"}, false,
		},
		"it was rendered otherwise": {
			append(pods(2, "a", old), pods(1, "b", rejected)...), func(*State) {},
			Step{Revision: "r1", Replicas: 2, ReplicaSet: "old"}, false,
		},
		"somebody scaled it": {
			append(pods(4, "a", old), pods(2, "b", hashed(rejected, "old", 0))...),
			func(s *State) { d := s.Nodes[0].Deployment; d.Drifted, d.Replicas = true, 6 },
			Step{Revision: "r1", Replicas: 4, Keep: true}, false,
		},
		"halfway, and not in its turn": {
			slices.Concat(pods(2, "a", old), pods(1, "b", changed), pods(1, "c", rejected)), func(*State) {},
			Step{Revision: "r1", Replicas: 3, Keep: true}, true,
		},
		"halfway in its turn": {
			slices.Concat(pods(2, "a", old), pods(1, "b", changed), pods(1, "c", rejected)), func(s *State) {
				s.Spec.UpdateStrategy.RollingUpdate, s.Status.Wave = &v1alpha1.RollingUpdate{}, []string{"n0000"}
			},
			Step{Revision: "r1", Replicas: 2, ReplicaSet: "old"}, false,
		},
		"the same is rejected": {
			append(pods(1, "a", old), pods(1, "b", hashed(rejected, "old", 0))...), func(*State) {},
			Step{Revision: "r1", Replicas: 1, Keep: true}, false,
		},
		"the newest is one of the older": {
			slices.Concat(pods(2, "a", known(old)), pods(1, "b", known(hashed(rejected, "old", 0))), pods(1, "c", hashed(Pod{Revision: "r1"}, "changed", -time.Second))),
			func(*State) {}, Step{Revision: "r1", Replicas: 2, ReplicaSet: "old"}, false,
		},
		"all are older": {
			append(pods(2, "a", known(old)), pods(1, "b", known(hashed(rejected, "old", 0)))...), func(*State) {},
			Step{Revision: "r1", Replicas: 2, ReplicaSet: "old"}, false,
		},
		"what it went back to is rejected": {
			append(pods(1, "a", old), pods(1, "b", hashed(rejected, "old", -time.Minute))...), func(s *State) {
				s.Nodes[0].Deployment.Hold = &v1alpha1.Hold{Revision: "r1", Attempts: 1, ReplicaSet: "old", At: metav1.NewMicroTime(start)}
			},
			Step{Revision: "r1", Replicas: 1, Keep: true}, false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := servingFleet(2)
			s.Nodes[0].Pods = test.pods
			test.change(&s)
			d := Plan(s)
			if len(d.Steps) != 2 || d.Steps[0].Action != HoldBack {
				t.Fatalf("got %s", steps(d))
			}
			got := d.Steps[0]
			if got.Paused != test.paused || got.Hold.ReplicaSet != got.ReplicaSet && got.Hold.ReplicaSet != "old" {
				t.Errorf("paused %t, remembers %+v", got.Paused, got.Hold)
			}
			got = Step{Revision: got.Revision, Replicas: got.Replicas, ReplicaSet: got.ReplicaSet, Keep: got.Keep}
			if !reflect.DeepEqual(got, test.want) {
				t.Errorf("got %+v, want %+v", got, test.want)
			}
		})
	}
}

// TestInDoubt: the API server is asked which ReplicaSet is the present one where pods are
// rejected or evicted and may be of an older one, and never in a rollout that goes well.
func TestInDoubt(t *testing.T) {
	of := func(set string, p Pod) Pod {
		p.ReplicaSet = set
		return p
	}
	rejected := Pod{Name: "x", Revision: "r2", ReplicaSet: "new", Failed: "OutOfcpu"}
	for name, test := range map[string]struct {
		change func(n *Node)
		want   []string
	}{
		"none fails":                  {func(n *Node) { n.Pods, n.Deployment.Replicas = n.Pods[:3], 4 }, nil},
		"one fails":                   {func(*Node) {}, []string{"old", "new"}},
		"it is being deleted already": {func(n *Node) { n.Pods[3].Terminating = true }, nil},
		"a taint evicts":              {func(n *Node) { n.Tainted, n.Deployment.Replicas, n.Pods = true, 4, n.Pods[:3] }, []string{"old", "new"}},
		"a taint evicts none":         {func(n *Node) { n.Tainted, n.Pods = true, n.Pods[:3] }, nil},
		"the older have another revision": {func(n *Node) {
			n.Pods[0].Revision, n.Pods[1].Revision, n.Deployment.OlderReplicas = "r1", "r1", 2
		}, nil},
		"more of them are counted": {func(n *Node) {
			n.Pods[0].Revision, n.Pods[1].Revision, n.Deployment.OlderReplicas = "r1", "r1", 3
		}, []string{"new"}},
		"all that are seen are counted as older": {func(n *Node) {
			n.Pods = append(n.Pods[:2], of("old", rejected))
			n.Deployment.OlderReplicas = 3
		}, []string{"old"}},
		"its controller has not seen it yet": {func(n *Node) {
			n.Pods, n.Deployment.Settled = append(n.Pods[:2], of("old", rejected)), false
		}, []string{"old"}},
		"it was taken back to one":  {func(n *Node) { n.Deployment.Hold = &v1alpha1.Hold{ReplicaSet: "old"} }, nil},
		"it is tried again since":   {func(n *Node) { n.Deployment.Hold = &v1alpha1.Hold{ReplicaSet: "old", Trying: true} }, []string{"old", "new"}},
		"somebody changed it since": {func(n *Node) { n.Deployment.Hold, n.Deployment.Drifted = &v1alpha1.Hold{ReplicaSet: "old"}, true }, []string{"old", "new"}},
		"there is no Deployment":    {func(n *Node) { n.Deployment = nil }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			n := &rejecting(0, 3).Nodes[0]
			n.Pods = []Pod{of("old", n.Pods[0]), of("old", n.Pods[1]), of("new", n.Pods[2]), rejected}
			test.change(n)
			if got := n.InDoubt(); !slices.Equal(got, test.want) {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
}

// TestTriesAgainWithTheSameTemplate: an attempt that only adds pods writes no other
// template, and one that would take pods waits for its turn.
func TestTriesAgainWithTheSameTemplate(t *testing.T) {
	held := func(change func(s *State, n *Node)) State {
		s := servingFleet(2)
		n := &s.Nodes[0]
		n.Pods, n.Deployment.Replicas, n.Deployment.UpdatedReplicas = n.Pods[:1], 1, 1
		n.Deployment.Hold = &v1alpha1.Hold{Revision: "r1", Generation: 1, Attempts: 1, Replicas: 1, At: metav1.NewMicroTime(start.Add(-time.Minute))}
		change(&s, n)
		return s
	}
	for name, test := range map[string]struct {
		change func(s *State, n *Node)
		want   string
		keep   bool
	}{
		"adds pods": {func(*State, *Node) {}, "Update n0000 to r1 x2", true},
		"there was room for a part": {func(_ *State, n *Node) { n.Deployment.Hold.Trying = true },
			"Update n0000 to r1 x2", true},
		"in its turn": {func(s *State, _ *Node) {
			s.Spec.UpdateStrategy.RollingUpdate, s.Status.Wave = &v1alpha1.RollingUpdate{}, []string{"n0000"}
		}, "Update n0000 to r1 x2", false},
		"would replace them": {func(_ *State, n *Node) { n.Deployment.Drifted = true }, "", false},
		"would take some": {func(_ *State, n *Node) {
			n.Pods = pods(3, "x", n.Pods[0])
			n.Deployment.Replicas, n.Deployment.UpdatedReplicas = 3, 3
		}, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			d := Plan(held(test.change))
			if got := steps(d); got != test.want || got != "" && d.Steps[0].Keep != test.keep {
				t.Errorf("got %q, %+v", got, d.Steps)
			}
		})
	}
}

// TestHeldBackWhileItsAnalysisFails: a node that went back to older pods in its turn stays
// there once the analysis of its wave has failed, and goes on when it is promoted.
func TestHeldBackWhileItsAnalysisFails(t *testing.T) {
	began := metav1.NewMicroTime(start.Add(-time.Minute))
	for phase, want := range map[v1alpha1.AnalysisPhase]string{
		v1alpha1.AnalysisOfWave: "Update n0000 to r2 x2", v1alpha1.AnalysisFailed: "",
	} {
		s := servingFleet(2)
		s.Revision, s.Status.Wave = "r2", []string{"n0000"}
		s.Spec.UpdateStrategy.RollingUpdate = &v1alpha1.RollingUpdate{Analysis: []v1alpha1.AnalysisCheck{{Name: "errors", DuringWave: true}}}
		s.Status.Analysis = &v1alpha1.AnalysisStatus{Revision: "r2", Phase: phase, Generation: 1, Nodes: []string{"n0000"}, Began: began, Since: began}
		if phase == v1alpha1.AnalysisFailed {
			s.Status.Analysis.Checks = []v1alpha1.AnalysisCheckStatus{{Name: "errors", Failed: 9}}
		}
		s.Nodes[0].Deployment.Hold = &v1alpha1.Hold{Revision: "r2", Generation: 1, Attempts: 1, Replicas: 2, At: began}
		var got []string
		for _, step := range Plan(s).Steps {
			if step.Action != Measure {
				got = append(got, steps(Decision{Steps: []Step{step}}))
			}
		}
		if strings.Join(got, ", ") != want {
			t.Errorf("%s: got %q, want %q", phase, got, want)
		}
	}
}

// TestDrainedWhileItsWaveIsAnalysed: a node that is drained in the middle of its turn is not
// measured, and begins no turn while the others of its wave are.
func TestDrainedWhileItsWaveIsAnalysed(t *testing.T) {
	s := servingFleet(2)
	drained := &s.Nodes[0]
	s.Revision, s.Status.Wave = "r2", []string{"n0000"}
	s.Spec.UpdateStrategy.RollingUpdate = &v1alpha1.RollingUpdate{Analysis: []v1alpha1.AnalysisCheck{{Name: "errors"}}}
	began := metav1.NewMicroTime(start.Add(-time.Minute))
	s.Status.Analysis = &v1alpha1.AnalysisStatus{Revision: "r2", Phase: v1alpha1.AnalysisOfWave, Nodes: []string{"n0000", "n0001"}, Began: began, Since: began}
	drained.Deployment.Revision, drained.Deployment.DrainedAt, drained.Deployment.Settled = "r2", start, false
	drained.Deployment.Hold = &v1alpha1.Hold{Revision: "r2", Generation: 1, Attempts: 1, Replicas: 2, Trying: true, At: began}
	updatedTo(&s.Nodes[1], "r2")
	d := Plan(s)
	if a := d.Status.Analysis; steps(d) != "Unmark n0000" || a.Phase != v1alpha1.AnalysisMeasuring || !slices.Equal(a.Nodes, []string{"n0001"}) {
		t.Fatalf("drained: %+v\n%s", a, summary(d))
	}
	s.Status = d.Status
	*drained = servingNode("n0000")
	drained.Deployment.Hold = &v1alpha1.Hold{Revision: "r2", Generation: 1, Attempts: 2, Replicas: 2, At: began}
	if d := Plan(s); steps(d) != "" {
		t.Errorf("back, with the pods that it had: %s", summary(d))
	}
}

// TestUntried: while the Deployment controller has not seen what is tried again, what was
// rejected was so before: it is cleaned up, and the attempt goes on.
func TestUntried(t *testing.T) {
	for _, seen := range []bool{false, true} {
		s := rejecting(2, 0)
		d := s.Nodes[0].Deployment
		d.Hold = &v1alpha1.Hold{Revision: "r2", Generation: 1, Attempts: 1, Trying: true, Replicas: 3, At: metav1.NewMicroTime(start)}
		d.Settled = seen
		got := steps(Plan(s))
		if holds := strings.Contains(got, "HoldBack"); holds != seen || !strings.Contains(got, "DeletePods") {
			t.Errorf("seen %t: %s", seen, got)
		}
	}
}

// TestTaintEvicts: from the first pod that a taint takes, no more are asked for than
// run, in whatever state the node is, and none again while the taint is there.
func TestTaintEvicts(t *testing.T) {
	evicted := func(n *Node, pods ...int) {
		for _, i := range pods {
			n.Pods[i].Terminating = true
		}
	}
	// replaced has the first evicted, and the other made so much later.
	replaced := func(n *Node, after time.Duration) {
		deleted := start.Add(-time.Second)
		n.Pods[0].Terminating, n.Pods[0].Evicted, n.Pods[0].Deleted = true, true, deleted
		n.Pods[1].Created = deleted.Add(after)
	}
	marked := func(n *Node) {
		n.Deployment.Mark = v1alpha1.NewMark(start.Add(-30*time.Second), "r1", "")
		n.Checks[0] = Check{Port: 10080, Answered: true, Mark: n.Deployment.Mark, Since: start.Add(-29 * time.Second)}
	}
	held := func(n *Node, replicas int32) {
		n.Deployment.Replicas, n.Deployment.UpdatedReplicas = replicas, replicas
		n.Deployment.Hold = &v1alpha1.Hold{Revision: "r1", Generation: 1, Attempts: 1, Replicas: replicas, At: metav1.NewMicroTime(start.Add(-time.Hour))}
	}
	for name, test := range map[string]struct {
		change func(n *Node)
		want   string
	}{
		"the first is evicted":       {func(n *Node) { evicted(n, 0) }, "HoldBack n0000 to r1 x1"},
		"all are evicted":            {func(n *Node) { evicted(n, 0, 1) }, "HoldBack n0000 to r1 x0"},
		"they are gone already":      {func(n *Node) { n.Pods = nil }, "HoldBack n0000 to r1 x0"},
		"the new ones start":         {func(n *Node) { n.Pods = []Pod{{Name: "x", Revision: "r1"}} }, "HoldBack n0000 to r1 x0"},
		"the new ones run":           {func(n *Node) { replaced(n, 0) }, "HoldBack n0000 to r1 x0"},
		"those of before run":        {func(n *Node) { replaced(n, -time.Second) }, "HoldBack n0000 to r1 x1"},
		"new ones run, held":         {func(n *Node) { replaced(n, 0); held(n, 0) }, "Mark n0000"},
		"none is evicted yet":        {func(*Node) {}, "Mark n0000"},
		"the next is evicted":        {func(n *Node) { held(n, 1); evicted(n, 0, 1) }, "HoldBack n0000 to r1 x0"},
		"held already":               {func(n *Node) { held(n, 1); evicted(n, 0) }, "Mark n0000"},
		"while a detacher is slow":   {func(n *Node) { marked(n); evicted(n, 0, 1) }, "HoldBack n0000 to r1 x0"},
		"held while one is slow":     {func(n *Node) { marked(n); held(n, 0); evicted(n, 0, 1) }, "RequestDetachment n0000"},
		"wanted, and held":           {func(n *Node) { n.Wanted = true; held(n, 0); evicted(n, 0, 1) }, ""},
		"not tainted any more":       {func(n *Node) { n.Wanted, n.Tainted, n.Pods = true, false, nil; held(n, 0) }, "Update n0000 to r1 x2"},
		"others tolerate it":         {func(n *Node) { older(n); evicted(n, 0) }, "HoldBack n0000 to r0 x1"},
		"others tolerate it, halted": {func(n *Node) { older(n); held(n, 1); n.Deployment.Revision = "r0" }, "Mark n0000"},
	} {
		t.Run(name, func(t *testing.T) {
			s := servingFleet(3)
			byBoth(&s.Spec)
			s.Status.Wave = []string{"n0000"}
			n := &s.Nodes[0]
			n.Tainted, n.Wanted = true, false
			test.change(n)
			if got := steps(Plan(s)); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// older leaves the node a pod of another template.
func older(n *Node) { n.Pods[1].Revision = "r0" }
