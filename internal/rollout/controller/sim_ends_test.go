package controller

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/nodehealth/healthclient"
	"github.com/mumoshu/ingress-daemonset-controller/internal/rollout"
)

// What must come to an end, and what must not be begun again and again.

// checkRepeats: nothing is written to a node without end.
func (a *audit) checkRepeats(seen *picture, s rollout.Step) {
	if s.Node == "" {
		return
	}
	switch what := s.String(); {
	case a.last[s.Node] != what:
		a.last[s.Node], a.repeats[s.Node] = what, 0
	case a.lastBy[s.Node] == a.w.writer:
		a.repeats[s.Node]++
	}
	// One that dies before it has stored why begins anew.
	a.lastBy[s.Node] = a.w.writer
	if a.repeats[s.Node] > 50 && s.Action != rollout.DeletePods {
		a.fault("%s is written again and again", s)
	}
	if s.Action == rollout.Unmark && strings.HasPrefix(s.Reason, "its detachment timed out") {
		a.timedOut[s.Node] = seen.Generation
	}
	if s.Action == rollout.Mark && !s.Drained {
		// A mark that is changed into one of another kind begins nothing.
		if !outOfTurn(string(s.Mark)) && !seen.node(s.Node).Marked() && seen.node(s.Node).Wanted && !seen.node(s.Node).Deployment.Detached && seen.Deletion == rollout.NotDeleted && a.timedOut[s.Node] == seen.Generation {
			a.fault("%s: the detachment timed out with the same spec", s)
		}
		key := fmt.Sprint(s.Node, seen.Generation, s.Reason)
		// One that thaws beside another may know less for a moment, and undo what that does.
		if len(a.w.leaders) == 1 {
			a.marks[key]++
		}
		if a.marks[key] > 3 && strings.HasPrefix(s.Reason, "it has revision") {
			a.fault("%s: the node was marked %d times with one spec", s, a.marks[key])
		}
	}
}

// lasts reports whether something is so for longer than it may be.
func (a *audit) lasts(what string, so bool, longest time.Duration) bool {
	if !so {
		delete(a.since, what)
		return false
	}
	if _, ok := a.since[what]; !ok {
		a.since[what] = a.w.now
	}
	return a.w.now.Sub(a.since[what]) > longest
}

// checkEnds: what waits for a node that may never be back holds up nothing else, and what
// waits for a detacher holds up nothing for ever.
func (a *audit) checkEnds() {
	set := a.w.set()
	if set == nil || set.DeletionTimestamp != nil {
		return
	}
	const attaching = "attaching "
	maps.DeleteFunc(a.since, func(what string, _ time.Time) bool {
		// A node that serves is not listed.
		name, ok := strings.CutPrefix(what, attaching)
		return ok && !slices.ContainsFunc(set.Status.Nodes, func(n v1alpha1.NodeStatus) bool { return n.Name == name })
	})
	for _, n := range set.Status.Nodes {
		stuck := a.w.crashes == 0 && n.State == v1alpha1.NodeAttaching && strings.Contains(n.Reason, "timestamp")
		if a.lasts(attaching+n.Name, stuck, set.Spec.Strategy().DetachTimeout+5*time.Minute) {
			a.fault("%s is attaching for %s: %s", n.Name, a.w.now.Sub(a.since[attaching+n.Name]), n.Reason)
		}
	}
	// A controller counts anew for how long a node serves, and not all live long enough for that.
	long := time.Duration(set.Spec.MinReadySeconds)*time.Second + 2*aMoment
	ripe := slices.ContainsFunc(a.w.leaders, func(l *leader) bool { return a.w.now.Sub(l.began) > long })
	if a.lasts("promotion", a.everyReadyNodeServes(set) && set.Status.CurrentRevision != a.w.revision(), 5*time.Minute) && ripe {
		a.fault("every Ready node serves with %s, and currentRevision is %s", a.w.revision(), set.Status.CurrentRevision)
	}
	if r := set.Status.Rejected; r != nil && r.Revision == set.Status.CurrentRevision {
		a.fault("%s was rejected and is current", r.Revision)
	}
	for port := range a.w.daemonSets {
		what := fmt.Sprint("checkers ", port)
		if a.lasts(what, a.w.outdated(port) && a.onlyKeptOut(), 5*time.Minute) {
			a.fault("the health checkers of port %d wait for nodes that are kept out or dead", port)
		}
	}
}

// everyReadyNodeServes reports whether all wanted nodes that are Ready and that nobody keeps out, at
// least one, serve with the present template, and one is not Ready.
func (a *audit) everyReadyNodeServes(set *v1alpha1.IngressDaemonSet) bool {
	served, dead := 0, 0
	for _, name := range a.w.order() {
		n, d := a.w.nodes[name], a.w.deployments[name]
		switch {
		case !n.wanted():
		case !n.ready():
			dead++
		case d != nil && d.keptOut():
		case d == nil || d.revision() != a.w.revision() || a.turnOf(name).foreign || !a.servesTruly(name) || a.waitsForDetacher(n, set) || n.hardlyAnswers():
			return false
		default:
			served++
		}
	}
	return served > 0 && dead > 0 && len(set.Spec.Strategy().Analysis) == 0 && set.Status.Rejected == nil
}

// hardlyAnswers reports whether a port of the node takes longer to answer than is waited for.
func (n *simNode) hardlyAnswers() bool {
	for _, c := range n.checks {
		if c.hangs || c.slow >= healthclient.AnswerTime {
			return true
		}
	}
	return false
}

// waitsForDetacher reports whether a detacher has not said that it put the node back, or is still asked
// to take it out.
func (a *audit) waitsForDetacher(n *simNode, set *v1alpha1.IngressDaemonSet) bool {
	at := set.Spec.Strategy().AnnotateNode
	if at == nil {
		return false
	}
	_, asked := n.api.Annotations[at.Key]
	return asked || at.TimestampKey != "" && n.api.Annotations[at.TimestampKey] != ""
}

// onlyKeptOut reports whether all nodes that are marked or degraded are kept out or dead, at
// least one. One that leaves the set is in its turn while it is marked, as one of the set is,
// also where the API server refuses what would end that.
func (a *audit) onlyKeptOut() bool {
	apart := 0
	for _, name := range a.w.order() {
		n, d := a.w.nodes[name], a.w.deployments[name]
		switch {
		case d == nil:
		case !n.wanted():
			if d.marked() && !d.keptOut() && n.ready() {
				return false
			}
		case d.keptOut() && d.marked(), !n.ready() && !n.alive:
			apart++
		case !a.servesTruly(name):
			return false
		}
	}
	return apart > 0
}

// deadUnnoticed reports whether a machine is dead whose Node is still called Ready: until then a
// measurement on it counts (docs/guides/analysis.md).
func (a *audit) deadUnnoticed() bool {
	for _, n := range a.w.nodes {
		if !n.alive && n.ready() {
			return true
		}
	}
	return false
}

// viewsLag reports whether a controller sees what was so a while ago.
func (w *world) viewsLag() bool {
	return slices.ContainsFunc(w.leaders, func(l *leader) bool { return w.now.Sub(l.asOf()) > aMoment })
}

// watchLags reports whether a controller will see late what happens now.
func (w *world) watchLags() bool {
	for _, l := range w.leaders {
		for _, v := range l.views {
			if v.lag > usualLag || v.last.Sub(w.now) > usualLag {
				return true
			}
		}
	}
	return false
}

// podsLate reports whether, on a node that a rejection names, the container of a pod ended a moment
// ago for no fault of its template, or a pod came too late to be available by the deadline, which
// looks the same; or a new leader, or one that thawed, cannot know yet that it is, since it counts
// minReadySeconds from its own beginning.
func (a *audit) podsLate(why string) bool {
	for name, n := range a.w.nodes {
		if !slices.Contains(strings.FieldsFunc(why, func(r rune) bool { return strings.ContainsRune(" ,:;", r) }), name) {
			continue
		}
		if !n.unready.IsZero() && a.w.now.Sub(n.unready) < 10*time.Second || a.readyWithin(name, aMoment) || a.startsOn(name) || a.countsAnew() {
			return true
		}
	}
	return false
}

// countsAnew reports whether who writes has not looked for long enough to call any pod available, and the
// deadline does not let it.
func (a *audit) countsAnew() bool {
	l, minReady := a.w.writer, time.Duration(a.w.spec().MinReadySeconds)*time.Second
	return l != nil && minReady > 0 && a.w.spec().ProgressDeadline() < minReady+aMoment && min(a.w.now.Sub(l.began), a.w.now.Sub(l.frozenUntil)) < minReady+aMoment
}

// startsOn reports whether a pod of a node was made too short a time ago to be ready.
func (a *audit) startsOn(node string) bool {
	return slices.ContainsFunc(a.w.pods, func(p *simPod) bool {
		return p.node == node && !p.ready && a.w.now.Sub(p.created) < slowestStart+aMoment
	})
}

// checkTemplates: a template is rejected for its pods and its analysis alone, and becomes
// current where a node serves with it.
func (a *audit) checkTemplates(before, after *v1alpha1.IngressDaemonSetStatus) {
	if r := after.Rejected; r != nil && before.Rejected == nil && !a.w.tight && !a.w.everBad[a.w.words[r.Revision]] && !a.deadUnnoticed() && !a.podsLate(r.Message) && !a.w.viewsLag() {
		a.fault("revision %s is rejected, which was good: %s", r.Revision, r.Message)
	}
	if after.CurrentRevision == before.CurrentRevision || a.deletion() != rollout.NotDeleted || a.w.now.Sub(a.w.movedAt) < aMoment || a.w.viewsLag() {
		return
	}
	for _, name := range a.w.order() {
		if n := a.w.nodes[name]; n.wanted() && n.ready() {
			return
		}
	}
	a.fault("revision %s becomes current although no node is wanted and Ready", after.CurrentRevision)
}

// machineGoes: a node that somebody drained a minute ago, and whose machine is about to end,
// serves no more unmarked. What a controller that was not there cannot know, and what is wrong
// with the node otherwise, is judged elsewhere.
func (a *audit) machineGoes(n *simNode, drained time.Time) {
	d := a.w.deployments[n.name]
	there := func(l *leader) bool { return l.began.Before(drained) && l.frozenUntil.Before(drained) }
	// What was refused until a moment ago is tried again after a while.
	refused := d != nil && a.w.refused[imageOf(d.api.Spec.Template)] || !a.w.healed.IsZero() && a.w.now.Sub(a.w.healed) < longestBackoff+aMoment
	wrong := n.rejects || n.capacity > 0 || n.tainted() || !n.ready() || !n.wanted() || refused
	if d == nil || d.marked() || wrong || a.w.readyPods(n.name) == 0 || a.w.controllerAway() || !slices.ContainsFunc(a.w.leaders, there) || a.deletion() != rollout.NotDeleted {
		return
	}
	a.fault("%s was drained a minute ago, and serves", n.name)
}
