package nodehealth

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
)

const (
	// unseen is how long a hook waits for the pod that it belongs to: the kubelet may
	// learn of a deletion before the checker. There is none where a container is only
	// restarted, which needs no traffic to end.
	unseen = 10 * time.Second
	// together is how much earlier than its hook a pod's deletion may be seen.
	together = 2 * time.Second
)

// DrainHook is how pods that are being stopped are held.
type DrainHook struct {
	// Grace is for how long health checks must have failed, until the load balancer
	// has noticed, where nobody knows better.
	Grace time.Duration
	// Stop is how much of its grace period is left to a pod.
	Stop time.Duration
}

// Drain is what else a hook is answered from.
type Drain struct {
	Now time.Time
	// Asked is when the kubelet asked.
	Asked time.Time
	// Failing is since when health checks fail; zero while they pass.
	Failing time.Time
	// Seen is when the deletion of each pod that terminates was seen.
	Seen map[types.UID]time.Time
}

// Holds is why a hook is not answered yet, and until when that holds where nothing
// else changes; empty where the pods may stop. A hook does not tell whose it is, so
// that it holds for all of the node's pods that terminate.
func (h DrainHook) Holds(s State, d Drain) (why string, until time.Time) {
	var limit time.Time
	var seen, target bool
	for _, pod := range s.Pods {
		if pod.EndsAt.IsZero() {
			continue
		}
		seen = seen || !d.Seen[pod.UID].Before(d.Asked.Add(-together))
		target = target || pod.InTargets
		limit = later(limit, pod.EndsAt.Add(-h.Stop))
	}
	noticed := d.Failing.Add(h.Grace)
	switch deployment := s.Deployment; {
	case !seen && d.Now.Before(d.Asked.Add(unseen)):
		return "no deletion is seen yet", d.Asked.Add(unseen)
	case !d.Now.Before(limit):
	case target:
		return "a pod is still a target", limit
	case deployment != nil && deployment.Mark != nil && deployment.Released:
	case deployment != nil && deployment.Mark != nil:
		return "the node is being taken out", limit
	case d.Failing.IsZero():
		// Others of its pods serve.
	case d.Now.Before(noticed):
		return "health checks have not failed for long enough yet", earlier(noticed, limit)
	}
	return "", time.Time{}
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}
