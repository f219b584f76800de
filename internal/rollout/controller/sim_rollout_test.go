package controller

import (
	"slices"
	"testing"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/nodehealth/healthclient"
	"github.com/mumoshu/ingress-daemonset-controller/internal/rollout"
	appsv1 "k8s.io/api/apps/v1"
)

// TestOneRollout takes the whole way once: two nodes get a new template, one after the
// other, from the controller itself.
func TestOneRollout(t *testing.T) {
	w := newWorld(0)
	w.addNode("n1", nil)
	w.addNode("n2", nil)
	w.begin(v1alpha1.IngressDaemonSetSpec{
		PodsPerNode: new(int32(2)), HealthCheckNodePorts: []int32{10080},
		UpdateStrategy: v1alpha1.UpdateStrategy{RollingUpdate: &v1alpha1.RollingUpdate{MaxUnavailableNodes: number(1)}},
	})
	w.run(start.Add(time.Minute))
	w.changeTemplate("r2")
	w.run(w.now.Add(5 * time.Minute))
	w.mustHold(t, "unfinished", w.unfinished)
}

// silentDetacher is a fleet of two nodes with a rollout whose detachments time out after a minute,
// of which the detacher answers none.
func silentDetacher(with func(*v1alpha1.RollingUpdate)) (*world, v1alpha1.IngressDaemonSetSpec) {
	w := newWorld(0)
	w.detacher.keys = map[string]string{detacherKey: detacherTimestamp}
	spec := specOfStories()
	byBoth(&spec)
	u := spec.UpdateStrategy.RollingUpdate
	u.DetachTimeoutSeconds = new(int32(60))
	with(u)
	w.addNode("n1", nil)
	w.addNode("n2", nil)
	w.begin(spec)
	w.run(start.Add(time.Minute))
	w.detacher.answers = false
	w.changeTemplate("r2")
	return w, spec
}

// TestFrozenAtADeadline: a controller that is frozen right after it saw that a detachment takes
// too long hears the answer that came meanwhile when it thaws, although its watch is late.
func TestFrozenAtADeadline(t *testing.T) {
	w, spec := silentDetacher(func(u *v1alpha1.RollingUpdate) {
		u.WaitForDetachmentByAnnotatedTimestamp.GracePeriodSeconds = new(int32(0))
	})
	l := w.leaders[0]
	for l.seen.node("n1").Seen.Mark.IsZero() {
		w.run(w.now.Add(10 * time.Millisecond))
	}
	strategy := spec.Strategy()
	graces := strategy.MarkGrace + strategy.AnnotateNode.Grace
	w.run(l.seen.node("n1").Seen.Mark.Add(strategy.DetachTimeout + graces + lookedAt))

	l.views["Node"].lag = 500 * time.Millisecond
	w.after(10*time.Second-lookedAt, w.detacherReturns)
	l.busy = true
	l.freeze(10 * time.Second)
	l.busy = false
	l.wakeAfter(0)
	w.run(w.now.Add(5 * time.Minute))
	if timedOut := w.set().Status.DetachTimedOut; timedOut != nil {
		t.Errorf("timed out: %+v", timedOut)
	}
	w.mustHold(t, "unfinished", w.unfinished)
}

// TestDeadlinesEndWhileWritesHang: a detachment that takes too long times out also while each
// pass waits for a write that hangs and fails, so that every look comes late.
func TestDeadlinesEndWhileWritesHang(t *testing.T) {
	w, _ := silentDetacher(func(u *v1alpha1.RollingUpdate) { u.DetachTimeoutPolicy = v1alpha1.ProceedOnDetachTimeout })
	l := w.leaders[0]
	for l.seen.node("n1").Seen.Requested.IsZero() {
		w.run(w.now.Add(10 * time.Millisecond))
	}
	w.addNode("n3", nil)
	w.hung = 15 * time.Second
	w.run(w.now.Add(5 * time.Minute))
	updates := func(s rollout.Step) bool { return s.Action == rollout.Update && s.Node == "n1" }
	if !slices.ContainsFunc(l.seen.decision.Steps, updates) {
		t.Errorf("its time of a minute is not over after five: %v", l.seen.decision.Steps)
	}
	w.hung = 0
	w.run(w.now.Add(10 * time.Minute))
	w.mustHold(t, "unfinished", w.unfinished)
}

// lookedAt is a moment in which a leader has looked at what was due.
const lookedAt = 100 * time.Millisecond

// TestSlowPortLosesItsPod: a port that answers others and not us in time, and whose pod goes,
// may pass for others until its process ends: a node that leaves then has the grace after its
// mark.
func TestSlowPortLosesItsPod(t *testing.T) {
	for seed := range int64(20) {
		w := newWorld(seed)
		spec := specOfStories()
		byHealthCheck(&spec)
		for _, name := range []string{"n1", "n2", "n3"} {
			w.addNode(name, nil)
		}
		w.begin(spec)
		w.run(start.Add(time.Minute))
		n := w.nodes["n1"]
		w.setHangs(n.checks[10080], true, 0)
		w.run(w.now.Add(30 * time.Second))
		w.setHangs(n.checks[10080], false, healthclient.AnswerTime+time.Second)
		w.run(w.now.Add(healthclient.LongestWait + time.Minute))
		w.losePod(n.checks[10080])
		w.run(w.now.Add(time.Second))
		w.setWanted(n, false)
		w.run(w.now.Add(10 * time.Minute))
		w.mustHold(t, "left over", w.leftovers)
	}
}

// TestOrphanThatForgot: a node's mark goes with an IngressDaemonSet that leaves its Deployments,
// also where the garbage collector was quicker and somebody took an annotation that tells how
// many pods make the node serve.
func TestOrphanThatForgot(t *testing.T) {
	w := newWorld(0)
	spec := specOfStories()
	byHealthCheck(&spec)
	w.addNode("n1", nil)
	w.addNode("n2", nil)
	w.begin(spec)
	w.run(start.Add(time.Minute))
	w.changeTemplate("r2")
	for i := 0; !w.deployments["n1"].marked() && i < 1000; i++ {
		w.run(w.now.Add(10 * time.Millisecond))
	}
	w.rewrite(w.deployments["n1"], func(d *appsv1.Deployment) { annotate(d, v1alpha1.AnnotationPodsPerNode, "") })
	w.remove(rollout.DeleteOrphaning)
	w.run(w.now.Add(patience))
	w.mustHold(t, "left over", func() []string { return w.remains(rollout.DeleteOrphaning) })
}
