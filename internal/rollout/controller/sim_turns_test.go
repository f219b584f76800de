package controller

import (
	"slices"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/rollout"
)

// What the controller, and others, permit to be done to the pods of a node.

// turn is what our last writes to a Deployment permit.
type turn struct {
	// detached says whether no traffic reached the node when its pods were given up, or
	// nobody was to wait any longer.
	detached bool
	// updated is when they were.
	updated time.Time
	// degraded says whether pods are replaced while traffic reaches the node, of which
	// keep must always be ready.
	degraded bool
	keep     int32
	// kept is how many must have been until keep was changed.
	kept    int32
	changed time.Time
	// foreign says whether somebody else wrote the spec since, overruled when we wrote it after that.
	foreign   bool
	overruled time.Time
	// stirs says whether its controllers may still be about what somebody else wrote.
	stirs bool
	// held says whether it was held back since: where a taint evicts, what runs is not kept.
	held bool
	// spec is what the last decision was made with, why what it was not detached for, of a
	// Deployment that is being deleted.
	spec      v1alpha1.IngressDaemonSetSpec
	step, why string
}

func (a *audit) turnOf(node string) *turn {
	if a.turns[node] == nil {
		a.turns[node] = &turn{}
	}
	return a.turns[node]
}

// disturbs is somebody else who writes the spec of a Deployment, or takes it.
func (a *audit) disturbs(node string) {
	t := a.turnOf(node)
	t.foreign, t.stirs = true, true
}

// longTaken reports whether it is long ago that somebody took a pod of a node, all of it went that was
// to be seen of that by who writes, and the node is not cordoned since: what is drained stays so.
func (a *audit) longTaken(n *simNode) bool {
	since := n.taken
	if l := a.w.writer; l != nil {
		for _, at := range []time.Time{l.began, l.frozenUntil} {
			if at.After(since) && !n.taken.IsZero() {
				since = at
			}
		}
	}
	goes := slices.ContainsFunc(a.w.pods, func(p *simPod) bool { return p.node == n.name && p.terminating })
	drained := n.api.Spec.Unschedulable && !n.drainedAt.IsZero() && !n.drainedAt.Before(n.cordonedAt.Add(-longestLag))
	return n.taken.IsZero() || !goes && !drained && a.w.now.Sub(since) > 5*time.Minute
}

// mayReplace reports whether a step may have pods replaced that traffic reaches: in the node's own
// turn, and where none serves; or it changes nothing of what they are made from.
func mayReplace(seen *picture, s rollout.Step) bool {
	return slices.Contains(seen.Status.Wave, s.Node) || s.Keep || ready(seen.node(s.Node)) == 0
}

// readyWithin reports whether a pod of a node became ready so short a time ago, or for too short
// a time to be called available.
func (a *audit) readyWithin(node string, d time.Duration) bool {
	return slices.ContainsFunc(a.w.pods, func(p *simPod) bool {
		return p.node == node && p.ready && a.w.now.Sub(p.readySince) < d+p.owner.minReady()
	})
}

// readyOfSet reports whether a pod, or one of its ReplicaSet in whose place it may have been chosen,
// became available a moment ago, or is not so yet.
func (a *audit) readyOfSet(p *simPod) bool {
	return slices.ContainsFunc(a.w.pods, func(o *simPod) bool {
		return o.node == p.node && o.set == p.set && o.ready && a.w.now.Sub(o.readySince) < time.Second+o.owner.minReady()
	})
}

// readyUnseen reports whether a pod of a node became ready since who writes looked, or where nobody
// does, a controller. For how long it must be so does not matter to who marks out of turn.
func (a *audit) readyUnseen(node string) bool {
	return slices.ContainsFunc(a.w.leaders, func(l *leader) bool {
		return (a.w.writer == nil || a.w.writer == l) && slices.ContainsFunc(a.w.pods, func(p *simPod) bool {
			return p.node == node && p.ready && a.w.now.Sub(p.readySince) < time.Second+a.w.now.Sub(l.asOf())
		})
	})
}

// keepAt is how many pods must be ready at a time: what was chosen a moment ago was chosen
// by what the Deployment said before.
func (t *turn) keepAt(now time.Time) int32 {
	if now.Sub(t.changed) < time.Second {
		return min(t.keep, t.kept)
	}
	return t.keep
}

// mustStay is how many pods of a node must be ready while they are replaced in its turn.
func mustStay(spec *v1alpha1.IngressDaemonSetSpec, d *simDeployment) int32 {
	pods, unavailable := min(d.podsPerNode(), spec.Pods()), spec.Strategy().MaxUnavailablePods
	return pods - scaled(&unavailable, pods, false)
}

// overrules is when somebody else's spec was last replaced: of a ReplicaSet that has not been
// asked for fewer pods since, what was chosen by it may still be on its way.
func (a *audit) overrules(t *turn) time.Time {
	if t.foreign {
		return a.w.now
	}
	return t.overruled
}

// resumed reports whether a node has as many ready pods as it should without one, while its Deployment
// goes on with the update of another that somebody deleted.
func (a *audit) resumed(node string) bool {
	d := a.w.deployments[node]
	return d != nil && d.resumes && len(d.active()) > 1 && a.w.readyPods(node)-1 >= d.podsPerNode()
}

// settleTurns ends what somebody else's change excuses where all came of it that could.
func (a *audit) settleTurns() {
	for name, t := range a.turns {
		if d := a.w.deployments[name]; d != nil && (t.stirs || d.resumes) && a.rests(d) {
			t.stirs, d.resumes = false, false
		}
	}
}

// rests reports whether the controllers of a Deployment are done with it, and its pods are complete.
func (a *audit) rests(d *simDeployment) bool {
	settled := !d.syncing && d.api.Status.ObservedGeneration == d.api.Generation && d.total() == d.replicas() && d.replicas() == d.podsPerNode()
	return settled && a.incomplete(d.node) == "" && !slices.ContainsFunc(d.sets, func(s *replicaSet) bool {
		return s.replicating || int(s.size) != len(a.w.podsOf(d, s))
	})
}

// shrunkTogether reports whether the pod's ReplicaSet and another of the node were asked for fewer
// pods so shortly after each other that the first may not have shown: the Deployment controller
// counts pods that are about to be stopped, and no status tells.
func (a *audit) shrunkTogether(p *simPod) bool {
	d := a.w.deployments[p.node]
	return d != nil && slices.ContainsFunc(d.sets, func(s *replicaSet) bool {
		return s != p.set && !s.shrunkAt.IsZero() && p.set.shrunkAt.Sub(s.shrunkAt).Abs() <= slowestReplication
	})
}

// stops judges the end of a pod that served.
func (a *audit) stops(p *simPod, by string) {
	n := a.w.nodes[p.node]
	set := a.w.set()
	switch t := a.turnOf(p.node); {
	case n == nil, by == others:
		if n != nil {
			n.unready = a.w.now
		}
	case !n.alive, n.evicts() && t.held, set == nil && !a.w.orphans, a.deletion() == rollout.DeleteAtOnce, a.w.collected, t.foreign && t.stirs, !p.set.shrunkAt.After(t.overruled) && a.w.now.Sub(t.overruled) < time.Second, t.detached:
	case t.degraded && (a.w.readyPods(p.node)-1 >= t.keepAt(a.w.now) || a.w.now.Sub(n.unready) < time.Second || a.readyOfSet(p)):
		// Who stops it may not have heard yet what became of the others, or of this one.
	case a.resumed(p.node):
	case t.degraded && a.shrunkTogether(p):
	case t.held && a.w.now.Sub(p.readySince) < time.Second:
		// It was among those that were rejected when they were given up.
	default:
		reason, now := a.attached(p.node, &t.spec), a.attached(p.node, a.w.spec())
		if a.w.deployments[p.node] == nil {
			reason, now = t.why, t.why
		}
		if reason != "" && now != "" {
			a.fault("%s stops a ready pod of %s although %s; the last step was %s", by, p.node, reason, t.step)
		}
	}
}
