// Package forecast tells what a rollout would do and how long it would take: it
// plays rollout.Plan forward on a fleet on which everything goes well. It is
// pure: forecast.go is the play, fleet.go the fleet that it is played on.
package forecast

import (
	"reflect"
	"slices"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/rollout"
	"k8s.io/apimachinery/pkg/api/meta"
)

// Pace is how long the things take that a rollout waits for, beside the graces
// in the spec. A negative one counts as 0.
type Pace struct {
	// Ready is from the start of a pod until it is ready, Stop until one that
	// terminates is gone.
	Ready, Stop time.Duration
	// Detach is until the detacher writes its timestamp, Attach until it removes it.
	Detach, Attach time.Duration
}

// Forecast is how a rollout would go.
type Forecast struct {
	// Waves are in the order in which they begin.
	Waves []Wave
	// Took is when the last node serves again.
	Took time.Duration
	// Stops says why nodes are left that do not have the present template; empty
	// where none is.
	Stops string
	// Left are these nodes.
	Left []string
}

// Wave is nodes that begin together.
type Wave struct {
	Nodes []string
	// Begins is when the first step is taken, Serves when the last node serves
	// again, both from now on.
	Begins, Serves time.Duration
}

// mostLooks bounds the looks at each node: a node takes some ten steps.
const mostLooks = 200

// Play plays a rollout from a state until nothing happens any more. The state
// itself is not changed. The health checks of a node to which something happens
// are taken to pass as soon as enough of its pods are ready, and measurements of
// the analysis to pass at once.
func Play(s rollout.State, pace Pace) Forecast {
	f := newFleet(s, pace)
	turns := &turns{from: s.Now, begun: map[string]bool{}}
	for range mostLooks * (1 + len(s.Nodes)) {
		d := rollout.Plan(f.State)
		turns.hear(f.State, d)
		idle := len(d.Steps) == 0 && reflect.DeepEqual(d.Status, f.Status)
		f.carryOut(d)
		if !idle {
			continue
		}
		if !f.moveOn(d.WakeAt) {
			break
		}
	}
	return turns.tell(f.State)
}

// turns are the nodes' turns as they are played.
type turns struct {
	from  time.Time
	begun map[string]bool
	waves []*wave
}

type wave struct {
	Wave
	left map[string]bool
}

// hear notes which nodes begin and which serve again.
func (t *turns) hear(s rollout.State, d rollout.Decision) {
	for _, w := range t.waves {
		for name := range w.left {
			if !slices.Contains(d.Status.Wave, name) && !under(d.Status, name) {
				delete(w.left, name)
				w.Serves = s.Now.Sub(t.from)
			}
		}
	}
	for _, name := range d.Status.Wave {
		if !t.begun[name] {
			t.begun[name] = true
			t.join(name, s.Now.Sub(t.from))
		}
	}
}

func under(status v1alpha1.IngressDaemonSetStatus, name string) bool {
	return slices.ContainsFunc(status.Nodes, func(n v1alpha1.NodeStatus) bool { return n.Name == name })
}

// join puts a node into the wave that begins now.
func (t *turns) join(name string, now time.Duration) {
	if len(t.waves) == 0 || t.waves[len(t.waves)-1].Begins != now {
		t.waves = append(t.waves, &wave{left: map[string]bool{}, Wave: Wave{Begins: now}})
	}
	last := t.waves[len(t.waves)-1]
	last.Nodes = append(last.Nodes, name)
	last.left[name] = true
}

func (t *turns) tell(s rollout.State) Forecast {
	var out Forecast
	for _, w := range t.waves {
		out.Waves = append(out.Waves, w.Wave)
		out.Took = max(out.Took, w.Serves)
	}
	for _, n := range s.Nodes {
		if n.Wanted && (n.Deployment == nil || n.Deployment.Revision != s.Revision) {
			out.Left = append(out.Left, n.Name)
		}
	}
	slices.Sort(out.Left)
	if len(out.Left) > 0 || len(s.Status.Wave) > 0 {
		out.Stops = stops(s.Status)
	}
	return out
}

// stops is why a rollout that stands still does so.
func stops(s v1alpha1.IngressDaemonSetStatus) string {
	if c := meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionBlocked); c != nil && c.Status == "True" {
		return c.Message
	}
	if c := meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionProgressing); c != nil && c.Reason != v1alpha1.ReasonComplete {
		return c.Message
	}
	return "rollingUpdate.partition keeps them at the revision they have"
}
