package rollout

import (
	"slices"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A pod with spec.nodeName that the kubelet rejects, or that a taint evicts, is replaced
// by its ReplicaSet at once, ten times a second. So at the first rejection no more pods
// are asked for than run, and all are tried again later: when older pods have
// gone, whose ports and CPU the new ones may have waited for, or else after a
// time that doubles from a second to a quarter of an hour.
//
// Where fewer older pods run than are wanted, because the Deployment controller
// stopped some before it started those that were rejected, the new ones are tried
// in as many places first, one more at a time: there is room for that now.
//
// Invariant: a pod that serves is never given up for one that was rejected, and
// whatever is written to a Deployment, its Hold stays until its pods are accepted
// or another revision is wanted.

const (
	firstRetry = time.Second
	lastRetry  = 15 * time.Minute
	// mostEager is how often the end of older pods is taken for a reason to try
	// again: where it does not help, trying would go on for ever.
	mostEager = 3
	// patienceWithTry is how long the Deployment controller gets to start a pod of
	// what is tried.
	patienceWithTry = 10 * time.Second
)

// rejectsPods reports whether the node has pods that are rejected, by its kubelet or by a taint.
func (p *pass) rejectsPods(v *view) bool { return v.anyFailed() || v.taintEvicted() }

// stopRejections asks for no more pods that are rejected, and then cleans those up: there may
// be thousands, and more while it lasts. It goes on where the node is held back already.
func (p *pass) stopRejections(v *view) (w verdict) {
	step := p.holdBack(v)
	anew := answer{yes: true}
	if v.Deployment.heldBack() {
		anew = p.stillRejects(v, step)
	}
	w = w.given(anew)
	if w.goesOn = !anew.yes || v.Deployment.untried() && !v.taintEvicted(); !w.goesOn {
		state := v1alpha1.NodeUnavailable
		if v.readyPods() > 0 {
			state = v1alpha1.NodeDegraded
		}
		w = w.and(waits(state, p.Now, step.Hold.Reason)).lookAt(p.Now.Add(firstRetry)).act(step)
	}
	if failed := v.failedPods(); len(failed) > 0 {
		w.steps = append(w.steps, Step{Action: DeletePods, Pods: failed, Reason: v.rejection()})
	}
	return w
}

// holdBack asks for no more pods than run, and writes no template but that of the
// ReplicaSet whose pods run: what else there is to write waits for the node's turn.
// Where most of those that run are older, and others may be given up for them, it goes
// back to their template: in the turn in which the node is updated, and out of it where none
// of those others serves. Where a third template is there of which none run, the Deployment
// controller takes those pods away first, and none of those that are ready: nothing is
// scaled before, as no more are asked for. Otherwise it stops halfway, so that
// the Deployment controller neither starts more pods nor stops those that run, and takes
// those that are too much from the rejected ReplicaSet as far as none that run would go
// with them.
func (p *pass) holdBack(v *view) Step {
	d := v.Deployment
	present, older, all, oldest := v.running()
	step := Step{Action: HoldBack, Revision: d.Revision, Keep: true, Replicas: all, Reason: v.rejection()}
	atOnce := Rolling{Unavailable: max(1, d.PodsPerNode)}
	// A mark alone keeps no traffic away yet, and may be somebody else's.
	inTurn := !v.Tainted && (v.updatedInTurn() || p.rollsInTurn(v))
	gives := inTurn || !v.Tainted && older+present == all && !v.presentServes()
	switch {
	case older == all && older > 0 && older == v.readyPods() && v.anyTerminating() && !v.Marked():
		step.goBack(oldest, older)
		step.Rolling = Rolling{Surge: max(1, d.surgeOf(older))}
	case older == all && older > 0:
		if step.goBack(oldest, max(d.PodsPerNode, older)); v.Tainted {
			step.Replicas = older
		}
		// The Deployment controller cleans nothing up before as many are available as may not be missing.
		step.Rolling = Rolling{Unavailable: max(atOnce.Unavailable, step.Replicas)}
		if step.Replicas != d.Replicas {
			step.Rolling.Surge = d.surgeOf(step.Replicas)
		}
	case gives && older > present, inTurn && older > 0 && v.strays():
		if older > present {
			// Somebody may have taken the annotation that says how many there should be.
			step.goBack(oldest, min(max(d.PodsPerNode, older), max(d.Replicas, all)))
		}
		step.Rolling = Rolling{Surge: d.surgeOf(step.Replicas), Unavailable: max(0, step.Replicas-v.readyPods())}
	case older > 0:
		step.Paused, step.Rolling = true, atOnce
		switch {
		case !v.Tainted:
			step.Rolling.Surge = d.surgeBeside(present, v.othersRunning())
		case older+present < all:
			// Which of three templates would lose pods cannot be chosen. What a taint evicts is then
			// made again, until all are gone, or the node is out of the load balancer.
			step.Rolling.Surge = d.surgeOf(all)
		}
	}
	if step.Replicas > 0 && step.Rolling == (Rolling{}) {
		switch {
		case v.readyPods() == 0:
			// Otherwise pods of other templates, also rejected ones, would stay until
			// those of this one are available.
			step.Rolling = atOnce
		case older == 0 && v.strays() && !v.othersServe():
			// For that these may have to be ready for long. None of them is given up.
			step.Rolling = Rolling{Surge: d.surgeOf(step.Replicas), Unavailable: atOnce.Unavailable}
		}
	}
	step.Hold = p.holdOn(v, step)
	return step
}

// goBack asks for pods of another ReplicaSet than the present one.
func (s *Step) goBack(to Pod, replicas int32) {
	s.Keep, s.ReplicaSet, s.Revision, s.Replicas = false, to.ReplicaSet, to.Revision, replicas
}

// rollsInTurn reports whether it is the turn of a node whose pods are replaced while it serves. One that
// leaves, or that somebody wants out, is marked in its turn instead.
func (p *pass) rollsInTurn(v *view) bool {
	return p.wave[v.Name] && !p.strategy.Detaching && v.Wanted && !v.keptOut()
}

// holdOn is what to remember of an attempt that failed.
func (p *pass) holdOn(v *view, step Step) *v1alpha1.Hold {
	d := v.Deployment
	h := &v1alpha1.Hold{Attempts: 1, Revision: d.Revision, Generation: p.Generation, Reason: step.Reason, At: metav1.NewMicroTime(p.Now), Replicas: step.Replicas, Paused: step.Paused, Terminating: v.anyTerminating(), ReplicaSet: step.ReplicaSet}
	switch last := d.Hold; {
	case last == nil:
	case !last.Trying:
		// Not even the pods that it went back to are accepted.
		h.Revision, h.Generation, h.Attempts = last.Revision, last.Generation, last.Attempts
		if step.Keep {
			h.ReplicaSet = last.ReplicaSet
		}
	case last.Revision == d.Revision && last.Generation == p.Generation:
		h.Attempts = last.Attempts + 1
	}
	return h
}

// wasTried reports whether the pods of a node were rejected before, or may be overlooked.
func (p *pass) wasTried(v *view) bool {
	return v.Deployment.Hold != nil || v.Marked() && v.updatedInTurn()
}

// tryAgain asks for the pods that were rejected once more, where that replaces
// no pod that serves; otherwise it goes on: the node waits for its turn like any other, or
// goes on with it once it is detached.
func (p *pass) tryAgain(v *view) verdict {
	if p.updatesPartly(v) && v.settled() {
		return p.addPods(v, "the pods that there was room for are replaced")
	}
	d, stuck := v.Deployment, p.overlooked(v)
	w := verdict{goesOn: true}.given(stuck)
	switch {
	case stuck.yes && v.Marked():
		return p.nudge(v)
	case stuck.yes:
		return p.addPods(v, overlookedReason)
	case !d.heldBack() || d.Hold.Revision != v.target:
		return w
	}
	held := p.backsOff(v)
	switch w = w.given(held); {
	case held.yes:
		return w
	case p.resumes(v):
		return w.and(p.update(v, d.afterAttempt()))
	case p.lacksPods(v):
		return w.and(p.addPods(v, d.afterAttempt()))
	}
	return w
}

// addPods asks for as many pods as there should be, of the template that is there:
// another one would replace those that serve.
func (p *pass) addPods(v *view, reason string) verdict {
	step := p.updating(v, reason)
	step.Keep = true
	return p.carryOut(step)
}

const overlookedReason = "the Deployment controller takes itself to be done"

// nudge asks for a pod more on a node that is out of the load balancer, until the Deployment
// controller has seen that. It is part of the update, which has no more time for it. When it
// was is kept in its Hold.
func (p *pass) nudge(v *view) verdict {
	step := p.updating(v, overlookedReason)
	step.Keep = true
	step.Replicas++
	step.At = v.Deployment.UpdatedAt
	step.Hold = p.tryingOn(v, step.Replicas)
	return p.carryOut(step)
}

// resumes reports whether a node that was held back is in the middle of its turn, in which
// its pods are replaced while it serves. One that went back to older pods stays there while
// the analysis of a wave keeps nodes from beginning.
func (p *pass) resumes(v *view) bool {
	d := v.Deployment
	stays := d.Revision != p.Revision && p.barred(v)
	return !stays && p.rollsInTurn(v) && !v.Marked() && d.PodsPerNode == p.pods && !d.Drifted
}

// lacksPods reports whether a node that was held back has the pods that it should have, but
// too few of them.
func (p *pass) lacksPods(v *view) bool {
	d := v.Deployment
	_, older, _, _ := v.running()
	right := d.Revision == v.target && d.PodsPerNode == p.pods && !d.Drifted && older == 0
	return right && d.Replicas <= p.pods && !v.Marked()
}

// stillRejects reports whether a node that is held back has to be held back anew. What failed
// before that is no reason, and is gone after a moment: what fails then, of whatever
// template, is what the hold does not end.
func (p *pass) stillRejects(v *view, step Step) (a answer) {
	d := v.Deployment
	if v.Tainted {
		return answer{yes: step.Replicas < d.Replicas}
	}
	if step.Paused && d.Hold.Paused && step.Replicas == d.Replicas && step.Rolling.Surge == d.Surge {
		// Nothing more can be done about it before its turn.
		return a
	}
	due := v.seen.Hold.Add(firstRetry)
	lasts := !p.Now.Before(due)
	if !lasts {
		a.until = due
	}
	fails := func(pod Pod) bool { return pod.Failed != "" && !pod.Terminating && (lasts || v.isPresent(pod)) }
	further := step.Replicas < d.Replicas || step.Paused && !d.Hold.Paused || !step.Keep
	a.yes = d.Settled && (lasts || further) && slices.ContainsFunc(v.Pods, fails)
	return a
}
