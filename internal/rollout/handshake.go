package rollout

import (
	"fmt"
	"slices"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

// finish takes a marked node through its turn.
func (p *planner) finish(v *view) {
	d := v.Deployment
	marked, ours := v.markedAt()
	switch {
	case !ours:
		p.wait(v, v1alpha1.NodeUnavailable, time.Time{}, fmt.Sprintf("it carries a health-check mark that is not the controller's: %q", d.Mark))
	case p.outdated(v) && p.heldBack(v):
		p.wait(v, v1alpha1.NodeUpdating, d.Hold.At.Time, d.Hold.Reason)
		p.watchDeadline(v, v.seen.Updated)
	case p.outdated(v) && p.servesAgain(v):
		p.attach(v, servesAgainReason)
	case p.outdated(v) && p.mustRetreat(v):
		p.attach(v, p.forbidden)
	case p.outdated(v) && v.target == p.Revision && p.DryRun.Refusal != "" && !v.updatedInTurn():
		p.attach(v, p.refusal())
	case p.outdated(v) && v.nudged(p.pods) && !d.Settled:
		p.wait(v, v1alpha1.NodeUpdating, d.UpdatedAt, overlookedReason)
		p.watchDeadline(v, v.seen.Updated)
	case p.outdated(v):
		p.wait(v, v1alpha1.NodeDetaching, marked, "")
		if p.detach(v) && p.accepted(v.target) {
			reason := "the node is detached"
			if d.heldBack() && d.Hold.Revision == v.target {
				reason = d.afterAttempt()
			}
			p.update(v, reason)
		}
	case !v.updatedInTurn() && !v.rolling():
		// Where pods are being replaced, somebody took the annotation that says since when.
		p.attach(v, "it needs no update any more")
	default:
		p.wait(v, v1alpha1.NodeUpdating, d.UpdatedAt, "")
		if ok, reason, until := v.complete(p.Now, p.minReady()); !ok {
			v.reason = reason
			p.wake(until)
			p.watchDeadline(v, later(v.seen.Mark, v.seen.Updated))
			return
		}
		p.attach(v, "its pods are updated and available")
	}
}

// detach is whether the node is out of the load balancer, or its time is over
// and the policy is to go on; it takes the next step towards that.
func (p *planner) detach(v *view) bool {
	out, step, reason, until := p.detached(v)
	if v.recovers() {
		// Its pods stay ready, and it is left to its turn, or they crash again.
		out, step, reason, until = false, nil, "its pods are ready again, and may stay so", time.Time{}
	}
	if out {
		return true
	}
	v.reason = reason
	p.wake(until)
	switch {
	case !p.over(v.seen.Mark.Add(p.detachTime())):
		if step != nil {
			p.act(v, *step)
		}
		return false
	case v.outOfTurn() && !v.updatedInTurn():
		return p.stillBroken(v)
	case p.strategy.ProceedOnTimeout || !v.Wanted:
		return true
	case v.updatedInTurn():
		// Its pods are no longer those that served: nothing is left to protect.
		return true
	default:
		p.abort(v, reason)
		return false
	}
}

// abort reattaches a node whose detachment timed out. The halt is written
// first: a controller that dies in between must not begin again.
func (p *planner) abort(v *view, reason string) {
	v.reason = "its detachment timed out: " + reason
	if !p.timedOut[v.Name] {
		p.halts = "node " + v.Name + " was not detached in time, because " + reason +
			"; change the spec (for example pause and resume) to try again"
		p.giveUp(v.Name)
		return
	}
	p.attach(v, v.reason)
}

// giveUp writes down that a node is not tried again until the spec changes.
func (p *planner) giveUp(node string) {
	t := p.out.Status.DetachTimedOut
	if t == nil {
		t = &v1alpha1.NodesTimedOut{Generation: p.Generation}
		p.out.Status.DetachTimedOut = t
	}
	t.Nodes = append(t.Nodes, node)
	slices.Sort(t.Nodes)
}

// halted is whether the rollout stands still until the spec changes. A template that is
// taken back is taken back all the same, but for nodes that could not be detached.
func (p *planner) halted() bool {
	if p.rejected != nil {
		return false
	}
	for _, c := range p.Status.Conditions {
		if c.Type == v1alpha1.ConditionProgressing && c.ObservedGeneration == p.Generation {
			return c.Reason == v1alpha1.ReasonDetachTimedOut ||
				c.Reason == v1alpha1.ReasonProgressDeadlineExceeded && p.strategy.FailurePolicy == v1alpha1.PauseOnFailure
		}
	}
	return false
}

// detachTime is how long a detachment may take, its graces beside its time-out.
func (p *planner) detachTime() time.Duration {
	t := p.strategy.DetachTimeout + p.strategy.MarkGrace
	if a := p.strategy.AnnotateNode; a != nil {
		t += a.Grace + a.TimestampGrace
	}
	return t
}

// detached is whether traffic to the marked node has ended. Otherwise it gives
// the step that is due, what is waited for, and until when where that is known.
func (p *planner) detached(v *view) (out bool, step *Step, reason string, until time.Time) {
	if v.marksServing() && !p.strategy.FailAfterDetachment {
		// The strategy changed since: nobody else may be left to take it out.
		mark := v.Deployment.Mark.Without(v1alpha1.MarkServing)
		return false, &Step{Action: Mark, Mark: mark, Reason: "its health checks are to fail first"}, "its mark is being changed", until
	}
	ok, since, reason := v.acknowledged(v.seen.Mark)
	if !ok {
		return false, nil, reason, until
	}
	if v.repeatsNoMark() && !p.over(v.seen.Mark) {
		// Its last answer may be of before the mark.
		return false, nil, "a health check that repeats no mark is asked again", time.Time{}
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
		return true, nil, "", until
	}
	if !v.asked() && p.forbidden != "" {
		return false, nil, p.forbidden, time.Time{}
	}
	if !v.asked() {
		// Also where somebody removed the annotation, or the strategy names another key: an
		// answer would then be one to an earlier question.
		step = &Step{Action: RequestDetachment, Reason: "its health checks fail", StaleTimestamp: v.staleTimestamp(), At: p.moment(v.Node)}
		return false, step, "the Node is being annotated", until
	}
	if until = v.seen.Requested.Add(a.Grace); p.Now.Before(until) {
		return false, nil, "the grace period after the Node was annotated is not over", until
	}
	if a.TimestampKey == "" {
		return true, nil, "", until
	}
	if reason := v.Detachment.unanswered(); reason != "" {
		return false, nil, reason, time.Time{}
	}
	if until = v.seen.Timestamp.Add(a.TimestampGrace); p.Now.Before(until) {
		return false, nil, "the grace period after the detachment is not over", until
	}
	return true, nil, "", until
}

// asked is whether the detacher is asked by the annotation that the strategy names.
func (n *Node) asked() bool { return n.Detachment.Requested && n.Detachment.Held }

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
func (p *planner) attach(v *view, reason string) {
	p.wait(v, v1alpha1.NodeAttaching, p.Now, "its marks are being removed")
	p.act(v, Step{Action: Unmark, Reason: reason, At: p.moment(v.Node)})
	if v.Detachment.Requested {
		p.act(v, Step{Action: ReleaseDetachment, Reason: reason})
	}
}

// attached judges a node in the set that carries no mark: whether it serves, and
// whether it waits for an update.
func (p *planner) attached(v *view) {
	d := v.Deployment
	outdated := p.outdated(v)
	v.starts = outdated && !p.heldBack(v) && !p.partly(v)
	done, reason, until := v.complete(p.Now, p.minReady())
	v.done, v.emptied = done, done && d.PodsPerNode == 0
	p.wake(until)
	// A node that was unmarked since is to be attached whatever became of its pods, and one
	// of which somebody else took the mark, or that came back into the set, where they serve,
	// unless somebody wants it out, so that it is marked again.
	switch unmarked := d.AttachedAt.After(v.Detachment.RequestedAt); {
	case v.Detachment.Requested && unmarked:
		p.wait(v, v1alpha1.NodeAttaching, d.AttachedAt, "the Node is being released")
		p.act(v, Step{Action: ReleaseDetachment, Reason: "its marks are removed"})
		return
	case v.Detachment.Requested && !v.keptOut() && (done || v.servesAsItIs()):
		// That writes down, too, since when the node is to be put back.
		p.attach(v, "it carries no mark")
		return
	}
	p.judge(v, reason)
	if done && !v.starts {
		p.forgetHold(v)
	}
	if !v.starts {
		p.watchDeadline(v, later(v.seen.Updated, v.seen.Attached))
	}
	if v.starts && v.Ready && v.broken() && !v.Detachment.Requested && p.mayStart() && !p.barred(v) && p.accepted(v.target) {
		p.replaceBroken(v)
	}
}

// replaceBroken begins to replace the pods of a node that serves nothing. It waits for no
// turn. Older pods may get ready at any moment, so it is marked first.
func (p *planner) replaceBroken(v *view) {
	const reason = "no pod of it is ready and no health check passes"
	if p.strategy.Detaching {
		p.wait(v, v1alpha1.NodeDetaching, p.Now, "it is being marked")
		p.markOutOfTurn(v, reason)
		return
	}
	p.update(v, reason)
}

func (p *planner) markOutOfTurn(v *view, reason string) {
	mark := v1alpha1.NewMark(p.moment(v.Node), p.revisionOf(v), v1alpha1.MarkOutOfTurn)
	p.act(v, Step{Action: Mark, Mark: mark, Reason: reason})
}

// servesAgain is whether a node that was marked out of turn would serve by now with the pods
// that it had: it waits for its turn like any other. Pods that crash again and again are
// ready for a moment only.
func (p *planner) servesAgain(v *view) bool {
	if !v.recovers() {
		return false
	}
	steady := int32(0)
	for i := range v.Pods {
		at := v.Pods[i].ReadySince.Add(steadyAfter)
		switch {
		case !v.Pods[i].serves():
		case p.Now.Before(at):
			p.wake(at)
		default:
			steady++
		}
	}
	return steady >= v.Deployment.PodsPerNode
}

// recovers is whether as many pods as should be are ready on a node that was marked out of
// turn, before any was replaced: that it serves nothing, for which it waits for no turn, holds
// no more.
func (v *view) recovers() bool {
	ready := v.readyPods()
	return v.outOfTurn() && !v.updatedInTurn() && ready > 0 && ready >= v.Deployment.PodsPerNode
}

// steadyAfter is how long pods must have been ready to be taken for good again.
const steadyAfter = 5 * time.Second

// stillBroken is whether a node that was marked out of turn serves nothing although its
// mark was not acknowledged in time. One that may serve is left to its turn, one that is
// NotReady until it is Ready, or gone.
func (p *planner) stillBroken(v *view) bool {
	passes := slices.ContainsFunc(v.Checks, func(c Check) bool { return c.Serving })
	switch {
	case passes || v.Ready && v.readyPods() > 0:
		p.attach(v, servesAgainReason)
		return false
	default:
		return v.broken() && (v.Ready || !v.Wanted)
	}
}

const servesAgainReason = "it serves again before its pods are replaced"

// judge tells whether an unmarked node serves.
func (p *planner) judge(v *view, reason string) {
	d := v.Deployment
	pass, since, failure := v.checksPass()
	serves := later(since, v.seen.Attached).Add(p.strategy.AttachGrace)
	if v.returning = p.Now.Before(serves); v.returning {
		p.wake(serves)
	}
	switch {
	case !v.Ready:
		p.wait(v, v1alpha1.NodeUnavailable, time.Time{}, "the Node is NotReady")
	case v.emptied:
		p.wait(v, v1alpha1.NodeUnavailable, time.Time{}, "podsPerNode is 0")
	case v.readyPods() == 0:
		p.wait(v, v1alpha1.NodeUnavailable, time.Time{}, "no pod is ready")
	case !pass && p.wave[v.Name] && !d.AttachedAt.IsZero():
		p.wait(v, v1alpha1.NodeAttaching, d.AttachedAt, failure)
	case !pass:
		p.wait(v, v1alpha1.NodeUnavailable, time.Time{}, failure)
	case v.Detachment.Requested:
		p.wait(v, v1alpha1.NodeUnavailable, time.Time{}, "it is detached until its pods are available")
	case p.strategy.AnnotateNode != nil && v.Detachment.Held:
		p.awaitReturn(v, "somebody else has it detached")
	case v.Detachment.Timestamp != "":
		p.awaitReturn(v, "the detacher has not cleared its timestamp yet")
	case v.Detachment.Moving && p.wave[v.Name]:
		p.awaitReturn(v, "the detacher has not put it back into all its load balancers yet")
	case v.Detachment.Moving:
		p.wait(v, v1alpha1.NodeUnavailable, time.Time{}, "a detacher has it out of its load balancers, or is putting it back")
	case d.heldBack():
		p.wait(v, v1alpha1.NodeDegraded, d.Hold.At.Time, d.Hold.Reason)
	case !v.done && p.wave[v.Name] && v.readyPods() >= d.PodsPerNode:
		p.wait(v, v1alpha1.NodeUpdating, d.UpdatedAt, reason)
	case !v.done:
		p.wait(v, v1alpha1.NodeDegraded, time.Time{}, reason)
	case v.returning:
		p.wait(v, v1alpha1.NodeAttaching, d.AttachedAt, "it has not passed its health checks for long enough yet")
	default:
		p.wait(v, v1alpha1.NodeServing, time.Time{}, "")
	}
}

// awaitReturn waits for a detacher to put the node back, or for others to let go of it, as
// long as it may take to take one out. Then the node is unavailable, and the others go on
// within the budget.
func (p *planner) awaitReturn(v *view, reason string) {
	if released := v.seen.Attached; !released.IsZero() && !p.over(released.Add(p.strategy.DetachTimeout)) {
		p.wait(v, v1alpha1.NodeAttaching, v.Deployment.AttachedAt, reason)
		return
	}
	v.unreturned = true
	p.wait(v, v1alpha1.NodeUnavailable, v.Deployment.AttachedAt, reason)
	if v.Leaving || v.Detachment.Held {
		// Somebody cordoned it, which detachers take for a request, or asks for it to be out.
		return
	}
	p.block(v1alpha1.ReasonAttachTimedOut, "node "+v.Name+" was released longer than detachTimeoutSeconds ago, and "+reason+
		": look at the detacher, or remove what it left on the Node")
}

// outdated is whether the node's pods differ from what they should be.
func (p *planner) outdated(v *view) bool {
	d := v.Deployment
	held := d.heldBack() && (d.Hold.Revision == v.target || v.rolling())
	return v.target != "" && (d.Revision != v.target || d.PodsPerNode != p.pods || d.Replicas != p.pods || d.Drifted || held)
}

// update replaces the pods of the node. Where they were rejected before, that is
// not forgotten until they are accepted.
func (p *planner) update(v *view, reason string) {
	p.carryOut(v, p.updating(v, reason))
}

func (p *planner) carryOut(v *view, update Step) {
	p.wait(v, v1alpha1.NodeUpdating, p.Now, "its Deployment is being updated")
	p.act(v, update)
}

func (p *planner) updating(v *view, reason string) Step {
	d := v.Deployment
	step := Step{Action: Update, Revision: v.target, Replicas: p.pods, Reason: reason, At: p.moment(v.Node)}
	switch {
	case v.Marked() || d.Drifted && !v.shrinksMidway(p.pods) || d.Replicas == 0 || p.overlooked(v):
	case d.heldBack() && d.Revision != v.target && d.Replicas < p.pods:
		step.Replicas, step.Rolling = d.Replicas, Rolling{Surge: 1}
	case !d.heldBack() && (v.between() || v.shrinksMidway(p.pods)):
		// Scaled in the middle of a rolling update to just the older pods that are
		// left, the Deployment controller would take itself to be done. Scaled to fewer, it
		// would take pods from each ReplicaSet, and then count those among the ones that serve.
		if step.Replicas = d.Replicas; d.Replicas < p.pods {
			// The spec counts from as many as there should be.
			step.Rolling = Rolling{Surge: 1}
		}
	}
	if v.nudged(p.pods) && d.Revision == v.target {
		step.At = d.UpdatedAt
	}
	if d.Hold != nil && d.Hold.Revision == v.target || step.Replicas != p.pods {
		step.Hold = p.tryingOn(v, step.Replicas)
	}
	return step
}

// tryingOn is what to remember of the attempt to have so many pods of the target.
func (p *planner) tryingOn(v *view, replicas int32) *v1alpha1.Hold {
	again := v1alpha1.Hold{Revision: v.target, Generation: p.Generation}
	if h := v.Deployment.Hold; h != nil && h.Revision == v.target {
		again = *h
	}
	again.Trying, again.At, again.Replicas, again.ReplicaSet = true, metav1.NewMicroTime(p.Now), replicas, ""
	return &again
}

func (p *planner) minReady() time.Duration {
	return time.Duration(p.Spec.MinReadySeconds) * time.Second
}

// watchDeadline reports a node of the wave that takes too long since its update. One that
// somebody keeps out takes as long as they like.
func (p *planner) watchDeadline(v *view, since time.Time) {
	if !p.wave[v.Name] || v.state == v1alpha1.NodeServing || v.outOfTurn() || v.keptOut() || p.ripens(v) {
		return
	}
	// What cost it time while its node was NotReady is not its pods' fault, and of a claim of
	// which nothing came the last update may be long ago.
	deadline := later(later(since, v.seen.Claim), v.seen.Ready).Add(p.Spec.ProgressDeadline())
	v.overdue = p.over(deadline)
}

// ripens is whether the node's pods lack nothing but to be ready for minReadySeconds, which
// a controller that was frozen meanwhile begins to count when it sees them.
func (p *planner) ripens(v *view) bool {
	ready, _, _ := v.complete(p.Now, 0)
	ripe, _, _ := v.complete(p.Now, p.minReady())
	return ready && !ripe
}
