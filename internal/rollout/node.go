package rollout

import (
	"fmt"
	"slices"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
)

// Marked reports whether the node's health checks are made to fail.
func (n *Node) Marked() bool {
	return n.Deployment != nil && (n.Deployment.Mark != "" || n.Deployment.EmptyMark)
}

// drained reports whether somebody was seen to drain the node.
func (n *Node) drained() bool {
	return n.Deployment != nil && (n.Deployment.Drained || !n.Deployment.DrainedAt.IsZero())
}

// marksServing reports whether the health checks go on passing in spite of the mark,
// until the pods are changed.
func (n *Node) marksServing() bool { return n.Deployment.Mark.Is(v1alpha1.MarkServing) }

// outOfTurn reports whether the node served nothing when it was marked: it was not its turn.
func (n *Node) outOfTurn() bool {
	return n.Deployment != nil && n.Deployment.Mark.Is(v1alpha1.MarkOutOfTurn)
}

// markedAt is when the node was marked; ok is false where the mark is not ours.
func (n *Node) markedAt() (at time.Time, ok bool) { return n.Deployment.Mark.At() }

// updatedInTurn reports whether the pods were changed since the node was marked. A mark that is
// not ours does not tell when it was made.
func (n *Node) updatedInTurn() bool {
	at, ours := n.markedAt()
	return ours && !n.Deployment.UpdatedAt.Before(at)
}

func (n *Node) readyPods() int32 {
	var ready int32
	for i := range n.Pods {
		if n.Pods[i].serves() {
			ready++
		}
	}
	return ready
}

// serves reports whether the pod is ready and not about to end.
func (p *Pod) serves() bool { return p.Ready && p.stays() }

// stays reports whether the pod runs, or is to, and is not about to end.
func (p *Pod) stays() bool { return !p.Terminating && p.Failed == "" }

// Runs reports whether a pod of a revision runs on the node, ready or not.
func (n *Node) Runs(revision string) bool {
	return slices.ContainsFunc(n.Pods, func(p Pod) bool { return p.Running && p.Revision == revision })
}

// broken reports whether the node serves nothing: no pod is ready and its health checks fail.
func (n *Node) broken() bool { return n.checksFail() && n.readyPods() == 0 }

// out reports whether no new traffic can reach the node: its health checks fail, or where none counts,
// no pod is ready.
func (n *Node) out() bool {
	return n.checksFail() && (n.readyPods() == 0 || slices.ContainsFunc(n.Checks, Check.counts))
}

// checksFail reports whether every health check has answered that it fails, or nobody is there to
// answer. One that does not answer tells nothing.
func (n *Node) checksFail() bool {
	passes := slices.ContainsFunc(n.Checks, func(c Check) bool { return c.Serving })
	return !passes && n.unheard() == nil
}

// rolling reports whether the Deployment controller is still replacing pods. Older ones may be
// of the same revision, where somebody changed the template.
func (n *Node) rolling() bool {
	d := n.Deployment
	return !d.Settled || d.UpdatedReplicas != d.Replicas || d.OlderReplicas > 0 || n.between()
}

// servesAsItIs reports whether as many pods are ready as make the node serve, or as are asked for
// where that is fewer, at least one, and none of them is being replaced. The Deployment
// controller counts them as well: others may be what an earlier Deployment has left.
func (n *Node) servesAsItIs() bool {
	enough := max(1, min(n.Deployment.PodsPerNode, n.Deployment.Replicas))
	return min(n.readyPods(), n.Deployment.ReadyReplicas) >= enough && !n.rolling() && !n.anyTerminating()
}

// between reports whether older pods are left that are to be replaced.
func (n *Node) between() bool {
	return slices.ContainsFunc(n.Pods, func(p Pod) bool {
		return p.Revision != n.Deployment.Revision && p.stays()
	})
}

// shrinksMidway reports whether the node is to have fewer pods than it asks for by itself, while older
// ones are left that are to be replaced, of the same revision or of another.
func (n *Node) shrinksMidway(pods int32) bool {
	d := n.Deployment
	return pods < d.Replicas && d.Replicas == d.PodsPerNode && (n.between() || d.OlderReplicas > 0)
}

// complete reports whether every pod that the Deployment wants is available and no
// other pod is left, terminating ones included, whose listeners would still take
// connections. Older ones may be of the same revision, or of an earlier Deployment, and are
// told by the Deployment controller's counts or by their template: either may be seen before
// the other. Otherwise it says what is missing, and until when where that is known.
func (n *Node) complete(now time.Time, minReady time.Duration) (ok bool, reason string, until time.Time) {
	d := n.Deployment
	switch {
	case !d.Settled:
		return false, "the Deployment controller has not seen the change yet", until
	case d.Replicas != d.PodsPerNode:
		return false, fmt.Sprintf("%d of %d pods are asked for", d.Replicas, d.PodsPerNode), until
	case d.UpdatedReplicas != d.PodsPerNode:
		return false, fmt.Sprintf("%d of %d pods are updated", d.UpdatedReplicas, d.PodsPerNode), until
	case d.OlderReplicas > 0:
		return false, "an older pod is left", until
	}
	for _, p := range n.Pods {
		switch since := p.ReadySince.Add(minReady); {
		case p.Terminating:
			return false, "an older pod is terminating", until
		case p.Failed != "":
			return false, "a failed pod is left", until
		case p.Revision != d.Revision, p.ReplicaSet != n.presentReplicaSet():
			return false, "an older pod is left", until
		case !p.Ready, minReady == 0:
		case now.Before(since):
			if until.IsZero() || since.Before(until) {
				until = since
			}
		}
	}
	switch available := n.available(now, minReady); {
	case len(n.Pods) > int(d.PodsPerNode):
		return false, "a surplus pod is left", until
	case available != d.PodsPerNode:
		return false, n.because(fmt.Sprintf("%d of %d pods are available", available, d.PodsPerNode)), until
	case d.ReadyReplicas < d.PodsPerNode:
		return false, fmt.Sprintf("the Deployment controller counts %d of %d pods as ready", d.ReadyReplicas, d.PodsPerNode), until
	}
	return true, "", until
}

// because is what is missing, and why the first pod is not ready of which that is known: one of the
// present template before another.
func (n *Node) because(missing string) string {
	why := ""
	for _, p := range n.Pods {
		if p.Unready == "" || !p.stays() {
			continue
		}
		if n.isPresent(p) {
			return missing + ": " + p.Unready
		}
		if why == "" {
			why = ": " + p.Unready
		}
	}
	return missing + why
}

// available counts the pods of the Deployment's revision that have been ready for long
// enough. Where any time is, the kubelet's clock does not matter.
func (n *Node) available(now time.Time, minReady time.Duration) (available int32) {
	for _, p := range n.Pods {
		longEnough := minReady == 0 || !now.Before(p.ReadySince.Add(minReady))
		if p.serves() && p.Revision == n.Deployment.Revision && longEnough {
			available++
		}
	}
	return available
}

// checksPass reports whether all health checks that count pass, and since when.
func (n *Node) checksPass() (ok bool, since time.Time, reason string) {
	for _, c := range n.Checks {
		switch {
		case !c.counts():
			continue
		case !c.Answered:
			return false, since, fmt.Sprintf("its health check on port %d does not answer", c.Port)
		case !c.Serving:
			return false, since, fmt.Sprintf("its health check on port %d fails", c.Port)
		}
		since = later(since, c.Since)
	}
	return true, since, ""
}

// acknowledged reports whether every health check fails with the mark, or passes with one
// that lets it, and since when: as the answers say. A port that is silent fails where no health
// checker is left behind it, since that was seen and the node was marked: one that did not
// answer us, or not in time, may have passed until then. One that answers is heard, whatever
// is left; one that repeats no mark does not say since when, and may have passed between two
// looks until the node was marked.
func (n *Node) acknowledged(marked time.Time) (ok bool, since time.Time, reason string) {
	for _, c := range n.Checks {
		seen := c.Answered && (!c.Serving || n.marksServing()) && (c.Unmarked || c.Mark == n.Deployment.Mark)
		if !seen && !c.silenced() {
			return false, since, fmt.Sprintf("the health check on port %d does not answer with the mark yet", c.Port)
		}
		since = later(since, c.Since)
		switch {
		case c.silenced():
			since = later(since, later(c.SeenSilenced, marked))
		case c.Unmarked:
			since = later(since, marked)
		}
	}
	if len(n.Checks) == 0 {
		since = marked
	}
	return true, since, ""
}

// repeatsNoMark reports whether a health check is not one of ours, as that of kube-proxy.
func (n *Node) repeatsNoMark() bool {
	return slices.ContainsFunc(n.Checks, func(c Check) bool { return c.Unmarked })
}

// counts reports whether a load balancer may go by the port. None does by a retiring one that nobody
// asks, or behind which nobody is left.
func (c Check) counts() bool { return !c.Retiring || !c.Quiet && !c.silenced() }

// silenced reports whether nobody answers on the port because nobody is there.
func (c *Check) silenced() bool { return c.Gone && !c.Answered && !c.Accepted }

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// unheard is a health check of the node of which nobody knows what it answers, nil where there
// is none.
func (n *Node) unheard() *Check {
	i := slices.IndexFunc(n.Checks, func(c Check) bool { return !c.Answered && !c.silenced() })
	if i < 0 {
		return nil
	}
	return &n.Checks[i]
}

// blind reports whether a health checker of the node cannot see a mark.
func (n *Node) blind() bool {
	return slices.ContainsFunc(n.Checks, func(c Check) bool { return c.Blind != "" })
}

// asked reports whether the detacher is asked by the annotation that the strategy names.
func (n *Node) asked() bool { return n.Detachment.Requested && n.Detachment.Held }
