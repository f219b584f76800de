package rollout

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
)

// simDaemonSet is the DaemonSet of the health checkers of a port.
type simDaemonSet struct {
	outdated bool
	// rolling counts its replacements under way.
	rolling int
}

// simCheck is the health checker of one port on one node.
type simCheck struct {
	present, up bool
	serving     bool
	mark        string
	since       time.Time
	// settled is whether it is not about to be replaced.
	settled bool
	pending bool
}

func (w *world) ports() []int32 { return w.set.spec.HealthCheckNodePorts }

// applyDaemonSet creates or replaces the health checkers of a port.
func (w *world) applyDaemonSet(port int32) {
	s := w.daemonSets[port]
	switch {
	case s == nil:
		s = &simDaemonSet{}
		w.daemonSets[port] = s
	case !s.outdated:
		// To apply what is there changes nothing.
		return
	}
	s.outdated = false
	s.rolling++
	turn := s.rolling
	for _, name := range w.names() {
		n := w.nodes[name]
		if c := n.checks[port]; c != nil {
			c.settled = false
		}
		w.after(w.between(time.Second, 8*time.Second), func() {
			if s.rolling == turn && w.nodes[name] == n {
				w.startChecker(n, port)
			}
		})
	}
	w.version()
}

// startChecker starts the checker of a node, or hands over to its successor,
// which reports anew since when its answer holds.
func (w *world) startChecker(n *simNode, port int32) {
	c := n.checks[port]
	if w.daemonSets[port] == nil || !n.wanted && (c == nil || !c.present) {
		return
	}
	serving, mark := w.verdict(n)
	n.checks[port] = &simCheck{present: true, up: true, settled: true, serving: serving, mark: mark, since: w.now}
	w.version()
}

// checkersOutdated follows a change of the spec that concerns health checkers.
func (w *world) checkersOutdated() {
	for _, name := range w.names() {
		w.checkersChanged(name)
	}
}

// checkersChanged lets the checkers of a node see what changed.
func (w *world) checkersChanged(name string) {
	n := w.nodes[name]
	if n == nil {
		return
	}
	for _, port := range slices.Sorted(maps.Keys(n.checks)) {
		w.checkSoon(n, port)
	}
	for _, port := range slices.Sorted(maps.Keys(w.daemonSets)) {
		if n.wanted && (n.checks[port] == nil || !n.checks[port].present) {
			w.startChecker(n, port)
		}
	}
}

// checkSoon evaluates a checker a moment after something that it watches changed.
func (w *world) checkSoon(n *simNode, port int32) {
	c := n.checks[port]
	if c.pending {
		return
	}
	c.pending = true
	w.after(w.between(50*time.Millisecond, 500*time.Millisecond), func() {
		c.pending = false
		if n.checks[port] != c {
			return
		}
		if present := n.wanted || w.checkersStay; present != c.present {
			c.present, c.since = present, w.now
			w.version()
		}
		serving, mark := w.verdict(n)
		if c.up && n.alive && (serving != c.serving || mark != c.mark) {
			c.serving, c.mark, c.since = serving, mark, w.now
			w.tell("health check", "%s: port %d %s", n.name, port, verdictInWords(serving, mark))
			w.version()
		}
	})
}

func verdictInWords(serving bool, mark string) string {
	switch {
	case serving:
		return "answers 200"
	case mark != "":
		return "answers 503 and repeats the mark"
	default:
		return "answers 503"
	}
}

// verdict is the health checker's rule: 200 if and only if at least podsPerNode
// pods are ready and no update is scheduled for them.
func (w *world) verdict(n *simNode) (serving bool, mark string) {
	d := w.deployments[n.name]
	if d == nil {
		return false, ""
	}
	marked, _ := v1alpha1.MarkedAt(d.mark)
	emptied := !d.drainedAt.IsZero() && d.replicas == 0
	lets := d.mark == "" || strings.HasSuffix(d.mark, v1alpha1.MarkServing) && d.updatedAt.Before(marked) && !emptied
	return lets && !d.deleting && d.podsPerNode > 0 && w.readyPods(n.name) >= d.podsPerNode, d.mark
}

// readyPods are the pods that take new connections.
func (w *world) readyPods(name string) (ready int32) {
	for _, p := range w.pods {
		if p.node == name && p.ready && !p.terminating {
			ready++
		}
	}
	return ready
}

// stopChecker takes a checker down for a while.
func (w *world) stopChecker(n *simNode, port int32, d time.Duration) {
	c := n.checks[port]
	if c == nil || !c.up {
		return
	}
	c.up, c.settled = false, false
	w.version()
	w.after(d, func() {
		if n.checks[port] == c {
			w.startChecker(n, port)
			c.up, c.settled = true, true
			w.checkSoon(n, port)
		}
	})
}

// simDetacher takes nodes out of the load balancer as node-detacher does: it
// detaches a Node that carries the annotation or is cordoned, and writes when;
// without that it attaches the Node again and removes the timestamp. One that it
// never wrote itself stays until it detaches. One that tells says on the Node, too,
// when all of it is attached.
type simDetacher struct {
	answers, tells bool
	// slowest is the longest that it takes.
	slowest time.Duration
}

// annotated follows a change of a Node's annotations.
func (w *world) annotated(n *simNode) {
	n.rv = w.version()
	w.after(w.between(200*time.Millisecond, max(w.detacher.slowest, 300*time.Millisecond)), func() {
		if w.nodes[n.name] == n && w.detacher.answers {
			w.detach(n)
		}
	})
}

func (w *world) detach(n *simNode) {
	held := n.held() || n.cordoned
	switch {
	case held && !n.detached:
		n.detached, n.moving, n.timestamp = true, w.detacher.tells, w.now.Format(time.RFC3339)
		w.tell("detacher", "%s is out of the load balancer, and says so with a timestamp", n.name)
	case !held && n.detached:
		n.detached, n.timestamp = false, ""
		w.tell("detacher", "%s is in the load balancer again, its timestamp is cleared", n.name)
		w.putBack(n)
	case !held && n.moving:
		w.putBack(n)
		return
	default:
		return
	}
	n.rv = w.version()
}

// putBack ends when the last load balancer finds the node healthy.
func (w *world) putBack(n *simNode) {
	w.after(w.between(time.Second, 40*time.Second), func() {
		if w.nodes[n.name] == n && w.detacher.answers && n.moving && !n.detached {
			n.moving, n.rv = false, w.version()
			w.tell("detacher", "%s is healthy in all its load balancers", n.name)
		}
	})
}

func (n *simNode) held() bool { return n.holders[us] || n.holders[others] }

// detacherReturns lets a detacher that was away catch up.
func (w *world) detacherReturns() {
	w.detacher.answers = true
	for _, name := range w.names() {
		w.annotated(w.nodes[name])
	}
}

// hold lets somebody else ask for a detachment, or let go.
func (w *world) hold(n *simNode, on bool) {
	if on {
		n.holders[others] = true
	} else {
		delete(n.holders, others)
	}
	w.askedByOthers(n)
}

// askedByOthers follows a request of somebody else. A timestamp that was left
// from an earlier detachment goes at once then: nobody could tell it from the
// answer to that request.
func (w *world) askedByOthers(n *simNode) {
	if !n.detached {
		n.timestamp = ""
	}
	w.annotated(n)
}

// clearStrayTimestamps is an operator who removes what no detacher will.
func (w *world) clearStrayTimestamps() {
	for _, name := range w.names() {
		if n := w.nodes[name]; !n.detached && n.timestamp != "" {
			n.timestamp, n.rv = "", w.version()
		}
	}
}
