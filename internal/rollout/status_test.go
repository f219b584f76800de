package rollout

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestConditions: each reason can be reached, and says what is the matter.
func TestConditions(t *testing.T) {
	const available, progressing, degraded, blocked = v1alpha1.ConditionAvailable, v1alpha1.ConditionProgressing, v1alpha1.ConditionDegraded, v1alpha1.ConditionBlocked
	const warning = v1alpha1.ConditionWarning
	outdate := func(s *State) { s.Revision = "r2" }
	for _, test := range []struct {
		kind, reason string
		status       metav1.ConditionStatus
		change       func(s *State)
		says         string
	}{
		{available, v1alpha1.ReasonNodesServing, "True", func(*State) {}, ""},
		{available, v1alpha1.ReasonTooFewNodesServing, "False", func(s *State) { each(s, func(n *Node) { n.Ready = false }) }, ""},
		{available, v1alpha1.ReasonNoNodes, "False", func(s *State) { s.Nodes = nil }, "nodeSelector"},
		{available, v1alpha1.ReasonBeingDeleted, "False", func(s *State) { s.Deletion = DeleteInWaves }, "is being deleted"},
		{progressing, v1alpha1.ReasonComplete, "True", func(*State) {}, "serves"},
		{progressing, v1alpha1.ReasonComplete, "True", func(s *State) { s.Nodes = nil }, "nothing is proven"},
		{progressing, v1alpha1.ReasonRollingOut, "True", outdate, ""},
		{progressing, v1alpha1.ReasonPaused, "False", func(s *State) { outdate(s); s.Spec.Paused = true }, ""},
		{progressing, v1alpha1.ReasonDetachTimedOut, "False", func(s *State) {
			*s = markedFleet(2)
			s.Now = start.Add(time.Hour)
			s.Nodes[0].Checks[0].Answered = false
		}, "n0000"},
		{progressing, v1alpha1.ReasonProgressDeadlineExceeded, "False", func(s *State) {
			s.Status.Wave = []string{"n0000"}
			s.Nodes[0].Pods[0].Ready = false
		}, "n0000"},
		{degraded, v1alpha1.ReasonAsExpected, "False", func(*State) {}, ""},
		{degraded, v1alpha1.ReasonNodesNotServing, "True", func(s *State) { s.Nodes[1].Ready = false }, "n0001"},
		{degraded, v1alpha1.ReasonPodsRejected, "True", func(s *State) {
			s.Nodes[1].Deployment.Hold = &v1alpha1.Hold{Attempts: 1, Revision: "r1", Reason: "no CPU", Trying: true}
		}, "n0001: no CPU"},
		{blocked, v1alpha1.ReasonAsExpected, "False", func(*State) {}, ""},
		{blocked, v1alpha1.ReasonFloorReached, "True", func(s *State) {
			outdate(s)
			s.Spec.UpdateStrategy.RollingUpdate.MinServingNodes = number(9)
		}, "minServingNodes is 9"},
		{blocked, v1alpha1.ReasonNodeNotReady, "True", func(s *State) {
			outdate(s)
			u := s.Spec.UpdateStrategy.RollingUpdate
			s.Nodes[1].Ready, u.MaxUnavailableNodes, u.MinServingNodes = false, number(2), number(0)
		}, "n0001"},
		{blocked, v1alpha1.ReasonBudgetExhausted, "True", func(s *State) { outdate(s); s.Nodes[1].Ready = false }, "ignoreNotReadyNodesAfterSeconds"},
		{blocked, v1alpha1.ReasonBudgetExhausted, "True", func(s *State) { outdate(s); s.Nodes[1].Deployment = nil; s.DryRun.Done = true }, "n0001"},
		{blocked, v1alpha1.ReasonDeploymentRefused, "True", func(s *State) { outdate(s); s.DryRun.Refusal = "no such class" }, "no such class"},
		{blocked, v1alpha1.ReasonHealthCheckerNotReady, "True", func(s *State) { outdate(s); s.Nodes[0].CheckersSettled = false }, "n0000"},
		{blocked, v1alpha1.ReasonInvalidSpec, "True", func(s *State) {
			s.Spec.UpdateStrategy.RollingUpdate.Partition = number(-1)
		}, "partition"},
		{blocked, v1alpha1.ReasonServiceUnusable, "True", func(s *State) {
			s.Faults = []Fault{{v1alpha1.ReasonServiceUnusable, "it has a selector"}}
		}, "it has a selector"},
		{warning, v1alpha1.ReasonHostPortShared, "True", func(s *State) {
			s.Warnings = []Fault{{v1alpha1.ReasonHostPortShared, "port 80"}}
		}, "port 80"},
		{warning, v1alpha1.ReasonAsExpected, "False", func(s *State) {
			s.Status.Conditions = []metav1.Condition{{Type: warning, Status: "True", Reason: v1alpha1.ReasonHostPortShared}}
		}, ""},
	} {
		t.Run(test.kind+test.reason, func(t *testing.T) {
			s := servingFleet(2)
			test.change(&s)
			c := condition(t, Plan(s), test.kind)
			if c.Reason != test.reason || c.Status != test.status || !strings.Contains(c.Message, test.says) || c.ObservedGeneration != 1 {
				t.Errorf("got %+v", c)
			}
		})
	}
}

// TestStatusRests: the same State later gives the same status, so that nothing is written.
func TestStatusRests(t *testing.T) {
	s := servingFleet(3)
	s.Nodes[1].Ready = false
	first := Plan(s).Status
	s.Status, s.Now = first, start.Add(time.Hour)
	if second := Plan(s).Status; fmt.Sprint(second) != fmt.Sprint(first) {
		t.Errorf("got %v\nthen %v", first, second)
	}
}

// TestSince: the time of a state is that of its beginning, in which only the state counts.
func TestSince(t *testing.T) {
	s := servingFleet(3)
	s.Nodes[1].Ready = false
	for _, step := range []struct {
		after  time.Duration
		change func(n *Node)
		state  v1alpha1.NodeState
		since  time.Duration
	}{
		{0, func(*Node) {}, v1alpha1.NodeUnavailable, 0},
		{time.Hour, func(*Node) {}, v1alpha1.NodeUnavailable, 0},
		{2 * time.Hour, func(n *Node) { n.Ready, n.Checks[0].Serving = true, false }, v1alpha1.NodeUnavailable, 0},
		{3 * time.Hour, func(n *Node) { n.Checks[0].Serving, n.Pods[0].Ready = true, false }, v1alpha1.NodeDegraded, 3 * time.Hour},
		{4 * time.Hour, func(*Node) {}, v1alpha1.NodeDegraded, 3 * time.Hour},
	} {
		s.Now = start.Add(step.after)
		step.change(&s.Nodes[1])
		s.Status = Plan(s).Status
		if n := s.Status.Nodes; len(n) != 1 || n[0].State != step.state || !n[0].Since.Time.Equal(start.Add(step.since)) {
			t.Errorf("after %s: %+v", step.after, n)
		}
	}
}

// TestListedNodes: the list is bounded, and those of the wave come first.
func TestListedNodes(t *testing.T) {
	s := servingFleet(maxListed + 20)
	last := s.Nodes[maxListed+19].Name
	s.Status.Wave = []string{last}
	each(&s, func(n *Node) { n.Ready = false })
	d := Plan(s)
	if len(d.Status.Nodes) != maxListed || d.Status.Nodes[0].Name != last {
		t.Errorf("%d nodes are listed, first %s", len(d.Status.Nodes), d.Status.Nodes[0].Name)
	}
	if c := condition(t, d, v1alpha1.ConditionDegraded); !strings.Contains(c.Message, "and 66 more") {
		t.Errorf("message %q", c.Message)
	}
}

// TestCurrentRevision: it follows only when every node has the new one and serves.
func TestCurrentRevision(t *testing.T) {
	s := servingFleet(2)
	s.Revision = "r2"
	each(&s, func(n *Node) {
		n.Deployment.Revision, n.Pods[0].Revision, n.Pods[1].Revision = "r2", "r2", "r2"
	})
	s.Nodes[1].Pods[0].Ready = false
	if d := Plan(s); d.Status.CurrentRevision != "r1" || d.Status.UpdatedNodes != 2 || d.Status.ServingNodes != 1 || stateOf(d, "n0001") != v1alpha1.NodeDegraded {
		t.Errorf("%+v", d.Status)
	}
	s.Nodes[1].Pods[0].Ready = true
	if d := Plan(s); d.Status.CurrentRevision != "r2" || d.Status.ServingNodes != 2 {
		t.Errorf("%+v", d.Status)
	}
}

// TestNoPods: with podsPerNode 0 minServingNodes keeps the last node; without one all are
// emptied, one after another, and that is what the spec wants.
func TestNoPods(t *testing.T) {
	s := servingFleet(2)
	s.Spec.PodsPerNode = new(int32(0))
	s.Spec.UpdateStrategy.RollingUpdate.MaxUnavailableNodes = percent(100)
	d := Plan(s)
	if len(d.Status.Wave) != 1 || condition(t, d, v1alpha1.ConditionBlocked).Reason != v1alpha1.ReasonFloorReached {
		t.Errorf("minServingNodes is 1:\n%s", summary(d))
	}
	s.Spec.UpdateStrategy.RollingUpdate.MinServingNodes = number(0)
	s.Spec.UpdateStrategy.RollingUpdate.MaxUnavailableNodes = number(1)
	for i := range s.Nodes {
		n := &s.Nodes[i]
		if d := Plan(s); len(d.Status.Wave) != 1 || d.Status.Wave[0] != n.Name {
			t.Fatalf("with %d nodes emptied:\n%s", i, summary(d))
		}
		n.Deployment.PodsPerNode, n.Deployment.Replicas, n.Deployment.UpdatedReplicas, n.Pods = 0, 0, 0, nil
		n.Checks[0].Serving = false
	}
	d = Plan(s)
	if steps(d) != "" || len(d.Status.Wave) != 0 || condition(t, d, v1alpha1.ConditionProgressing).Reason != v1alpha1.ReasonComplete {
		t.Errorf("all are emptied:\n%s", summary(d))
	}
}

// TestNoPodsWhileNodesStayAttached: where nodes are updated while they serve, one that is to have no
// pods leaves the load balancer first all the same, and minServingNodes holds.
func TestNoPodsWhileNodesStayAttached(t *testing.T) {
	s := servingFleet(2)
	s.Spec.UpdateStrategy.RollingUpdate = &v1alpha1.RollingUpdate{MaxDegradedNodes: number(2)}
	s.Spec.PodsPerNode = new(int32(0))
	d := Plan(s)
	if !slices.Equal(d.Status.Wave, []string{"n0000"}) || condition(t, d, v1alpha1.ConditionBlocked).Reason != v1alpha1.ReasonFloorReached {
		t.Errorf("minServingNodes is 1:\n%s", summary(d))
	}
	s.Status.Wave = d.Status.Wave
	if got := steps(Plan(s)); got != "Mark n0000" {
		t.Errorf("got %q", got)
	}
	s.Status.Wave, s.Status.DetachTimedOut = nil, &v1alpha1.NodesTimedOut{Generation: s.Generation, Nodes: []string{"n0000"}}
	if d := Plan(s); !slices.Equal(d.Status.Wave, []string{"n0001"}) {
		t.Errorf("after a time-out the wave is %v", d.Status.Wave)
	}
}

// TestRefusedIsNotComplete: nodes that keep what they have because the API server refuses
// the present template are no end of its rollout.
func TestRefusedIsNotComplete(t *testing.T) {
	s := servingFleet(3)
	s.Revision, s.DryRun = "r2", DryRun{Done: true, Refusal: "no such class"}
	if c := condition(t, Plan(s), v1alpha1.ConditionProgressing); c.Status != metav1.ConditionFalse || c.Reason != v1alpha1.ReasonDeploymentRefused {
		t.Errorf("it is %s, %s: %s", c.Status, c.Reason, c.Message)
	}
	s.Revision = "r1"
	if c := condition(t, Plan(s), v1alpha1.ConditionProgressing); c.Reason != v1alpha1.ReasonComplete {
		t.Errorf("with nothing to be done it is %s: %s", c.Reason, c.Message)
	}
}
