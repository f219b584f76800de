package rollout

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// TestBudget: how many nodes begin together.
func TestBudget(t *testing.T) {
	for name, test := range map[string]struct {
		budget *intstr.IntOrString
		change func(s *State)
		want   int
	}{
		"one":                       {number(1), func(*State) {}, 1},
		"percent is rounded up":     {percent(11), func(*State) {}, 2},
		"all but the minimum":       {percent(100), func(*State) {}, 9},
		"no minimum":                {percent(100), func(s *State) { s.Spec.UpdateStrategy.RollingUpdate.MinServingNodes = number(0) }, 10},
		"a NotReady node counts":    {number(2), func(s *State) { s.Nodes[9].Ready = false }, 1},
		"a node that is missing":    {number(2), func(s *State) { s.Nodes[9].Deployment = nil; s.Nodes[9].Pods = nil }, 1},
		"a node that others hold":   {number(2), func(s *State) { s.Nodes[9].Detachment.Held = true; byBoth(&s.Spec); max2(s) }, 2},
		"a check does not answer":   {number(2), func(s *State) { s.Nodes[9].Checks[0].Answered = false }, 1},
		"no check answers":          {number(2), func(s *State) { each(s, func(n *Node) { n.Checks[0].Answered = false }) }, 0},
		"every check fails":         {number(2), func(s *State) { each(s, func(n *Node) { n.Checks[0].Serving = false }) }, 2},
		"checkers just restarted":   {number(2), func(s *State) { each(s, func(n *Node) { n.Checks[0].Since = start }) }, 0},
		"paused":                    {number(2), func(s *State) { s.Spec.Paused = true }, 0},
		"refused by the API server": {number(2), func(s *State) { s.DryRun.Refusal = "no" }, 0},
		"not tried yet":             {number(2), func(s *State) { s.DryRun = DryRun{} }, 0},
		"checkers outdated":         {number(2), func(s *State) { s.Checkers[0].Outdated = true }, 0},
		"checkers being replaced":   {number(2), func(s *State) { each(s, func(n *Node) { n.CheckersSettled = false }) }, 0},
		"a node just returned": {number(2), func(s *State) {
			n := &s.Nodes[9]
			n.Deployment.Settled, n.Checks[0].Since, n.CheckersSettled = false, start, false
		}, 1},
		"nonsense": {new(intstr.FromString("lots")), func(s *State) {
			s.Spec.UpdateStrategy.RollingUpdate.MaxDegradedNodes = new(intstr.FromString("lots"))
		}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := servingFleet(10)
			s.Revision = "r2"
			s.Spec.UpdateStrategy.RollingUpdate.MaxUnavailableNodes = test.budget
			test.change(&s)
			d := Plan(s)
			if len(d.Status.Wave) != test.want {
				t.Errorf("%d nodes begin, want %d\n%s", len(d.Status.Wave), test.want, summary(d))
			}
		})
	}
}

// TestCheckThatDoesNotAnswer delays only its own node where the budget permits: it would never
// acknowledge a mark, and halt the others by that. Where the budget does not, it is named.
func TestCheckThatDoesNotAnswer(t *testing.T) {
	const waits = "node n0000 waits for its update until its health check on port 10080 answers"
	for budget, want := range map[int][]string{1: nil, 2: {"n0001"}} {
		s := servingFleet(3)
		s.Revision, s.Nodes[0].Checks[0] = "r2", Check{Port: 10080, Accepted: true}
		s.Spec.UpdateStrategy.RollingUpdate.MaxUnavailableNodes = number(budget)
		d := Plan(s)
		if b := condition(t, d, v1alpha1.ConditionBlocked); !slices.Equal(d.Status.Wave, want) || !strings.Contains(b.Message, waits) {
			t.Errorf("budget %d: %s begin, %+v\n%s", budget, d.Status.Wave, b, summary(d))
		}
	}
}

func number32(n int32) *int32 { return &n }

func max2(s *State) { s.Spec.UpdateStrategy.RollingUpdate.MaxUnavailableNodes = number(2) }

func each(s *State, change func(n *Node)) {
	for i := range s.Nodes {
		change(&s.Nodes[i])
	}
}

// TestTwoSteps: a node is named before it is touched.
func TestTwoSteps(t *testing.T) {
	s := servingFleet(3)
	s.Revision = "r2"
	first := Plan(s)
	if steps(first) != "" || !slices.Equal(first.Status.Wave, []string{"n0000"}) {
		t.Fatalf("first decision:\n%s", summary(first))
	}
	s.Status = first.Status
	second := Plan(s)
	if steps(second) != "Mark n0000" || second.Steps[0].Mark != v1alpha1.NewMark(start, "r2", "") || !slices.Equal(second.Status.Wave, []string{"n0000"}) {
		t.Errorf("second decision:\n%s", summary(second))
	}
}

// TestClaimOfAnotherLeader: a new leader asks anew whether the API server accepts the template,
// and until then neither touches nodes that were claimed before nor drops their claims.
func TestClaimOfAnotherLeader(t *testing.T) {
	s := servingFleet(3)
	s.Revision = "r2"
	s.Status.Wave, s.DryRun = []string{"n0000"}, DryRun{}
	d := Plan(s)
	if got := steps(d); got != "DryRunDeployment" || !slices.Equal(d.Status.Wave, []string{"n0000"}) {
		t.Errorf("it does %s, and the wave is %v", got, d.Status.Wave)
	}
	s.DryRun = DryRun{Done: true, Refusal: "no such class"}
	s.Status.CurrentRevision = "r1"
	if d := Plan(s); len(d.Status.Wave) > 0 {
		t.Errorf("a template is refused, and the wave is still %v", d.Status.Wave)
	}
}

// TestBrokenNodes: ready nodes that serve nothing begin at once and together, beside the
// budget.
func TestBrokenNodes(t *testing.T) {
	s := servingFleet(4)
	s.Revision = "r2"
	for i := range 3 {
		n := &s.Nodes[i]
		n.Checks[0].Serving, n.Pods[0].Ready, n.Pods[1].Ready = false, false, false
	}
	s.Nodes[2].Ready = false
	d := Plan(s)
	if got, want := steps(d), "Mark n0000 out of turn, Mark n0001 out of turn"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if len(d.Status.Wave) > 0 {
		t.Errorf("the wave is %v", d.Status.Wave)
	}
	s.Spec.UpdateStrategy.RollingUpdate = nil
	if got, want := steps(Plan(s)), "Update n0000 to r2 x2, Update n0001 to r2 x2"; got != want {
		t.Errorf("updated while nodes serve: got %q, want %q", got, want)
	}
}

// TestNodeThatIsAskedFor: one whose Node still asks for its detachment, although its mark
// was removed, is under way already. It keeps its place in the wave, takes up one of the
// budget, and goes on in its turn, also where it serves nothing, and where no other may begin.
func TestNodeThatIsAskedFor(t *testing.T) {
	asked := func(n *Node, ready int) {
		n.Checks[0].Serving, n.Pods[0].Ready, n.Pods[1].Ready = false, ready > 0, false
		n.Detachment = Detachment{Requested: true, Held: true, RequestedAt: start.Add(-20 * time.Second)}
	}
	for name, test := range map[string]struct {
		change func(s *State)
		wave   []string
	}{
		"others may begin": {func(*State) {}, []string{"n0000"}},
		"paused":           {func(s *State) { s.Spec.Paused = true }, []string{"n0000"}},
		"halted": {func(s *State) {
			s.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionProgressing, Reason: v1alpha1.ReasonDetachTimedOut, ObservedGeneration: s.Generation}}
		}, []string{"n0000"}},
		"its analysis failed": {func(s *State) {
			s.Spec.UpdateStrategy.RollingUpdate.Analysis = []v1alpha1.AnalysisCheck{{Name: "errors", DuringWave: true, FailureLimit: number32(0)}}
			began := metav1.NewMicroTime(start.Add(-time.Minute))
			s.Status.Analysis = &v1alpha1.AnalysisStatus{Revision: "r2", Phase: v1alpha1.AnalysisFailed, Generation: s.Generation, Nodes: []string{"n0000"}, Began: began, Since: began}
		}, []string{"n0000"}},
		"at the minimum, and its check passes": {func(s *State) {
			s.Spec.UpdateStrategy.RollingUpdate.MinServingNodes, s.Nodes[0].Checks[0].Serving = number(3), true
		}, []string{"n0000"}},
		"beside a dead one, and its check passes": {func(s *State) { s.Nodes[1].Ready, s.Nodes[0].Checks[0].Serving = false, true }, []string{"n0000"}},
		"another is asked for, too":               {func(s *State) { asked(&s.Nodes[1], 0) }, []string{"n0000", "n0001"}},
	} {
		for ready := range 2 {
			t.Run(fmt.Sprintf("%s, %d pods are ready", name, ready), func(t *testing.T) {
				s := servingFleet(3)
				byBoth(&s.Spec)
				s.Revision = "r2"
				asked(&s.Nodes[0], ready)
				test.change(&s)
				d := Plan(s)
				if steps(d) != "" || !slices.Equal(d.Status.Wave, test.wave) {
					t.Errorf("first\n%s", summary(d))
				}
				s.Status.Wave = d.Status.Wave
				if d := Plan(s); steps(d) != "Mark n0000" {
					t.Errorf("in its turn\n%s", summary(d))
				}
			})
		}
	}
}

// TestOutOfTurn: what becomes of a node that was marked because it served nothing.
func TestOutOfTurn(t *testing.T) {
	steady := func(n *Node, pods int) {
		for i := range pods {
			n.Pods[i].Ready, n.Pods[i].ReadySince = true, start.Add(-6*time.Second)
		}
	}
	bothAfter := func(s *State) {
		byBoth(&s.Spec)
		s.Spec.UpdateStrategy.RollingUpdate.FailHealthChecks = v1alpha1.FailAfterDetachment
	}
	for name, test := range map[string]struct {
		change func(s *State, n *Node)
		want   string
	}{
		"acknowledged":                  {func(*State, *Node) {}, "Update n0000 to r2 x2"},
		"not acknowledged yet":          {func(_ *State, n *Node) { n.Checks[0].Mark = "" }, ""},
		"failing for less than grace":   {func(_ *State, n *Node) { n.Checks[0].Since = start.Add(-9 * time.Second) }, ""},
		"a detacher is not asked":       {func(s *State, _ *Node) { byBoth(&s.Spec) }, "Update n0000 to r2 x2"},
		"not for long, after detaching": {func(s *State, n *Node) { bothAfter(s); n.Checks[0].Since = start.Add(-9 * time.Second) }, ""},
		"for long, after detaching":     {func(s *State, _ *Node) { bothAfter(s) }, "Update n0000 to r2 x2"},
		"no port but a detacher":        {func(s *State, n *Node) { byAnnotation(&s.Spec); n.Checks = nil }, "RequestDetachment n0000"},
		"no port, and a pod is ready":   {func(s *State, n *Node) { byAnnotation(&s.Spec); n.Checks = nil; n.Pods[0].Ready = true }, "RequestDetachment n0000"},
		"no port, and all are ready":    {func(s *State, n *Node) { byAnnotation(&s.Spec); n.Checks = nil; steady(n, 2) }, "Unmark n0000"},
		"all are ready for a moment, by a kubelet's clock that is behind": {func(_ *State, n *Node) {
			steady(n, 2)
			n.Checks[0].Mark, n.Seen, n.Pods[0].SeenReady, n.Pods[1].SeenReady = "", &Seen{Mark: start}, start, start
		}, ""},
		"all pods are ready for a moment": {func(_ *State, n *Node) {
			n.Pods[0].Ready, n.Pods[1].Ready, n.Pods[0].ReadySince, n.Pods[1].ReadySince = true, true, start, start
		}, ""},
		"for a moment, and a detacher": {func(s *State, n *Node) {
			byBoth(&s.Spec)
			n.Pods[0].Ready, n.Pods[1].Ready, n.Pods[0].ReadySince, n.Pods[1].ReadySince = true, true, start, start
		}, ""},
		"for a moment, and it left the set": {func(_ *State, n *Node) {
			n.Wanted, n.Pods[0].Ready, n.Pods[1].Ready, n.Pods[0].ReadySince, n.Pods[1].ReadySince = false, true, true, start, start
		}, ""},
		"for a moment, never acknowledged": {func(s *State, n *Node) {
			s.Now = start.Add(time.Hour)
			n.Pods[0].Ready, n.Pods[1].Ready, n.Pods[0].ReadySince, n.Pods[1].ReadySince, n.Checks[0].Mark = true, true, s.Now, s.Now, ""
		}, "Unmark n0000"},
		"all pods are ready again":      {func(_ *State, n *Node) { steady(n, 2) }, "Unmark n0000"},
		"one of two is ready again":     {func(_ *State, n *Node) { steady(n, 1) }, "Update n0000 to r2 x2"},
		"one is ready, and a detacher":  {func(s *State, n *Node) { byBoth(&s.Spec); steady(n, 1) }, "RequestDetachment n0000"},
		"it needs no update any more":   {func(s *State, _ *Node) { s.Revision = "r1" }, "Unmark n0000"},
		"never acknowledged":            {func(s *State, n *Node) { n.Checks[0].Mark, s.Now = "", start.Add(time.Hour) }, "Update n0000 to r2 x2"},
		"never, and it is NotReady":     {func(s *State, n *Node) { n.Ready, n.Checks[0].Mark, s.Now = false, "", start.Add(time.Hour) }, ""},
		"never, and its check passes":   {func(s *State, n *Node) { n.Checks[0].Mark, n.Checks[0].Serving, s.Now = "", true, start.Add(time.Hour) }, "Unmark n0000"},
		"never, and it does not answer": {func(s *State, n *Node) { n.Checks[0] = Check{Port: 10080}; s.Now = start.Add(time.Hour) }, ""},
		"a pod is ready, half updated":  {func(_ *State, n *Node) { n.Deployment.UpdatedAt, n.Pods[0].Ready = start, true }, "Update n0000 to r2 x2"},
		"it left the set":               {func(_ *State, n *Node) { n.Wanted = false }, "Delete n0000"},
		"it left the set and serves":    {func(_ *State, n *Node) { n.Wanted = false; steady(n, 2) }, "Unmark n0000"},
		"it left, dead and unanswered": {func(s *State, n *Node) {
			n.Wanted, n.Ready, n.Checks[0], s.Now = false, false, Check{Gone: true}, start.Add(time.Hour)
		}, "Delete n0000"},
		"somebody drains it":         {func(_ *State, n *Node) { n.Leaving, n.Evicting = true, true }, "Mark n0000"},
		"kept out, and serves again": {func(_ *State, n *Node) { n.Deployment.Detached = true; steady(n, 2) }, "Unmark n0000"},
		"named in the wave before":   {func(s *State, n *Node) { s.Status.Wave, n.Checks[0].Mark = []string{n.Name}, "" }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := servingFleet(3)
			s.Revision = "r2"
			n := &s.Nodes[0]
			n.Deployment.Mark = v1alpha1.NewMark(start.Add(-time.Second), "r2", v1alpha1.MarkOutOfTurn)
			n.Pods[0].Ready, n.Pods[1].Ready = false, false
			// It had failed for long when it was marked.
			n.Checks[0] = Check{Port: 10080, Answered: true, Mark: n.Deployment.Mark, Since: start.Add(-time.Hour)}
			for i := range 2 {
				s.Nodes[1+i].Deployment.Revision = s.Revision
				s.Nodes[1].Pods[i].Revision, s.Nodes[2].Pods[i].Revision = s.Revision, s.Revision
			}
			test.change(&s, n)
			d := Plan(s)
			if got := steps(d); got != test.want && !strings.HasPrefix(got, test.want+", ") {
				t.Errorf("got %q, want %q", got, test.want)
			}
			if len(d.Status.Wave) > 0 {
				t.Errorf("the wave is %v", d.Status.Wave)
			}
		})
	}
}

// TestOutOfTurnUsesNoBudget: a node that left the set and served nothing delays nobody.
func TestOutOfTurnUsesNoBudget(t *testing.T) {
	s := servingFleet(4)
	s.Revision = "r2"
	n := &s.Nodes[0]
	n.Wanted, n.Deployment.Mark, n.Pods = false, v1alpha1.NewMark(start, "r1", v1alpha1.MarkOutOfTurn), nil
	n.Checks[0] = Check{Port: 10080, Answered: true, Mark: "another"}
	s.Checkers[0].Outdated = true
	if d := Plan(s); steps(d) != "ApplyChecker 10080" {
		t.Errorf("the health checkers: %s", steps(d))
	}
	s.Checkers[0].Outdated = false
	if d := Plan(s); !slices.Equal(d.Status.Wave, []string{"n0001"}) {
		t.Errorf("the wave is %v", d.Status.Wave)
	}
}

// TestMinServing: a node that leaves the set must leave enough of the others serving.
func TestMinServing(t *testing.T) {
	for _, c := range []struct {
		least *intstr.IntOrString
		want  int
		says  string
	}{
		{number(0), 2, ""}, {number(1), 2, ""}, {number(2), 1, "minServingNodes is 2"}, {number(3), 0, "minServingNodes is 3"},
		{percent(0), 2, ""}, {percent(33), 2, ""}, {percent(34), 1, "minServingNodes is 34%, which is 2 of 3"}, {percent(100), 0, "minServingNodes is 100%, which is 3 of 3"},
		{new(intstr.FromString("many")), 0, `"many" is neither a number`},
	} {
		s := servingFleet(3)
		s.Spec.UpdateStrategy.RollingUpdate.MaxUnavailableNodes = number(2)
		s.Spec.UpdateStrategy.RollingUpdate.MinServingNodes = c.least
		s.Revision = "r2"
		d := Plan(s)
		if len(d.Status.Wave) != c.want {
			t.Errorf("minimum %s: %d nodes begin, want %d", c.least, len(d.Status.Wave), c.want)
		}
		if c.says != "" && !strings.Contains(condition(t, d, v1alpha1.ConditionBlocked).Message, c.says) {
			t.Errorf("minimum %s: %v", c.least, condition(t, d, v1alpha1.ConditionBlocked))
		}
	}
	s := servingFleet(2)
	s.Nodes[0].Wanted, s.Nodes[1].Ready = false, false
	if d := Plan(s); len(d.Status.Wave) != 0 {
		t.Errorf("the last serving node is let go:\n%s", summary(d))
	}
}

// TestMaxWave: the names fit into the status.
func TestMaxWave(t *testing.T) {
	s := servingFleet(maxWave + 5)
	s.Spec.UpdateStrategy.RollingUpdate.MaxUnavailableNodes = percent(100)
	s.Revision = "r2"
	if d := Plan(s); len(d.Status.Wave) != maxWave {
		t.Errorf("%d nodes in the wave", len(d.Status.Wave))
	}
	drained := 0
	for i := range s.Nodes[:maxWave+1] {
		drained++
		s.Nodes[i].Deployment.DrainedAt, s.Nodes[i].Leaving = start, true
		s.Nodes[i].Deployment.Mark = v1alpha1.NewMark(start, "r1", "")
	}
	if d := Plan(s); len(d.Status.Wave) != drained {
		t.Errorf("%d nodes in the wave with %d that are drained", len(d.Status.Wave), drained)
	}
}

// TestReleasedNode: a node that was let go of keeps its place in the wave until
// the detacher has let go of it too.
func TestReleasedNode(t *testing.T) {
	s := servingFleet(3)
	byBoth(&s.Spec)
	s.Status.Wave = []string{"n0000"}
	s.Nodes[0].Detachment.Timestamp = start.Add(-time.Minute).Format(time.RFC3339)
	s.Nodes[0].Deployment.AttachedAt = start.Add(-20 * time.Second)
	if d := Plan(s); stateOf(d, "n0000") != v1alpha1.NodeAttaching || len(d.Status.Wave) != 1 || d.Status.ServingNodes != 2 {
		t.Errorf("got\n%s", summary(d))
	}
	s.Nodes[0].Detachment.Timestamp = ""
	if d := Plan(s); len(d.Status.Wave) != 0 || d.Status.ServingNodes != 3 {
		t.Errorf("got\n%s", summary(d))
	}
}

// TestStillReleased: a node that we let go of is not asked for again before the
// detacher has let go of it too, but not for ever.
func TestStillReleased(t *testing.T) {
	for since, want := range map[time.Duration]int{time.Second: 0, 11 * time.Minute: 1} {
		s := servingFleet(3)
		byBoth(&s.Spec)
		s.Revision = "r2"
		s.Nodes[1].Ready, s.Nodes[2].Ready = true, true
		each(&s, func(n *Node) { n.Deployment.Revision = "r2"; n.Pods[0].Revision = "r2"; n.Pods[1].Revision = "r2" })
		s.Nodes[0].Deployment.Revision = "r1"
		s.Nodes[0].Deployment.AttachedAt = start.Add(-since)
		s.Nodes[0].Detachment.Timestamp = start.Add(-time.Hour).Format(time.RFC3339)
		if d := Plan(s); len(d.Status.Wave) != want {
			t.Errorf("%s after it was released %d nodes begin, want %d\n%s", since, len(d.Status.Wave), want, summary(d))
		}
	}
}

// TestOrder: who goes first.
func TestOrder(t *testing.T) {
	s := servingFleet(0)
	s.Spec.UpdateStrategy.RollingUpdate.CanaryNodeSelector = map[string]string{"canary": "true"}
	s.Spec.UpdateStrategy.RollingUpdate.Order.TopologyKey = "zone"
	for name, labels := range map[string]map[string]string{
		"none": {}, "b2": {"zone": "b"}, "b1": {"zone": "b"}, "a": {"zone": "a"}, "z": {"zone": "z", "canary": "true"}, "empty": {"zone": ""},
	} {
		n := servingNode(name)
		n.Labels = labels
		s.Nodes = append(s.Nodes, n)
	}
	var got []string
	for _, v := range newPlanner(s).ordered(func(*view) bool { return true }) {
		got = append(got, v.Name)
	}
	if want := []string{"z", "a", "b1", "b2", "empty", "none"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// TestOrderWhereOthersAreAnalysed: the nodes of a wave do not wait for an earlier zone that
// waits for their analysis.
func TestOrderWhereOthersAreAnalysed(t *testing.T) {
	s := servingFleet(2)
	s.Revision, s.Revisions = "r2", map[string]bool{"r1": true, "r2": true}
	s.Spec.UpdateStrategy.RollingUpdate.Order.TopologyKey = "zone"
	s.Spec.UpdateStrategy.RollingUpdate.Analysis = []v1alpha1.AnalysisCheck{{Name: "errors"}}
	s.Nodes[0].Labels, s.Nodes[1].Labels = map[string]string{"zone": "a"}, map[string]string{"zone": "b"}
	began := metav1.NewMicroTime(start.Add(-time.Minute))
	s.Status.Wave = []string{"n0001"}
	s.Status.Analysis = &v1alpha1.AnalysisStatus{Revision: "r2", Phase: v1alpha1.AnalysisOfWave, Nodes: []string{"n0001"}, Began: began, Since: began}
	if got := steps(Plan(s)); !strings.Contains(got, "n0001") || strings.Contains(got, "n0000") {
		t.Errorf("got %q", got)
	}
}

// TestOrderWhereANodeWasScaledDown: a node that serves too little, because somebody scaled its
// Deployment, uses up the budget until it is updated, so that it does not wait for the zones
// before its own, also where kube-proxy says that one pod is enough. One that may recover waits.
func TestOrderWhereANodeWasScaledDown(t *testing.T) {
	for replicas, want := range map[int32][]string{1: {"n0001"}, 2: nil} {
		s := servingFleet(2)
		s.Revision = "r2"
		s.Spec.UpdateStrategy.RollingUpdate.Order.TopologyKey = "zone"
		s.Nodes[0].Labels, s.Nodes[1].Labels = map[string]string{"zone": "a"}, map[string]string{"zone": "b"}
		n := &s.Nodes[1]
		n.Deployment.Replicas, n.Pods = replicas, n.Pods[:1]
		n.Checks[0].Serving = false
		n.Checks = append(n.Checks, Check{Port: 30080, Answered: true, Serving: true})
		if d := Plan(s); !slices.Equal(d.Status.Wave, want) {
			t.Errorf("with %d pods asked for the wave is %v, want %v\n%s", replicas, d.Status.Wave, want, summary(d))
		}
	}
}

// TestCrippledNodes: nodes that serve too little, because somebody scaled their Deployments or
// took what tells how many pods make them serve, hold up neither each other nor the rest for ever,
// also where kube-proxy says that one pod is enough: an update is what cures them. It is one's
// turn at a time. Those that may recover, or still get traffic, are waited for.
func TestCrippledNodes(t *testing.T) {
	for name, test := range map[string]struct {
		cripple func(*Deployment)
		want    []string
	}{
		"scaled down":       {func(d *Deployment) { d.Replicas = 1 }, []string{"n0001"}},
		"no pods to serve":  {func(d *Deployment) { d.PodsPerNode = 0 }, []string{"n0001"}},
		"none to be":        {func(d *Deployment) { d.PodsPerNode = 0 }, []string{"n0001"}},
		"a pod may yet run": {func(*Deployment) {}, nil},
		"a moment ago":      {func(d *Deployment) { d.Replicas = 0 }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := servingFleet(4)
			if s.Revision = "r2"; name == "none to be" {
				s.Spec.PodsPerNode = new(int32(0))
			}
			for i := 1; i <= 2; i++ {
				n := &s.Nodes[i]
				n.Pods = n.Pods[:1]
				// Its pods go, and the checks do not say so yet.
				n.Checks[0].Serving = name == "a moment ago"
				n.Pods[0].Ready = name != "a moment ago"
				n.Checks = append(n.Checks, Check{Port: 30080, Unmarked: true, Answered: true, Serving: true})
				test.cripple(n.Deployment)
			}
			if d := Plan(s); !slices.Equal(d.Status.Wave, test.want) {
				t.Errorf("the wave is %v, want %v\n%s", d.Status.Wave, test.want, summary(d))
			}
		})
	}
}

// TestCrippledFleet: where no node passes all its health checks, minServingNodes keeps none from the update
// that cures it: what is down already counts for no minimum.
func TestCrippledFleet(t *testing.T) {
	s := servingFleet(2)
	s.Revision = "r2"
	each(&s, func(n *Node) {
		n.Deployment.Replicas, n.Pods, n.Checks[0].Serving = 1, n.Pods[:1], false
		n.Checks = append(n.Checks, Check{Port: 30080, Unmarked: true, Answered: true, Serving: true})
	})
	if d := Plan(s); !slices.Equal(d.Status.Wave, []string{"n0000"}) {
		t.Errorf("%s", summary(d))
	}
}

// TestOrderWhereHealthCheckersAreAwaited: a node that cannot begin before its health checkers are well
// holds up no later zone, but where it is a canary.
func TestOrderWhereHealthCheckersAreAwaited(t *testing.T) {
	for name, change := range map[string]func(n *Node){
		"blind":       func(n *Node) { n.Checks[0].Blind = "forbidden" },
		"silent":      func(n *Node) { n.Checks[0].Answered = false },
		"unsettled":   func(n *Node) { n.CheckersSettled = false },
		"all is well": func(*Node) {},
	} {
		for _, canary := range []bool{false, true} {
			s := servingFleet(2)
			s.Revision = "r2"
			s.Spec.UpdateStrategy.RollingUpdate.MaxUnavailableNodes = number(2)
			s.Spec.UpdateStrategy.RollingUpdate.MinServingNodes = number(0)
			s.Spec.UpdateStrategy.RollingUpdate.Order.TopologyKey = "zone"
			s.Nodes[0].Labels, s.Nodes[1].Labels = map[string]string{"zone": "a", "canary": "true"}, map[string]string{"zone": "b"}
			if canary {
				s.Spec.UpdateStrategy.RollingUpdate.CanaryNodeSelector = map[string]string{"canary": "true"}
			}
			change(&s.Nodes[0])
			var want []string
			switch {
			case name == "all is well":
				want = []string{"n0000"}
			case !canary:
				want = []string{"n0001"}
			}
			if d := Plan(s); !slices.Equal(d.Status.Wave, want) {
				t.Errorf("%s, canary %t: the wave is %v, want %v\n%s", name, canary, d.Status.Wave, want, summary(d))
			}
		}
	}
}

// TestPartition: who gets the new revision, and who has it already keeps it, as does one whose
// kubelet rejected it.
func TestPartition(t *testing.T) {
	for name, test := range map[string]struct {
		partition *intstr.IntOrString
		updated   []int
		held      []int
		want      string
	}{
		"none stays":          {number(0), nil, nil, "[r2 r2 r2 r2]"},
		"the last stay":       {number(2), nil, nil, "[r2 r2 r1 r1]"},
		"percent":             {percent(30), nil, nil, "[r2 r2 r1 r1]"},
		"all stay":            {percent(100), nil, nil, "[r1 r1 r1 r1]"},
		"updated ones keep":   {number(2), []int{2, 3}, nil, "[r1 r1 r2 r2]"},
		"held back ones keep": {number(3), nil, []int{3}, "[r1 r1 r1 r2]"},
		"raised later":        {number(4), []int{0}, nil, "[r2 r1 r1 r1]"},
		"more than there are": {number(9), nil, nil, "[r1 r1 r1 r1]"},
	} {
		t.Run(name, func(t *testing.T) {
			s := servingFleet(4)
			s.Revision = "r2"
			s.Spec.UpdateStrategy.RollingUpdate.Partition = test.partition
			for _, i := range test.updated {
				s.Nodes[i].Deployment.Revision = "r2"
			}
			for _, i := range test.held {
				s.Nodes[i].Deployment.Hold = &v1alpha1.Hold{Revision: "r2"}
			}
			p := newPlanner(s)
			p.assignTargets()
			var got []string
			for i := range p.views {
				got = append(got, p.views[i].target)
			}
			if fmt.Sprint(got) != test.want {
				t.Errorf("got %v, want %s", got, test.want)
			}
		})
	}
}

// TestClaimTakesNoPlace of another within the partition: what a node was claimed for may be something else,
// and where the claim moved the place, it was dropped for that and made again, at every look. One that was
// touched keeps it.
func TestClaimTakesNoPlace(t *testing.T) {
	for name, test := range map[string]struct {
		change func(n *Node)
		want   string
	}{
		"claimed":         {func(*Node) {}, "r2 r1"},
		"claimed, marked": {func(n *Node) { n.Deployment.Mark = v1alpha1.NewMark(start, "r2", "") }, "r1 r2"},
		"claimed, and updated since": {func(n *Node) {
			n.Seen = &Seen{Claim: start.Add(-time.Minute), Updated: start}
		}, "r1 r2"},
	} {
		s := servingFleet(2)
		s.Revision, s.Status.Wave = "r2", []string{"n0001"}
		s.Spec.UpdateStrategy.RollingUpdate.Partition = number(1)
		s.Nodes[1].Seen = &Seen{Claim: start, Updated: start.Add(-time.Hour)}
		test.change(&s.Nodes[1])
		p := newPlanner(s)
		p.assignTargets()
		if got := p.views[0].target + " " + p.views[1].target; got != test.want {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
	}
}

// TestRefusedNode: no pods are asked for that the API server would refuse.
func TestRefusedNode(t *testing.T) {
	s := servingFleet(0)
	s.Status.CurrentRevision, s.DryRun.Refusal = "r1", "no such class"
	s.Nodes = []Node{{Name: "new", Exists: true, Wanted: true, Ready: true}}
	if got := steps(Plan(s)); got != "" {
		t.Errorf("got %q", got)
	}
}

// TestJoiningNode gets the revision that the partition leaves to it.
func TestJoiningNode(t *testing.T) {
	for partition, want := range []string{"Create new to r2 x2", "Create new to r1 x2"} {
		s := servingFleet(2)
		s.Revision = "r2"
		s.Spec.Paused = true
		s.Spec.UpdateStrategy.RollingUpdate.Partition = number(partition)
		each(&s, func(n *Node) { n.Deployment.Revision = "r2" })
		s.Nodes = append(s.Nodes, Node{Name: "new", Exists: true, Wanted: true, Ready: true})
		if got := steps(Plan(s)); got != want {
			t.Errorf("partition %d: got %q, want %q", partition, got, want)
		}
	}
}

// TestShrunkBudget: nodes whose update was to be changed halfway take turns where the
// budget is smaller than when they began.
func TestShrunkBudget(t *testing.T) {
	for budget, want := range []int{0: 0, 1: 1, 2: 2, 3: 3} {
		s := servingFleet(4)
		s.Spec.UpdateStrategy.RollingUpdate = &v1alpha1.RollingUpdate{MaxDegradedNodes: number(budget)}
		s.Revision, s.Revisions["r3"] = "r3", true
		for i := range 3 {
			n := &s.Nodes[i]
			n.Deployment.Revision, n.Pods[0].Revision = "r2", "r2"
			s.Status.Wave = append(s.Status.Wave, n.Name)
		}
		if d := Plan(s); len(d.Steps) != want {
			t.Errorf("with a budget of %d: %s", budget, steps(d))
		}
	}
}

// TestMidwayBesideANodeThatLeft: what may begin may go on when its claim is seen. Beside a
// node whose Deployment is gone, and whose pods are not yet, a claim was made and dropped
// again and again.
func TestMidwayBesideANodeThatLeft(t *testing.T) {
	s := servingFleet(3)
	s.Spec.UpdateStrategy.RollingUpdate = &v1alpha1.RollingUpdate{MaxDegradedNodes: number(1)}
	s.Revision, s.Status.Wave = "r2", []string{"n0000", "n0001"}
	left, n := &s.Nodes[0], &s.Nodes[1]
	left.Wanted, left.Deployment, left.Pods[0].Terminating = false, nil, true
	n.Pods[0].Ready, n.Deployment.ReadyReplicas = false, 1
	n.Checks[0].Serving, n.Detachment.Moving = false, true
	if got := steps(Plan(s)); got != "Update n0001 to r2 x2" {
		t.Errorf("in the wave: %q", got)
	}
	s.Status.Wave = []string{"n0000"}
	if d := Plan(s); !slices.Contains(d.Status.Wave, "n0001") {
		t.Errorf("before: %s", summary(d))
	}
}

// TestReadyPodsAreNotMidway: a node all of whose pods are ready is not in the middle of
// an update, though they have not been so for long enough: to change its update takes
// something away, and needs the budget.
func TestReadyPodsAreNotMidway(t *testing.T) {
	s := servingFleet(3)
	s.Spec.UpdateStrategy.RollingUpdate = &v1alpha1.RollingUpdate{MaxDegradedNodes: number(1)}
	s.Spec.MinReadySeconds = 30
	s.Revision, s.Status.Wave = "r2", []string{"n0000"}
	s.Nodes[0].Pods[0].ReadySince, s.Nodes[0].Pods[1].ReadySince = start, start
	s.Nodes[1].Checks[0].Serving = false
	if d := Plan(s); steps(d) != "" {
		t.Errorf("another node does not serve, and the budget is 1: %s", steps(d))
	}
	s.Nodes[0].Pods[0].Ready = false
	if d := Plan(s); steps(d) != "Update n0000 to r2 x2" {
		t.Errorf("a pod is not ready: %s", steps(d))
	}
}

// TestKeptOutInTheMiddleOfItsUpdate: a node that somebody wants out while its pods are
// replaced in the load balancer uses up the budget until it is whole again.
func TestKeptOutInTheMiddleOfItsUpdate(t *testing.T) {
	for _, whole := range []bool{true, false} {
		s := servingFleet(3)
		s.Spec.UpdateStrategy.RollingUpdate = &v1alpha1.RollingUpdate{MinServingNodes: number(3)}
		s.Revision, s.Status.Wave = "r2", []string{"n0001"}
		kept := &s.Nodes[0]
		kept.Deployment.Detached = true
		if !whole {
			kept.Pods = append(kept.Pods, Pod{Name: "older", Revision: "r1", Terminating: true, Running: true})
		}
		if begun := strings.Contains(steps(Plan(s)), "Update n0001"); begun != whole {
			t.Errorf("whole %t: another begins: %t", whole, begun)
		}
	}
}

// TestKeptOutBesideThePartition: a node that somebody wants out takes the new revision from
// no other by its claim. Otherwise one that lacks pods would wait for no update as soon as the
// claim is seen, and use up the budget for which it was made, again and again.
func TestKeptOutBesideThePartition(t *testing.T) {
	s := servingFleet(2)
	s.Spec.UpdateStrategy.RollingUpdate = &v1alpha1.RollingUpdate{Partition: number(1), MinServingNodes: number(0)}
	s.Revision = "r2"
	s.Nodes[0].Pods[0].Terminating, s.Nodes[0].CheckersSettled = true, false
	s.Nodes[1].Deployment.Detached, s.Nodes[1].Deployment.Settled = true, false
	claimed := Plan(s)
	if !slices.Equal(claimed.Status.Wave, []string{"n0001"}) {
		t.Fatalf("at first:\n%s", summary(claimed))
	}
	s.Status = claimed.Status
	if d := Plan(s); steps(d) != "Mark n0001" {
		t.Errorf("when the claim is seen:\n%s", summary(d))
	}
}

// TestTimedOutBeforeTheStrategyChanged: a node that a detacher did not take out in time is
// updated where nobody is to take it out any more.
func TestTimedOutBeforeTheStrategyChanged(t *testing.T) {
	for _, detaching := range []bool{false, true} {
		s := servingFleet(2)
		s.Revision, s.Status.Wave = "r2", []string{"n0000"}
		s.Status.DetachTimedOut = &v1alpha1.NodesTimedOut{Generation: s.Generation, Nodes: []string{"n0000"}}
		if !detaching {
			s.Spec.UpdateStrategy.RollingUpdate = &v1alpha1.RollingUpdate{}
		}
		if begun := strings.Contains(steps(Plan(s)), "Update n0000"); begun == detaching {
			t.Errorf("detaching %t: it is updated: %t", detaching, begun)
		}
	}
}

// TestGivenUpHalfway: a node that was to have fewer pods, and then none, and could not be
// detached for that, does not hold its place with the pods that it has; while they are being
// replaced it does.
func TestGivenUpHalfway(t *testing.T) {
	for _, older := range []bool{false, true} {
		s := servingFleet(2)
		s.Spec.PodsPerNode = new(int32(0))
		s.Spec.UpdateStrategy.RollingUpdate = &v1alpha1.RollingUpdate{}
		s.Status.Wave = []string{"n0000"}
		s.Status.DetachTimedOut = &v1alpha1.NodesTimedOut{Generation: s.Generation, Nodes: []string{"n0000"}}
		s.Nodes[0].Deployment.PodsPerNode = 1
		if older {
			s.Nodes[0].Pods[1].Revision = "r0"
			s.Nodes[0].Deployment.UpdatedReplicas, s.Nodes[0].Deployment.OlderReplicas = 1, 1
		}
		d := Plan(s)
		if kept := slices.Contains(d.Status.Wave, "n0000"); kept != older || steps(d) != "" {
			t.Errorf("an older pod %t: %s", older, summary(d))
		}
	}
}
