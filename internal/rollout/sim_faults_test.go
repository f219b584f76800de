package rollout

import (
	"slices"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
)

// What others do to the world, and how it heals.

// cordon is what node-detacher takes for a request to detach, too.
func (w *world) cordon(n *simNode, on bool) {
	n.cordoned = on
	w.askedByOthers(n)
}

// tamper lets somebody else write into a node's Deployment.
func (w *world) tamper(n *simNode, change func(*simDeployment)) {
	if d := w.deployments[n.name]; d != nil && !d.deleting {
		delete(w.audit.floor, n.name)
		change(d)
		w.write(d, true)
	}
}

// keepOut is somebody who wants a node out of the load balancer, or no more.
func (w *world) keepOut(n *simNode, yes bool) {
	if d := w.deployments[n.name]; d != nil && !d.deleting {
		d.keptOut = yes
		w.write(d, false)
	}
}

func (w *world) restartOne(n *simNode) {
	for _, p := range w.pods {
		if p.node == n.name && p.ready {
			w.restart(p)
			return
		}
	}
}

// repair makes every revision good: pods that waited become ready.
func (w *world) repair() {
	w.bad = map[string]bool{}
	for _, p := range w.pods {
		if p.running && !p.ready {
			w.becomeReady(p)
		}
	}
}

// outdateCheckers is a new version of the controller, with a new health checker.
func (w *world) outdateCheckers() {
	for _, s := range w.daemonSets {
		s.outdated = true
	}
	w.version()
}

// split lets a second leader act for a while on what it sees now.
func (w *world) split() {
	if len(w.leaders) == 1 {
		l := newLeader(w)
		l.dryRun[w.set.revision] = DryRun{Done: true}
		l.stale = l.observe()
		w.leaders = append(w.leaders, l)
		w.wake()
	}
}

func (w *world) unite() {
	for _, l := range w.leaders[1:] {
		l.stopped = true
	}
	w.leaders = w.leaders[:1]
}

// heal ends every fault that does not lie in the spec.
func (w *world) heal() {
	w.unite()
	w.leaders[0].crashes = 0
	w.leaders[0].forget()
	w.misbehaves = map[string]bool{}
	w.dry = map[string]string{}
	w.repair()
	w.clearStrayTimestamps()
	w.detacherReturns()
	for _, name := range w.names() {
		n := w.nodes[name]
		n.cordoned, n.rejects, n.capacity = false, false, 0
		w.keepOut(n, false)
		delete(n.holders, others)
		w.annotated(n)
		if !n.alive {
			w.revive(n)
		}
	}
	w.version()
}

// leftovers are the traces of a rollout that should be gone when it rests.
func (w *world) leftovers() []string {
	var out []string
	if w.set.newest != w.set.revision && w.set.deletion == NotDeleted {
		out = append(out, "the present revision is not the newest on record")
	}
	for _, name := range w.set.status.Wave {
		out = append(out, name+" is in the wave")
	}
	for _, name := range w.names() {
		n, d := w.nodes[name], w.deployments[name]
		switch {
		case n.holders[us]:
			out = append(out, name+" is annotated")
		case n.wanted && d == nil:
			out = append(out, name+" has no Deployment")
		case d == nil:
		case d.mark != "":
			out = append(out, name+" is marked")
		}
	}
	return out
}

// goal is the revision that nodes should have: a template that was rejected stays so.
func (w *world) goal() string {
	if r := w.set.status.Rejected; r != nil && r.Revision == w.set.revision {
		return w.set.status.CurrentRevision
	}
	return w.set.revision
}

// unfinished says what is missing from a finished rollout.
func (w *world) unfinished() []string {
	out := w.leftovers()
	updated, wanted := 0, 0
	for _, name := range w.names() {
		n, d := w.nodes[name], w.deployments[name]
		if !n.wanted && d != nil {
			out = append(out, name+" has a Deployment")
		}
		if !n.wanted || d == nil {
			continue
		}
		wanted++
		if d.revision == w.goal() {
			updated++
		}
		if d.podsPerNode != w.set.spec.Pods() || d.foreign > 0 || d.scaled {
			out = append(out, name+" is out of date")
		}
		if d.hold != nil {
			out = append(out, name+" is held back")
		}
		if !w.audit.servesTruly(name) {
			out = append(out, name+" does not serve")
		}
	}
	stay, _ := v1alpha1.Resolve(w.set.spec.Strategy().Partition, wanted)
	if updated < wanted-stay {
		out = append(out, "too few nodes have the new revision")
	}
	for port, s := range w.daemonSets {
		if s.outdated || !slices.Contains(w.ports(), port) {
			out = append(out, "a health checker is out of date")
		}
	}
	return out
}

const patience = 3 * time.Hour
