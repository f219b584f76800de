package targets

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// takeParts finds who has a part in a group, and what each wants of it.
func (p *pass) takeParts(g *group) {
	g.unheard = p.Behind || p.mayBeMeant(g)
	g.unknown = g.unheard
	for _, a := range p.attachments {
		if t := p.partOf(g, a); t != nil {
			g.parts = append(g.parts, t)
			a.taken = append(a.taken, taken{g, t})
		}
	}
	for _, t := range g.parts {
		p.admit(g, t)
		p.bound(g, t)
		g.addWants(t)
	}
	g.findSpeakers()
	g.indexMembers()
	p.moveUnknown(g)
	p.keepForUnfound(g)
	for _, n := range p.nodeAttachments {
		p.borrow(g, n)
	}
}

// indexMembers finds the members of each target.
func (g *group) indexMembers() {
	for _, t := range g.parts {
		for _, m := range t.members {
			if t.asks() {
				g.membersAt[g.target(m.Target)] = append(g.membersAt[g.target(m.Target)], m)
			}
		}
	}
}

// mayBeMeant reports whether somebody selects by tags and those of the group are not read.
func (p *pass) mayBeMeant(g *group) bool {
	return g.tags == nil && slices.ContainsFunc(p.attachments, func(a *attachment) bool {
		return a.Object.Spec.TargetGroup.Tags != nil && a.Object.DeletionTimestamp == nil && a.Object.Spec.TargetType == string(g.Type) && slices.Contains(g.roles, a.role)
	})
}

// partOf is an attachment's part in a group, nil where it has none.
func (p *pass) partOf(g *group, a *attachment) *part {
	matches, fault := false, ""
	if slices.Contains(g.roles, a.role) {
		known := g.Group
		known.Tags = g.tags
		matches, fault = a.matches(known)
	}
	unclear := g.tags == nil && a.Object.Spec.TargetGroup.Tags != nil && g.holds(a.ref)
	matches = matches || unclear
	if !matches && fault == "" && !g.holds(a.ref) {
		return nil
	}
	t := &part{attachment: a, matches: matches, unclear: unclear}
	if fault != "" {
		t.faults = append(t.faults, fault)
	}
	if t.matches && g.binding != nil {
		t.faults = append(t.faults, g.binding.refusal(g.Group))
	}
	if t.matches && g.LeftAlone != "" {
		t.faults = append(t.faults, "target group "+g.Name+" is left alone: "+g.LeftAlone)
		return t
	}
	t.unknown = a.Unknown != ""
	if t.unknown || !t.matches && !g.holds(a.ref) {
		return t
	}
	p.findMembers(g, t)
	return t
}

// matches reports whether the attachment is on the group, and why not where it should be.
func (a *attachment) matches(g Group) (ok bool, fault string) {
	s := a.Object.Spec.TargetGroup
	switch {
	case s.ARN != "":
		ok = g.ID == s.ARN
	case s.Name != "":
		ok = g.Balancer != Classic && g.Name == s.Name
	default:
		ok = g.hasTags(s.Tags)
	}
	if ok && string(g.Type) != a.Object.Spec.TargetType {
		return false, fmt.Sprintf("target group %s is of type %s: set targetType to that, or name another group", g.Name, g.Type)
	}
	return ok, ""
}

// findMembers finds the targets of what an attachment selects.
func (p *pass) findMembers(g *group, t *part) {
	switch {
	case t.nodes != nil:
		mode := Mode{Type: g.Type, PerNode: true, Port: t.Object.Spec.Port.IntVal}
		wants, skipped := mode.NodeWants(Fleet{Nodes: t.nodes, Out: p.leaves})
		t.skipped = skipped
		for _, w := range wants {
			t.members = append(t.members, member{Want: w, node: w.Owner, ready: true})
		}
	default:
		for _, pod := range t.Pods {
			p.findPod(g, t, pod)
		}
	}
	if t.setIsGone() {
		t.unsure = true
		p.keepLiving(g, t)
	}
	p.keepUnnamed(g, t)
}

// findPod finds the target of a pod. Where its port is not known the pod is skipped, and
// what is registered of it stays as it is while it serves.
func (p *pass) findPod(g *group, t *part, pod *corev1.Pod) {
	mode, err := t.mode(pod, g.Group)
	if err != nil {
		if _, ends := Ending(pod); !ends {
			t.skipped = append(t.skipped, Skip{pod.Namespace + "/" + pod.Name, err.Error()})
		}
		p.keepPod(g, t, pod)
		return
	}
	if !g.forwardsTo(mode.Port) {
		if _, ends := Ending(pod); !ends {
			t.skipped = append(t.skipped, Skip{pod.Namespace + "/" + pod.Name, fmt.Sprintf("no listener of classic load balancer %s forwards to port %d, which is its own on the node, but to %v", g.Name, mode.Port, g.Ports)})
		}
		return
	}
	wants, skipped := mode.PodWants(Fleet{Pods: []*corev1.Pod{pod}, Nodes: p.nodes, Out: p.leaves, Deleted: p.out.Memory.Deleted})
	t.skipped = append(t.skipped, skipped...)
	for _, w := range wants {
		if g.isTheirs(w.Target) && pod.Status.Phase == corev1.PodPending {
			// Nothing of it can be what others registered.
			t.skipped = append(t.skipped, Skip{pod.Namespace + "/" + pod.Name, "it has not started, and its target is registered by others"})
			continue
		}
		// A set that is not found adds nothing.
		w.Stay = t.setIsGone()
		t.members = append(t.members, member{Want: w, node: pod.Spec.NodeName, ready: containersReady(pod), pod: pod})
	}
}

// keepPod has every target on record stay that has the ID of a pod, whatever its port.
func (p *pass) keepPod(g *group, t *part, pod *corev1.Pod) {
	t.unsure = true
	mode := Mode{Type: g.Type, IPv6: g.IPv6, Hook: hasDrainHook(pod.Spec)}
	id, _ := mode.idOf(pod, p.nodes)
	_, ends := Ending(pod)
	for _, h := range g.held {
		// What was taken out for a pod before it is not put back for it: it may never answer there.
		left := h.Leaving && !g.Answers[h.Target].Register && !p.moved(pod.Spec.NodeName)
		if h.by == t.ref && h.ID == id && (ends || !left) {
			p.keepServing(t, h, mode, pod)
		}
	}
}

// keepServing has a target on record stay while a pod serves there.
func (p *pass) keepServing(t *part, h held, mode Mode, pod *corev1.Pod) {
	w := mode.want(h.ID, pod, Fleet{Out: p.leaves, Deleted: p.out.Memory.Deleted})
	w.Registration, w.Stay = h.Registration, true
	t.members = append(t.members, member{Want: w, node: pod.Spec.NodeName, ready: containersReady(pod), pod: pod})
}

// keepLiving has every target on record stay where a pod of some IngressDaemonSet lives
// at it: the set that is named may have been mistyped, or left its pods behind. A pod that
// cannot serve there keeps nothing in that is taken out, or is to be, for the pod before it.
// What is out already is put back only where its node returns: whoever took it out otherwise
// knew why, and what nobody wanted when it left was not taken out for its node.
func (p *pass) keepLiving(g *group, t *part) {
	ending := p.podsAt(g, slices.DeleteFunc(slices.Clone(t.Neighbours), func(pod *corev1.Pod) bool { return !endsNow(pod) }))
	for _, pod := range t.Neighbours {
		mode := Mode{Type: g.Type, IPv6: g.IPv6, Hook: hasDrainHook(pod.Spec)}
		id, _ := mode.idOf(pod, p.nodes)
		_, ends := Ending(pod)
		for _, h := range g.held {
			out := h.Leaving && g.isOut(h.Target)
			switch {
			case h.by != t.ref || h.ID != id || t.has(h.Target, pod):
			case ends:
				p.keepServing(t, h, mode, pod)
			case !t.mayServe(g, h.Target, pod) && (h.Leaving || t.anyAt(g, h.Target, ending)):
			case !out || !h.Settled && p.moved(pod.Spec.NodeName):
				p.stay(t, h, pod)
			default:
				t.members = append(t.members, member{Want: Want{Registration: h.Registration}, node: pod.Spec.NodeName, pod: pod, silent: true})
			}
		}
	}
}

// keepUnnamed has every target on record stay whose instance no Node is, while a Node that
// is selected does not say which it is: a Node that registers anew may say so later. Others' may be
// its own as well, where the port is the same.
func (p *pass) keepUnnamed(g *group, t *part) {
	if g.Type != Instance || !p.hasUnnamed(t) {
		return
	}
	t.unsure = true
	ports := p.portsOfUnnamed(g, t)
	for _, h := range g.held {
		// A removal of what is registered may be another leader's, which knew less or has put it back.
		left := h.Leaving && (h.Settled || g.isOut(h.Target))
		own := h.by == t.ref || slices.ContainsFunc(ports, func(port int32) bool { return h.Target == g.target(Target{h.ID, port}) })
		if _, known := p.zones[h.ID]; !known && own && !left && !t.has(h.Target, nil) {
			p.stay(t, h, nil)
		}
	}
}

// portsOfUnnamed are those at which a part is served on nodes that do not say which instance they are.
func (p *pass) portsOfUnnamed(g *group, t *part) (ports []int32) {
	if t.nodes != nil {
		return []int32{t.Object.Spec.Port.IntVal}
	}
	for _, pod := range t.Pods {
		if mode, err := t.mode(pod, g.Group); err == nil && p.isUnnamedNode(pod.Spec.NodeName) {
			ports = append(ports, mode.Port)
		}
	}
	slices.Sort(ports)
	return slices.Compact(ports)
}

// hasUnnamed reports whether a node that the attachment selects has no providerID yet, or is
// not known.
func (p *pass) hasUnnamed(t *part) bool {
	for _, pod := range slices.Concat(t.Pods, t.Neighbours) {
		if pod.Spec.NodeName != "" && p.isUnnamedNode(pod.Spec.NodeName) {
			return true
		}
	}
	return slices.ContainsFunc(slices.Collect(maps.Keys(t.nodes)), p.isUnnamedNode)
}

// stay has a target on record stay, unless the node that it is on is to be out. pod is the one
// that lives there, nil where none is known.
func (p *pass) stay(t *part, h held, pod *corev1.Pod) {
	w, node := Want{Registration: h.Registration, Owner: h.Owner, In: true, Stay: true, Why: "it is not known that it is to go"}, ""
	if pod != nil {
		node = pod.Spec.NodeName
	}
	for _, name := range slices.Concat(p.on[h.ID], []string{node}) {
		if why := p.leaves[name]; why != "" {
			w.In, w.Seen, w.Why = false, true, why
		}
	}
	t.members = append(t.members, member{Want: w, node: node, pod: pod})
}

// has reports whether a target is among the members: that of a pod, or anybody's where that is nil.
func (t *part) has(target Target, pod *corev1.Pod) bool {
	return slices.ContainsFunc(t.members, func(m member) bool {
		return m.Target == target && (pod == nil || m.pod != nil && m.pod.UID == pod.UID)
	})
}

// addWants adds what a part wants. One that is deleted has taken out what it registered,
// whatever is left: somebody wants it so, and all who may want it in have been heard.
func (g *group) addWants(t *part) {
	if g.binding != nil {
		return
	}
	g.unknown = g.unknown || t.matches && (t.unclear || t.Behind) && (t.admission.why == "" || t.admission.unread || g.holds(t.ref))
	if t.asks() {
		for _, m := range t.members {
			if !m.silent {
				g.wants = append(g.wants, m.Want)
			}
		}
		return
	}
	if t.Object.DeletionTimestamp == nil {
		return
	}
	for _, h := range g.held {
		if h.by == t.ref {
			g.wants = append(g.wants, Want{Registration: h.Registration, Owner: h.Owner, Why: "its TargetGroupAttachment is deleted", Seen: !g.unheard, Ending: true})
		}
	}
}

// containersReady reports whether the pod's containers are: a readiness gate may wait for the
// very target.
func containersReady(pod *corev1.Pod) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.ContainersReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// targetsOf are those that a part selects or has on record.
func (g *group) targetsOf(t *part) (out []Target) {
	for _, m := range t.members {
		out = append(out, g.target(m.Target))
	}
	for _, h := range g.held {
		if h.by == t.ref {
			out = append(out, h.Target)
		}
	}
	return out
}
