package targets

import (
	"slices"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// storyAccount is what is known of an account of the cloud as one role, and the calls that are left to make.
type storyAccount struct {
	Account
	calls   *Calls
	flights []flight
	sweeps  *Sweeps
	fakes   map[string]*fakeGroup
}

// as is the account as a role, which is listed when somebody first asks for it.
func (t *teller) as(role v1alpha1.AssumeRole) *storyAccount {
	for _, a := range t.accounts {
		if a.Role == role {
			return a
		}
	}
	a := &storyAccount{Account: Account{Role: role, ListedAt: t.now}, fakes: map[string]*fakeGroup{}}
	a.restart()
	t.accounts, t.again = append(t.accounts, a), true
	return a
}

// restart forgets all but which groups there are.
func (a *storyAccount) restart() {
	a.calls, a.flights, a.sweeps = NewCalls(DefaultRate, DefaultBurst), nil, NewSweeps()
	for i := range a.Groups {
		a.Groups[i] = KnownGroup{Group: a.Groups[i].Group}
	}
}

// adds adds a group that may hold so many targets.
func (t *teller) adds(role v1alpha1.AssumeRole, group Group, quota int) *fakeGroup {
	g := &fakeGroup{Group: group, w: t.world, settle: DefaultSettleTime(group.Balancer), quota: quota, targets: map[Target]fakeTarget{}}
	g.note()
	t.groups = append(t.groups, g)
	a := t.as(role)
	a.Groups, a.fakes[group.ID] = append(a.Groups, KnownGroup{Group: group}), g
	return g
}

func (a *storyAccount) known(id string) *KnownGroup {
	return &a.Groups[slices.IndexFunc(a.Groups, func(k KnownGroup) bool { return k.ID == id })]
}

// observed is what a decision is made from.
func (a *storyAccount) observed() Account {
	out := a.Account
	out.Groups, out.LooksFor = slices.Clone(a.Groups), a.sweeps.Told()
	if a.Refused {
		out.Groups, out.ListedAt = nil, time.Time{}
	}
	for i := range out.Groups {
		g := &out.Groups[i]
		g.Answers, g.Refused = a.calls.Answers(g.ID), a.calls.Refused(g.ID)
		g.Failing, _ = a.calls.Failing(g.ID, Register)
		seen := a.sweeps.Seen(g.ID)
		g.SweptAt, g.Instances, g.Left = seen.At, seen.Instances, seen.Left
	}
	return out
}

// read takes the inventory of a group as it was when that was asked for.
func (a *storyAccount) read(g *fakeGroup, sent time.Time) {
	known := a.known(g.ID)
	known.Registered, known.ReadAt, known.Live = g.list(sent), sent, true
	if g.Type == Instance {
		a.sweeps.Done(g.ID, sent, known.Registered)
	}
}

// look looks through groups for nodes, and says whether it did.
func (a *storyAccount) look(wanted *Sweep, now time.Time) (looked bool) {
	var groups []Group
	for i := range a.Groups {
		groups = append(groups, a.Groups[i].Group)
	}
	a.sweeps.Plan(wanted, groups, now)
	for g, ready, _ := a.sweeps.Next(now); ready; g, ready, _ = a.sweeps.Next(now) {
		a.sweeps.Done(g.ID, now, a.fakes[g.ID].list(now))
		looked = true
	}
	return looked
}

// selecting is a TargetGroupAttachment of the story, by its name.
func (t *teller) selecting(name string) *GroupAttachment {
	return &t.state.Attachments[slices.IndexFunc(t.state.Attachments, func(a GroupAttachment) bool { return a.Object.Name == name })]
}

// starts adds a pod to what a TargetGroupAttachment selects.
func (t *teller) starts(attachment string, pod *corev1.Pod) {
	a := t.selecting(attachment)
	a.Pods = append(a.Pods, pod)
}

// deletes has a pod deleted that may take so long to end.
func (t *teller) deletes(attachment, pod string, grace time.Duration) {
	p := t.selecting(attachment).pod(pod)
	p.DeletionTimestamp, p.DeletionGracePeriodSeconds = &metav1.Time{Time: t.now.Add(grace)}, new(int64(grace.Seconds()))
}

// ends has a pod gone.
func (t *teller) ends(attachment, pod string) {
	a := t.selecting(attachment)
	a.Pods = slices.DeleteFunc(a.Pods, func(p *corev1.Pod) bool { return p.Name == pod })
}

// asks writes a node's Attachment, as detaching does.
func (t *teller) asks(name, instance string, wanted v1alpha1.AttachmentWanted) {
	for _, a := range t.state.NodeAttachments {
		if a.Name == name {
			a.Spec.Wanted, a.Generation = wanted, a.Generation+1
			return
		}
	}
	t.state.NodeAttachments = append(t.state.NodeAttachments, &v1alpha1.Attachment{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name), Generation: 1},
		Spec:       v1alpha1.AttachmentSpec{Instance: instance, Wanted: wanted},
	})
}

// forgets deletes a node's Attachment.
func (t *teller) forgets(name string) {
	t.state.NodeAttachments = slices.DeleteFunc(t.state.NodeAttachments, func(a *v1alpha1.Attachment) bool { return a.Name == name })
}
