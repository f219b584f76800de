package targets

import (
	"slices"
	"strings"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// readRecords reads the records of all objects.
func (p *pass) readRecords() {
	for _, a := range p.attachments {
		for _, g := range a.Object.Status.Groups {
			p.readGroup(g, a.ref, a.Object.Name, a.role)
		}
	}
	for _, n := range p.nodeAttachments {
		for _, g := range n.Status.Groups {
			p.readGroup(g, n.ref, n.Name, v1alpha1.AssumeRole{})
		}
	}
}

// readGroup reads the records of a group.
func (p *pass) readGroup(g v1alpha1.AttachedGroup, by Ref, owner string, spec v1alpha1.AssumeRole) {
	for _, recorded := range recordedRoles(g, spec) {
		p.recordedAs[recorded] = true
	}
	role := p.recordedBy(g, spec)
	key := keyOf(role, g.ID)
	if before, known := p.recordedRole[key]; !known || compareRoles(role, before) < 0 {
		p.recordedRole[key] = role
	}
	records, err := recordsOf(g, owner)
	if err != nil {
		p.unreadable[key] = by.Kind + " " + strings.TrimPrefix(by.Namespace+"/"+by.Name, "/") + " has an unreadable record of " + g.ID + ": " + err.Error()
	}
	p.groupsOnRecord[key] = append(p.groupsOnRecord[key], groupOnRecord{g.ID, recordedRoles(g, spec), len(records) > 0 || err != nil})
	for _, r := range records {
		p.held[key] = append(p.held[key], held{r, by})
		p.note(onRecord{key, r.Target}, by)
	}
}

// note indexes what a TargetGroupAttachment has on record: what pods of its namespace may stand for.
func (p *pass) note(r onRecord, by Ref) {
	if by.Kind != KindGroupAttachment {
		return
	}
	p.recordedIn[podAddress{by.Namespace, r.ID}] = append(p.recordedIn[podAddress{by.Namespace, r.ID}], r)
	if _, named := p.zones[r.ID]; !named && strings.HasPrefix(r.ID, "i-") {
		p.strays[by.Namespace] = append(p.strays[by.Namespace], r.ID)
	}
}

// recordedBy is as whom records were made. Of a classic load balancer, whose name says nothing
// of its account, it is who lists it.
func (p *pass) recordedBy(g v1alpha1.AttachedGroup, spec v1alpha1.AssumeRole) v1alpha1.AssumeRole {
	likely := recordedRoles(g, spec)
	if Balancer(g.Balancer) != Classic || len(likely) == 1 {
		return likely[0]
	}
	for _, role := range likely {
		if account := p.accounts[role]; account != nil && slices.ContainsFunc(account.Groups, func(k KnownGroup) bool { return k.ID == g.ID }) {
			return role
		}
	}
	return likely[0]
}

// recordedRoles are as whom records may have been made, the likeliest first. Those without
// a role were made as ourselves, or as the object's role by a version that wrote none.
func recordedRoles(g v1alpha1.AttachedGroup, spec v1alpha1.AssumeRole) []v1alpha1.AssumeRole {
	switch {
	case g.AssumeRole != nil:
		return []v1alpha1.AssumeRole{*g.AssumeRole}
	case spec == v1alpha1.AssumeRole{}:
		return []v1alpha1.AssumeRole{{}}
	}
	return []v1alpha1.AssumeRole{spec, {}}
}

// forgetGone drops what an attachment has on record in groups that are not there any more: nothing
// comes by them, and its status holds so many.
func (p *pass) forgetGone(a *attachment) {
	a.status.Groups = slices.DeleteFunc(a.status.Groups, func(g v1alpha1.AttachedGroup) bool {
		return p.isGone(groupOnRecord{id: g.ID, roles: recordedRoles(g, a.role)})
	})
}

// isGone reports whether a group on record was asked for by itself and is not there, by everybody as whom it
// may have been recorded, one of whom sees its owner: one that reaches another account, or region, by
// mistake would find none. A classic load balancer is whose it is listed by.
func (p *pass) isGone(g groupOnRecord) bool {
	sees := OwnerOf(g.id) == ""
	for _, role := range g.roles {
		account := p.accounts[role]
		if account == nil || !account.Missing[g.id] || p.byKey[keyOf(role, g.id)] != nil {
			return false
		}
		sees = sees || account.sees(OwnerOf(g.id))
	}
	return sees
}

// sees reports whether groups of an owner would be listed: others of it are, or were while there were any, or
// it is the role's own.
func (a *Account) sees(owner string) bool {
	if len(a.Groups) == 0 && a.Owners[owner] {
		return true
	}
	if role := strings.Split(a.Role.ARN, ":"); len(role) > 4 && a.Region != "" && strings.HasSuffix(owner, ":"+a.Region+":"+role[4]) {
		return true
	}
	return slices.ContainsFunc(a.Groups, func(k KnownGroup) bool { return OwnerOf(k.ID) == owner })
}

// findUnfound finds the groups in which something is on record that are neither known nor gone: a list
// may leave out one that is there.
func (p *pass) findUnfound() {
	for key, all := range p.groupsOnRecord {
		gone := func(g groupOnRecord) bool { return !g.any || p.isGone(g) }
		if p.byKey[key] == nil && slices.ContainsFunc(all, func(g groupOnRecord) bool { return !gone(g) }) {
			p.unfound[key] = p.whyUnfound(all[0])
		}
	}
}

// whyUnfound says why a group on record is not known.
func (p *pass) whyUnfound(g groupOnRecord) string {
	account := p.accounts[g.roles[0]]
	if account == nil || !account.Missing[g.id] {
		return "target group " + g.id + ", in which targets are on record, is not listed, and is being read"
	}
	return asRole(g.roles[0], "target group "+g.id+", in which targets are on record, is not found, nor any other of its account and region: see as whom the controller reaches them")
}

// unfoundOf says which group of an attachment's records is not known, empty where all are, and whether
// that was asked for by itself.
func (p *pass) unfoundOf(a *attachment) (why string, asked bool) {
	for _, g := range a.Object.Status.Groups {
		role := p.recordedBy(g, a.role)
		if why := p.unfound[keyOf(role, g.ID)]; len(g.Targets)+len(g.Leaving) > 0 && why != "" {
			return why, p.accounts[role] != nil && p.accounts[role].Missing[g.ID]
		}
	}
	return "", false
}

// OwnerOf is the region and the account of an ARN, with what is before them; empty where it is none.
func OwnerOf(id string) string {
	parts := strings.Split(id, ":")
	if len(parts) < 6 {
		return ""
	}
	return strings.Join(parts[:5], ":")
}

// recordsOf are those of a group in an object's status. What cannot be read is an
// error: to go on without it would forget what is ours.
func recordsOf(g v1alpha1.AttachedGroup, owner string) ([]Record, error) {
	var out []Record
	for _, s := range g.Targets {
		r, err := ParseRegistration(s)
		if err != nil {
			return nil, err
		}
		out = append(out, Record{Registration: r, Owner: owner})
	}
	for _, l := range g.Leaving {
		r, err := ParseRegistration(l.Target)
		if err != nil {
			return nil, err
		}
		record := Record{Registration: r, Owner: owner, Leaving: true, Settled: l.Settled}
		if l.LeftAt != nil {
			record.LeftAt = l.LeftAt.Time
		}
		if l.QuietAt != nil {
			record.QuietAt = l.QuietAt.Time
		}
		out = append(out, record)
	}
	return out, nil
}

// attachedGroup is how records stand in an object's status, and whether there is
// anything to stand there. unhealthy are names of targets.
func attachedGroup(g Group, role v1alpha1.AssumeRole, records []Record, unhealthy []string) (v1alpha1.AttachedGroup, bool) {
	out := v1alpha1.AttachedGroup{ID: g.ID, Balancer: string(g.Balancer), Unhealthy: unhealthy}
	if role != (v1alpha1.AssumeRole{}) {
		out.AssumeRole = &role
	}
	for _, r := range records {
		s := r.Registration.String()
		if !r.Leaving {
			out.Targets = append(out.Targets, s)
			continue
		}
		leaving := v1alpha1.LeavingTarget{Target: s, Settled: r.Settled}
		if !r.LeftAt.IsZero() {
			leaving.LeftAt = new(metav1.NewTime(r.LeftAt.Truncate(time.Second)))
		}
		if !r.QuietAt.IsZero() {
			leaving.QuietAt = new(metav1.NewTime(r.QuietAt.Truncate(time.Second)))
		}
		out.Leaving = append(out.Leaving, leaving)
	}
	return out, len(records)+len(unhealthy) > 0
}

// replaced is a list of groups in which one has other records.
func replaced(list []v1alpha1.AttachedGroup, g v1alpha1.AttachedGroup, any bool) []v1alpha1.AttachedGroup {
	out := slices.DeleteFunc(slices.Clone(list), func(o v1alpha1.AttachedGroup) bool { return o.ID == g.ID })
	if any {
		out = append(out, g)
	}
	slices.SortFunc(out, func(a, b v1alpha1.AttachedGroup) int { return strings.Compare(a.ID, b.ID) })
	return out
}

// joined is one record of two of the same target: it goes on as the one that says less
// of its end, since the other may be of before it was registered again.
func joined(a, b Record) Record {
	switch {
	case !a.Leaving:
		return a
	case !b.Leaving:
		return b
	case a.LeftAt.IsZero() || !b.LeftAt.IsZero() && a.LeftAt.After(b.LeftAt):
		a.Settled = a.Settled && b.Settled
		return a
	}
	b.Settled = a.Settled && b.Settled
	return b
}
