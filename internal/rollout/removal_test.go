package rollout

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// TestDrain: the steps while somebody drains a node.
func TestDrain(t *testing.T) {
	drained := func(n *Node) {
		n.Leaving, n.Evicting = true, true
		n.Deployment.Mark, n.Deployment.DrainedAt = v1alpha1.NewMark(start.Add(-30*time.Second), "r1", ""), start.Add(-30*time.Second)
		n.Checks[0] = Check{Port: 10080, Answered: true, Mark: n.Deployment.Mark, Since: start.Add(-29 * time.Second)}
	}
	emptied := func(n *Node) {
		drained(n)
		n.Deployment.Replicas, n.Pods = 0, nil
	}
	for name, test := range map[string]struct {
		change func(n *Node)
		want   string
	}{
		"cordoned only":    {func(n *Node) { n.Leaving = true }, ""},
		"evicted only":     {func(n *Node) { n.Evicting = true }, ""},
		"drained":          {func(n *Node) { n.Leaving, n.Evicting = true, true }, "Mark n0000"},
		"acknowledged":     {drained, "ScaleToZero n0000"},
		"not acknowledged": {func(n *Node) { drained(n); n.Checks[0].Serving = true }, ""},
		"out of time": {func(n *Node) {
			drained(n)
			n.Checks[0].Serving = true
			n.Deployment.Mark = v1alpha1.NewMark(start.Add(-time.Hour), "r1", "")
		}, "ScaleToZero n0000"},
		"emptied": {emptied, ""},
		"emptied, and somebody garbled since when": {func(n *Node) {
			emptied(n)
			n.Evicting, n.Deployment.Drained, n.Deployment.DrainedAt = false, true, time.Time{}
		}, ""},
		"uncordoned, and somebody garbled since when": {func(n *Node) {
			emptied(n)
			n.Leaving, n.Deployment.Drained, n.Deployment.DrainedAt = false, true, time.Time{}
		}, "Update n0000 to r1 x2"},
		"serves, and somebody wrote that it is drained": {func(n *Node) { n.Deployment.Drained = true }, "Unmark n0000"},
		"uncordoned": {func(n *Node) { emptied(n); n.Leaving = false }, "Update n0000 to r1 x2"},
		"uncordoned, to have no pods": {func(n *Node) {
			emptied(n)
			n.Leaving, n.Deployment.PodsPerNode, n.Deployment.UpdatedReplicas = false, 0, 0
		}, "Unmark n0000"},
		"uncordoned too early": {func(n *Node) { drained(n); n.Leaving = false }, "Unmark n0000"},
		"left the set":         {func(n *Node) { emptied(n); n.Wanted = false }, "Delete n0000"},
	} {
		t.Run(name, func(t *testing.T) {
			s := servingFleet(3)
			test.change(&s.Nodes[0])
			if s.Nodes[0].Deployment.PodsPerNode == 0 {
				s.Spec.PodsPerNode, s.Spec.UpdateStrategy.RollingUpdate.MinServingNodes = new(int32), number(0)
			}
			if got := steps(Plan(s)); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// TestUncordonedTooEarly: a node that was not emptied is attached when its pods are available,
// and looked at then, although it is outdated and waits longer to be detached.
func TestUncordonedTooEarly(t *testing.T) {
	for name, revision := range map[string]string{"up to date": "r1", "outdated": "r2"} {
		t.Run(name, func(t *testing.T) {
			s := servingFleet(3)
			s.Revision, s.Spec.MinReadySeconds = revision, 10
			n := &s.Nodes[0]
			n.Deployment.Mark, n.Deployment.DrainedAt = v1alpha1.NewMark(start.Add(-5*time.Second), "r1", ""), start.Add(-5*time.Second)
			n.Checks[0] = Check{Port: 10080, Answered: true, Mark: n.Deployment.Mark, Since: start.Add(-time.Second)}
			n.Pods[0].ReadySince = start.Add(-8 * time.Second)
			if d := Plan(s); steps(d) != "" || !d.WakeAt.Equal(start.Add(2*time.Second)) {
				t.Errorf("%q, and looks again at %s", steps(d), d.WakeAt)
			}
			if s.Now = start.Add(2 * time.Second); steps(Plan(s)) != "Unmark n0000" {
				t.Errorf("when they are available: %q", steps(Plan(s)))
			}
		})
	}
}

// TestDrainWithoutAMark: a node that somebody says was drained, or whose mark somebody took, is
// free again, whatever it waits for then.
func TestDrainWithoutAMark(t *testing.T) {
	for name, change := range map[string]func(*State, *Node){
		"up to date": func(*State, *Node) {},
		"outdated":   func(s *State, n *Node) { s.Revision, s.Revisions["r2"], n.Deployment.Replicas = "r2", true, 1 },
		"lacks pods": func(_ *State, n *Node) { n.Pods = n.Pods[:1] },
		"kept out":   func(_ *State, n *Node) { n.Deployment.Detached = true },
	} {
		t.Run(name, func(t *testing.T) {
			s := servingFleet(3)
			s.Nodes[0].Deployment.DrainedAt = start
			change(&s, &s.Nodes[0])
			if got := steps(Plan(s)); got != "Unmark n0000" {
				t.Errorf("got %q", got)
			}
		})
	}
}

// TestDrainByDeletion: whoever deletes pods of a node that is leaving drains it, as who
// evicts them does. What we delete ourselves is no drain.
func TestDrainByDeletion(t *testing.T) {
	deleted := func(n *Node) {
		n.Leaving = true
		for i := range n.Pods {
			n.Pods[i].Created = start.Add(-time.Hour)
		}
		n.Pods[0].Terminating, n.Pods[0].Deleted = true, start.Add(-10*time.Second)
	}
	fresh := Pod{Name: "new", Revision: "r1", Running: true, Created: start.Add(-9 * time.Second)}
	for name, test := range map[string]struct {
		change func(s *State, n *Node)
		want   string
	}{
		"a pod is missing":     {func(*State, *Node) {}, "Mark n0000"},
		"a pod was made again": {func(_ *State, n *Node) { n.Pods = append(n.Pods, fresh) }, "Mark n0000"},
		"the node stays":       {func(_ *State, n *Node) { n.Leaving = false }, ""},
		"the node is NotReady": {func(_ *State, n *Node) { n.Ready = false }, ""},
		"it was one too many":  {func(_ *State, n *Node) { old := n.Pods[1]; old.Name = "old"; n.Pods = append(n.Pods, old) }, ""},
		"it was an older pod":  {func(_ *State, n *Node) { n.Pods[0].Revision = "r0" }, ""},
		"of another template": {func(_ *State, n *Node) {
			n.Pods[0].ReplicaSet, n.Pods[1].ReplicaSet, n.Pods[1].Created = "a", "b", start
		}, ""},
		"while others are replaced": {func(_ *State, n *Node) { n.Deployment.OlderReplicas = 1 }, ""},
		"in its turn":               {func(s *State, _ *Node) { s.Status.Wave = []string{"n0000"} }, ""},
		"while it is held back": {func(_ *State, n *Node) {
			n.Deployment.Hold = &v1alpha1.Hold{Revision: "r1", Generation: 1, At: metav1.NewMicroTime(start)}
		}, ""},
		"somebody had scaled it": {func(_ *State, n *Node) { n.Deployment.UpdatedAt = start.Add(-5 * time.Second) }, ""},
		"somebody had scaled it, as seen": {func(_ *State, n *Node) {
			n.Seen = &Seen{Updated: start.Add(-5 * time.Second), Ending: map[string]time.Time{n.Pods[0].Name: start.Add(-10 * time.Second)}}
		}, ""},
		"after our change, as seen": {func(_ *State, n *Node) {
			n.Deployment.UpdatedAt = start.Add(time.Hour)
			n.Seen = &Seen{Updated: start.Add(-10 * time.Second), Ending: map[string]time.Time{n.Pods[0].Name: start.Add(-5 * time.Second)}}
		}, "Mark n0000"},
		"somebody scaled it": {func(_ *State, n *Node) { n.Deployment.Drifted, n.Deployment.Replicas = true, 1 }, ""},
		"no other serves": {func(s *State, _ *Node) {
			s.Nodes[1].Ready, s.Nodes[2].Checks[0].Serving = false, false
		}, ""},
		"the others too, but for one": {func(s *State, _ *Node) {
			deleted(&s.Nodes[1])
			deleted(&s.Nodes[2])
		}, "Mark n0000, Mark n0001"},
	} {
		t.Run(name, func(t *testing.T) {
			s := servingFleet(3)
			deleted(&s.Nodes[0])
			test.change(&s, &s.Nodes[0])
			if got := steps(Plan(s)); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// TestClaimedAndEmptied: a node that was claimed uses up the budget of a deletion although it
// serves nothing any more, since another controller may have begun with it.
func TestClaimedAndEmptied(t *testing.T) {
	for name, test := range map[string]struct {
		wave []string
		want string
	}{
		"claimed":     {[]string{"n0000"}, "n0000"},
		"not claimed": {nil, "n0001"},
	} {
		t.Run(name, func(t *testing.T) {
			s := servingFleet(2)
			s.Deletion, s.Status.Wave = DeleteInWaves, test.wave
			s.Spec.UpdateStrategy.RollingUpdate.MaxUnavailableNodes = new(intstr.FromInt32(1))
			n := &s.Nodes[0]
			n.Pods, n.Checks[0].Serving, n.Detachment.Requested = nil, false, test.wave != nil
			d := Plan(s)
			if got := strings.Join(d.Status.Wave, " "); got != test.want || steps(d) != "Mark n0000 out of turn" {
				t.Errorf("the wave is %q, want %q; %s", got, test.want, steps(d))
			}
		})
	}
}

// TestLeaving: a node that left the set, or is gone.
func TestLeaving(t *testing.T) {
	for name, test := range map[string]struct {
		change func(n *Node)
		want   string
	}{
		"serves": {func(n *Node) { n.Wanted = false }, "Mark n0000"},
		"serves nothing": {func(n *Node) {
			n.Wanted, n.Pods, n.Checks[0].Serving = false, nil, false
		}, "Mark n0000 out of turn"},
		"serves nothing, a checker is gone": {func(n *Node) { n.Wanted, n.Pods, n.Checks[0] = false, nil, Check{Gone: true} }, "Mark n0000 out of turn"},
		"its check still passes":            {func(n *Node) { n.Wanted, n.Pods = false, nil }, "Mark n0000"},
		"its check does not answer":         {func(n *Node) { n.Wanted, n.Pods, n.Checks[0] = false, nil, Check{Port: 10080} }, "Mark n0000"},
		"one of two does not answer": {func(n *Node) {
			n.Wanted, n.Pods, n.Checks = false, nil, []Check{{Port: 10080, Answered: true}, {Port: 10081}}
		}, "Mark n0000"},
		"has no check, and no pod is ready": {func(n *Node) { n.Wanted, n.Pods, n.Checks = false, nil, nil }, "Mark n0000 out of turn"},
		"is gone":                           {func(n *Node) { n.Exists, n.Wanted = false, false }, "Delete n0000"},
		"is being deleted":                  {func(n *Node) { n.Wanted, n.Deployment.Deleting = false, true }, ""},
		"pods terminate":                    {func(n *Node) { n.Wanted, n.Deployment, n.Detachment.Requested = false, nil, true }, ""},
		"NotReady pods":                     {func(n *Node) { n.Wanted, n.Ready, n.Deployment, n.Detachment.Requested = false, false, nil, true }, "ReleaseDetachment n0000"},
		"pods are gone":                     {func(n *Node) { n.Wanted, n.Pods, n.Deployment, n.Detachment.Requested = false, nil, nil, true }, "ReleaseDetachment n0000"},
		"is rejecting":                      {func(n *Node) { n.Wanted = false; n.Pods[0].Failed = "NodeAffinity" }, "HoldBack n0000 to r1 x1, DeletePods n0000"},
		"is wanted again":                   {func(n *Node) { n.Deployment, n.Detachment.Requested = nil, true }, "Create n0000 to r1 x2"},
		"and detached, complete":            {func(n *Node) { n.Detachment.Requested = true }, "Unmark n0000, ReleaseDetachment n0000"},
		"and unmarked since, not complete": {func(n *Node) {
			n.Detachment.Requested, n.Detachment.RequestedAt, n.Deployment.AttachedAt, n.Pods = true, start.Add(-time.Minute), start, n.Pods[:1]
		}, "ReleaseDetachment n0000"},
		"and detached, not complete": {func(n *Node) {
			n.Detachment.Requested, n.Detachment.RequestedAt, n.Pods = true, start, n.Pods[:1]
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := servingFleet(3)
			s.Status.Wave = []string{"n0000"}
			test.change(&s.Nodes[0])
			if got := steps(Plan(s)); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// TestClaimThatIsRefused: a claim counts until it is dropped, since another controller may have
// begun with its node: that somebody's mark uses up the budget lets no other begin beside it.
func TestClaimThatIsRefused(t *testing.T) {
	s := servingFleet(3)
	s.Deletion = DeleteInWaves
	s.Nodes[0].Deployment.EmptyMark = true
	s.Nodes[1].Seen = &Seen{Claim: start}
	for _, test := range []struct {
		wave []string
		want string
	}{
		{[]string{"n0000", "n0001"}, "Stamp n0001"},
		{[]string{"n0000"}, "Mark n0000"},
	} {
		s.Status.Wave = test.wave
		d := Plan(s)
		if got := steps(d); got != test.want || !slices.Equal(d.Status.Wave, []string{"n0000"}) {
			t.Errorf("with the wave %v: got %q and the wave %v, want %q", test.wave, got, d.Status.Wave, test.want)
		}
	}
}

// TestClaimThatWaits: so does one whose node may not begin now.
func TestClaimThatWaits(t *testing.T) {
	for name, test := range map[string]struct {
		change func(n *Node)
		want   string
	}{
		"it may begin":                                   {func(*Node) {}, "Mark n0000, Stamp n0001"},
		"its health checker is being replaced":           {func(n *Node) { n.CheckersSettled = false }, "Stamp n0000, Stamp n0001"},
		"its health checker sees nothing":                {func(n *Node) { n.Checks[0].Blind = "x" }, "Stamp n0000, Stamp n0001"},
		"somebody wants it out, and may not have it yet": {func(n *Node) { n.Deployment.Detached, n.CheckersSettled = true, false }, "Stamp n0000, Stamp n0001"},
		"other fields of it are to be set first":         {func(n *Node) { n.Deployment.Outmoded = true }, "SetFields n0000, Stamp n0001"},
	} {
		t.Run(name, func(t *testing.T) {
			s := servingFleet(4)
			s.Revision, s.Status.Wave = "r2", []string{"n0000", "n0001"}
			s.Spec.UpdateStrategy.RollingUpdate.MaxUnavailableNodes = new(intstr.FromInt32(2))
			for i := range 2 {
				s.Nodes[i].Seen = &Seen{Claim: start}
			}
			test.change(&s.Nodes[0])
			down := &s.Nodes[2]
			down.Deployment.Revision, down.Deployment.ReadyReplicas, down.Ready, down.Checks[0].Serving = "r2", 0, false, false
			for i := range down.Pods {
				down.Pods[i].Revision, down.Pods[i].Ready = "r2", false
			}
			if got := steps(Plan(s)); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// TestWhatWasRejectedIsNotLeft: a template that was rejected is made again of no pods that do not serve.
func TestWhatWasRejectedIsNotLeft(t *testing.T) {
	n := servingNode("n0000")
	for i := range n.Pods {
		n.Pods[i].ReplicaSet, n.Pods[i].Ready = "left", false
	}
	if got := n.leftOver("r1") + n.leftOver("r2"); got != "left" {
		t.Errorf("got %q, want it once", got)
	}
}

// TestPodsThatWereLeft: a Deployment that somebody deleted is made again of what the pods are made
// from that serve, or may in a moment, if any were left behind: of another template it would replace
// them at once.
func TestPodsThatWereLeft(t *testing.T) {
	for name, test := range map[string]struct {
		change func(n *Node)
		want   string
	}{
		"they serve":       {func(*Node) {}, "old"},
		"others serve too": {func(n *Node) { n.Pods = append(n.Pods, Pod{Name: "other", ReplicaSet: "new", Ready: true}) }, "old"},
		"others do":        {func(n *Node) { n.Pods[0].ReplicaSet, n.Pods[1].ReplicaSet = "new", "new" }, "new"},
		"they restart":     {func(n *Node) { n.Pods[0].Ready, n.Pods[1].Ready = false, false }, "old"},
		"another serves": {func(n *Node) {
			n.Pods[0].Ready, n.Pods[1].Ready = false, false
			n.Pods = append(n.Pods, Pod{Name: "other", ReplicaSet: "new", Ready: true})
		}, "new"},
		"they serve, and another restarts": {func(n *Node) { n.Pods = append(n.Pods, Pod{Name: "other", ReplicaSet: "new"}) }, "old"},
		"they end":                         {func(n *Node) { n.Pods[0].Failed, n.Pods[1].Terminating = "Evicted", true }, ""},
		"none is there":                    {func(n *Node) { n.Pods = nil }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := servingFleet(2)
			s.Revision, s.Spec.Paused = "r2", true
			n := &s.Nodes[0]
			n.Deployment, n.Checks = nil, nil
			n.Pods[0].ReplicaSet, n.Pods[1].ReplicaSet = "old", "old"
			test.change(n)
			d := Plan(s)
			others := int32(0)
			for _, pod := range n.Pods {
				if pod.serves() && pod.ReplicaSet != test.want {
					others++
				}
			}
			if step := d.Steps[0]; steps(d) != "Create n0000 to r2 x2" || step.ReplicaSet != test.want || step.Rolling != (Rolling{Surge: others}) {
				t.Errorf("got %s of ReplicaSet %q, %+v, want %q beside %d others", steps(d), step.ReplicaSet, step.Rolling, test.want, others)
			}
		})
	}
}

// TestLettingGo: the first and the last steps of each kind of deletion.
func TestLettingGo(t *testing.T) {
	nothing := func(s *State) { s.Nodes = nil }
	for name, test := range map[string]struct {
		deletion Deletion
		change   func(s *State)
		want     string
	}{
		"in waves": {DeleteInWaves, func(s *State) { s.Status.Wave = []string{"n0000"} }, "Mark n0000"},
		"in waves, a gone node": {DeleteInWaves, func(s *State) {
			s.Nodes = s.Nodes[:1]
			s.Nodes[0].Exists = false
			s.Nodes[0].Deployment.Deleting = true
		}, "DeleteChecker 10080"},
		"in waves, pods that end": {DeleteInWaves, func(s *State) {
			s.Nodes = s.Nodes[:1]
			s.Nodes[0].Deployment = nil
			for i := range s.Nodes[0].Pods {
				s.Nodes[0].Pods[i].Terminating = true
			}
		}, ""},
		"in waves, checkers": {DeleteInWaves, nothing, "DeleteChecker 10080"},
		"in waves, last":     {DeleteInWaves, func(s *State) { nothing(s); s.Checkers = nil }, "RemoveFinalizer"},
		"at once":            {DeleteAtOnce, func(s *State) { s.Nodes[1].Detachment.Requested = true }, "ReleaseDetachment n0001"},
		"at once, last":      {DeleteAtOnce, func(*State) {}, "RemoveFinalizer"},
		"orphaning":          {DeleteOrphaning, func(s *State) { s.Nodes[1].Deployment.Mark = "x" }, "Unmark n0001"},
		"orphaning, last":    {DeleteOrphaning, func(*State) {}, "RemoveFinalizer"},
	} {
		t.Run(name, func(t *testing.T) {
			s := servingFleet(2)
			s.Deletion = test.deletion
			test.change(&s)
			d := Plan(s)
			if got := steps(d); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
			if c := condition(t, d, v1alpha1.ConditionAvailable); c.Status != "False" {
				t.Errorf("it is said to be available")
			}
		})
	}
}

// TestMarkOfSomebodyElse: a mark that somebody set by hand, whatever its value, is no
// handshake: a node that leaves, or is drained, is marked by us first.
func TestMarkOfSomebodyElse(t *testing.T) {
	for name, set := range map[string]func(d *Deployment){
		"words":     func(d *Deployment) { d.Mark = "please" },
		"empty":     func(d *Deployment) { d.EmptyMark = true },
		"of a kind": func(d *Deployment) { d.Mark = "mine/out-of-turn" },
	} {
		t.Run(name, func(t *testing.T) {
			s := servingFleet(3)
			n := &s.Nodes[0]
			set(n.Deployment)
			n.Checks[0] = Check{Port: 10080, Answered: true, Mark: n.Deployment.Mark, Since: start}
			n.Wanted, s.Status.Wave = false, []string{"n0000"}
			if d := Plan(s); steps(d) != "Mark n0000" || d.Steps[0].Mark != v1alpha1.NewMark(start, "r1", "") {
				t.Errorf("leaves the set: %+v", d.Steps)
			}
			n.Wanted, n.Leaving, n.Evicting, s.Status.Wave = true, true, true, nil
			if d := Plan(s); steps(d) != "Mark n0000" || d.Steps[0].Mark != v1alpha1.NewMark(start, "r1", "") || !d.Steps[0].Drained {
				t.Errorf("is drained: %+v", d.Steps)
			}
			n.Leaving, n.Evicting = false, false
			if d := Plan(s); steps(d) != "" || stateOf(d, "n0000") != v1alpha1.NodeUnavailable {
				t.Errorf("stays:\n%s", summary(d))
			}
			s.Deletion = DeleteOrphaning
			if d := Plan(s); steps(d) != "Unmark n0000" {
				t.Errorf("is orphaned: %+v", d.Steps)
			}
		})
	}
}

// TestBroken: pods are replaced without a turn only where nothing can be lost. A port that
// does not answer tells nothing.
func TestBroken(t *testing.T) {
	for name, test := range map[string]struct {
		checks []Check
		want   string
	}{
		"every check fails":            {[]Check{{Port: 10080, Answered: true}, {Port: 10081, Answered: true}}, "Mark n0000 out of turn"},
		"a check passes":               {[]Check{{Port: 10080, Answered: true}, {Port: 10081, Answered: true, Serving: true}}, ""},
		"a check does not answer":      {[]Check{{Port: 10080, Answered: true}, {Port: 10081}}, ""},
		"somebody who is gone listens": {[]Check{{Port: 10080, Answered: true}, {Port: 10081, Gone: true, Accepted: true}}, ""},
		"nobody is there to answer":    {[]Check{{Port: 10080, Answered: true}, {Port: 10081, Gone: true}}, "Mark n0000 out of turn"},
	} {
		t.Run(name, func(t *testing.T) {
			s := servingFleet(3)
			s.Revision = "r2"
			n := &s.Nodes[0]
			n.Checks = test.checks
			for i := range n.Pods {
				n.Pods[i].Ready = false
			}
			if got := steps(Plan(s)); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// TestOrphaningInATurn: a node whose pods are being replaced is unmarked when they are
// complete, or when that takes longer than an update may.
func TestOrphaningInATurn(t *testing.T) {
	for name, test := range map[string]struct {
		change func(s *State, n *Node)
		want   string
	}{
		"an older pod is left":      {func(*State, *Node) {}, ""},
		"not updated yet":           {func(_ *State, n *Node) { n.Deployment.UpdatedAt = start.Add(-time.Hour) }, "Unmark n0000"},
		"complete":                  {func(_ *State, n *Node) { n.Pods[0].Revision = "r2" }, "Unmark n0000"},
		"somebody marked it anew":   {func(_ *State, n *Node) { n.Deployment.Mark = "by-hand" }, ""},
		"somebody took the record":  {func(s *State, n *Node) { n.Deployment.UpdatedAt, n.Seen = time.Time{}, &Seen{Updated: s.Now} }, ""},
		"for longer than it may be": {func(s *State, _ *Node) { s.Now = start.Add(time.Hour) }, "Unmark n0000"},
		"the node is cut off":       {func(_ *State, n *Node) { n.Ready = false }, ""},
		"it is being emptied": {func(_ *State, n *Node) {
			n.Deployment.Replicas, n.Deployment.UpdatedAt = 0, start.Add(-time.Hour)
		}, ""},
		"it is emptied": {func(_ *State, n *Node) { n.Deployment.Replicas, n.Pods = 0, nil }, "Unmark n0000"},
		"it is not emptied for longer than it may be": {func(s *State, n *Node) {
			n.Deployment.Replicas, s.Now = 0, start.Add(time.Hour)
		}, "Unmark n0000"},
		"its pods are rejected": {func(_ *State, n *Node) {
			n.Pods[1].Ready, n.Pods[1].Running, n.Pods[1].Failed = false, false, "OutOfcpu"
		}, "HoldBack n0000 to r1 x2, DeletePods n0000"},
	} {
		t.Run(name, func(t *testing.T) {
			s := markedFleet(3)
			s.Deletion = DeleteOrphaning
			n := &s.Nodes[0]
			n.Deployment.Revision, n.Deployment.UpdatedAt = "r2", start.Add(-10*time.Second)
			n.Pods[1].Revision = "r2"
			test.change(&s, n)
			d := Plan(s)
			if got := steps(d); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
			if test.want == "" && d.WakeAt.IsZero() {
				t.Error("nobody would look again")
			}
		})
	}
}

// TestPodsLeftWithoutADeployment: pods of a node that is to go, whose Deployment is not found,
// are waited for, and after a while it is said that nobody stops them.
func TestPodsLeftWithoutADeployment(t *testing.T) {
	for name, test := range map[string]struct {
		deletion Deletion
		change   func(*Pod)
		want     string
	}{
		"in a deletion":    {DeleteInWaves, func(*Pod) {}, v1alpha1.ReasonPodsLeft},
		"it left the set":  {NotDeleted, func(*Pod) {}, v1alpha1.ReasonPodsLeft},
		"they are ending":  {DeleteInWaves, func(p *Pod) { p.Terminating = true }, v1alpha1.ReasonAsExpected},
		"they have failed": {DeleteInWaves, func(p *Pod) { p.Failed = "Evicted" }, v1alpha1.ReasonAsExpected},
	} {
		t.Run(name, func(t *testing.T) {
			s, sights := servingFleet(2), &Sights{}
			look(sights, s, 0)
			s.Deletion = test.deletion
			n := &s.Nodes[0]
			n.Wanted, n.Deployment = false, nil
			for i := range n.Pods {
				test.change(&n.Pods[i])
			}
			for _, after := range []time.Duration{time.Minute, time.Minute + collectedAfter} {
				d := look(sights, s, after)
				if b := condition(t, d, v1alpha1.ConditionBlocked); b.Reason != v1alpha1.ReasonAsExpected || strings.Contains(steps(d), n.Name) {
					t.Errorf("after %s:\n%s", after, summary(d))
				}
			}
			if b := condition(t, look(sights, s, time.Minute+collectedAfter+lookAgain), v1alpha1.ConditionBlocked); b.Reason != test.want {
				t.Errorf("after a while: %+v", b)
			}
		})
	}
}
