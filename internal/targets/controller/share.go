package controller

import (
	"cmp"
	"slices"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/targets"
	corev1 "k8s.io/api/core/v1"
)

// share is one group in one pass: the State that is decided upon, and which object
// each target is spoken of in.
type share struct {
	account *account
	state   targets.State
	// binding is what has the group to itself, nil where nothing has.
	binding *binding
	// claims and holds are those with a part in the group.
	claims []*claim
	holds  []*hold
	// homes are where the records of targets stand, or are to stand.
	homes map[targets.Target]home
	// claimed are the targets that a claim speaks of, and the nodes they are on.
	claimed map[targets.Target][]string
	// starting are those of which no pod is ready yet.
	starting map[targets.Target]bool
	// hooked are the pods with a drain hook.
	hooked []hooked
	// broken is why nothing may be done about the group in this pass.
	broken string

	decision targets.Decision
}

// home is one of the two.
type home struct {
	claim *claim
	hold  *hold
}

func newShare(a *account, g targets.Group, o *observed, floor time.Duration) *share {
	s := &share{
		account: a, state: targets.State{Now: o.now, Group: g, Floor: floor, Synced: true},
		homes: map[targets.Target]home{}, claimed: map[targets.Target][]string{}, starting: map[targets.Target]bool{},
	}
	a.observe(&s.state)
	if g.Type == targets.Instance {
		s.state.Registered = zoned(s.state.Registered, o.zones)
	}
	return s
}

// zoned has the zones of instances, which the cloud does not tell of targets.
func zoned(registered map[targets.Target]targets.Health, zones map[string]string) map[targets.Target]targets.Health {
	out := make(map[targets.Target]targets.Health, len(registered))
	for t, h := range registered {
		h.Zone = cmp.Or(h.Zone, zones[t.ID])
		out[t] = h
	}
	return out
}

// remember takes over the records of an object.
func (s *share) remember(groups []v1alpha1.AttachedGroup, in home, owner string) (any bool) {
	i := slices.IndexFunc(groups, func(g v1alpha1.AttachedGroup) bool { return g.ID == s.state.Group.ID })
	if i < 0 {
		return false
	}
	records, err := recordsOf(groups[i], owner)
	if err != nil {
		s.broken = err.Error()
	}
	for _, r := range records {
		if _, taken := s.homes[r.Target]; !taken {
			s.homes[r.Target] = in
			s.state.Records = append(s.state.Records, r)
		}
	}
	return true
}

// join adds what a TargetGroupAttachment wants of the group.
func (s *share) join(c *claim, out map[string]string, nodes map[string]*corev1.Node) {
	matches, fault := c.matches(s.state.Group)
	if fault != "" {
		c.faults = append(c.faults, fault)
	}
	if s.binding != nil {
		if matches {
			c.matched++
			c.bound = append(c.bound, s.binding.refusal(s.state.Group))
		}
		return
	}
	owned := s.remember(c.status.Groups, home{claim: c}, c.object.Name)
	if !owned && !matches {
		return
	}
	s.claims = append(s.claims, c)
	if c.object.DeletionTimestamp != nil || !matches {
		s.part(c, out, nodes)
		return
	}
	c.matched++
	if c.incomplete != "" {
		// What it selects is not known, so that what it registered is left alone.
		s.state.Synced = false
		return
	}
	wants, err := c.wants(s.state.Group, out, nodes)
	if err != nil {
		s.state.Synced = false
		c.faults = append(c.faults, err.Error())
		return
	}
	s.hook(c, wants, false)
	s.state.Whole = s.state.Whole || c.object.Spec.Ownership == v1alpha1.OwnGroup
	for _, w := range wants {
		s.state.Wants = append(s.state.Wants, w.Want)
		t := w.Target
		s.claimed[t] = append(s.claimed[t], w.node)
		if _, taken := s.homes[t]; !taken {
			s.homes[t] = home{claim: c}
		}
		s.starting[t] = !w.ready && (s.starting[t] || len(s.claimed[t]) == 1)
	}
}

// part ends a TargetGroupAttachment's part in the group.
func (s *share) part(c *claim, out map[string]string, nodes map[string]*corev1.Node) {
	// What has no target is not worth a word any more, so that a copy is asked.
	parting := *c
	if wants, err := parting.wants(s.state.Group, out, nodes); err == nil {
		s.hook(c, wants, true)
	}
	if c.object.DeletionTimestamp != nil {
		s.letGo(c)
	}
}

// letGo has what a TargetGroupAttachment registered taken out when that is deleted,
// whatever is left: somebody wants it so.
func (s *share) letGo(c *claim) {
	for _, r := range s.state.Records {
		if s.homes[r.Target].claim == c {
			s.state.Wants = append(s.state.Wants, targets.Want{
				Registration: r.Registration, Owner: r.Owner, Why: "its TargetGroupAttachment is deleted", Seen: true, Ending: true,
			})
		}
	}
}

// hold adds what an Attachment wants of the group: its instance's targets out, or
// those that were taken out in again. Targets that a TargetGroupAttachment speaks of
// come and go with that.
func (s *share) hold(h *hold) {
	s.remember(h.status.Groups, home{hold: h}, h.object.Name)
	s.holds = append(s.holds, h)
	instance := h.object.Spec.Instance
	if instance == "" || s.state.Group.Type != targets.Instance {
		return
	}
	want := func(r targets.Registration) {
		s.state.Wants = append(s.state.Wants, targets.Want{
			Registration: r, Owner: h.object.Name, In: !h.detach(), Why: "node " + h.object.Name + " is detached", Seen: true, Borrowed: true,
		})
	}
	for _, r := range s.state.Records {
		if s.homes[r.Target].hold == h && !s.isClaimed(r.Target) {
			want(r.Registration)
		}
	}
	if !h.detach() {
		return
	}
	for t := range s.state.Registered {
		if _, spoken := s.homes[t]; t.ID == instance && !spoken {
			s.homes[t] = home{hold: h}
			want(targets.Registration{Target: t})
		}
	}
}

// floors are those that TargetGroupAttachments ask for, those that are deleted included.
func (s *share) floors() (asked []time.Duration) {
	for _, c := range s.claims {
		if seconds := c.object.Spec.DetachFloorSeconds; seconds != nil {
			asked = append(asked, time.Duration(*seconds)*time.Second)
		}
	}
	return asked
}

func (s *share) isClaimed(t targets.Target) bool {
	_, claimed := s.claimed[t]
	return claimed
}

// decide decides, and has the group read since an Attachment asks for what it does.
func (s *share) decide(since map[*hold]time.Time) {
	if asked := s.floors(); len(asked) > 0 {
		s.state.Floor = slices.Max(asked)
	}
	s.decision = targets.Decide(s.state)
	for _, h := range s.holds {
		if s.state.Group.Type != targets.Instance || h.object.Spec.Instance == "" {
			continue
		}
		if s.state.ReadAt.Before(since[h]) {
			h.unread = "target group " + s.state.Group.Name + " is being read"
			s.decision.ReadAt = s.state.Now
		}
	}
	for _, report := range s.decision.Reports {
		for _, c := range s.claims {
			if s.isClaimed(report.Target) || s.homes[report.Target].claim == c {
				c.reports = append(c.reports, report)
			}
		}
		for _, h := range s.holds {
			if s.homes[report.Target].hold == h || s.concerns(report, h) {
				h.reports = append(h.reports, report)
			}
		}
	}
}

// concerns is whether a target of pods on the node has to be where the node is to be.
func (s *share) concerns(r targets.Report, h *hold) bool {
	return slices.Contains(s.claimed[r.Target], h.object.Name) && (h.detach() || !s.starting[r.Target])
}

// keep puts the records of the decision into the statuses. Where one of before
// cannot be read, all stay as they are: what was not read would be forgotten.
func (s *share) keep() {
	if s.decision.Records == nil || s.broken != "" {
		return
	}
	byHome := map[home][]targets.Record{}
	for _, r := range s.decision.Records {
		byHome[s.homeOf(r.Target)] = append(byHome[s.homeOf(r.Target)], r)
	}
	for _, c := range s.claims {
		g, any := groupOf(s.state.Group, byHome[home{claim: c}], nil)
		c.status.Groups = replaced(c.status.Groups, g, any)
	}
	for _, h := range s.holds {
		records := byHome[home{hold: h}]
		g, any := groupOf(s.state.Group, records, s.unhealthy(h, records))
		h.status.Groups = replaced(h.status.Groups, g, any)
	}
}

// homeOf is where a record is to stand. One that nobody spoke of is somebody else's
// target in a group that is wholly a claim's.
func (s *share) homeOf(t targets.Target) home {
	if h, known := s.homes[t]; known {
		return h
	}
	for _, c := range s.claims {
		if c.object.Spec.Ownership == v1alpha1.OwnGroup {
			return home{claim: c}
		}
	}
	return home{}
}

// unhealthy are the targets that were not healthy when they were remembered.
func (s *share) unhealthy(h *hold, records []targets.Record) []string {
	var before v1alpha1.AttachedGroup
	for _, g := range h.status.Groups {
		if g.ID == s.state.Group.ID {
			before = g
		}
	}
	var out []string
	for _, r := range records {
		name := r.Registration.String()
		known := slices.Contains(before.Targets, name) || slices.ContainsFunc(before.Leaving, func(l v1alpha1.LeavingTarget) bool { return l.Target == name })
		if slices.Contains(before.Unhealthy, name) || !known && s.state.Registered[r.Target].Condition != targets.Healthy {
			out = append(out, name)
		}
	}
	return out
}
