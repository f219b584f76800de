package controller

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// simNode is a Node and the machine behind it.
type simNode struct {
	w       *world
	name    string
	address string
	// api is the Node as it stands in the API server.
	api *corev1.Node
	// alive says whether the machine runs, skew how far its clock is ahead.
	alive bool
	skew  time.Duration
	// capacity is how many pods fit, those that terminate included; 0 means any
	// number. rejects says whether the kubelet rejects every new pod.
	capacity int
	rejects  bool
	// detached is what the detacher has taken out, by the key that asks for it.
	detached map[string]bool
	// askedAt is since when a key asks, detachedAt since when it is answered.
	askedAt, detachedAt map[string]time.Time
	// moving says whether the detacher has not put back all of it yet, movingSince when it began.
	moving      bool
	movingSince time.Time
	// tolerated is for how long pods tolerate the taint, taints how often there was one,
	// evictedAt when the present one first took a pod.
	tolerated time.Duration
	taints    int
	evictedAt time.Time
	// drains counts how often somebody drained it, or ended that.
	drains int
	// tampered is when somebody wrote to the annotations by hand.
	tampered time.Time
	checks   map[int32]*simCheck
	// proxy is kube-proxy, which answers for the Service.
	proxy *simCheck
	// notReadySince is when the Node was last called NotReady.
	notReadySince time.Time
	// unready is when a pod of the node was last lost to others than the controller.
	unready time.Time
	// taken is when somebody else last asked for the end of a pod of the node, drainedAt when by
	// an eviction, cordonedAt when somebody last cordoned it.
	taken, drainedAt, cordonedAt time.Time
	// died is when the machine died last.
	died time.Time
}

const nodeLabel = "ingress"

// addNode lets a node join.
func (w *world) addNode(name string, with map[string]string) *simNode {
	w.count++
	n := &simNode{
		w: w, name: name, address: fmt.Sprintf("10.0.%d.%d", w.count/250, w.count%250+1), alive: true,
		detached: map[string]bool{}, askedAt: map[string]time.Time{}, detachedAt: map[string]time.Time{}, checks: map[int32]*simCheck{},
	}
	if w.kubeletsApart > 0 {
		n.skew = w.between(-w.kubeletsApart, w.kubeletsApart)
	}
	all := map[string]string{nodeLabel: "true"}
	maps.Copy(all, with)
	w.nodes[name], w.addresses[n.address] = n, n
	n.api = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: all}, Status: corev1.NodeStatus{
		Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
		Addresses:  []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: n.address}},
	}}
	n.proxy = &simCheck{node: n, port: proxyPort, up: true}
	w.api.Put(n.api)
	w.placeCheckers(n)
	return n
}

// edit writes a Node.
func (w *world) edit(n *simNode, change func(*corev1.Node)) {
	if w.nodes[n.name] == n {
		node := n.api.DeepCopy()
		change(node)
		w.must(w.user("somebody").Update(ctx, node, client.FieldOwner("somebody")))
	}
}

// nodeChanged follows what is written to a Node.
func (w *world) nodeChanged(before client.Object, after *corev1.Node) {
	n := w.nodes[after.Name]
	was := n.api != nil && n.wanted()
	n.api = after
	for key := range w.detacher.keys {
		_, asked := after.Annotations[key]
		if _, before := n.askedAt[key]; asked && !before {
			n.askedAt[key] = w.now
		} else if !asked {
			delete(n.askedAt, key)
		}
	}
	if before == nil {
		return
	}
	old := before.(*corev1.Node)
	if old.Spec.Unschedulable != after.Spec.Unschedulable || !maps.Equal(old.Annotations, after.Annotations) {
		w.annotated(n)
	}
	if was && !n.wanted() {
		w.movedAt = w.now
	}
	if !maps.Equal(old.Labels, after.Labels) || !slices.Equal(old.Spec.Taints, after.Spec.Taints) {
		w.after(w.between(50*time.Millisecond, 500*time.Millisecond), func() { w.placeCheckers(n) })
		w.checkersChanged(n.name)
	}
}

// checkers are the node's health checkers, in order of their ports.
func (n *simNode) checkers() []*simCheck {
	var out []*simCheck
	for _, port := range slices.Sorted(maps.Keys(n.checks)) {
		out = append(out, n.checks[port])
	}
	return out
}

// wanted reports whether the node is in the node set.
func (n *simNode) wanted() bool { return n.selected() && !n.tainted() }

// selected reports whether its labels are those of the node set.
func (n *simNode) selected() bool {
	return labels.SelectorFromSet(n.w.selector).Matches(labelSet(n.api))
}

// tainted reports whether the node repels pods of every template here.
func (n *simNode) tainted() bool {
	return slices.ContainsFunc(n.api.Spec.Taints, func(t corev1.Taint) bool { return t.Effect == corev1.TaintEffectNoExecute })
}

// evicts reports whether a taint has taken pods from the node, and those that come after them
// only tolerate it for a time.
func (n *simNode) evicts() bool { return n.tainted() && !n.evictedAt.IsZero() }

// taint has the taint eviction controller delete the pods of a node, after a while where
// they tolerate the taint for one.
func (w *world) taint(n *simNode, tolerated time.Duration) {
	if n.tainted() {
		return
	}
	w.edit(n, func(node *corev1.Node) {
		node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: "repairs", Effect: corev1.TaintEffectNoExecute})
	})
	n.tolerated, n.taints, n.evictedAt = tolerated, n.taints+1, time.Time{}
	for _, p := range w.pods {
		if p.node == n.name {
			w.tolerates(p)
		}
	}
}

// tolerates has the taint eviction controller delete a pod after the time for which it
// tolerates the taint of its node.
func (w *world) tolerates(p *simPod) {
	n := w.nodes[p.node]
	if n == nil || !n.tainted() {
		return
	}
	taints := n.taints
	w.after(n.tolerated+50*time.Millisecond, func() {
		if n.tainted() && n.taints == taints && w.has(p) && p.failed == "" {
			w.audit.evicted(n, p)
			p.disrupted = "DeletionByTaintManager"
			w.deletePod(p, others)
		}
	})
}

func (w *world) untaint(n *simNode) {
	w.edit(n, func(node *corev1.Node) { node.Spec.Taints = nil })
}

func (n *simNode) ready() bool {
	return n.api.Status.Conditions[0].Status == corev1.ConditionTrue
}

// requested reports whether we ask for the node's detachment.
func (n *simNode) requested() bool {
	for key := range n.api.Annotations {
		if strings.HasPrefix(key, v1alpha1.AnnotationDetachPrefix) {
			return true
		}
	}
	return false
}

// removeNode deletes a Node object; the pod garbage collector deletes its pods
// after its quarantine of 40 seconds.
func (w *world) removeNode(name string) {
	n := w.nodes[name]
	w.movedAt = w.now
	delete(w.nodes, name)
	delete(w.addresses, n.address)
	w.api.Remove("Node", "", name)
	for _, c := range append(n.checkers(), n.proxy) {
		w.stopAnswering(c)
	}
	w.after(40*time.Second, func() {
		if w.nodes[name] != nil {
			return
		}
		for _, p := range slices.Clone(w.pods) {
			if p.node == name {
				w.removePod(p)
			}
		}
		for _, c := range n.checkers() {
			w.removeChecker(c)
		}
	})
}

// kill lets a machine die; the node lifecycle controller notices after 40 seconds.
func (w *world) kill(n *simNode) {
	n.alive, n.unready, n.died = false, w.now, w.now
	for _, c := range append(n.checkers(), n.proxy) {
		w.fallSilent(c)
	}
	w.after(40*time.Second, func() { w.setReady(n, n.alive) })
}

func (w *world) revive(n *simNode) {
	if n.alive {
		return
	}
	n.alive = true
	w.after(w.between(time.Second, 5*time.Second), func() { w.setReady(n, n.alive) })
	w.kubeletStarts(n)
	w.checkersChanged(n.name)
	w.proxySoon(n)
}

// cutOff lets the API server hear nothing of a machine that runs on.
func (w *world) cutOff(n *simNode, d time.Duration) {
	if n.alive {
		w.setReady(n, false)
		w.after(d, func() { w.setReady(n, n.alive) })
	}
}

func (w *world) setReady(n *simNode, ready bool) {
	if w.nodes[n.name] != n || n.ready() == ready {
		return
	}
	if !ready {
		n.notReadySince, w.movedAt = w.now, w.now
	}
	status := map[bool]corev1.ConditionStatus{true: corev1.ConditionTrue, false: corev1.ConditionUnknown}[ready]
	w.tell("cluster", "node %s is %s", n.name, map[bool]string{true: "Ready", false: "NotReady"}[ready])
	w.edit(n, func(node *corev1.Node) {
		node.Status.Conditions[0].Status, node.Status.Conditions[0].LastTransitionTime = status, metav1.NewTime(w.now.Add(n.skew))
	})
	// It also says of each pod that it is not ready; a kubelet that is back says otherwise.
	for _, p := range slices.Clone(w.pods) {
		if p.node == n.name && p.ready && !ready {
			p.notReadyByNode = true
			w.putPod(p)
		} else if p.node == n.name && p.notReadyByNode && ready {
			p.notReadyByNode = false
			w.putPod(p)
		}
	}
	w.podsChanged(n.name)
}

// setWanted changes the labels that put a node into the node set.
func (w *world) setWanted(n *simNode, wanted bool) {
	if (n.api.Labels[nodeLabel] == "true") != wanted {
		w.edit(n, func(node *corev1.Node) { node.Labels[nodeLabel] = fmt.Sprint(wanted) })
	}
}

// simDetacher takes nodes out of the load balancer as node-detacher does: it
// detaches a Node that carries the annotation or is cordoned, and writes when;
// without that it attaches the Node again and removes the timestamp. One that it
// never wrote itself stays until it detaches. One that tells says on the Node, too,
// when all of it is attached.
type simDetacher struct {
	answers, tells bool
	// keys are the annotations that it knows, each with that of its timestamp.
	keys map[string]string
	// slowest is the longest that it takes, skew how far its clock is ahead.
	slowest, skew time.Duration
}

// annotated follows a change of a Node's annotations.
func (w *world) annotated(n *simNode) {
	w.after(w.between(200*time.Millisecond, max(w.detacher.slowest, 300*time.Millisecond)), func() {
		if w.nodes[n.name] == n && w.detacher.answers {
			w.detach(n)
		}
	})
}

func (w *world) detach(n *simNode) {
	for _, key := range slices.Sorted(maps.Keys(w.detacher.keys)) {
		w.detachBy(n, key, w.detacher.keys[key])
	}
}

func (w *world) detachBy(n *simNode, key, timestamp string) {
	_, held := n.api.Annotations[key]
	held = held || n.api.Spec.Unschedulable
	switch {
	case held && !n.detached[key]:
		n.detached[key], n.moving, n.detachedAt[key] = true, w.detacher.tells, w.now.Truncate(time.Second)
		n.movingSince = w.now
		w.tell("detacher", "%s is out of the load balancer, and says so with a timestamp", n.name)
		w.edit(n, func(node *corev1.Node) {
			annotate(node, timestamp, w.now.Add(w.detacher.skew).Format(time.RFC3339))
			w.sayMoving(n, node)
		})
	case !held && n.detached[key]:
		delete(n.detached, key)
		w.tell("detacher", "%s is in the load balancer again, its timestamp is cleared", n.name)
		w.edit(n, func(node *corev1.Node) { annotate(node, timestamp, "") })
		w.putBack(n)
	case !held && n.moving:
		w.putBack(n)
	}
}

func (w *world) sayMoving(n *simNode, node *corev1.Node) {
	if w.detacher.tells {
		annotate(node, v1alpha1.AnnotationNodeDetaching, fmt.Sprint(n.moving))
	}
}

// putBack ends when the last load balancer finds the node healthy.
func (w *world) putBack(n *simNode) {
	w.after(w.between(time.Second, 40*time.Second), func() {
		if w.nodes[n.name] == n && w.detacher.answers && n.moving && len(n.detached) == 0 {
			n.moving = false
			w.tell("detacher", "%s is healthy in all its load balancers", n.name)
			w.edit(n, func(node *corev1.Node) { w.sayMoving(n, node) })
		}
	})
}

// detacherReturns lets a detacher that was away catch up.
func (w *world) detacherReturns() {
	w.detacher.answers = true
	for _, name := range w.order() {
		w.annotated(w.nodes[name])
	}
}

// firstKey is the annotation by which others ask, too.
func (w *world) firstKey() string { return slices.Min(slices.Collect(maps.Keys(w.detacher.keys))) }

// hold lets somebody else ask for a detachment, or let go. A timestamp that was left
// from an earlier detachment goes at once then: nobody could tell it from the
// answer to that request.
func (w *world) hold(n *simNode, on bool) {
	if len(w.detacher.keys) == 0 {
		return
	}
	key := w.firstKey()
	w.dropStrayTimestamps(n)
	config := map[string]any{"apiVersion": "v1", "kind": "Node", "metadata": map[string]any{"name": n.name}}
	if on {
		value, there := n.api.Annotations[key]
		if !there {
			value = others
		}
		config["metadata"].(map[string]any)["annotations"] = map[string]any{key: value}
	}
	u := &unstructured.Unstructured{Object: config}
	w.must(w.user(others).Apply(ctx, client.ApplyConfigurationFromUnstructured(u), client.FieldOwner(others)))
}

// dropStrayRequests is somebody who sees a Node detached that nobody on record asks for:
// without the record ours is like anybody's.
func (w *world) dropStrayRequests(n *simNode) {
	if n.requested() {
		return
	}
	w.edit(n, func(node *corev1.Node) {
		for key := range w.detacher.keys {
			annotate(node, key, "")
		}
	})
}

func (w *world) dropStrayTimestamps(n *simNode) {
	for _, key := range slices.Sorted(maps.Keys(w.detacher.keys)) {
		timestamp := w.detacher.keys[key]
		if n.api.Annotations[timestamp] != "" && !n.detached[key] {
			w.edit(n, func(node *corev1.Node) { annotate(node, timestamp, "") })
		}
	}
}
