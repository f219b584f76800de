package controller

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/rollout"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// audit holds what becomes of every write against what must never happen. It judges by
// the world itself and by its own books, and never by the planner's code.
type audit struct {
	w *world
	// faults are what was found; the test fails on the first.
	faults []string
	// turns are what the controller may do to the pods of a node at present.
	turns map[string]*turn
	// begun are the nodes that we took out or began to update, until they serve
	// again, and how.
	begun map[string]rollout.Action
	// lapsed are those of them that begin anew where they are taken out again.
	lapsed map[string]bool
	// the writes of the controller are counted by node.
	deploymentWrites, nodeWrites map[string]int
	// failed counts the rejected pods of a node since its last attempt, and
	// mustKeep is how many ready pods it must keep while it is held back.
	failed   map[string]int
	mustKeep map[string]int32
	// away is when a pod was last rejected while no controller was there.
	away time.Time
	// measurements are how many passed and failed, by analysis and check.
	passed, failures map[string]int32

	decisions int
	// marks counts the marks of a node with one generation of the spec, repeats how often
	// the same was written to it in a row.
	marks   map[string]int
	repeats map[string]int
	// lastBy is who wrote the last step of a node.
	lastBy map[string]*leader
	// timedOut is the generation of the spec with which the detachment of a node timed out.
	timedOut map[string]int64
	last     map[string]string
	// since is when something that must end was first seen.
	since map[string]time.Time
	// strayed are the nodes that were written to, and the slices that were made, when the object
	// was gone: by a controller that was frozen between its last look and that write, which nothing
	// can refuse.
	strayed map[string]bool
}

func newAudit(w *world) *audit {
	return &audit{
		w: w, turns: map[string]*turn{}, begun: map[string]rollout.Action{}, lapsed: map[string]bool{}, deploymentWrites: map[string]int{}, nodeWrites: map[string]int{},
		failed: map[string]int{}, mustKeep: map[string]int32{}, passed: map[string]int32{}, failures: map[string]int32{},
		marks: map[string]int{}, repeats: map[string]int{}, timedOut: map[string]int64{}, last: map[string]string{}, lastBy: map[string]*leader{}, since: map[string]time.Time{},
		strayed: map[string]bool{},
	}
}

func (a *audit) fault(format string, args ...any) {
	what := fmt.Sprintf(format, args...)
	for hash, word := range a.w.words {
		what = strings.ReplaceAll(what, hash, word)
	}
	a.faults = append(a.faults, a.w.now.Sub(start).String()+": "+what)
}

// decided checks what holds of every decision.
func (a *audit) decided(seen *picture, d rollout.Decision) {
	a.decisions++
	a.settleBooks()
	a.settleTurns()
	if a.decisions%20 == 0 {
		a.checkPure(seen.State, d)
	}
	a.checkHeldPods()
	a.checkEnds()
	a.checkPublished()
}

// acts checks a step that is being carried out.
func (a *audit) acts(seen *picture, s rollout.Step) {
	a.settleBooks()
	a.settleTurns()
	a.checkRepeats(seen, s)
	foreign := a.runsForeignPods(s.Node)
	a.permits(seen, s)
	a.strayed[s.Node] = a.strayed[s.Node] || a.w.set() == nil
	if s.Action == rollout.Delete && a.w.orphans && a.w.nodes[s.Node] != nil && seen.Deletion != rollout.NotDeleted {
		a.fault("%s although the Deployments are to stay", s)
	}
	switch s.Action {
	case rollout.Update, rollout.ScaleToZero, rollout.Delete:
		a.failed[s.Node] = 0
		delete(a.mustKeep, s.Node)
	case rollout.Unmark:
		if seen.Deletion == rollout.NotDeleted && seen.taken.Equal(a.w.now) {
			a.checkComplete(seen, s)
		}
	case rollout.HoldBack:
		if !a.protected(s.Node) && !a.w.nodes[s.Node].evicts() && !foreign {
			a.mustKeep[s.Node] = min(a.availablePods(s.Node), a.mustRun(s.Node), a.keptPods(s.Node))
		}
	}
	a.checkCheckers(seen, s)
	a.checkBudget(seen, s)
	a.checkAnalysed(seen, s)
	a.checkAnnotation(seen, s)
}

// checkAnnotation: nothing is asked by an annotation that the operator does not permit, and
// no node is marked to ask by it, but one that serves nothing, or that is asked for by it already.
func (a *audit) checkAnnotation(seen *picture, s rollout.Step) {
	asks := seen.Spec.Strategy().AnnotateNode
	if asks == nil || s.Drained || s.Action != rollout.RequestDetachment && s.Action != rollout.Mark {
		return
	}
	permitted := slices.ContainsFunc(append([]rollout.Detacher{{Ask: detacherKey, Answer: detacherTimestamp}}, seen.Detachers...), func(d rollout.Detacher) bool {
		return d.Ask == asks.Key && (asks.TimestampKey == "" || asks.TimestampKey == d.Answer)
	})
	n := seen.node(s.Node)
	asked := false
	if node := a.w.nodes[s.Node]; node != nil && n.Detachment.Requested {
		_, asked = node.api.Annotations[asks.Key]
	}
	again := s.Action == rollout.Mark && (n.Marked() || asked || outOfTurn(string(s.Mark)))
	if !again && !permitted {
		a.fault("%s by %s and %s, which are not permitted", s, asks.Key, asks.TimestampKey)
	}
}

// leavesBehind: what an IngressDaemonSet leaves when it is deleted is nobody's again, or the
// garbage collector would delete it after it, also where the object is gone by then: in this
// world no other of its name follows that could adopt it. A revision that goes takes nothing
// with it.
func (a *audit) leavesBehind(before, after client.Object) {
	switch after.(type) {
	case *appsv1.ControllerRevision, *appsv1.ReplicaSet:
		return
	}
	owned := func(obj client.Object) bool { return obj != nil && metav1.GetControllerOfNoCopy(obj) != nil }
	if before != nil && owned(after) && !owned(before) {
		a.fault("%s is adopted although it was left behind", after.GetName())
	}
	if _, slice := after.(*discoveryv1.EndpointSlice); slice && before == nil {
		// It goes with the object unless it is left, which is judged then.
		a.strayed[after.GetName()] = a.w.set() == nil
		return
	}
	if set := a.w.set(); a.deletion() == rollout.DeleteOrphaning && set != nil && set.DeletionTimestamp.Time.Before(a.w.now) && owned(after) && !owned(before) {
		a.fault("%s is adopted although it is to be left", after.GetName())
	}
}

// collects judges what the garbage collector deletes of an IngressDaemonSet that is gone.
func (a *audit) collects(obj client.Object) {
	if a.w.orphans && !a.strayed[nodeOf(obj)] && !a.strayed[obj.GetName()] {
		a.fault("the garbage collector deletes %s, which was to be left", obj.GetName())
	}
}

// checkLeft: nobody is left to publish again what an IngressDaemonSet leaves behind.
func (a *audit) checkLeft() {
	for _, obj := range a.w.api.All("EndpointSlice") {
		for _, e := range obj.(*discoveryv1.EndpointSlice).Endpoints {
			d := a.w.deployments[*e.NodeName]
			stays := slices.ContainsFunc(a.w.pods, func(p *simPod) bool { return p.name == e.TargetRef.Name && !p.terminating })
			if a.w.orphans && d != nil && !d.marked() && stays && *e.Conditions.Terminating {
				a.fault("%s is left as under update on %s", e.TargetRef.Name, *e.NodeName)
			}
		}
	}
}

// counts counts the writes of the controller to the objects of a node.
func (a *audit) counts(obj client.Object) {
	switch obj := obj.(type) {
	case *appsv1.Deployment:
		a.deploymentWrites[nodeOf(obj)]++
	case *corev1.Node:
		a.nodeWrites[obj.Name]++
	}
}

// permits follows what a step permits to the controllers of Deployments.
func (a *audit) permits(seen *picture, s rollout.Step) {
	d := a.w.deployments[s.Node]
	if d == nil || s.Action == rollout.Stamp {
		return
	}
	t := a.turnOf(s.Node)
	detached := a.attached(s.Node, &seen.Spec) == "" || a.outOfTime(seen, s)
	if n := a.w.nodes[s.Node]; n != nil && !n.tampered.Before(seen.taken) {
		// Nobody could have known.
		detached = true
	}
	switch s.Action {
	case rollout.Create:
		// What somebody did to the one before is over with it.
		*t = turn{overruled: a.overrules(t)}
	case rollout.ReleaseDetachment:
		mark, marked := d.mark()
		began, _ := v1alpha1.Mark(mark).At()
		if reason := a.incomplete(s.Node); marked && !d.updatedAt().Before(began) && reason != "" && seen.Deletion == rollout.NotDeleted && a.w.nodes[s.Node] != nil {
			a.fault("%s although %s", s, reason)
		}
	case rollout.Mark:
		// Who drains it is beyond the budget. Somebody may have written that it is drained.
		if n := a.w.nodes[s.Node]; s.Drained && n != nil && a.longTaken(n) && !seen.node(s.Node).Deployment.Drained {
			a.fault("%s although nobody has taken a pod of it lately", s)
		}
		if outOfTurn(string(s.Mark)) {
			// That it was begun before is over: it serves nothing, and is not of the budget.
			delete(a.begun, s.Node)
			delete(a.lapsed, s.Node)
		}
		if outOfTurn(string(s.Mark)) && !a.servesNothing(s.Node, seen.taken) {
			a.fault("%s although it serves", s)
		}
	case rollout.Unmark:
		// An update that its Deployment goes on with is bounded as before. One that an orphaning deletion
		// has waited for as long as any goes on when nobody is left.
		left := t.detached && seen.Deletion == rollout.DeleteOrphaning && a.w.now.Sub(t.updated) >= seen.Spec.ProgressDeadline()
		*t = turn{detached: left, foreign: t.foreign, stirs: t.stirs, held: t.held, overruled: t.overruled, degraded: t.degraded, keep: t.keep}
	case rollout.Update, rollout.ScaleToZero, rollout.Delete:
		*t = turn{detached: detached, updated: a.w.now, overruled: a.overrules(t)}
		if s.Action == rollout.Delete && !detached {
			t.why = a.attached(s.Node, &seen.Spec)
		}
		if s.Action == rollout.Update && !seen.Spec.Strategy().Detaching && !seen.node(s.Node).Marked() && mayReplace(seen, s) {
			// One that had fewer, since there is no room for more, must not have less. Pods that it had
			// beside as many as it asked for are those of the update before.
			t.degraded, t.keep = true, min(mustStay(&seen.Spec, d), a.w.readyPods(s.Node), seen.node(s.Node).Deployment.Replicas)
		}
	case rollout.HoldBack:
		t.overruled = a.overrules(t)
		t.detached, t.foreign, t.held = t.detached || detached, false, true
	case rollout.SetFields:
		t.detached = t.detached || detached
		if t.degraded && !seen.Spec.Strategy().Detaching && slices.Contains(seen.Status.Wave, s.Node) {
			// The spec may permit more, or less, in the middle of a node's own turn.
			t.kept, t.keep, t.changed = t.keep, mustStay(&seen.Spec, d), a.w.now
		}
	}
	t.step, t.spec = s.String(), seen.Spec
}

// servesNothing reports whether nobody could tell, by what was so at a time, that a node
// serves: neither by a pod that the API server calls ready nor by a port.
func (a *audit) servesNothing(name string, then time.Time) bool {
	n := a.w.nodes[name]
	if n == nil {
		return true
	}
	for _, p := range a.w.pods {
		if p.node == name && p.ready && !p.notReadyByNode && !p.terminating && p.readySince.Before(then) {
			return false
		}
	}
	if !n.alive {
		// A machine that died gives no answer.
		return true
	}
	told := func(c *simCheck) bool { return c.tellsBy(then) }
	// Who thaws has not heard kube-proxy since.
	deaf := a.w.writer != nil && a.w.now.Sub(a.w.writer.frozenUntil) < unheardByProxy
	byProxy := !deaf && a.w.spec().ServiceName != "" && a.w.proxied && n.proxy.tellsBy(then.Add(-askPlainEvery))
	return !byProxy && !slices.ContainsFunc(a.w.heeded(n, a.w.spec()), told)
}

// checkComplete: a node whose pods were updated in its turn is attached only when
// they are complete. Where somebody else took its mark, its turn is over. Who stops a pod in
// the moment of that write was not to be seen.
func (a *audit) checkComplete(seen *picture, s rollout.Step) {
	mark, marked := a.w.deployments[s.Node].mark()
	began, _ := v1alpha1.Mark(mark).At()
	reason := a.incomplete(s.Node)
	if marked && reason != "" && !a.w.deployments[s.Node].updatedAt().Before(began) && a.w.nodes[s.Node].alive && !a.w.nodes[s.Node].unready.Equal(a.w.now) {
		a.fault("%s although %s", s, reason)
	}
}

// availablePods are those of a node that its Deployment controller does not clean up: to it,
// one that is ready for too short a time is as one that does not run.
func (a *audit) availablePods(name string) (n int32) {
	d := a.w.deployments[name]
	for _, s := range d.sets {
		n += a.w.available(d, s)
	}
	return n
}

// mustRun is how many pods of a node a rolling update must leave available.
func (a *audit) mustRun(name string) int32 {
	pods := a.w.deployments[name].podsPerNode()
	unavailable := a.w.spec().Strategy().MaxUnavailablePods
	return pods - scaled(&unavailable, pods, false)
}

// protected reports whether the loss of a pod of the node loses no request.
func (a *audit) protected(name string) bool {
	return a.w.nodes[name] == nil || a.attached(name, a.w.spec()) == ""
}

// attached says why traffic may still reach a node that the spec says how to take out,
// or nothing.
func (a *audit) attached(name string, spec *v1alpha1.IngressDaemonSetSpec) string {
	w, n, d := a.w, a.w.nodes[name], a.w.deployments[name]
	if n == nil || d == nil {
		return ""
	}
	strategy := spec.Strategy()
	mark, marked := d.mark()
	if !marked {
		return "its Deployment is not marked"
	}
	passes := strings.HasSuffix(mark, v1alpha1.MarkServing)
	if passes && (strategy.AnnotateNode == nil || strategy.AnnotateNode.TimestampKey == "") {
		return "its health checks pass, and nobody has taken it out"
	}
	began := time.Time{}
	if spec.ServiceName != "" && w.proxied && !passes {
		if n.proxy.serving && w.now.Sub(n.proxy.since) > unheardByProxy {
			return "kube-proxy does not fail"
		}
		began = n.proxy.failed.Add(-unheardByProxy)
	}
	for _, c := range w.heeded(n, spec) {
		held := c.silentSince()
		if !c.silent() {
			// One that went down since it failed with the mark attracts no traffic either.
			if c.serving && !passes || c.mark != mark {
				return fmt.Sprintf("port %d does not fail with the mark", c.port)
			}
			if held = c.failed; c.serving {
				held = c.same
			}
		}
		if held.After(began) {
			began = held
		}
	}
	if w.now.Before(began.Add(strategy.MarkGrace)) {
		return "the grace after the mark is not over"
	}
	if at := strategy.AnnotateNode; at != nil && !(outOfTurn(mark) && (w.readyPods(name) == 0 || a.readyUnseen(name))) {
		_, held := n.api.Annotations[at.Key]
		switch {
		case !held:
			return "the Node is not annotated"
		case w.now.Before(n.askedAt[at.Key].Add(at.Grace)):
			return "the grace after the annotation is not over"
		case at.TimestampKey != "" && !n.detached[at.Key]:
			return "the detacher has not detached it"
		case at.TimestampKey != "" && w.now.Before(n.detachedAt[at.Key].Add(at.TimestampGrace)):
			return "the grace after the timestamp is not over"
		}
	}
	return ""
}

// outOfTime reports whether the detachment took longer than it may and the node goes all the same.
func (a *audit) outOfTime(seen *picture, s rollout.Step) bool {
	n, d := seen.node(s.Node), a.w.deployments[s.Node]
	strategy := seen.Spec.Strategy()
	if n == nil || d == nil || !d.marked() {
		return false
	}
	mark, _ := d.mark()
	limit := strategy.DetachTimeout + strategy.MarkGrace
	if at := strategy.AnnotateNode; at != nil {
		limit += at.Grace + at.TimestampGrace
	}
	marked := d.markedAt
	late := !a.w.now.Before(marked.Add(limit))
	leaves := !n.Wanted || s.Action == rollout.ScaleToZero || seen.Deletion != rollout.NotDeleted
	began, _ := v1alpha1.Mark(mark).At()
	updated := !d.updatedAt().Before(began)
	return late && (leaves || strategy.ProceedOnTimeout || updated)
}

// checkHeldPods: holding a node back takes no pod from it that served.
func (a *audit) checkHeldPods() {
	for name, least := range a.mustKeep {
		d := a.w.deployments[name]
		if d == nil || a.w.nodes[name] == nil {
			delete(a.mustKeep, name)
			continue
		}
		if kept := a.keptPods(name); kept < least {
			a.fault("%s is held back at %d pods, %d served before", name, kept, least)
		}
	}
}

// keptPods are those of a node that nobody has chosen to stop yet.
func (a *audit) keptPods(name string) (kept int32) {
	d := a.w.deployments[name]
	for _, s := range d.sets {
		kept += min(s.size, int32(len(a.w.podsOf(d, s))))
	}
	return kept
}

// aMoment is how long a write may be under way, and what it does until pods see it.
const aMoment = 5 * time.Second

func (p *picture) node(name string) *rollout.Node {
	i := slices.IndexFunc(p.Nodes, func(n rollout.Node) bool { return n.Name == name })
	if i < 0 {
		return nil
	}
	return &p.Nodes[i]
}

func percent(n int) *intstr.IntOrString { return new(intstr.FromString(fmt.Sprintf("%d%%", n))) }
func number(n int) *intstr.IntOrString  { return new(intstr.FromInt32(int32(n))) }
