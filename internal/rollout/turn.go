package rollout

import (
	"maps"
	"slices"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
)

// A rule says what the turn of a node comes to, and whether that is all: what those say that
// leave it to the next one, such as when to look again, is kept.
type rule func(*pass, *view) (said verdict, all bool)

// rules stand in the order in which they hold. Of a node in the set that is not out for anything
// else the last three take turns: what was rejected is tried again, a marked node goes on with
// its turn, and one that is attached may have to wait for it.
var rules = []rule{
	(*pass).isGone,
	(*pass).lacksDeployment,
	(*pass).isLeft,
	(*pass).isDeleted,
	(*pass).stopsStorm,
	(*pass).leavesSet,
	(*pass).isDrained,
	(*pass).isWantedOut,
	(*pass).triesAgain,
	(*pass).isMarked,
	(*pass).isAttached,
}

// follow goes by the first rule that says all.
func (p *pass) follow(v *view) (w verdict) {
	for _, rule := range rules {
		said, all := rule(p, v)
		if w = w.and(said); all {
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

// isGone drops what is left of a node that is gone.
func (p *pass) isGone(v *view) (verdict, bool) {
	if v.Exists {
		return verdict{}, false
	}
	w := verdict{state: v1alpha1.NodeRemoving, reason: "the Node is gone"}
	if v.Deployment != nil && !v.Deployment.Deleting {
		w = w.act(Step{Action: Delete, Reason: "the Node is gone"})
	}
	return w, true
}

func (p *pass) lacksDeployment(v *view) (verdict, bool) {
	if v.Deployment != nil || !v.Wanted {
		return verdict{}, false
	}
	w := verdict{state: v1alpha1.NodeUnavailable, reason: "its Deployment does not exist yet"}
	if v.target == "" {
		return w, true
	}
	accepted := p.accepted(v.target)
	if w = w.given(accepted); !accepted.yes {
		return w, true
	}
	rejected := ""
	if p.rejected != nil {
		rejected = p.rejected.Revision
	}
	left := v.leftOver(rejected)
	return w.act(Step{Action: Create, Revision: v.target, Replicas: p.pods, ReplicaSet: left, Rolling: v.keepsServing(left), Reason: "the node needs pods", At: p.Now}), true
}

// isLeft releases a node whose Deployment is gone, once its last pod is gone too.
// A NotReady node may never come back to tell that.
func (p *pass) isLeft(v *view) (verdict, bool) {
	switch {
	case v.Deployment != nil:
		return verdict{}, false
	case len(v.Pods) > 0 && v.Ready:
		return waits(v1alpha1.NodeRemoving, p.Now, "its pods are terminating").and(p.podsLeft(v)), true
	case v.Detachment.Requested:
		return waits(v1alpha1.NodeRemoving, p.Now, "the Node is being released").
			act(Step{Action: ReleaseDetachment, Reason: "no pod is left on it"}), true
	}
	return verdict{}, true
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

func (p *pass) isDeleted(v *view) (verdict, bool) {
	if !v.Deployment.Deleting {
		return verdict{}, false
	}
	return waits(v1alpha1.NodeRemoving, p.Now, "its Deployment is being deleted"), true
}

func (p *pass) leavesSet(v *view) (verdict, bool) {
	if v.Wanted {
		return verdict{}, false
	}
	return p.remove(v), true
}

func (p *pass) isDrained(v *view) (verdict, bool) {
	if !v.drained() && !p.drains(v) {
		return verdict{}, false
	}
	return p.drain(v), true
}

func (p *pass) isWantedOut(v *view) (verdict, bool) {
	if !v.keptOut() {
		return verdict{}, false
	}
	return p.keepOut(v), true
}

func (p *pass) isMarked(v *view) (verdict, bool) {
	if !v.Marked() {
		return verdict{}, false
	}
	return p.finish(v), true
}

func (p *pass) isAttached(v *view) (verdict, bool) { return p.attached(v), true }

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

// miscounted is whether nothing is wrong with the pods of a node but how many of them make it
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

// mayReshape is whether fields of the Deployment may be set by which its controller
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
