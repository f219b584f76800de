package forecast

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/rollout"
	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"
)

var now = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// served is a fleet on which every node serves with revision r1, and whose
// template is r2.
func served(nodes int, u v1alpha1.RollingUpdate) rollout.State {
	s := rollout.State{
		Now: now, Generation: 2, Revision: "r2", Revisions: map[string]bool{"r1": true}, Detachers: []rollout.Detacher{{Ask: "detach", Answer: "detached-at"}},
	}
	s.Spec.PodsPerNode = new(int32(2))
	s.Spec.HealthCheckNodePorts = []int32{10080}
	s.Spec.UpdateStrategy.RollingUpdate = &u
	s.Checkers = []rollout.Checker{{Port: 10080, Wanted: true, Exists: true}}
	for i := range nodes {
		n := rollout.Node{Name: fmt.Sprintf("n%d", i+1), Exists: true, Wanted: true, Ready: true, CheckersSettled: true, Labels: map[string]string{}}
		n.Deployment = &rollout.Deployment{Revision: "r1", Replicas: 2, PodsPerNode: 2, Settled: true, UpdatedReplicas: 2, ReadyReplicas: 2, Surge: 1}
		for j := range 2 {
			n.Pods = append(n.Pods, rollout.Pod{Name: fmt.Sprintf("p%d", j), Revision: "r1", ReplicaSet: "h1", Created: now.Add(-time.Hour), Running: true, Ready: true, ReadySince: now.Add(-time.Hour)})
		}
		n.Checks = []rollout.Check{{Port: 10080, Answered: true, Serving: true, Since: now.Add(-time.Hour)}}
		s.Nodes = append(s.Nodes, n)
	}
	return s
}

func detaching(nodes int) v1alpha1.RollingUpdate {
	return v1alpha1.RollingUpdate{
		MaxUnavailableNodes:        new(intstr.FromInt(nodes)),
		AnnotateDeploymentToDetach: &v1alpha1.AnnotateDeploymentToDetach{GracePeriodSeconds: new(int32(10))},
		AttachGracePeriodSeconds:   new(int32(5)),
	}
}

// text is a forecast to be compared.
func text(f Forecast) string {
	var b strings.Builder
	for _, w := range f.Waves {
		fmt.Fprintf(&b, "%s to %s: %s\n", w.Begins, w.Serves, strings.Join(w.Nodes, " "))
	}
	if f.Stops != "" {
		fmt.Fprintf(&b, "left %s: %s\n", strings.Join(f.Left, " "), f.Stops)
	}
	return b.String()
}

// played is a forecast to its end.
func played(t rapid.TB, s rollout.State, pace Pace) Forecast {
	t.Helper()
	f, err := Play(context.Background(), s, pace)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestPlay(t *testing.T) {
	pace := Pace{Ready: 3 * time.Second, Stop: 2 * time.Second, Detach: 30 * time.Second, Attach: 20 * time.Second}
	for name, c := range map[string]struct {
		change func(*rollout.State)
		want   string
	}{
		// The grace, the new pods (which outlast the old ones), the attach grace.
		"one at a time": {func(*rollout.State) {}, "0s to 18s: n1\n18s to 36s: n2\n36s to 54s: n3\n"},
		"two at a time": {func(s *rollout.State) {
			s.Spec.UpdateStrategy.RollingUpdate = new(detaching(2))
		}, "0s to 18s: n1 n2\n18s to 36s: n3\n"},
		"minReadySeconds": {func(s *rollout.State) { s.Spec.MinReadySeconds = 7 }, "0s to 25s: n1\n25s to 50s: n2\n50s to 1m15s: n3\n"},
		"detacher": {func(s *rollout.State) {
			u := s.Spec.UpdateStrategy.RollingUpdate
			u.AnnotateNodeToDetach = &v1alpha1.AnnotateNodeToDetach{Key: "detach"}
			u.WaitForDetachmentByAnnotatedTimestamp = &v1alpha1.WaitForDetachmentByAnnotatedTimestamp{Key: "detached-at", GracePeriodSeconds: new(int32(4))}
			s.Nodes = s.Nodes[:1]
			s.Spec.UpdateStrategy.RollingUpdate.MinServingNodes = new(intstr.FromInt32(0))
		}, "0s to 1m7s: n1\n"},
		"a pod is made anew on an updated node": {func(s *rollout.State) {
			n := &s.Nodes[0]
			n.Deployment.Revision, n.Pods[0].Revision, n.Pods[1].Revision = "r2", "r2", "r2"
			n.Pods[1].Terminating = true
		}, "8s to 26s: n2\n26s to 44s: n3\n"},
		"degraded": {func(s *rollout.State) {
			s.Spec.UpdateStrategy.RollingUpdate = &v1alpha1.RollingUpdate{AttachGracePeriodSeconds: new(int32(5))}
		}, "0s to 8s: n1\n8s to 16s: n2\n16s to 24s: n3\n"},
		"canary": {func(s *rollout.State) {
			s.Spec.UpdateStrategy.RollingUpdate.CanaryNodeSelector = map[string]string{"canary": ""}
			s.Nodes[2].Labels["canary"] = ""
		}, "0s to 18s: n3\n18s to 36s: n1\n36s to 54s: n2\n"},
		"partition": {func(s *rollout.State) {
			s.Spec.UpdateStrategy.RollingUpdate.Partition = new(intstr.FromInt(2))
		}, "0s to 18s: n1\nleft n2 n3: rollingUpdate.partition keeps them at the revision they have\n"},
		"analysis": {func(s *rollout.State) {
			s.Spec.UpdateStrategy.RollingUpdate.Analysis = []v1alpha1.AnalysisCheck{{Name: "a", Count: new(int32(2)), IntervalSeconds: new(int32(10))}}
		}, "0s to 18s: n1\n38s to 56s: n2\n1m16s to 1m34s: n3\n"},
		"paused": {func(s *rollout.State) { s.Spec.Paused = true }, "left n1 n2 n3: spec.paused is set\n"},
		"minServingNodes": {func(s *rollout.State) {
			s.Nodes = s.Nodes[:1]
		}, "left n1: taking out node n1 would leave 0 nodes serving, minServingNodes is 1\n"},
		"nothing to do": {func(s *rollout.State) {
			s.Revision = "r1"
		}, ""},
		"somebody changed how many pods make a node serve": {func(s *rollout.State) {
			s.Nodes[0].Deployment.PodsPerNode = 1
		}, "0s to 18s: n1\n18s to 36s: n2\n36s to 54s: n3\n"},
		"under way": {func(s *rollout.State) {
			s.Status.Wave = []string{"n1"}
			n := &s.Nodes[0]
			n.Deployment.Mark = v1alpha1.NewMark(now.Add(-4*time.Second), "r2", "")
			n.Checks[0] = rollout.Check{Port: 10080, Answered: true, Mark: n.Deployment.Mark, Since: now.Add(-4 * time.Second)}
		}, "0s to 14s: n1\n14s to 32s: n2\n32s to 50s: n3\n"},
	} {
		t.Run(name, func(t *testing.T) {
			s := served(3, detaching(1))
			c.change(&s)
			if diff := cmp.Diff(c.want, text(played(t, s, pace))); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// TestPlayIsWhole plays fleets of which some nodes have the template already:
// each other node has one turn, no wave is greater than the budget, and the
// state that was given stays as it was.
func TestPlayIsWhole(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		nodes := rapid.IntRange(2, 9).Draw(t, "nodes")
		budget := rapid.IntRange(1, 4).Draw(t, "budget")
		u := detaching(budget)
		if rapid.Bool().Draw(t, "degraded") {
			u = v1alpha1.RollingUpdate{MaxDegradedNodes: new(intstr.FromInt(budget))}
		}
		s := served(nodes, u)
		var outdated []string
		for i := range s.Nodes {
			n := &s.Nodes[i]
			if rapid.Bool().Draw(t, "updated") {
				n.Deployment.Revision, n.Pods[0].Revision, n.Pods[1].Revision = "r2", "r2", "r2"
			} else {
				outdated = append(outdated, n.Name)
			}
		}
		before := fmt.Sprintf("%+v %+v %+v", s.Nodes, s.Nodes[0].Deployment, s.Status)
		f := played(t, s, Pace{Ready: time.Duration(rapid.IntRange(1, 5).Draw(t, "ready")) * time.Second})
		if after := fmt.Sprintf("%+v %+v %+v", s.Nodes, s.Nodes[0].Deployment, s.Status); before != after {
			t.Fatalf("the state was changed:\n%s\n%s", before, after)
		}
		var turns []string
		for _, w := range f.Waves {
			turns = append(turns, w.Nodes...)
			if len(w.Nodes) > budget || w.Serves <= w.Begins || w.Serves > f.Took {
				t.Fatalf("budget %d, took %s, wave %+v", budget, f.Took, w)
			}
		}
		slices.Sort(turns)
		if !slices.Equal(turns, outdated) || f.Stops != "" {
			t.Fatalf("outdated %v, forecast %+v", outdated, f)
		}
	})
}

// TestMarkFailsHealthChecks: any mark does, also one that somebody left without a value, until
// it is removed.
func TestMarkFailsHealthChecks(t *testing.T) {
	for _, d := range []rollout.Deployment{{}, {EmptyMark: true}, {Mark: "somebody's"}, {Mark: v1alpha1.NewMark(now, "r2", "")}} {
		f := newFleet(served(1, detaching(1)), Pace{})
		n := &f.Nodes[0]
		n.Deployment.Mark, n.Deployment.EmptyMark = d.Mark, d.EmptyMark
		marked := n.Marked()
		f.answer(n)
		if c := n.Checks[0]; c.Serving == marked || c.Mark != d.Mark {
			t.Errorf("with the mark %q it answers %+v", d.Mark, c)
		}
		f.act(n, rollout.Step{Action: rollout.Unmark, Node: n.Name})
		if n.Marked() {
			t.Errorf("the mark %q is there after it was removed", d.Mark)
		}
	}
}
