package controller

import (
	"fmt"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"
)

// A scenario is drawn by rapid: a fleet, a strategy and a list of things that
// happen. The delays of the fakes come from its seed.

// generator draws parts of a scenario.
type generator struct {
	*rapid.T
	w    *world
	spec v1alpha1.IngressDaemonSetSpec
	// joined counts the nodes that joined.
	joined int
	// stale says whether a Node carries a timestamp from before: a strategy that does
	// not wait for timestamps would not notice it, and the next one could not tell.
	stale bool
}

func (g generator) number(label string, min, max int) int {
	return rapid.IntRange(min, max).Draw(g.T, label)
}

// oneIn is true once in n times; rapid shrinks towards false.
func (g generator) oneIn(label string, n int) bool { return g.number(label, 0, n-1) == n-1 && n > 0 }

// world draws a fleet with its strategy, and lets it come up.
func (g *generator) world() *world {
	w := newWorld(rapid.Int64Range(1, 1<<40).Draw(g.T, "seed"))
	g.w = w
	w.story = func(actor, what string) { g.Logf("%-9s %s: %s", w.now.Sub(start), actor, what) }
	g.spec = v1alpha1.IngressDaemonSetSpec{PodsPerNode: new(int32(g.number("pods", 1, 3))), MinReadySeconds: []int32{0, 1, 2, 30}[g.number("minReady", 0, 3)]}
	if g.oneIn("short deadline", 4) {
		g.spec.ProgressDeadlineSeconds = new(int32(g.number("deadline", 20, 200)))
	}
	for i := range g.number("ports", 0, 2) {
		g.spec.HealthCheckNodePorts = append(g.spec.HealthCheckNodePorts, 10080+int32(i))
	}
	w.detacher.keys = map[string]string{"detached": "at", "out": "out-at"}
	g.stale = g.oneIn("stale timestamps", 4)
	if g.oneIn("a Service", 4) {
		w.offer(g.oneIn("kube-proxy answers", 2))
		g.spec.ServiceName = service
	}
	g.spec.UpdateStrategy.RollingUpdate = g.strategy(&g.spec)
	w.detacher.tells = g.oneIn("detacher tells", 2)
	w.detacher.slowest = time.Duration(g.number("detacher", 1, 12)) * time.Second
	w.detacher.skew = []time.Duration{0, 0, 0, -15 * time.Minute, -5 * time.Minute, 10 * time.Minute, 15 * time.Minute}[g.number("detacher's clock", 0, 6)]
	w.apart = []time.Duration{0, 15 * time.Minute}[g.number("controllers' clocks", 0, 1)]
	w.kubeletsApart = []time.Duration{0, 15 * time.Minute}[g.number("kubelets' clocks", 0, 1)]
	w.checkersLag = []time.Duration{0, 0, 0, 10 * time.Second}[g.number("checkers' lag", 0, 3)]
	w.quick = []float64{0, 0.3, 1}[g.number("quick pods", 0, 2)]
	if g.oneIn("checkers stay", 2) {
		g.spec.HealthChecker.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	}
	for range g.number("nodes", 1, 8) {
		g.join()
	}
	if g.stale {
		w.edit(w.nodes["n1"], func(node *corev1.Node) { annotate(node, "at", start.Add(-time.Hour).Format(time.RFC3339)) })
	}
	w.begin(g.spec)
	w.run(start.Add(3 * time.Minute))
	return w
}

func (g *generator) join() {
	g.joined++
	labels := map[string]string{"zone": string(rune('a' + g.number("zone", 0, 2)))}
	if g.oneIn("canary", 4) {
		labels["canary"] = "true"
	}
	g.w.addNode(fmt.Sprintf("n%d", g.joined), labels)
}

// strategy draws one that admission permits with the rest of a spec.
func (g *generator) strategy(spec *v1alpha1.IngressDaemonSetSpec) *v1alpha1.RollingUpdate {
	u := &v1alpha1.RollingUpdate{
		MinServingNodes:      g.count("min serving", 0, 3),
		DetachTimeoutSeconds: new(int32(g.number("timeout", 20, 120))),
		Partition:            g.count("partition", 0, 2),
	}
	if g.oneIn("canaries", 2) {
		u.CanaryNodeSelector = map[string]string{"canary": "true"}
	}
	if g.oneIn("zones", 2) {
		u.Order.TopologyKey = "zone"
	}
	if g.oneIn("ignores dead nodes", 4) {
		u.IgnoreNotReadyNodesAfterSeconds = new(int32(g.number("ignored after", 60, 200)))
	}
	if g.oneIn("proceeds", 2) {
		u.DetachTimeoutPolicy = v1alpha1.ProceedOnDetachTimeout
	}
	g.analysis(u)
	if g.oneIn("degraded", 3) {
		u.MaxDegradedNodes = g.count("budget", 1, 3)
		u.MaxSurgedPodsPerNode = number(g.number("surge", 1, 2))
		if g.oneIn("unavailable", 3) {
			u.MaxUnavailablePodsPerNode = number(1)
			u.MaxSurgedPodsPerNode = number(g.number("surge", 0, 1))
		}
		return u
	}
	u.MaxUnavailableNodes = g.count("budget", 1, 3)
	u.AttachGracePeriodSeconds = new(int32(g.number("attach grace", 0, 5)))
	if g.oneIn("surge", 3) {
		u.MaxSurgedPodsPerNode = number(1)
	}
	if checked(spec) {
		u.AnnotateDeploymentToDetach = &v1alpha1.AnnotateDeploymentToDetach{Key: []string{"", otherMarkKey}[g.number("mark key", 0, 1)], GracePeriodSeconds: new(int32(g.number("grace", 0, 8)))}
	}
	key := []string{"detached", "out"}[g.number("key", 0, 1)]
	if u.AnnotateDeploymentToDetach == nil || g.oneIn("annotates nodes", 2) {
		u.AnnotateNodeToDetach = &v1alpha1.AnnotateNodeToDetach{Key: key, GracePeriodSeconds: new(int32(g.number("node grace", 0, 3)))}
		if g.stale || g.number("waits", 0, 2) > 0 {
			u.WaitForDetachmentByAnnotatedTimestamp = &v1alpha1.WaitForDetachmentByAnnotatedTimestamp{Key: g.w.detacher.keys[key], GracePeriodSeconds: new(int32(g.number("timestamp grace", 0, 5)))}
			if spec.ServiceName == "" && g.oneIn("checks fail last", 2) {
				u.FailHealthChecks = v1alpha1.FailAfterDetachment
			}
		}
	}
	return u
}

// analysis draws checks, and what follows where they fail.
func (g *generator) analysis(u *v1alpha1.RollingUpdate) {
	u.FailurePolicy = rapid.SampledFrom([]v1alpha1.FailurePolicy{"", v1alpha1.PauseOnFailure, v1alpha1.RollBackOnFailure}).Draw(g.T, "failure policy")
	for i := range max(0, g.number("checks", -2, 2)) {
		count := int32(g.number("measurements", 1, 3))
		u.Analysis = append(u.Analysis, v1alpha1.AnalysisCheck{
			Name: fmt.Sprintf("c%d", i), IntervalSeconds: new(int32(g.number("interval", 1, 15))), Count: &count,
			FailureLimit: new(int32(g.number("failures", 0, int(count)-1))), DuringWave: g.oneIn("during the wave", 3),
		})
	}
}

// count is a number of nodes, sometimes as a percentage.
func (g *generator) count(label string, min, max int) *intstr.IntOrString {
	n := g.number(label, min, max)
	if g.oneIn(label+" in percent", 3) {
		return new(intstr.FromString(fmt.Sprintf("%d%%", n*20)))
	}
	return number(n)
}

// happening is one thing that can happen to a world.
type happening struct {
	name string
	do   func(g *generator, n *simNode)
}

// happenings all concern some node; those that concern none ignore it.
var happenings = []happening{
	{"new template", func(g *generator, _ *simNode) { g.w.changeTemplate(fmt.Sprintf("r%d", g.number("revision", 1, 4))) }},
	{"pods per node", func(g *generator, _ *simNode) {
		pods := int32(g.number("pods", 0, 3))
		g.w.change(func(s *v1alpha1.IngressDaemonSetSpec) { s.PodsPerNode = &pods })
	}},
	{"strategy", func(g *generator, _ *simNode) {
		u := g.strategy(g.w.spec())
		g.w.change(func(s *v1alpha1.IngressDaemonSetSpec) { s.UpdateStrategy.RollingUpdate = u })
	}},
	{"pause", func(g *generator, _ *simNode) {
		g.w.change(func(s *v1alpha1.IngressDaemonSetSpec) { s.Paused = true })
	}},
	{"resume", func(g *generator, _ *simNode) {
		g.w.change(func(s *v1alpha1.IngressDaemonSetSpec) { s.Paused = false })
	}},
	{"node dies", func(g *generator, n *simNode) { g.w.kill(n) }},
	{"node returns", func(g *generator, n *simNode) { g.w.revive(n) }},
	{"node deleted", func(g *generator, n *simNode) { g.w.removeNode(n.name) }},
	{"node joins", func(g *generator, _ *simNode) { g.join() }},
	{"node leaves the set", func(g *generator, n *simNode) { g.w.setWanted(n, false) }},
	{"node is back in the set", func(g *generator, n *simNode) { g.w.setWanted(n, true) }},
	{"drain", func(g *generator, n *simNode) { g.w.drain(n) }},
	{"cordon", func(g *generator, n *simNode) { g.w.cordon(n, true) }},
	{"uncordon", func(g *generator, n *simNode) { g.w.cordon(n, false) }},
	{"eviction", func(g *generator, n *simNode) { g.w.evict(n.name, g.oneIn("plainly", 2)) }},
	{"foreign template", func(g *generator, n *simNode) {
		g.w.tamper(n, func(d *appsv1.Deployment) {
			d.Spec.Template.Spec.Containers[0].Args = append(d.Spec.Template.Spec.Containers[0].Args, "x")
		})
	}},
	{"foreign scale", func(g *generator, n *simNode) {
		g.w.tamper(n, func(d *appsv1.Deployment) { d.Spec.Replicas = new(int32(g.number("replicas", 0, 4))) })
	}},
	{"detached by hand", func(g *generator, n *simNode) { g.w.keepOut(n, true) }},
	{"attached by hand", func(g *generator, n *simNode) { g.w.keepOut(n, false) }},
	{"kubelet rejects", func(g *generator, n *simNode) { n.rejects, g.w.tight = true, true }},
	{"kubelet accepts", func(g *generator, n *simNode) { n.rejects, n.capacity = false, 0 }},
	{"node is tight", func(g *generator, n *simNode) { g.w.tight = true; n.capacity = int(g.w.spec().Pods()) }},
	{"revision is bad", func(g *generator, _ *simNode) { g.w.spoil(imageOf(g.w.spec().Template), g.w.bad) }},
	{"revision is repaired", func(g *generator, _ *simNode) { g.w.repair() }},
	{"revision misbehaves", func(g *generator, _ *simNode) { g.w.spoil(imageOf(g.w.spec().Template), g.w.misbehaves) }},
	{"revision behaves", func(g *generator, _ *simNode) { delete(g.w.misbehaves, imageOf(g.w.spec().Template)) }},
	{"promoted", func(g *generator, _ *simNode) { g.w.promote() }},
	{"pod restarts", func(g *generator, n *simNode) { g.w.restartOne(n) }},
	{"detacher goes", func(g *generator, _ *simNode) { g.w.detacher.answers = false }},
	{"detacher returns", func(g *generator, _ *simNode) { g.w.detacherReturns() }},
	{"detacher goes in the middle of a bad update", func(g *generator, _ *simNode) {
		image, deadline := fmt.Sprintf("r%d", g.number("revision", 2, 4)), int32(g.number("deadline", 20, 200))
		g.w.change(func(s *v1alpha1.IngressDaemonSetSpec) {
			s.Template.Spec.Containers[0].Image, s.ProgressDeadlineSeconds = image, &deadline
			s.UpdateStrategy.RollingUpdate.FailurePolicy = v1alpha1.RollBackOnFailure
		})
		g.w.spoil(image, rapid.SampledFrom([]map[string]bool{g.w.bad, g.w.misbehaves}).Draw(g.T, "how"))
		g.w.after(time.Duration(g.number("seconds", 1, 90))*time.Second, func() { g.w.detacher.answers = false })
	}},
	{"annotations forbidden", func(g *generator, _ *simNode) { g.w.forbid(true) }},
	{"annotations permitted", func(g *generator, _ *simNode) { g.w.forbid(false) }},
	{"others detach", func(g *generator, n *simNode) { g.w.hold(n, true) }},
	{"others let go", func(g *generator, n *simNode) { g.w.hold(n, false) }},
	{"checker down", func(g *generator, n *simNode) {
		if c := g.checker(n); c != nil {
			g.w.stopChecker(c, time.Duration(g.number("seconds", 1, 60))*time.Second)
		}
	}},
	{"controller upgraded", func(g *generator, _ *simNode) { g.upgrade() }},
	{"refused", func(g *generator, _ *simNode) { g.w.refused[imageOf(g.w.spec().Template)] = true }},
	{"leader freezes", func(g *generator, _ *simNode) {
		g.w.freezes = 0.3
	}},
	{"watch lags", func(g *generator, _ *simNode) {
		kind := rapid.SampledFrom([]string{"IngressDaemonSet", "Deployment", "Pod", "Node", "DaemonSet", "EndpointSlice"}).Draw(g.T, "kind")
		lag := time.Duration(g.number("lag", 1, 180)) * time.Second
		for _, l := range g.w.leaders {
			l.views[kind].lag = lag
		}
	}},
	{"ports", func(g *generator, _ *simNode) {
		ports := [][]int32{nil, {10080}, {10081}, {10080, 10081}}[g.number("ports", 0, 3)]
		g.changes(func(s *v1alpha1.IngressDaemonSetSpec) { s.HealthCheckNodePorts = ports })
	}},
	{"Service", func(g *generator, _ *simNode) { g.changeService() }},
	{"node selector", func(g *generator, _ *simNode) {
		selector := []map[string]string{{nodeLabel: "true"}, {nodeLabel: "true", "zone": "a"}, {"zone": "b"}}[g.number("selector", 0, 2)]
		g.w.change(func(s *v1alpha1.IngressDaemonSetSpec) { s.NodeSelector = selector })
	}},
	{"a removed port is released", func(g *generator, _ *simNode) { g.w.release() }},
	{"placement", func(g *generator, _ *simNode) {
		g.w.change(func(s *v1alpha1.IngressDaemonSetSpec) {
			s.PodPlacement = map[v1alpha1.PodPlacement]v1alpha1.PodPlacement{
				v1alpha1.PlaceByNodeName: v1alpha1.PlaceByScheduler, v1alpha1.PlaceByScheduler: v1alpha1.PlaceByNodeName}[s.Placement()]
		})
	}},
	{"taint", func(g *generator, n *simNode) {
		g.w.taint(n, time.Duration(g.number("tolerated", 0, 2)*20)*time.Second)
	}},
	{"no taint", func(g *generator, n *simNode) { g.w.untaint(n) }},
	{"node is cut off", func(g *generator, n *simNode) { g.w.cutOff(n, time.Duration(g.number("seconds", 5, 120))*time.Second) }},
	{"node is cut off, and leaves the set", func(g *generator, n *simNode) {
		g.w.cutOff(n, time.Duration(g.number("seconds", 5, 120))*time.Second)
		g.w.after(time.Duration(g.number("later", 0, 20))*time.Second, func() { g.w.setWanted(n, false) })
	}},
	{"Node's record rewritten", func(g *generator, n *simNode) { g.w.rewriteRecord(n) }},
	{"Node's annotation removed", func(g *generator, n *simNode) { g.w.wipeNode(n, g.number("which", 0, 2)) }},
	{"Deployment's annotation changed", func(g *generator, n *simNode) { g.w.wipeDeployment(n, g.number("which", 0, 4)) }},
	{"what a Deployment remembers rewritten", func(g *generator, n *simNode) { g.rewritesRemembered(n) }},
	{"Deployment has a finalizer", func(g *generator, n *simNode) { g.w.keepWhenDeleted(n) }},
	{"Deployment deleted", func(g *generator, n *simNode) { g.w.deleteDeployment(n, g.oneIn("orphaning", 2)) }},
	{"checker loses its pod", func(g *generator, n *simNode) {
		if c := g.checker(n); c != nil {
			g.w.losePod(c)
		}
	}},
	{"port hangs", func(g *generator, n *simNode) {
		if c := g.checker(n); c != nil {
			g.w.setHangs(c, true, 0)
		}
	}},
	{"port is slow", func(g *generator, n *simNode) {
		if c := g.checker(n); c != nil {
			g.w.setHangs(c, false, time.Duration(g.number("seconds", 1, 20))*time.Second)
		}
	}},
}

// checker is any of a node's health checkers, also one whose port was removed; nil where
// there is none.
func (g *generator) checker(n *simNode) *simCheck {
	checkers := n.checkers()
	if len(checkers) == 0 {
		return nil
	}
	return checkers[g.number("checker", 0, len(checkers)-1)]
}

// checked reports whether there are health checks that can be made to fail.
func checked(spec *v1alpha1.IngressDaemonSetSpec) bool {
	return len(spec.HealthCheckNodePorts) > 0 || spec.ServiceName != ""
}

// changes changes the spec, and with it a strategy that admission would refuse then.
func (g *generator) changes(edit func(*v1alpha1.IngressDaemonSetSpec)) {
	spec := g.w.spec().DeepCopy()
	edit(spec)
	u := spec.UpdateStrategy.RollingUpdate
	if u != nil && (u.AnnotateDeploymentToDetach != nil && !checked(spec) || u.FailHealthChecks != "" && spec.ServiceName != "") {
		spec.UpdateStrategy.RollingUpdate = g.strategy(spec)
	}
	g.w.change(func(s *v1alpha1.IngressDaemonSetSpec) { *s = *spec })
}

// happen lets things happen, with time in between.
func (g *generator) happen(times int) {
	for range times {
		h := happenings[g.number("happening", 0, len(happenings)-1)]
		if len(g.w.nodes) == 0 {
			g.join()
			continue
		}
		n := g.anyNode()
		g.w.tell("world", "%s (%s)", h.name, n.name)
		// Who serves now is under way no more, whatever becomes of it.
		g.w.audit.settleBooks()
		h.do(g, n)
		pause := time.Duration(g.number("ms", 0, 800)) * time.Millisecond
		if g.oneIn("wait", 2) {
			pause = time.Duration(g.number("seconds", 1, 90)) * time.Second
		}
		g.w.run(g.w.now.Add(pause))
	}
}

func (g *generator) anyNode() *simNode {
	names := g.w.order()
	return g.w.nodes[names[g.number("node", 0, len(names)-1)]]
}
