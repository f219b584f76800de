package rollout

// finalize does what is left to do for an IngressDaemonSet that is being deleted.
func (p *planner) finalize() {
	p.desired = 0
	for i := range p.views {
		v := &p.views[i]
		v.Wanted = false
		w, keeps := p.lastTurn(v)
		p.settle(v, w)
		p.waits = p.waits || keeps
	}
	if p.Deletion == DeleteInWaves {
		p.continueWave()
	}
	p.writeStatus()
	if len(p.out.Steps) == 0 && !p.anythingLeft() {
		p.finishDeletion()
	}
}

// lastTurn is the last turn of a node, and whether the deletion waits for it.
func (p *pass) lastTurn(v *view) (w verdict, keeps bool) {
	switch p.Deletion {
	case DeleteInWaves:
		return p.follow(v), false
	case DeleteOrphaning:
		w, keeps = p.orphan(v)
	}
	if !keeps && v.Exists && v.Detachment.Requested {
		w = w.act(Step{Action: ReleaseDetachment, Reason: "the IngressDaemonSet is deleted"})
	}
	return w, keeps
}

// orphan leaves a node its Deployment. One whose pods are rejected is held back first: it would
// make new ones for ever, and nobody is left who stops that.
func (p *pass) orphan(v *view) (w verdict, keeps bool) {
	if d := v.Deployment; v.Exists && d != nil && !d.Deleting && p.rejectsPods(v) {
		if w = p.stopRejections(v); !w.goesOn {
			return w, true
		}
	}
	finishes := p.finishesTurn(v)
	if w = w.given(finishes); !finishes.yes && v.Marked() {
		w = w.act(Step{Action: Unmark, Reason: "the IngressDaemonSet is deleted and leaves its Deployments", At: p.moment(v.Node)})
	}
	return w, finishes.yes
}

// finishesTurn reports whether the pods of a node are still replaced in its turn: unmarked
// meanwhile, it would get traffic back and lose the pods that take it. It has as long as
// any update may take, also where its Node is NotReady: traffic may reach one that is cut
// off. Whether it was updated since its mark is not asked: somebody may have changed what
// tells that.
func (p *pass) finishesTurn(v *view) answer {
	if !v.Exists || !v.Marked() {
		return answer{}
	}
	if d := v.Deployment; d.Replicas == 0 && d.PodsPerNode > 0 {
		// It is being emptied, for somebody who drains the node.
		if v.readyPods() == 0 {
			return answer{}
		}
		return p.over(v.seen.Mark.Add(p.detachTime() + p.Spec.ProgressDeadline())).not()
	}
	done, _, until := v.complete(p.Now, p.minReady())
	if done {
		return answer{}
	}
	finishes := p.over(v.seen.Updated.Add(p.Spec.ProgressDeadline())).not()
	finishes.until = sooner(finishes.until, until)
	return finishes
}

// anythingLeft reports whether a node still has to be waited for. A Node that is gone
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
