package controller

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/rollout"
	"pgregory.net/rapid"
)

// TestConvergence lets anything happen to any fleet and holds every single
// write against the promises; when the faults end, the fleet must come to rest,
// and when the spec permits, at what the spec wants.
func TestConvergence(t *testing.T) { holds(t, converges, 600) }

// TestTightNodes rolls out where no node has room for a pod more than it has,
// ever, and the spec says to do without: it must end all the same, also when the
// spec first said to surge.
func TestTightNodes(t *testing.T) { holds(t, endsOnTightNodes, 60) }

// TestDeletion deletes the object in the middle of things.
func TestDeletion(t *testing.T) { holds(t, isDeleted, 120) }

// property plays a scenario that is drawn, and says what is amiss then.
type property func(*rapid.T) string

// holds plays draws from -first on, one on each processor at a time: so many, or as many
// as -draws says.
func holds(t *testing.T, p property, many int) {
	if many /= fewer; *draws > 0 {
		many = *draws
	}
	var draw atomic.Int64
	draw.Store(int64(*first))
	var players sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		players.Go(func() {
			for !t.Failed() {
				this := int(draw.Add(1)) - 1
				if this >= *first+many {
					return
				}
				if amiss := rapid.Custom(p.play).Example(this); amiss != "" {
					t.Errorf("draw %d: %s", this, amiss)
				}
			}
		})
	}
	players.Wait()
}

// play plays one draw. rapid would take a panic for a reason to draw another one.
func (p property) play(t *rapid.T) (amiss string) {
	defer func() {
		if r := recover(); r != nil {
			amiss = fmt.Sprintf("%v\n%s", r, debug.Stack())
		}
	}()
	return p(t)
}

func converges(t *rapid.T) string {
	g := &generator{T: t}
	w := g.world()
	w.crashes = []float64{0, 0, 0.02, 0.2}[g.number("crashes", 0, 3)]
	g.happen(g.number("happenings", 1, 12))
	for range g.number("minutes", 0, 10) {
		w.run(w.now.Add(time.Minute))
		w.audit.checkEnds()
	}
	w.heal()
	w.run(w.now.Add(patience))
	if amiss := w.amiss("left over", w.leftovers); amiss != "" {
		return amiss
	}
	w.change(func(s *v1alpha1.IngressDaemonSetSpec) {
		s.Paused = false
		s.ProgressDeadlineSeconds = new(int32(601))
		if s.UpdateStrategy.RollingUpdate != nil {
			s.UpdateStrategy.RollingUpdate.MinServingNodes = number(0)
		}
	})
	w.run(w.now.Add(patience))
	return w.amiss("unfinished", w.unfinished)
}

func endsOnTightNodes(t *rapid.T) string {
	g := &generator{T: t}
	w := g.world()
	pods := w.spec().Pods()
	w.tight = true
	for _, n := range w.nodes {
		n.capacity = int(pods)
	}
	w.crashes = []float64{0, 0, 0.02, 0.1}[g.number("crashes", 0, 3)]
	w.changeTemplate("r2")
	w.run(w.now.Add(time.Duration(g.number("seconds", 0, 300)) * time.Second))
	if g.oneIn("another template", 3) {
		w.changeTemplate("r3")
		w.run(w.now.Add(time.Duration(g.number("seconds", 0, 30)) * time.Second))
	}
	for range max(0, g.number("rewritten", -2, 3)) {
		g.rewritesRemembered(g.anyNode())
		w.run(w.now.Add(time.Duration(g.number("seconds", 0, 30)) * time.Second))
	}
	if g.oneIn("upgrade", 3) {
		g.upgrade()
		w.run(w.now.Add(time.Duration(g.number("seconds", 0, 30)) * time.Second))
	}
	w.change(func(s *v1alpha1.IngressDaemonSetSpec) {
		s.UpdateStrategy.RollingUpdate = &v1alpha1.RollingUpdate{
			MaxSurgedPodsPerNode:      number(0),
			MaxUnavailablePodsPerNode: number(g.number("unavailable", 1, int(pods))),
			MinServingNodes:           number(0),
		}
	})
	w.run(w.now.Add(patience))
	return w.amiss("unfinished", w.unfinished)
}

func isDeleted(t *rapid.T) string {
	g := &generator{T: t}
	w := g.world()
	if g.oneIn("another Service", 2) {
		g.changeService()
	}
	w.crashes = []float64{0, 0.1}[g.number("crashes", 0, 1)]
	g.happen(g.number("happenings", 0, 6))
	how := rapid.SampledFrom([]rollout.Deletion{rollout.DeleteInWaves, rollout.DeleteAtOnce, rollout.DeleteOrphaning}).Draw(t, "deletion")
	w.remove(how)
	g.happen(g.number("more happenings", 0, 4))
	w.heal()
	w.run(w.now.Add(patience))
	return w.amiss("left over", func() []string { return w.remains(how) })
}

// amiss is the first fault that the audit found, or what a question finds.
func (w *world) amiss(what string, found func() []string) string {
	if len(w.audit.faults) > 0 {
		return w.audit.faults[0]
	}
	if list := found(); len(list) > 0 {
		return what + ": " + strings.Join(list, ", ") + w.describe()
	}
	return ""
}
