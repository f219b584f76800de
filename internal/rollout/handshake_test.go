package rollout

import (
	"strings"
	"testing"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestAcknowledgement: pods of a marked node are replaced only when every health
// check fails with the mark, and the grace after that is over.
func TestAcknowledgement(t *testing.T) {
	for name, test := range map[string]struct {
		change func(n *Node)
		want   string
	}{
		"acknowledged":                       {func(*Node) {}, "Update n0000 to r2 x2"},
		"grace not over":                     {func(n *Node) { n.Checks[0].Since = start.Add(-9 * time.Second) }, ""},
		"another mark":                       {func(n *Node) { n.Checks[0].Mark = "other" }, ""},
		"fails without mark":                 {func(n *Node) { n.Checks[0].Mark = "" }, ""},
		"still passes":                       {func(n *Node) { n.Checks[0].Serving = true }, ""},
		"does not answer":                    {func(n *Node) { n.Checks[0].Answered = false }, ""},
		"nobody is there to answer":          {func(n *Node) { n.Checks[0] = Check{Port: 10080, Gone: true} }, "Update n0000 to r2 x2"},
		"somebody who is gone still listens": {func(n *Node) { n.Checks[0] = Check{Port: 10080, Gone: true, Accepted: true} }, ""},
		"answers with no checker":            {func(n *Node) { n.Checks[0] = Check{Port: 10080, Gone: true, Answered: true, Serving: true} }, ""},
		"repeats it with no checker":         {func(n *Node) { n.Checks[0].Gone = true }, "Update n0000 to r2 x2"},
		"a mark without a value":             {func(n *Node) { n.Deployment.Mark, n.Deployment.EmptyMark, n.Checks[0].Mark = "", true, "" }, ""},
		"a port that repeats none":           {func(n *Node) { n.Checks[0].Mark, n.Checks[0].Unmarked = "", true }, "Update n0000 to r2 x2"},
		"a port that repeats none, and failed long before, as it seems": {func(n *Node) {
			n.Deployment.Mark = v1alpha1.NewMark(start.Add(-9*time.Second), "r2", "")
			n.Checks[0].Mark, n.Checks[0].Unmarked, n.Checks[0].Since = "", true, start.Add(-time.Hour)
		}, ""},
		"one of two ports":         {func(n *Node) { n.Checks = append(n.Checks, Check{Port: 10081, Answered: true, Serving: true}) }, ""},
		"a mark of somebody else":  {func(n *Node) { n.Deployment.Mark, n.Checks[0].Mark = "mine", "mine" }, ""},
		"a NotReady node holds on": {func(n *Node) { n.Ready, n.Checks[0].Answered = false, false }, ""},
		"a node that left the set": {func(n *Node) { n.Wanted = false }, "Delete n0000"},
		"needs no update any more": {func(n *Node) { updatedTo(n, "r2"); n.Deployment.UpdatedAt = time.Time{} }, "Unmark n0000"},
		"updated, and somebody took the record of it": {func(n *Node) {
			n.Deployment.Revision, n.Deployment.UpdatedAt, n.Deployment.UpdatedReplicas, n.Deployment.OlderReplicas = "r2", time.Time{}, 1, 1
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := markedFleet(3)
			test.change(&s.Nodes[0])
			if got := steps(Plan(s)); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// TestRefusedWhileDetached: a node that waits for an update which the API server refuses by now is put
// back, unless its pods are being replaced already.
func TestRefusedWhileDetached(t *testing.T) {
	for name, test := range map[string]struct {
		change func(n *Node)
		want   string
	}{
		"before its update": {func(*Node) {}, "Unmark n0000"},
		"in its update":     {func(n *Node) { n.Deployment.UpdatedAt = start.Add(-5 * time.Second) }, ""},
	} {
		s := markedFleet(2)
		s.DryRun.Refusal = "no such class"
		n := &s.Nodes[0]
		updatedTo(n, "r2")
		n.Deployment.Drifted = true
		test.change(n)
		if got := steps(Plan(s)); got != test.want {
			t.Errorf("%s: got %q, want %q", name, got, test.want)
		}
	}
}

// TestDetacher: the steps from an acknowledged mark to the update where a
// detacher is asked.
func TestDetacher(t *testing.T) {
	stamp := func(d time.Duration) string { return start.Add(d).Format(time.RFC3339) }
	asked := Detachment{Requested: true, Held: true, RequestedAt: start.Add(-20 * time.Second)}
	answered := func(timestamp, stale string) Detachment {
		d := asked
		d.Timestamp, d.StaleTimestamp = timestamp, stale
		return d
	}
	justAsked := asked
	justAsked.RequestedAt = start.Add(-time.Second)
	for name, test := range map[string]struct {
		detachment Detachment
		want       string
	}{
		"not asked yet":                  {Detachment{}, "RequestDetachment n0000"},
		"held by others is asked too":    {Detachment{Held: true, Timestamp: stamp(-time.Hour)}, "RequestDetachment n0000"},
		"grace of the request":           {justAsked, ""},
		"no answer":                      {asked, ""},
		"answered":                       {answered(stamp(-6*time.Second), ""), "Update n0000 to r2 x2"},
		"answered before we asked":       {answered(stamp(-time.Hour), ""), "Update n0000 to r2 x2"},
		"grace of the timestamp":         {answered(stamp(-4*time.Second), ""), ""},
		"a timestamp in the future":      {answered(stamp(time.Hour), ""), ""},
		"an answer to an earlier asking": {answered(stamp(-time.Hour), stamp(-time.Hour)), ""},
		"a new answer after a stale one": {answered(stamp(-6*time.Second), stamp(-time.Hour)), "Update n0000 to r2 x2"},
		"not a time":                     {answered("yesterday", ""), ""},
		"the annotation was removed":     {Detachment{Requested: true, RequestedAt: asked.RequestedAt, Timestamp: stamp(-6 * time.Second)}, "RequestDetachment n0000"},
	} {
		t.Run(name, func(t *testing.T) {
			s := markedFleet(3)
			byBoth(&s.Spec)
			s.Nodes[0].Detachment = test.detachment
			if got := steps(Plan(s)); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// TestHealthChecksFailLast: with failHealthChecks AfterDetachment the mark lets the
// health checks pass, and a mark of that kind is changed where it may not any more.
func TestHealthChecksFailLast(t *testing.T) {
	last := func(s *State) { s.Spec.UpdateStrategy.RollingUpdate.FailHealthChecks = v1alpha1.FailAfterDetachment }
	s := servingFleet(3)
	byBoth(&s.Spec)
	last(&s)
	s.Revision, s.Status.Wave = "r2", []string{"n0000"}
	d := Plan(s)
	if steps(d) != "Mark n0000" || d.Steps[0].Mark != v1alpha1.NewMark(start, "r2", v1alpha1.MarkServing) {
		t.Fatalf("begins with %+v", d.Steps)
	}
	s = markedFleet(3)
	byBoth(&s.Spec)
	last(&s)
	n := &s.Nodes[0]
	n.Deployment.Mark += "/serving"
	n.Checks[0] = Check{Port: 10080, Answered: true, Serving: true, Since: start.Add(-time.Hour)}
	if got := steps(Plan(s)); got != "" {
		t.Errorf("before the mark was seen: %q", got)
	}
	n.Checks[0].Mark, n.Checks[0].Since = n.Deployment.Mark, start
	if got := steps(Plan(s)); got != "RequestDetachment n0000" {
		t.Errorf("as soon as the mark was seen: %q", got)
	}
	n.Detachment = Detachment{Requested: true, Held: true, RequestedAt: start.Add(-20 * time.Second)}
	if got := steps(Plan(s)); got != "" {
		t.Errorf("before the detacher answered: %q", got)
	}
	n.Detachment.Timestamp = start.Add(-6 * time.Second).Format(time.RFC3339)
	if got := steps(Plan(s)); got != "Update n0000 to r2 x2" {
		t.Errorf("when the detacher has answered: %q", got)
	}
	s.Spec.UpdateStrategy.RollingUpdate.FailHealthChecks = v1alpha1.FailFirst
	if d := Plan(s); steps(d) != "Mark n0000" || d.Steps[0].Mark != v1alpha1.NewMark(start.Add(-30*time.Second), "r2", "") {
		t.Errorf("when the health checks are to fail first: %+v", d.Steps)
	}
}

// TestPuttingBackTakesTime: a node is unavailable while a detacher says that not all
// of its load balancers have it again, whoever asked for that.
func TestPuttingBackTakesTime(t *testing.T) {
	s := servingFleet(3)
	s.Revision, s.Status.Wave = "r2", []string{"n0000"}
	done := &s.Nodes[0]
	done.Deployment.Revision, done.Deployment.AttachedAt = "r2", start.Add(-time.Minute)
	for i := range done.Pods {
		done.Pods[i].Revision = "r2"
	}
	done.Detachment.Moving = true
	d := Plan(s)
	if steps(d) != "" || stateOf(d, "n0000") != v1alpha1.NodeAttaching || d.Status.UnavailableNodes != 1 {
		t.Errorf("%s", summary(d))
	}
	done.Detachment.Moving = false
	if d := Plan(s); stateOf(d, "n0000") != v1alpha1.NodeServing || len(d.Status.Wave) != 1 || d.Status.Wave[0] != "n0001" {
		t.Errorf("%s", summary(d))
	}
	s = servingFleet(3)
	s.Revision, s.Nodes[2].Detachment.Moving = "r2", true
	if d := Plan(s); stateOf(d, "n0002") != v1alpha1.NodeUnavailable || len(d.Status.Wave) != 0 && d.Status.Wave[0] != "n0002" {
		t.Errorf("%s", summary(d))
	}
}

// TestStaleTimestamp: what stood on the Node before we asked is remembered,
// unless somebody else still holds the detachment that it belongs to. Where somebody took the
// record of what was asked, the annotation that is left is our own.
func TestStaleTimestamp(t *testing.T) {
	marked := start.Add(-30 * time.Second)
	for name, test := range map[string]struct {
		held, leaving bool
		seen          *Seen
		want          string
	}{
		"nobody holds it":                          {false, false, nil, "old"},
		"somebody holds it":                        {true, false, nil, ""},
		"the node is leaving":                      {false, true, nil, ""},
		"we held it, and somebody took the record": {true, false, &Seen{Mark: marked, Requested: marked.Add(time.Second)}, "old"},
		"and it was answered":                      {true, false, &Seen{Mark: marked, Requested: marked.Add(time.Second), Timestamp: marked.Add(time.Second)}, ""},
		"asked in an earlier turn":                 {true, false, &Seen{Mark: marked, Requested: marked.Add(-time.Hour)}, ""},
	} {
		s := markedFleet(3)
		byBoth(&s.Spec)
		s.Nodes[0].Detachment = Detachment{Held: test.held, Timestamp: "old"}
		s.Nodes[0].Leaving, s.Nodes[0].Seen = test.leaving, test.seen
		if got := Plan(s).Steps[0].StaleTimestamp; got != test.want {
			t.Errorf("%s: remembers %q, want %q", name, got, test.want)
		}
	}
}

// TestDetachTimeout: what follows when no health check answers for too long.
func TestDetachTimeout(t *testing.T) {
	late := func() State {
		s := markedFleet(3)
		s.Now = start.Add(10 * time.Minute)
		s.Nodes[0].Checks[0].Answered = false
		return s
	}
	t.Run("halts before it lets go", func(t *testing.T) {
		s := late()
		first := Plan(s)
		if steps(first) != "" || condition(t, first, v1alpha1.ConditionProgressing).Reason != v1alpha1.ReasonDetachTimedOut {
			t.Fatalf("first decision:\n%s", summary(first))
		}
		s.Status = first.Status
		if got := steps(Plan(s)); got != "Unmark n0000" {
			t.Errorf("then %q", got)
		}
		s.Nodes[0].Deployment.Mark, s.Nodes[0].Checks = "", servingNode("n0000").Checks
		if d := Plan(s); steps(d) != "" || len(d.Status.Wave) > 0 {
			t.Errorf("halted:\n%s", summary(d))
		}
		s.Generation++
		if d := Plan(s); len(d.Status.Wave) != 1 {
			t.Errorf("after a change of the spec:\n%s", summary(d))
		}
	})
	t.Run("proceeds", func(t *testing.T) {
		s := late()
		s.Spec.UpdateStrategy.RollingUpdate.DetachTimeoutPolicy = v1alpha1.ProceedOnDetachTimeout
		if got := steps(Plan(s)); got != "Update n0000 to r2 x2" {
			t.Errorf("got %q", got)
		}
	})
	t.Run("a node that left the set goes", func(t *testing.T) {
		s := late()
		s.Nodes[0].Wanted = false
		if got := steps(Plan(s)); got != "Delete n0000" {
			t.Errorf("got %q", got)
		}
	})
}

// TestComplete: a node is attached again only when nothing is left to wait for.
func TestComplete(t *testing.T) {
	for name, test := range map[string]struct {
		change func(n *Node)
		// missing is what is waited for; empty where the node is attached again.
		missing string
	}{
		"complete":         {func(*Node) {}, ""},
		"change not seen":  {func(n *Node) { n.Deployment.Settled = false }, "the Deployment controller has not seen the change yet"},
		"pods not updated": {func(n *Node) { n.Deployment.UpdatedReplicas = 1 }, "1 of 2 pods are updated"},
		"a pod not ready":  {func(n *Node) { n.Pods[0].Ready = false }, "1 of 2 pods are available"},
		"why it is not ready": {func(n *Node) {
			n.Pods[0].Ready, n.Pods[0].Unready = false, "container proxy waits: ErrImagePull"
		}, "1 of 2 pods are available: container proxy waits: ErrImagePull"},
		"not ready for long enough": {func(n *Node) { n.Pods[0].ReadySince = start.Add(-time.Second) }, "1 of 2 pods are available"},
		"an older pod":              {func(n *Node) { n.Pods = append(n.Pods, Pod{Name: "x", Revision: "r1", Running: true}) }, "an older pod is left"},
		"an older pod terminating":  {func(n *Node) { n.Pods = append(n.Pods, Pod{Name: "x", Revision: "r1", Terminating: true}) }, "an older pod is terminating"},
		"an older one is counted":   {func(n *Node) { n.Deployment.OlderReplicas = 1 }, "an older pod is left"},
		"one of another template":   {func(n *Node) { n.Pods[0].ReplicaSet, n.Pods[1].ReplicaSet = "a", "b" }, "an older pod is left"},
		"not counted as ready":      {func(n *Node) { n.Deployment.ReadyReplicas = 1 }, "the Deployment controller counts 1 of 2 pods as ready"},
		"a surplus pod":             {func(n *Node) { n.Pods = append(n.Pods, n.Pods[0]) }, "a surplus pod is left"},
	} {
		t.Run(name, func(t *testing.T) {
			s := markedFleet(3)
			s.Spec.MinReadySeconds = 2
			n := &s.Nodes[0]
			n.Deployment.Revision, n.Deployment.UpdatedAt = "r2", start.Add(-10*time.Second)
			for i := range n.Pods {
				n.Pods[i].Revision = "r2"
			}
			test.change(n)
			d := Plan(s)
			if test.missing == "" && steps(d) != "Unmark n0000" {
				t.Errorf("got %q", steps(d))
			}
			if test.missing != "" && (steps(d) != "" || d.Status.Nodes[0].Reason != test.missing) {
				t.Errorf("got %q because %q, want to wait because %q", steps(d), d.Status.Nodes[0].Reason, test.missing)
			}
		})
	}
}

// TestWhyNoPodIsReady stands in the node's reason and in the conditions: of a pod of the present template
// before one of another, and of none that is stopped.
func TestWhyNoPodIsReady(t *testing.T) {
	s := servingFleet(3)
	n := &s.Nodes[0]
	n.Deployment.ReadyReplicas = 0
	for i := range n.Pods {
		n.Pods[i].Ready = false
	}
	n.Pods[1].Unready = "container proxy ended with exit code 1"
	n.Pods = append([]Pod{
		{Name: "a", Revision: n.Deployment.Revision, Running: true, Terminating: true, Unready: "it is being deleted"},
		{Name: "b", Revision: "r0", Running: true, Unready: "container proxy runs and is not ready"},
	}, n.Pods...)
	for i := range n.Checks {
		n.Checks[i].Serving = false
	}
	const why = "no pod is ready: container proxy ended with exit code 1"
	status := Plan(s).Status
	if len(status.Nodes) == 0 || status.Nodes[0].Reason != why {
		t.Fatalf("the node's reason: %+v", status.Nodes)
	}
	if c := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionDegraded); c == nil || c.Message != "node n0000: "+why {
		t.Errorf("Degraded: %+v", c)
	}
}

// TestMarkTakenWhilePaused: a node of which somebody took the mark is let go of where its
// pods serve, though a paused rollout leaves it with more of them than it should have, or
// with fewer.
func TestMarkTakenWhilePaused(t *testing.T) {
	for name, test := range map[string]struct {
		change func(n *Node)
		want   string
	}{
		"more pods than it should have": {func(*Node) {}, "Unmark n0000, ReleaseDetachment n0000"},
		"one of them is ending":         {func(n *Node) { n.Pods[2].Terminating = true }, ""},
		"one of them is older":          {func(n *Node) { n.Pods[2].Revision, n.Deployment.UpdatedReplicas = "r0", 2 }, ""},
		"of an earlier Deployment":      {func(n *Node) { n.Deployment.ReadyReplicas = 0 }, ""},
		"too few are ready":             {func(n *Node) { n.Pods[0].Ready, n.Pods[1].Ready = false, false }, ""},
		"fewer than it should have":     {scaledTo(1), "Unmark n0000, ReleaseDetachment n0000"},
		"fewer, not all of them ready":  {func(n *Node) { scaledTo(1)(n); n.Pods[0].Ready = false }, ""},
		"fewer, and one is ending":      {func(n *Node) { scaledTo(2)(n); n.Deployment.Replicas, n.Pods[1].Terminating = 1, true }, ""},
		"none":                          {scaledTo(0), ""},
		"it should have none":           {func(n *Node) { n.Deployment.PodsPerNode = 0 }, "Unmark n0000, ReleaseDetachment n0000"},
	} {
		t.Run(name, func(t *testing.T) {
			s := servingFleet(2)
			byBoth(&s.Spec)
			s.Spec.Paused = true
			n := &s.Nodes[0]
			n.Detachment = Detachment{Requested: true, Held: true, RequestedAt: start.Add(-time.Minute), Timestamp: start.Add(-time.Minute).Format(time.RFC3339)}
			n.Deployment.Replicas, n.Deployment.UpdatedReplicas, n.Deployment.Drifted = 3, 3, true
			n.Pods = append(n.Pods, Pod{Name: "third", Revision: "r1", Ready: true, ReadySince: start.Add(-time.Hour), Running: true})
			test.change(n)
			if got := steps(Plan(s)); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// TestKeptOutWithoutItsMark: a node that somebody wants out and of which somebody took the
// mark is marked again, and not let go of before. One that was let go of is asked for again
// when its detacher has let go, too.
func TestKeptOutWithoutItsMark(t *testing.T) {
	answer := start.Add(-time.Minute).Format(time.RFC3339)
	for name, test := range map[string]struct {
		detachment Detachment
		attached   time.Time
		want       string
	}{
		"its request stands":               {Detachment{Requested: true, Held: true, RequestedAt: start.Add(-time.Minute), Timestamp: answer}, time.Time{}, "Mark n0000"},
		"its detacher has yet to let go":   {Detachment{Timestamp: answer}, start.Add(-time.Second), ""},
		"its detacher has let go":          {Detachment{}, start.Add(-time.Second), "Mark n0000"},
		"its detacher does not let go":     {Detachment{Timestamp: answer}, start.Add(-time.Hour), "Mark n0000"},
		"it was unmarked, and is released": {Detachment{Requested: true, Held: true, RequestedAt: start.Add(-time.Minute), Timestamp: answer}, start.Add(-time.Second), "ReleaseDetachment n0000"},
	} {
		t.Run(name, func(t *testing.T) {
			s := servingFleet(3)
			byBoth(&s.Spec)
			n := &s.Nodes[0]
			n.Deployment.Detached, n.Deployment.AttachedAt, n.Detachment = true, test.attached, test.detachment
			s.Status.Wave = []string{n.Name}
			if got := steps(Plan(s)); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// scaledTo is somebody who has a node's Deployment run so many of its pods.
func scaledTo(pods int) func(*Node) {
	return func(n *Node) {
		n.Deployment.Replicas, n.Deployment.UpdatedReplicas, n.Pods = int32(pods), int32(pods), n.Pods[:pods]
	}
}

// TestBrokenNodeWaitsForTheAnalysis: a node that serves nothing waits for no turn, but for
// the end of the analysis, also where somebody keeps the node out that is analysed.
func TestBrokenNodeWaitsForTheAnalysis(t *testing.T) {
	for _, analysed := range []bool{false, true} {
		s := markedFleet(3)
		s.Nodes[0].Deployment.Detached = true
		broken := &s.Nodes[1]
		broken.Pods, broken.Checks[0].Serving = nil, false
		began := metav1.NewMicroTime(start.Add(-time.Minute))
		if analysed {
			s.Spec.UpdateStrategy.RollingUpdate.Analysis = []v1alpha1.AnalysisCheck{{Name: "errors"}}
			s.Status.Analysis = &v1alpha1.AnalysisStatus{Revision: "r2", Phase: v1alpha1.AnalysisOfWave, Nodes: []string{"n0000"}, Began: began, Since: began}
		}
		if got := strings.Contains(steps(Plan(s)), "Mark n0001"); got == analysed {
			t.Errorf("analysed %t: it is marked: %t", analysed, got)
		}
	}
}

// TestTimestampThatIsHeld by somebody else keeps no node from beginning: its detacher notices that it is asked
// by us too. One that nobody holds any more is to go first.
func TestTimestampThatIsHeld(t *testing.T) {
	for held, want := range map[bool]string{true: "Mark n0000", false: "Stamp n0000"} {
		s := servingFleet(2)
		byBoth(&s.Spec)
		s.Revision, s.Status.Wave = "r2", []string{"n0000"}
		n := &s.Nodes[0]
		n.Seen = &Seen{Claim: start, Attached: start.Add(-time.Minute)}
		n.Detachment = Detachment{Held: held, Timestamp: start.Add(-time.Minute).Format(time.RFC3339)}
		if got := steps(Plan(s)); got != want {
			t.Errorf("held %t: got %q, want %q", held, got, want)
		}
	}
}
