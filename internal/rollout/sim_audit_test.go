package rollout

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
)

// audit holds every write against what must never happen. It judges by the
// world itself and by its own books, and never by the planner's code.
type audit struct {
	w *world
	// faults are what was found; the test fails on the first.
	faults []string
	// begun are the nodes that we took out or began to update, until they serve
	// again, and how.
	begun map[string]Action
	// writes are counted by node.
	deploymentWrites, nodeWrites map[string]int
	// failed counts the rejected pods of a node since its last attempt, and
	// floor is how many ready pods it must keep while it is held back.
	failed map[string]int
	floor  map[string]int32

	// measurements are how many passed and failed, by analysis and check.
	passed, failures map[string]int32

	decisions int
}

func newAudit(w *world) *audit {
	return &audit{
		w: w, begun: map[string]Action{}, deploymentWrites: map[string]int{}, nodeWrites: map[string]int{},
		failed: map[string]int{}, floor: map[string]int32{}, passed: map[string]int32{}, failures: map[string]int32{},
	}
}

func (a *audit) fault(format string, args ...any) {
	a.faults = append(a.faults, a.w.now.Sub(start).String()+": "+fmt.Sprintf(format, args...))
}

// decided checks what holds of every decision.
func (a *audit) decided(seen *picture, d Decision) {
	a.decisions++
	a.settleBooks()
	if a.decisions%5 == 0 {
		a.checkPure(seen.State, d)
	}
	a.checkHeldPods()
}

// checkPure checks that Plan gives the same again whatever the order of its
// input, leaves its input alone, and asks to be woken before it would decide otherwise.
func (a *audit) checkPure(s State, d Decision) {
	before := copyState(s)
	shuffled := copyState(s)
	slices.Reverse(shuffled.Nodes)
	slices.Reverse(shuffled.Checkers)
	for i := range shuffled.Nodes {
		slices.Reverse(shuffled.Nodes[i].Pods)
		slices.Reverse(shuffled.Nodes[i].Checks)
	}
	if again := Plan(shuffled); !reflect.DeepEqual(d, again) {
		a.fault("another order of the same State gives another Decision:\n%s\n%s", summary(d), summary(again))
	}
	if !reflect.DeepEqual(s, before) {
		a.fault("Plan changed its State")
	}
	waiting := copyState(s)
	waiting.Status = *d.Status.DeepCopy()
	waiting.Now = s.Now.Add(24 * time.Hour)
	settled := Plan(copyWithStatus(s, d.Status))
	if len(d.Steps) > 0 || len(settled.Steps) > 0 || !reflect.DeepEqual(settled.Status, d.Status) {
		return
	}
	if !settled.WakeAt.IsZero() {
		waiting.Now = settled.WakeAt.Add(-time.Millisecond)
	}
	late := Plan(waiting)
	if !reflect.DeepEqual(settled.Steps, late.Steps) || !reflect.DeepEqual(settled.Status, late.Status) {
		a.fault("nobody would have woken the controller at %s for this:\n%s\n%s", settled.WakeAt, summary(settled), summary(late))
	}
}

func copyWithStatus(s State, status v1alpha1.IngressDaemonSetStatus) State {
	c := copyState(s)
	c.Status = *status.DeepCopy()
	return c
}

func copyState(s State) State {
	c := s
	c.Spec, c.Status = *s.Spec.DeepCopy(), *s.Status.DeepCopy()
	c.Revisions = map[string]bool{}
	for k, v := range s.Revisions {
		c.Revisions[k] = v
	}
	c.Faults, c.Checkers = slices.Clone(s.Faults), slices.Clone(s.Checkers)
	c.Nodes = slices.Clone(s.Nodes)
	for i := range c.Nodes {
		n := &c.Nodes[i]
		n.Pods, n.Checks = slices.Clone(n.Pods), slices.Clone(n.Checks)
		if n.Deployment != nil {
			d := *n.Deployment
			if d.Hold != nil {
				h := *d.Hold
				d.Hold = &h
			}
			n.Deployment = &d
		}
	}
	return c
}

func summary(d Decision) string {
	out := fmt.Sprintf("wake %s, wave %v", d.WakeAt, d.Status.Wave)
	for _, s := range d.Steps {
		out += "\n  " + s.String()
	}
	for _, n := range d.Status.Nodes {
		out += fmt.Sprintf("\n  %s %s %q %s", n.Name, n.State, n.Reason, n.Since)
	}
	for _, c := range d.Status.Conditions {
		out += fmt.Sprintf("\n  %s=%s %s %q", c.Type, c.Status, c.Reason, c.Message)
	}
	return out
}

// acts checks a step just before it is carried out.
func (a *audit) acts(seen *picture, s Step) {
	switch s.Action {
	case Create, Mark, Unmark, SetFields, HoldBack, ScaleToZero, Delete, Update:
		a.deploymentWrites[s.Node]++
	case RequestDetachment, ReleaseDetachment:
		a.nodeWrites[s.Node]++
	}
	a.settleBooks()
	if s.Action == Update || s.Action == ScaleToZero || s.Action == Delete {
		a.checkDetached(seen, s)
		a.failed[s.Node] = 0
		delete(a.floor, s.Node)
	}
	a.checkCheckers(seen, s)
	if s.Action == Unmark && seen.Deletion == NotDeleted && seen.taken.Equal(a.w.now) {
		a.checkComplete(seen, s)
	}
	if s.Action == HoldBack && !a.protected(seen, s.Node) && !a.runsForeignPods(s.Node) && !a.inMotion(seen, s.Node) {
		a.floor[s.Node] = min(a.w.readyPods(s.Node), a.mustRun(s.Node))
	}
	a.checkBudget(seen, s)
	a.checkGate(seen, s)
}

// checkComplete: a node whose pods were updated in its turn is attached only when
// they are complete.
func (a *audit) checkComplete(seen *picture, s Step) {
	marked, _ := seen.node(s.Node).markedAt()
	reason := a.incomplete(s.Node)
	if reason != "" && !a.w.deployments[s.Node].updatedAt.Before(marked) && a.w.nodes[s.Node].alive {
		a.fault("%s although %s", s, reason)
	}
}

// inMotion is whether the Deployment controller had just chosen pods to stop, and
// the picture could not show it yet: then no count of pods is safe to hold at.
func (a *audit) inMotion(seen *picture, name string) bool {
	return seen.taken.Sub(a.w.deployments[name].resizedAt) < slowestReplication
}

// mustRun is how many pods of a node a rolling update must leave available.
func (a *audit) mustRun(name string) int32 {
	pods := a.w.deployments[name].podsPerNode
	return pods - scaled(a.w.set.spec.Strategy().MaxUnavailablePods, pods, false)
}

// protected is whether the loss of a pod of the node loses no request.
func (a *audit) protected(seen *picture, name string) bool {
	return seen.marked(name) || a.w.nodes[name] == nil
}

// checkDetached: pods that serve are replaced or removed only when no traffic
// reaches the node any more, or where the spec permits not to wait.
func (a *audit) checkDetached(seen *picture, s Step) {
	lost := a.losesReadyPods(seen, s)
	degraded := s.Action == Update && !seen.Spec.Strategy().Detaching && !seen.marked(s.Node)
	// With the object, its garbage collector takes all pods at once.
	goes := a.w.set.deletion == DeleteAtOnce
	if lost == 0 || degraded || goes {
		return
	}
	if reason := a.attached(seen, s.Node); reason != "" && !a.outOfTime(seen, s) {
		a.fault("%s takes %d ready pods although %s", s, lost, reason)
	}
}

// losesReadyPods counts the ready pods that the step replaces or removes,
// without those that became ready after the picture was taken.
func (a *audit) losesReadyPods(seen *picture, s Step) (lost int) {
	d, n := a.w.deployments[s.Node], a.w.nodes[s.Node]
	if n == nil || !n.alive {
		return 0
	}
	template := s.Revision + "/0"
	ready, same := 0, 0
	for _, p := range a.w.pods {
		if p.node != s.Node || !p.ready || p.terminating || !p.readySince.Before(seen.taken) {
			continue
		}
		ready++
		if p.template == template {
			same++
		}
	}
	if s.Action != Update {
		return ready
	}
	if d.replicas < s.Replicas && d.template() == template && d.scalingOnly(template) {
		return 0
	}
	return ready - min(same, int(s.Replicas))
}

// scalingOnly is whether all pods have the template already.
func (d *simDeployment) scalingOnly(template string) bool {
	return !slices.ContainsFunc(d.sets, func(s *replicaSet) bool { return s.size > 0 && s.template != template })
}

// attached says why traffic may still reach a node, or nothing.
func (a *audit) attached(seen *picture, name string) string {
	w, n, d := a.w, a.w.nodes[name], a.w.deployments[name]
	strategy := seen.Spec.Strategy()
	if d.mark == "" {
		return "its Deployment is not marked"
	}
	since, _ := seen.node(name).markedAt()
	passes := strings.HasSuffix(d.mark, v1alpha1.MarkServing)
	if passes && (strategy.AnnotateNode == nil || strategy.AnnotateNode.TimestampKey == "") {
		return "its health checks pass, and nobody has taken it out"
	}
	for _, port := range seen.Spec.HealthCheckNodePorts {
		c := n.checks[port]
		if c == nil || !c.present {
			continue
		}
		// One that went down since it failed with the mark attracts no traffic either.
		if c.serving && !passes || c.mark != d.mark {
			return fmt.Sprintf("port %d does not fail with the mark", port)
		}
		since = later(since, c.since)
	}
	if w.now.Before(since.Add(strategy.MarkGrace)) {
		return "the grace after the mark is not over"
	}
	if at := strategy.AnnotateNode; at != nil && !(strings.HasSuffix(d.mark, v1alpha1.MarkOutOfTurn) && w.readyPods(name) == 0) {
		stamp, _ := time.Parse(time.RFC3339, n.timestamp)
		switch {
		case !n.holders[us]:
			return "the Node is not annotated"
		case w.now.Before(n.requestedAt.Add(at.Grace)):
			return "the grace after the annotation is not over"
		case at.TimestampKey != "" && !n.detached:
			return "the detacher has not detached it"
		case at.TimestampKey != "" && w.now.Before(stamp.Add(at.TimestampGrace)):
			return "the grace after the timestamp is not over"
		}
	}
	return ""
}

// outOfTime is whether the detachment took longer than it may and the node goes all the same.
func (a *audit) outOfTime(seen *picture, s Step) bool {
	n := seen.node(s.Node)
	strategy := seen.Spec.Strategy()
	if !n.Marked() {
		return false
	}
	marked, ours := n.markedAt()
	limit := strategy.DetachTimeout + strategy.MarkGrace
	if at := strategy.AnnotateNode; at != nil {
		limit += at.Grace + at.TimestampGrace
	}
	late := !a.w.now.Before(marked.Add(limit))
	leaves := !n.Wanted || s.Action == ScaleToZero || seen.Deletion != NotDeleted
	updated := !n.Deployment.UpdatedAt.Before(marked)
	return leaves && (late || !ours) || late && (strategy.ProceedOnTimeout || updated)
}
