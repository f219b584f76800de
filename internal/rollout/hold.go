package rollout

import (
	"fmt"
	"time"
)

// backsOff reports whether the revision that the node should have was rejected there,
// under the present spec, and it is not time yet to try again. While a taint evicts pods
// it never is.
func (p *pass) backsOff(v *view) answer {
	h := v.Deployment.Hold
	if v.Tainted && v.Deployment.heldBack() {
		return answer{yes: true}
	}
	if h == nil || h.Trying || h.Revision != v.target || h.Generation != p.Generation {
		return answer{}
	}
	wait := backoff(h.Attempts)
	switch {
	case h.Terminating && v.anyTerminating():
		wait = lastRetry
	case h.Terminating && h.Attempts <= mostEager:
		wait = firstRetry
	}
	if due := v.seen.Hold.Add(wait); p.Now.Before(due) {
		return answer{yes: true, until: due}
	}
	return answer{}
}

// backoff is how long to wait after so many attempts.
func backoff(attempts int) time.Duration {
	d := firstRetry
	for i := 1; i < attempts && d < lastRetry; i++ {
		d *= 2
	}
	return min(d, lastRetry)
}

// updatesPartly reports whether the node is being updated with another number of pods than
// is wanted in the end.
func (p *pass) updatesPartly(v *view) bool {
	d := v.Deployment
	takes := d.Replicas > p.pods && p.strategy.Detaching
	return d.partly() && d.Revision == v.target && d.PodsPerNode == p.pods && !d.Drifted && !v.Marked() && !takes
}

// overlooked reports whether the Deployment controller starts no pod of what is tried, or of an
// update in the node's turn. A ReplicaSet that it had shrunk to as many pods as were then
// asked for still says that it was sized for more, and so the Deployment counts as being
// scaled for ever. Another number of pods ends that. An update gets half its time to show
// that it is not just slow.
func (p *pass) overlooked(v *view) answer {
	d := v.Deployment
	since, patience := v.seen.Hold, patienceWithTry
	switch {
	case p.updatesPartly(v):
	case v.updatedInTurn() && p.pods > 0 && d.Replicas == p.pods && d.OlderReplicas == p.pods:
		if since = v.seen.Updated; d.Hold != nil {
			// It may have been nudged before.
			since = later(since, v.seen.Hold)
		}
		patience = p.Spec.ProgressDeadline() / 2
	default:
		return answer{}
	}
	if !d.Settled || d.UpdatedReplicas > 0 || v.uncounted() {
		return answer{}
	}
	return p.over(since.Add(patience))
}

func (d *Deployment) afterAttempt() string { return fmt.Sprintf("after attempt %d", d.Hold.Attempts) }

// holdIsOver reports whether there is a hold whose pods were accepted, or are not wanted any more.
func (v *view) holdIsOver(done bool) bool {
	h := v.Deployment.Hold
	return done && h != nil && (h.Trying || h.Revision != v.target)
}
