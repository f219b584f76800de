package controller

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/nodehealth/healthclient"
	"github.com/mumoshu/ingress-daemonset-controller/internal/rollout/objects"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// simDaemonSet is the DaemonSet of the health checkers of a port, and its controller.
type simDaemonSet struct {
	api  *appsv1.DaemonSet
	port int32
	// movedAt is when it was last written, decidedAt when its template was decided upon.
	movedAt, decidedAt time.Time
	// places are the nodes that it selects.
	places nodeaffinity.RequiredNodeAffinity
}

// runsOn reports whether its controller keeps a pod on a node.
func (s *simDaemonSet) runsOn(n *simNode) bool {
	selected, _ := s.places.Match(n.api)
	tolerates := slices.ContainsFunc(s.api.Spec.Template.Spec.Tolerations, func(t corev1.Toleration) bool {
		return t.Key == "" && t.Operator == corev1.TolerationOpExists
	})
	return selected && (tolerates || !n.tainted())
}

func (s *simDaemonSet) revision() string { return objects.CheckerRevision(s.api.Spec.Template.Labels) }

// simCheck is the health checker of one port on one node.
type simCheck struct {
	node *simNode
	port int32
	// pods are its own and, while it hands over, its successor's.
	pods []*corev1.Pod
	// up says whether it runs, hangs whether it accepts and never answers, slow how long it
	// takes to answer.
	up, hangs bool
	slow      time.Duration
	// hungAt is when it last began to hang, endedAt when it last ceased to run.
	hungAt, endedAt time.Time
	// movedAt is when its pods last came, went or changed.
	movedAt time.Time
	serving bool
	mark    string
	// needed says whether it kept traffic away when its template was last changed.
	needed bool
	// since is from when it reports its answer, same from when that was the answer, also of
	// the process before.
	since, same time.Time
	// failing is since when it reports to fail, failed since when it does, also the process
	// before; zero while it passes.
	failing, failed time.Time
	pending         bool
	// rolling counts its replacements.
	rolling int
	waiting []*question
}

// silent reports whether nobody answers, and no pod is there who could. One that takes longer to
// answer than we wait may have the patience of others.
func (c *simCheck) silent() bool {
	return !c.up || len(c.pods) == 0 && c.hangs
}

// tellsBy reports whether it has told by a time that it serves. An answer needs a moment, and as
// long as the port is slow. One that comes too late, from a process whose pod is gone, tells
// nobody.
func (c *simCheck) tellsBy(then time.Time) bool {
	late := len(c.pods) == 0 && c.slow >= healthclient.AnswerTime
	return c.up && !c.hangs && !late && c.serving && c.since.Before(then.Add(-time.Second-c.slow))
}

// silentSince is since when one that is silent attracts no traffic. What one that hangs would
// say by now, nobody hears.
func (c *simCheck) silentSince() time.Time {
	since := c.endedAt
	if c.up {
		since = c.hungAt
	}
	if !c.serving && c.failed.Before(since) {
		return c.failed
	}
	return since
}

// settled reports whether its pod runs and is of the newest template.
func (c *simCheck) settled(w *world) bool {
	s := w.daemonSets[c.port]
	return s != nil && c.up && len(c.pods) == 1 && objects.CheckerRevision(c.pods[0].Labels) == s.revision()
}

// daemonSetChanged is the DaemonSet controller.
func (w *world) daemonSetChanged(ds *appsv1.DaemonSet, gone bool) {
	number, _ := strconv.ParseInt(ds.Labels[v1alpha1.LabelHealthCheckPort], 10, 32)
	port := int32(number)
	if gone {
		delete(w.daemonSets, port)
		for _, name := range w.order() {
			if c := w.nodes[name].checks[port]; c != nil {
				w.after(w.between(50*time.Millisecond, time.Second), func() {
					w.audit.portCloses(c)
					w.removeChecker(c)
					if w.daemonSets[port] != nil {
						// One that was made meanwhile took these for its own.
						w.placeCheckers(c.node)
					}
				})
			}
		}
		return
	}
	s := w.daemonSets[port]
	if s != nil && s.api.UID == ds.UID && s.api.Generation == ds.Generation && s.api.Status.CurrentNumberScheduled != ds.Status.CurrentNumberScheduled {
		s.api = ds
		return
	}
	if s == nil {
		s = &simDaemonSet{port: port}
		w.daemonSets[port] = s
	}
	if s.api == nil || s.revision() != objects.CheckerRevision(ds.Spec.Template.Labels) {
		w.audit.moves(s, func() { w.retemplate(s, ds) })
	}
	s.api, s.movedAt = ds, w.now
	w.after(10*time.Millisecond, func() {
		for _, name := range w.order() {
			w.placeCheckers(w.nodes[name])
		}
	})
}

// retemplate gives a DaemonSet another template.
func (w *world) retemplate(s *simDaemonSet, ds *appsv1.DaemonSet) {
	s.api, s.decidedAt = ds, w.now
	if w.writer != nil && w.writer.seen != nil {
		s.decidedAt = w.writer.seen.taken
	}
	pod := &ds.Spec.Template.Spec
	s.places = nodeaffinity.NewRequiredNodeAffinity(pod.NodeSelector, pod.Affinity)
}

// placeCheckers is the DaemonSet controller's pass over a node: it places a health
// checker where none is, replaces an old one, and takes away what is not wanted there.
func (w *world) placeCheckers(n *simNode) {
	if w.nodes[n.name] != n {
		return
	}
	for _, port := range slices.Sorted(maps.Keys(w.daemonSets)) {
		s, c := w.daemonSets[port], n.checks[port]
		switch {
		case c == nil && s.runsOn(n):
			c = &simCheck{node: n, port: port}
			n.checks[port] = c
			w.placeChecker(s, c)
		case c == nil:
		case !s.runsOn(n):
			w.removeChecker(c)
		case c.up && len(c.pods) == 0:
			// The kubelet has not ended the last one yet.
		case !slices.ContainsFunc(c.pods, func(p *corev1.Pod) bool { return objects.CheckerRevision(p.Labels) == s.revision() }):
			w.placeChecker(s, c)
		case len(c.pods) > 1 && objects.CheckerRevision(c.pods[0].Labels) == s.revision():
			// What runs is what is wanted again.
			c.rolling++
			w.dropPending(c)
		}
	}
}

// countSoon is the DaemonSet controller, which says on how many nodes there are pods.
func (w *world) countSoon(port int32) {
	w.after(50*time.Millisecond, func() {
		s, scheduled := w.daemonSets[port], int32(0)
		if s == nil {
			return
		}
		for _, n := range w.nodes {
			if c := n.checks[port]; c != nil && len(c.pods) > 0 {
				scheduled++
			}
		}
		if s.api.Status.CurrentNumberScheduled != scheduled {
			next := s.api.DeepCopy()
			next.Status.CurrentNumberScheduled = scheduled
			w.api.Put(next)
		}
	})
}

// dropPending removes the pods of a checker that do not run yet.
func (w *world) dropPending(c *simCheck) {
	running := func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodRunning }
	for _, p := range c.pods {
		if !running(p) {
			w.api.Remove("Pod", p.Namespace, p.Name)
		}
	}
	c.pods = slices.DeleteFunc(c.pods, func(p *corev1.Pod) bool { return !running(p) })
}

// placeChecker starts a health checker, which takes over from the one that is there and
// then reports anew since when its answer holds.
func (w *world) placeChecker(s *simDaemonSet, c *simCheck) {
	c.rolling++
	turn, revision := c.rolling, s.revision()
	begin := w.between(time.Second, 8*time.Second)
	if len(c.pods) == 0 {
		begin = 10 * time.Millisecond
	}
	current := func() bool { return c.rolling == turn && c.node.checks[c.port] == c && w.daemonSets[c.port] == s }
	w.after(begin, func() {
		if !current() || s.revision() != revision {
			if c.node.checks[c.port] == c && c.rolling == turn && w.daemonSets[c.port] == s {
				w.placeChecker(s, c)
			}
			return
		}
		w.dropPending(c)
		w.count++
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: s.api.Namespace, Name: fmt.Sprintf("%s-%s-%d", s.api.Name, c.node.name, w.count), Labels: s.api.Spec.Template.Labels,
			},
			Spec: corev1.PodSpec{NodeName: c.node.name, HostNetwork: true}, Status: corev1.PodStatus{Phase: corev1.PodPending},
		}
		c.pods, c.movedAt = append(c.pods, pod), w.now
		w.api.Put(pod)
		w.countSoon(c.port)
		w.startsChecker(c, current)
	})
}

// startsChecker is the kubelet, which starts the newest pod of a checker.
func (w *world) startsChecker(c *simCheck, current func() bool) {
	w.after(w.between(500*time.Millisecond, 2*time.Second), func() {
		switch {
		case !current() || len(c.pods) == 0:
			return
		case !c.node.alive:
			w.startsChecker(c, current)
			return
		}
		newest := len(c.pods) - 1
		if newest > 0 {
			w.tell("kubelet", "%s: a new health checker takes over port %d", c.node.name, c.port)
			w.audit.takesOver(c)
		}
		pod := c.pods[newest].DeepCopy()
		pod.Status = runningStatus(w.now.Add(c.node.skew), true)
		c.pods[newest] = pod
		w.api.Put(pod)
		w.stopAnswering(c)
		c.up = true
		c.starts(w)
		for _, old := range slices.Clone(c.pods[:newest]) {
			w.api.Remove("Pod", old.Namespace, old.Name)
		}
		c.pods = []*corev1.Pod{pod}
		w.checkSoon(c)
	})
}

func runningStatus(at time.Time, ready bool) corev1.PodStatus {
	status := map[bool]corev1.ConditionStatus{true: corev1.ConditionTrue, false: corev1.ConditionFalse}[ready]
	return corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{
		{Type: corev1.PodReady, Status: status, LastTransitionTime: metav1.NewTime(at)},
		{Type: corev1.ContainersReady, Status: status, LastTransitionTime: metav1.NewTime(at)},
	}}
}

// removeChecker ends a health checker for good.
func (w *world) removeChecker(c *simCheck) {
	c.rolling++
	w.stopAnswering(c)
	c.up, c.endedAt = false, w.now
	if c.node.checks[c.port] == c {
		delete(c.node.checks, c.port)
	}
	for _, pod := range c.pods {
		w.api.Remove("Pod", pod.Namespace, pod.Name)
	}
	c.pods = nil
	w.countSoon(c.port)
}

// checkersChanged lets the checkers of a node see what changed.
func (w *world) checkersChanged(name string) {
	n := w.nodes[name]
	if n == nil {
		return
	}
	for _, port := range slices.Sorted(maps.Keys(n.checks)) {
		w.checkSoon(n.checks[port])
	}
}

// starts is a process that reports anew since when its answer holds.
func (c *simCheck) starts(w *world) {
	serving, mark := w.verdict(c.node)
	if serving != c.serving || mark != c.mark || c.same.IsZero() {
		c.same = w.now
	}
	c.serving, c.mark, c.since, c.failing = serving, mark, w.now, time.Time{}
	c.fails(w.now)
}

// fails keeps since when a checker fails.
func (c *simCheck) fails(now time.Time) {
	for _, since := range []*time.Time{&c.failing, &c.failed} {
		switch {
		case c.serving:
			*since = time.Time{}
		case since.IsZero():
			*since = now
		}
	}
}

// checkSoon evaluates a checker a moment after something that it watches changed.
func (w *world) checkSoon(c *simCheck) {
	if c.pending {
		return
	}
	c.pending = true
	w.after(w.between(50*time.Millisecond, 500*time.Millisecond+w.checkersLag), func() {
		c.pending = false
		if c.node.checks[c.port] != c || !c.up || !c.node.alive {
			return
		}
		serving, mark := w.verdict(c.node)
		if serving != c.serving || mark != c.mark {
			c.serving, c.mark, c.since, c.same = serving, mark, w.now, w.now
			c.fails(w.now)
			w.tell("health check", "%s: port %d %s", c.node.name, c.port, verdictInWords(serving, mark))
			w.answerAll(c)
		}
	})
}

func verdictInWords(serving bool, mark string) string {
	switch {
	case serving:
		return "answers 200"
	case mark != "":
		return "answers 503 and repeats the mark"
	default:
		return "answers 503"
	}
}

// verdict is the health checker's rule: 200 if and only if at least podsPerNode
// pods are ready and no update is scheduled for them.
func (w *world) verdict(n *simNode) (serving bool, mark string) {
	d := w.deployments[n.name]
	if d == nil {
		return false, ""
	}
	mark, marked := d.mark()
	began, _ := v1alpha1.Mark(mark).At()
	emptied := d.drained() && d.replicas() == 0
	lets := !marked || strings.HasSuffix(mark, v1alpha1.MarkServing) && d.updatedAt().Before(began) && !emptied
	return lets && d.api.DeletionTimestamp == nil && d.podsPerNode() > 0 && w.readyPods(n.name) >= d.podsPerNode(), mark
}

// readyPods are the pods that take new connections.
func (w *world) readyPods(name string) (ready int32) {
	for _, p := range w.pods {
		if p.node == name && p.ready && !p.terminating {
			ready++
		}
	}
	return ready
}

// stopChecker takes a checker down for a while; its pod says so.
func (w *world) stopChecker(c *simCheck, d time.Duration) {
	if !c.up || len(c.pods) != 1 {
		return
	}
	c.up, c.endedAt = false, w.now
	w.stopAnswering(c)
	w.sayChecker(c, false)
	down := c.pods[0].Name
	w.after(d, func() {
		if c.node.checks[c.port] != c || c.up || len(c.pods) == 0 || c.pods[0].Name != down {
			// Another has taken over, and those who ask wait for its news.
			return
		}
		c.up = true
		c.starts(w)
		w.sayChecker(c, true)
	})
}

func (w *world) sayChecker(c *simCheck, ready bool) {
	c.movedAt = w.now
	pod := c.pods[0].DeepCopy()
	pod.Status = runningStatus(w.now.Add(c.node.skew), ready)
	c.pods[0] = pod
	w.api.Put(pod)
}

// losePod is somebody who deletes a health checker's pod by force: its process goes on
// answering as it did until the kubelet ends it.
func (w *world) losePod(c *simCheck) {
	if !c.up || len(c.pods) != 1 {
		return
	}
	c.rolling++
	turn, pod := c.rolling, c.pods[0]
	c.pods, c.pending, c.movedAt = nil, true, w.now
	w.api.Remove("Pod", pod.Namespace, pod.Name)
	w.countSoon(c.port)
	w.after(w.between(5*time.Second, 60*time.Second), func() {
		c.pending = false
		if c.rolling == turn {
			w.stopAnswering(c)
			c.up, c.endedAt = false, w.now
			w.placeCheckers(c.node)
		}
	})
}

// setHangs lets a checker accept and never answer, or answer as before.
func (w *world) setHangs(c *simCheck, hangs bool, slow time.Duration) {
	if hangs && !c.hangs {
		c.hungAt = w.now
	}
	c.hangs, c.slow = hangs, slow
	if hangs {
		w.hang(c)
	} else {
		w.answerAll(c)
	}
}

// otherMarkKey is what specs name instead of the default.
const otherMarkKey = "to-be-updated"

// markOf is the mark of a Deployment; its presence counts. Health checkers are told the
// key of the spec, should the record of it be gone.
func markOf(obj client.Object) (string, bool) {
	mark, present := v1alpha1.MarkOf(obj.GetAnnotations(), otherMarkKey)
	return string(mark), present
}
