package rollout

import (
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// leader is a controller: it observes, plans and acts as the real one does, and
// may crash between any two writes.
type leader struct {
	w      *world
	wakeAt time.Time
	// dryRun is what it remembers of dry runs; a crash loses it.
	dryRun map[string]DryRun
	// measurements are what it measured last, by check; measuring are those under
	// way. A crash loses them.
	measurements map[string]Measurement
	measuring    map[string]bool
	// stale is the old picture of the world that it keeps looking at, if any.
	stale *picture
	// crashes is the probability of a crash before each write; downUntil is when
	// it is back.
	crashes   float64
	downUntil time.Time
	stopped   bool
}

// picture is a State with the resource versions of what it was made from.
type picture struct {
	State
	taken       time.Time
	set         int
	nodes       map[string]int
	deployments map[string]int
}

func newLeader(w *world) *leader {
	l := &leader{w: w}
	l.forget()
	return l
}

// forget loses what is only remembered.
func (l *leader) forget() {
	l.dryRun, l.measurements, l.measuring = map[string]DryRun{}, map[string]Measurement{}, map[string]bool{}
}

func (l *leader) wakeAfter(d time.Duration) { l.wakeUpAt(l.w.now.Add(d)) }

func (l *leader) wakeUpAt(t time.Time) {
	if !l.wakeAt.IsZero() && !l.wakeAt.After(t) {
		return
	}
	l.wakeAt = t
	l.w.at(t, func() {
		if l.wakeAt.Equal(t) {
			l.wakeAt = time.Time{}
			l.reconcile()
		}
	})
}

// reconcile is one round of observe, decide, act and report.
func (l *leader) reconcile() {
	w := l.w
	switch {
	case l.stopped || !w.set.exists:
		return
	case w.now.Before(l.downUntil):
		l.wakeUpAt(l.downUntil)
		return
	}
	seen := l.stale
	if seen == nil {
		seen = l.observe()
	}
	seen.Now = w.now
	decision := Plan(seen.State)
	w.audit.decided(seen, decision)
	for _, step := range decision.Steps {
		if l.crashed() {
			return
		}
		if l.guarded(seen, step) {
			w.audit.acts(seen, step)
			w.tell("controller", "%s", step)
			l.apply(step)
		}
	}
	if l.crashed() {
		return
	}
	l.report(seen, decision)
	if !decision.WakeAt.IsZero() {
		l.wakeUpAt(decision.WakeAt)
	}
}

// crashed is whether the controller dies here, and loses what it remembers.
func (l *leader) crashed() bool {
	if !l.w.chance(l.crashes) {
		return false
	}
	l.forget()
	l.downUntil = l.w.now.Add(l.w.between(time.Second, 20*time.Second))
	l.wakeUpAt(l.downUntil)
	return true
}

// report writes the status with a compare-and-swap.
func (l *leader) report(seen *picture, decision Decision) {
	w := l.w
	if !w.set.exists || seen.set != w.set.rv || reflect.DeepEqual(decision.Status, w.set.status) {
		return
	}
	w.audit.reports(decision.Status)
	l.tellStatus(decision.Status)
	w.set.status = *decision.Status.DeepCopy()
	w.set.rv = w.version()
}

// tellStatus tells what the status says that it did not say before.
func (l *leader) tellStatus(s v1alpha1.IngressDaemonSetStatus) {
	if last := l.w.set.status.Wave; !slices.Equal(last, s.Wave) {
		l.w.tell("status", "the wave is %v", s.Wave)
	}
	for _, c := range s.Conditions {
		last := meta.FindStatusCondition(l.w.set.status.Conditions, c.Type)
		if last == nil || last.Status != c.Status || last.Reason != c.Reason {
			l.w.tell("status", "%s is %s, %s: %s", c.Type, c.Status, c.Reason, c.Message)
		}
	}
}

// guarded is whether nothing that the step concerns has changed since it was
// observed. A step that takes a node out is preceded by a live read of the
// IngressDaemonSet too.
func (l *leader) guarded(seen *picture, s Step) bool {
	w := l.w
	d := w.deployments[s.Node]
	switch s.Action {
	case RequestDetachment, ReleaseDetachment:
		n := w.nodes[s.Node]
		return n != nil && n.rv == seen.nodes[s.Node]
	case Create:
		return d == nil && seen.deployments[s.Node] == 0
	case Mark, ApplyChecker, DeleteChecker:
		if seen.set != w.set.rv {
			return false
		}
	case Update:
		if !seen.marked(s.Node) && seen.set != w.set.rv {
			return false
		}
	}
	switch s.Action {
	case Mark, Update, Unmark, SetFields, HoldBack, ScaleToZero, Delete:
		return d != nil && d.rv == seen.deployments[s.Node]
	}
	return true
}

func (p *picture) node(name string) *Node {
	i := slices.IndexFunc(p.Nodes, func(n Node) bool { return n.Name == name })
	if i < 0 {
		return nil
	}
	return &p.Nodes[i]
}

func (p *picture) marked(name string) bool {
	n := p.node(name)
	return n != nil && n.Marked()
}

// apply carries out a step as the real controller does.
func (l *leader) apply(s Step) {
	w, d, n := l.w, l.w.deployments[s.Node], l.w.nodes[s.Node]
	switch s.Action {
	case DryRunDeployment:
		l.dryRun[s.Revision] = DryRun{Done: true, Refusal: w.dry[s.Revision]}
		l.wakeAfter(0)
	case Measure:
		l.measure(s)
	case RecordRevision:
		if w.set.newest != s.Revision {
			w.set.revisions[s.Revision], w.set.newest = true, s.Revision
			w.wake()
		}
	case ApplyChecker:
		w.applyDaemonSet(s.Port)
	case DeleteChecker:
		w.deleteDaemonSet(s.Port)
	case Create:
		w.count++
		d = &simDeployment{node: s.Node, uid: w.count, updatedAt: w.now, revision: s.Revision, podsPerNode: s.Replicas, replicas: s.Replicas}
		w.deployments[s.Node] = d
		w.setFields(d)
		w.write(d, true)
	case Mark:
		d.mark = s.Mark
		if s.Drained {
			d.drainedAt = w.now
		}
		w.write(d, false)
	case Update:
		d.podsPerNode, d.replicas, d.hold = w.set.spec.Pods(), s.Replicas, s.Hold
		d.updatedAt, d.drainedAt, d.scaled, d.paused = w.now, time.Time{}, false, false
		if !s.Keep {
			d.revision, d.foreign = s.Revision, 0
		}
		w.setFields(d)
		d.rollBy(s.Rolling)
		w.write(d, true)
	case Unmark:
		d.mark, d.attachedAt, d.drainedAt = "", w.now, time.Time{}
		w.write(d, false)
	case SetFields:
		d.hold, d.paused = s.Hold, false
		w.setFields(d)
		w.write(d, true)
	case HoldBack:
		d.replicas, d.hold, d.paused, d.scaled = s.Replicas, s.Hold, s.Paused, false
		if !s.Keep {
			d.goBack(s.ReplicaSet)
		}
		w.setFields(d)
		d.rollBy(s.Rolling)
		w.write(d, true)
	case ScaleToZero:
		d.replicas = 0
		w.write(d, true)
	case RequestDetachment:
		n.holders[us], n.requestedAt, n.stale = true, w.now, s.StaleTimestamp
		w.annotated(n)
	case ReleaseDetachment:
		delete(n.holders, us)
		n.requestedAt, n.stale = time.Time{}, ""
		w.annotated(n)
	case DeletePods:
		for _, p := range slices.Clone(w.pods) {
			if slices.Contains(s.Pods, p.name) {
				w.removePod(p)
			}
		}
	case Delete:
		w.deleteDeployment(d)
	case RemoveFinalizer:
		w.removeFinalizer()
	}
}

// measure makes a measurement, which takes a while.
func (l *leader) measure(s Step) {
	w, measuring := l.w, l.measuring
	if measuring[s.Check] {
		return
	}
	measuring[s.Check] = true
	m := Measurement{Check: s.Check, Analysis: s.Analysis}
	if w.misbehaves[w.set.revision] {
		m.Failure = "it misbehaves"
	}
	w.after(w.between(10*time.Millisecond, 3*time.Second), func() {
		delete(measuring, s.Check)
		m.At = w.now
		l.measurements[s.Check] = m
		w.audit.measured(m)
		l.wakeAfter(0)
	})
}

// setFields sets the fields that restart no pod.
func (w *world) setFields(d *simDeployment) {
	s := w.set.spec.Strategy()
	d.surge, d.unavail, d.minReady = s.MaxSurgedPods, s.MaxUnavailablePods, w.minReady()
}

func (d *simDeployment) rollBy(r Rolling) {
	if r != (Rolling{}) {
		d.surge, d.unavail = intstr.FromInt32(r.Surge), intstr.FromInt32(r.Unavailable)
	}
}

func (w *world) minReady() time.Duration {
	return time.Duration(w.set.spec.MinReadySeconds) * time.Second
}

// deleteDeployment deletes in the background: the object is gone at once, or
// sometimes only after its finalizers, and the garbage collector deletes its
// pods a little later.
func (w *world) deleteDeployment(d *simDeployment) {
	d.deleting = true
	d.rv = w.version()
	gone := time.Duration(0)
	if w.chance(0.3) {
		gone = w.between(100*time.Millisecond, 4*time.Second)
	}
	w.after(gone, func() {
		if w.deployments[d.node] == d {
			delete(w.deployments, d.node)
		}
		w.podsChanged(d.node)
	})
	w.after(gone+w.between(50*time.Millisecond, time.Second), func() { w.collect(d) })
	w.checkersChanged(d.node)
}

func (w *world) collect(d *simDeployment) {
	for _, p := range slices.Clone(w.pods) {
		if p.owner == d.uid {
			w.deletePod(p)
		}
	}
}

func (w *world) deleteDaemonSet(port int32) {
	delete(w.daemonSets, port)
	for _, n := range w.nodes {
		delete(n.checks, port)
	}
	w.version()
}

// removeFinalizer lets the object go; what the garbage collector then does
// depends on the kind of the deletion.
func (w *world) removeFinalizer() {
	w.set.exists = false
	w.tell("cluster", "the IngressDaemonSet is gone")
	if w.set.deletion != DeleteAtOnce {
		return
	}
	for _, name := range w.names() {
		if d := w.deployments[name]; d != nil {
			w.deleteDeployment(d)
		}
	}
	w.daemonSets = map[int32]*simDaemonSet{}
}

func percent(n int) *intstr.IntOrString { return pointer(intstr.FromString(fmt.Sprintf("%d%%", n))) }
func number(n int) *intstr.IntOrString  { return pointer(intstr.FromInt32(int32(n))) }

func pointer[T any](v T) *T { return &v }
