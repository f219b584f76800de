package attaching

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// The pods of an IngressDaemonSet "web", and others that a selector finds: what a kubelet
// and the Deployment controller do with them, as far as targets are concerned.

// pod is the truth about one.
type pod struct {
	w          *world
	name, node string
	set        string
	address    string
	// port is what it listens on, whatever a template says by now; 0 where it declares none.
	port int32
	// serves says whether it answers, ends whether its deletion has begun, gone whether
	// nothing runs any more.
	serves, ends, gone bool
	// freed says whether its address may be another's by now.
	freed bool
	hook  bool
	// endedAt is when its deletion began, kill when its grace period is over.
	endedAt, kill time.Time
}

func (p *pod) String() string {
	told := ""
	if o := p.object(); o != nil {
		told = o.Annotations[v1alpha1.AnnotationTargets]
	}
	return fmt.Sprintf("%s %s:%d serves %t ends %t gone %t told %q", p.name, p.address, p.port, p.serves, p.ends, p.gone, told)
}

// held reports whether its drain hook holds it.
func (p *pod) held() bool {
	return p.hook && p.object() != nil && p.object().Annotations[v1alpha1.AnnotationTargets] == v1alpha1.TargetsIn
}

// goesOn reports whether it serves and is not about to end: its drain hook holds it for a while yet.
func (p *pod) goesOn() bool {
	return !p.ends || p.serves && p.held() && time.Until(p.kill) > hookLeaves
}

// hookLeaves is more than the time that the drain hook of a set leaves to its pods.
const hookLeaves = 15 * time.Second

// failed reports whether it has ended by itself, and lingers.
func (p *pod) failed() bool { return p.ends && !p.serves }

func (p *pod) object() *corev1.Pod {
	o, _ := p.w.api.Find("Pod", namespace, p.name).(*corev1.Pod)
	return o
}

func (p *pod) edit(change func(*corev1.Pod)) {
	if o := p.object(); o != nil {
		o = o.DeepCopy()
		change(o)
		p.w.api.Put(o)
	}
}

// schedule has a node's pods made that are missing.
func (w *world) schedule(n *node) {
	o := w.object(n)
	if o == nil || slices.ContainsFunc(o.Spec.Taints, func(t corev1.Taint) bool { return t.Key == v1alpha1.TaintDetaching }) {
		return
	}
	for _, set := range []string{"web", "plain"} {
		want := map[string]int{"web": w.scenario.webPods, "plain": w.scenario.plainPods}[set]
		if set == "web" && w.orphaned() {
			continue
		}
		have := 0
		for _, p := range w.pods {
			if p.node == n.name && p.set == set && !p.ends && !p.gone {
				have++
			}
		}
		for ; have < want; have++ {
			w.makePod(n, set, true)
		}
	}
}

// orphaned reports whether the IngressDaemonSet is gone, and its pods with nobody to replace them.
func (w *world) orphaned() bool { return w.api.Find("IngressDaemonSet", namespace, "web") == nil }

// makePod makes one, which has an address and serves a while later.
func (w *world) makePod(n *node, set string, declares bool) {
	w.made++
	p := &pod{w: w, name: fmt.Sprintf("%s-%s-%d", set, n.name, w.made), node: n.name, set: set, port: 8080, hook: set == "web" && w.scenario.hooks}
	if set == "web" {
		p.port = w.template
	}
	o := &corev1.Pod{}
	o.Namespace, o.Name = namespace, p.name
	o.Labels = map[string]string{"app": set}
	if set == "web" {
		o.Labels[v1alpha1.LabelName], o.Labels[v1alpha1.LabelNode] = v1alpha1.LabelValue(set), n.name
		o.Labels[v1alpha1.LabelRevision] = w.revision()
	}
	if set == "plain" {
		o.Annotations = map[string]string{v1alpha1.AnnotationDeletionPriority: "1"}
	}
	o.Spec = w.podSpec(set, p.port, p.hook, declares)
	o.Spec.NodeName = n.name
	if !declares {
		p.port = 0
	}
	w.api.Put(o)
	w.pods = append(w.pods, p)
	r := w.dice("pod %s", p.name)
	w.after(between(r, time.Second, 6*time.Second), func() { w.start(p) })
}

// revision is that of the template as it is.
func (w *world) revision() string { return fmt.Sprint("r", w.template) }

// record keeps the template as it is for as long as pods may be made from it.
func (w *world) record() {
	data, err := json.Marshal(corev1.PodTemplateSpec{Spec: w.podSpec("web", w.template, w.scenario.hooks, true)})
	must(err)
	o := &appsv1.ControllerRevision{Data: runtime.RawExtension{Raw: data}, Revision: int64(w.template)}
	o.Namespace, o.Name = namespace, "web-"+w.revision()
	o.Labels = map[string]string{v1alpha1.LabelName: v1alpha1.LabelValue("web"), v1alpha1.LabelRevision: w.revision()}
	w.api.Put(o)
}

func (w *world) podSpec(set string, port int32, hook, declares bool) corev1.PodSpec {
	c := corev1.Container{Name: "proxy"}
	if declares {
		c.Ports = []corev1.ContainerPort{{Name: "http", ContainerPort: port, HostPort: port}}
		if set == "plain" {
			c.Ports[0].HostPort = 0
		}
	}
	if hook {
		c.Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{HTTPGet: &corev1.HTTPGetAction{Path: v1alpha1.DrainPath}}}
	}
	spec := corev1.PodSpec{Containers: []corev1.Container{c}}
	if w.scenario.gates {
		for _, name := range []string{"a", "m", "z"} {
			spec.ReadinessGates = append(spec.ReadinessGates, corev1.PodReadinessGate{ConditionType: corev1.PodConditionType(v1alpha1.ReadinessGate(name))})
		}
	}
	return spec
}

// start gives a pod an address; a moment later it serves.
func (w *world) start(p *pod) {
	if p.gone || p.ends {
		return
	}
	w.audit.refresh()
	p.address = w.address(p)
	p.edit(func(o *corev1.Pod) {
		o.Status.Phase, o.Status.PodIP, o.Status.PodIPs = corev1.PodRunning, p.address, []corev1.PodIP{{IP: p.address}}
	})
	w.after(between(w.dice("serves %s", p.name), time.Second, 10*time.Second), func() {
		if !p.gone {
			p.serves = true
			w.audit.serves(p)
			p.edit(func(o *corev1.Pod) {
				o.Status.Conditions = append(o.Status.Conditions, corev1.PodCondition{Type: corev1.ContainersReady, Status: corev1.ConditionTrue})
			})
		}
	})
}

// address is a free one: in some scenarios one that another pod had, which may be registered yet, or
// stand in the status of a pod that has failed.
func (w *world) address(p *pod) string {
	if r := w.dice("address of %s", p.name); w.scenario.reuses() && len(w.freed) > 0 && r.IntN(2) == 0 {
		i := r.IntN(len(w.freed))
		address := w.freed[i]
		w.freed = slices.Delete(w.freed, i, i+1)
		w.say("pod %s on %s gets %s, which another had", p.name, p.node, address)
		return address
	}
	address := fmt.Sprintf("10.0.%d.%d", w.made/250, w.made%250+1)
	for slices.ContainsFunc(w.pods, func(o *pod) bool { return o != p && o.address == address }) {
		w.made++
		address = fmt.Sprintf("10.0.%d.%d", w.made/250, w.made%250+1)
	}
	w.freed = slices.DeleteFunc(w.freed, func(freed string) bool { return freed == address })
	return address
}

// end deletes a pod with a grace period. One with a drain hook serves until that is let go.
func (w *world) end(p *pod, grace time.Duration) {
	if p.ends || p.gone {
		return
	}
	w.audit.refresh()
	p.ends, p.endedAt, p.kill = true, time.Now(), time.Now().Add(grace)
	w.say("pod %s is deleted, with %s", p.name, grace)
	p.edit(func(o *corev1.Pod) {
		o.DeletionTimestamp = new(metav1.NewTime(p.kill.Truncate(time.Second).Add(time.Second)))
		o.DeletionGracePeriodSeconds = new(int64(grace.Seconds()))
	})
	w.stopping(p)
	if n := w.node(p.node); n != nil {
		w.after(between(w.dice("replaces %s", p.name), 200*time.Millisecond, 3*time.Second), func() { w.schedule(n) })
	}
}

// stopping asks again and again whether the drain hook is let go.
func (w *world) stopping(p *pod) {
	held := p.held()
	d := between(w.dice("stops %s", p.name), time.Second, 4*time.Second)
	w.after(d, func() {
		switch {
		case p.gone:
		case held && time.Now().Before(p.kill):
			w.stopping(p)
		default:
			w.vanish(p)
		}
	})
}

// fail is a pod that ends by itself, and stays for a while.
func (w *world) fail(p *pod) {
	if p.gone || p.ends {
		return
	}
	w.audit.refresh()
	p.ends, p.serves = true, false
	w.audit.vanished(p)
	w.say("pod %s fails", p.name)
	w.free(p)
	p.edit(func(o *corev1.Pod) { o.Status.Phase = corev1.PodFailed })
	r := w.dice("fails %s", p.name)
	if n := w.node(p.node); n != nil {
		w.after(between(r, 200*time.Millisecond, 3*time.Second), func() { w.schedule(n) })
	}
	w.after(between(r, 10*time.Second, 2*time.Minute), func() { w.vanish(p) })
}

// free gives the address of a pod back, of which nothing runs any more.
func (w *world) free(p *pod) {
	if p.address != "" && !p.freed {
		p.freed = true
		w.freed = append(w.freed, p.address)
	}
}

// vanish takes a pod away at once.
func (w *world) vanish(p *pod) {
	if p.gone {
		return
	}
	w.audit.refresh()
	w.free(p)
	p.gone, p.ends, p.serves = true, true, false
	w.say("pod %s is gone", p.name)
	w.api.Remove("Pod", namespace, p.name)
	w.pods = slices.DeleteFunc(w.pods, func(o *pod) bool { return o == p })
	w.audit.vanished(p)
	if n := w.node(p.node); n != nil {
		w.after(between(w.dice("vanished %s", p.name), 200*time.Millisecond, 3*time.Second), func() { w.schedule(n) })
	}
}
