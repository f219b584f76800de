package rollout

import (
	"maps"
	"slices"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
)

// rule is what the turn of a node comes to where it holds.
type rule struct {
	holds func(*pass, *view) bool
	says  func(*pass, *view) verdict
	// mayGoOn says whether its verdict may have the next rule that holds say something, too.
	mayGoOn bool
}

// rules stand in the order in which they hold. What one says that goes on to the next, such as
// when to look again, is kept. Of a node in the set that is not out for anything else the last
// three take turns: what was rejected is tried again, a marked node goes on with its turn, and
// one that is attached may have to wait for it.
var rules = []rule{
	{holds: (*pass).isGone, says: (*pass).forget},
	{holds: (*pass).lacksDeployment, says: (*pass).create},
	{holds: (*pass).isLeft, says: (*pass).leave},
	{holds: (*pass).isDeleted, says: (*pass).awaitDeletion},
	{holds: (*pass).rejectsPods, says: (*pass).stopRejections, mayGoOn: true},
	{holds: (*pass).leavesSet, says: (*pass).remove},
	{holds: (*pass).isDrained, says: (*pass).drain},
	{holds: (*pass).isWantedOut, says: (*pass).keepOut},
	{holds: (*pass).wasTried, says: (*pass).tryAgain, mayGoOn: true},
	{holds: (*pass).isMarked, says: (*pass).finish},
	{holds: (*pass).isAttached, says: (*pass).attached},
}

func (p *pass) isGone(v *view) bool          { return !v.Exists }
func (p *pass) lacksDeployment(v *view) bool { return v.Deployment == nil && v.Wanted }
func (p *pass) isLeft(v *view) bool          { return v.Deployment == nil }
func (p *pass) isDeleted(v *view) bool       { return v.Deployment.Deleting }
func (p *pass) leavesSet(v *view) bool       { return !v.Wanted }
func (p *pass) isDrained(v *view) bool       { return v.drained() || p.drains(v) }
func (p *pass) isWantedOut(v *view) bool     { return v.keptOut() }
func (p *pass) isMarked(v *view) bool        { return v.Marked() }
func (p *pass) isAttached(*view) bool        { return true }

// follow goes by the rules that hold, up to the first that does not go on to the next.
func (p *pass) follow(v *view) (w verdict) {
	for _, rule := range rules {
		if !rule.holds(p, v) {
			continue
		}
		if w = w.and(rule.says(p, v)); !rule.mayGoOn || !w.goesOn {
			break
		}
	}
	return w
}

// turn is the next step of a node on its way, or leaves it to continueWave where it must wait
// for its turn. Fields that restart no pod are set where nothing else is to be done.
func (p *pass) turn(v *view) verdict {
	w, d := p.follow(v), v.Deployment
	if d != nil && d.Outmoded && !w.acted && !d.Deleting && !d.heldBack() && !d.partly() && p.mayReshape(v) {
		w = w.act(Step{Action: SetFields, Hold: d.Hold, Reason: "fields that restart no pod differ from the spec"})
	}
	if d != nil && !w.acted && p.miscounted(v) {
		w = w.act(Step{Action: SetFields, Hold: d.Hold, PodsPerNode: new(p.pods), Reason: "somebody changed how many pods make it serve"})
	}
	return w
}

// forget drops what is left of a node that is gone.
func (p *pass) forget(v *view) verdict {
	w := waits(v1alpha1.NodeRemoving, time.Time{}, "the Node is gone")
	if v.Deployment != nil && !v.Deployment.Deleting {
		w = w.act(Step{Action: Delete, Reason: "the Node is gone"})
	}
	return w
}

func (p *pass) create(v *view) verdict {
	w := waits(v1alpha1.NodeUnavailable, time.Time{}, "its Deployment does not exist yet")
	if v.target == "" {
		return w
	}
	accepted := p.accepted(v.target)
	if w = w.given(accepted); !accepted.yes {
		return w
	}
	rejected := ""
	if p.rejected != nil {
		rejected = p.rejected.Revision
	}
	left := v.leftOver(rejected)
	return w.act(Step{Action: Create, Revision: v.target, Replicas: p.pods, ReplicaSet: left, Rolling: v.keepsServing(left), Reason: "the node needs pods", At: p.Now})
}

// leave releases a node whose Deployment is gone, once its last pod is gone too.
// A NotReady node may never come back to tell that.
func (p *pass) leave(v *view) verdict {
	switch {
	case len(v.Pods) > 0 && v.Ready:
		return waits(v1alpha1.NodeRemoving, p.Now, "its pods are terminating").and(p.podsLeft(v))
	case v.Detachment.Requested:
		return waits(v1alpha1.NodeRemoving, p.Now, "the Node is being released").
			act(Step{Action: ReleaseDetachment, Reason: "no pod is left on it"})
	}
	return verdict{}
}

// podsLeft tells of pods that nobody stops: their Deployment cannot be found, and the garbage
// collector has had its time.
func (p *pass) podsLeft(v *view) (w verdict) {
	i := slices.IndexFunc(v.Pods, func(pod Pod) bool { return pod.stays() })
	if i < 0 {
		return w
	}
	collected := p.over(v.seen.Updated.Add(collectedAfter))
	if w = w.given(collected); collected.yes {
		w.reason = "pod " + v.Pods[i].Name + " is left, and its Deployment is not found"
		w.blocks = []Fault{{v1alpha1.ReasonPodsLeft, "node " + v.Name + " is kept: " + w.reason +
			": put back the label and the annotation that somebody took from it, or delete it"}}
	}
	return w
}

// collectedAfter is how long pods may run whose Deployment is gone.
const collectedAfter = time.Minute

func (p *pass) awaitDeletion(*view) verdict {
	return waits(v1alpha1.NodeRemoving, p.Now, "its Deployment is being deleted")
}

// keepsServing is how a Deployment that is made again of a ReplicaSet replaces pods of others that
// serve, with which the one before was in the middle of an update: as many as it asks for serve
// meanwhile, since the node is attached. Where none serves it is as the spec says.
func (n *Node) keepsServing(hash string) (how Rolling) {
	for i := range n.Pods {
		if pod := &n.Pods[i]; pod.serves() && pod.ReplicaSet != hash {
			how.Surge++
		}
	}
	return how
}

// leftOver is the ReplicaSet of most of the pods that serve where there is no Deployment, or of
// most that are to stay where none serves; empty where none stays. They may have been left behind,
// as by a deletion of their Deployment with --cascade=orphan: the new one takes them over, and
// would replace those of another template, or stop those that are too many, while traffic reaches
// them. Those that do not serve may do so in a moment, as after a restart, but for those of a
// template that was rejected.
func (n *Node) leftOver(rejected string) (hash string) {
	weight := map[string]int{}
	for i := range n.Pods {
		switch pod := &n.Pods[i]; {
		case pod.serves():
			weight[pod.ReplicaSet] += 1 + len(n.Pods)
		case pod.stays() && pod.Revision != rejected:
			weight[pod.ReplicaSet]++
		}
	}
	for _, other := range slices.Sorted(maps.Keys(weight)) {
		if weight[other] > weight[hash] {
			hash = other
		}
	}
	return hash
}

// miscounted reports whether nothing is wrong with the pods of a node but how many of them make it
// serve, as somebody wrote: it would be down until its turn, which does not come while the
// rollout is paused. One that is held back would go on with its turn beside those that began
// since.
func (p *pass) miscounted(v *view) bool {
	d := *v.Deployment
	if !v.Wanted || v.Marked() || d.Drifted || d.heldBack() || d.Deleting || d.PodsPerNode == p.pods {
		return false
	}
	n := *v.Node
	n.Deployment, d.PodsPerNode = &d, p.pods
	whole, _, _ := n.complete(p.Now, 0)
	return whole
}

// mayReshape reports whether fields of the Deployment may be set by which its controller
// replaces pods: while it does, only in the node's own turn, and only where as many pods are
// asked for as the strategy counts from. Another strategy in the middle of that could stop all
// pods of a node that traffic reaches.
func (p *pass) mayReshape(v *view) bool {
	if v.Marked() {
		return !v.rolling() || v.updatedInTurn()
	}
	whole := v.Deployment.Replicas >= v.Deployment.PodsPerNode
	ownTurn := p.rollsInTurn(v) && whole
	return !v.rolling() || ownTurn
}
