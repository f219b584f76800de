package attaching

import (
	"fmt"
	"slices"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/targets"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// What goes missing, or is asked for, in some draws. All of it hangs on the seed, so that what the
// other draws are stays the same.

const (
	// edge is the Service of web pods, which nodes take the traffic of at edgePort.
	edge        = "edge"
	servicePort = 80
	edgePort    = 30081
	// region is that of all groups.
	region = "r"
)

// servesByService reports whether group attachments of instances name a Service, in one of five draws.
func (w *world) servesByService() bool { return w.scenario.seed%5 == 1 }

// asksForSettleTimes reports whether group attachments say how long load balancers send on, and those
// are as quick, in one of five draws.
func (w *world) asksForSettleTimes() bool { return w.scenario.seed%5 == 3 }

// losesGroup reports whether a target group is left out of lists for a while, or deleted, in one of seven
// draws.
func (w *world) losesGroup() bool { return w.scenario.seed%7 == 3 }

// settleTime is how long a load balancer may send new connections to what was deregistered.
func (w *world) settleTime(b targets.Balancer) time.Duration {
	if w.asksForSettleTimes() {
		return time.Duration(w.settleSeconds()) * time.Second
	}
	return settleTimeOf(b)
}

// settleSeconds is what group attachments ask for: also less than a call takes to arrive.
func (w *world) settleSeconds() int32 { return []int32{0, 2, 5, 14}[w.scenario.seed/5%4] }

// groupID is the ID of a target group: an ARN where what it says of its owner matters.
func (w *world) groupID(name, role string) string {
	if !w.losesGroup() {
		return "arn:" + name
	}
	account := "999999999999"
	if k := slices.Index(others, role); k >= 0 {
		account = fmt.Sprintf("%012d", k+1)
	}
	return fmt.Sprintf("arn:aws:elasticloadbalancing:%s:%s:targetgroup/%s/0", region, account, name)
}

// ask has a group attachment ask for what the draw is about.
func (w *world) ask(spec *v1alpha1.TargetGroupAttachmentSpec, g *group) {
	if w.asksForSettleTimes() {
		spec.DetachFloorSeconds = new(w.settleSeconds())
	}
	if w.servesByService() && spec.TargetType == string(targets.Instance) && g.Balancer != targets.Classic {
		spec.NodeSelector, spec.IngressDaemonSet = nil, &v1alpha1.LocalReference{Name: "web"}
		spec.Service, spec.Port = &v1alpha1.LocalReference{Name: edge}, intstr.FromInt32(servicePort)
	}
}

// makeService makes the Service through which nodes take the traffic of their web pods.
func (w *world) makeService() {
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: edge}}
	s.Spec.Type, s.Spec.ExternalTrafficPolicy = corev1.ServiceTypeNodePort, corev1.ServiceExternalTrafficPolicyLocal
	s.Spec.Ports = []corev1.ServicePort{{Name: "http", Port: servicePort, NodePort: edgePort}}
	w.api.Put(s)
}

// noService reports whether a group attachment names a Service that is not there.
func (w *world) noService(c *v1alpha1.TargetGroupAttachment) bool {
	return c.Spec.Service != nil && w.api.Find("Service", namespace, edge) == nil
}

// takes reports whether what comes to a pod's machine at a port comes to it.
func (p *pod) takes(port int32) bool { return p.set == "web" && (p.port == port || port == edgePort) }

// lose has a Service and a group go missing at some time, where they do.
func (w *world) lose() {
	seed := w.scenario.seed
	from, back := time.Duration(seed/1000%150)*time.Second+time.Millisecond, time.Duration(10+seed/100000%400)*time.Second
	if w.servesByService() {
		w.after(from, func() {
			if w.healed {
				return
			}
			w.say("somebody: delete the Service")
			w.happened = append(w.happened, "delete the Service")
			w.api.Remove("Service", namespace, edge)
		})
		w.after(from+back, w.makeServiceAnew)
	}
	if w.losesGroup() {
		g := w.groups()[seed/7%uint64(len(w.groups()))]
		w.after(from+time.Millisecond, func() {
			if !w.healed {
				w.loseGroup(g, back)
			}
		})
	}
}

// makeServiceAnew brings the Service back, if it is gone.
func (w *world) makeServiceAnew() {
	if w.servesByService() && w.api.Find("Service", namespace, edge) == nil {
		w.say("somebody: make the Service anew")
		w.makeService()
		w.serviceMade = time.Now()
	}
}

// loseGroup leaves a group out of lists for a while, or for good: it is deleted then, which a load balancer
// that uses it forbids. That it is gone nobody can tell where its role has no other target group.
func (w *world) loseGroup(g *group, back time.Duration) {
	others := slices.ContainsFunc(g.role.groups, func(o *group) bool { return o != g && o.Balancer != targets.Classic })
	if w.scenario.seed/49%2 == 0 || !others {
		w.say("%s is left out of lists for %s", g.Name, back)
		w.happened = append(w.happened, "leave a group out of lists")
		g.unlisted = true
		w.after(back, g.relist)
		return
	}
	w.say("somebody: delete %s", g.Name)
	w.happened = append(w.happened, "delete a group")
	g.role.groups = slices.DeleteFunc(g.role.groups, func(o *group) bool { return o == g })
}

// relist has lists show a group again.
func (g *group) relist() {
	if g.unlisted {
		g.unlisted, g.relisted = false, time.Now()
	}
}

// overlooked reports whether somebody may not know of a group, since lists leave it out.
func (g *group) overlooked() bool {
	return g.unlisted || !g.relisted.IsZero() && time.Since(g.relisted) < tagsAge
}
