package rollout

import (
	"slices"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
)

// remove takes a node out of the load balancer for good, then deletes its Deployment.
func (p *planner) remove(v *view) {
	switch marked, ours := v.markedAt(); {
	case !v.Marked() && v.broken():
		p.wait(v, v1alpha1.NodeRemoving, p.Now, "it is being marked")
		p.markOutOfTurn(v, "the node is not in the node set and serves nothing")
	case p.servesAgain(v):
		p.attach(v, servesAgainReason)
	case !ours:
		// A mark that somebody else set tells neither since when nor for how long.
		v.starts = true
		p.wait(v, v1alpha1.NodeRemoving, time.Time{}, "it waits to be detached")
	case p.mustRetreat(v):
		p.attach(v, p.forbidden)
	default:
		p.wait(v, v1alpha1.NodeRemoving, marked, "")
		if p.detach(v) {
			p.wait(v, v1alpha1.NodeRemoving, marked, "its Deployment is being deleted")
			p.act(v, Step{Action: Delete, Reason: "the node is detached"})
		}
	}
}

// drains is whether somebody takes pods from a node that is leaving: by eviction, or by
// deleting them, which tells no reason. Of pods that were deleted only those count that
// neither our doing nor anybody's change of the Deployment explains: the node is not in
// its turn, and a pod of the present template was deleted that is made again. On a NotReady node
// those of an earlier turn may end for ever. Where too few others would serve, that alone has no pod
// given up that nobody deleted.
func (p *planner) drains(v *view) bool {
	d := v.Deployment
	rests := d.Hold == nil && !d.Drifted && d.Settled && d.OlderReplicas == 0 && d.Replicas == d.PodsPerNode
	switch {
	case !v.Leaving || v.Evicting:
		return v.Leaving
	case !v.Ready || p.wave[v.Name] || v.Marked() || !rests:
		return false
	}
	guessed := slices.ContainsFunc(v.Pods, func(gone Pod) bool {
		if !gone.Terminating || gone.Failed != "" || gone.Revision != d.Revision || gone.ReplicaSet != v.presentReplicaSet() {
			return false
		}
		left := slices.DeleteFunc(slices.Clone(v.Pods), func(o Pod) bool { return o.Terminating || o.Failed != "" })
		again := func(o Pod) bool { return !o.Created.Before(gone.Deleted) }
		return len(left) < int(d.Replicas) || slices.ContainsFunc(left, again)
	})
	return guessed && p.servingBeside(v) >= p.minServing
}

// servingBeside is how many other nodes serve and are not being marked by this decision.
func (p *planner) servingBeside(v *view) (n int) {
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
func (p *planner) drain(v *view) {
	d := v.Deployment
	switch _, ours := v.markedAt(); {
	case !v.drained(), !ours && v.Leaving:
		step := Step{Action: Mark, Mark: d.Mark, Drained: true, Reason: "somebody drains the node", At: p.moment(v.Node)}
		if !ours || v.outOfTurn() {
			step.Mark = p.markValue(v)
		}
		p.wait(v, v1alpha1.NodeDrained, p.Now, "somebody drains the node")
		p.act(v, step)
	case !v.Leaving:
		p.undrain(v)
	case d.Replicas == 0:
		p.wait(v, v1alpha1.NodeDrained, d.DrainedAt, "its Deployment is scaled to 0 until the node is uncordoned")
	default:
		p.emptyDrained(v)
	}
}

// emptyDrained stops the pods of a drained node once no traffic reaches it.
func (p *planner) emptyDrained(v *view) {
	p.wait(v, v1alpha1.NodeDrained, v.Deployment.DrainedAt, "")
	out, step, reason, until := p.detached(v)
	v.reason = reason
	p.wake(until)
	switch {
	case out || p.over(v.seen.Mark.Add(p.detachTime())):
		p.act(v, Step{Action: ScaleToZero, Reason: "somebody drains the node"})
	case step != nil:
		p.act(v, *step)
	}
}

// undrain brings a node back that is not drained any more. One that was not
// emptied yet still runs pods, which may only be replaced in its turn: also one that has
// no mark, since somebody took it or wrote that the node is drained.
func (p *planner) undrain(v *view) {
	const reason = "the node is not drained any more"
	// One of no pods was not stopped.
	stopped := v.Deployment.Replicas == 0 && v.Deployment.PodsPerNode > 0
	complete, missing, until := v.complete(p.Now, p.minReady())
	p.wake(until)
	switch {
	case !stopped && !v.Marked():
		p.attach(v, reason)
	case !stopped && complete && v.keptOut():
		p.wait(v, v1alpha1.NodeDetached, v.Deployment.DrainedAt, keptOutReason)
	case !stopped && complete:
		p.attach(v, reason)
	case !stopped && p.outdated(v):
		p.finish(v)
	case !stopped:
		p.wait(v, v1alpha1.NodeUnavailable, v.Deployment.DrainedAt, missing)
	case p.heldBack(v):
		p.wait(v, v1alpha1.NodeUnavailable, v.Deployment.DrainedAt, v.Deployment.Hold.Reason)
	case p.accepted(v.target):
		p.update(v, reason)
	default:
		p.wait(v, v1alpha1.NodeUnavailable, v.Deployment.DrainedAt, "the API server has not accepted its Deployment yet")
	}
}

const keptOutReason = "somebody wants it out of the load balancer"

// keptOut is whether somebody wants the node out of the load balancer.
func (v *view) keptOut() bool { return v.Deployment != nil && v.Deployment.Detached }

// keepOut takes a node out in its turn, as if it was to be updated, and leaves it
// there with its pods as they are. When nobody wants that any more it is finished
// like any marked node: updated where it is outdated, and attached.
func (p *planner) keepOut(v *view) {
	if !v.Marked() {
		p.attached(v)
		v.starts = !v.acted
		return
	}
	if p.servesAgain(v) {
		p.attach(v, servesAgainReason)
		return
	}
	marked, _ := v.markedAt()
	out, step, reason, until := p.detached(v)
	p.wake(until)
	if out {
		p.wait(v, v1alpha1.NodeDetached, marked, keptOutReason)
		return
	}
	p.wait(v, v1alpha1.NodeDetaching, marked, reason)
	if step != nil {
		p.act(v, *step)
	}
}

// letGo takes leave of an IngressDaemonSet that is being deleted.
func (p *planner) letGo() {
	p.desired = 0
	for i := range p.views {
		v := &p.views[i]
		v.Wanted = false
		switch {
		case p.Deletion == DeleteInWaves:
			p.letGoOf(v)
		case p.Deletion == DeleteOrphaning && (p.leavesNoStorm(v) || p.finishesTurn(v)):
			p.waits = true
			continue
		case p.Deletion == DeleteOrphaning && v.Marked():
			p.act(v, Step{Action: Unmark, Reason: "the IngressDaemonSet is deleted and leaves its Deployments", At: p.moment(v.Node)})
		}
		if p.Deletion != DeleteInWaves && v.Exists && v.Detachment.Requested {
			p.act(v, Step{Action: ReleaseDetachment, Reason: "the IngressDaemonSet is deleted"})
		}
	}
	if p.Deletion == DeleteInWaves {
		p.continueWave()
	}
	p.writeStatus()
	if len(p.out.Steps) == 0 && !p.anythingLeft() {
		p.finishDeletion()
	}
}

// leavesNoStorm holds back a Deployment whose pods are rejected: it would make new ones for
// ever, and nobody is left who stops that. It is whether that is done now.
func (p *planner) leavesNoStorm(v *view) bool {
	return v.Exists && v.Deployment != nil && !v.Deployment.Deleting && p.stopsStorm(v)
}

// finishesTurn is whether the pods of a node are still replaced in its turn: unmarked
// meanwhile, it would get traffic back and lose the pods that take it. It has as long as
// any update may take, also where its Node is NotReady: traffic may reach one that is cut
// off. Whether it was updated since its mark is not asked: somebody may have changed what
// tells that.
func (p *planner) finishesTurn(v *view) bool {
	if !v.Exists || !v.Marked() {
		return false
	}
	if d := v.Deployment; d.Replicas == 0 && d.PodsPerNode > 0 {
		// It is being emptied, for somebody who drains the node.
		return v.readyPods() > 0 && !p.over(v.seen.Mark.Add(p.detachTime()+p.Spec.ProgressDeadline()))
	}
	done, _, until := v.complete(p.Now, p.minReady())
	p.wake(until)
	return !done && !p.over(v.seen.Updated.Add(p.Spec.ProgressDeadline()))
}

func (p *planner) letGoOf(v *view) {
	switch {
	case !v.Exists:
		p.forget(v)
	case v.Deployment == nil:
		p.leave(v)
	case v.Deployment.Deleting:
		p.wait(v, v1alpha1.NodeRemoving, p.Now, "its Deployment is being deleted")
	case p.stopsStorm(v):
	default:
		p.remove(v)
	}
}

// anythingLeft is whether a node still has to be waited for. A Node that is gone
// is not: nobody would ever remove its pods.
func (p *planner) anythingLeft() bool {
	if p.Deletion != DeleteInWaves {
		return p.waits
	}
	for i := range p.views {
		v := &p.views[i]
		if v.Exists && (v.Deployment != nil || len(v.Pods) > 0 && v.Ready || v.Detachment.Requested) {
			return true
		}
	}
	return false
}

// finishDeletion deletes the health checkers last, so that the ports answer
// until no pod is left.
func (p *planner) finishDeletion() {
	if p.Deletion == DeleteInWaves {
		for _, c := range p.Checkers {
			if c.Exists {
				p.do(Step{Action: DeleteChecker, Port: c.Port, Reason: "no node is left"})
			}
		}
	}
	if len(p.out.Steps) == 0 {
		p.do(Step{Action: RemoveFinalizer, Reason: "every node is released"})
	}
}
