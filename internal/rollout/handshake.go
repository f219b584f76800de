package rollout

import (
	"fmt"
	"slices"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
)

// The handshake of a node that detaches. Its invariant: pods are replaced only
// while the node is marked and detached, or its time is over and the policy or a deletion
// says to go on; and a mark is removed only when every pod is available and no older one is
// left, or before any was replaced: after a time-out, or where no update is wanted any more.
//
//	serving -> marked -> acknowledged -> grace -> [Node annotated -> grace ->
//	timestamp -> grace] -> updated -> complete -> unmarked, released -> grace -> serving
//
// With a mark of the kind MarkServing the health checks acknowledge it and pass,
// and fail only with the update. One of the kind MarkOutOfTurn is on a node that served
// nothing when it was marked. While no pod of it is ready and it has health checks, no
// detacher is asked: its pods are replaced when these have failed for the grace, which they
// mostly had before, and not while all of them are ready.

// finish is the turn of a marked node.
func (p *pass) finish(v *view) verdict {
	d := v.Deployment
	_, ours := v.markedAt()
	switch {
	case !ours:
		return waits(v1alpha1.NodeUnavailable, time.Time{}, fmt.Sprintf("it carries a health-check mark that is not the controller's: %q", d.Mark))
	case p.outdated(v):
		return p.replace(v)
	case !v.updatedInTurn() && !v.rolling():
		// Where pods are being replaced, somebody took the annotation that says since when.
		return p.attach(v, "it needs no update any more")
	}
	if ok, reason, until := v.complete(p.Now, p.minReady()); !ok {
		w := waits(v1alpha1.NodeUpdating, d.UpdatedAt, reason).lookAt(until)
		return p.watched(v, w, later(v.seen.Mark, v.seen.Updated))
	}
	return p.attach(v, "its pods are updated and available")
}

// replace is the turn of a marked node whose pods are not what they should be.
func (p *pass) replace(v *view) verdict {
	d := v.Deployment
	held := p.backsOff(v)
	if held.yes {
		return p.watched(v, waits(v1alpha1.NodeUpdating, d.Hold.At.Time, d.Hold.Reason).given(held), v.seen.Updated)
	}
	recovered := p.servesAgain(v)
	w := verdict{}.given(recovered)
	switch {
	case recovered.yes:
		return w.and(p.attach(v, servesAgainReason))
	case p.mustRetreat(v):
		return w.and(p.attach(v, p.forbidden))
	case v.target == p.Revision && p.DryRun.Refusal != "" && !v.updatedInTurn():
		return w.and(p.attach(v, p.refusal()))
	case v.nudged(p.pods) && !d.Settled:
		return p.watched(v, w.and(waits(v1alpha1.NodeUpdating, d.UpdatedAt, overlookedReason)), v.seen.Updated)
	}
	marked, _ := v.markedAt()
	said, out := p.detach(v)
	if w = w.and(waits(v1alpha1.NodeDetaching, marked, "")).and(said); !out {
		return w
	}
	accepted := p.accepted(v.target)
	if w = w.given(accepted); !accepted.yes {
		return w
	}
	reason := "the node is detached"
	if d.heldBack() && d.Hold.Revision == v.target {
		reason = d.afterAttempt()
	}
	return w.and(p.update(v, reason))
}

// detach is the next step on the way out of the load balancer, and whether the node is out, or
// its time is over and the policy is to go on.
func (p *pass) detach(v *view) (w verdict, out bool) {
	out, step, reason, until := p.detached(v)
	if v.recovers() {
		// Its pods stay ready, and it is left to its turn, or they crash again.
		out, step, reason, until = false, nil, "its pods are ready again, and may stay so", time.Time{}
	}
	if out {
		return w, true
	}
	timedOut := p.over(v.seen.Mark.Add(p.detachTime()))
	w = verdict{reason: reason, wake: until}.given(timedOut)
	switch {
	case !timedOut.yes && step != nil:
		return w.act(*step), false
	case !timedOut.yes:
		return w, false
	case v.outOfTurn() && !v.updatedInTurn():
		said, broken := p.stillBroken(v)
		return w.and(said), broken
	case p.strategy.ProceedOnTimeout || !v.Wanted:
		return w, true
	case v.updatedInTurn():
		// Its pods are no longer those that served: nothing is left to protect.
		return w, true
	}
	return w.and(p.abort(v, reason)), false
}

// abort reattaches a node whose detachment timed out. The halt is written
// first: a controller that dies in between must not begin again.
func (p *pass) abort(v *view, reason string) verdict {
	w := verdict{reason: "its detachment timed out: " + reason}
	if p.timedOut[v.Name] {
		return p.attach(v, w.reason)
	}
	w.halts = "node " + v.Name + " was not detached in time, because " + reason +
		"; change the spec (for example pause and resume) to try again"
	return w
}

// detachTime is how long a detachment may take, its graces beside its time-out.
func (p *pass) detachTime() time.Duration {
	t := p.strategy.DetachTimeout + p.strategy.MarkGrace
	if a := p.strategy.AnnotateNode; a != nil {
		t += a.Grace + a.TimestampGrace
	}
	return t
}

// detached reports whether traffic to the marked node has ended. Otherwise it gives
// the step that is due, what is waited for, and until when where that is known.
func (p *pass) detached(v *view) (out bool, step *Step, reason string, until time.Time) {
	if v.marksServing() && !p.strategy.FailAfterDetachment {
		// The strategy changed since: nobody else may be left to take it out.
		mark := v.Deployment.Mark.Without(v1alpha1.MarkServing)
		return false, &Step{Action: Mark, Mark: mark, Reason: "its health checks are to fail first"}, "its mark is being changed", until
	}
	ok, since, reason := v.acknowledged(v.seen.Mark)
	if !ok {
		return false, nil, reason, until
	}
	if again := p.over(v.seen.Mark); v.repeatsNoMark() && !again.yes {
		// Its last answer may be of before the mark.
		return false, nil, "a health check that repeats no mark is asked again", again.until
	}
	grace := p.strategy.MarkGrace
	if v.outOfTurn() && len(v.Checks) > 0 {
		// No detacher is asked, so that the load balancer must have noticed.
		grace = p.strategy.NoticeGrace
	}
	if until = since.Add(grace); p.Now.Before(until) {
		return false, nil, "the grace period after the health checks began to fail is not over", until
	}
	a := p.strategy.AnnotateNode
	if a == nil || v.outOfTurn() && len(v.Checks) > 0 && v.readyPods() == 0 {
		return true, nil, "", time.Time{}
	}
	if !v.asked() && p.forbidden != "" {
		return false, nil, p.forbidden, time.Time{}
	}
	if !v.asked() {
		// Also where somebody removed the annotation, or the strategy names another key: an
		// answer would then be one to an earlier question.
		step = &Step{Action: RequestDetachment, Reason: "its health checks fail", StaleTimestamp: v.staleTimestamp(), At: p.moment(v.Node)}
		return false, step, "the Node is being annotated", time.Time{}
	}
	if until = v.seen.Requested.Add(a.Grace); p.Now.Before(until) {
		return false, nil, "the grace period after the Node was annotated is not over", until
	}
	if a.TimestampKey == "" {
		return true, nil, "", time.Time{}
	}
	if reason := v.Detachment.unanswered(); reason != "" {
		return false, nil, reason, time.Time{}
	}
	if until = v.seen.Timestamp.Add(a.TimestampGrace); p.Now.Before(until) {
		return false, nil, "the grace period after the detachment is not over", until
	}
	return true, nil, "", time.Time{}
}

// staleTimestamp is a timestamp that must not be taken for the answer to what we
// are about to ask: it belongs to a detachment that nobody holds any more, or it was there
// before the mark of a node that was asked for since, of which somebody took the record.
func (v *view) staleTimestamp() string {
	askedSince := v.seen.Requested.After(v.seen.Mark) && v.seen.Timestamp.Before(v.seen.Mark)
	if (v.Detachment.Held || v.Leaving) && !askedSince {
		return ""
	}
	return v.Detachment.Timestamp
}

// unanswered is why the detacher's timestamp does not count, empty where it does. What
// it says is not asked: it comes from another clock.
func (d *Detachment) unanswered() (reason string) {
	switch {
	case d.Timestamp == "":
		return "the detacher has not written its timestamp yet"
	case d.Timestamp == d.StaleTimestamp:
		return "the timestamp on the Node is from an earlier detachment"
	}
	if _, err := time.Parse(time.RFC3339, d.Timestamp); err != nil {
		// What it is may be nothing for those who read the status.
		return "the timestamp on the Node is not RFC 3339"
	}
	return ""
}

// attach removes the marks; attached then waits until the node serves.
func (p *pass) attach(v *view, reason string) verdict {
	w := waits(v1alpha1.NodeAttaching, p.Now, "its marks are being removed").
		act(Step{Action: Unmark, Reason: reason, At: p.moment(v.Node)})
	if v.Detachment.Requested {
		w = w.act(Step{Action: ReleaseDetachment, Reason: reason})
	}
	return w
}

// attached judges a node in the set that carries no mark: whether it serves, and
// whether it waits for an update.
func (p *pass) attached(v *view) (w verdict) {
	d := v.Deployment
	if p.outdated(v) {
		held := p.backsOff(v)
		w = w.given(held)
		w.starts = !held.yes && !p.updatesPartly(v)
	}
	done, missing, until := v.complete(p.Now, p.minReady())
	w.done, w.emptied = done, done && d.PodsPerNode == 0
	w = w.lookAt(until)
	// A node that was unmarked since is to be attached whatever became of its pods, and one
	// of which somebody else took the mark, or that came back into the set, where they serve,
	// unless somebody wants it out, so that it is marked again.
	switch unmarked := d.AttachedAt.After(v.Detachment.RequestedAt); {
	case v.Detachment.Requested && unmarked:
		return w.and(waits(v1alpha1.NodeAttaching, d.AttachedAt, "the Node is being released")).
			act(Step{Action: ReleaseDetachment, Reason: "its marks are removed"})
	case v.Detachment.Requested && !v.keptOut() && (done || v.servesAsItIs()):
		// That writes down, too, since when the node is to be put back.
		return w.and(p.attach(v, "it carries no mark"))
	}
	w = p.judge(v, w, missing)
	if !w.starts {
		if v.holdIsOver(done) {
			w = w.act(Step{Action: SetFields, Reason: "its pods are accepted"})
		}
		w = p.watched(v, w, later(v.seen.Updated, v.seen.Attached))
	}
	if w.starts && v.Ready && v.broken() && !v.Detachment.Requested && p.mayStart() && !p.barred(v) {
		w = w.and(p.replaceBroken(v))
	}
	return w
}

// replaceBroken begins to replace the pods of a node that serves nothing. It waits for no
// turn. Older pods may get ready at any moment, so it is marked first.
func (p *pass) replaceBroken(v *view) verdict {
	const reason = "no pod of it is ready and no health check passes"
	accepted := p.accepted(v.target)
	w := verdict{}.given(accepted)
	switch {
	case !accepted.yes:
		return w
	case p.strategy.Detaching:
		return w.and(waits(v1alpha1.NodeDetaching, p.Now, "it is being marked")).act(p.markOutOfTurn(v, reason))
	}
	return w.and(p.update(v, reason))
}

func (p *pass) markOutOfTurn(v *view, reason string) Step {
	mark := v1alpha1.NewMark(p.moment(v.Node), p.revisionOf(v), v1alpha1.MarkOutOfTurn)
	return Step{Action: Mark, Mark: mark, Reason: reason}
}

// servesAgain reports whether a node that was marked out of turn would serve by now with the pods
// that it had: it waits for its turn like any other. Pods that crash again and again are
// ready for a moment only.
func (p *pass) servesAgain(v *view) (a answer) {
	if !v.recovers() {
		return a
	}
	steady := int32(0)
	for i := range v.Pods {
		at := v.Pods[i].ReadySince.Add(steadyAfter)
		switch {
		case !v.Pods[i].serves():
		case p.Now.Before(at):
			a.until = sooner(a.until, at)
		default:
			steady++
		}
	}
	a.yes = steady >= v.Deployment.PodsPerNode
	return a
}

// recovers reports whether as many pods as should be are ready on a node that was marked out of
// turn, before any was replaced: that it serves nothing, for which it waits for no turn, holds
// no more.
func (v *view) recovers() bool {
	ready := v.readyPods()
	return v.outOfTurn() && !v.updatedInTurn() && ready > 0 && ready >= v.Deployment.PodsPerNode
}

// steadyAfter is how long pods must have been ready to be taken for good again.
const steadyAfter = 5 * time.Second

// stillBroken reports whether a node that was marked out of turn serves nothing although its
// mark was not acknowledged in time. One that may serve is left to its turn, one that is
// NotReady until it is Ready, or gone.
func (p *pass) stillBroken(v *view) (w verdict, broken bool) {
	passes := slices.ContainsFunc(v.Checks, func(c Check) bool { return c.Serving })
	if passes || v.Ready && v.readyPods() > 0 {
		return p.attach(v, servesAgainReason), false
	}
	return w, v.broken() && (v.Ready || !v.Wanted)
}

const servesAgainReason = "it serves again before its pods are replaced"

// judge is the verdict with whether an unmarked node serves; missing is what its pods lack.
func (p *pass) judge(v *view, w verdict, missing string) verdict {
	_, since, _ := v.checksPass()
	serves := later(since, v.seen.Attached).Add(p.strategy.AttachGrace)
	if w.returning = p.Now.Before(serves); w.returning {
		w = w.lookAt(serves)
	}
	return w.and(p.whetherItServes(v, w, missing))
}

func (p *pass) whetherItServes(v *view, w verdict, missing string) verdict {
	d := v.Deployment
	pass, _, failure := v.checksPass()
	switch {
	case !v.Ready:
		return waits(v1alpha1.NodeUnavailable, time.Time{}, "the Node is NotReady")
	case w.emptied:
		return waits(v1alpha1.NodeUnavailable, time.Time{}, "podsPerNode is 0")
	case v.readyPods() == 0:
		return waits(v1alpha1.NodeUnavailable, time.Time{}, v.because("no pod is ready"))
	case !pass && p.wave[v.Name] && !d.AttachedAt.IsZero():
		return waits(v1alpha1.NodeAttaching, d.AttachedAt, failure)
	case !pass:
		return waits(v1alpha1.NodeUnavailable, time.Time{}, failure)
	case v.Detachment.Requested:
		return waits(v1alpha1.NodeUnavailable, time.Time{}, "it is detached until its pods are available")
	case p.strategy.AnnotateNode != nil && v.Detachment.Held:
		return p.awaitReturn(v, "somebody else has it detached")
	case v.Detachment.Timestamp != "":
		return p.awaitReturn(v, "the detacher has not cleared its timestamp yet")
	case v.Detachment.Moving && p.wave[v.Name]:
		return p.awaitReturn(v, "the detacher has not put it back into all its load balancers yet")
	case v.Detachment.Moving:
		return waits(v1alpha1.NodeUnavailable, time.Time{}, "a detacher has it out of its load balancers, or is putting it back")
	case d.heldBack():
		return waits(v1alpha1.NodeDegraded, d.Hold.At.Time, d.Hold.Reason)
	case !w.done && p.wave[v.Name] && v.readyPods() >= d.PodsPerNode:
		return waits(v1alpha1.NodeUpdating, d.UpdatedAt, missing)
	case !w.done:
		return waits(v1alpha1.NodeDegraded, time.Time{}, missing)
	case w.returning:
		return waits(v1alpha1.NodeAttaching, d.AttachedAt, "it has not passed its health checks for long enough yet")
	}
	return waits(v1alpha1.NodeServing, time.Time{}, "")
}

// awaitReturn waits for a detacher to put the node back, or for others to let go of it, as
// long as it may take to take one out. Then the node is unavailable, and the others go on
// within the budget.
func (p *pass) awaitReturn(v *view, reason string) verdict {
	if released := v.seen.Attached; !released.IsZero() {
		if late := p.over(released.Add(p.strategy.DetachTimeout)); !late.yes {
			return waits(v1alpha1.NodeAttaching, v.Deployment.AttachedAt, reason).given(late)
		}
	}
	w := waits(v1alpha1.NodeUnavailable, v.Deployment.AttachedAt, reason)
	if w.unreturned = true; v.Leaving || v.Detachment.Held {
		// Somebody cordoned it, which detachers take for a request, or asks for it to be out.
		return w
	}
	return w.given(no(v1alpha1.ReasonAttachTimedOut, "node "+v.Name+" was released longer than detachTimeoutSeconds ago, and "+reason+
		": look at the detacher, or remove what it left on the Node"))
}

// outdated reports whether the node's pods differ from what they should be.
func (p *pass) outdated(v *view) bool {
	d := v.Deployment
	held := d.heldBack() && (d.Hold.Revision == v.target || v.rolling())
	return v.target != "" && (d.Revision != v.target || d.PodsPerNode != p.pods || d.Replicas != p.pods || d.Drifted || held)
}

// watched reports a node of the wave that takes too long since its update. One that
// somebody keeps out takes as long as they like.
func (p *pass) watched(v *view, w verdict, since time.Time) verdict {
	if !p.wave[v.Name] || w.state == v1alpha1.NodeServing || v.outOfTurn() || v.keptOut() || p.ripens(v) {
		return w
	}
	// What cost it time while its node was NotReady is not its pods' fault, and of a claim of
	// which nothing came the last update may be long ago.
	overdue := p.over(later(later(since, v.seen.Claim), v.seen.Ready).Add(p.Spec.ProgressDeadline()))
	w.overdue = overdue.yes
	return w.given(overdue)
}

// ripens reports whether the node's pods lack nothing but to be ready for minReadySeconds, which
// a controller that was frozen meanwhile begins to count when it sees them.
func (p *pass) ripens(v *view) bool {
	ready, _, _ := v.complete(p.Now, 0)
	ripe, _, _ := v.complete(p.Now, p.minReady())
	return ready && !ripe
}

func (p *pass) revisionOf(v *view) string {
	if v.target == "" {
		return v.Deployment.Revision
	}
	return v.target
}

func (p *pass) markValue(v *view) v1alpha1.Mark {
	kind := ""
	if p.strategy.FailAfterDetachment {
		kind = v1alpha1.MarkServing
	}
	return v1alpha1.NewMark(p.moment(v.Node), p.revisionOf(v), kind)
}
