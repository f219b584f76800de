package rollout

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"pgregory.net/rapid"
)

// TestConvergence lets anything happen to any fleet and holds every single
// write against the promises; when the faults end, the fleet must come to rest,
// and when the spec permits, at what the spec wants.
func TestConvergence(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := &generator{T: t}
		w := g.world()
		w.leaders[0].crashes = []float64{0, 0, 0.02, 0.2}[g.number("crashes", 0, 3)]
		g.happen(g.number("happenings", 1, 12))
		w.run(w.now.Add(time.Duration(g.number("minutes", 0, 10)) * time.Minute))
		w.heal()
		w.run(w.now.Add(patience))
		w.mustHold(t, "left over", w.leftovers())
		w.change(func(s *v1alpha1.IngressDaemonSetSpec) {
			s.Paused = false
			s.UpdateStrategy.RollingUpdate.MinServingNodes = pointer[int32](0)
		})
		w.run(w.now.Add(patience))
		w.mustHold(t, "unfinished", w.unfinished())
	})
}

// TestTightNodes rolls out where no node has room for a pod more than it has,
// ever, and the spec says to do without: it must end all the same, also when the
// spec first said to surge.
func TestTightNodes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := &generator{T: t}
		w := g.world()
		pods := w.set.spec.Pods()
		for _, n := range w.nodes {
			n.capacity = int(pods)
		}
		w.leaders[0].crashes = []float64{0, 0, 0.02, 0.1}[g.number("crashes", 0, 3)]
		w.changeTemplate("r2")
		w.run(w.now.Add(time.Duration(g.number("seconds", 0, 300)) * time.Second))
		if g.oneIn("another template", 3) {
			w.changeTemplate("r3")
			w.run(w.now.Add(time.Duration(g.number("seconds", 0, 30)) * time.Second))
		}
		w.change(func(s *v1alpha1.IngressDaemonSetSpec) {
			s.UpdateStrategy.RollingUpdate = &v1alpha1.RollingUpdate{
				MaxSurgedPodsPerNode:      number(0),
				MaxUnavailablePodsPerNode: number(g.number("unavailable", 1, int(pods))),
				MinServingNodes:           pointer[int32](0),
			}
		})
		w.run(w.now.Add(patience))
		w.mustHold(t, "unfinished", w.unfinished())
	})
}

// TestDeletion deletes the object in the middle of things.
func TestDeletion(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := &generator{T: t}
		w := g.world()
		w.leaders[0].crashes = []float64{0, 0.1}[g.number("crashes", 0, 1)]
		g.happen(g.number("happenings", 0, 6))
		w.set.deletion = rapid.SampledFrom([]Deletion{DeleteInWaves, DeleteAtOnce, DeleteOrphaning}).Draw(t, "deletion")
		w.set.rv = w.version()
		g.happen(g.number("more happenings", 0, 4))
		w.heal()
		w.run(w.now.Add(patience))
		w.mustHold(t, "left over", w.remains())
	})
}

// remains are what a deletion should not have left.
func (w *world) remains() []string {
	var out []string
	if w.set.exists {
		out = append(out, "the IngressDaemonSet is still there")
	}
	for _, name := range w.names() {
		d := w.deployments[name]
		if w.nodes[name].holders[us] {
			out = append(out, name+" is annotated")
		}
		if d != nil && (w.set.deletion != DeleteOrphaning || d.mark != "") {
			out = append(out, name+" has a Deployment, marked "+d.mark)
		}
	}
	if w.set.deletion == DeleteInWaves && len(w.daemonSets) > 0 {
		out = append(out, "health checkers are left")
	}
	return out
}

// fataler is a test, or a case of rapid.
type fataler interface {
	Fatalf(format string, args ...any)
}

// mustHold fails the test where the audit found something, or something is amiss.
func (w *world) mustHold(t fataler, what string, amiss []string) {
	if len(w.audit.faults) > 0 {
		t.Fatalf("%s", w.audit.faults[0])
	}
	if len(amiss) > 0 {
		t.Fatalf("%s: %s\n%s\n%s", what, strings.Join(amiss, ", "), summary(Decision{Status: w.set.status}), w.describe())
	}
}

// describe is the spec and every node in short.
func (w *world) describe() string {
	s := w.set.spec
	out := fmt.Sprintf("revision %s, %d pods, paused %t, %+v", w.set.revision, s.Pods(), s.Paused, s.Strategy())
	for _, name := range w.names() {
		n, d := w.nodes[name], w.deployments[name]
		out += fmt.Sprintf("\n  %s wanted %t ready %t, held by %v", name, n.wanted, n.ready, n.holders)
		if d != nil {
			out += fmt.Sprintf(", %s x%d of %d, paused %t, mark %q, hold %+v, %d ready", d.template(), d.replicas, d.podsPerNode, d.paused, d.mark, d.hold, w.readyPods(name))
			for _, s := range d.sets {
				out += fmt.Sprintf(", %s:%d", s.template, s.size)
			}
		}
	}
	return out
}
