package rollout

import (
	"strings"
	"testing"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
)

// asking has nodes asked for by annotations of the user's own.
func asking(s *State, key, timestamp string) {
	byBoth(&s.Spec)
	u := s.Spec.UpdateStrategy.RollingUpdate
	u.AnnotateNodeToDetach.Key, u.WaitForDetachmentByAnnotatedTimestamp.Key = key, timestamp
}

// TestWhichAnnotationsArePermitted: those of node-detacher and of the operator's list are, each for
// what it is for, and no answer but to its own question.
func TestWhichAnnotationsArePermitted(t *testing.T) {
	const ask, answer = v1alpha1.AnnotationNodeDetached, v1alpha1.AnnotationDetachmentTimestamp
	own := Detacher{"a/ask", "a/answer"}
	for name, c := range map[string]struct {
		key, timestamp string
		permitted      []Detacher
		says           string
	}{
		"node-detacher's":              {ask, answer, nil, ""},
		"another's":                    {"a/ask", "a/answer", []Detacher{{"b/ask", "b/answer"}, own}, ""},
		"another answer":               {ask, "a/answer", []Detacher{{ask, "a/answer"}}, ""},
		"either answer":                {ask, answer, []Detacher{{ask, "a/answer"}}, ""},
		"another to ask":               {"a/ask", answer, nil, "annotateNodeToDetach names a/ask, which is not permitted on Nodes: set its key to " + ask + ", or have whoever operates the controller start it with --detach-annotations=a/ask=" + answer},
		"another to wait for":          {ask, "a/answer", nil, "waitForDetachmentByAnnotatedTimestamp names a/answer, which does not answer " + ask + ": set its key to " + answer + ", or have whoever operates the controller start it with --detach-annotations=" + ask + "=a/answer"},
		"what answers another":         {ask, "a/answer", []Detacher{own}, "waitForDetachmentByAnnotatedTimestamp names a/answer, which does not answer " + ask},
		"what another is asked by":     {ask, "a/ask", []Detacher{own}, "waitForDetachmentByAnnotatedTimestamp names a/ask, which does not answer " + ask},
		"asked by an answer":           {"a/answer", answer, []Detacher{own}, "annotateNodeToDetach names a/answer"},
		"one that does not answer":     {"a/ask", "a/answer", []Detacher{{Ask: "a/ask"}}, "waitForDetachmentByAnnotatedTimestamp names a/answer, and nothing is known to answer a/ask: remove it, or"},
		"node-detacher's answer":       {answer, "a/answer", []Detacher{own}, "annotateNodeToDetach names " + answer},
		"what says that a node is out": {v1alpha1.AnnotationNodeDetaching, answer, nil, "annotateNodeToDetach names " + v1alpha1.AnnotationNodeDetaching},
	} {
		t.Run(name, func(t *testing.T) {
			s := servingFleet(3)
			asking(&s, c.key, c.timestamp)
			s.Revision, s.Detachers, s.Status.Wave = "r2", c.permitted, []string{"n0000"}
			d := Plan(s)
			blocked := condition(t, d, v1alpha1.ConditionBlocked)
			if c.says == "" {
				if blocked.Status == "True" || !strings.Contains(steps(d), "Mark n0000") {
					t.Errorf("%s: %s\n%s", blocked.Reason, blocked.Message, summary(d))
				}
				return
			}
			if blocked.Reason != v1alpha1.ReasonAnnotationNotPermitted || !strings.HasPrefix(blocked.Message, c.says) {
				t.Errorf("%s: %s\nwant %s", blocked.Reason, blocked.Message, c.says)
			}
			if len(d.Status.Wave) > 0 || strings.Contains(steps(d), "Mark") || strings.Contains(steps(d), "RequestDetachment") {
				t.Errorf("a node begins:\n%s", summary(d))
			}
		})
	}
}

// TestForbiddenMidway: of nodes on their way no further one is asked for. One that was asked is
// finished, any other is put back before its pods are touched.
func TestForbiddenMidway(t *testing.T) {
	asked := Detachment{Requested: true, Held: true, RequestedAt: start.Add(-20 * time.Second)}
	answered := asked
	answered.Timestamp = start.Add(-10 * time.Second).Format(time.RFC3339)
	byAnother := asked
	byAnother.Held = false
	updated := func(n *Node) {
		n.Detachment = answered
		updatedTo(n, "r2")
		n.Deployment.UpdatedAt = start.Add(-5 * time.Second)
	}
	for name, c := range map[string]struct {
		change func(s *State, n *Node)
		want   string
	}{
		"marked":                   {func(*State, *Node) {}, "Unmark n0000"},
		"asked":                    {func(_ *State, n *Node) { n.Detachment = asked }, ""},
		"answered":                 {func(_ *State, n *Node) { n.Detachment = answered }, "Update n0000 to r2 x2"},
		"asked by another key":     {func(_ *State, n *Node) { n.Detachment = byAnother }, "Unmark n0000, ReleaseDetachment n0000"},
		"updated":                  {func(_ *State, n *Node) { updated(n) }, "Unmark n0000, ReleaseDetachment n0000"},
		"updated, and to be again": {func(s *State, n *Node) { updated(n); s.Revision, s.Revisions["r3"] = "r3", true }, "Update n0000 to r3 x2"},
		"updated, not asked, and to be again": {func(s *State, n *Node) {
			updated(n)
			n.Detachment, s.Revision, s.Revisions["r3"] = Detachment{}, "r3", true
		}, ""},
		"leaves the set":            {func(_ *State, n *Node) { n.Wanted = false }, "Unmark n0000"},
		"leaves the set, was asked": {func(_ *State, n *Node) { n.Wanted, n.Detachment = false, answered }, "Delete n0000"},
		"leaves the set, not yet":   {func(_ *State, n *Node) { *n = servingNode(n.Name); n.Wanted = false }, ""},
		"deleted":                   {func(s *State, n *Node) { s.Deletion = DeleteInWaves }, "Unmark n0000"},
		"serves nothing": {func(_ *State, n *Node) {
			*n = servingNode(n.Name)
			n.Checks[0].Serving = false
			unready(n)
		}, ""},
		"kept out":       {func(_ *State, n *Node) { n.Deployment.Detached = true }, ""},
		"to be kept out": {func(_ *State, n *Node) { *n = servingNode(n.Name); n.Deployment.Detached = true }, ""},
		"drained":        {func(_ *State, n *Node) { n.Leaving, n.Deployment.DrainedAt = true, start.Add(-20*time.Second) }, ""},
		"marked by its checks, broken": {func(_ *State, n *Node) {
			n.Deployment.Mark += v1alpha1.MarkOutOfTurn
			n.Checks[0].Mark = n.Deployment.Mark
			unready(n)
		}, "Update n0000 to r2 x2"},
	} {
		t.Run(name, func(t *testing.T) {
			s := markedFleet(3)
			asking(&s, "a/ask", "a/answer")
			c.change(&s, &s.Nodes[0])
			if got := steps(Plan(s)); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func unready(n *Node) {
	for i := range n.Pods {
		n.Pods[i].Ready = false
	}
}
