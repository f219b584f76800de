package rollout

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// servingFleet is a State in which every node serves revision r1, and in which
// nodes are detached by health checks.
func servingFleet(nodes int) State {
	s := State{
		Now: start, Generation: 1, Spec: plainSpec(), Revision: "r1", DryRun: DryRun{Done: true},
		Revisions: map[string]bool{"r1": true, "r2": true},
		Checkers:  []Checker{{Port: 10080, Wanted: true, Exists: true}},
	}
	byHealthCheck(&s.Spec)
	s.Status.CurrentRevision = "r1"
	for i := range nodes {
		s.Nodes = append(s.Nodes, servingNode(fmt.Sprintf("n%04d", i)))
	}
	return s
}

func servingNode(name string) Node {
	past := start.Add(-time.Hour)
	n := Node{
		Name: name, Exists: true, Wanted: true, Ready: true, CheckersSettled: true, Labels: map[string]string{},
		Deployment: &Deployment{Name: name, Revision: "r1", PodsPerNode: 2, Replicas: 2, Settled: true, UpdatedReplicas: 2, ReadyReplicas: 2, UpdatedAt: past},
		Checks:     []Check{{Port: 10080, Answered: true, Serving: true, Since: past}},
	}
	for i := range 2 {
		n.Pods = append(n.Pods, Pod{Name: fmt.Sprintf("%s-%d", name, i), Revision: "r1", Ready: true, ReadySince: past, Running: true})
	}
	return n
}

// marked is a State with its first node marked a while ago, and acknowledged.
func markedFleet(nodes int) State {
	s := servingFleet(nodes)
	s.Revision = "r2"
	n := &s.Nodes[0]
	n.Deployment.Mark = v1alpha1.NewMark(start.Add(-30*time.Second), "r2", "")
	n.Checks[0] = Check{Port: 10080, Answered: true, Mark: n.Deployment.Mark, Since: start.Add(-29 * time.Second)}
	s.Status.Wave = []string{n.Name}
	return s
}

// steps are the steps of a decision, without their reasons.
func steps(d Decision) string {
	var out []string
	for _, s := range d.Steps {
		s.Reason = ""
		line := s.String()
		if s.Mark.Is(v1alpha1.MarkOutOfTurn) {
			line += " out of turn"
		}
		out = append(out, line)
	}
	return strings.Join(out, ", ")
}

// summary is a decision in words.
func summary(d Decision) string {
	out := fmt.Sprintf("wake %s, wave %v", d.WakeAt, d.Status.Wave)
	for _, s := range d.Steps {
		out += "\n  " + s.String()
	}
	for _, n := range d.Status.Nodes {
		out += fmt.Sprintf("\n  %s %s %q %s", n.Name, n.State, n.Reason, n.Since)
	}
	for _, c := range d.Status.Conditions {
		out += fmt.Sprintf("\n  %s=%s %s %q", c.Type, c.Status, c.Reason, c.Message)
	}
	return out
}

func condition(t *testing.T, d Decision, kind string) metav1.Condition {
	t.Helper()
	c := meta.FindStatusCondition(d.Status.Conditions, kind)
	if c == nil {
		t.Fatalf("there is no condition %s", kind)
	}
	return *c
}

func stateOf(d Decision, node string) v1alpha1.NodeState {
	for _, n := range d.Status.Nodes {
		if n.Name == node {
			return n.State
		}
	}
	return v1alpha1.NodeServing
}
