package targets

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
)

// reachedGroups are all groups that are known, in the order of their keys, each as it is
// reached by one role.
func (p *pass) reachedGroups() []*group {
	if !p.Bindings.Listed {
		// Nothing is touched of which it is not known whether somebody else has it to itself.
		return nil
	}
	all := map[GroupKey]*group{}
	for _, role := range p.roles() {
		account := p.accounts[role]
		if account == nil {
			continue
		}
		for i := range account.Groups {
			known := &account.Groups[i]
			key := keyOf(account.Role, known.ID)
			g := all[key]
			if g == nil {
				g = &group{key: key, adds: map[Ref]bool{}, at: map[Target][]held{}, speakers: map[Target]*part{}, membersAt: map[Target][]member{}, borrowers: map[Target]Ref{}, unreadable: p.unreadable[key], binding: p.Bindings.of(known.Group)}
				all[key] = g
			}
			if g.KnownGroup == nil || account.Role == p.reachedAs(key) {
				g.KnownGroup, g.role = known, account.Role
			}
			g.roles = append(g.roles, account.Role)
			if g.tags == nil {
				g.tags = known.Tags
			}
		}
	}
	out := slices.SortedFunc(maps.Values(all), func(a, b *group) int {
		return cmp.Or(cmp.Compare(a.ID, b.ID), compareRoles(a.key.Role, b.key.Role))
	})
	for _, g := range out {
		g.takeRecords(p.held[g.key])
	}
	return out
}

// reachedAs is as whom a group was reached last: calls as two roles would overtake each
// other.
func (p *pass) reachedAs(key GroupKey) v1alpha1.AssumeRole {
	if before, known := p.Memory.Groups[key]; known {
		return before.Role
	}
	return p.recordedRole[key]
}

// of is the binding that has the group to itself, nil where none has.
func (b *Bindings) of(g Group) *Binding {
	for i, one := range b.All {
		if one.ARN == g.ID || one.ARN == "" && one.Group == g.Name && g.Balancer != Classic {
			return &b.All[i]
		}
	}
	return nil
}

// refusal says why nothing is done about a group, and what to change.
func (b *Binding) refusal(g Group) string {
	return fmt.Sprintf("target group %s belongs to TargetGroupBinding %s, whose controller removes what others register: set spec.multiClusterTargetGroup: true there, delete it, or use another group", g.Name, b.Name)
}

// takeRecords takes the records over. A classic load balancer has an instance once,
// whatever port anybody gives it. Where somebody else has the group to itself, only what
// is on its way out is looked at: it may still get traffic.
func (g *group) takeRecords(records []held) {
	for _, h := range records {
		h.Target = g.target(h.Target)
		if g.binding == nil || h.by.Kind == KindNodeAttachment || h.Leaving {
			g.held = append(g.held, h)
		}
	}
	slices.SortFunc(g.held, func(a, b held) int { return cmp.Or(compareTargets(a.Target, b.Target), compareRefs(a.by, b.by)) })
	for _, h := range g.held {
		g.at[h.Target] = append(g.at[h.Target], h)
	}
}

func (g *group) target(t Target) Target {
	if g.Balancer == Classic || t.Port == 0 {
		t.Port = g.Port
	}
	return t
}

// isOut reports whether a target is known not to be registered: that the inventory does not show it yet
// says nothing where the last call that was decided about it registers it.
func (g *group) isOut(t Target) bool {
	return !g.ReadAt.IsZero() && placeIn(g.Registered, t) != registered && !g.Answers[t].Register
}

// isTheirs reports whether a target is registered and on nobody's record.
func (g *group) isTheirs(t Target) bool {
	t = g.target(t)
	return len(g.at[t]) == 0 && !g.ReadAt.IsZero() && placeIn(g.Registered, t) == registered && !g.Answers[t].Register
}

// holds reports whether an object has records of the group.
func (g *group) holds(by Ref) bool {
	return slices.ContainsFunc(g.held, func(h held) bool { return h.by == by })
}

// heldBy reports whether an object has a target on record.
func (g *group) heldBy(t Target, by Ref) bool {
	return slices.ContainsFunc(g.at[t], func(h held) bool { return h.by == by })
}

// spoken reports whether a TargetGroupAttachment moves a target, or has it on record. One that
// may not touch the group moves nothing.
func (g *group) spoken(t Target) bool {
	if g.binding != nil {
		return false
	}
	return g.speakers[t] != nil || slices.ContainsFunc(g.at[t], func(h held) bool { return h.by.Kind == KindGroupAttachment })
}

// findSpeakers finds of which part each target is a member: of one that has it on record
// already before others, so that a new one takes nothing over while the old one wants the
// same, and of one that wants it in, and may, before one that wants it out.
func (g *group) findSpeakers() {
	ranks := map[Target]int{}
	for _, t := range g.parts {
		if !t.asks() || g.binding != nil {
			continue
		}
		for _, m := range t.members {
			target, rank := g.target(m.Target), 1
			if t.admission.why != "" && !g.heldBy(target, t.ref) {
				continue
			}
			if m.In && t.admission.why == "" {
				rank += 2
			}
			if g.heldBy(target, t.ref) {
				rank++
			}
			if rank > ranks[target] {
				g.speakers[target], ranks[target] = t, rank
			}
		}
	}
}

// owner is the object in whose status the record of a target is to stand: that of one that
// speaks of it, then the one where it stands, then whoever borrows it; and what is left is
// a stranger's in a group that is wholly somebody's.
func (g *group) owner(t Target) (owner Ref, any bool) {
	if part := g.speakers[t]; part != nil {
		return part.ref, true
	}
	borrower, borrows := g.borrowers[t]
	if borrows && g.binding != nil {
		return borrower, true
	}
	for _, kind := range []string{KindGroupAttachment, KindNodeAttachment} {
		for _, h := range g.at[t] {
			if h.by.Kind == kind {
				return h.by, true
			}
		}
	}
	if borrows {
		return borrower, true
	}
	for _, part := range g.parts {
		if part.owns() {
			return part.ref, true
		}
	}
	return Ref{}, false
}

// decide decides about the group and puts its records into the statuses.
func (g *group) decide(p *pass) {
	memory := GroupMemory{Role: g.role, Sightings: p.Memory.Groups[g.key].Sightings}
	if g.unreadable != "" || g.LeftAlone != "" {
		// Nothing is concluded, and nothing done, where it is not known what is ours, nor
		// where we can put nothing back.
		g.decision = GroupDecision{At: p.Now}
		p.out.Memory.Groups[g.key] = memory
		return
	}
	if g.Type == Instance {
		for t := range g.Registered {
			p.keepZone(t.ID)
		}
	}
	g.state = GroupState{
		Now: p.Now, Group: g.Group, SettleTime: p.SettleTimes[g.Balancer], SettleTimes: g.settleTimes(p.SettleTimes[g.Balancer]), Synced: !g.unknown, Unsynced: g.unsynced(), Vacant: g.vacant(p),
		Registered: g.registered(p), ReadAt: g.ReadAt, Live: g.Live, Answers: g.Answers, Refused: g.Refused,
		Sightings: memory.Sightings, Quiet: p.quiet(g), ZonesBehind: p.NodesBehind && g.Type == Instance,
	}
	for _, w := range g.wants {
		w.Target = g.target(w.Target)
		g.state.Wants = append(g.state.Wants, w)
	}
	for _, h := range g.held {
		if n := len(g.state.Records); n > 0 && g.state.Records[n-1].Target == h.Target {
			g.state.Records[n-1] = joined(g.state.Records[n-1], h.Record)
			continue
		}
		g.state.Records = append(g.state.Records, h.Record)
	}
	for _, part := range g.parts {
		g.state.Whole = g.state.Whole || g.binding == nil && part.owns()
	}
	if slices.ContainsFunc(g.parts, func(t *part) bool { return t.unsure }) {
		// A stranger may be what is not known.
		g.state.Whole = false
	}
	g.decision = Decide(g.state)
	if p.Behind {
		// What is on record by now may be the reverse.
		g.decision.Register, g.decision.Deregister = nil, nil
	}
	g.leaveToBinding()
	g.keepSightings(p.Now, g.decision.Sightings)
	memory.Sightings = g.decision.Sightings
	p.out.Memory.Groups[g.key] = memory
	p.out.CatchUpNodes = p.out.CatchUpNodes || g.decision.NeedZones
	p.wake(g.decision.WakeAt)
	g.record(p)
}

// vacant are the addresses on record at which no pod lives of the namespaces that have them on
// record. Who got the address of a pod that ended does not matter where a minimum is counted.
func (g *group) vacant(p *pass) map[Target]bool {
	out := map[Target]bool{}
	if g.Type != IP {
		return out
	}
	for target, holders := range g.at {
		out[target] = !slices.ContainsFunc(holders, func(h held) bool {
			return h.by.Kind != KindGroupAttachment || p.lives[podAddress{h.by.Namespace, h.ID}]
		})
	}
	return out
}

// unsynced are the targets on record of which it is not known whether somebody of the same namespace
// selects what serves there. What one of another namespace selects, nobody else has on record.
func (g *group) unsynced() map[Target]bool {
	out := map[Target]bool{}
	for _, t := range g.parts {
		if !t.matches || !t.unknown {
			continue
		}
		for target, holders := range g.at {
			out[target] = out[target] || slices.ContainsFunc(holders, func(h held) bool { return h.by.Namespace == t.ref.Namespace })
		}
	}
	return out
}

// leaveToBinding drops the calls about what only a TargetGroupAttachment has on record
// where somebody else has the group to itself.
func (g *group) leaveToBinding() {
	if g.binding == nil {
		return
	}
	g.decision.Deregister = slices.DeleteFunc(g.decision.Deregister, func(t Target) bool {
		_, borrowed := g.borrowers[t]
		return !borrowed
	})
	g.decision.Register = slices.DeleteFunc(g.decision.Register, func(r Registration) bool {
		_, borrowed := g.borrowers[r.Target]
		return !borrowed
	})
}

// registered is the inventory with the zones of instances, which the cloud does not tell.
func (g *group) registered(p *pass) map[Target]Health {
	if g.Type != Instance {
		return g.Registered
	}
	out := make(map[Target]Health, len(g.Registered))
	for t, h := range g.Registered {
		h.Zone = cmp.Or(h.Zone, p.zoneOf(t.ID))
		out[t] = h
	}
	return out
}

// record puts the records into the statuses of their owners. A target that goes over to
// another object stays on record where it was until it stands there, too.
func (g *group) record(p *pass) {
	records := g.decision.Records
	if records == nil {
		records = g.state.Records
	}
	g.leaving = map[Target]bool{}
	of := map[Ref][]Record{}
	for _, r := range records {
		g.leaving[r.Target] = r.Leaving
		owner, any := g.owner(r.Target)
		if !any {
			continue
		}
		of[owner] = append(of[owner], r)
		if g.heldBy(r.Target, owner) {
			continue
		}
		for _, h := range g.at[r.Target] {
			of[h.by] = append(of[h.by], h.Record)
		}
	}
	for _, t := range g.parts {
		g.recordOf(t, of[t.ref])
	}
	for _, n := range g.nodes {
		attached, any := attachedGroup(g.Group, g.role, of[n.ref], g.unhealthy(n, of[n.ref]))
		if stands := slices.ContainsFunc(n.Status.Groups, func(a v1alpha1.AttachedGroup) bool { return a.ID == g.ID }); any && !stands && !g.adds[n.ref] {
			if p.recorded(n.ref, len(n.Status.Groups)) >= mostNodeGroups {
				// No room to remember who was unhealthy: it is waited for.
				continue
			}
			g.adds[n.ref] = true
		}
		n.status.Groups = replaced(n.status.Groups, attached, any)
	}
}

// recordOf puts the records of a TargetGroupAttachment into its status. What somebody
// else has to itself and does not leave stays on record as it is.
func (g *group) recordOf(t *part, records []Record) {
	if g.binding != nil {
		for _, before := range t.Object.Status.Groups {
			if before.ID == g.ID {
				kept, _ := recordsOf(v1alpha1.AttachedGroup{Targets: before.Targets}, "")
				records = append(kept, records...)
			}
		}
	}
	attached, any := attachedGroup(g.Group, g.role, records, nil)
	t.status.Groups = replaced(t.status.Groups, attached, any)
}

// unhealthy are the targets on a node that were not healthy when they were taken out:
// those that its Attachment has on record, and those of pods and nodes that others have.
func (g *group) unhealthy(n *nodeAttachment, records []Record) []string {
	var before v1alpha1.AttachedGroup
	for _, attached := range n.Status.Groups {
		if attached.ID == g.ID {
			before = attached
		}
	}
	var out []string
	note := func(t Target, name string, known bool) {
		if slices.Contains(before.Unhealthy, name) || !known && g.Registered[t].Condition != Healthy {
			out = append(out, name)
		}
	}
	for _, r := range records {
		name := r.Registration.String()
		known := slices.Contains(before.Targets, name) || slices.ContainsFunc(before.Leaving, func(l v1alpha1.LeavingTarget) bool { return l.Target == name })
		note(r.Target, name, known)
	}
	begun := func(t Target) bool {
		is := func(r Record) bool { return r.Target == t && r.Leaving }
		return !slices.ContainsFunc(g.state.Records, is) && slices.ContainsFunc(g.decision.Records, is)
	}
	for _, t := range g.parts {
		for _, m := range t.members {
			if target := g.target(m.Target); t.asks() && m.node == n.Name {
				note(target, target.String(), !n.detach() || !begun(target))
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// report is the one about a target, empty where there is none. Reports are in the order
// of their targets.
func (g *group) report(t Target) Report {
	at, found := slices.BinarySearchFunc(g.decision.Reports, t, func(r Report, t Target) int { return compareTargets(r.Target, t) })
	if !found {
		return Report{}
	}
	return g.decision.Reports[at]
}

// tellsConnections reports whether the connections to a node tell whether traffic still comes
// to a target. A classic load balancer has one target for all its ports.
func (g Group) tellsConnections() bool { return g.Balancer != Classic && !g.Datagrams }

// toldBy is the node whose connections tell whether traffic still comes to a target, empty where
// none can be meant: to a pod with a network of its own they say nothing.
func (p *pass) toldBy(g *group, t Target) string {
	if on := p.on[t.ID]; len(on) == 1 && g.tellsConnections() && !p.pods[t.ID] {
		return on[0]
	}
	return ""
}

// quiet is what is known of the targets that leave.
func (p *pass) quiet(g *group) map[Target]Quiet {
	out := map[Target]Quiet{}
	for _, h := range g.held {
		if q, known := p.Quiet[p.toldBy(g, h.Target)][h.Port]; known && h.Leaving {
			out[h.Target] = q
		}
	}
	return out
}

// registers are the targets that are to be registered.
func (g *group) registers() map[Target]bool {
	out := map[Target]bool{}
	for _, r := range g.decision.Register {
		out[r.Target] = true
	}
	return out
}

// unfinalized reports whether an object is a TargetGroupAttachment that may go at any moment.
func (g *group) unfinalized(owner Ref) bool {
	return slices.ContainsFunc(g.parts, func(t *part) bool {
		return t.ref == owner && !slices.Contains(t.Object.Finalizers, v1alpha1.Finalizer)
	})
}

// keepSightings keeps since when it is known of what left for an object that is deleted, where a
// decision takes it for on its way in: the record stands there until another object has it.
func (g *group) keepSightings(now time.Time, sightings map[Target]Sighting) {
	for _, h := range g.held {
		deleted := slices.ContainsFunc(g.parts, func(t *part) bool { return t.ref == h.by && t.Object.DeletionTimestamp != nil })
		if _, kept := sightings[h.Target]; kept || !deleted || h.LeftAt.IsZero() {
			continue
		}
		before := g.state.Sightings[h.Target]
		if !before.LeftAt.Equal(h.LeftAt) {
			before = Sighting{LeftAt: h.LeftAt, QuietAt: h.QuietAt, Left: now, Quiet: now}
		}
		sightings[h.Target] = before
	}
}

// settleTimes are how long the load balancer may send new connections to what left, for each target
// that somebody selects or has on record: the longest that one of these asks for, also while it is
// deleted. Who asks for nothing asks for the default of its kind. What others ask for counts for
// their own targets: one namespace neither cuts short nor stretches what another waits for.
func (g *group) settleTimes(byDefault time.Duration) map[Target]time.Duration {
	out := map[Target]time.Duration{}
	for _, t := range g.parts {
		asked := t.settleTime(byDefault)
		for _, target := range g.targetsOf(t) {
			before, any := out[target]
			if !any || asked > before {
				out[target] = asked
			}
		}
	}
	return out
}

// settleTime is how long new connections may come by what an attachment asks for.
func (a *attachment) settleTime(byDefault time.Duration) time.Duration {
	if s := a.Object.Spec.DetachFloorSeconds; s != nil {
		return time.Duration(*s) * time.Second
	}
	return byDefault
}
