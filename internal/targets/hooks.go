package targets

import (
	"slices"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// hooked is a pod with a drain hook, and whether traffic may come to it as a target.
type hooked struct {
	pod *corev1.Pod
	in  bool
	// comes says whether new traffic may begin to come to it: an object that is not deleted has a target
	// of it in, or may have, or one is registered.
	comes bool
	// bound says whether it may by an object that does not go before it has let go.
	bound bool
	// called says whether a target of it is to be registered now.
	called bool
	// member says whether it has a target in some group that is ours to judge, others whether it may
	// have one in a group that is not, unknown whether nothing is known of one.
	member, others, unknown bool
}

// tellHooks says on pods with a drain hook whether they may get traffic as targets: that
// they may before they are registered, and that they may not once it is so in every group.
// While nothing is known of one of their targets, a pod that was told that it may is not
// told otherwise. One of which a target is to be registered is told once more where this process
// has not done so since it last told it otherwise: by then a cache may not show what it was told,
// and what another leader tells it, or what was given up, may be on its way.
//
// A pod is let go when nothing that selects it may have a target of its that is not known, no
// target that it stands for gets traffic, and none that its namespace has on record with its
// address, or its node, may lead to it: whoever has that on record, and whether or not the pod is
// still selected there. It is let go before the last object goes that is to tell it, see keepsHook.
func (p *pass) tellHooks() {
	all := map[types.UID]*hooked{}
	var order []types.UID
	find := func(pod *corev1.Pod) *hooked {
		h := all[pod.UID]
		if h == nil {
			h = &hooked{pod: pod, unknown: p.Behind}
			all[pod.UID] = h
			order = append(order, pod.UID)
		}
		return h
	}
	for _, a := range p.attachments {
		unknown, others := p.mayHide(a), a.isOnOthers()
		for _, pod := range slices.Concat(a.Pods, a.Neighbours) {
			if hasDrainHook(pod.Spec) {
				h := find(pod)
				h.unknown, h.others = h.unknown || unknown || p.isUnnamed(a, pod), h.others || others
			}
		}
	}
	for _, g := range p.groups {
		calls := g.registers()
		for _, t := range g.parts {
			for _, m := range t.members {
				if m.pod == nil || !hasDrainHook(m.pod.Spec) || g.binding != nil {
					continue
				}
				h := find(m.pod)
				h.member = true
				h.unknown = h.unknown || g.unreadable != "" && t.Object.DeletionTimestamp == nil
				in := g.unreadable == "" && g.reaches(t, m)
				h.comes = h.comes || m.In && t.Object.DeletionTimestamp == nil || placeIn(g.Registered, g.target(m.Target)) == registered
				h.in, h.bound = h.in || in, h.bound || in && (!g.unfinalized(t.ref) || g.holds(t.ref))
				h.called = h.called || in && m.In && calls[g.target(m.Target)]
			}
		}
	}
	for _, uid := range order {
		h := all[uid]
		if h.in && !h.comes && h.pod.Annotations[v1alpha1.AnnotationTargets] == v1alpha1.TargetsOut {
			// Another leader saw it out, and who asked for that may have gone since.
			continue
		}
		again := h.in && h.called && !p.Told[h.pod.UID]
		if (h.in != told(h.pod) || again) && (h.bound || !h.in && !h.unknown && (h.member || !h.others) && !p.lingers(h)) {
			p.out.Hooks = append(p.out.Hooks, HookWrite{h.pod, h.in})
		}
	}
}

// mayHide reports whether what an attachment selects may be in a group without being known there. One
// that is deleted has nothing in a group but what it has on record: its pods wait for no other.
func (p *pass) mayHide(a *attachment) bool {
	if a.Object.DeletionTimestamp != nil {
		return p.hidden(a) != ""
	}
	return p.hidden(a) != "" || a.Unknown != "" || p.unlistedFor(a) != "" || slices.ContainsFunc(a.taken, func(in taken) bool {
		return in.part.unknown || in.part.admission.unread
	})
}

// isOnOthers reports whether an attachment is on a group of which others, or nobody, tell what becomes of
// its pods there. One that is deleted has no pods there any more.
func (a *attachment) isOnOthers() bool {
	return a.Object.DeletionTimestamp == nil && slices.ContainsFunc(a.taken, func(in taken) bool { return in.binding != nil || in.LeftAlone != "" })
}

// isUnnamed reports whether a pod may have the target of its instance in a group, and its Node does not say
// which that is. Of what is deleted only what is on record counts.
func (p *pass) isUnnamed(a *attachment, pod *corev1.Pod) bool {
	return a.Object.DeletionTimestamp == nil && !p.isNamed(pod) && slices.ContainsFunc(a.taken, func(in taken) bool { return in.Type == Instance })
}

// hidden says why a record of an attachment is in a group that is not known, or cannot be read,
// empty where none is.
func (p *pass) hidden(a *attachment) string {
	for _, attached := range a.Object.Status.Groups {
		for _, role := range recordedRoles(attached, a.role) {
			if why := p.unlisted(role); why != "" {
				return asRole(role, why)
			}
			if why := p.unreadable[keyOf(role, attached.ID)]; why != "" {
				return why
			}
		}
	}
	return ""
}

// isNamed reports whether it is known which machine a pod is on.
func (p *pass) isNamed(pod *corev1.Pod) bool {
	node := p.nodes[pod.Spec.NodeName]
	return node != nil && node.Spec.ProviderID != ""
}

// lingers reports whether something on record in a pod's namespace may lead to it: what has its address, or
// is its node, is not out, or it is not known what that is.
func (p *pass) lingers(h *hooked) bool {
	ids := addressesOf(h.pod)
	if !h.member && p.isSelected(h.pod) && (len(ids) == 0 || !p.isNamed(h.pod)) {
		// Who selects it tells it when it is known what it is.
		return true
	}
	if p.isNamed(h.pod) {
		instance, _ := InstanceID(p.nodes[h.pod.Spec.NodeName])
		ids[instance] = true
	} else {
		for _, id := range p.strays[h.pod.Namespace] {
			ids[id] = true
		}
	}
	for id := range ids {
		if slices.ContainsFunc(p.recordedIn[podAddress{h.pod.Namespace, id}], func(r onRecord) bool { return p.leadsTo(r, h.pod) }) {
			return true
		}
	}
	return false
}

func addressesOf(pod *corev1.Pod) map[string]bool {
	out := map[string]bool{}
	for _, ipv6 := range []bool{false, true} {
		if address, _ := Address(pod, ipv6); address != "" {
			out[address] = true
		}
	}
	return out
}

// isSelected reports whether an attachment that is not deleted selects a pod.
func (p *pass) isSelected(pod *corev1.Pod) bool {
	return slices.ContainsFunc(p.selectedBy[pod.UID], func(a *attachment) bool { return a.Object.DeletionTimestamp == nil })
}

// leadsTo reports whether traffic may come to a pod by a target on record: not where that has ended, nor
// where another pod, or a node that is selected itself, serves there that stands for it.
func (p *pass) leadsTo(r onRecord, pod *corev1.Pod) bool {
	g := p.byKey[r.key]
	if g == nil {
		return p.unfound[r.key] != ""
	}
	if g.unreadable != "" {
		return true
	}
	target := g.target(r.Target)
	report := g.report(target)
	return report.Phase != "" && !report.ended() && !g.isOfOthers(target, pod)
}

// isOfOthers reports whether a target is that of another pod which serves there, or of a node that is
// selected itself. Of what only stays, since it is not known where it serves, nobody knows.
func (g *group) isOfOthers(target Target, pod *corev1.Pod) bool {
	return slices.ContainsFunc(g.membersAt[target], func(m member) bool {
		if m.Stay || m.silent || m.pod != nil && m.pod.UID == pod.UID {
			return false
		}
		return m.pod == nil || !endsNow(m.pod)
	})
}

// keepsHook is a pod that an attachment selects, that was told that traffic may come to it, and that
// nobody would tell otherwise if the attachment was gone; nil where there is none. One that has ended
// waits for nothing.
func (p *pass) keepsHook(a *attachment) *corev1.Pod {
	for _, pod := range slices.Concat(a.Pods, a.Neighbours) {
		if hasDrainHook(pod.Spec) && told(pod) && !hasEnded(pod) && !p.isSelected(pod) && !p.isOutlived(a, pod) {
			return pod
		}
	}
	return nil
}

// isOutlived reports whether another attachment that is deleted looks after a pod, and cannot go before this
// one: it has something on record.
func (p *pass) isOutlived(a *attachment, pod *corev1.Pod) bool {
	return a.onRecord == 0 && slices.ContainsFunc(p.selectedBy[pod.UID], func(other *attachment) bool {
		return other.onRecord > 0 && slices.Contains(other.Object.Finalizers, v1alpha1.Finalizer)
	})
}

// reaches reports whether traffic may come to a pod by its target. It may not for its own sake
// where others keep a target in that they share.
func (g *group) reaches(t *part, m member) bool {
	if m.In && !m.Stay && t.asks() {
		return true
	}
	target := g.target(m.Target)
	if g.leavesElsewhere(t, target) {
		return true
	}
	if speaker := g.speakers[target]; speaker != nil && g.servedByOthers(target) {
		return false
	}
	r := g.report(target)
	return r.Phase != "" && !r.ended()
}

// leavesElsewhere reports whether what a part has on record with a target's ID is on its way out at another
// port, at which nobody selects anything any more: where a port was edited, whatever has the ID may
// serve there.
func (g *group) leavesElsewhere(t *part, target Target) bool {
	return slices.ContainsFunc(g.decision.Reports, func(r Report) bool {
		return r.ID == target.ID && r.Target != target && g.heldBy(r.Target, t.ref) && g.speakers[r.Target] == nil && !r.ended()
	})
}

// servedByOthers reports whether somebody wants a target in and serves there. What only stays,
// since it is not known where it serves, may be at another port.
func (g *group) servedByOthers(t Target) bool {
	return slices.ContainsFunc(g.state.Wants, func(w Want) bool { return w.Target == t && w.In && !w.Stay })
}

// ended reports whether no traffic comes to a target by our doing, or by nobody's.
func (r Report) ended() bool { return r.Phase == Stopped || r.Phase == Absent || r.Phase == Foreign }
