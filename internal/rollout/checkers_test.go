package rollout

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestCheckersOfNodesThatWait: a node that is dead, kept out for as long as somebody
// likes, or emptied by a drain, nobody may know since when, does not keep the health checkers
// from being replaced; one in its turn does, and one that is drained while its pods serve.
func TestCheckersOfNodesThatWait(t *testing.T) {
	for name, test := range map[string]struct {
		change func(n *Node)
		want   string
	}{
		"in its turn":        {func(*Node) {}, "Update n0000 to r2 x2"},
		"dead":               {func(n *Node) { n.Ready, n.Checks[0].Answered = false, false }, "ApplyChecker 10080"},
		"kept out":           {func(n *Node) { n.Deployment.Detached = true }, "ApplyChecker 10080"},
		"marked by somebody": {func(n *Node) { n.Deployment.Mark, n.Checks[0].Mark = "mine", "mine" }, "ApplyChecker 10080"},
		"its checker is":     {func(n *Node) { n.CheckersSettled = false }, "Update n0000 to r2 x2"},
		"emptied by a drain": {func(n *Node) {
			n.Leaving, n.Deployment.Drained, n.Deployment.Replicas, n.Pods = true, true, 0, nil
		}, "ApplyChecker 10080"},
		"drained": {func(n *Node) { n.Leaving, n.Deployment.Drained, n.Checks[0].Serving = true, true, true }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := markedFleet(3)
			s.Checkers[0].Outdated = true
			test.change(&s.Nodes[0])
			if got := steps(Plan(s)); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// TestCheckersOfANodeThatLeaves: one that is claimed because it leaves the set, and lacks pods
// before it could be marked, waits for new health checkers; these do not wait for it.
func TestCheckersOfANodeThatLeaves(t *testing.T) {
	s := servingFleet(3)
	n := &s.Nodes[0]
	n.Wanted, n.Pods = false, n.Pods[:1]
	s.Status.Wave, s.Checkers[0].Outdated = []string{n.Name}, true
	if got := steps(Plan(s)); !strings.Contains(got, "ApplyChecker 10080") {
		t.Errorf("got %q", got)
	}
}

// retiring is a fleet from whose spec a health-check port was removed.
func retiring() State {
	s := servingFleet(2)
	s.Checkers = append(s.Checkers, Checker{Port: 10079, Exists: true})
	each(&s, func(n *Node) {
		n.Checks = append(n.Checks, Check{Port: 10079, Retiring: true, Answered: true, Serving: true, Since: start.Add(-time.Hour), Quiet: true})
	})
	return s
}

// TestPortOfAnother: an older IngressDaemonSet that comes to answer a port too keeps health
// checkers from being made, and takes none away.
func TestPortOfAnother(t *testing.T) {
	for exists, want := range map[bool]string{true: "ApplyChecker 10080", false: ""} {
		s := servingFleet(3)
		s.Faults = []Fault{{v1alpha1.ReasonPortConflict, "another answers it too"}}
		s.Checkers[0] = Checker{Port: 10080, Wanted: true, Exists: exists, Taken: true, Outdated: exists}
		if got := steps(Plan(s)); got != want {
			t.Errorf("exists %t: got %q, want %q", exists, got, want)
		}
	}
}

// TestUnclearNodes: where it cannot be told which nodes are wanted, no health checker is
// written, and nothing is finished.
func TestUnclearNodes(t *testing.T) {
	s := retiring()
	s.Checkers[0].Outdated = true
	s.Faults = []Fault{{v1alpha1.ReasonInvalidSpec, "Gt four"}}
	d := Plan(s)
	if steps(d) != "" || condition(t, d, v1alpha1.ConditionProgressing).Reason == v1alpha1.ReasonComplete {
		t.Errorf("steps %s, %+v", steps(d), d.Status.Conditions)
	}
}

// TestRetiringPort: a port that was removed from the spec goes on answering until nobody
// asks it on any node, or somebody releases it.
func TestRetiringPort(t *testing.T) {
	const closes = "DeleteChecker 10079"
	check := func(s *State) *Check { return &s.Nodes[1].Checks[1] }
	begun := func(s *State) {
		s.Nodes[0].Deployment.Revision, s.Nodes[0].Deployment.Mark = "r0", v1alpha1.NewMark(start, "r1", "")
	}
	for name, test := range map[string]struct {
		change func(s *State)
		want   string
	}{
		"nobody asks it":               {func(*State) {}, closes},
		"asked on one node":            {func(s *State) { check(s).Quiet = false }, ""},
		"asked and released":           {func(s *State) { check(s).Quiet, s.ReleasedPorts = false, map[int32]bool{10079: true} }, closes},
		"asked while a node is marked": {func(s *State) { check(s).Quiet = false; begun(s) }, ""},
		"released while a node is marked": {func(s *State) {
			check(s).Quiet, s.ReleasedPorts = false, map[int32]bool{10079: true}
			begun(s)
		}, closes},
		"it does not answer": {func(s *State) { *check(s) = Check{Port: 10079, Retiring: true} }, ""},
		"the node is dead":   {func(s *State) { *check(s), s.Nodes[1].Ready = Check{Port: 10079, Retiring: true}, false }, closes},
		"nobody is there any more": {func(s *State) {
			*check(s) = Check{Port: 10079, Retiring: true, Gone: true, Since: start.Add(-quietAfter + time.Second)}
		}, ""},
		"nobody is there for long": {func(s *State) {
			*check(s) = Check{Port: 10079, Retiring: true, Gone: true, Since: start.Add(-quietAfter)}
		}, closes},
		"the node died a moment ago": {func(s *State) {
			*check(s), s.Nodes[1].Ready = Check{Port: 10079, Retiring: true, Since: start.Add(-time.Hour)}, false
			s.Nodes[1].ReadyAt = start.Add(-quietAfter + time.Second)
		}, ""},
		"a dead node answered a moment ago": {func(s *State) {
			*check(s), s.Nodes[1].Ready = Check{Port: 10079, Retiring: true, Since: start.Add(-quietAfter + time.Second)}, false
		}, ""},
		"asked when the node died":       {func(s *State) { check(s).Quiet, s.Nodes[1].Ready = false, false }, ""},
		"a hook of older pods asks it":   {func(s *State) { s.Spec.DrainHook, s.Nodes[0].Deployment.Revision = &v1alpha1.DrainHook{}, "r0" }, ""},
		"older pods have no hook":        {func(s *State) { s.Nodes[0].Deployment.Revision = "r0" }, closes},
		"no older pods are left":         {func(s *State) { s.Spec.DrainHook = &v1alpha1.DrainHook{} }, closes},
		"a node's Deployment is deleted": {func(s *State) { s.Nodes[1].Deployment, s.Nodes[1].Checks = nil, nil }, "Create n0001 to r1 x2"},
		"a node's Deployment is deleted, and it died a moment ago": {func(s *State) {
			s.Nodes[1].Deployment, s.Nodes[1].Checks, s.Nodes[1].Ready = nil, nil, false
			s.Nodes[1].ReadyAt = start.Add(-quietAfter + time.Second)
		}, "Create n0001 to r1 x2"},
		"a node's Deployment is deleted, and it died long ago": {func(s *State) {
			s.Nodes[1].Deployment, s.Nodes[1].Checks, s.Nodes[1].Ready = nil, nil, false
			s.Nodes[1].ReadyAt = start.Add(-quietAfter)
		}, closes + ", Create n0001 to r1 x2"},
		"the node leaves, its Deployment went": {func(s *State) {
			s.Nodes[1].Deployment, s.Nodes[1].Checks, s.Nodes[1].Pods, s.Nodes[1].Wanted = nil, nil, nil, false
		}, closes},
		"replaced like any other": {func(s *State) { check(s).Quiet, s.Checkers[1].Outdated = false, true }, "ApplyChecker 10079"},
	} {
		t.Run(name, func(t *testing.T) {
			s := retiring()
			s.Spec.Paused = true
			test.change(&s)
			if got := steps(Plan(s)); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// TestRetiringPortSilenced: a retiring port that did not answer us for long may have answered
// others until nobody was left behind it, whether it was ever heard or not.
func TestRetiringPortSilenced(t *testing.T) {
	for name, since := range map[string]time.Time{"never heard": {}, "heard long ago": start.Add(-time.Hour)} {
		t.Run(name, func(t *testing.T) {
			s := retiring()
			c := &s.Nodes[1].Checks[1]
			*c = Check{Port: 10079, Retiring: true, Since: since}
			sights := &Sights{}
			look(sights, s, 0)
			look(sights, s, 10*time.Minute)
			c.Gone = true
			const gone = 10*time.Minute + time.Second
			for _, test := range []struct {
				after time.Duration
				want  string
			}{{gone, ""}, {gone + quietAfter - time.Second, ""}, {gone + quietAfter, ""}, {gone + quietAfter + lookAgain, "DeleteChecker 10079"}} {
				if got := steps(look(sights, s, test.after)); got != test.want {
					t.Errorf("after %s: %q", test.after, got)
				}
			}
		})
	}
}

// TestRetiringPortThatNeverAnswers: a retiring port that does not answer us on a Ready node is
// not closed, since others may reach it, and a condition says where and what to do.
func TestRetiringPortThatNeverAnswers(t *testing.T) {
	s := retiring()
	check := &s.Nodes[1].Checks[1]
	*check = Check{Port: 10079, Retiring: true}
	s.Nodes = append(s.Nodes, s.Nodes[1])
	s.Nodes[2].Name = "n0002"
	sights := &Sights{}
	warning := func(d Decision) *metav1.Condition {
		return meta.FindStatusCondition(d.Status.Conditions, v1alpha1.ConditionWarning)
	}
	for _, after := range []time.Duration{0, quietAfter - time.Second, quietAfter} {
		if d := look(sights, s, after); warning(d) != nil || !d.WakeAt.After(start.Add(after)) {
			t.Errorf("after %s: %s", after, summary(d))
		}
	}
	for _, after := range []time.Duration{quietAfter + lookAgain, 10 * time.Hour} {
		d := look(sights, s, after)
		w := condition(t, d, v1alpha1.ConditionWarning)
		if w.Reason != v1alpha1.ReasonHealthCheckPortSilent || strings.Count(w.Message, "port 10079 is not in") != 1 ||
			!strings.Contains(w.Message, "such as on node n0001") || !strings.Contains(w.Message, "kubectl ids port release NAME 10079") || steps(d) != "" {
			t.Errorf("after %s: %s", after, summary(d))
		}
	}
	for name, change := range map[string]func(n *Node, c *Check){
		"it answers":         func(_ *Node, c *Check) { c.Answered, c.Serving, c.Quiet = true, true, true },
		"nobody is there":    func(_ *Node, c *Check) { c.Gone = true },
		"the node is dead":   func(n *Node, _ *Check) { n.Ready = false },
		"it is in the spec":  func(_ *Node, c *Check) { c.Retiring = false },
		"it was heard since": func(_ *Node, c *Check) { c.Since = start.Add(10 * time.Hour) },
	} {
		s := retiring()
		s.Nodes[1].Checks[1] = Check{Port: 10079, Retiring: true}
		change(&s.Nodes[1], &s.Nodes[1].Checks[1])
		if w := warning(look(sights, s, 10*time.Hour)); w != nil {
			t.Errorf("%s: %+v", name, w)
		}
	}
}

// TestRetiringPortTakesPart: while it is asked a retiring port is one like the others:
// the node serves only if it passes, and is detached only when it fails.
func TestRetiringPortTakesPart(t *testing.T) {
	s := retiring()
	c := &s.Nodes[0].Checks[1]
	c.Quiet, c.AskedBy, c.Serving = false, "192.0.2.7", false
	d := Plan(s)
	if stateOf(d, "n0000") != v1alpha1.NodeUnavailable {
		t.Errorf("%s", summary(d))
	}
	if w := condition(t, d, v1alpha1.ConditionWarning); w.Reason != v1alpha1.ReasonHealthCheckPortAsked || !strings.Contains(w.Message, "192.0.2.7 still asks it, such as on node n0000") {
		t.Errorf("warns %+v", w)
	}
	c.Quiet = true
	if d := Plan(s); stateOf(d, "n0000") != v1alpha1.NodeServing {
		t.Errorf("nobody asks it:\n%s", summary(d))
	}

	s = markedFleet(2)
	s.Nodes[0].Checks = append(s.Nodes[0].Checks, Check{Port: 10079, Retiring: true, Answered: true, Serving: true})
	if got := steps(Plan(s)); got != "" {
		t.Errorf("before the retiring port fails: %q", got)
	}
	s.Nodes[0].Checks[1].Serving, s.Nodes[0].Checks[1].Mark = false, s.Nodes[0].Deployment.Mark
	if got := steps(Plan(s)); got != "Update n0000 to r2 x2" {
		t.Errorf("when it fails: %q", got)
	}
}

// TestBlindCheckers: a node whose health checkers see no mark does not begin.
func TestBlindCheckers(t *testing.T) {
	s := servingFleet(2)
	s.Revision = "r2"
	each(&s, func(n *Node) { n.Checks[0].Blind = "x509: certificate signed by unknown authority" })
	d := Plan(s)
	if len(d.Status.Wave) != 0 || condition(t, d, v1alpha1.ConditionBlocked).Reason != v1alpha1.ReasonHealthCheckerBlind ||
		condition(t, d, v1alpha1.ConditionWarning).Reason != v1alpha1.ReasonHealthCheckerBlind {
		t.Errorf("%s", summary(d))
	}
}

// TestBlindCheckerOfANodeThatLeaves would never acknowledge its mark: the node waits, unless it
// is dead or the whole IngressDaemonSet goes.
func TestBlindCheckerOfANodeThatLeaves(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*State)
		want   []string
	}{
		"it waits":                {func(*State) {}, nil},
		"it can read again":       {func(s *State) { s.Nodes[0].Checks[0].Blind = "" }, []string{"n0000"}},
		"it is dead":              {func(s *State) { s.Nodes[0].Ready = false }, []string{"n0000"}},
		"the object goes as well": {func(s *State) { s.Deletion = DeleteInWaves }, []string{"n0000"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := servingFleet(3)
			s.Nodes[0].Wanted, s.Nodes[0].Checks[0].Blind = false, "forbidden"
			test.change(&s)
			d := Plan(s)
			blocked := strings.Contains(condition(t, d, v1alpha1.ConditionBlocked).Message, "node n0000 waits for its removal")
			if !slices.Equal(d.Status.Wave, test.want) || blocked != (test.want == nil) {
				t.Errorf("blocked %t\n%s", blocked, summary(d))
			}
		})
	}
}

// TestPortThatNobodyAsksTakesNobodyOut: a retiring port may fail its check on a node that serves, and
// as long as somebody asks it that keeps traffic away. Then its node is one that serves, for which the
// minimum stands.
func TestPortThatNobodyAsksTakesNobodyOut(t *testing.T) {
	for _, quiet := range []bool{true, false} {
		s := servingFleet(1)
		byAnnotation(&s.Spec)
		s.Spec.HealthCheckNodePorts = nil
		s.Spec.UpdateStrategy.RollingUpdate.MinServingNodes = number(1)
		s.Revision, s.Status.Wave = "r2", []string{"n0000"}
		s.Checkers = []Checker{{Port: 10080, Exists: true}}
		s.Nodes[0].Checks = []Check{{Port: 10080, Retiring: true, Answered: true, Quiet: quiet, AskedBy: "192.0.2.7", Since: start.Add(-time.Hour)}}
		s.Nodes[0].Pods[0].Ready, s.Nodes[0].Deployment.ReadyReplicas = false, 1
		d := Plan(s)
		if got := steps(d); strings.Contains(got, "Mark") == quiet {
			t.Errorf("nobody asks it: %t: got\n%s", quiet, summary(d))
		}
		if blocked := condition(t, d, v1alpha1.ConditionBlocked).Reason; (blocked == v1alpha1.ReasonFloorReached) != quiet {
			t.Errorf("nobody asks it: %t: blocked by %s", quiet, blocked)
		}
	}
}
