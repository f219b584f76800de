package rollout

import (
	"slices"
	"strings"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
)

// settleBooks closes the account of nodes that serve again, or are gone.
func (a *audit) settleBooks() {
	for name, action := range a.begun {
		n, d := a.w.nodes[name], a.w.deployments[name]
		if n == nil || d == nil || d.keptOut && d.mark != "" || d.mark == "" && (a.servesTruly(name) || a.attachedAgain(name) && action == Mark || a.noLongerCounts(name, action)) {
			delete(a.begun, name)
		}
	}
}

// noLongerCounts is whether a node that is not marked is free: one that leaves
// counts from its mark on, one that is NotReady is not out by our doing, and updates of nodes that serve are counted only as
// long as that is how nodes are updated.
func (a *audit) noLongerCounts(name string, begun Action) bool {
	n := a.w.nodes[name]
	d := a.w.deployments[name]
	late := !a.w.now.Before(d.attachedAt.Add(a.w.set.spec.Strategy().DetachTimeout))
	again := d.revision != a.w.set.revision || d.podsPerNode != a.w.set.spec.Pods()
	if n.moving && !n.holders[us] && (late || again) {
		// Its detacher does not put it back, or it waits for another turn: it is waited for no more.
		return true
	}
	return !n.wanted || !n.ready && !n.holders[us] || a.w.set.deletion != NotDeleted || begun == Update && a.w.set.spec.Strategy().Detaching
}

// servesTruly is whether a node takes part in the load balancing with all its pods,
// and nothing is to be tried there again.
func (a *audit) servesTruly(name string) bool {
	w, n, d := a.w, a.w.nodes[name], a.w.deployments[name]
	again := d != nil && d.hold != nil && d.hold.Revision == w.set.revision && d.podsPerNode == w.set.spec.Pods()
	return n != nil && d != nil && d.mark == "" && !again && a.attachedAgain(name) && a.incomplete(name) == ""
}

// attachedAgain is whether we let go of a node and its health checks pass. A
// machine that died is noticed by those, or else only by its Node.
func (a *audit) attachedAgain(name string) bool {
	n := a.w.nodes[name]
	if !n.ready || n.holders[us] || n.moving {
		return false
	}
	for _, port := range a.w.ports() {
		if c := n.checks[port]; c == nil || !c.up || !n.alive || !c.serving {
			return false
		}
	}
	return true
}

// incomplete says what is missing from the pods of a node, older ones that still
// terminate included (FACTS.md: 23 of 40 new connections reached those).
func (a *audit) incomplete(name string) string {
	d := a.w.deployments[name]
	if a.w.readyPods(name) < d.podsPerNode {
		return "too few pods are ready"
	}
	pods := int32(0)
	for _, p := range a.w.pods {
		switch {
		case p.node != name:
		case p.terminating:
			return "a pod is terminating"
		case p.template != d.template():
			return "an older pod is left"
		default:
			pods++
		}
	}
	if pods > d.podsPerNode {
		return "a surplus pod is left"
	}
	return ""
}

// checkBudget: a node is begun only within the budget and above the floor.
func (a *audit) checkBudget(seen *picture, s Step) {
	n := seen.node(s.Node)
	if n == nil || !begins(n, s) {
		return
	}
	_, retarget := a.begun[s.Node]
	a.begun[s.Node] = s.Action
	desired, others := 0, 0
	for i := range seen.Nodes {
		o := &seen.Nodes[i]
		if o.Wanted && seen.Deletion == NotDeleted {
			desired++
		}
		if o.Wanted && seen.Deletion == NotDeleted && o.Name != s.Node && a.begun[o.Name] == "" && isOut(o) {
			others++
		}
	}
	wanted := n.Wanted && seen.Deletion == NotDeleted
	budget := a.budget(seen, wanted && !n.Deployment.Detached)
	// A node that lacks pods in its turn goes on with it.
	retarget = retarget || degraded(seen, n) && slices.Contains(seen.Status.Wave, n.Name) && s.Action == Update
	if !retarget && len(a.begun) > budget {
		a.fault("%s: %d nodes are under way, %d may be: %v", s, len(a.begun), budget, a.begun)
	}
	if !retarget && !isOut(n) && !degraded(seen, n) && len(a.begun)+others > budget {
		a.fault("%s: %d nodes are under way and %d out, %d may be\n%s", s, len(a.begun), others, budget, summary(Plan(seen.State)))
	}
	a.checkFloor(seen, s, n, wanted, desired)
}

// degraded is whether nodes are to stay in the load balancer, and this one lacks
// pods in it already.
func degraded(seen *picture, n *Node) bool {
	done, _, _ := n.complete(seen.Now, time.Duration(seen.Spec.MinReadySeconds)*time.Second)
	return !seen.Spec.Strategy().Detaching && !done
}

// begins is whether the step takes a node out, or begins to replace pods that serve.
func begins(n *Node, s Step) bool {
	switch {
	case s.Action == Mark:
		return !s.Drained && !strings.HasSuffix(s.Mark, v1alpha1.MarkOutOfTurn)
	case s.Action != Update || n.Marked() || !n.Deployment.DrainedAt.IsZero():
		return false
	case s.Hold != nil && n.Deployment.Revision == s.Revision:
		return false
	}
	return !isOut(n) || n.readyPods() > 0
}

func (a *audit) budget(seen *picture, wanted bool) int {
	nodes := 0
	for _, n := range seen.Nodes {
		if n.Wanted {
			nodes++
		}
	}
	budget, _ := v1alpha1.Resolve(seen.Spec.Strategy().MaxNodes, nodes)
	if !wanted {
		budget = max(1, budget)
	}
	return budget
}

// checkCheckers: no health checker is replaced while its answer keeps traffic away
// from pods, and no node is taken out while its checker is being replaced.
func (a *audit) checkCheckers(seen *picture, s Step) {
	replaces := s.Action == DeleteChecker && seen.Deletion == NotDeleted || s.Action == ApplyChecker && a.w.daemonSets[s.Port] != nil && a.w.daemonSets[s.Port].outdated
	for name, d := range a.w.deployments {
		n := a.w.nodes[name]
		// The new checker of a node that is out for long fails until it has read the mark.
		if replaces && d.mark != "" && n != nil && n.ready && !d.keptOut && a.w.readyPods(name) > 0 {
			a.fault("%s while %s is marked", s, name)
		}
	}
	n := seen.node(s.Node)
	if s.Action != Mark || s.Drained || strings.HasSuffix(s.Mark, v1alpha1.MarkOutOfTurn) || !n.Wanted || n.Marked() || seen.Deletion != NotDeleted {
		return
	}
	w := a.w.nodes[s.Node]
	if w == nil {
		return
	}
	for _, c := range w.checks {
		if !c.settled {
			a.fault("%s while its health checker is being replaced", s)
		}
	}
}

// checkFloor: a node is not taken out when too few go on serving.
func (a *audit) checkFloor(seen *picture, s Step, n *Node, wanted bool, desired int) {
	if s.Action != Mark || isOut(n) {
		return
	}
	floor := seen.Spec.Strategy().MinServingNodes
	if !wanted {
		floor = min(floor, desired)
	} else if !seen.Spec.Strategy().Detaching && !n.Deployment.Detached {
		return
	}
	left := 0
	for i := range seen.Nodes {
		o := &seen.Nodes[i]
		if o.Wanted && o.Name != s.Node && a.begun[o.Name] == "" && !isOut(o) && o.readyPods() > 0 {
			left++
		}
	}
	if left < floor {
		a.fault("%s: %d nodes are left serving, %d must be", s, left, floor)
	}
}

// isOut is whether no new traffic reaches a node, for whatever reason.
func isOut(n *Node) bool {
	switch {
	case !n.Ready || n.Deployment == nil || n.Marked() || n.Detachment.Requested || n.Detachment.Held || n.Detachment.Moving:
		return true
	case len(n.Checks) == 0:
		return n.readyPods() == 0
	}
	return slices.ContainsFunc(n.Checks, func(c Check) bool { return !c.Answered || !c.Serving })
}

// rejected counts a pod that a kubelet rejected.
func (a *audit) rejected(p *simPod) {
	if a.runsForeignPods(p.node) {
		return
	}
	a.failed[p.node]++
	if a.failed[p.node] > 20 && !a.w.controllerAway() {
		a.fault("%s: %d pods failed in one attempt", p.node, a.failed[p.node])
	}
}

// runsForeignPods is whether pods of a template that somebody else wrote run on a
// node: nobody could then go back without giving them up.
func (a *audit) runsForeignPods(name string) bool {
	return slices.ContainsFunc(a.w.pods, func(p *simPod) bool {
		return p.node == name && p.running && p.template != p.revision+"/0"
	})
}

// checkHeldPods: holding a node back takes no pod from it that served.
func (a *audit) checkHeldPods() {
	for name, floor := range a.floor {
		d := a.w.deployments[name]
		if d == nil || a.w.nodes[name] == nil {
			delete(a.floor, name)
			continue
		}
		kept := int32(0)
		for _, s := range d.sets {
			kept += min(s.size, int32(len(a.w.podsOf(d, s))))
		}
		if kept < floor {
			a.fault("%s is held back at %d pods, %d served before", name, kept, floor)
		}
	}
}

// reports keeps an eye on the status.
func (a *audit) reports(s v1alpha1.IngressDaemonSetStatus) {
	a.checkVerdict(s)
	if s.ServingNodes+s.DegradedNodes+s.UnavailableNodes != s.DesiredNodes {
		a.fault("%d serving + %d degraded + %d unavailable nodes are not the %d desired", s.ServingNodes, s.DegradedNodes, s.UnavailableNodes, s.DesiredNodes)
	}
}

// controllerAway is whether no controller could react at the moment.
func (w *world) controllerAway() bool {
	if !w.set.exists || w.set.deletion == DeleteAtOnce || w.set.deletion == DeleteOrphaning {
		return true
	}
	return !slices.ContainsFunc(w.leaders, func(l *leader) bool {
		return !l.stopped && l.stale == nil && l.crashes == 0
	})
}
