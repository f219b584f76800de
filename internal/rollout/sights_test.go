package rollout

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// look is the decision of a controller after it saw the State, some time after start.
func look(sights *Sights, s State, after time.Duration) Decision {
	s.Now = start.Add(after)
	sights.See(&s)
	return Plan(s)
}

// TestClockOfTheDetacher: the grace after the detacher's answer lasts as long as it
// should, wherever the clock of the detacher stands.
func TestClockOfTheDetacher(t *testing.T) {
	for _, skew := range []time.Duration{-10 * time.Minute, 0, 10 * time.Minute} {
		t.Run(skew.String(), func(t *testing.T) {
			s := markedFleet(3)
			byBoth(&s.Spec)
			s.Nodes[0].Detachment = Detachment{Requested: true, Held: true, RequestedAt: start.Add(-20 * time.Second)}
			sights := &Sights{}
			if got := steps(look(sights, s, 20*time.Second)); got != "" {
				t.Fatalf("before the answer: %q", got)
			}
			s.Nodes[0].Detachment.Timestamp = start.Add(30*time.Second + skew).Format(time.RFC3339)
			for after, want := range map[time.Duration]string{30 * time.Second: "", 34 * time.Second: ""} {
				if got := steps(look(sights, s, after)); got != want {
					t.Errorf("after %s: %q", after, got)
				}
			}
			if got := steps(look(sights, s, 40*time.Second)); got != "Update n0000 to r2 x2" {
				t.Errorf("after the grace: %q", got)
			}
		})
	}
}

// TestClockOfAnotherLeader: what another leader wrote, by a clock that is behind or
// ahead, shortens no grace and no deadline: a new leader begins them anew.
func TestClockOfAnotherLeader(t *testing.T) {
	for _, skew := range []time.Duration{-15 * time.Minute, 15 * time.Minute} {
		wrote := start.Add(skew)
		for name, test := range map[string]struct {
			change func(s *State)
			// until is when it has lasted long enough for this leader.
			until time.Duration
			want  string
		}{
			"the mark's deadline": {func(s *State) {
				s.Nodes[0].Deployment.Mark = v1alpha1.NewMark(wrote, "r2", "")
				s.Nodes[0].Checks[0].Answered = false
				s.Spec.UpdateStrategy.RollingUpdate.DetachTimeoutPolicy = v1alpha1.ProceedOnDetachTimeout
				// A deadline is over at the second look.
			}, 611 * time.Second, "Update n0000 to r2 x2"},
			"the mark's grace without health checks": {func(s *State) {
				s.Nodes[0].Deployment.Mark = v1alpha1.NewMark(wrote, "r2", "")
				s.Nodes[0].Checks = nil
			}, 10 * time.Second, "Update n0000 to r2 x2"},
			"the grace of the request": {func(s *State) {
				byBoth(&s.Spec)
				s.Spec.UpdateStrategy.RollingUpdate.WaitForDetachmentByAnnotatedTimestamp = nil
				s.Nodes[0].Detachment = Detachment{Requested: true, Held: true, RequestedAt: wrote}
			}, 2 * time.Second, "Update n0000 to r2 x2"},
			"a held-back node's next attempt": {func(s *State) {
				n := &s.Nodes[0]
				n.Deployment.Hold = &v1alpha1.Hold{Attempts: 3, Revision: "r2", Generation: 1, At: metav1.NewMicroTime(wrote)}
			}, 4 * time.Second, "Update n0000 to r2 x2"},
		} {
			t.Run(name+" "+skew.String(), func(t *testing.T) {
				s := markedFleet(3)
				test.change(&s)
				sights := &Sights{}
				for _, after := range []time.Duration{0, test.until - time.Second} {
					if got := steps(look(sights, s, after)); got != "" {
						t.Fatalf("after %s: %q", after, got)
					}
				}
				if got := steps(look(sights, s, test.until)); got != test.want {
					t.Errorf("after %s: %q", test.until, got)
				}
			})
		}
	}
}

// TestClockOfTheKubelet: a pod of a node under way is available when this controller
// has seen it ready for long enough, and pods of nodes at rest are not judged anew.
func TestClockOfTheKubelet(t *testing.T) {
	s := markedFleet(3)
	s.Spec.MinReadySeconds = 30
	n := &s.Nodes[0]
	n.Deployment.Revision, n.Deployment.UpdatedAt = "r2", start.Add(-10*time.Second)
	n.Pods[0].Revision, n.Pods[1].Revision, n.Pods[1].Ready = "r2", "r2", false
	sights := &Sights{}
	look(sights, s, 0)
	n.Pods[1].Ready, n.Pods[1].ReadySince = true, start.Add(-time.Hour)
	if got := steps(look(sights, s, 10*time.Second)); got != "" {
		t.Fatalf("as soon as it is ready: %q", got)
	}
	if got := steps(look(sights, s, 39*time.Second)); got != "" {
		t.Errorf("a second before it is available: %q", got)
	}
	d := look(sights, s, 40*time.Second)
	if steps(d) != "Unmark n0000" || d.Status.ServingNodes != 2 {
		t.Errorf("when it is available:\n%s", summary(d))
	}
}

// TestClockOfTheKubeletBesideATurn: a pod that is ready anew on a node that is not under way is
// available when this controller has seen it ready for long enough, wherever the kubelet's clock
// stands. What was ready before anybody asked was so for long.
func TestClockOfTheKubeletBesideATurn(t *testing.T) {
	for _, behind := range []time.Duration{-10 * time.Minute, 0, 10 * time.Minute} {
		t.Run(behind.String(), func(t *testing.T) {
			s := servingFleet(3)
			sights := &Sights{}
			look(sights, s, 0)
			s.Spec.MinReadySeconds = 30
			if d := look(sights, s, time.Second); d.Status.ServingNodes != 3 {
				t.Fatalf("asked for the first time:\n%s", summary(d))
			}
			pod := &s.Nodes[0].Pods[0]
			pod.Ready = false
			look(sights, s, 2*time.Second)
			pod.Ready, pod.ReadySince = true, start.Add(10*time.Second-behind)
			for _, test := range []struct {
				after time.Duration
				serve int32
			}{{10 * time.Second, 2}, {39 * time.Second, 2}, {40 * time.Second, 3}} {
				if d := look(sights, s, test.after); d.Status.ServingNodes != test.serve {
					t.Errorf("after %s %d nodes serve, want %d", test.after, d.Status.ServingNodes, test.serve)
				}
			}
		})
	}
}

// TestKubeletsClockAhead: a pod that need not be ready for any time is available when it is
// ready, whatever the time there.
func TestKubeletsClockAhead(t *testing.T) {
	s := markedFleet(3)
	n := &s.Nodes[0]
	n.Deployment.Revision, n.Deployment.UpdatedAt = "r2", start.Add(-10*time.Second)
	for i := range n.Pods {
		n.Pods[i].Revision, n.Pods[i].ReadySince = "r2", start.Add(10*time.Minute)
	}
	if got := steps(look(&Sights{}, s, 0)); got != "Unmark n0000" {
		t.Errorf("got %q", got)
	}
}

// TestNewLeaderFindsFleetServing: a controller that begins to look takes nodes that
// serve for what they are.
func TestNewLeaderFindsFleetServing(t *testing.T) {
	s := servingFleet(3)
	s.Spec.MinReadySeconds = 60
	each(&s, func(n *Node) { n.Deployment.AttachedAt = start.Add(10 * time.Minute) })
	if d := look(&Sights{}, s, 0); d.Status.ServingNodes != 3 {
		t.Errorf("%s", summary(d))
	}
}

// TestSteadyByOurClock: pods that get ready on a node that was marked out of turn are taken
// for good when this controller has seen them ready for long, whatever the kubelet's clock says.
func TestSteadyByOurClock(t *testing.T) {
	s := servingFleet(2)
	s.Revision = "r2"
	n := &s.Nodes[0]
	n.Deployment.Mark = v1alpha1.NewMark(start, "r2", v1alpha1.MarkOutOfTurn)
	n.Checks[0] = Check{Port: 10080, Answered: true, Since: start}
	n.Pods[0].Ready, n.Pods[1].Ready = false, false
	sights := &Sights{}
	look(sights, s, 0)
	for i := range n.Pods {
		n.Pods[i].Ready, n.Pods[i].ReadySince = true, start.Add(-time.Hour)
	}
	if got := steps(look(sights, s, time.Minute)); got != "" {
		t.Errorf("ready for a moment: %s", got)
	}
	if got := steps(look(sights, s, time.Minute+steadyAfter)); got != "Unmark n0000" {
		t.Errorf("ready for %s: %q", steadyAfter, got)
	}
}

// TestSteadyOfAnEarlierTurn: pods that were ready in an earlier turn and crashed since are not
// taken for good as soon as they are ready for a moment.
func TestSteadyOfAnEarlierTurn(t *testing.T) {
	s := servingFleet(3)
	n := &s.Nodes[0]
	sights := &Sights{}
	look(sights, s, 0)
	n.Deployment.Mark = v1alpha1.NewMark(start, "r1", "")
	look(sights, s, time.Second)
	n.Deployment.Mark = ""
	look(sights, s, 2*time.Second)

	s.Revision = "r2"
	n.Pods[0].Ready, n.Pods[1].Ready = false, false
	n.Checks[0] = Check{Port: 10080, Answered: true, Since: start.Add(3 * time.Second)}
	d := look(sights, s, time.Minute)
	if steps(d) != "Mark n0000 out of turn" {
		t.Fatalf("when they have crashed:\n%s", summary(d))
	}
	n.Deployment.Mark = d.Steps[0].Mark
	n.Pods[0].Ready, n.Pods[1].Ready = true, true
	if got := steps(look(sights, s, time.Minute+50*time.Millisecond)); got != "" {
		t.Errorf("ready for a moment: %q", got)
	}
}

// TestNewLeaderFindsANodeComingBack: a node of the wave was put back by another leader, by
// whatever clock: its grace is begun anew, since it may have come back just now.
func TestNewLeaderFindsANodeComingBack(t *testing.T) {
	s := servingFleet(3)
	s.Status.Wave = []string{"n0000"}
	s.Nodes[0].Deployment.AttachedAt = start.Add(-30 * time.Minute)
	sights := &Sights{}
	for _, after := range []time.Duration{0, 9 * time.Second} {
		if got := stateOf(look(sights, s, after), "n0000"); got != v1alpha1.NodeAttaching {
			t.Errorf("after %s: %s", after, got)
		}
	}
	if got := stateOf(look(sights, s, 10*time.Second), "n0000"); got != v1alpha1.NodeServing {
		t.Errorf("after the grace: %s", got)
	}
}

// TestNodeJoinsNotReady: for how long a node has been NotReady counts from when it was first
// seen, also where that was long after the others.
func TestNodeJoinsNotReady(t *testing.T) {
	s := servingFleet(3)
	s.Spec.UpdateStrategy.RollingUpdate.IgnoreNotReadyNodesAfterSeconds = new(int32(60))
	sights := &Sights{}
	look(sights, s, 0)
	joined := servingNode("n0003")
	joined.Ready = false
	s.Nodes, s.Revision = append(s.Nodes, joined), "r2"
	for _, test := range []struct {
		after time.Duration
		begin int
	}{{10 * time.Minute, 0}, {10*time.Minute + 59*time.Second, 0}, {11 * time.Minute, 0}, {11*time.Minute + lookAgain, 1}} {
		if d := look(sights, s, test.after); len(d.Status.Wave) != test.begin {
			t.Errorf("after %s: %s", test.after, summary(d))
		}
	}
}

// TestSilencedAfterItsMark: of a port that was never heard the grace counts from when nobody
// was left behind it: until then it may have passed.
func TestSilencedAfterItsMark(t *testing.T) {
	s := markedFleet(3)
	s.Nodes[0].Checks[0] = Check{Port: 10080}
	sights := &Sights{}
	look(sights, s, 0)
	s.Nodes[0].Checks[0].Gone = true
	for _, test := range []struct {
		after time.Duration
		want  string
	}{{8 * time.Second, ""}, {10 * time.Second, ""}, {17 * time.Second, ""}, {18 * time.Second, "Update n0000 to r2 x2"}} {
		if d := look(sights, s, test.after); steps(d) != test.want {
			t.Errorf("after %s: %s", test.after, summary(d))
		}
	}
}

// TestSilencedPortByPort: of each port the grace counts from when nobody was left behind it
// and the node was marked, whatever is with the others and whenever it fell silent to us.
func TestSilencedPortByPort(t *testing.T) {
	long := start.Add(-time.Hour)
	for name, test := range map[string]struct {
		checks []Check
		gone   int
		// marked is when the node is, gone is the port a minute after start.
		marked time.Duration
	}{
		"another port was gone before": {[]Check{{Port: 10080, Gone: true}, {Port: 10081}}, 1, 0},
		"silent since it was marked":   {[]Check{{Port: 10080, Since: start.Add(-time.Second)}}, 0, -30 * time.Second},
		"silent before it was marked":  {[]Check{{Port: 10080, Since: long}}, 0, 59 * time.Second},
		"gone before it was marked":    {[]Check{{Port: 10080, Since: long, Gone: true}}, 0, time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			s := markedFleet(3)
			n := &s.Nodes[0]
			n.Checks, n.Deployment.Mark = test.checks, ""
			sights := &Sights{}
			look(sights, s, 0)
			look(sights, s, 30*time.Second)
			n.Deployment.Mark = v1alpha1.NewMark(start.Add(test.marked), "r2", "")
			look(sights, s, max(30*time.Second, test.marked))
			n.Checks[test.gone].Gone = true
			for _, test := range []struct {
				after time.Duration
				want  string
			}{{60 * time.Second, ""}, {69 * time.Second, ""}, {70 * time.Second, "Update n0000 to r2 x2"}} {
				if d := look(sights, s, test.after); steps(d) != test.want {
					t.Errorf("after %s: %s", test.after, summary(d))
				}
			}
		})
	}
}

// TestClaimBesideAStrayTimestamp: a new leader takes its turn on a node that carries a
// timestamp which no detacher removes, and does not claim and drop it again and again.
func TestClaimBesideAStrayTimestamp(t *testing.T) {
	s := servingFleet(3)
	byBoth(&s.Spec)
	s.Revision = "r2"
	n := &s.Nodes[0]
	n.Detachment.Timestamp, n.Deployment.AttachedAt = start.Add(-time.Hour).Format(time.RFC3339), start.Add(-time.Hour)
	sights := &Sights{}
	s.Status = look(sights, s, 0).Status
	if len(s.Status.Wave) != 1 || s.Status.Wave[0] != n.Name {
		t.Fatalf("the wave is %v", s.Status.Wave)
	}
	if got := steps(look(sights, s, time.Second)); got != "Mark n0000" {
		t.Errorf("got %q", got)
	}
}

// TestReleasedWithoutItsMark: a node whose mark somebody else took has as long to come back
// as any other, from when it was released: it is neither taken for one that does not come
// back, nor begun again before its detacher has let go, nor overdue.
func TestReleasedWithoutItsMark(t *testing.T) {
	for _, outdated := range []bool{false, true} {
		s := servingFleet(3)
		byBoth(&s.Spec)
		n := &s.Nodes[0]
		n.Deployment.Detached, n.Deployment.Mark = true, v1alpha1.NewMark(start.Add(-time.Minute), "r1", "")
		n.Checks[0] = Check{Port: 10080, Answered: true, Mark: n.Deployment.Mark, Since: start.Add(-time.Minute)}
		n.Detachment = Detachment{Requested: true, Held: true, RequestedAt: start.Add(-time.Minute), Timestamp: start.Add(-time.Minute).Format(time.RFC3339)}
		if outdated {
			s.Revision = "r2"
		}
		sights := &Sights{}
		s.Status = look(sights, s, 0).Status

		n.Deployment.Detached, n.Deployment.Mark = false, ""
		n.Checks[0] = Check{Port: 10080, Answered: true, Serving: true, Since: start.Add(time.Hour)}
		d := look(sights, s, time.Hour)
		if got := steps(d); got != "Unmark n0000, ReleaseDetachment n0000" {
			t.Fatalf("outdated %t: %q", outdated, got)
		}
		s.Status, n.Deployment.AttachedAt, n.Detachment = d.Status, d.Steps[0].At, Detachment{Timestamp: n.Detachment.Timestamp}
		timeout := s.Spec.Strategy().DetachTimeout
		for _, after := range []time.Duration{time.Second, 2 * time.Second, timeout} {
			d = look(sights, s, time.Hour+after)
			s.Status = d.Status
			overdue := condition(t, d, v1alpha1.ConditionProgressing).Reason == v1alpha1.ReasonProgressDeadlineExceeded
			if strings.Contains(steps(d), "Mark") || stateOf(d, n.Name) != v1alpha1.NodeAttaching || overdue {
				t.Errorf("outdated %t, after %s:\n%s", outdated, after, summary(d))
			}
		}
		look(sights, s, time.Hour+time.Second+timeout)
		d = look(sights, s, time.Hour+time.Second+timeout+lookAgain)
		if b := condition(t, d, v1alpha1.ConditionBlocked); b.Reason != v1alpha1.ReasonAttachTimedOut {
			t.Errorf("outdated %t, in the end:\n%s", outdated, summary(d))
		}
	}
}

// TestSightsForget: nothing is kept of nodes that are gone.
func TestSightsForget(t *testing.T) {
	s := servingFleet(3)
	sights := &Sights{}
	look(sights, s, 0)
	s.Nodes = s.Nodes[1:]
	look(sights, s, time.Second)
	if len(sights.nodes) != 2 {
		t.Errorf("%d nodes are remembered", len(sights.nodes))
	}
}

// TestMoments: what is written into the objects of a node is never before what stands
// there, by whatever clock that was written.
func TestMoments(t *testing.T) {
	ahead := start.Add(15 * time.Minute)
	s := servingFleet(2)
	s.Revision, s.Status.Wave = "r2", []string{"n0000"}
	s.Nodes[0].Deployment.UpdatedAt = ahead
	marks := Plan(s)
	at, _ := marks.Steps[0].Mark.At()
	if steps(marks) != "Mark n0000" || !at.After(ahead) {
		t.Fatalf("marked at %s, updated at %s", at, ahead)
	}

	s = markedFleet(2)
	s.Nodes[0].Deployment.Mark = v1alpha1.NewMark(ahead, "r2", "")
	s.Nodes[0].Checks[0].Mark = s.Nodes[0].Deployment.Mark
	s.Nodes[0].Seen = &Seen{}
	updates := Plan(s)
	if steps(updates) != "Update n0000 to r2 x2" || !updates.Steps[0].At.After(ahead) {
		t.Fatalf("marked at %s, updates at %+v", ahead, updates.Steps)
	}
	n := &s.Nodes[0]
	n.Deployment.Revision, n.Deployment.UpdatedAt = "r2", updates.Steps[0].At
	if d := Plan(s); steps(d) != "" || stateOf(d, "n0000") != v1alpha1.NodeUpdating {
		t.Errorf("pods of an older revision are left:\n%s", summary(d))
	}
}

// TestAPlainPortIsAskedAgain: what a port that repeats no mark said last may be of before the
// mark, as where the controller was frozen before it wrote that, and no grace follows it.
func TestAPlainPortIsAskedAgain(t *testing.T) {
	s := markedFleet(3)
	s.Spec.UpdateStrategy.RollingUpdate.AnnotateDeploymentToDetach = &v1alpha1.AnnotateDeploymentToDetach{GracePeriodSeconds: new(int32(0))}
	n := &s.Nodes[0]
	mark := n.Deployment.Mark
	n.Deployment.Mark, n.Checks[0].Mark, n.Checks[0].Unmarked = "", "", true
	sights := &Sights{}
	look(sights, s, 0)
	n.Deployment.Mark = mark
	for _, at := range []struct {
		after time.Duration
		want  string
	}{
		{time.Hour, ""}, {time.Hour + lookAgain - time.Millisecond, ""}, {time.Hour + lookAgain, "Update n0000 to r2 x2"},
	} {
		if got := steps(look(sights, s, at.after)); got != at.want {
			t.Errorf("after %s: got %q, want %q", at.after, got, at.want)
		}
	}
}

// TestReturningNodeKeepsItsPlace: a node whose mark was taken off before it was updated is in the wave
// until load balancers may have put it back. A new leader has nothing else to know it by, and would
// begin the next one.
func TestReturningNodeKeepsItsPlace(t *testing.T) {
	s := servingFleet(2)
	s.Spec.UpdateStrategy.RollingUpdate.AttachGracePeriodSeconds = new(int32(10))
	s.Revision, s.Spec.Paused, s.Status.Wave = "r2", true, []string{"n0000"}
	n := &s.Nodes[0]
	n.Deployment.Mark = v1alpha1.NewMark(start, "r2", "")
	first := &Sights{}
	look(first, s, 0)
	n.Deployment.Mark, n.Deployment.AttachedAt = "", start.Add(time.Second)
	n.Checks[0].Since = start.Add(time.Second)
	d := look(first, s, 2*time.Second)
	if !slices.Equal(d.Status.Wave, []string{"n0000"}) {
		t.Fatalf("the wave is %s\n%s", d.Status.Wave, summary(d))
	}
	s.Status, s.Spec.Paused = d.Status, false
	next := &Sights{}
	for _, at := range []time.Duration{3 * time.Second, 4 * time.Second, 12 * time.Second} {
		d = look(next, s, at)
		if slices.Contains(d.Status.Wave, "n0001") || strings.Contains(steps(d), "n0001") {
			t.Fatalf("after %s\n%s", at, summary(d))
		}
	}
}
