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
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// What others do to the world, and what breaks. which chooses among what there is.
var happenings = map[string]func(w *world, which int){
	// Nodes.
	"cordon": func(w *world, i int) {
		w.editNode(pick(w.nodes, i), func(o *corev1.Node) { o.Spec.Unschedulable = true })
	},
	"uncordon": func(w *world, i int) {
		w.editNode(pick(w.nodes, i), func(o *corev1.Node) { o.Spec.Unschedulable = false })
	},
	"cordon and back": func(w *world, i int) {
		n := pick(w.nodes, i)
		for k := range 3 {
			w.after(time.Duration(k*(1+i%7))*time.Second+time.Duration(k+1), func() {
				w.editNode(n, func(o *corev1.Node) { o.Spec.Unschedulable = k != 1 })
			})
		}
	},
	"ask for a node": func(w *world, i int) {
		w.editNode(pick(w.nodes, i), func(o *corev1.Node) {
			if o.Annotations == nil {
				o.Annotations = map[string]string{}
			}
			if _, asked := o.Annotations[v1alpha1.AnnotationNodeDetached]; asked && i%3 > 0 {
				delete(o.Annotations, v1alpha1.AnnotationNodeDetached)
			} else {
				o.Annotations[v1alpha1.AnnotationNodeDetached] = "true"
			}
		})
	},
	"deselect a node": func(w *world, i int) {
		w.editNode(pick(w.nodes, i), func(o *corev1.Node) { delete(o.Labels, "pool") })
	},
	"lose the providerID": func(w *world, i int) {
		n := pick(w.nodes, i)
		if o := w.object(n); o == nil || n.nameless {
			return
		}
		n.nameless = true
		w.api.Remove("Node", "", n.name)
		was := n.instance
		w.after(time.Duration(500+i)*time.Millisecond, func() { w.boot(n) })
		w.after(time.Duration(5+i%120)*time.Second, func() {
			n.nameless = false
			if n.instance == was {
				w.editNode(n, func(o *corev1.Node) { o.Spec.ProviderID = "aws:///z/" + n.instance })
			}
		})
	},
	"replace a node": func(w *world, i int) {
		n := pick(w.nodes, i)
		if n.gone || n.nameless {
			return
		}
		w.api.Remove("Node", "", n.name)
		n.gone = true
		w.machineEnds(n)
		w.after(time.Duration(1+i%60)*time.Second, func() {
			n.machines++
			n.instance = fmt.Sprintf("i-%s-%d", n.name[1:], n.machines)
			w.boot(n)
		})
	},
	// Pods.
	"delete a pod": func(w *world, i int) {
		if p := pick(w.pods, i); p != nil {
			w.end(p, time.Duration(1+i%90)*time.Second)
		}
	},
	"kill a pod": func(w *world, i int) {
		if p := pick(w.pods, i); p != nil {
			w.vanish(p)
		}
	},
	"fail a pod": func(w *world, i int) {
		if p := pick(w.pods, i); p != nil {
			w.fail(p)
		}
	},
	"make a pod without the port": func(w *world, i int) {
		if n := pick(w.nodes, i); !n.gone {
			w.makePod(n, "plain", false)
		}
	},
	"change the port in the template": func(w *world, _ int) { w.rollOut() },
	// What users write.
	"add a claim": func(w *world, i int) {
		if len(w.groupAttachments()) == 0 || w.groupAttachment("a") != nil && w.groupAttachment("m") != nil && w.groupAttachment("z") != nil {
			return
		}
		like := pick(w.groupAttachments(), i).DeepCopy()
		added := &v1alpha1.TargetGroupAttachment{Spec: like.Spec}
		added.Namespace = namespace
		for k := range 3 {
			if name := []string{"a", "m", "z"}[(i+k)%3]; w.groupAttachment(name) == nil {
				added.Name = name
			}
		}
		must(w.user.Create(ctx, added))
	},
	"delete a claim": func(w *world, i int) {
		if c := pick(w.groupAttachments(), i); c != nil {
			must(w.user.Delete(ctx, c.DeepCopy()))
		}
	},
	"retarget a claim": func(w *world, i int) {
		if c := pick(w.groupAttachments(), i); c != nil {
			w.retarget(c.Name, i, func(g *group) bool { return g.role.name == roleOf(c) })
		}
	},
	"change a claim's role": func(w *world, i int) {
		if c := pick(w.groupAttachments(), i); c != nil {
			w.retarget(c.Name, i, func(g *group) bool { return g.role.name != roleOf(c) })
		}
	},
	"change a claim's port": func(w *world, i int) {
		if c := pick(w.groupAttachments(), i); c != nil && c.Spec.Service == nil {
			w.editGroupAttachment(c.Name, func(s *v1alpha1.TargetGroupAttachmentSpec) { s.Port = intstr.FromInt32(s.Port.IntVal%40000 + 1000) })
		}
	},
	"mistype a set": func(w *world, i int) {
		for _, c := range w.groupAttachments() {
			if c.Spec.IngressDaemonSet != nil {
				w.editGroupAttachment(c.Name, func(s *v1alpha1.TargetGroupAttachmentSpec) {
					s.IngressDaemonSet = &v1alpha1.LocalReference{Name: "wbe"}
				})
				w.after(time.Duration(10+i%100)*time.Second, func() {
					w.editGroupAttachment(c.Name, func(s *v1alpha1.TargetGroupAttachmentSpec) {
						s.IngressDaemonSet = &v1alpha1.LocalReference{Name: "web"}
					})
				})
				return
			}
		}
	},
	"orphan the set": func(w *world, _ int) { w.api.Remove("IngressDaemonSet", namespace, "web") },
	"spoil a record": func(w *world, i int) { w.spoil(i) },
	// The API server and those who lead.
	"refuse writes": func(w *world, i int) {
		var names []string
		for _, n := range w.nodes {
			names = append(names, "Attachment/"+n.name)
		}
		for _, c := range w.groupAttachments() {
			names = append(names, "TargetGroupAttachment/"+c.Name)
		}
		w.refuse[pick(names, i)] = true
	},
	"lag": func(w *world, i int) {
		for _, l := range w.leaders {
			v := l.views[pick(kinds, i)]
			v.lag = time.Duration(i%180) * time.Second
			w.after(time.Duration(20+i%200)*time.Second, func() { v.lag = 0 })
		}
	},
	"crash": func(w *world, i int) {
		for _, l := range slices.Clone(w.leaders) {
			l.die(time.Duration(1+i%20)*time.Second, w.anyStale(w.dice("crash")))
		}
	},
	"freeze": func(w *world, i int) {
		for _, l := range w.leaders {
			l.freeze(time.Duration(1+i%600) * time.Second)
			return
		}
	},
	"be replaced while lists are late": func(w *world, i int) {
		r := pick(w.roles, i)
		r.slow = time.Duration(20+i%200) * time.Second
		w.after(r.slow, func() { r.slow = 0 })
		for _, l := range slices.Clone(w.leaders) {
			l.die(time.Duration(1+i%5)*time.Second, w.anyStale(w.dice("crash")))
		}
	},
	// The clouds.
	"cannot list": func(w *world, i int) {
		r := pick(w.roles, i)
		r.blind = true
		w.after(time.Duration(10+i%300)*time.Second, func() { r.opens(&r.blind) })
	},
	"list late": func(w *world, i int) {
		r := pick(w.roles, i)
		r.slow = time.Duration(5+i%115) * time.Second
		w.after(time.Duration(10+i%300)*time.Second, func() { r.slow = 0 })
	},
	"cannot assume": func(w *world, i int) {
		r := pick(w.roles, i)
		r.closed = true
		w.after(time.Duration(10+i%300)*time.Second, func() { r.opens(&r.closed) })
	},
	"fail a group": func(w *world, i int) {
		g := pick(w.groups(), i)
		kind := []targets.Kind{targets.Deregister, targets.Register, targets.Read}[i/7%3]
		g.fails[kind] = []error{errThrottled, errRefused, errLost}[i/3%3]
	},
	"have many groups that refuse": func(w *world, _ int) { w.refusingGroups() },
	"break the webhook": func(w *world, i int) {
		w.edge.fails, w.edge.slow = i%3 == 0, time.Duration(i%12)*time.Second
	},
	"meddle": func(w *world, i int) {
		g := pick(w.groups(), i)
		held := g.all()
		switch i / 5 % 3 {
		case 0:
			if t := pick(held, i/11); t.ID != "" {
				g.deregister(t, them)
			}
		case 1:
			if g.Type == targets.Instance {
				g.register(targets.Target{ID: pick(w.nodes, i).instance, Port: foreignPort}, them)
			}
		default:
			if g.Type == targets.IP {
				g.register(targets.Target{ID: "10.9.0.2", Port: 8080}, them)
			}
		}
	},
}

func happeningKinds() []string { return sortedKeys(happenings) }

// pick is one of a list, the zero value of an empty one.
func pick[T any](list []T, i int) (one T) {
	if len(list) == 0 {
		return one
	}
	return list[i%len(list)]
}

// happen lets one thing happen, with mu held.
func (w *world) happen(h happening) {
	w.say("somebody: %s (%d)", h.kind, h.which)
	w.happened = append(w.happened, h.kind)
	happenings[h.kind](w, h.which)
}

// machineEnds ends all pods of a node at once.
func (w *world) machineEnds(n *node) {
	for _, p := range slices.Clone(w.pods) {
		if p.node == n.name {
			w.vanish(p)
		}
	}
}

// rollOut changes the number of the named port, and replaces the pods one by one.
func (w *world) rollOut() {
	o, ok := w.api.Find("IngressDaemonSet", namespace, "web").(*v1alpha1.IngressDaemonSet)
	if !ok {
		return
	}
	w.template++
	set := o.DeepCopy()
	set.Spec.Template.Spec = w.podSpec("web", w.template, w.scenario.hooks, true)
	must(w.user.Update(ctx, set, client.FieldOwner("kubectl")))
	w.record()
	var old []*pod
	for _, p := range w.pods {
		if p.set == "web" {
			old = append(old, p)
		}
	}
	for i, p := range old {
		w.after(time.Duration(i+1)*20*time.Second+time.Duration(i+1), func() { w.end(p, 60*time.Second) })
	}
}

// retarget has a group attachment choose another group of its type.
func (w *world) retarget(name string, which int, fits func(*group) bool) {
	c := w.groupAttachment(name)
	var all []*group
	for _, g := range w.groups() {
		if string(g.Type) == c.Spec.TargetType && fits(g) && !selects(c, g) && g.Balancer != targets.Classic {
			all = append(all, g)
		}
	}
	if g := pick(all, which); g != nil {
		w.editGroupAttachment(name, func(s *v1alpha1.TargetGroupAttachmentSpec) { w.point(s, g, false) })
	}
}

// unreadable is what a record cannot be read from.
const unreadable = "what is this"

// spoil writes a record that cannot be read into a status, as another version might.
func (w *world) spoil(which int) {
	var all []func()
	for _, c := range w.groupAttachments() {
		for i := range c.Status.Groups {
			all = append(all, func() {
				next := c.DeepCopy()
				next.Status.Groups[i].Targets = append(next.Status.Groups[i].Targets, unreadable)
				must(w.user.Status().Update(ctx, next))
			})
		}
	}
	for _, a := range w.attachments() {
		for i := range a.Status.Groups {
			all = append(all, func() {
				next := a.DeepCopy()
				next.Status.Groups[i].Targets = append(next.Status.Groups[i].Targets, unreadable)
				must(w.user.Status().Update(ctx, next))
			})
		}
	}
	if do := pick(all, which); do != nil {
		do()
	}
}

func isUnreadable(s string) bool { return s == unreadable }

// mend takes out what cannot be read.
func (w *world) mend() {
	for _, c := range w.groupAttachments() {
		for i := range c.Status.Groups {
			if slices.ContainsFunc(c.Status.Groups[i].Targets, isUnreadable) {
				next := w.groupAttachment(c.Name).DeepCopy()
				next.Status.Groups[i].Targets = slices.DeleteFunc(next.Status.Groups[i].Targets, isUnreadable)
				must(w.user.Status().Update(ctx, next))
			}
		}
	}
	for _, a := range w.attachments() {
		for i := range a.Status.Groups {
			if slices.ContainsFunc(a.Status.Groups[i].Targets, isUnreadable) {
				next := w.attachment(a.Name).DeepCopy()
				next.Status.Groups[i].Targets = slices.DeleteFunc(next.Status.Groups[i].Targets, isUnreadable)
				must(w.user.Status().Update(ctx, next))
			}
		}
	}
}

// refusingGroups are many that a group attachment is on and that refuse whatever is registered.
func (w *world) refusingGroups() {
	if w.many {
		return
	}
	w.many = true
	for i := range 15 {
		g := w.addGroup(w.roles[0], targets.Group{
			ID: w.groupID(fmt.Sprintf("x%d", i), ""), Name: fmt.Sprintf("x%d", i), Balancer: targets.Network, Type: targets.Instance, Port: nodePort,
			Tags: map[string]string{"many": "yes"}, InUse: true, Delay: time.Second, CrossZone: true,
		})
		g.fails[targets.Register] = errRefused
	}
	c := &v1alpha1.TargetGroupAttachment{}
	c.Namespace, c.Name = namespace, "many"
	c.Spec = v1alpha1.TargetGroupAttachmentSpec{
		TargetGroup: v1alpha1.TargetGroupSelector{Tags: map[string]string{"many": "yes"}}, TargetType: string(targets.Instance),
		NodeSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"pool": "edge"}}, Port: intstr.FromInt32(nodePort),
	}
	must(w.user.Create(ctx, c))
}
