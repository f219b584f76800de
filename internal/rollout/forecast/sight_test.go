package forecast

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/rollout"
	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"
)

// TestSight plays the same rollout with the planner seeing the whole fleet, and with
// what is in sight: no wave, no time and no word differs.
func TestSight(t *testing.T) {
	narrowed := 0
	rapid.Check(t, func(t *rapid.T) {
		s, pace := drawnFleet(t)
		whole := newFleet(s, pace)
		whole.sight = nil
		want, err := whole.play(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, played(t, s, pace)); diff != "" {
			t.Fatalf("(-whole +in sight)\n%s", diff)
		}
		if f := newFleet(s, pace); f.sight != nil {
			f.decide()
			narrowed += f.sight.others
		}
	})
	if narrowed == 0 {
		t.Error("no node was ever out of sight")
	}
}

// TestSightIsSmall looks at few nodes at a time, however great the fleet.
func TestSightIsSmall(t *testing.T) {
	f := newFleet(served(400, detaching(2)), Pace{Ready: time.Second})
	looks, most := 0, 0
	for again := true; again; looks++ {
		d := f.decide()
		if looks > 0 {
			most = max(most, len(f.sight.nodes))
		}
		idle := len(d.Steps) == 0 && cmp.Equal(d.Status, f.Status)
		f.carryOut(d)
		again = !idle || f.moveOn(d.WakeAt)
	}
	if got := f.Nodes[399].Deployment.Revision; got != "r2" || most == 0 || most > 10 {
		t.Errorf("up to %d nodes were in sight in %d looks, the last node has %s", most, looks, got)
	}
}

// drawnFleet is a fleet in the middle of anything.
func drawnFleet(t *rapid.T) (rollout.State, Pace) {
	budget := drawnCount(t, "budget", 4)
	u := detaching(1)
	u.MaxUnavailableNodes = &budget
	if rapid.Bool().Draw(t, "degraded") {
		u = v1alpha1.RollingUpdate{MaxDegradedNodes: &budget}
	}
	s := served(rapid.IntRange(1, 14).Draw(t, "nodes"), u)
	drawStrategy(t, &s)
	for i := range s.Nodes {
		drawNode(t, &s, &s.Nodes[i])
	}
	seconds := func(what string) time.Duration {
		return time.Duration(rapid.IntRange(0, 30).Draw(t, what)) * time.Second
	}
	return s, Pace{Ready: seconds("ready"), Stop: seconds("stop"), Detach: seconds("detach"), Attach: seconds("attach")}
}

func drawnCount(t *rapid.T, what string, most int) intstr.IntOrString {
	if rapid.Bool().Draw(t, what+" as a percentage") {
		return intstr.FromString(fmt.Sprintf("%d%%", rapid.IntRange(0, 100).Draw(t, what)))
	}
	return intstr.FromInt(rapid.IntRange(0, most).Draw(t, what))
}

// sometimes is true in one of so many draws.
func sometimes(t *rapid.T, of int, what string) bool {
	return rapid.IntRange(1, of).Draw(t, what) == of
}

func drawStrategy(t *rapid.T, s *rollout.State) {
	u := s.Spec.UpdateStrategy.RollingUpdate
	if sometimes(t, 3, "min serving") {
		u.MinServingNodes = new(drawnCount(t, "minServingNodes", 8))
	}
	if sometimes(t, 3, "partition") {
		u.Partition = new(drawnCount(t, "partition", 10))
	}
	if sometimes(t, 3, "canaries") {
		u.CanaryNodeSelector = map[string]string{"canary": ""}
	}
	if sometimes(t, 3, "zones") {
		u.Order.TopologyKey = "zone"
	}
	if sometimes(t, 4, "detacher") {
		u.AnnotateNodeToDetach = &v1alpha1.AnnotateNodeToDetach{Key: "detach"}
		if rapid.Bool().Draw(t, "timestamp") {
			u.WaitForDetachmentByAnnotatedTimestamp = &v1alpha1.WaitForDetachmentByAnnotatedTimestamp{Key: "detached-at", GracePeriodSeconds: new(int32(4))}
		}
	}
	if sometimes(t, 4, "analysis") {
		u.Analysis = []v1alpha1.AnalysisCheck{{Name: "a", Count: new(int32(2)), IntervalSeconds: new(int32(10)), DuringWave: rapid.Bool().Draw(t, "duringWave")}}
	}
	if sometimes(t, 4, "failurePolicy") {
		u.FailurePolicy, s.Spec.ProgressDeadlineSeconds = v1alpha1.RollBackOnFailure, new(int32(15))
	}
	if sometimes(t, 4, "dead nodes are ignored") {
		u.IgnoreNotReadyNodesAfterSeconds = new(int32(60))
	}
	s.Status.CurrentRevision = rapid.SampledFrom([]string{"", "r1", "r2"}).Draw(t, "currentRevision")
	s.Spec.MinReadySeconds = rapid.SampledFrom([]int32{0, 0, 7}).Draw(t, "minReadySeconds")
	s.Spec.Paused = sometimes(t, 12, "paused")
	s.DryRun.Done = rapid.Bool().Draw(t, "dryRun")
	s.Spec.PodsPerNode = new(rapid.SampledFrom([]int32{2, 2, 2, 1}).Draw(t, "podsPerNode"))
	s.Checkers[0].Exists, s.Checkers[0].Outdated = !sometimes(t, 8, "checker is missing"), sometimes(t, 8, "checker is outdated")
	if sometimes(t, 12, "refused") {
		s.DryRun = rollout.DryRun{Done: true, Refusal: "no"}
	}
}

// drawNode has about every third node be otherwise than serving with what it has.
func drawNode(t *rapid.T, s *rollout.State, n *rollout.Node) {
	if sometimes(t, 3, "canary") {
		n.Labels["canary"] = ""
	}
	n.Labels["zone"] = rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "zone")
	if sometimes(t, 3, "updated") {
		revise(n, "r2")
	}
	if sometimes(t, 3, "odd") {
		rapid.SampledFrom(oddities(s, n)).Draw(t, "oddity")()
	}
}

func revise(n *rollout.Node, revision string) {
	n.Deployment.Revision = revision
	for i := range n.Pods {
		n.Pods[i].Revision = revision
	}
}

// oddities are in what ways a node may be otherwise.
func oddities(s *rollout.State, n *rollout.Node) []func() {
	d := n.Deployment
	mark := func(at time.Duration) {
		d.Mark = v1alpha1.NewMark(now.Add(-at), "r2", "")
		n.Checks[0] = rollout.Check{Port: 10080, Answered: true, Mark: d.Mark, Since: now.Add(-at)}
	}
	return []func(){
		func() { n.Ready = false },
		func() { n.Wanted = false },
		func() { n.Exists, n.Wanted = false, false },
		func() { n.Deployment, n.Pods, n.Checks = nil, nil, nil },
		func() { d.Detached = true },
		func() { d.Detached = true; mark(time.Hour) },
		func() { mark(4 * time.Second); s.Status.Wave = append(s.Status.Wave, n.Name) },
		func() { s.Status.Wave = append(s.Status.Wave, n.Name) },
		func() { d.AttachedAt = now.Add(-time.Second) },
		func() { n.Pods[0].Ready, n.Pods[0].ReadySince = false, time.Time{} },
		func() { n.Pods[0].Ready, n.Pods[1].Ready, n.Checks[0].Serving = false, false, false },
		func() { n.Pods[0].ReadySince = now.Add(-2 * time.Second) },
		func() { n.Pods[0].Terminating = true },
		func() { n.Pods[0].Failed, n.Pods[0].Ready = "OutOfcpu", false },
		func() { n.Checks[0].Serving = false },
		func() { n.Checks[0].Answered = false },
		func() { revise(n, "r0") },
		func() { d.Drifted = true },
		func() { d.Outmoded = true },
		func() { d.Settled = false },
		func() { n.Leaving = true },
		func() { n.Leaving, n.Evicting = true, true },
		func() { n.CheckersSettled = false },
		func() { n.Detachment.Held = true },
		func() { n.Detachment.Timestamp = v1alpha1.Timestamp(now.Add(-time.Minute)) },
		func() { n.Detachment.Requested, n.Detachment.RequestedAt = true, now.Add(-time.Minute) },
		func() { d.PodsPerNode = 1 },
		func() { d.Mark = "somebody's" },
		func() { d.EmptyMark, n.Checks[0].Serving = true, false },
		func() { n.Tainted = true },
		func() { n.Checks[0].Blind = "its token has expired" },
		func() {
			n.Checks = append(n.Checks, rollout.Check{Port: 10079, Retiring: true, Answered: true, Serving: true, AskedBy: "10.0.0.9"})
		},
	}
}

// TestSightOfOddities plays each oddity by itself, beside nodes that get fewer pods, of which
// the partition holds one back.
func TestSightOfOddities(t *testing.T) {
	fleet := func(odd int) rollout.State {
		u := detaching(2)
		u.Partition = new(intstr.FromInt(1))
		s := served(8, u)
		s.DryRun.Done, s.Spec.PodsPerNode = false, new(int32(1))
		oddities(&s, &s.Nodes[7])[odd]()
		return s
	}
	for odd := range oddities(&rollout.State{}, &rollout.Node{Deployment: &rollout.Deployment{}}) {
		whole := newFleet(fleet(odd), Pace{})
		whole.sight = nil
		want, err := whole.play(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, played(t, fleet(odd), Pace{})); diff != "" {
			t.Errorf("oddity %d (-whole +in sight)\n%s", odd, diff)
		}
	}
}

// TestPlayEndsWithTheContext gives up where nobody waits for it any more.
func TestPlayEndsWithTheContext(t *testing.T) {
	gone := errors.New("interrupted")
	ctx, stop := context.WithCancelCause(t.Context())
	stop(gone)
	if f, err := Play(ctx, served(3, detaching(1)), Pace{}); !errors.Is(err, gone) || len(f.Waves) != 0 {
		t.Errorf("%+v, %v", f, err)
	}
}

// BenchmarkPlay forecasts a rollout of 5,000 nodes, one at a time and 5% at a time.
func BenchmarkPlay(b *testing.B) {
	for _, budget := range []int{1, 250} {
		b.Run(fmt.Sprintf("budget-%d", budget), func(b *testing.B) {
			s := served(5000, detaching(budget))
			b.ReportAllocs()
			for b.Loop() {
				if f, err := Play(context.Background(), s, Pace{Ready: 3 * time.Second, Stop: 2 * time.Second}); err != nil || len(f.Waves) != 5000/budget {
					b.Fatalf("%d waves, %v", len(f.Waves), err)
				}
			}
		})
	}
}
