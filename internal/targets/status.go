package targets

import (
	"fmt"
	"slices"
	"strings"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/kstatus"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// decideAttachment makes the status of a TargetGroupAttachment, and says whether its
// finalizer is to be added or removed.
func (p *pass) decideAttachment(a *attachment) {
	d := AttachmentDecision{Object: a.Object, CatchUp: p.mustCatchUp(a)}
	p.forgetGone(a)
	bound := slices.Contains(a.Object.Finalizers, v1alpha1.Finalizer)
	if a.Object.DeletionTimestamp != nil {
		p.describeEnd(a)
		d.Status, d.Events, d.Release = a.status, a.events(), bound && !p.hasLeftovers(a)
		p.out.Attachments = append(p.out.Attachments, d)
		return
	}
	d.AddFinalizer = !bound
	p.describe(a)
	d.Status, d.Events = a.status, a.events()
	p.out.Attachments = append(p.out.Attachments, d)
}

// mustCatchUp reports whether something waits for all that an attachment selects to be known: to
// be taken out, or to tell which node it is on.
func (p *pass) mustCatchUp(a *attachment) bool {
	return a.Behind && (p.mayMissPods(a) || p.isUnplaced(a) || slices.ContainsFunc(a.taken, func(in taken) bool { return in.decision.NeedLists }))
}

// hasLeftovers reports whether something is left of an attachment that is deleted: what it registered,
// or may have, until the traffic to that has stopped, gates that are closed, and drain hooks that
// hold pods which nobody else would let go.
func (p *pass) hasLeftovers(a *attachment) bool {
	if unfound, _ := p.unfoundOf(a); unfound != "" || a.gates || p.Behind || p.mayMissPods(a) || p.keepsHook(a) != nil || p.hidden(a) != "" {
		return true
	}
	return p.hasTargets(a)
}

// mayMissPods reports whether one that is deleted may select pods that are not known yet, whose gates or drain
// hooks wait for it.
func (p *pass) mayMissPods(a *attachment) bool {
	return a.Behind && a.nodes == nil && a.Object.DeletionTimestamp != nil
}

// hasTargets reports whether traffic may come by what an attachment has on record.
func (p *pass) hasTargets(a *attachment) bool {
	for _, g := range a.taken {
		for _, r := range g.reportsOf(g.part) {
			switch owner, any := g.owner(r.Target); {
			case any && owner != a.ref && g.heldBy(r.Target, owner):
				// It went over to another object.
			case any && owner != a.ref && p.isOver(g.group, r.Target, a.ref):
				// Nothing is left of it, whether or not the other object can ever be written.
			case any && owner != a.ref, !r.ended(), r.Phase == Stopped && p.mayComeBack(g.group, r.Target):
				return true
			}
		}
	}
	return false
}

// reportsOf are the reports about what is the part's own: the targets of its members, and
// those that it has on record. A neighbour's count for the neighbour.
func (g *group) reportsOf(t *part) (out []Report) {
	own := map[Target]bool{}
	for _, m := range t.members {
		own[g.target(m.Target)] = t.asks()
	}
	for _, r := range g.decision.Reports {
		if own[r.Target] || g.heldBy(r.Target, t.ref) {
			out = append(out, r)
		}
	}
	return out
}

// tally is what the status of a TargetGroupAttachment is made from, over all its groups.
type tally struct {
	// bound and alone are why groups are left to somebody else, or alone, closed why they
	// take no new target, full why some are not recorded, and unread why it is not known yet whether they
	// take any.
	bound, alone, closed, full, unread, waits, faults []string
	// held are targets that are to be out and stay, and why.
	held    []string
	skipped []Skip
}

// describeEnd says what is left of a TargetGroupAttachment that is deleted, and what stands in the
// way of its end.
func (p *pass) describeEnd(a *attachment) {
	a.status.ObservedGeneration = a.Object.Generation
	n := a.tally()
	n.skipped = nil
	n.faults = append(n.faults, p.late(a)...)
	if why := p.hidden(a); why != "" {
		n.faults = append(n.faults, why)
	}
	if why, asked := p.unfoundOf(a); asked {
		n.faults = append(n.faults, why)
	}
	p.setBlocked(a, n)
	p.stand(a, v1alpha1.ReasonTargetsLeaving, fmt.Sprintf("it is deleted: %d targets may still get traffic", a.status.Leaving))
}

// tally counts the parts of an attachment in all its groups, and what is on record elsewhere.
func (a *attachment) tally() (n tally) {
	a.status.GroupCount, a.status.Targets, a.status.Healthy, a.status.Leaving = 0, 0, 0, 0
	for _, in := range a.taken {
		n.add(a, in.group, in.part)
	}
	a.countUndecided()
	return n
}

// countUndecided counts what is on record in groups about which nothing was decided, since they
// are not known yet or cannot be read: a new leader that said that nothing leaves would have people
// end what still gets traffic. Of what a TargetGroupBinding keeps only what leaves is ours.
func (a *attachment) countUndecided() {
	for _, attached := range a.status.Groups {
		at := slices.IndexFunc(a.taken, func(in taken) bool { return in.ID == attached.ID })
		switch {
		case at < 0, a.taken[at].unreadable != "", a.taken[at].LeftAlone != "":
			a.status.Targets += int32(len(attached.Targets))
			a.status.Leaving += int32(len(attached.Leaving))
		case a.taken[at].binding != nil && a.taken[at].part.matches:
			a.status.Leaving += int32(len(attached.Leaving))
		}
	}
}

// describe makes the status of a TargetGroupAttachment.
func (p *pass) describe(a *attachment) {
	a.status.ObservedGeneration = a.Object.Generation
	n := a.tally()
	if a.Unknown != "" {
		n.faults = append(n.faults, a.Unknown)
	}
	if a.setIsGone() {
		n.faults = append(n.faults, a.noSet())
	}
	unread := p.unlistedFor(a)
	if account := p.accounts[a.role]; p.unlisted(a.role) == "" && account.Failure != "" {
		n.faults = append(n.faults, account.Failure)
	}
	n.faults = append(n.faults, p.refusedRoles(a)...)
	if why := p.elsewhere(a); why != "" {
		n.faults = append(n.faults, why)
	}
	n.faults = append(n.faults, p.late(a)...)
	if a.status.GroupCount > 0 && a.Object.Spec.TargetGroup.Tags == nil {
		// Those that are named are known before all are listed.
		unread = ""
	}
	p.setBlocked(a, n)
	reason, message := p.health(a, unread, n)
	p.stand(a, reason, message)
	p.warn(a)
	a.describeAccess()
}

// late says what has not come for long, so that calls wait for it.
func (p *pass) late(a *attachment) (out []string) {
	if p.Late != "" {
		out = append(out, "no target is registered or taken out before all TargetGroupAttachments and Attachments are known: "+p.Late)
	}
	if p.Slow != "" {
		out = append(out, p.Slow)
	}
	if a.Late != "" {
		out = append(out, "what it selects may not be all there is, and what is missing is not taken out: "+a.Late)
	}
	return out
}

// refusedRoles says which roles of an attachment, or of its records, are not permitted.
func (p *pass) refusedRoles(a *attachment) (out []string) {
	roles := []v1alpha1.AssumeRole{a.role}
	for _, attached := range a.Object.Status.Groups {
		roles = append(roles, recordedRoles(attached, a.role)...)
	}
	for _, role := range roles {
		if account := p.accounts[role]; account != nil && account.Refused {
			out = append(out, account.Failure)
		}
	}
	return out
}

// add counts the part in a group.
func (n *tally) add(a *attachment, g *group, t *part) {
	if t.matches {
		a.status.GroupCount++
	}
	n.faults = append(n.faults, t.faults...)
	if t.full != "" {
		n.full = append(n.full, t.full)
		n.faults = append(n.faults, t.full)
	}
	if t.matches && g.binding != nil {
		n.bound = append(n.bound, g.binding.refusal(g.Group))
		return
	}
	if t.matches && g.LeftAlone != "" {
		n.alone = append(n.alone, "target group "+g.Name+" is left alone: "+g.LeftAlone)
		return
	}
	switch {
	case t.admission.unread:
		n.unread = append(n.unread, t.admission.why)
	case t.admission.why != "":
		n.closed = append(n.closed, t.admission.why)
		n.faults = append(n.faults, t.admission.why)
	}
	if t.matches {
		n.skipped = append(n.skipped, t.skipped...)
	}
	for _, fault := range []string{g.unreadable, g.Failing} {
		if fault != "" {
			n.faults = append(n.faults, g.Name+": "+fault)
		}
	}
	for _, fault := range g.decision.Faults {
		n.faults = append(n.faults, g.Name+": "+fault)
	}
	for _, r := range g.reportsOf(t) {
		switch {
		case r.Phase == Registering, r.Phase == Failing:
			a.status.Targets++
			n.waits = append(n.waits, r.ID+" "+r.Message)
		case r.Phase == Leaving, r.Phase == Held && g.leaving[r.Target]:
			a.status.Leaving++
		case r.Phase == Held:
			n.held = append(n.held, r.ID+" stays: "+r.Message)
			fallthrough
		case r.Phase == Attached:
			a.status.Targets++
			a.status.Healthy++
		case r.Phase == Refused:
			a.status.Targets++
			n.faults = append(n.faults, r.ID+": "+r.Message)
		}
	}
}

// stand says how far it is, by whether its targets are healthy and why not, and by what is blocked.
func (p *pass) stand(a *attachment, reason, message string) {
	blocked := meta.FindStatusCondition(a.status.Conditions, v1alpha1.ConditionBlocked)
	kstatus.OfTargetGroupAttachment(reason, message, *blocked).Set(&a.status.Conditions, a.Object.Generation, asStored(p.Now))
}

// health is the reason for which the targets are healthy or not, and what there is to say of it: first of
// all why they cannot be.
func (p *pass) health(a *attachment, unread string, n tally) (reason, message string) {
	switch account := p.accounts[a.role]; {
	case unread != "" && account != nil && account.Refused:
		return v1alpha1.ReasonTargetsRefused, unread
	case unread != "":
		return v1alpha1.ReasonGroupsUnknown, unread
	case len(n.bound) > 0:
		return v1alpha1.ReasonGroupBound, n.bound[0]
	case len(n.alone) > 0:
		return v1alpha1.ReasonTargetsRefused, n.alone[0]
	case len(n.closed) > 0:
		return v1alpha1.ReasonTargetsRefused, n.closed[0]
	case len(n.full) > 0:
		return v1alpha1.ReasonTargetsRefused, n.full[0]
	case len(n.unread) > 0:
		return v1alpha1.ReasonGroupsUnknown, n.unread[0]
	case a.status.GroupCount == 0:
		return v1alpha1.ReasonNoGroup, "no target group of type " + a.Object.Spec.TargetType + " matches"
	case a.status.Healthy < a.status.Targets:
		message = fmt.Sprintf("%d of %d targets are healthy", a.status.Healthy, a.status.Targets)
		if len(n.waits) > 0 {
			message += ", such as not " + n.waits[0]
		}
		return v1alpha1.ReasonTargetsNotHealthy, message
	}
	reason, message = v1alpha1.ReasonTargetsHealthy, fmt.Sprintf("%d targets are healthy", a.status.Healthy)
	if a.status.Targets == int32(len(n.held)) {
		reason, message = v1alpha1.ReasonNoTargets, "it selects nothing that should be registered"
	}
	if len(n.held) > 0 {
		message += ", and " + n.held[0]
	}
	return reason, message
}

func (p *pass) setBlocked(a *attachment, n tally) {
	slices.SortFunc(n.skipped, func(a, b Skip) int { return strings.Compare(a.Name+a.Why, b.Name+b.Why) })
	skipped := slices.Compact(n.skipped)
	shown, faults := min(3, len(skipped)), n.faults
	for _, s := range skipped[:shown] {
		faults = append(faults, s.Name+" has no target: "+s.Why)
	}
	slices.Sort(faults)
	if more := len(skipped) - shown; more > 0 {
		faults = append(faults, fmt.Sprintf("and %d more", more))
	}
	blocked := metav1.Condition{
		Type: v1alpha1.ConditionBlocked, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonAsExpected, ObservedGeneration: a.Object.Generation,
	}
	if len(faults) > 0 {
		blocked.Status, blocked.Reason = metav1.ConditionTrue, v1alpha1.ReasonTargetsRefused
		if len(n.bound) > 0 {
			blocked.Reason = v1alpha1.ReasonGroupBound
		}
		blocked.Message = shortened(strings.Join(slices.Compact(faults), "; "))
	}
	p.set(&a.status.Conditions, blocked)
}

// events are for what began to stand in the way, or to be warned of, or does for another reason.
func (a *attachment) events() (out []Event) {
	for _, kind := range []string{v1alpha1.ConditionBlocked, v1alpha1.ConditionWarning} {
		now, before := meta.FindStatusCondition(a.status.Conditions, kind), meta.FindStatusCondition(a.Object.Status.Conditions, kind)
		if now != nil && now.Status == metav1.ConditionTrue && (before == nil || before.Status != now.Status || before.Reason != now.Reason) {
			out = append(out, Event{now.Reason, now.Type, now.Message})
		}
	}
	return out
}
