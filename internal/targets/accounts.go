package targets

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
)

// planAccounts says which accounts are needed, and what for.
func (p *pass) planAccounts() {
	for _, role := range p.roles() {
		plan := AccountPlan{Role: role, Named: p.named(role), Tags: p.selectsByTags(role), TagsOf: p.tagsOf(role)}
		for _, n := range p.nodeAttachments {
			account := p.accounts[role]
			plan.List = plan.List || account != nil && account.ListedAt.Before(n.since) && !n.answered()
		}
		if role == (v1alpha1.AssumeRole{}) {
			plan.Sweep = p.planSweep()
			plan.TagsOfInstances = plan.Sweep != nil && len(p.DetachTagged) > 0
		}
		p.out.Accounts = append(p.out.Accounts, plan)
	}
}

// named are the groups that somebody names, as a role, and that are not known: those that
// are selected by ARN or name, and those on record.
func (p *pass) named(role v1alpha1.AssumeRole) []GroupName {
	all := map[GroupName]bool{}
	for _, a := range p.attachments {
		if s := a.Object.Spec.TargetGroup; a.role == role && s.Tags == nil && p.elsewhere(a) == "" {
			all[GroupName{s.ARN, s.Name}] = true
		}
		for _, g := range a.Object.Status.Groups {
			if slices.Contains(recordedRoles(g, a.role), role) {
				all[GroupName{ID: g.ID}] = true
			}
		}
	}
	for _, n := range p.nodeAttachments {
		for _, g := range n.Status.Groups {
			if roleOf(g.AssumeRole) == role {
				all[GroupName{ID: g.ID}] = true
			}
		}
	}
	if account := p.accounts[role]; account != nil {
		for i := range account.Groups {
			delete(all, GroupName{ID: account.Groups[i].ID})
			delete(all, GroupName{Name: account.Groups[i].Name})
		}
	}
	return slices.SortedFunc(maps.Keys(all), func(a, b GroupName) int {
		return cmp.Or(strings.Compare(a.ID, b.ID), strings.Compare(a.Name, b.Name))
	})
}

// tagsOf are the known groups that somebody names as a role: their tags say who may.
func (p *pass) tagsOf(role v1alpha1.AssumeRole) map[string]bool {
	account := p.accounts[role]
	if account == nil {
		return nil
	}
	out := map[string]bool{}
	for _, a := range p.attachments {
		if a.role != role || a.Object.Spec.TargetGroup.Tags != nil {
			continue
		}
		for i := range account.Groups {
			if matches, _ := a.matches(account.Groups[i].Group); matches {
				out[account.Groups[i].ID] = true
			}
		}
	}
	return out
}

// selectsByTags reports whether somebody selects groups by their tags, as a role.
func (p *pass) selectsByTags(role v1alpha1.AssumeRole) bool {
	return slices.ContainsFunc(p.attachments, func(a *attachment) bool { return a.role == role && a.Object.Spec.TargetGroup.Tags != nil })
}

// elsewhere says that the group which an attachment names is in another region than this
// controller looks after, empty where it is not, or that is not known.
func (p *pass) elsewhere(a *attachment) string {
	account := p.accounts[a.role]
	parts := strings.Split(a.Object.Spec.TargetGroup.ARN, ":")
	if account == nil || account.Region == "" || len(parts) < 4 || parts[3] == account.Region {
		return ""
	}
	return fmt.Sprintf("target group %s is in region %s, and this controller looks after %s: run another one there, with --aws-region=%s",
		a.Object.Spec.TargetGroup.ARN, parts[3], account.Region, parts[3])
}

// planSweep says for which instances groups are looked through, nil while no node is to be
// out, or may be soon.
func (p *pass) planSweep() *Sweep {
	s := &Sweep{Tagged: p.DetachTagged, Instances: map[string]bool{}}
	wanted := p.Detaching
	for _, n := range p.nodeAttachments {
		if !n.detach() {
			continue
		}
		wanted = true
		if s.Instances[n.Spec.Instance] = true; !n.answered() {
			s.Since = later(s.Since, n.since)
		}
	}
	if !wanted {
		return nil
	}
	for _, node := range p.nodes {
		id, _ := InstanceID(node)
		s.Instances[id] = true
	}
	// The zones of lost ones are remembered for as long as they are found.
	for id := range p.lost {
		s.Instances[id] = true
	}
	delete(s.Instances, "")
	return s
}

// seenAt is since when it is known what of an Attachment's instance is in a group.
func (p *pass) seenAt(g *KnownGroup, n *nodeAttachment) time.Time {
	told, looks := p.accounts[v1alpha1.AssumeRole{}].LooksFor[n.Spec.Instance]
	if looks && !g.SweptAt.Before(told) {
		return later(g.ReadAt, g.SweptAt)
	}
	return g.ReadAt
}

// unseen says which groups that may hold a node were not looked through since its
// Attachment asks, and how long that takes; empty where all were.
func (p *pass) unseen(n *nodeAttachment) string {
	account := p.accounts[v1alpha1.AssumeRole{}]
	if account == nil || n.Spec.Instance == "" || !n.detach() {
		return ""
	}
	all, name, left := 0, "", 0
	for i := range account.Groups {
		g := &account.Groups[i]
		if !g.MayHold(p.DetachTagged) || g.LeftAlone != "" {
			continue
		}
		if all++; p.seenAt(g, n).Before(n.since) {
			left++
			name = g.Name
		}
	}
	switch {
	case left == 0:
		return ""
	case account.LookFailure+account.Failure != "":
		return cmp.Or(account.LookFailure, account.Failure)
	case left == 1:
		return "target group " + name + " is being read"
	}
	why := fmt.Sprintf("%d of %d target groups that may have it are being read", left, all)
	if takes := p.sweepTakes(account, all); p.DetachTimeout > 0 && takes > p.DetachTimeout/2 {
		why += fmt.Sprintf(", which takes %s for all, more than half of the %s of detachTimeoutSeconds: tag those that nodes are in, and start the controller with --detach-groups-tagged", takes, p.DetachTimeout)
	}
	return why
}

// leftByOthers says of which group somebody else took a node's instance a moment ago, so that new
// connections may come yet, and until when; empty where nobody did. When that was is not known but for the
// look that missed it. What is on record is waited for as what is recorded there says.
func (p *pass) leftByOthers(n *nodeAttachment) (why string, until time.Time) {
	account := p.accounts[v1alpha1.AssumeRole{}]
	if account == nil || !n.detach() {
		return "", time.Time{}
	}
	for i := range account.Groups {
		g := &account.Groups[i]
		left, missed := g.Left[n.Spec.Instance]
		if !missed || !g.MayHold(p.DetachTagged) || g.LeftAlone != "" || p.isRecorded(g.ID, n.Spec.Instance) {
			continue
		}
		if until = left.Add(p.SettleTimes[g.Balancer]); p.Now.Before(until) {
			return fmt.Sprintf("%s: somebody took it out of target group %s, and new connections may come until %s", n.Spec.Instance, g.Name, until.UTC().Format(time.TimeOnly)), until
		}
	}
	return "", time.Time{}
}

// isRecorded reports whether something of an instance is on record in a group that we reach as ourselves.
func (p *pass) isRecorded(group, instance string) bool {
	return slices.ContainsFunc(p.held[keyOf(v1alpha1.AssumeRole{}, group)], func(h held) bool { return h.ID == instance })
}

// sweepTakes is how long it takes to look through so many groups.
func (p *pass) sweepTakes(account *Account, groups int) time.Duration {
	if account.LooksPerSecond == 0 {
		return 0
	}
	return time.Duration(float64(groups) / account.LooksPerSecond * float64(time.Second)).Round(time.Second)
}
