package attaching

import (
	"slices"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/targets"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// What is wanted, by the objects as they stand in the API server and by the world's own
// knowledge of machines and pods. It shares no code with the product.

// place is a target in a group.
type place struct {
	group  *group
	target targets.Target
}

// spoken is what all group attachments say of a place.
type spoken struct {
	// in says whether somebody wants it in. stays says whether it must not be taken out, though
	// it is not known that it is to be in: its set or Service is not found, or its
	// Node does not say which machine it is. Otherwise it is to be out.
	in, stays bool
	by        []string
}

func (w *world) wanted() map[place]*spoken {
	out := map[place]*spoken{}
	for _, c := range w.groupAttachments() {
		if c.DeletionTimestamp != nil {
			continue
		}
		for _, g := range w.groups() {
			if selects(c, g) {
				w.speak(out, c, g)
			}
		}
	}
	return out
}

// speak is what a group attachment says of a group.
func (w *world) speak(out map[place]*spoken, c *v1alpha1.TargetGroupAttachment, g *group) {
	say := func(t targets.Target, in, stays bool) {
		at := place{g, g.entry(t)}
		s := out[at]
		if s == nil {
			s = &spoken{}
			out[at] = s
		}
		s.in, s.stays = s.in || in, s.stays || stays
		s.by = append(s.by, c.Name)
	}
	if c.Spec.NodeSelector != nil {
		for _, n := range w.nodes {
			o := w.object(n)
			if o == nil || o.Labels["pool"] != "edge" {
				continue
			}
			t := targets.Target{ID: n.instance, Port: c.Spec.Port.IntVal}
			kept := w.keptOut(n.name)
			say(t, !n.nameless && !kept, n.nameless && !kept)
		}
		return
	}
	sure := c.Spec.IngressDaemonSet == nil || !w.setIsGone(c) && !w.noService(c)
	for _, p := range w.pods {
		if p.set != setOf(c) {
			continue
		}
		if t, ok := w.targetOf(p, c, g); ok {
			n := w.node(p.node)
			serves := !p.ends && !w.keptOut(p.node)
			known := sure && (g.Type == targets.IP || !n.nameless && w.object(n) != nil)
			say(t, serves && known, serves && !known)
		}
	}
}

// setOf is the set of pods that a group attachment selects.
func setOf(c *v1alpha1.TargetGroupAttachment) string {
	if c.Spec.IngressDaemonSet != nil {
		return "web"
	}
	return "plain"
}

// setIsGone reports whether a group attachment names a set that is not there.
func (w *world) setIsGone(c *v1alpha1.TargetGroupAttachment) bool {
	return c.Spec.IngressDaemonSet != nil && (c.Spec.IngressDaemonSet.Name != "web" || w.orphaned())
}

// targetOf is what a pod is reached at in a group: by its own port.
func (w *world) targetOf(p *pod, c *v1alpha1.TargetGroupAttachment, g *group) (t targets.Target, ok bool) {
	port := c.Spec.Port.IntVal
	if c.Spec.Port.Type == intstr.String {
		port = p.port
	}
	if g.Type == targets.IP {
		return targets.Target{ID: p.address, Port: port}, p.address != "" && port != 0
	}
	n := w.node(p.node)
	if c.Spec.Service != nil {
		port = edgePort
	}
	// Only web pods have a hostPort, or a Service, and an instance listens on no other.
	return targets.Target{ID: n.instance, Port: port}, p.takes(port) && port != 0
}

// keptOut reports whether a node is to be out of its load balancers.
func (w *world) keptOut(node string) bool {
	a := w.attachment(node)
	return a != nil && a.Spec.Wanted == v1alpha1.WantDetached
}

// recorded reports whether an object has a target on record.
func recorded(groups []v1alpha1.AttachedGroup, at place) bool {
	for _, g := range groups {
		if g.ID == at.group.ID && slices.Contains(recordsOf(g), at.target.String()) {
			return true
		}
	}
	return false
}

// recordsOf are all targets on record.
func recordsOf(g v1alpha1.AttachedGroup) []string {
	out := slices.Clone(g.Targets)
	for _, l := range g.Leaving {
		out = append(out, l.Target)
	}
	return out
}

// recordedBy are the group attachments that have a target on record.
func (w *world) recordedBy(at place) (names []string) {
	for _, c := range w.groupAttachments() {
		if recorded(c.Status.Groups, at) {
			names = append(names, c.Name)
		}
	}
	return names
}

// leavesOnRecord reports whether a target is on record as one that is being taken out: it counts for
// nothing in favour of others.
func (w *world) leavesOnRecord(at place) bool {
	return slices.ContainsFunc(w.groupAttachments(), func(c *v1alpha1.TargetGroupAttachment) bool {
		return slices.ContainsFunc(c.Status.Groups, func(g v1alpha1.AttachedGroup) bool {
			return g.ID == at.group.ID && slices.ContainsFunc(g.Leaving, func(l v1alpha1.LeavingTarget) bool { return l.Target == at.target.String() })
		})
	})
}

// unreadableIn reports whether a record of the group cannot be read.
func (w *world) unreadableIn(g *group) bool {
	bad := func(groups []v1alpha1.AttachedGroup) bool {
		return slices.ContainsFunc(groups, func(o v1alpha1.AttachedGroup) bool {
			return o.ID == g.ID && slices.ContainsFunc(o.Targets, isUnreadable)
		})
	}
	return slices.ContainsFunc(w.groupAttachments(), func(c *v1alpha1.TargetGroupAttachment) bool { return bad(c.Status.Groups) }) ||
		slices.ContainsFunc(w.attachments(), func(a *v1alpha1.Attachment) bool { return bad(a.Status.Groups) })
}
