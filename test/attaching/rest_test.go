package attaching

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/targets"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// How the world comes to rest: what must be so when nothing happens any more.

// calm ends all that befalls processes: nobody dies, freezes or lags any more.
func (w *world) calm() {
	w.healed = true
	for _, l := range slices.Clone(w.leaders) {
		for _, v := range l.views {
			v.lag = 0
		}
		switch {
		case !l.lostAt.IsZero() || w.lease != l:
			l.end()
		case l.thaw == nil:
			l.renewedAt = time.Time{}
		default:
			close(l.thaw)
			l.thaw, l.renewedAt = nil, time.Time{}
			for _, kind := range kinds {
				w.after(time.Millisecond, l.views[kind].comes)
			}
		}
	}
	if len(w.leaders) == 0 {
		w.lead(0, 0)
	}
	for _, g := range w.groups() {
		if g.closed {
			g.close(false)
		}
	}
	w.makeServiceAnew()
	for _, g := range w.groups() {
		g.relist()
	}
	for _, r := range w.roles {
		r.blind, r.closed, r.slow = false, false, 0
	}
	w.edge.fails, w.edge.slow = false, 0
}

// heal ends what can last for ever.
func (w *world) heal() {
	w.refuse = map[string]bool{}
	for _, g := range w.groups() {
		g.fails = map[targets.Kind]error{}
	}
	w.mend()
	for _, p := range slices.Clone(w.pods) {
		if p.port == 0 {
			w.vanish(p)
		}
	}
}

// release lets all nodes return.
func (w *world) release() {
	for _, n := range w.nodes {
		o := w.object(n)
		if o == nil {
			continue
		}
		_, asked := o.Annotations[v1alpha1.AnnotationNodeDetached]
		if o.Spec.Unschedulable || asked {
			w.editNode(n, func(o *corev1.Node) {
				o.Spec.Unschedulable = false
				delete(o.Annotations, v1alpha1.AnnotationNodeDetached)
			})
		}
	}
}

// broken reports whether something that may last for ever stands in the way of a place.
func (w *world) broken(at place, by []string) bool {
	if len(at.group.fails) > 0 || w.unreadableIn(at.group) || w.misfits(at.group) || w.refuse["Attachment/"+w.audit.on[at.target.ID]] {
		return true
	}
	return slices.ContainsFunc(by, func(name string) bool { return w.refuse["TargetGroupAttachment/"+name] })
}

// misfits reports whether a group attachment wants instances at a port that no pod has: what it has is left
// as it is.
func (w *world) misfits(g *group) bool {
	return slices.ContainsFunc(w.groupAttachments(), func(c *v1alpha1.TargetGroupAttachment) bool {
		return g.Type == targets.Instance && speaksOf(c, g) && c.Spec.IngressDaemonSet != nil && c.Spec.Service == nil && c.Spec.Port.Type == intstr.Int &&
			!slices.ContainsFunc(w.pods, func(p *pod) bool { return p.set == "web" && p.port == c.Spec.Port.IntVal })
	})
}

// missing is what should be registered and is not, or should be out and is not, but for
// what is broken.
func (w *world) missing() (out []string) {
	w.audit.refresh()
	wanted := w.wanted()
	for _, at := range sortedPlaces(wanted) {
		s := wanted[at]
		switch {
		case !s.in || w.broken(at, s.by):
		case !at.group.holds(at.target):
			out = append(out, fmt.Sprintf("%s is wanted in %s by %v, and is not registered %s", at.target, at.group.Name, s.by, w.audit.facts(at)))
		}
	}
	for _, g := range w.groups() {
		for _, t := range g.all() {
			at, m := place{g, t}, g.members[t]
			s, by := wanted[at], w.recordedBy(at)
			if s != nil {
				by = append(by, s.by...)
			}
			if s != nil && (s.in || s.stays) || w.broken(at, by) {
				continue
			}
			kept := w.keptOut(w.audit.on[t.ID])
			switch whole := w.whole(g); {
			case g.holds(t) && m.by == us && !m.theirs && !w.minimumHolds(g, t) && !w.minimumHoldsWith(at) && !w.staysFor(at):
				out = append(out, fmt.Sprintf("%s is left in %s, and nobody wants it there %s", t, g.Name, w.audit.facts(at)))
			case m.theirs && m.outBy == us && !g.holds(t) && !kept && !whole && w.machine(t):
				out = append(out, fmt.Sprintf("%s is somebody else's, and was not put back into %s %s", t, g.Name, w.audit.facts(at)))
			}
		}
	}
	return out
}

// staysFor reports whether a pod lives at a place that a group attachment has on record whose set is not
// there, or one that declares no port: at which port nobody knows.
func (w *world) staysFor(at place) bool {
	portless := slices.ContainsFunc(w.pods, func(p *pod) bool { return p.port == 0 && !p.ends && p.address == at.target.ID })
	if portless && slices.ContainsFunc(w.recordedBy(at), func(name string) bool { return w.groupAttachment(name).DeletionTimestamp == nil }) {
		return true
	}
	lives := slices.ContainsFunc(w.pods, func(p *pod) bool {
		return p.set == "web" && !p.ends && (p.address == at.target.ID || w.node(p.node).instance == at.target.ID)
	})
	return lives && slices.ContainsFunc(w.recordedBy(at), func(name string) bool { return w.setIsGone(w.groupAttachment(name)) })
}

// machine reports whether what is at a target is there still.
func (w *world) machine(t targets.Target) bool {
	return slices.ContainsFunc(w.nodes, func(n *node) bool { return n.instance == t.ID && !n.gone })
}

// whole reports whether a group is a group attachment's, with all that is in it.
func (w *world) whole(g *group) bool {
	return slices.ContainsFunc(w.groupAttachments(), func(c *v1alpha1.TargetGroupAttachment) bool {
		return c.Spec.Ownership == v1alpha1.OwnGroup && speaksOf(c, g)
	})
}

// minimumHolds reports whether a target serves and is the last that does so, or the last of a zone.
func (w *world) minimumHolds(g *group, t targets.Target) bool {
	if !g.healthy(t) {
		return false
	}
	for other := range g.members {
		if other != t && g.healthy(other) && g.CrossZone {
			return false
		}
	}
	return true
}

// minimumHoldsWith reports whether a target serves, and all others of its group that do are on the same
// node, are to be out as well, and on the record of a group attachment that cannot be written: one
// of them is the one to go first, and it counts as leaving. The node is not out in any order.
func (w *world) minimumHoldsWith(at place) bool {
	g, node, any := at.group, w.audit.on[at.target.ID], false
	if !g.healthy(at.target) || !w.keptOut(node) {
		return false
	}
	for other := range g.members {
		if other == at.target || !g.healthy(other) {
			continue
		}
		refused := slices.ContainsFunc(w.recordedBy(place{g, other}), func(name string) bool { return w.refuse["TargetGroupAttachment/"+name] })
		if any = true; w.audit.on[other.ID] != node || !refused {
			return false
		}
	}
	return any
}

func sortedPlaces(m map[place]*spoken) []place {
	out := make([]place, 0, len(m))
	for at := range m {
		out = append(out, at)
	}
	slices.SortFunc(out, func(a, b place) int {
		if a.group != b.group {
			return compareTargets(targets.Target{ID: a.group.ID}, targets.Target{ID: b.group.ID})
		}
		return compareTargets(a.target, b.target)
	})
	return out
}

// held is what keeps a group attachment that is deleted, though nothing of it is left.
func (w *world) held() (out []string) {
	for _, c := range w.groupAttachments() {
		if c.DeletionTimestamp == nil || w.refuse["TargetGroupAttachment/"+c.Name] {
			continue
		}
		of := false
		for _, g := range w.groups() {
			of = of || speaksOf(c, g) && (g.isStuck() || w.unreadableIn(g)) || w.holdsHooksOf(c, g)
			for t, m := range g.members {
				of = of || recorded(c.Status.Groups, place{g, t}) && m.by == us && g.routes(t)
			}
		}
		if !of {
			out = append(out, fmt.Sprintf("TargetGroupAttachment %s is deleted, nothing of it is left, and it is still there, with %d others", c.Name, len(w.groupAttachments())-1))
		}
	}
	return out
}

// holdsHooksOf reports whether what is on record in a group, and cannot be taken out, since calls about the
// group fail or it is the last that serves there, may still lead to a pod of a group attachment that is
// deleted, whose drain hook waits for that: with the last group attachment that selects the pod there
// is nobody to let it go.
func (w *world) holdsHooksOf(c *v1alpha1.TargetGroupAttachment, g *group) bool {
	return c.Spec.IngressDaemonSet != nil && slices.ContainsFunc(w.pods, func(p *pod) bool {
		n := w.node(p.node)
		return p.set == "web" && p.held() && n != nil && slices.ContainsFunc(g.all(), func(t targets.Target) bool {
			stays := g.isStuck() || w.minimumHolds(g, t)
			return stays && (t.ID == p.address || t.ID == n.instance) && g.routes(t) && len(w.recordedBy(place{g, t})) > 0
		})
	})
}

// unrest is what is left to do when nodes have no reason to be out.
func (w *world) unrest() []string {
	out := append(w.missing(), w.held()...)
	for _, a := range w.attachments() {
		if !w.waitsForTheSick(a) {
			out = append(out, fmt.Sprintf("Attachment %s is still there, which waits: %s", a.Name, a.Status.Waits))
		}
	}
	for _, n := range w.nodes {
		o := w.object(n)
		if a := w.attachment(n.name); o == nil || a != nil && w.waitsForTheSick(a) {
			continue
		}
		marked := o.Annotations[v1alpha1.AnnotationNodeDetaching] == "true" || o.Annotations[v1alpha1.AnnotationDetachmentTimestamp] != "" ||
			o.Labels[v1alpha1.LabelExclude] != "" || len(o.Spec.Taints) > 0
		if marked {
			out = append(out, "node "+n.name+" is still marked")
		}
		if w.scenario.webhook && w.edge.member(n.name).out {
			out = append(out, "node "+n.name+" is out of the webhook's load balancer")
		}
	}
	return append(append(out, w.unhealthy()...), w.untold()...)
}

// waitsForTheSick reports whether an Attachment says that it waits for a group attachment's target at which
// nothing answers: where a rollout changes the port and a group attachment does not, or the reverse, the
// rollout is to stop at the first node that returns, and all others serve on.
func (w *world) waitsForTheSick(a *v1alpha1.Attachment) bool {
	for _, g := range w.groups() {
		for _, t := range g.all() {
			sick := g.holds(t) && w.audit.on[t.ID] == a.Name && !w.answers(g, t) && len(w.recordedBy(place{g, t})) > 0
			if sick && strings.HasPrefix(a.Status.Waits, t.ID+": ") {
				return true
			}
		}
	}
	return false
}

// unhealthy are targets that are registered, answer, and get no traffic.
func (w *world) unhealthy() (out []string) {
	for at, s := range w.wanted() {
		if s.in && at.group.holds(at.target) && w.answers(at.group, at.target) && !at.group.healthy(at.target) {
			out = append(out, fmt.Sprintf("%s of %s is not healthy yet", at.target, at.group.Name))
		}
	}
	slices.Sort(out)
	return out
}

// untold are pods whose hook or gate says otherwise than their targets. The gate of a group attachment whose
// set is not there stays as it is: it selects no pod.
func (w *world) untold() (out []string) {
	for _, p := range w.pods {
		if o := p.object(); p.hook && o.Annotations[v1alpha1.AnnotationTargets] == v1alpha1.TargetsIn && !w.reachable(p) {
			out = append(out, "the drain hook of pod "+p.name+" holds it for nothing")
		}
	}
	wanted := w.wanted()
	for _, at := range sortedPlaces(wanted) {
		s := wanted[at]
		for _, p := range w.pods {
			if !s.in || at.group.Type != targets.IP || p.address != at.target.ID || !at.group.healthy(at.target) {
				continue
			}
			o := p.object()
			if p.hook && o.Annotations[v1alpha1.AnnotationTargets] != v1alpha1.TargetsIn {
				out = append(out, "the drain hook of pod "+p.name+" does not know that traffic comes")
			}
			for _, name := range s.by {
				kind := corev1.PodConditionType(v1alpha1.ReadinessGate(name))
				open := slices.ContainsFunc(o.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == kind && c.Status == corev1.ConditionTrue })
				if w.scenario.gates && !open && !w.setIsGone(w.groupAttachment(name)) && slices.ContainsFunc(o.Spec.ReadinessGates, func(g corev1.PodReadinessGate) bool { return g.ConditionType == kind }) {
					out = append(out, "the readiness gate of pod "+p.name+" is closed")
				}
			}
		}
	}
	return out
}

// reachable reports whether something that is registered, or on record, may lead to a pod.
func (w *world) reachable(p *pod) bool {
	n := w.node(p.node)
	for _, g := range w.groups() {
		for _, t := range g.all() {
			leads := t.ID == p.address || n != nil && t.ID == n.instance
			if leads && (g.routes(t) || len(w.recordedBy(place{g, t})) > 0) {
				return true
			}
		}
	}
	return false
}
