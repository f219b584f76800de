package rollout

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// updatedTo gives a node's Deployment and pods a revision.
func updatedTo(n *Node, revision string) {
	n.Deployment.Revision = revision
	for i := range n.Pods {
		n.Pods[i].Revision = revision
	}
}

// TestFieldsWaitForTheTurn: fields by which pods are replaced are not set while pods of
// a node are replaced that traffic may reach, but in a degraded node's own turn.
func TestFieldsWaitForTheTurn(t *testing.T) {
	halfway := func(s *State) {
		n := &s.Nodes[0]
		updatedTo(n, "r2")
		n.Pods[0].Revision, n.Deployment.UpdatedReplicas, n.Deployment.Outmoded = "r1", 1, true
		s.Revision, s.Status.Wave = "r2", []string{"n0000"}
		each(s, func(o *Node) {
			if o.Name != n.Name {
				updatedTo(o, "r2")
			}
		})
	}
	for name, test := range map[string]struct {
		change func(s *State)
		want   string
	}{
		"detaching since":       {halfway, ""},
		"degraded, in its turn": {func(s *State) { halfway(s); s.Spec.UpdateStrategy.RollingUpdate = &v1alpha1.RollingUpdate{} }, "SetFields n0000"},
		"degraded, tried with fewer pods, of which somebody took the record": {func(s *State) {
			halfway(s)
			s.Spec.UpdateStrategy.RollingUpdate = &v1alpha1.RollingUpdate{}
			d := s.Nodes[0].Deployment
			d.Replicas, d.OlderReplicas = 1, 1
		}, ""},
		"degraded, not in its turn": {func(s *State) {
			halfway(s)
			s.Spec.UpdateStrategy.RollingUpdate, s.Status.Wave = &v1alpha1.RollingUpdate{}, nil
		}, ""},
		"degraded, kept out": {func(s *State) {
			halfway(s)
			s.Spec.UpdateStrategy.RollingUpdate = &v1alpha1.RollingUpdate{}
			s.Nodes[0].Deployment.Detached = true
		}, ""},
		"marked, and not yet detached": {func(s *State) {
			halfway(s)
			s.Nodes[0].Deployment.Mark = v1alpha1.NewMark(start, "r2", "")
			s.Nodes[0].Deployment.UpdatedAt = start.Add(-time.Minute)
		}, ""},
		"marked and updated": {func(s *State) {
			halfway(s)
			s.Nodes[0].Deployment.Mark = v1alpha1.NewMark(start.Add(-time.Minute), "r2", "")
			s.Nodes[0].Deployment.UpdatedAt = start
		}, "SetFields n0000"},
		"marked by somebody": {func(s *State) {
			halfway(s)
			s.Nodes[0].Deployment.Mark, s.Nodes[0].Deployment.UpdatedAt = "by-hand", start
		}, ""},
		"at rest": {func(s *State) { s.Nodes[0].Deployment.Outmoded = true }, "SetFields n0000"},
		"drifted, with older pods of the same revision": {func(s *State) {
			d := s.Nodes[0].Deployment
			s.Spec.Paused, d.Drifted, d.Outmoded, d.OlderReplicas = true, true, true, 2
		}, ""},
		"at rest, as it seems":           {func(s *State) { s.Nodes[0].Deployment.Outmoded, s.Nodes[0].Deployment.Settled = true, false }, ""},
		"with another step of this look": {func(s *State) { s.Nodes[0].Deployment.Outmoded, s.Nodes[0].Detachment.Requested = true, true }, "Unmark n0000, ReleaseDetachment n0000"},
	} {
		t.Run(name, func(t *testing.T) {
			s := servingFleet(3)
			test.change(&s)
			got := steps(Plan(s))
			if test.want == "" && strings.Contains(got, "SetFields") || test.want != "" && got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// TestMiscounted: how many pods make a node serve, which somebody changed, is put back where
// all pods are there that should be, of more nodes than the budget has room for, also while the
// rollout is paused; otherwise it waits for the node's turn.
func TestMiscounted(t *testing.T) {
	for name, test := range map[string]struct {
		change func(n *Node)
		back   bool
	}{
		"to none":  {func(n *Node) { n.Deployment.PodsPerNode = 0 }, true},
		"to more":  {func(n *Node) { n.Deployment.PodsPerNode = 3 }, true},
		"to fewer": {func(n *Node) { n.Deployment.PodsPerNode = 1 }, true},
		"while it is tried": {func(n *Node) {
			n.Deployment.Hold = &v1alpha1.Hold{Revision: "r2", Attempts: 1, Replicas: 2, Trying: true}
		}, true},
		"held back":         {func(n *Node) { n.Deployment.Hold = &v1alpha1.Hold{Revision: "r2", Attempts: 1, Replicas: 2} }, false},
		"one is not ready":  {func(n *Node) { n.Pods[0].Ready = false }, false},
		"one is older":      {func(n *Node) { n.Pods[0].Revision = "r0" }, false},
		"scaled by others":  {func(n *Node) { scaledTo(1)(n) }, false},
		"changed by others": {func(n *Node) { n.Deployment.Drifted = true }, false},
		"marked":            {func(n *Node) { n.Deployment.Mark = v1alpha1.NewMark(start.Add(-time.Minute), "r1", "") }, false},
		"being deleted":     {func(n *Node) { n.Deployment.Deleting = true }, false},
		"being put back":    {func(n *Node) { n.Detachment.Requested = true }, false},
		"out of the set":    {func(n *Node) { n.Wanted = false }, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := servingFleet(3)
			s.Revision, s.Spec.Paused = "r2", true
			for i := range 2 {
				n := &s.Nodes[i]
				n.Deployment.PodsPerNode, n.Checks[0].Serving = 4, false
				test.change(n)
			}
			d := Plan(s)
			for _, n := range s.Nodes[:2] {
				if back := slices.ContainsFunc(d.Steps, func(step Step) bool {
					return step.Action == SetFields && step.Node == n.Name && step.PodsPerNode != nil && *step.PodsPerNode == 2 && step.Hold == n.Deployment.Hold
				}); back != test.back {
					t.Errorf("%s: put back %t\n%s", n.Name, back, summary(d))
				}
			}
		})
	}
}

// TestProvenRevision: a revision becomes current when every wanted Ready node, at least
// one, runs it and serves, but for those that somebody keeps out or drains.
func TestProvenRevision(t *testing.T) {
	for name, test := range map[string]struct {
		change func(s *State)
		want   string
	}{
		"all serve":       {func(*State) {}, "r2"},
		"one is dead":     {func(s *State) { s.Nodes[0].Ready = false; updatedTo(&s.Nodes[0], "r1") }, "r2"},
		"one is kept out": {func(s *State) { s.Nodes[0].Deployment.Detached = true; updatedTo(&s.Nodes[0], "r1") }, "r2"},
		"one is drained": {func(s *State) {
			s.Nodes[0].Deployment.DrainedAt, s.Nodes[0].Leaving = start, true
			updatedTo(&s.Nodes[0], "r1")
		}, "r2"},
		"one is drained, nobody knows since when": {func(s *State) {
			s.Nodes[0].Deployment.Drained, s.Nodes[0].Leaving = true, true
			updatedTo(&s.Nodes[0], "r1")
		}, "r2"},
		"one is older":       {func(s *State) { updatedTo(&s.Nodes[0], "r1") }, "r1"},
		"one does not serve": {func(s *State) { s.Nodes[0].Checks[0].Serving = false }, "r1"},
		"all are dead":       {func(s *State) { each(s, func(n *Node) { n.Ready = false }) }, "r1"},
		"none is wanted":     {func(s *State) { each(s, func(n *Node) { n.Wanted = false }) }, "r1"},
		"there is none":      {func(s *State) { s.Nodes = nil }, "r1"},
		"not yet measured": {func(s *State) {
			analysed(&s.Spec)
			s.Status.Analysis = &v1alpha1.AnalysisStatus{Revision: "r2", Phase: v1alpha1.AnalysisMeasuring, Nodes: []string{"n0000"}}
		}, "r1"},
		"it is rejected, though every node runs it": {func(s *State) {
			s.Status.Rejected, s.Revisions = &v1alpha1.RejectedRevision{Revision: "r2"}, map[string]bool{"r1": true, "r2": true}
		}, "r1"},
		"one waits for more pods": {func(s *State) { s.Spec.PodsPerNode = new(int32(3)) }, "r2"},
		"one is drifted":          {func(s *State) { s.Nodes[0].Deployment.Drifted = true }, "r1"},
		"one is not put back": {func(s *State) {
			s.Spec.UpdateStrategy.RollingUpdate.AnnotateNodeToDetach = &v1alpha1.AnnotateNodeToDetach{Key: v1alpha1.AnnotationNodeDetached}
			s.Nodes[0].Detachment.Timestamp, s.Nodes[0].Deployment.AttachedAt = start.Format(time.RFC3339), start.Add(-time.Hour)
		}, "r2"},
		"one is held by others": {func(s *State) {
			s.Spec.UpdateStrategy.RollingUpdate.AnnotateNodeToDetach = &v1alpha1.AnnotateNodeToDetach{Key: v1alpha1.AnnotationNodeDetached}
			s.Nodes[0].Detachment.Held, s.Nodes[0].Deployment.AttachedAt = true, start.Add(-time.Hour)
		}, "r2"},
		"one is held by others for a moment": {func(s *State) {
			s.Spec.UpdateStrategy.RollingUpdate.AnnotateNodeToDetach = &v1alpha1.AnnotateNodeToDetach{Key: v1alpha1.AnnotationNodeDetached}
			s.Nodes[0].Detachment.Held, s.Nodes[0].Deployment.AttachedAt = true, start.Add(-time.Second)
		}, "r1"},
		"the first serves":                {func(s *State) { s.Status.CurrentRevision = "" }, "r2"},
		"the first does not serve":        {func(s *State) { s.Status.CurrentRevision, s.Nodes[0].Checks[0].Serving = "", false }, ""},
		"the first is not yet everywhere": {func(s *State) { s.Status.CurrentRevision, s.Nodes[0].Deployment = "", nil }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := servingFleet(3)
			s.Revision = "r2"
			each(&s, func(n *Node) { updatedTo(n, "r2") })
			test.change(&s)
			if d := Plan(s); d.Status.CurrentRevision != test.want {
				t.Errorf("%s is current, want %s\n%s", d.Status.CurrentRevision, test.want, summary(d))
			}
		})
	}
	if d := Plan(State{Now: start, Spec: plainSpec(), Revision: "r1"}); d.Status.CurrentRevision != "" {
		t.Errorf("%s is current without a node", d.Status.CurrentRevision)
	}
}

// overdueFleet has a node that has been updated for longer than it may take, and rolls
// back what fails.
func overdueFleet() State {
	s := markedFleet(3)
	s.Spec.UpdateStrategy.RollingUpdate.FailurePolicy = v1alpha1.RollBackOnFailure
	n := &s.Nodes[0]
	updatedTo(n, "r2")
	n.Deployment.Mark = v1alpha1.NewMark(start.Add(-time.Hour), "r2", "")
	n.Deployment.UpdatedAt = start.Add(-30 * time.Minute)
	n.Pods[0].Ready = false
	return s
}

// TestOnlyPodsRejectATemplate: a node that takes too long rejects the template where its
// pods do not get ready, and not where the machine or a detacher is at fault.
func TestOnlyPodsRejectATemplate(t *testing.T) {
	for name, test := range map[string]struct {
		change func(n *Node)
		want   bool
	}{
		"a pod is not ready": {func(*Node) {}, true},
		"the node is dead":   {func(n *Node) { n.Ready = false }, false},
		"it is about to be":  {func(n *Node) { n.Checks = []Check{{Port: 10080}} }, false},
		"its check fails":    {func(n *Node) { n.Checks = []Check{{Port: 10080, Answered: true}} }, true},
		"an older pod does not end": {func(n *Node) {
			n.Pods[0].Ready = true
			n.Pods = append(n.Pods, Pod{Name: "x", Revision: "r1", Terminating: true})
		}, false},
		"its pods lack minReadySeconds alone": {func(n *Node) { n.Pods[0].Ready, n.Pods[0].ReadySince = true, start.Add(-time.Second) }, false},
		"nobody looks after it":               {func(n *Node) { n.Deployment.Settled = false }, false},
		"its timestamp is not cleared": {func(n *Node) {
			n.Pods[0].Ready, n.Deployment.Mark, n.Deployment.AttachedAt, n.Detachment.Timestamp = true, "", start.Add(-29*time.Minute), "x"
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := overdueFleet()
			s.Spec.MinReadySeconds = 2
			test.change(&s.Nodes[0])
			d := Plan(s)
			if got := d.Status.Rejected != nil; got != test.want {
				t.Errorf("rejected: %t\n%s", got, summary(d))
			}
		})
	}
}

// TestNoDeadlineOfANodeThatIsKeptOut: whoever keeps a node out does so for as long as they
// like, which halts no rollout.
func TestNoDeadlineOfANodeThatIsKeptOut(t *testing.T) {
	s := overdueFleet()
	s.Spec.UpdateStrategy.RollingUpdate.FailurePolicy = v1alpha1.PauseOnFailure
	n := &s.Nodes[0]
	n.Deployment.Mark = ""
	overdue := func() bool {
		return condition(t, Plan(s), v1alpha1.ConditionProgressing).Reason == v1alpha1.ReasonProgressDeadlineExceeded
	}
	if !overdue() {
		t.Error("nobody keeps it out, and its pods are not ready")
	}
	n.Deployment.Detached = true
	if overdue() {
		t.Error("it is kept out")
	}
}

// TestDeadlineAfterAThaw: a controller that was frozen looks again and again at once, and what
// it sees may be what was so before, until one of its looks lies a second back.
func TestDeadlineAfterAThaw(t *testing.T) {
	s := markedFleet(3)
	n := &s.Nodes[0]
	n.Checks[0].Mark = ""
	sights := &Sights{}
	for _, after := range []time.Duration{0, time.Second, time.Hour, time.Hour + 10*time.Millisecond, time.Hour + lookAgain - time.Millisecond} {
		if after == time.Hour {
			sights.Thawed(start.Add(after))
		}
		if d := look(sights, s, after); d.Status.DetachTimedOut != nil {
			t.Errorf("after %s:\n%s", after, summary(d))
		}
	}
	if d := look(sights, s, time.Hour+lookAgain); d.Status.DetachTimedOut == nil {
		t.Errorf("a second after it thawed:\n%s", summary(d))
	}
	if len(sights.looks) > 4 {
		t.Errorf("%d looks are remembered", len(sights.looks))
	}
}

// TestFrozenAfterADeadline: the looks of a controller which was frozen right after its first
// look past a deadline count no more: what it sees may be what was so then. What was over
// before stays so.
func TestFrozenAfterADeadline(t *testing.T) {
	s := markedFleet(3)
	s.Nodes[0].Checks[0].Mark = ""
	sights := &Sights{}
	const deadline = 610 * time.Second
	for _, at := range []struct {
		after  time.Duration
		thawed bool
	}{
		{0, false}, {deadline, false}, {deadline + lookAgain/2, false}, {deadline + time.Minute, true},
		{deadline + time.Minute + 10*time.Millisecond, false}, {time.Hour, true}, {time.Hour + lookAgain - time.Millisecond, false},
	} {
		if at.thawed {
			sights.Thawed(start.Add(at.after))
		}
		if d := look(sights, s, at.after); d.Status.DetachTimedOut != nil {
			t.Errorf("after %s:\n%s", at.after, summary(d))
		}
	}
	for _, after := range []time.Duration{time.Hour + lookAgain, 5 * time.Hour} {
		if d := look(sights, s, after); d.Status.DetachTimedOut == nil {
			t.Errorf("after %s:\n%s", after, summary(d))
		}
		sights.Thawed(start.Add(after + time.Hour))
	}
}

// TestSlowPasses: a deadline is over also where each look comes late, because passes are slow.
func TestSlowPasses(t *testing.T) {
	s := markedFleet(3)
	s.Nodes[0].Checks[0].Mark = ""
	sights := &Sights{}
	const deadline, every = 610 * time.Second, 20 * time.Second
	for after := time.Duration(0); after <= deadline+2*every; after += every {
		d := look(sights, s, after)
		if over := d.Status.DetachTimedOut != nil; over != (after >= deadline+every) {
			t.Errorf("after %s:\n%s", after, summary(d))
		}
	}
}

// TestClaimOfWhichNothingCame: a node that was claimed, and needs no update any more, has as
// long to get ready as any other, however long ago its last update is.
func TestClaimOfWhichNothingCame(t *testing.T) {
	s := servingFleet(3)
	s.Revision = "r2"
	s.Spec.UpdateStrategy.RollingUpdate.FailurePolicy = v1alpha1.RollBackOnFailure
	n := &s.Nodes[0]
	updatedTo(n, "r2")
	s.Spec.Paused = true
	sights := &Sights{}
	look(sights, s, 0)
	look(sights, s, time.Hour)
	s.Status.Wave = []string{n.Name}
	n.Pods[0].Ready, n.Deployment.ReadyReplicas = false, 1
	deadline := time.Hour + s.Spec.ProgressDeadline()
	for _, after := range []time.Duration{time.Hour, time.Hour + time.Second, deadline - time.Second, deadline} {
		if d := look(sights, s, after); d.Status.Rejected != nil {
			t.Errorf("after %s: %+v", after, d.Status.Rejected)
		}
	}
	if d := look(sights, s, deadline+lookAgain); d.Status.Rejected == nil {
		t.Errorf("in the end:\n%s", summary(d))
	}
}

// TestEachDeadlineIsLookedAtTwice: what a deadline ends is done at a look that was asked for,
// and by nothing else, and not at the first, which may show what was before.
func TestEachDeadlineIsLookedAtTwice(t *testing.T) {
	does := func(want string) func(Decision) bool { return func(d Decision) bool { return steps(d) == want } }
	for name, test := range map[string]struct {
		state    func() State
		deadline time.Duration
		over     func(Decision) bool
	}{
		"a drained node is not detached": {func() State {
			s := markedFleet(3)
			n := &s.Nodes[0]
			n.Leaving, n.Evicting, n.Checks[0].Serving, n.Deployment.DrainedAt = true, true, true, start.Add(-30*time.Second)
			return s
		}, 610 * time.Second, does("ScaleToZero n0000")},
		"a node that is orphaned is not complete": {func() State {
			s := markedFleet(3)
			s.Deletion, s.Nodes[0].Pods[0].Ready = DeleteOrphaning, false
			return s
		}, 600 * time.Second, does("Unmark n0000")},
		"a retiring port of a dead node": {func() State {
			s := retiring()
			s.Nodes[1].Checks[1], s.Nodes[1].Ready = Check{Port: 10079, Retiring: true}, false
			return s
		}, quietAfter, does("DeleteChecker 10079")},
		"an update is overlooked": {func() State {
			s := markedFleet(2)
			d := s.Nodes[0].Deployment
			d.Revision, d.UpdatedReplicas, d.OlderReplicas, d.UpdatedAt = "r2", 0, 2, start
			return s
		}, 300 * time.Second, does("Update n0000 to r2 x3")},
		"a dead node uses up the budget": {func() State {
			s := servingFleet(3)
			s.Revision, s.Nodes[0].Ready = "r2", false
			s.Spec.UpdateStrategy.RollingUpdate.IgnoreNotReadyNodesAfterSeconds = new(int32(60))
			return s
		}, 60 * time.Second, func(d Decision) bool { return len(d.Status.Wave) > 0 }},
		"a detacher does not put a node back": {func() State {
			s := servingFleet(3)
			byBoth(&s.Spec)
			n := &s.Nodes[0]
			s.Status.Wave, n.Deployment.AttachedAt, n.Detachment.Timestamp = []string{n.Name}, start, start.Format(time.RFC3339)
			return s
		}, 600 * time.Second, func(d Decision) bool { return strings.Contains(summary(d), v1alpha1.ReasonAttachTimedOut) }},
	} {
		t.Run(name, func(t *testing.T) {
			s, sights := test.state(), &Sights{}
			for _, at := range []struct {
				after, wake time.Duration
				over        bool
			}{{0, test.deadline, false}, {test.deadline, test.deadline + lookAgain, false}, {test.deadline + lookAgain, 0, true}} {
				d := look(sights, s, at.after)
				if test.over(d) != at.over || !at.over && (d.WakeAt.IsZero() || d.WakeAt.After(start.Add(at.wake))) {
					t.Errorf("after %s:\n%s", at.after, summary(d))
				}
			}
		})
	}
}

// TestDeadlineAfterADeadNode: what a node was NotReady for does not count against its
// template.
func TestDeadlineAfterADeadNode(t *testing.T) {
	s := overdueFleet()
	s.Nodes[0].Ready = false
	sights := &Sights{}
	look(sights, s, 0)
	s.Nodes[0].Ready = true
	if d := look(sights, s, 30*time.Minute); d.Status.Rejected != nil {
		t.Errorf("as soon as the node is back: %+v", d.Status.Rejected)
	}
	late := 30*time.Minute + s.Spec.ProgressDeadline()
	if d := look(sights, s, late); d.Status.Rejected != nil || !d.WakeAt.Equal(start.Add(late+lookAgain)) {
		t.Errorf("at the first look since its pods took too long, which may show what was before:\n%s", summary(d))
	}
	if d := look(sights, s, late+10*time.Millisecond); d.Status.Rejected != nil {
		t.Errorf("at a second look at once: %+v", d.Status.Rejected)
	}
	if d := look(sights, s, late+lookAgain); d.Status.Rejected == nil {
		t.Errorf("when its pods took too long since:\n%s", summary(d))
	}
}

// refusedByANode is a fleet of which two nodes are measured, and the first has given no answer.
func refusedByANode() State {
	s := servingFleet(3)
	analysed(&s.Spec)
	s.Revision = "r2"
	each(&s, func(n *Node) { updatedTo(n, "r2") })
	began := metav1.NewMicroTime(start.Add(-time.Minute))
	s.Status.Analysis = &v1alpha1.AnalysisStatus{Revision: "r2", Phase: v1alpha1.AnalysisMeasuring, Nodes: []string{"n0000", "n0001"}, Began: began, Since: began}
	s.Measurements = []Measurement{{Check: "errors", Analysis: AnalysisID(s.Status.Analysis), At: start.Add(-time.Second), Failure: "node n0000: refused", FailedOn: []string{"n0000"}}}
	return s
}

// TestMeasurementOfADeadNode: a measurement that failed on nodes that are NotReady says
// nothing, and none is made while no node of the wave is Ready.
func TestMeasurementOfADeadNode(t *testing.T) {
	s := refusedByANode()
	s.Nodes[0].Ready = false
	d := Plan(s)
	if c := d.Status.Analysis.Checks[0]; c.Failed != 0 || d.Status.Analysis.Phase != v1alpha1.AnalysisMeasuring {
		t.Errorf("one is dead: %+v", d.Status.Analysis)
	}
	s.Measurements[0].FailedOn = []string{"n0000", "n0001"}
	if d := Plan(s); d.Status.Analysis.Phase != v1alpha1.AnalysisFailed {
		t.Errorf("it failed on one that is not: %+v", d.Status.Analysis)
	}
	s.Measurements, s.Nodes[1].Ready = nil, false
	d = Plan(s)
	if b := condition(t, d, v1alpha1.ConditionBlocked); steps(d) != "" || b.Reason != v1alpha1.ReasonNodeNotReady || !strings.Contains(b.Message, "n0000, n0001") {
		t.Errorf("all are dead:\n%s", summary(d))
	}
}

// TestMeasurementOfADrainedNode: what is measured on a node that somebody drains says nothing of
// the template, and where all of a wave are drained, the next one is measured.
func TestMeasurementOfADrainedNode(t *testing.T) {
	s := refusedByANode()
	s.Nodes[0].Leaving, s.Nodes[0].Evicting = true, true
	d := Plan(s)
	if a := d.Status.Analysis; a.Checks[0].Failed != 0 || a.Phase != v1alpha1.AnalysisMeasuring || !slices.Equal(a.Nodes, []string{"n0001"}) {
		t.Errorf("one is drained: %+v", a)
	}
	s.Measurements[0].FailedOn = []string{"n0000", "n0001"}
	if d := Plan(s); d.Status.Analysis.Phase != v1alpha1.AnalysisFailed {
		t.Errorf("it failed on one that is not: %+v", d.Status.Analysis)
	}
	drained := s.Nodes[1].Deployment
	for _, since := range []time.Time{start.Add(-time.Minute), {}} {
		drained.Drained, drained.DrainedAt = true, since
		if d := Plan(s); d.Status.Analysis != nil || d.Status.Rejected != nil {
			t.Errorf("all are drained, the last since %s: %+v, %+v", since, d.Status.Analysis, d.Status.Rejected)
		}
	}
	s.Status.Analysis.Phase, s.Status.Analysis.Generation = v1alpha1.AnalysisFailed, s.Generation
	if d := Plan(s); d.Status.Analysis == nil || d.Status.Analysis.Phase != v1alpha1.AnalysisFailed {
		t.Errorf("all are drained after it failed: %+v", d.Status.Analysis)
	}
}

// TestTheNextWaveWaitsForNobodyElse: the nodes that are next, and are measured then, do not wait for one that was
// marked in its turn and that somebody drains, though nobody may know since when, keeps out, or takes out of the
// node set, for as long as they like.
func TestTheNextWaveWaitsForNobodyElse(t *testing.T) {
	for name, test := range map[string]struct {
		change func(n *Node)
		begin  []string
	}{
		"in its turn":                      {func(*Node) {}, []string{"n0000"}},
		"drained":                          {func(n *Node) { n.Deployment.Drained, n.Deployment.DrainedAt, n.Leaving = true, start, true }, []string{"n0001"}},
		"drained, nobody knows since when": {func(n *Node) { n.Deployment.Drained, n.Leaving = true, true }, []string{"n0001"}},
		"kept out":                         {func(n *Node) { n.Deployment.Detached = true }, []string{"n0001"}},
		"not in the node set any more":     {func(n *Node) { n.Wanted = false }, []string{"n0001"}},
	} {
		s := markedFleet(4)
		analysed(&s.Spec)
		s.Spec.UpdateStrategy.RollingUpdate.MaxUnavailableNodes, s.Spec.UpdateStrategy.RollingUpdate.MinServingNodes = number(2), number(1)
		s.Status.Wave = []string{"n0000"}
		test.change(&s.Nodes[0])
		d := Plan(s)
		var measured []string
		if d.Status.Analysis != nil {
			measured = d.Status.Analysis.Nodes
		}
		if !slices.Contains(d.Status.Wave, test.begin[0]) || !slices.Equal(measured, test.begin) {
			t.Errorf("%s: %v are measured\n%s", name, measured, summary(d))
		}
	}
}

// TestWhoIsMeasuredWhenAWaveEnds: the nodes that have the present template, but for one that was kept out in the
// middle of its turn, which may go on with it at any moment. What fails since they serve is what is measured.
func TestWhoIsMeasuredWhenAWaveEnds(t *testing.T) {
	for name, test := range map[string]struct {
		change func(n *Node)
		want   []string
	}{
		"both serve":                     {func(*Node) {}, []string{"n0000", "n0001"}},
		"one is kept out":                {func(n *Node) { n.Deployment.Detached = true }, []string{"n0000", "n0001"}},
		"one is kept out halfway":        {func(n *Node) { n.Deployment.Detached, n.Deployment.Settled = true, false }, []string{"n0001"}},
		"pods of one are not ready":      {func(n *Node) { n.Pods[0].Ready, n.Deployment.ReadyReplicas = false, 1 }, []string{"n0000", "n0001"}},
		"one has the template of before": {func(n *Node) { updatedTo(n, "r1") }, []string{"n0001"}},
	} {
		s := servingFleet(3)
		analysed(&s.Spec)
		began := metav1.NewMicroTime(start.Add(-time.Minute))
		s.Revision = "r2"
		s.Status.Analysis = &v1alpha1.AnalysisStatus{Revision: "r2", Phase: v1alpha1.AnalysisOfWave, Nodes: []string{"n0000", "n0001"}, Began: began, Since: began}
		updatedTo(&s.Nodes[0], "r2")
		updatedTo(&s.Nodes[1], "r2")
		test.change(&s.Nodes[0])
		d := Plan(s)
		if a := d.Status.Analysis; a == nil || a.Phase != v1alpha1.AnalysisMeasuring || !slices.Equal(a.Nodes, test.want) {
			t.Errorf("%s: %+v\n%s", name, a, summary(d))
		}
	}
}

// TestMeasurementOfNoPods: nodes that are to have no pods are not measured, and nothing waits for that.
func TestMeasurementOfNoPods(t *testing.T) {
	s := markedFleet(2)
	analysed(&s.Spec)
	s.Spec.PodsPerNode = new(int32(0))
	began := metav1.NewMicroTime(start.Add(-time.Minute))
	for _, on := range []*v1alpha1.AnalysisStatus{nil, {Revision: "r2", Phase: v1alpha1.AnalysisMeasuring, Nodes: []string{"n0000"}, Began: began, Since: began}} {
		s.Status.Analysis = on
		if d := Plan(s); d.Status.Analysis != nil || strings.Contains(steps(d), "Measure") {
			t.Errorf("%+v\n%s", d.Status.Analysis, summary(d))
		}
	}
}

// TestUnreadableCheck: while a check cannot be read nothing begins, and nothing is measured that
// would have the template rejected.
func TestUnreadableCheck(t *testing.T) {
	s := servingFleet(3)
	analysed(&s.Spec)
	s.Revision = "r2"
	s.Faults = []Fault{{v1alpha1.ReasonAnalysisInvalid, "check errors: it cannot be read"}}
	if d := Plan(s); steps(d) != "" || len(d.Status.Wave) > 0 || condition(t, d, v1alpha1.ConditionBlocked).Reason != v1alpha1.ReasonAnalysisInvalid {
		t.Errorf("before: %s", summary(d))
	}
	updatedTo(&s.Nodes[0], "r2")
	began := metav1.NewMicroTime(start.Add(-time.Minute))
	s.Status.Analysis = &v1alpha1.AnalysisStatus{Revision: "r2", Phase: v1alpha1.AnalysisMeasuring, Nodes: []string{"n0000"}, Began: began, Since: began}
	if d := Plan(s); steps(d) != "" {
		t.Errorf("while it is measured: %s", summary(d))
	}
	s.Faults = nil
	if d := Plan(s); steps(d) != "Measure errors" {
		t.Errorf("after: %s", summary(d))
	}
}

// TestNothingIsAskedWherePodsAreMissing: a check by HTTP waits for a pod of the wave, and says so
// once the wave is over; others are measured.
func TestNothingIsAskedWherePodsAreMissing(t *testing.T) {
	s := servingFleet(3)
	analysed(&s.Spec)
	checks := s.Spec.UpdateStrategy.RollingUpdate.Analysis
	asked := checks[0]
	asked.Name, asked.HTTP, asked.DuringWave = "asked", &v1alpha1.HTTPCheck{Port: 80}, true
	checks[0].DuringWave = true
	s.Spec.UpdateStrategy.RollingUpdate.Analysis = append(checks, asked)
	s.Revision = "r2"
	began := metav1.NewMicroTime(start.Add(-time.Minute))
	s.Status.Wave, s.Status.Analysis = []string{"n0000"}, &v1alpha1.AnalysisStatus{Revision: "r2", Nodes: []string{"n0000"}, Began: began, Since: began}
	s.Nodes[0].Deployment.Revision = "r2"
	for phase, waits := range map[v1alpha1.AnalysisPhase]bool{v1alpha1.AnalysisOfWave: false, v1alpha1.AnalysisMeasuring: true} {
		s.Status.Analysis.Phase = phase
		for _, pod := range []Pod{{Revision: "r1", Running: true}, {Revision: "r2"}, {Revision: "r2", Running: true}} {
			s.Nodes[0].Pods = []Pod{pod}
			d := Plan(s)
			runs := pod.Running && pod.Revision == "r2"
			blocked := condition(t, d, v1alpha1.ConditionBlocked)
			if !strings.Contains(steps(d), "Measure errors") || strings.Contains(steps(d), "Measure asked") != runs {
				t.Errorf("%s, %+v: %s", phase, pod, summary(d))
			}
			if got := blocked.Reason == v1alpha1.ReasonNodesNotServing && strings.Contains(blocked.Message, "n0000"); got != (waits && !runs) {
				t.Errorf("%s, %+v: %+v", phase, pod, blocked)
			}
		}
	}
}

// TestMeasurementOfAFormerWave: what was measured of another wave counts neither for nor
// against this one, nor does it put off the first measurement.
func TestMeasurementOfAFormerWave(t *testing.T) {
	s := servingFleet(3)
	analysed(&s.Spec)
	s.Revision = "r2"
	each(&s, func(n *Node) { updatedTo(n, "r2") })
	began := metav1.NewMicroTime(start.Add(-time.Minute))
	s.Status.Analysis = &v1alpha1.AnalysisStatus{Revision: "r2", Phase: v1alpha1.AnalysisMeasuring, Nodes: []string{"n0001"}, Began: began, Since: began}
	former := AnalysisID(&v1alpha1.AnalysisStatus{Began: metav1.NewMicroTime(start.Add(-2 * time.Minute))})
	for _, failure := range []string{"", "too many"} {
		s.Measurements = []Measurement{{Check: "errors", Analysis: former, At: start.Add(-time.Second), Failure: failure}}
		d := Plan(s)
		if c := d.Status.Analysis.Checks[0]; c.Passed+c.Failed != 0 || steps(d) != "Measure errors" {
			t.Errorf("failure %q: counted %+v\n%s", failure, c, summary(d))
		}
	}
}

// TestMeasurementIsCountedOnce: one that was counted is not counted again, also where another
// controller has counted one of its own since.
func TestMeasurementIsCountedOnce(t *testing.T) {
	s := refusedByANode()
	s.Measurements[0].Failure, s.Measurements[0].FailedOn = "", nil
	s.Status.Analysis.Checks = []v1alpha1.AnalysisCheckStatus{{Name: s.Measurements[0].Check, Passed: 1, At: new(metav1.NewMicroTime(start.Add(-10 * time.Minute)))}}
	for counted, want := range map[bool]int32{false: 2, true: 1} {
		s.Measurements[0].Counted = counted
		if c := Plan(s).Status.Analysis.Checks[0]; c.Passed != want {
			t.Errorf("counted before: %t: %+v", counted, c)
		}
	}
}

// TestRollbackAfterATimeOut: a rollback passes by a node whose detachment timed out, and
// takes back the others.
func TestRollbackAfterATimeOut(t *testing.T) {
	s := servingFleet(3)
	s.Revision = "r2"
	s.Status.CurrentRevision = "r1"
	s.Status.Rejected = &v1alpha1.RejectedRevision{Revision: "r2", Message: "it fails"}
	s.Status.DetachTimedOut = &v1alpha1.NodesTimedOut{Generation: 1, Nodes: []string{"n0000"}}
	for i := range 2 {
		updatedTo(&s.Nodes[i], "r2")
	}
	d := Plan(s)
	if !slices.Equal(d.Status.Wave, []string{"n0001"}) || !strings.Contains(condition(t, d, v1alpha1.ConditionProgressing).Message, "not tried again until the spec changes: n0000") {
		t.Errorf("%s", summary(d))
	}
	s.Status, s.Generation = d.Status, 2
	s.Status.Wave = nil
	if d := Plan(s); !slices.Equal(d.Status.Wave, []string{"n0000"}) {
		t.Errorf("after a change of the spec:\n%s", summary(d))
	}

	s.Status, s.Generation = d.Status, 1
	s.Status.Wave = nil
	s.Status.DetachTimedOut = &v1alpha1.NodesTimedOut{Generation: 1, Nodes: []string{"n0000"}}
	s.Spec.UpdateStrategy.RollingUpdate.Order = v1alpha1.Order{TopologyKey: "zone"}
	for i, zone := range []string{"a", "b", "c"} {
		s.Nodes[i].Labels = map[string]string{"zone": zone}
	}
	if d := Plan(s); !slices.Equal(d.Status.Wave, []string{"n0001"}) {
		t.Errorf("it holds up the next zone:\n%s", summary(d))
	}

	s = markedFleet(3)
	s.Now = start.Add(time.Hour)
	s.Nodes[0].Checks[0].Answered = false
	s.Status.Rejected, s.Revision = &v1alpha1.RejectedRevision{Revision: "r1"}, "r1"
	s.Status.CurrentRevision = "r2"
	d = Plan(s)
	if d.Status.DetachTimedOut == nil || !slices.Equal(d.Status.DetachTimedOut.Nodes, []string{"n0000"}) || steps(d) != "" {
		t.Fatalf("the time-out is not on record before the node is let go:\n%s", summary(d))
	}
	s.Status = d.Status
	if got := steps(Plan(s)); got != "Unmark n0000" {
		t.Errorf("then %q", got)
	}
}

// TestTimestampThatStays: a node whose detacher does not put it back does not hold up
// its wave for ever; the others go on within the budget, and Blocked says why not.
func TestTimestampThatStays(t *testing.T) {
	for budget, want := range []int{1: 0, 2: 1} {
		if budget == 0 {
			continue
		}
		s := servingFleet(4)
		byBoth(&s.Spec)
		s.Revision, s.Status.Wave = "r2", []string{"n0000"}
		s.Spec.UpdateStrategy.RollingUpdate.MaxUnavailableNodes = number(budget)
		n := &s.Nodes[0]
		updatedTo(n, "r2")
		n.Deployment.AttachedAt, n.Detachment.Timestamp = start.Add(-time.Minute), "2026-01-01T00:00:00Z"
		if d := Plan(s); stateOf(d, "n0000") != v1alpha1.NodeAttaching || !slices.Contains(d.Status.Wave, "n0000") {
			t.Errorf("a minute after it was released:\n%s", summary(d))
		}
		n.Deployment.AttachedAt = start.Add(-11 * time.Minute)
		d := Plan(s)
		if b := condition(t, d, v1alpha1.ConditionBlocked); len(d.Status.Wave) != want || slices.Contains(d.Status.Wave, "n0000") || b.Reason != v1alpha1.ReasonAttachTimedOut {
			t.Errorf("budget %d:\n%s", budget, summary(d))
		}
	}
}

// TestHeldByOthers: a node that somebody else has detached holds up its wave no longer than a
// detacher that does not put it back, and nobody is told to look at one.
func TestHeldByOthers(t *testing.T) {
	s := servingFleet(4)
	byBoth(&s.Spec)
	s.Revision, s.Status.Wave = "r2", []string{"n0000"}
	s.Spec.UpdateStrategy.RollingUpdate.MaxUnavailableNodes = number(2)
	n := &s.Nodes[0]
	updatedTo(n, "r2")
	n.Deployment.AttachedAt, n.Detachment.Held = start.Add(-time.Minute), true
	if d := Plan(s); stateOf(d, "n0000") != v1alpha1.NodeAttaching || !slices.Contains(d.Status.Wave, "n0000") {
		t.Errorf("a minute after it was released:\n%s", summary(d))
	}
	n.Deployment.AttachedAt = start.Add(-11 * time.Minute)
	d := Plan(s)
	if b := condition(t, d, v1alpha1.ConditionBlocked); len(d.Status.Wave) != 1 || slices.Contains(d.Status.Wave, "n0000") || b.Reason != v1alpha1.ReasonAsExpected {
		t.Errorf("after the time-out:\n%s", summary(d))
	}
	n.Pods[1].Terminating = true
	if d := Plan(s); !slices.Contains(d.Status.Wave, "n0000") {
		t.Errorf("while its pods are being replaced:\n%s", summary(d))
	}
}

// TestDeadNodeAndBudget: one pass says why a dead node stops a rollout, and the ways out;
// with the time set for it the budget leaves the node out, and minServingNodes does not.
func TestDeadNodeAndBudget(t *testing.T) {
	for name, inTurn := range map[string]bool{"before its turn": false, "in its turn": true} {
		t.Run(name, func(t *testing.T) {
			s := servingFleet(4)
			if inTurn {
				s = markedFleet(4)
			}
			s.Revision = "r2"
			s.Nodes[0].Ready, s.Nodes[0].Checks[0].Answered = false, false
			sights := &Sights{}
			d := look(sights, s, 0)
			b := condition(t, d, v1alpha1.ConditionBlocked)
			if !strings.Contains(b.Message, "node n0000 does not serve (the Node is NotReady), which uses up the budget") || !strings.Contains(b.Message, "ignoreNotReadyNodesAfterSeconds") {
				t.Errorf("%+v", b)
			}
			s.Spec.UpdateStrategy.RollingUpdate.IgnoreNotReadyNodesAfterSeconds = number32(300)
			if d := look(sights, s, 299*time.Second); slices.Contains(d.Status.Wave, "n0001") || d.WakeAt.After(start.Add(300*time.Second)) {
				t.Errorf("a second before its time:\n%s", summary(d))
			}
			look(sights, s, 300*time.Second)
			if d := look(sights, s, 300*time.Second+lookAgain); !slices.Contains(d.Status.Wave, "n0001") {
				t.Errorf("when its time is over:\n%s", summary(d))
			}
			s.Spec.UpdateStrategy.RollingUpdate.MinServingNodes = number(3)
			if d := look(sights, s, 300*time.Second+lookAgain); slices.Contains(d.Status.Wave, "n0001") || !strings.Contains(condition(t, d, v1alpha1.ConditionBlocked).Message, "minServingNodes is 3") {
				t.Errorf("minServingNodes counts it:\n%s", summary(d))
			}
		})
	}
}

// TestDroppedClaim: a claim that ends before its node was touched leaves a stamp on
// the Deployment; one that was touched needs none.
func TestDroppedClaim(t *testing.T) {
	s := servingFleet(3)
	s.Revision = "r2"
	sights := &Sights{}
	look(sights, s, 0)
	s.Status.Wave = []string{"n0000"}
	if got := steps(look(sights, s, time.Second)); got != "Mark n0000" {
		t.Fatalf("the claim is taken up by %q", got)
	}
	s.Spec.Paused = true
	d := look(sights, s, 2*time.Second)
	if steps(d) != "Stamp n0000" || len(d.Status.Wave) != 0 {
		t.Errorf("paused before it was touched:\n%s", summary(d))
	}
	updatedTo(&s.Nodes[0], "r2")
	s.Nodes[0].Deployment.UpdatedAt = start.Add(3 * time.Second)
	s.Nodes[0].Deployment.AttachedAt = start.Add(4 * time.Second)
	look(sights, s, time.Minute)
	if d := look(sights, s, 2*time.Minute); steps(d) != "" || len(d.Status.Wave) != 0 {
		t.Errorf("after its turn:\n%s", summary(d))
	}
}

// TestBlipOfTheFleet: pods of all outdated nodes that are unready for a moment are not replaced
// at once when they are ready again, however short the moment was and whatever
// minReadySeconds is, but take turns; where they crash again they are.
func TestBlipOfTheFleet(t *testing.T) {
	const blip = time.Minute
	ready := func(s *State, are bool, since time.Duration) {
		each(s, func(n *Node) {
			n.Deployment.ReadyReplicas = 0
			for i := range n.Pods {
				n.Pods[i].Ready, n.Pods[i].ReadySince = are, start.Add(since)
			}
		})
	}
	for name, test := range map[string]struct {
		minReady int32
		lasts    time.Duration
		crash    bool
		want     string
	}{
		"shorter than the grace":     {60, 2 * time.Second, false, "7s: Unmark"},
		"almost as long":             {0, 6 * time.Second, false, "11s: Unmark"},
		"they crash after the grace": {0, 6 * time.Second, true, "10s: Update"},
	} {
		t.Run(name, func(t *testing.T) {
			s := servingFleet(5)
			s.Revision, s.Spec.MinReadySeconds = "r2", test.minReady
			s.Spec.UpdateStrategy.RollingUpdate.MinServingNodes = number(4)
			sights := &Sights{}
			look(sights, s, 0)
			ready(&s, false, 0)
			each(&s, func(n *Node) { n.Checks[0] = Check{Port: 10080, Answered: true, Since: start.Add(blip)} })
			marks := look(sights, s, blip)
			for i, step := range marks.Steps {
				s.Nodes[i].Deployment.Mark, s.Nodes[i].Checks[0].Mark = step.Mark, step.Mark
			}
			got := ""
			for after := time.Second; got == "" && after < time.Minute; after += time.Second {
				if after == test.lasts {
					ready(&s, true, blip+after)
				}
				if test.crash && after == 10*time.Second {
					ready(&s, false, 0)
				}
				if d := look(sights, s, blip+after); len(d.Steps) > 0 {
					got = after.String() + ": " + string(d.Steps[0].Action)
				}
			}
			if len(marks.Steps) != 5 || got != test.want {
				t.Errorf("%d marked, then %q, want %q", len(marks.Steps), got, test.want)
			}
		})
	}
}

// TestGoneNodeHeldByAFinalizer: the Deployment of a Node that is gone uses up no budget while
// somebody's finalizer keeps it.
func TestGoneNodeHeldByAFinalizer(t *testing.T) {
	s := servingFleet(3)
	s.Revision = "r2"
	n := &s.Nodes[0]
	n.Exists, n.Wanted, n.Ready, n.Pods, n.Checks = false, false, false, nil, nil
	n.Deployment.Mark, n.Deployment.Deleting = v1alpha1.NewMark(start.Add(-time.Hour), "r2", ""), true
	if d := Plan(s); len(d.Status.Wave) != 1 {
		t.Errorf("nothing begins:\n%s", summary(d))
	}
}
