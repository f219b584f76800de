package targets

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// moveUnknown moves targets on record of which it is not known whether an attachment of their namespace
// still selects them. Unknown is no change, with one exception: such a target goes out and comes back
// with its node, because otherwise whoever may delete a Service could keep a node from leaving.
//
//   - Where another attachment speaks of the target, that attachment decides.
//   - A target that nobody wanted when it left was not taken out for its node, and does not come back with it.
//   - A target that is being put back is put back, also where another leader may have begun with that.
//   - What a deleted attachment has on record stays: the target may belong to another one. What an edited
//     one selects no more stays without a word of ours (unsynced), and that one says why.
func (p *pass) moveUnknown(g *group) {
	for _, t := range g.parts {
		if !t.isUnknown() || g.binding != nil {
			continue
		}
		mayLive := p.mayLive(g, t)
		for _, h := range g.held {
			stays := h.Leaving && h.Settled && g.isOut(h.Target)
			moves := slices.ContainsFunc(p.on[h.ID], p.moved) || h.Leaving && g.Answers[h.Target].Register || h.by == t.ref && g.mayBePutBack(h) && mayLive(h.Target)
			if !t.mayMean(h) || g.speakers[h.Target] != nil || stays {
				continue
			}
			from := g.partOnRecord(h)
			ends := from != nil && from.Object.DeletionTimestamp != nil && !h.Leaving
			if moves || ends {
				p.stayWanted(g, t, h, nil)
			}
			if ends || from != nil && !h.Leaving && from.asks() {
				from.leavesTo(t, t.Unknown)
			}
		}
	}
}

// keepForUnfound has what is on record of one that is deleted, or selects it no more, stay where a pod
// lives at it that another may select, whose IngressDaemonSet is not found: it may be the other's, which
// was mistyped.
func (p *pass) keepForUnfound(g *group) {
	for _, t := range g.parts {
		if !t.setIsGone() || !t.asks() || g.binding != nil {
			continue
		}
		living := p.podsAt(g, slices.DeleteFunc(slices.Clone(t.Neighbours), endsNow))
		for _, h := range g.held {
			from := g.partOnRecord(h)
			if from == nil || from == t || h.Leaving || !t.mayMean(h) || g.speakers[h.Target] != nil || !t.anyAt(g, h.Target, living) {
				continue
			}
			p.stayWanted(g, t, h, living[h.ID][0])
			from.leavesTo(t, t.noSet())
		}
	}
}

// stayWanted has a target stay for a part whose own wants the group has already.
func (p *pass) stayWanted(g *group, t *part, h held, pod *corev1.Pod) {
	p.stay(t, h, pod)
	g.wants = append(g.wants, t.members[len(t.members)-1].Want)
}

// leavesTo says of a part that wants targets no more for whom they stay, and why.
func (t *part) leavesTo(other *part, why string) {
	t.faults = append(t.faults, fmt.Sprintf("its targets stay while it is not known whether TargetGroupAttachment %s selects them: %s", other.ref.Name, why))
}

// mayBePutBack reports whether another leader may have put back what is registered and on record as leaving:
// that it was seen out says nothing any more from then on, and it leaves until it is seen back.
func (g *group) mayBePutBack(h held) bool {
	_, asked := g.Answers[h.Target]
	return !asked && h.Leaving && h.LeftAt.IsZero() && !g.ReadAt.IsZero() && placeIn(g.Registered, h.Target) == registered
}

// mayLive tells whether something may go on serving at a target of a part of which it is not known what it
// selects, by the pods and Nodes that are known: what ends, or is gone, left for that.
func (p *pass) mayLive(g *group, t *part) func(Target) bool {
	unnamed := func(n *corev1.Node) bool { return p.isUnnamedNode(n.Name) }
	switch {
	case t.Behind || p.NodesBehind || g.Type == Instance && slices.ContainsFunc(p.Nodes, unnamed):
		return func(Target) bool { return true }
	case t.nodes == nil && t.selectsReadably():
		lasting := p.podsAt(g, slices.DeleteFunc(slices.Concat(t.Pods, t.Neighbours), endsNow))
		return func(target Target) bool { return t.anyAt(g, target, lasting) }
	case g.Type == IP:
		return func(target Target) bool { return p.lives[podAddress{t.ref.Namespace, target.ID}] }
	}
	return func(target Target) bool {
		_, known := p.zones[target.ID]
		return known
	}
}

// selectsReadably reports whether the selector of pods, if there is one, can be read, so that they are known.
func (a *attachment) selectsReadably() bool {
	_, err := metav1.LabelSelectorAsSelector(a.Object.Spec.PodSelector)
	return err == nil
}

// mayMean reports whether a part may select what is on record: what one of another namespace selects, nobody
// else has on record.
func (t *part) mayMean(h held) bool {
	return h.by == t.ref || h.by.Kind == KindGroupAttachment && h.by.Namespace == t.ref.Namespace
}

// partOnRecord is the part of which something is on record, nil where that is an Attachment, or is gone.
func (g *group) partOnRecord(h held) *part {
	for _, t := range g.parts {
		if t.ref == h.by {
			return t
		}
	}
	return nil
}

// isUnknown reports whether it is not known what a part would select that is on the group.
func (t *part) isUnknown() bool {
	return t.matches && t.unknown && t.Object.DeletionTimestamp == nil
}
