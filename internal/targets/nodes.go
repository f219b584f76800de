package targets

import (
	"maps"
	"slices"
	"strings"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/kstatus"
)

// decideNodeAttachment makes the status of an Attachment. A node is out when no report of
// any group says that traffic may come to what is on it: also what others take out, or
// nobody wants any more, keeps it.
func (p *pass) decideNodeAttachment(n *nodeAttachment) {
	waits := p.unread(n)
	if left, until := p.leftByOthers(n); waits == "" && left != "" {
		p.wake(until)
		waits = left
	}
	if waits != "" {
		// What stood stays while nothing else is found.
		n.status.Done = n.answered()
		n.status.Waits = ""
		if found := p.foundOn(n); n.status.Done && found != "" {
			n.status.Done, waits = false, found
		}
		if !n.status.Done {
			n.status.Evidence, n.status.Waits = "", waits
		}
	} else {
		p.progress(n)
	}
	p.nameForeign(n)
	kstatus.OfAttachment(n.Attachment, &n.status).Set(&n.status.Conditions, n.Generation, asStored(p.Now))
	p.out.NodeAttachments = append(p.out.NodeAttachments, NodeAttachmentDecision{n.Attachment, n.status})
}

// foundOn says what a read found registered on a node that is said to be out, empty where nothing is.
func (p *pass) foundOn(n *nodeAttachment) string {
	for _, g := range p.groups {
		for _, r := range g.on[n.Name] {
			if n.detach() && placeIn(g.Registered, r.Target) == registered && p.concerns(g, r.Target, n) && !g.arrived(r, n) {
				return r.ID + ": " + r.Message
			}
		}
	}
	return ""
}

// mostForeign is how many foreign targets an Attachment names (maxItems in its type).
const mostForeign = 50

// nameForeign names what is on a node that is to be out and left alone: an address of it that
// somebody else registered with a group that is read anyway, and its instance in a group in
// which we can put nothing back.
func (p *pass) nameForeign(n *nodeAttachment) {
	n.status.Foreign = nil
	if !n.detach() {
		return
	}
	found := slices.Clone(p.foreignOn(n.Name))
	for _, g := range p.reached {
		if g.LeftAlone != "" && g.Registered == nil && g.Instances[n.Spec.Instance] {
			found = append(found, n.Spec.Instance+" in "+g.Name)
		}
	}
	slices.Sort(found)
	n.status.Foreign = found[:min(len(found), mostForeign)]
}

// foreignOn are the targets on a node that are left alone, of all groups that were read anyway.
func (p *pass) foreignOn(node string) []string {
	if p.foreign != nil {
		return p.foreign[node]
	}
	p.foreign = map[string][]string{}
	for _, g := range p.reached {
		if g.LeftAlone == "" && g.Type != IP {
			continue
		}
		for t := range g.Registered {
			if _, owned := g.owner(t); owned && g.LeftAlone == "" {
				continue
			}
			for _, name := range p.on[t.ID] {
				p.foreign[name] = append(p.foreign[name], t.String()+" in "+g.Name)
			}
		}
	}
	return p.foreign[node]
}

// unread says what was not read since an Attachment asks for what it does, empty where
// all was.
func (p *pass) unread(n *nodeAttachment) string {
	if why := p.unnamed(n); why != "" {
		return why
	}
	// What another leader took out may be the node's, and is to be put back.
	if p.Behind {
		return "the TargetGroupAttachments and Attachments are being read"
	}
	// What another leader registered may be on it, and its pod not be known yet.
	if n.detach() && p.anyUnplaced() {
		return "the pods of targets that another leader registered are being read"
	}
	// What cannot be read may be on it, in whatever group, or have been taken out.
	if n.detach() && len(p.unreadable) > 0 {
		return slices.Min(slices.Collect(maps.Values(p.unreadable)))
	}
	for _, attached := range n.Status.Groups {
		if why := p.unreadable[keyOf(roleOf(attached.AssumeRole), attached.ID)]; why != "" {
			return why
		}
	}
	for _, role := range p.roles() {
		if why := p.unreadRole(n, role); why != "" {
			return why
		}
	}
	if why := p.unfoundOn(n); why != "" {
		return why
	}
	for _, g := range p.groups {
		if g.unreadable == "" && p.isConcerned(g, n) && g.ReadAt.Before(n.since) && (n.detach() || g.Failing == "" || g.holds(n.ref)) {
			return "target group " + g.Name + " is being read"
		}
	}
	return p.unseen(n)
}

// unfoundOn says which group that is not known holds something of a node on record, empty where none
// does: what may be registered on one that is to be out, and what is to be put back otherwise.
func (p *pass) unfoundOn(n *nodeAttachment) string {
	var out []string
	for key, why := range p.unfound {
		if slices.ContainsFunc(p.held[key], func(h held) bool {
			return n.detach() && p.isOn(h.Target, n) || h.by == n.ref && (n.detach() || h.ID == n.Spec.Instance)
		}) {
			out = append(out, why)
		}
	}
	if len(out) == 0 {
		return ""
	}
	return slices.Min(out)
}

// isConcerned reports whether a group may have something of a node that asks for what it does.
func (p *pass) isConcerned(g *group, n *nodeAttachment) bool {
	if slices.Contains(g.nodes, n) && n.Spec.Instance != "" {
		return true
	}
	return n.detach() && slices.ContainsFunc(g.on[n.Name], func(r Report) bool { return p.isOn(r.Target, n) })
}

// anyUnplaced reports whether isUnplaced is so of any attachment.
func (p *pass) anyUnplaced() bool {
	if p.unplaced == nil {
		p.unplaced = new(slices.ContainsFunc(p.attachments, p.isUnplaced))
	}
	return *p.unplaced
}

// isUnplaced reports whether it is not known yet on which node something is that an attachment has
// on record.
func (p *pass) isUnplaced(a *attachment) bool {
	if !a.Behind {
		return false
	}
	for _, g := range a.Object.Status.Groups {
		records, _ := recordsOf(g, "")
		if slices.ContainsFunc(records, func(r Record) bool { return len(p.on[r.ID]) == 0 }) {
			return true
		}
	}
	return false
}

// unnamed says why it is not known which machine is to be out, empty where it is, or where
// none of the cloud's is.
func (p *pass) unnamed(n *nodeAttachment) string {
	node := p.nodes[n.Name]
	if !n.detach() || n.Spec.Instance != "" || node == nil {
		return ""
	}
	id, _ := InstanceID(node)
	switch {
	case node.Spec.ProviderID == "":
		return "its Node has no providerID yet, so that it is not known which targets it has"
	case id != "":
		return "its Node has its providerID, " + id + ", since a moment ago"
	}
	return ""
}

// unreadRole says what of a role's groups was not listed since an Attachment asks. A node
// that returns waits for no list that fails, unless it is to be put back by that. None waits
// for a role that is not permitted, as which nothing was ever registered: whoever may write
// TargetGroupAttachments could hold all nodes.
func (p *pass) unreadRole(n *nodeAttachment, role v1alpha1.AssumeRole) string {
	account := p.accounts[role]
	if account != nil && account.Refused && !p.recordedAs[role] {
		return ""
	}
	needed := n.detach() || slices.ContainsFunc(n.Status.Groups, func(g v1alpha1.AttachedGroup) bool { return roleOf(g.AssumeRole) == role })
	why := p.unlisted(role)
	switch {
	case why == "" && n.detach() && account.ListedAt.Before(n.since) && account.Failure != "":
		why = account.Failure
	case why == "" && n.detach() && account.ListedAt.Before(n.since):
		why = "the target groups are being read"
	case why != "" && !needed && account != nil && account.Failure != "":
		return ""
	}
	return asRole(role, why)
}

// progress says how far the node's targets are.
func (p *pass) progress(n *nodeAttachment) {
	n.status.ObservedGeneration, n.status.WithoutCloud = n.Generation, false
	n.status.Done, n.status.Evidence, n.status.Waits = false, "", ""
	var evidence []string
	for _, g := range p.groups {
		if slices.Contains(g.full, n) {
			n.status.Waits = "more target groups, or targets in them, have it than its status holds: " + g.Name
			return
		}
	}
	for _, g := range p.groups {
		for _, r := range g.on[n.Name] {
			if !p.concerns(g, r.Target, n) {
				continue
			}
			if !g.arrived(r, n) {
				n.status.Waits = r.ID + ": " + r.Message
				return
			}
			if r.Evidence != "" {
				evidence = append(evidence, string(r.Evidence))
			}
		}
		if waits := p.comesBack(g, n); waits != "" {
			n.status.Waits = waits
			return
		}
	}
	n.status.Done = true
	if !n.detach() {
		return
	}
	slices.Sort(evidence)
	n.status.Evidence = strings.Join(slices.Compact(evidence), ", ")
	if n.status.Evidence == "" {
		n.status.Evidence = "no target group has it"
	}
}

// concerns reports whether a target has to be where a node is to be. Out is all that may be on
// it; in is what was taken out for it, and what pods on it have that are not starting.
func (p *pass) concerns(g *group, t Target, n *nodeAttachment) bool {
	if g.borrowers[t] == n.ref || g.heldBy(t, n.ref) && (n.detach() || t.ID == n.Spec.Instance) {
		return true
	}
	if n.detach() && p.isOn(t, n) {
		return true
	}
	return slices.ContainsFunc(g.membersAt[t], func(m member) bool { return m.node == n.Name && (n.detach() || m.ready) })
}

// indexReports finds which reports may concern which node: hundreds may be out at once, and each group
// have thousands of targets.
func (g *group) indexReports(p *pass) {
	g.on = map[string][]Report{}
	if len(p.nodeAttachments) == 0 {
		return
	}
	for _, r := range g.decision.Reports {
		names := slices.Clone(p.on[r.ID])
		for _, m := range g.membersAt[r.Target] {
			names = append(names, m.node)
		}
		for _, h := range g.at[r.Target] {
			if h.by.Kind == KindNodeAttachment {
				names = append(names, h.by.Name)
			}
		}
		if by, borrowed := g.borrowers[r.Target]; borrowed {
			names = append(names, by.Name)
		}
		slices.Sort(names)
		for _, name := range slices.Compact(names) {
			g.on[name] = append(g.on[name], r)
		}
	}
}

// comesBack says what is being put back on a node of which it is not known who wants it, empty where
// nothing is. Whether it gets healthy there is not waited for: what served may be gone with what is not
// known.
func (p *pass) comesBack(g *group, n *nodeAttachment) string {
	for _, t := range g.parts {
		for _, m := range t.members {
			if target := g.target(m.Target); t.isUnknown() && m.In && !n.detach() && p.isOn(target, n) && g.leaves(target) {
				return m.ID + ": " + g.report(target).Message
			}
		}
	}
	return ""
}

// leaves reports whether a target is on record as one that leaves, by what was decided.
func (g *group) leaves(t Target) bool {
	records := g.decision.Records
	if records == nil {
		records = g.state.Records
	}
	return slices.ContainsFunc(records, func(r Record) bool { return r.Target == t && r.Leaving })
}

// isOn reports whether a target may be on a node.
func (p *pass) isOn(t Target, n *nodeAttachment) bool {
	return slices.Contains(p.on[t.ID], n.Name)
}

// arrived reports whether a target is where the node is to be. One that was not healthy before
// is not waited for, nor one that is not registered and that we did not take out.
func (g *group) arrived(r Report, n *nodeAttachment) bool {
	if n.detach() {
		return r.Phase == Stopped || r.Phase == Absent
	}
	name := r.Target.String()
	unhealthy := slices.ContainsFunc(n.status.Groups, func(a v1alpha1.AttachedGroup) bool {
		return a.ID == g.ID && slices.Contains(a.Unhealthy, name)
	})
	return r.Phase == Attached || r.Phase == Absent || r.Phase == Failing && unhealthy
}

// planGroups says what is to be done in each group, what that needs, and whose health
// checkers are asked.
func (p *pass) planGroups() {
	ask := map[string]bool{}
	for _, g := range p.groups {
		g.readSince(p)
		p.out.Groups = append(p.out.Groups, GroupPlan{Role: g.role, ID: g.ID, GroupDecision: g.decision, Needs: g.needs(p)})
		for _, r := range g.decision.Reports {
			if node := p.toldBy(g, r.Target); r.Phase == Leaving && node != "" {
				ask[node] = true
			}
		}
	}
	for name := range ask {
		p.out.Ask = append(p.out.Ask, name)
	}
	slices.Sort(p.out.Ask)
}

// readSince has the group read when an Attachment asks for what it does since the last
// read.
func (g *group) readSince(p *pass) {
	for _, n := range p.nodeAttachments {
		if p.isConcerned(g, n) && g.ReadAt.Before(n.since) && g.unreadable == "" {
			g.decision.ReadAt = p.Now
		}
	}
}

// needs are, by target, what must be written before a call about it: the record where it
// stands anew or otherwise, the finalizer of its object, and what drain hooks read of a
// pod that is to get traffic.
func (g *group) needs(p *pass) map[Target][]Ref {
	out := map[Target][]Ref{}
	before := map[Target]Record{}
	for _, r := range g.state.Records {
		before[r.Target] = r
	}
	after := before
	if g.decision.Records != nil {
		after = map[Target]Record{}
		for _, r := range g.decision.Records {
			after[r.Target] = r
		}
	}
	add := func(t Target) {
		owner, any := g.owner(t)
		// Whom a target is spoken of to is no part of what is written.
		was, is := before[t], after[t]
		was.Owner, is.Owner = "", ""
		if any && (was != is || !g.heldBy(t, owner) || g.unfinalized(owner)) {
			out[t] = append(out[t], owner)
		}
	}
	for _, t := range g.decision.Deregister {
		add(t)
	}
	for _, r := range g.decision.Register {
		add(r.Target)
	}
	calls := g.registers()
	for _, t := range g.parts {
		for _, m := range t.members {
			target := g.target(m.Target)
			if calls[target] && t.asks() && m.In && m.pod != nil && hasDrainHook(m.pod.Spec) && !(told(m.pod) && p.Told[m.pod.UID]) {
				out[target] = append(out[target], Ref{KindPod, m.pod.Namespace, m.pod.Name, m.pod.UID})
			}
		}
	}
	return out
}
