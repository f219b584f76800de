package controller

import (
	"maps"
	"slices"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/rollout"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// The Service to which pods are published, what is published there, and kube-proxy, which
// answers health checks by that.

const (
	// service is its name.
	service = "web"
	// proxyPort is where kube-proxy answers on every node, if anywhere.
	proxyPort = 30080
	// slowestProxy is how late kube-proxy may be on a busy node.
	slowestProxy = 10 * time.Second
)

// offer makes the Service; proxied says whether kube-proxy answers health checks for it.
func (w *world) offer(proxied bool) {
	w.proxied = proxied
	port := map[bool]int32{true: proxyPort}[proxied]
	w.api.Put(&corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: theSet.Namespace, Name: service},
		Spec: corev1.ServiceSpec{
			ExternalTrafficPolicy: corev1.ServiceExternalTrafficPolicyLocal, HealthCheckNodePort: port,
			Ports: []corev1.ServicePort{{Name: "web", Port: 80, Protocol: corev1.ProtocolTCP, TargetPort: intstr.FromInt32(8080)}},
		},
	})
}

// endpointsChanged has kube-proxy see what is published on a node: it answers 200 while any pod
// there is said to take new connections.
func (w *world) endpointsChanged(slice *discoveryv1.EndpointSlice) {
	if len(slice.Endpoints) == 0 {
		return
	}
	if n := w.nodes[*slice.Endpoints[0].NodeName]; n != nil {
		w.proxySoon(n)
	}
}

func (w *world) proxySoon(n *simNode) {
	c := n.proxy
	if c.pending {
		return
	}
	c.pending = true
	lag := w.between(50*time.Millisecond, 500*time.Millisecond)
	if w.chance(0.05) {
		lag = w.between(lag, slowestProxy)
	}
	w.after(lag, func() {
		c.pending = false
		serving := w.published(n.name)
		if w.nodes[n.name] != n || !n.alive || serving == c.serving {
			return
		}
		c.serving, c.since, c.same = serving, w.now, w.now
		c.fails(w.now)
		w.tell("kube-proxy", "%s: %s", n.name, verdictInWords(serving, ""))
		w.answerAll(c)
	})
}

// unheardByProxy is for how long an answer of kube-proxy may be known to nobody: it is asked
// once a second, and repeats no mark. Load balancers know no sooner.
const unheardByProxy = 2 * askPlainEvery

// askProxy asks kube-proxy as the real one does, each second. While the answer is the same,
// nothing comes of that.
func (l *leader) askProxy(n *simNode, to *caller, settle func(time.Duration, rollout.Check, string, error)) {
	answer := func() rollout.Check {
		return rollout.Check{Port: to.Number, Unmarked: true, Answered: true, Serving: n.proxy.serving, Since: l.now()}
	}
	if !to.last.Answered || to.last.Serving != n.proxy.serving {
		settle(l.w.between(time.Millisecond, 20*time.Millisecond), answer(), "", nil)
		return
	}
	n.proxy.waiting = append(n.proxy.waiting, &question{by: l, settle: func(_ time.Duration, _ rollout.Check, _ string, err error) {
		if err != nil {
			settle(askPlainEvery, rollout.Check{Port: to.Number, Unmarked: true}, "", err)
			return
		}
		settle(l.w.between(0, askPlainEvery), answer(), "", nil)
	}})
}

// changeService publishes the pods to the Service, or no more.
func (g *generator) changeService() {
	g.w.offer(g.oneIn("kube-proxy answers", 2))
	g.changes(func(s *v1alpha1.IngressDaemonSetSpec) {
		s.ServiceName = map[string]string{"": service, service: ""}[s.ServiceName]
	})
}

// endpoints calls what it is given for each pod that is published, until that says to stop.
func (w *world) endpoints(each func(discoveryv1.Endpoint) (goOn bool)) {
	for _, obj := range w.api.All("EndpointSlice") {
		for _, e := range obj.(*discoveryv1.EndpointSlice).Endpoints {
			if !each(e) {
				return
			}
		}
	}
}

// published reports whether a pod of a node is said to take new connections.
func (w *world) published(node string) (ready bool) {
	w.endpoints(func(e discoveryv1.Endpoint) bool {
		ready = *e.NodeName == node && *e.Conditions.Ready
		return !ready
	})
	return ready
}

func (w *world) pod(name string) *simPod {
	i := slices.IndexFunc(w.pods, func(p *simPod) bool { return p.name == name })
	if i < 0 {
		return nil
	}
	return w.pods[i]
}

// mispublished are pods that serve and are not published as such, when all is at rest, and
// others that are.
func (w *world) mispublished() []string {
	wrong := map[string]string{}
	for _, p := range w.pods {
		if n := w.nodes[p.node]; n != nil && n.wanted() && p.ready && w.spec().ServiceName != "" {
			wrong[p.name] = "is not published"
		}
	}
	w.endpoints(func(e discoveryv1.Endpoint) bool {
		name := e.TargetRef.Name
		if p := w.pod(name); p == nil || w.spec().ServiceName == "" || *e.Conditions.Ready != (p.ready && !p.terminating) {
			wrong[name] = "is published"
			return true
		}
		delete(wrong, name)
		return true
	})
	var out []string
	for _, name := range slices.Sorted(maps.Keys(wrong)) {
		out = append(out, "pod "+name+" "+wrong[name])
	}
	return out
}

// checkPublished: where a controller is there that sees and can write, no pod stays published that
// ends or whose node is out, and none unpublished that serves: nobody else keeps requests from it.
func (a *audit) checkPublished() {
	w, set := a.w, a.w.set()
	able := set != nil && set.DeletionTimestamp == nil && w.crashes == 0 && w.freezes == 0 && w.hung == 0 && !w.viewsLag() && !w.watchLags() && !w.controllerAway()
	ready := map[string]bool{}
	w.endpoints(func(e discoveryv1.Endpoint) bool {
		ready[e.TargetRef.Name] = ready[e.TargetRef.Name] || *e.Conditions.Ready
		return true
	})
	for _, p := range w.pods {
		n, d := w.nodes[p.node], w.deployments[p.node]
		able := able && n != nil && d != nil && set.Spec.ServiceName != ""
		stays := able && n.wanted() && n.ready() && p.ready && !p.terminating && !d.marked()
		goes := able && (p.terminating || w.findsMark(d))
		if a.lasts("unpublished "+p.name, stays && !ready[p.name], 2*aMoment) || a.lasts("published "+p.name, goes && ready[p.name], aMoment) {
			a.fault("pod %s of %s: published as ready is %t", p.name, p.node, ready[p.name])
		}
	}
}
