package rollout

import (
	"slices"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
)

// remove takes a node out of the load balancer for good, then deletes its Deployment.
func (p *pass) remove(v *view) verdict {
	if !v.Marked() && v.broken() {
		return waits(v1alpha1.NodeRemoving, p.Now, "it is being marked").
			act(p.markOutOfTurn(v, "the node is not in the node set and serves nothing"))
	}
	marked, ours := v.markedAt()
	recovered := p.servesAgain(v)
	w := verdict{}.given(recovered)
	switch {
	case recovered.yes:
		return w.and(p.attach(v, servesAgainReason))
	case !ours:
		// A mark that somebody else set tells neither since when nor for how long.
		w.starts = true
		return w.and(waits(v1alpha1.NodeRemoving, time.Time{}, "it waits to be detached"))
	case p.mustRetreat(v):
		return w.and(p.attach(v, p.forbidden))
	}
	said, out := p.detach(v)
	if w = w.and(waits(v1alpha1.NodeRemoving, marked, "")).and(said); out {
		w.reason = "its Deployment is being deleted"
		w = w.act(Step{Action: Delete, Reason: "the node is detached"})
	}
	return w
}

// drains reports whether somebody takes pods from a node that is leaving: by eviction, or by
// deleting them, which tells no reason. A deleted pod counts only where nothing of ours and no
// change of the Deployment explains it: the node is not in its turn, and the pod was of the present
// template, would be made again, and was deleted after we last changed the Deployment, and whatever
// others had made of it. On a NotReady node pods of an earlier turn may take for ever to end. Where
// too few other nodes would serve, a drain by deletion alone gives up no pod that nobody deleted.
func (p *pass) drains(v *view) bool {
	d := v.Deployment
	rests := d.Hold == nil && !d.Drifted && d.Settled && d.OlderReplicas == 0 && d.Replicas == d.PodsPerNode
	switch {
	case !v.Leaving || v.Evicting:
		return v.Leaving
	case !v.Ready || p.wave[v.Name] || v.Marked() || !rests:
		return false
	}
	guessed := slices.ContainsFunc(v.Pods, func(gone Pod) bool {
		if !gone.Terminating || gone.Failed != "" || gone.Revision != d.Revision || gone.ReplicaSet != v.presentReplicaSet() || p.ending(v, gone).Before(v.seen.Updated) {
			return false
		}
		left := slices.DeleteFunc(slices.Clone(v.Pods), func(o Pod) bool { return o.Terminating || o.Failed != "" })
		again := func(o Pod) bool { return !o.Created.Before(gone.Deleted) }
		return len(left) < int(d.Replicas) || slices.ContainsFunc(left, again)
	})
	return guessed && p.servingBeside(v) >= p.minServing
}

// ending is when the end of a pod of a node that is leaving counts as first seen (see seen).
func (p *pass) ending(v *view, gone Pod) time.Time {
	if v.Seen == nil {
		return gone.Deleted
	}
	return later(v.Seen.Ending[gone.Name], p.Began)
}

// servingBeside is how many other nodes serve and are not being marked by this decision.
func (p *pass) servingBeside(v *view) (n int) {
	for i := range p.views {
		o := &p.views[i]
		if o.Name == v.Name || !o.Wanted || !o.Ready || o.Deployment == nil || o.Marked() || o.acted || o.readyPods() == 0 {
			continue
		}
		if passes, _, _ := o.checksPass(); passes {
			n++
		}
	}
	return n
}

// drain gives way to somebody who drains the node: a Deployment that recreates
// what they evict would fight them. The node is marked without regard to the
// budget, because its pods go in any case, and returns when it is uncordoned.
func (p *pass) drain(v *view) verdict {
	d := v.Deployment
	switch _, ours := v.markedAt(); {
	case !v.drained(), !ours && v.Leaving:
		step := Step{Action: Mark, Mark: d.Mark, Drained: true, Reason: "somebody drains the node", At: p.moment(v.Node)}
		if !ours || v.outOfTurn() {
			step.Mark = p.markValue(v)
		}
		return waits(v1alpha1.NodeDrained, p.Now, "somebody drains the node").act(step)
	case !v.Leaving:
		return p.undrain(v)
	case d.Replicas == 0:
		return waits(v1alpha1.NodeDrained, d.DrainedAt, "its Deployment is scaled to 0 until the node is uncordoned")
	}
	return p.emptyDrained(v)
}

// emptyDrained stops the pods of a drained node once no traffic reaches it.
func (p *pass) emptyDrained(v *view) verdict {
	out, step, reason, until := p.detached(v)
	w := waits(v1alpha1.NodeDrained, v.Deployment.DrainedAt, reason).lookAt(until)
	if !out {
		timedOut := p.over(v.seen.Mark.Add(p.detachTime()))
		w, out = w.given(timedOut), timedOut.yes
	}
	switch {
	case out:
		return w.act(Step{Action: ScaleToZero, Reason: "somebody drains the node"})
	case step != nil:
		return w.act(*step)
	}
	return w
}

// undrain brings a node back that is not drained any more. One that was not
// emptied yet still runs pods, which may only be replaced in its turn: also one that has
// no mark, since somebody took it or wrote that the node is drained.
func (p *pass) undrain(v *view) verdict {
	const reason = "the node is not drained any more"
	d := v.Deployment
	// One of no pods was not stopped.
	stopped := d.Replicas == 0 && d.PodsPerNode > 0
	complete, missing, until := v.complete(p.Now, p.minReady())
	w := verdict{wake: until}
	switch {
	case !stopped && !v.Marked():
		return w.and(p.attach(v, reason))
	case !stopped && complete && v.keptOut():
		return w.and(waits(v1alpha1.NodeDetached, d.DrainedAt, keptOutReason))
	case !stopped && complete:
		return w.and(p.attach(v, reason))
	case !stopped && p.outdated(v):
		return w.and(p.finish(v))
	case !stopped:
		return w.and(waits(v1alpha1.NodeUnavailable, d.DrainedAt, missing))
	}
	held := p.backsOff(v)
	if w = w.given(held); held.yes {
		return w.and(waits(v1alpha1.NodeUnavailable, d.DrainedAt, d.Hold.Reason))
	}
	accepted := p.accepted(v.target)
	if w = w.given(accepted); accepted.yes {
		return w.and(p.update(v, reason))
	}
	return w.and(waits(v1alpha1.NodeUnavailable, d.DrainedAt, "the API server has not accepted its Deployment yet"))
}

const keptOutReason = "somebody wants it out of the load balancer"

// keepOut takes a node out in its turn, as if it was to be updated, and leaves it
// there with its pods as they are. When nobody wants that any more it is finished
// like any marked node: updated where it is outdated, and attached.
func (p *pass) keepOut(v *view) verdict {
	if !v.Marked() {
		w := p.attached(v)
		w.starts = !w.acted
		return w
	}
	recovered := p.servesAgain(v)
	w := verdict{}.given(recovered)
	if recovered.yes {
		return w.and(p.attach(v, servesAgainReason))
	}
	marked, _ := v.markedAt()
	out, step, reason, until := p.detached(v)
	switch w = w.lookAt(until); {
	case out:
		return w.and(waits(v1alpha1.NodeDetached, marked, keptOutReason))
	case step != nil:
		w = w.act(*step)
	}
	return w.and(waits(v1alpha1.NodeDetaching, marked, reason))
}
