package rollout

import (
	"fmt"
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

// stopsStorm asks for no more pods that are rejected, and then cleans those up: there may
// be thousands, and more while it lasts. It is whether this decision leaves the node at
// that.
func (p *planner) stopsStorm(v *view) bool {
	failed := v.failedPods()
	if len(failed) == 0 && !v.taintEvicted() {
		return false
	}
	step := p.holdBack(v)
	holds := (!v.Deployment.heldBack() || p.stillRejects(v, step)) && (!v.Deployment.untried() || v.taintEvicted())
	if holds {
		state := v1alpha1.NodeUnavailable
		if v.readyPods() > 0 {
			state = v1alpha1.NodeDegraded
		}
		p.wait(v, state, p.Now, step.Hold.Reason)
		p.wake(p.Now.Add(firstRetry))
		p.act(v, step)
	}
	if len(failed) > 0 {
		p.do(Step{Action: DeletePods, Node: v.Name, Pods: failed, Reason: v.rejection()})
	}
	return holds
}

// untried is whether the Deployment controller has yet to see what is tried again: what was
// rejected was so before.
func (d *Deployment) untried() bool {
	return d.Hold != nil && d.Hold.Trying && d.Hold.Attempts > 0 && !d.Settled
}

// taintEvicted is whether a taint has taken pods from the node: each new one would be deleted
// as fast as its ReplicaSet makes it. Until then they may use the time that they
// tolerate the taint, and those that tolerate it for good stay.
func (n *Node) taintEvicted() bool {
	if !n.Tainted {
		return false
	}
	_, _, all, _ := n.running()
	return all < n.Deployment.Replicas
}

// doomed is whether a pod was made in place of those that a taint has evicted: that it
// tolerates the taint for a time again would go on for ever. Those may be gone that it was made
// in place of.
func (n *Node) doomed(p Pod) bool {
	if !n.Tainted {
		return false
	}
	if since := n.EvictedSince[p.ReplicaSet]; !since.IsZero() && !p.Created.Before(since) {
		return true
	}
	return slices.ContainsFunc(n.Pods, func(gone Pod) bool {
		return gone.Evicted && gone.Terminating && !p.Created.Before(gone.Deleted)
	})
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
func (p *planner) holdBack(v *view) Step {
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
		step.Rolling = atOnce
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

// rollsInTurn is whether it is the turn of a node whose pods are replaced while it serves. One that
// leaves, or that somebody wants out, is marked in its turn instead.
func (p *planner) rollsInTurn(v *view) bool {
	return p.wave[v.Name] && !p.strategy.Detaching && v.Wanted && !v.keptOut()
}

// holdOn is what to remember of an attempt that failed.
func (p *planner) holdOn(v *view, step Step) *v1alpha1.Hold {
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

// triesAgain asks for the pods that were rejected once more, where that replaces
// no pod that serves; otherwise the node waits for its turn like any other, or
// goes on with it once it is detached. It is
// whether this decision leaves the node at that.
func (p *planner) triesAgain(v *view) bool {
	d := v.Deployment
	switch {
	case p.partly(v) && v.settled():
		p.addPods(v, "the pods that there was room for are replaced")
	case p.overlooked(v) && v.Marked():
		p.nudge(v)
	case p.overlooked(v):
		p.addPods(v, overlookedReason)
	case !d.heldBack() || d.Hold.Revision != v.target || p.heldBack(v):
		return false
	case p.goesOn(v):
		p.update(v, d.afterAttempt())
	case p.lacksPods(v):
		p.addPods(v, d.afterAttempt())
	default:
		return false
	}
	return true
}

// addPods asks for as many pods as there should be, of the template that is there:
// another one would replace those that serve.
func (p *planner) addPods(v *view, reason string) {
	step := p.updating(v, reason)
	step.Keep = true
	p.carryOut(v, step)
}

func (d *Deployment) afterAttempt() string { return fmt.Sprintf("after attempt %d", d.Hold.Attempts) }

// partly is whether the node is being updated with another number of pods than
// is wanted in the end.
func (p *planner) partly(v *view) bool {
	d := v.Deployment
	takes := d.Replicas > p.pods && p.strategy.Detaching
	return d.partly() && d.Revision == v.target && d.PodsPerNode == p.pods && !d.Drifted && !v.Marked() && !takes
}

func (d *Deployment) partly() bool {
	return d.Hold != nil && d.Hold.Trying && d.Hold.Replicas != d.PodsPerNode
}

// settled is whether the pods that are asked for are there, and no others.
func (n *Node) settled() bool {
	d := n.Deployment
	other := func(p Pod) bool { return !p.Ready || p.Terminating || p.Failed != "" || p.Revision != d.Revision }
	return d.Settled && d.OlderReplicas == 0 && d.Replicas == int32(len(n.Pods)) && !slices.ContainsFunc(n.Pods, other)
}

// overlooked is whether the Deployment controller starts no pod of what is tried, or of an
// update in the node's turn. A ReplicaSet that it had shrunk to as many pods as were then
// asked for still says that it was sized for more, and so the Deployment counts as being
// scaled for ever. Another number of pods ends that. An update gets half its time to show
// that it is not just slow.
func (p *planner) overlooked(v *view) bool {
	d := v.Deployment
	since, patience := v.seen.Hold, patienceWithTry
	switch {
	case p.partly(v):
	case v.updatedInTurn() && p.pods > 0 && d.Replicas == p.pods && d.OlderReplicas == p.pods:
		if since = v.seen.Updated; d.Hold != nil {
			// It may have been nudged before.
			since = later(since, v.seen.Hold)
		}
		patience = p.Spec.ProgressDeadline() / 2
	default:
		return false
	}
	return d.Settled && d.UpdatedReplicas == 0 && !v.uncounted() && p.over(since.Add(patience))
}

// uncounted is whether a pod is there that the Deployment controller has not told of yet. Its
// revision does not tell: somebody may have changed what else older ones were made from.
func (n *Node) uncounted() bool {
	there := int32(0)
	for _, p := range n.Pods {
		if p.stays() {
			there++
		}
	}
	return there > n.Deployment.UpdatedReplicas+n.Deployment.OlderReplicas
}

const overlookedReason = "the Deployment controller takes itself to be done"

// nudge asks for a pod more on a node that is out of the load balancer, until the Deployment
// controller has seen that. It is part of the update, which has no more time for it. When it
// was is kept in its Hold.
func (p *planner) nudge(v *view) {
	step := p.updating(v, overlookedReason)
	step.Keep = true
	step.Replicas++
	step.At = v.Deployment.UpdatedAt
	step.Hold = p.tryingOn(v, step.Replicas)
	p.carryOut(v, step)
}

// nudged is whether a pod more is asked for by a nudge.
func (n *Node) nudged(pods int32) bool {
	d := n.Deployment
	return n.updatedInTurn() && d.PodsPerNode == pods && d.Replicas == pods+1
}

// forgetHold ends a hold whose pods were accepted, or are not wanted any more.
func (p *planner) forgetHold(v *view) {
	if h := v.Deployment.Hold; h != nil && (h.Trying || h.Revision != v.target) {
		p.act(v, Step{Action: SetFields, Reason: "its pods are accepted"})
	}
}

// goesOn is whether a node that was held back is in the middle of its turn, in which
// its pods are replaced while it serves. One that went back to older pods stays there while
// the analysis of a wave keeps nodes from beginning.
func (p *planner) goesOn(v *view) bool {
	d := v.Deployment
	stays := d.Revision != p.Revision && p.barred(v)
	return !stays && p.rollsInTurn(v) && !v.Marked() && d.PodsPerNode == p.pods && !d.Drifted
}

// lacksPods is whether a node that was held back has the pods that it should have, but
// too few of them.
func (p *planner) lacksPods(v *view) bool {
	d := v.Deployment
	_, older, _, _ := v.running()
	right := d.Revision == v.target && d.PodsPerNode == p.pods && !d.Drifted && older == 0
	return right && d.Replicas <= p.pods && !v.Marked()
}

// heldBack is whether the revision that the node should have was rejected there,
// under the present spec, and it is not time yet to try again. While a taint evicts pods
// it never is.
func (p *planner) heldBack(v *view) bool {
	h := v.Deployment.Hold
	if v.Tainted && v.Deployment.heldBack() {
		return true
	}
	if h == nil || h.Trying || h.Revision != v.target || h.Generation != p.Generation {
		return false
	}
	wait := backoff(h.Attempts)
	switch {
	case h.Terminating && v.anyTerminating():
		wait = lastRetry
	case h.Terminating && h.Attempts <= mostEager:
		wait = firstRetry
	}
	due := v.seen.Hold.Add(wait)
	p.wake(due)
	return p.Now.Before(due)
}

// heldBack is whether fewer pods are asked for, or older ones.
func (d *Deployment) heldBack() bool { return d.Hold != nil && !d.Hold.Trying }

// backoff is how long to wait after so many attempts.
func backoff(attempts int) time.Duration {
	d := firstRetry
	for i := 1; i < attempts && d < lastRetry; i++ {
		d *= 2
	}
	return min(d, lastRetry)
}

func (n *Node) failedPods() []string {
	var names []string
	for _, p := range n.Pods {
		if p.Failed != "" && !p.Terminating {
			names = append(names, p.Name)
		}
	}
	return names
}

// stillRejects is whether a node that is held back has to be held back anew. What failed
// before that is no reason, and is gone after a moment: what fails then, of whatever
// template, is what the hold does not end.
func (p *planner) stillRejects(v *view, step Step) bool {
	d := v.Deployment
	if v.Tainted {
		return step.Replicas < d.Replicas
	}
	if step.Paused && d.Hold.Paused && step.Replicas == d.Replicas && step.Rolling.Surge == d.Surge {
		// Nothing more can be done about it before its turn.
		return false
	}
	due := v.seen.Hold.Add(firstRetry)
	p.wake(due)
	lasts := !p.Now.Before(due)
	fails := func(pod Pod) bool { return pod.Failed != "" && !pod.Terminating && (lasts || v.isPresent(pod)) }
	further := step.Replicas < d.Replicas || step.Paused && !d.Hold.Paused || !step.Keep
	return d.Settled && (lasts || further) && slices.ContainsFunc(v.Pods, fails)
}

// strays is whether pods do not run of a template of which none does, and which is not the
// Deployment's. They are made anew for as long as their ReplicaSet asks for them.
func (n *Node) strays() bool {
	return slices.ContainsFunc(n.Pods, func(p Pod) bool {
		runs := func(other Pod) bool {
			return other.Running && !other.Terminating && other.Revision == p.Revision && other.ReplicaSet == p.ReplicaSet
		}
		return !p.Running && !p.Terminating && !n.isPresent(p) && !slices.ContainsFunc(n.Pods, runs)
	})
}

// othersServe is whether a pod serves that is not of the Deployment's present template.
func (n *Node) othersServe() bool {
	return slices.ContainsFunc(n.Pods, func(p Pod) bool { return p.serves() && !n.isPresent(p) })
}

// presentServes is whether a pod serves that is of the Deployment's present template.
func (n *Node) presentServes() bool {
	return slices.ContainsFunc(n.Pods, func(p Pod) bool { return p.serves() && n.isPresent(p) })
}

// isPresent is whether a pod is of the Deployment's present template.
func (n *Node) isPresent(p Pod) bool {
	return p.Revision == n.Deployment.Revision && p.ReplicaSet == n.presentReplicaSet()
}

func (n *Node) rejection() string {
	for _, p := range n.Pods {
		if p.Failed != "" {
			return "the kubelet rejects its pods: " + p.Failed
		}
	}
	return "a taint of the node evicts its pods"
}

func (n *Node) anyTerminating() bool {
	for _, p := range n.Pods {
		if p.Terminating && p.Failed == "" {
			return true
		}
	}
	return false
}

// presentReplicaSet is the hash of the Deployment's present template, as far as it
// shows: that to which the node was taken back, or that of the newest pod of the
// revision that is not known to be older. Pods that are rejected are made all the time.
func (n *Node) presentReplicaSet() string {
	if hash := n.Deployment.wentBackTo(); hash != "" {
		return hash
	}
	var newest Pod
	for _, p := range n.Pods {
		later := p.Created.After(newest.Created) || p.Created.Equal(newest.Created) && p.Failed != "" && newest.Failed == ""
		if p.Revision == n.Deployment.Revision && !p.Older && (newest.Name == "" || later) {
			newest = p
		}
	}
	return newest.ReplicaSet
}

// wentBackTo is the hash of the ReplicaSet to whose template we took the Deployment back,
// empty where it has another.
func (d *Deployment) wentBackTo() string {
	if !d.heldBack() || d.Drifted {
		return ""
	}
	return d.Hold.ReplicaSet
}

// InDoubt are the ReplicaSets of which any may be the Deployment's present one, or none,
// where that decides whose pods are given up: pods are rejected, or evicted by a taint, and
// their revision does not tell, as after a change of podPlacement. The newest pod does not
// tell either: a Deployment that is to have more pods gets them from the older ReplicaSet
// first. What the API server says of them goes into Older of their pods.
func (n *Node) InDoubt() []string {
	d := n.Deployment
	if d == nil || d.wentBackTo() != "" || len(n.failedPods()) == 0 && !n.taintEvicted() {
		return nil
	}
	var sets []string
	others := int32(0)
	for _, p := range n.Pods {
		switch {
		case p.Revision == d.Revision && !slices.Contains(sets, p.ReplicaSet):
			sets = append(sets, p.ReplicaSet)
		case p.Revision != d.Revision && p.stays():
			others++
		}
	}
	// Pods of the present one may be yet to come.
	if len(sets) == 1 && d.Settled && d.OlderReplicas <= others {
		return nil
	}
	return sets
}
