package controller

import (
	"slices"
	"strings"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/nodehealth/healthclient"
	"github.com/mumoshu/ingress-daemonset-controller/internal/rollout"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// settleBooks closes the account of nodes that serve again, or are gone.
func (a *audit) settleBooks() {
	for name, action := range a.begun {
		n, d := a.w.nodes[name], a.w.deployments[name]
		returned := n != nil && d != nil && a.graceOver(d) && (a.servesTruly(name) || a.attachedAgain(name) && action == rollout.Mark)
		switch {
		case n == nil || d == nil || !d.marked() && (returned || a.noLongerCounts(name, action)):
			delete(a.begun, name)
			delete(a.lapsed, name)
		case !a.counted(name), !d.marked() && (!n.wanted() || d.podsPerNode() == 0):
			a.lapsed[name] = true
		}
	}
}

// graceOver reports whether a node that we let go has been in the load balancer for the attach grace,
// before which that may send it nothing yet.
func (a *audit) graceOver(d *simDeployment) bool {
	return a.w.now.Sub(d.releasedAt) >= a.w.spec().Strategy().AttachGrace
}

// counted reports whether the budget counts a node as begun at present. Not while somebody keeps it
// out, or it is NotReady or not in the node set and not out by our doing: then it is out, or serves
// nobody's minimum, for others' reasons, and goes on where it was when these end.
func (a *audit) counted(name string) bool {
	if a.begun[name] == "" {
		return false
	}
	n, d := a.w.nodes[name], a.w.deployments[name]
	return n == nil || d == nil || !(d.keptOut() && d.marked()) && (d.marked() || n.ready() && n.wanted() || n.requested())
}

// noLongerCounts reports whether a node that is not marked is free: one that leaves before its pods
// were touched counts from its mark on, one that is to have no pods has come to rest when none
// serves, and updates of nodes that serve are counted only as long as that is how nodes are
// updated.
func (a *audit) noLongerCounts(name string, begun rollout.Action) bool {
	n := a.w.nodes[name]
	leaves := !n.wanted() && begun == rollout.Mark
	emptied := a.w.deployments[name].podsPerNode() == 0 && a.w.readyPods(name) == 0
	return leaves || emptied || a.deletion() != rollout.NotDeleted || begun == rollout.Update && a.w.spec().Strategy().Detaching
}

// servesTruly reports whether a node takes part in the load balancing with all its pods,
// and nothing is to be tried there again.
func (a *audit) servesTruly(name string) bool {
	w, n, d := a.w, a.w.nodes[name], a.w.deployments[name]
	again := d != nil && w.triedAgain(d)
	return n != nil && d != nil && !d.marked() && !again && a.attachedAgain(name) && a.incomplete(name) == ""
}

// unnoticed is for how long a machine may be dead while its health checks seem to pass: a
// question that waits there shows no life for that long.
const unnoticed = 15 * time.Second

// attachedAgain reports whether we let go of a node and its health checks pass. A
// machine that died is noticed by those, or else only by its Node.
func (a *audit) attachedAgain(name string) bool {
	n := a.w.nodes[name]
	moving := n.api.Annotations[v1alpha1.AnnotationNodeDetaching] == "true" && a.w.seenSince(n.movingSince)
	if !n.ready() || n.requested() || moving {
		return false
	}
	for _, port := range a.w.spec().HealthCheckNodePorts {
		dead := !n.alive && a.w.now.Sub(n.unready) > unnoticed
		c := n.checks[port]
		switch forgotten := a.w.now.Sub(n.died) < unnoticed; {
		case dead:
			return false
		case forgotten:
			// Nobody knows what follows while a question waits that the machine has forgotten.
			continue
		case c == nil || !c.up:
			return false
		}
		// Of one that answers slowly, or not at all, nobody knows sooner.
		unheard := c.slow > 0 && a.w.now.Sub(c.failing) < c.slow+aMoment || c.hangs && a.w.now.Sub(c.hungAt) < unnoticed
		// Nor of one whose question was answered for want of news: the next comes a second later.
		unheard = unheard || len(c.waiting) == 0 && a.w.now.Sub(c.failing) < askPlainEvery
		if !c.serving && !unheard {
			return false
		}
	}
	return a.w.spec().ServiceName == "" || !a.w.proxied || n.proxy.serving || a.w.now.Sub(n.proxy.failing) < unheardByProxy
}

// incomplete says what is missing from the pods of a node, older ones that still
// terminate included (FACTS.md: 23 of 40 new connections reached those).
func (a *audit) incomplete(name string) string {
	d := a.w.deployments[name]
	if a.w.readyPods(name) < d.podsPerNode() {
		return "too few pods are ready"
	}
	pods := int32(0)
	for _, p := range a.w.pods {
		switch {
		case p.node != name:
		case p.terminating:
			return "a pod is terminating"
		case p.set.hash != d.hash:
			return "an older pod is left"
		default:
			pods++
		}
	}
	if pods > d.podsPerNode() {
		return "a surplus pod is left"
	}
	return ""
}

// checkBudget: a node is begun only within the budget and as minServingNodes permits.
func (a *audit) checkBudget(seen *picture, s rollout.Step) {
	n := seen.node(s.Node)
	if n == nil || !a.begins(n, s) {
		return
	}
	retarget := a.counted(s.Node) && !a.lapsed[s.Node]
	a.begun[s.Node] = s.Action
	delete(a.lapsed, s.Node)
	desired, others := 0, []string(nil)
	for i := range seen.Nodes {
		o := &seen.Nodes[i]
		if o.Wanted && seen.Deletion == rollout.NotDeleted {
			desired++
		}
		if o.Wanted && seen.Deletion == rollout.NotDeleted && o.Name != s.Node && !a.counted(o.Name) && (a.isOut(o) || a.heardSilent(o.Name) || a.unripe(seen, o)) && !a.ignored(seen, o.Name) {
			others = append(others, o.Name)
		}
	}
	wanted := n.Wanted && seen.Deletion == rollout.NotDeleted
	budget := a.budget(seen, wanted && !n.Deployment.Detached)
	retarget = retarget || goesOn(seen, n, s)
	underWay, out := 0, len(others)
	for name := range a.begun {
		if a.ignored(seen, name) || name != s.Node && !a.counted(name) {
			continue
		}
		out++
		if left := a.unreturned(name, &seen.Spec) || a.released(name) && !slices.Contains(seen.Status.Wave, name); name == s.Node || !a.isOut(n) || !left {
			underWay++
		}
	}
	if !retarget && underWay > budget {
		a.fault("%s: %d nodes are under way, %d may be: %v", s, underWay, budget, a.begun)
	}
	if !retarget && !a.isOut(n) && !(degraded(seen, n) && ready(n) < n.Deployment.PodsPerNode) && out > budget {
		a.fault("%s: %d nodes are under way or out, %d may be: %v and %v\n%s", s, out, budget, a.begun, others, inWords(seen.decision))
	}
	a.checkMinServing(seen, s, n, wanted, desired)
}

// ignored reports whether the budget does not count a node: it was seen to be NotReady for longer
// than the spec says, or is to have no pods.
func (a *audit) ignored(seen *picture, name string) bool {
	n, o, after := a.w.nodes[name], seen.node(name), seen.Spec.Strategy().IgnoreNotReadyAfter
	if o != nil && o.Deployment != nil && o.Deployment.PodsPerNode == 0 && o.Deployment.Replicas == 0 && !o.Marked() {
		return true
	}
	return after > 0 && n != nil && o != nil && !o.Ready && !seen.at.Before(n.notReadySince.Add(after))
}

// unripe reports whether a node that waits for nothing else has pods that are not ready for
// minReadySeconds yet, of which who writes has heard. Whoever began to lead since does not know.
func (a *audit) unripe(seen *picture, o *rollout.Node) bool {
	d, minReady, goal := o.Deployment, time.Duration(seen.Spec.MinReadySeconds)*time.Second, seen.Revision
	if r := seen.Status.Rejected; r != nil && r.Revision == seen.Revision {
		goal = seen.Status.CurrentRevision
	}
	if d == nil || o.Marked() || d.Detached || d.Drifted || d.Hold != nil || d.Revision != goal || d.PodsPerNode != seen.Spec.Pods() || d.Replicas != d.PodsPerNode {
		return false
	}
	return slices.ContainsFunc(a.w.pods, func(p *simPod) bool {
		heard := p.readySince.Before(seen.taken) && a.w.writer != nil && a.w.writer.began.Before(p.readySince)
		return p.node == o.Name && p.ready && !p.terminating && heard && a.w.now.Before(p.readySince.Add(minReady-aMoment))
	})
}

// unreturned reports whether a detacher does not put back a node in time that was released: it
// uses up the budget, but nobody waits for it any more.
func (a *audit) unreturned(name string, spec *v1alpha1.IngressDaemonSetSpec) bool {
	d := a.w.deployments[name]
	return a.released(name) && a.w.now.Sub(d.attachedAt) >= spec.Strategy().DetachTimeout
}

// released reports whether nothing of ours keeps a node out any more.
func (a *audit) released(name string) bool {
	n, d := a.w.nodes[name], a.w.deployments[name]
	return n != nil && d != nil && !d.marked() && !n.requested()
}

// goesOn reports whether a step goes on with the turn of a node of the wave: it lacks pods and stays in
// the load balancer, or its detacher is asked for it and somebody took its mark; or it was held back,
// and is tried with another template.
func goesOn(seen *picture, n *rollout.Node, s rollout.Step) bool {
	inPlace := degraded(seen, n) && s.Action == rollout.Update
	askedFor := n.Detachment.Requested && n.Wanted && lacks(n) && !n.Deployment.Detached && s.Action == rollout.Mark
	tried := s.Action == rollout.Update && n.Deployment.Hold != nil && n.Deployment.Hold.Revision != s.Revision
	return (inPlace || askedFor || tried) && slices.Contains(seen.Status.Wave, n.Name)
}

// degraded reports whether nodes are to stay in the load balancer, and this one lacks
// pods in it already.
func degraded(seen *picture, n *rollout.Node) bool {
	return !seen.Spec.Strategy().Detaching && lacks(n)
}

// begins reports whether the step takes a node out, or begins to replace pods that serve.
func (a *audit) begins(n *rollout.Node, s rollout.Step) bool {
	switch {
	case s.Action == rollout.Mark:
		// One that lets the health checks pass is changed into another: the node is out already.
		changed := n.Deployment != nil && strings.HasSuffix(string(n.Deployment.Mark), v1alpha1.MarkServing)
		return !s.Drained && !outOfTurn(string(s.Mark)) && !changed
	case s.Action != rollout.Update || n.Marked() || n.Deployment.Drained:
		return false
	case s.Hold != nil && n.Deployment.Revision == s.Revision:
		// An attempt goes on, which counted for nothing while somebody had the node have no pods.
		return a.lapsed[s.Node]
	}
	return !a.isOut(n) || ready(n) > 0
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

// checkMinServing: a node is not taken out when too few go on serving.
func (a *audit) checkMinServing(seen *picture, s rollout.Step, n *rollout.Node, wanted bool, desired int) {
	if s.Action != rollout.Mark || a.isOut(n) {
		return
	}
	least, err := v1alpha1.Resolve(seen.Spec.Strategy().MinServingNodes, desired)
	if err != nil {
		a.fault("%s: %v", s, err)
	}
	if !wanted {
		least = min(least, desired)
	} else if !seen.Spec.Strategy().Detaching && !n.Deployment.Detached && seen.Spec.Pods() > 0 {
		return
	}
	// A degraded node counts for no minimum. One that begins by the same decision, and after this
	// one in it, served still.
	steps := seen.decision.Steps
	first := slices.IndexFunc(steps, func(o rollout.Step) bool { return o.Node == s.Node && o.Action == rollout.Mark })
	beside := func(name string) bool {
		return slices.ContainsFunc(steps[max(0, first):], func(o rollout.Step) bool { return o.Node == name && o.Action == rollout.Update })
	}
	left := 0
	for i := range seen.Nodes {
		o := &seen.Nodes[i]
		if o.Wanted && o.Name != s.Node && (!a.takenOut(o.Name) || beside(o.Name)) && !a.isOut(o) && !a.heardSilent(o.Name) && ready(o) > 0 {
			left++
		}
	}
	if left < least {
		a.fault("%s: %d nodes are left serving, %d must be", s, left, least)
	}
}

// takenOut reports whether a node was begun with, and not so that some of its pods go on serving.
func (a *audit) takenOut(name string) bool {
	t := a.turnOf(name)
	inPlace := a.begun[name] == rollout.Update && t.degraded && t.keep > 0
	return a.begun[name] != "" && !inPlace
}

// silent reports whether a port of a node has accepted questions and answered none for so
// long that the load balancer has taken the node out.
func (a *audit) silent(name string) bool {
	n := a.w.nodes[name]
	if n == nil {
		return false
	}
	for _, port := range a.w.spec().HealthCheckNodePorts {
		if c := n.checks[port]; c != nil && c.hangs && a.w.now.Sub(c.hungAt) > 30*time.Second {
			return true
		}
	}
	return false
}

// heardSilent reports whether whoever writes knows that a node is silent: a controller that thaws
// and had no question waiting there asks anew, and waits.
func (a *audit) heardSilent(name string) bool {
	l := a.w.writer
	return a.silent(name) && (l == nil || l.frozenUntil.IsZero() || a.w.now.Sub(l.frozenUntil) > healthclient.Silence+aMoment)
}

// isOut reports whether no new traffic reaches a node, for whatever reason. What a port of before
// says that nobody else asks, no load balancer hears, and a node that is none of those for which
// the port was named has no health checker of it (docs/concepts/rollout.md).
func (a *audit) isOut(n *rollout.Node) bool {
	switch {
	case !n.Ready || n.Deployment == nil || n.Marked() || n.Detachment.Requested || n.Detachment.Held || n.Detachment.Moving:
		return true
	case len(n.Checks) == 0:
		return ready(n) == 0
	}
	return slices.ContainsFunc(n.Checks, func(c rollout.Check) bool {
		return !(c.Retiring && (c.Quiet || a.w.strangeTo(n.Name, c.Port))) && (!c.Answered || !c.Serving)
	})
}

// strangeTo reports whether a node is none of those on which a port's health checkers run.
func (w *world) strangeTo(name string, port int32) bool {
	s, n := w.daemonSets[port], w.nodes[name]
	return s != nil && n != nil && !s.runsOn(n)
}

// rejected counts a pod that a kubelet rejected.
func (a *audit) rejected(p *simPod) {
	a.w.rejections[p.node]++
	d := a.w.deployments[p.node]
	if d == nil {
		// It is of a ReplicaSet that somebody left without its Deployment.
		a.failed[p.node] = 0
		return
	}
	if a.runsForeignPods(p.node) || slices.ContainsFunc(d.sets, func(s *replicaSet) bool { return a.w.refused[imageOf(s.template)] && (s.size > 0 || s.hash == d.hash) }) {
		// Nobody can then write to its Deployment, to ask for fewer or to go back.
		return
	}
	if a.stopsHalfway(d) {
		return
	}
	if a.w.controllerAway() {
		a.away = a.w.now
	}
	// One that is back finds what has gathered, and hears all ports first: a dead node's
	// are dialled twice, for 3 seconds.
	if !a.away.IsZero() && a.w.now.Sub(a.away) < 10*time.Second {
		a.failed[p.node] = 0
		return
	}
	a.failed[p.node]++
	if a.failed[p.node] > 20 {
		a.fault("%s: %d pods failed in one attempt", p.node, a.failed[p.node])
	}
}

// stopsHalfway reports whether a node is held back where it is, before its turn or on its way out,
// and runs pods of a ReplicaSet that is as large as the one whose pods are rejected. Of two equal
// ones the Deployment controller takes from the elder, so that nothing can be done before the node
// is out.
func (a *audit) stopsHalfway(d *simDeployment) bool {
	strategy := a.w.spec().Strategy()
	onItsWay := !d.marked() || a.w.now.Sub(d.markedAt) <= strategy.MarkGrace+strategy.DetachTimeout
	if !d.api.Spec.Paused || !onItsWay {
		return false
	}
	size := func(present bool) (largest int32) {
		for _, s := range d.sets {
			runs := slices.ContainsFunc(a.w.pods, func(p *simPod) bool { return p.set == s && p.running && !p.terminating })
			if (s.hash == d.hash) == present && runs {
				largest = max(largest, s.size)
			}
		}
		return largest
	}
	return size(false) > 0 && size(false) >= size(true)
}

// evicted counts a pod that a taint took, where it was made after the taint had taken others.
func (a *audit) evicted(n *simNode, p *simPod) {
	delete(a.mustKeep, n.name)
	switch {
	case n.evictedAt.IsZero():
		n.evictedAt = a.w.now
	case !p.created.Before(n.evictedAt):
		a.rejected(p)
	}
}

// runsForeignPods reports whether pods of a template that somebody else wrote run on a
// node: nobody could then go back without giving them up.
func (a *audit) runsForeignPods(name string) bool {
	d := a.w.deployments[name]
	return d != nil && slices.ContainsFunc(a.w.pods, func(p *simPod) bool {
		return p.node == name && p.running && a.turnOf(name).foreign && p.set.hash == d.hash
	})
}

// reports keeps an eye on the status.
func (a *audit) reports(before, after *v1alpha1.IngressDaemonSetStatus) {
	a.checkVerdict(before, after)
	a.checkTemplates(before, after)
	a.checkStanding(after)
	if after.ServingNodes+after.DegradedNodes+after.UnavailableNodes != after.DesiredNodes {
		a.fault("%d serving + %d degraded + %d unavailable nodes are not the %d desired", after.ServingNodes, after.DegradedNodes, after.UnavailableNodes, after.DesiredNodes)
	}
}

// controllerAway reports whether no controller could react at the moment. One whose watch lags
// knows no more than one that is not there: in a second a taint takes more pods than may go
// in one attempt.
func (w *world) controllerAway() bool {
	set := w.set()
	leftToOthers := set != nil && set.DeletionTimestamp != nil && !slices.Contains(set.Finalizers, v1alpha1.Finalizer)
	if set == nil || leftToOthers || w.audit.deletion() == rollout.DeleteAtOnce {
		return true
	}
	return !slices.ContainsFunc(w.leaders, func(l *leader) bool {
		return !l.stopped && l.session().checks.heardAll() && !w.now.Before(l.frozenUntil) && w.now.Sub(l.asOf()) <= usualLag
	})
}

// deletion reports whether and how the IngressDaemonSet is being deleted.
func (a *audit) deletion() rollout.Deletion {
	set := a.w.set()
	switch {
	case set == nil:
		return rollout.DeleteInWaves
	case set.DeletionTimestamp == nil:
		return rollout.NotDeleted
	case slices.Contains(set.Finalizers, metav1.FinalizerDeleteDependents):
		return rollout.DeleteAtOnce
	case slices.Contains(set.Finalizers, metav1.FinalizerOrphanDependents):
		return rollout.DeleteOrphaning
	}
	return rollout.DeleteInWaves
}

// outOfTurn reports whether a mark waits for no budget, since the node served nothing.
func outOfTurn(mark string) bool { return strings.HasSuffix(mark, v1alpha1.MarkOutOfTurn) }

func ready(n *rollout.Node) (count int32) {
	for _, p := range n.Pods {
		if p.Ready && !p.Terminating && p.Failed == "" {
			count++
		}
	}
	return count
}

// lacks reports whether pods of the node are missing, or too many.
func lacks(n *rollout.Node) bool {
	d := n.Deployment
	return d == nil || !d.Settled || d.Replicas != d.PodsPerNode || d.UpdatedReplicas != d.PodsPerNode || d.ReadyReplicas < d.PodsPerNode || ready(n) != d.PodsPerNode || len(n.Pods) != int(d.PodsPerNode) ||
		slices.ContainsFunc(n.Pods, func(p rollout.Pod) bool { return p.Revision != d.Revision })
}
