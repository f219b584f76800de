// Package forecast tells what a rollout would do and how long it would take: it
// simulates rollout.Plan on a fleet of nodes on which everything goes well. It is
// pure: forecast.go is the simulation, fleet.go the fleet.
package forecast

import (
	"context"
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
// the analysis to pass at once. It is an error where the context ends before.
func Play(ctx context.Context, s rollout.State, pace Pace) (Forecast, error) {
	return newFleet(s, pace).play(ctx)
}

func (f *fleet) play(ctx context.Context) (Forecast, error) {
	turns := &turns{from: f.Now, begun: map[string]bool{}}
	for range mostLooks * (1 + len(f.Nodes)) {
		if ctx.Err() != nil {
			return Forecast{}, context.Cause(ctx)
		}
		d := f.decide()
		turns.hear(f.Now, d.Status)
		idle := len(d.Steps) == 0 && reflect.DeepEqual(d.Status, f.Status)
		f.carryOut(d)
		if !idle {
			continue
		}
		if !f.moveOn(d.WakeAt) {
			break
		}
	}
	return turns.tell(f.State), nil
}

// turns are the nodes' turns as they are played.
type turns struct {
	from  time.Time
	begun map[string]bool
	waves []*wave
	// done is how many of the first waves are over.
	done int
}

// wave is one of which nodes are left that do not serve again.
type wave struct {
	Wave
	left map[string]bool
}

// hear notes which nodes begin and which serve again.
func (t *turns) hear(now time.Time, status v1alpha1.IngressDaemonSetStatus) {
	for t.done < len(t.waves)-1 && len(t.waves[t.done].left) == 0 {
		t.done++
	}
	for _, w := range t.waves[t.done:] {
		for name := range w.left {
			if !slices.Contains(status.Wave, name) && !under(status, name) {
				delete(w.left, name)
				w.Serves = now.Sub(t.from)
			}
		}
	}
	for _, name := range status.Wave {
		if !t.begun[name] {
			t.begun[name] = true
			t.join(name, now.Sub(t.from))
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
		// The status of the play counts what was in sight.
		out.Stops = stops(rollout.Plan(s).Status)
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
