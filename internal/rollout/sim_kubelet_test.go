package rollout

import (
	"fmt"
	"slices"
	"time"
)

// simPod is a pod and the containers behind it.
type simPod struct {
	name, node         string
	owner              int
	template, revision string
	created, deleted   time.Time
	running, ready     bool
	readySince         time.Time
	terminating        bool
	evicted            bool
	failed             string
}

func (w *world) createPod(d *simDeployment, s *replicaSet) {
	w.count++
	p := &simPod{name: fmt.Sprintf("%s-%s-%d", d.node, s.revision, w.count), node: d.node, owner: d.uid, template: s.template, revision: s.revision, created: w.now}
	w.pods = append(w.pods, p)
	w.admit(p)
}

// admit is how a kubelet takes on a pod: it rejects it where it does not fit,
// and a terminating pod still takes its place (FACTS.md: 105 OutOfcpu in 12 s).
func (w *world) admit(p *simPod) {
	w.after(w.between(50*time.Millisecond, 150*time.Millisecond), func() {
		n := w.nodes[p.node]
		switch {
		case !w.has(p) || n == nil || !n.alive || p.running || p.failed != "" || p.terminating:
			return
		case n.rejects || n.capacity > 0 && w.placesTaken(n) >= n.capacity:
			p.failed = "OutOfcpu"
			w.audit.rejected(p)
			w.tell("kubelet", "%s: rejects a pod of %s", p.node, p.revision)
			w.podsChanged(p.node)
			return
		}
		p.running = true
		w.podsChanged(p.node)
		w.becomeReady(p)
	})
}

func (w *world) placesTaken(n *simNode) (taken int) {
	for _, p := range w.pods {
		if p.node == n.name && p.running {
			taken++
		}
	}
	return taken
}

func (w *world) becomeReady(p *simPod) {
	w.after(w.between(time.Second, 6*time.Second), func() {
		n := w.nodes[p.node]
		if !w.has(p) || n == nil || !n.alive || p.terminating || p.ready || w.bad[p.revision] {
			return
		}
		p.ready, p.readySince = true, w.now
		w.tell("kubelet", "%s: a pod of %s is ready", p.node, p.revision)
		w.podsChanged(p.node)
	})
}

// restart lets the containers of a pod crash once.
func (w *world) restart(p *simPod) {
	if w.has(p) && p.ready && !p.terminating {
		p.ready = false
		w.podsChanged(p.node)
		w.becomeReady(p)
	}
}

// deletePod lets a pod terminate with its grace. Its deletion is refused by nobody.
func (w *world) deletePod(p *simPod) {
	if p.terminating {
		return
	}
	p.terminating, p.deleted = true, w.now
	w.podsChanged(p.node)
	w.finishPod(p)
}

func (w *world) finishPod(p *simPod) {
	grace := w.between(3*time.Second, 10*time.Second)
	if !p.running {
		grace = 0
	}
	w.after(grace, func() {
		if n := w.nodes[p.node]; n == nil || n.alive || !p.running {
			w.removePod(p)
		}
	})
}

func (w *world) removePod(p *simPod) {
	if !w.has(p) {
		return
	}
	w.pods = slices.DeleteFunc(w.pods, func(q *simPod) bool { return q == p })
	if p.running {
		w.tell("kubelet", "%s: the last container of a pod of %s has exited", p.node, p.revision)
	}
	w.podsChanged(p.node)
}

// kubeletStarts lets a kubelet that was away catch up.
func (w *world) kubeletStarts(n *simNode) {
	for _, p := range w.pods {
		switch {
		case p.node != n.name:
		case p.terminating:
			w.finishPod(p)
		case !p.running && p.failed == "":
			w.admit(p)
		case p.running && !p.ready:
			w.becomeReady(p)
		}
	}
}

// evict lets somebody else delete the pods of a node.
func (w *world) evict(name string) {
	delete(w.audit.floor, name)
	for _, p := range slices.Clone(w.pods) {
		if p.node == name && !p.terminating && p.failed == "" {
			p.evicted = true
			w.deletePod(p)
		}
	}
}

func (w *world) has(p *simPod) bool { return slices.Contains(w.pods, p) }

// podsChanged tells all who watch the pods of a node.
func (w *world) podsChanged(name string) {
	w.version()
	w.checkersChanged(name)
	if d := w.deployments[name]; d != nil {
		w.syncSoon(d)
		for _, s := range d.sets {
			if int(s.size) != len(w.podsOf(d, s)) {
				w.replicate(d, s)
			}
		}
	}
}
