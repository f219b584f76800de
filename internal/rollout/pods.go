package rollout

import (
	"maps"
	"slices"
)

// untried reports whether the Deployment controller has yet to see what is tried again: what was
// rejected was so before.
func (d *Deployment) untried() bool {
	return d.Hold != nil && d.Hold.Trying && d.Hold.Attempts > 0 && !d.Settled
}

// taintEvicted reports whether a taint has taken pods from the node: each new one would be deleted
// as fast as its ReplicaSet makes it. Until then they may use the time that they
// tolerate the taint, and those that tolerate it for good stay.
func (n *Node) taintEvicted() bool {
	if !n.Tainted {
		return false
	}
	_, _, all, _ := n.running()
	return all < n.Deployment.Replicas
}

// doomed reports whether a pod was made in place of those that a taint has evicted: that it
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

// settled reports whether the pods that are asked for are there, and no others.
func (n *Node) settled() bool {
	d := n.Deployment
	other := func(p Pod) bool { return !p.Ready || p.Terminating || p.Failed != "" || p.Revision != d.Revision }
	return d.Settled && d.OlderReplicas == 0 && d.Replicas == int32(len(n.Pods)) && !slices.ContainsFunc(n.Pods, other)
}

// uncounted reports whether a pod is there that the Deployment controller has not told of yet. Its
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

// nudged reports whether a pod more is asked for by a nudge.
func (n *Node) nudged(pods int32) bool {
	d := n.Deployment
	return n.updatedInTurn() && d.PodsPerNode == pods && d.Replicas == pods+1
}

// heldBack reports whether fewer pods are asked for, or older ones.
func (d *Deployment) heldBack() bool { return d.Hold != nil && !d.Hold.Trying }

func (d *Deployment) partly() bool {
	return d.Hold != nil && d.Hold.Trying && d.Hold.Replicas != d.PodsPerNode
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

func (n *Node) anyFailed() bool {
	return slices.ContainsFunc(n.Pods, func(p Pod) bool { return p.Failed != "" && !p.Terminating })
}

// strays reports whether pods do not run of a template of which none does, and which is not the
// Deployment's. They are made anew for as long as their ReplicaSet asks for them.
func (n *Node) strays() bool {
	return slices.ContainsFunc(n.Pods, func(p Pod) bool {
		runs := func(other Pod) bool {
			return other.Running && !other.Terminating && other.Revision == p.Revision && other.ReplicaSet == p.ReplicaSet
		}
		return !p.Running && !p.Terminating && !n.isPresent(p) && !slices.ContainsFunc(n.Pods, runs)
	})
}

// othersServe reports whether a pod serves that is not of the Deployment's present template.
func (n *Node) othersServe() bool {
	return slices.ContainsFunc(n.Pods, func(p Pod) bool { return p.serves() && !n.isPresent(p) })
}

// presentServes reports whether a pod serves that is of the Deployment's present template.
func (n *Node) presentServes() bool {
	return slices.ContainsFunc(n.Pods, func(p Pod) bool { return p.serves() && n.isPresent(p) })
}

// isPresent reports whether a pod is of the Deployment's present template.
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

// running counts the pods that run: of the Deployment's present template, of the other
// one that has most of them, and all. oldest is one of the other.
func (n *Node) running() (present, older, all int32, oldest Pod) {
	counts, now := n.templatesRunning()
	for _, p := range n.Pods {
		if c := counts[p.template()]; p.template() != now && c > older {
			older, oldest = c, p
		}
	}
	return counts[now], older, sum(slices.Collect(maps.Values(counts))), oldest
}

// othersRunning counts the pods that run of each template but the present one.
func (n *Node) othersRunning() []int32 {
	counts, now := n.templatesRunning()
	delete(counts, now)
	return slices.Collect(maps.Values(counts))
}

// templatesRunning counts the pods that run of each template. now is the present one.
func (n *Node) templatesRunning() (counts map[template]int32, now template) {
	counts = map[template]int32{}
	for _, p := range n.Pods {
		if p.Running && p.stays() && !n.doomed(p) {
			counts[p.template()]++
		}
	}
	return counts, template{n.Deployment.Revision, n.presentReplicaSet()}
}

// template is what tells pods' templates apart.
type template struct{ revision, hash string }

func (p *Pod) template() template { return template{p.Revision, p.ReplicaSet} }
