package targets

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// patience is how much longer than any wait of the rules things may take to come
// to rest.
const patience = 40 * time.Minute

// TestConvergence lets anything happen to pods, nodes, the cloud and the
// controller, and holds every decision and every call against the promises. When
// the faults end, all must come to rest where it is wanted.
func TestConvergence(t *testing.T) {
	counts, worlds := map[string]int{}, 0
	rapid.Check(t, func(t *rapid.T) {
		worlds++
		g := &generator{T: t}
		w := g.world(counts)
		for range g.number("happenings", 0, 25) {
			if err := w.run(w.now.Add(g.interval())); err != nil {
				t.Fatal(err)
			}
			g.happen(w)
			w.c.changed()
		}
		w.heal()
		if err := w.run(w.now.Add(patience)); err != nil {
			t.Fatal(err)
		}
		for _, group := range w.groups {
			if amiss := w.a.leftovers(group); len(amiss) > 0 {
				t.Fatalf("%s%s", strings.Join(amiss, "\n"), w.c.describe())
			}
		}
	})
	for _, what := range []string{"crash", "throttled", "lost", "absence", "voluntary", string(Attached), string(Failing), string(Held), string(Leaving), string(Stopped), string(Refused), string(Absent), string(Foreign), string(FloorPassed), string(SeenQuiet)} {
		if counts[what] == 0 && worlds >= 500 && !t.Failed() {
			t.Errorf("no world had a case of %q: the simulation proves nothing of it", what)
		}
	}
}

// generator draws worlds, and what happens in them.
type generator struct{ *rapid.T }

func (g *generator) number(what string, from, to int) int {
	return rapid.IntRange(from, to).Draw(g.T, what)
}

func (g *generator) oneIn(what string, n int) bool { return g.number(what, 1, n) == n }

func (g *generator) interval() time.Duration {
	longest := []int{0, 2, 20, 120, 600}[g.number("order of time", 0, 4)]
	return time.Duration(g.number("milliseconds", 0, longest*1000)) * time.Millisecond
}

func (g *generator) world(counts map[string]int) *world {
	seed := rapid.Uint64().Draw(g.T, "seed")
	w := &world{
		now: start, rng: rand.New(rand.NewPCG(seed, 1)), records: map[string][]Record{},
		sick: map[string]bool{}, stopped: map[string]bool{}, invalid: map[string]bool{}, idle: map[string]bool{}, unseen: map[string]bool{},
		wantedAt: map[string]map[Target]time.Time{},
	}
	w.a = &audit{w: w, counts: counts, begun: map[string]map[Target]bool{}, since: map[string]map[Target]time.Time{}, settled: map[string]map[Target]bool{}}
	rate := func(what string) float64 { return []float64{0, 0.02, 0.1, 0.3}[g.number(what, 0, 3)] }
	w.faults = faults{crash: rate("crash") / 3, throttle: rate("throttle"), lose: rate("lose"), conflict: rate("conflict")}
	kinds := g.number("groups", 1, 3)
	if kinds&1 > 0 {
		w.groups = append(w.groups, g.group(w, "pods", IP))
		if g.oneIn("a second group of pods", 3) {
			w.groups = append(w.groups, g.group(w, "pods-too", IP))
		}
	}
	if kinds&2 > 0 {
		group := g.group(w, "nodes", Instance)
		group.whole = false
		w.groups = append(w.groups, group)
	}
	for i := range 9 {
		id := fmt.Sprintf("10.0.0.%d", i)
		w.idle[id], w.unseen[id] = g.oneIn("idle", 6), g.oneIn("unseen", 3)
		w.invalid[id] = g.oneIn("invalid", 12)
	}
	w.fill(g)
	w.boot()
	return w
}

func (g *generator) group(w *world, id string, kind TargetType) *fakeGroup {
	balancer := []Balancer{Network, Application}[g.number("balancer", 0, 1)]
	return &fakeGroup{
		Group: Group{
			ID: id, Name: id, Balancer: balancer, Type: kind, Port: 8080,
			InUse: !g.oneIn("unused", 8), CrossZone: g.oneIn("cross-zone", 2),
			Delay:      []time.Duration{0, 30 * time.Second, 300 * time.Second}[g.number("delay", 0, 2)],
			MinHealthy: g.number("minimum", 0, 2), MinHealthyPercent: []int{0, 0, 50}[g.number("percent", 0, 2)],
		},
		w: w, whole: g.oneIn("whole", 3), settle: DefaultSettleTime(balancer),
		quota: []int{100, 100, 4}[g.number("quota", 0, 2)], targets: map[Target]fakeTarget{},
	}
}

// fill makes what is there before the controller is.
func (w *world) fill(g *generator) {
	for range g.number("pods", 0, 6) {
		w.startPod(g)
	}
	for i := range g.number("nodes", 0, 5) {
		w.nodes = append(w.nodes, &fakeNode{id: fmt.Sprintf("i-%d", i)})
	}
	for _, group := range w.groups {
		group.note()
		if group.Type == Instance {
			for _, n := range w.nodes {
				group.register(Target{n.id, 8080}, them)
				if n.id == "i-0" {
					group.register(Target{n.id, 8443}, them)
				}
			}
		}
		for i := range g.number("foreign targets", 0, 2) {
			group.register(foreign(group, i), them)
		}
	}
	w.now = w.now.Add(5 * time.Minute)
}

func foreign(g *fakeGroup, i int) Target {
	if g.Type == Instance {
		return Target{fmt.Sprintf("i-foreign-%d", i), 8080}
	}
	return Target{fmt.Sprintf("10.9.0.%d", i), 8080}
}

// heal ends all faults: what comes now is the controller's alone.
func (w *world) heal() {
	w.faults = faults{}
	w.sick = map[string]bool{}
	for _, p := range w.pods {
		if p.ending {
			p.hookUntil = p.dies
		}
	}
	w.c.changed()
}

// startPod starts a pod on an address that no pod has which may still serve.
func (w *world) startPod(g *generator) {
	ip := fmt.Sprintf("10.0.0.%d", g.number("address", 0, 8))
	if slices.ContainsFunc(w.pods, func(p *fakePod) bool {
		return p.ip == ip && !(p.ending && w.now.After(p.dies)) && !g.oneIn("shared", 5)
	}) {
		return
	}
	w.named++
	ports := [][]int32{{8080}, {0}, {8080, 8443}}[g.number("ports", 0, 2)]
	w.pods = append(w.pods, &fakePod{name: fmt.Sprintf("pod-%d", w.named), ip: ip, ports: ports})
}
