package nodehealth

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

const (
	// unseen is how long a hook waits for the pod that it belongs to: the kubelet may
	// learn of a deletion before the checker. There is none where a container is only
	// restarted, which needs no traffic to end. While a pod serves it waits for Drain.Lag.
	unseen = 10 * time.Second
	// Together is how much earlier than its hook a pod's deletion may be seen.
	Together = 2 * time.Second
	// Shutdown is how long a checker that is told to end, without another that takes over,
	// waits for the hooks of pods that end with it.
	Shutdown = 10 * time.Second
)

// Lingering is why a hook is held when no new connection comes any more.
const Lingering = "connections that are open have time to end"

// DrainHook is how pods that are being stopped are held.
type DrainHook struct {
	// Grace is for how long health checks must have failed, until the load balancer
	// has noticed, where nobody knows better.
	Grace time.Duration
	// Linger is how long connections that are open then have to end. A rollout has
	// waited for that itself where it has taken the node out, but not for those that come
	// to a pod which is a target of its own.
	Linger time.Duration
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
	// Free is since when Holds says Lingering; zero where it has not until now.
	Free time.Time
	// Targeted says whether a pod of the node was a target since the kubelet asked: what came
	// to it last may have come a moment ago, wherever the node is.
	Targeted bool
	// Seen is when the deletion of each pod that terminates was seen.
	Seen map[types.UID]time.Time
	// Lag is how late a deletion may be seen where the API server hangs and nobody has
	// noticed yet.
	Lag time.Duration
	// Back is when the API server could be read again, and all that happened before was
	// seen; zero where it always could.
	Back time.Time
}

// Holds is why a hook is not answered yet, and until when that holds where nothing
// else changes; empty where the pods may stop. A hook does not tell whose it is, so
// that it holds for all of the node's pods that terminate, but for those that were
// deleted later.
func (h DrainHook) Holds(s State, d Drain) (why string, until time.Time) {
	ending := s.ending(d)
	noticed := d.Failing.Add(h.Grace)
	deployment, marked := s.Deployment, s.Deployment != nil && s.Deployment.Mark != nil
	// Where the node is says nothing of pods that are targets of their own.
	isOut := marked && deployment.Released && !d.Targeted
	switch {
	case !s.LostAt.IsZero() && d.Now.Before(ending.unseen.Add(-h.Stop)) && !isOut:
		return "the API server cannot be read, and a pod serves that may be the one that is stopped", ending.unseen.Add(-h.Stop)
	case !ending.seen && d.Now.Before(h.patience(d, ending, isOut)):
		return "no deletion is seen yet", h.patience(d, ending, isOut)
	case !d.Now.Before(ending.killed.Add(-h.Stop)):
		return "", time.Time{}
	case ending.target:
		return "a pod is still a target", ending.killed.Add(-h.Stop)
	case marked && !deployment.Released:
		return "the node is being taken out", ending.killed.Add(-h.Stop)
	case isOut:
		return "", time.Time{}
	case !marked && !d.Failing.IsZero() && d.Now.Before(noticed):
		return "health checks have not failed for long enough yet", earlier(noticed, ending.killed.Add(-h.Stop))
	}
	// Others of its pods serve, or nobody sends to any of them.
	free := d.Free
	if free.IsZero() {
		free = d.Now
	}
	if until = earlier(free.Add(h.Linger), ending.killed.Add(-h.Stop)); d.Now.Before(until) {
		return Lingering, until
	}
	return "", time.Time{}
}

// patience is until when a hook waits for a deletion to be seen. While a pod serves it is
// for as long as one may go unseen, unless that pod needs the time to stop.
func (h DrainHook) patience(d Drain, ending ending, isOut bool) time.Time {
	least := d.Asked.Add(unseen)
	if isOut || ending.unseen.IsZero() {
		return least
	}
	return later(least, earlier(d.Asked.Add(d.Lag), ending.unseen.Add(-h.Stop)))
}

// ending is what is known of the pods that a hook may belong to.
type ending struct {
	// seen says whether one was seen that may have asked, target whether one may get
	// traffic as a target, killed when the last of them is.
	seen, target bool
	killed       time.Time
	// unseen is when a pod is killed that serves and may have asked, where none was seen
	// that did; zero where no pod serves.
	unseen time.Time
}

func (s State) ending(d Drain) ending {
	e := s.deleted(d, d.Asked.Add(unseen))
	if !e.seen {
		e = s.deleted(d, later(d.Asked.Add(max(unseen, d.Lag)), d.Back))
	}
	switch {
	case e.seen:
		return e
	case s.ShuttingDown:
		return s.stopped(d)
	}
	for _, pod := range s.Pods {
		if s.Deployment != nil && s.ready(pod) {
			e.unseen = later(e.unseen, d.Asked.Add(pod.Grace))
		}
	}
	return e
}

// deleted is what is known of the pods whose deletion was seen until a time. One that was
// deleted long after the hook was asked is not the hook's.
func (s State) deleted(d Drain, until time.Time) (e ending) {
	for _, pod := range s.Pods {
		seen := d.Seen[pod.UID]
		if !pod.Ending || seen.After(until) {
			continue
		}
		e.seen = e.seen || !seen.Before(d.Asked.Add(-Together))
		e.target = e.target || pod.InTargets
		e.killed = later(e.killed, earlier(seen, d.Asked).Add(pod.Grace))
	}
	return e
}

// stopped is what is known where the node shuts down: any of its pods may have asked.
func (s State) stopped(d Drain) (e ending) {
	e.seen = true
	for _, pod := range s.Pods {
		if pod.Ending || !pod.Leaving {
			e.target = e.target || pod.InTargets
			e.killed = later(e.killed, d.Asked.Add(pod.Grace))
		}
	}
	return e
}

// HasTarget reports whether a pod of the node is a target of its own.
func (s State) HasTarget() bool {
	return slices.ContainsFunc(s.Pods, func(pod Pod) bool { return pod.InTargets })
}

// Unannounced reports whether a hook was asked a while ago by a pod of which no deletion is
// seen, although deletions can be seen: the kubelet stops it by itself.
func (s State) Unannounced(d Drain) bool {
	return s.LostAt.IsZero() && !s.ending(d).seen && !d.Now.Before(d.Asked.Add(Together))
}

// MayDrain reports whether a pod of the node may still ask for a drain hook.
func (s State) MayDrain() bool {
	return slices.ContainsFunc(s.Pods, func(pod Pod) bool { return pod.Drains && (pod.Ending || !pod.Leaving) })
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
