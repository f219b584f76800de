package targets

import (
	"fmt"
	"maps"
	"slices"
	"time"
)

// happen lets one thing happen.
func (g *generator) happen(w *world) {
	switch g.number("happening", 0, 13) {
	case 0, 1:
		w.startPod(g)
	case 2, 3:
		w.endPod(g)
	case 4:
		// Nobody saw it go.
		if p, i := g.pod(w); p != nil {
			w.pods = slices.Delete(w.pods, i, i+1)
		}
	case 5:
		if p, _ := g.pod(w); p != nil {
			p.out = !p.out
		}
	case 6, 7:
		if n, _ := g.node(w); n != nil {
			n.reason, n.ending = !n.reason, g.oneIn("ending", 4)
		}
	case 8:
		if n, i := g.node(w); n != nil {
			w.stopped[n.id] = true
			w.nodes = slices.Delete(w.nodes, i, i+1)
		}
	case 9:
		id := g.anyTarget(w).ID
		w.sick[id] = !w.sick[id]
	case 10:
		w.checkerUp = w.now
	case 11, 12:
		w.meddle(g)
	case 13:
		w.boot()
	}
}

func (g *generator) pod(w *world) (*fakePod, int) {
	if len(w.pods) == 0 {
		return nil, 0
	}
	i := g.number("pod", 0, len(w.pods)-1)
	return w.pods[i], i
}

func (g *generator) node(w *world) (*fakeNode, int) {
	if len(w.nodes) == 0 {
		return nil, 0
	}
	i := g.number("node", 0, len(w.nodes)-1)
	return w.nodes[i], i
}

// endPod ends a pod: with grace, held by a hook, or at once; one that failed
// stays for long.
func (w *world) endPod(g *generator) {
	p, _ := g.pod(w)
	if p == nil || p.ending {
		return
	}
	grace := []time.Duration{0, 30 * time.Second, 330 * time.Second, 3 * time.Hour}[g.number("grace", 0, 3)]
	p.ending, p.dies = true, w.now.Add(grace)
	if g.oneIn("hook", 2) {
		p.hookUntil = p.dies
	}
	if grace > time.Hour {
		p.hookUntil = time.Time{}
	}
}

// anyTarget is one that a group has or had.
func (g *generator) anyTarget(w *world) Target {
	group := w.groups[g.number("group", 0, len(w.groups)-1)]
	all := slices.SortedFunc(maps.Keys(group.targets), compareTargets)
	if len(all) == 0 {
		return Target{"10.0.0.0", 8080}
	}
	return all[g.number("target", 0, len(all)-1)]
}

// meddle is somebody else at work in a group.
func (w *world) meddle(g *generator) {
	group := w.groups[g.number("meddled group", 0, len(w.groups)-1)]
	switch g.number("meddling", 0, 3) {
	case 0:
		group.register(foreign(group, g.number("foreign", 0, 3)), them)
	case 1:
		group.deregister(foreign(group, g.number("foreign", 0, 3)), them)
	case 2:
		group.deregister(w.pickIn(g, group), them)
	case 3:
		// An address of ours is given to somebody else, or what we took out is put back.
		t := Target{fmt.Sprintf("10.0.0.%d", g.number("address", 0, 8)), 8080}
		if group.Type == Instance {
			t = Target{fmt.Sprintf("i-%d", g.number("instance", 0, 4)), 8080}
		}
		if !w.stopped[t.ID] {
			group.register(t, them)
		}
	}
}

func (w *world) pickIn(g *generator, group *fakeGroup) Target {
	all := slices.SortedFunc(maps.Keys(group.targets), compareTargets)
	if len(all) == 0 {
		return Target{}
	}
	return all[g.number("taken out by others", 0, len(all)-1)]
}
