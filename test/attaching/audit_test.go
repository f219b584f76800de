package attaching

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/targets"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// audit holds every write and every call against what must never happen. It judges by
// where traffic can go, whatever the product takes for true.
type audit struct {
	w *world
	// fault is the first one; what comes after it may come of it.
	fault  string
	passes int
	// writer is the leader whose write is under way, nil for others.
	writer *leader

	// since is since when a place is wanted in, or must stay, until when it last was; spoke when
	// somebody last spoke of it. They are brought up to date after each change.
	since, until, spoke map[place]time.Time
	dirty               time.Time
	// begun is who wrote last that a target is being taken out, and when.
	begun map[leavingTarget]beginning
	// asked is since when a node's Attachment asks for what it does.
	asked map[string]time.Time
	// returned is when a node's Attachment was last deleted, ported when a group attachment's port
	// last changed.
	returned, ported map[string]time.Time
	// starts and ends are when what serves at an address, or on a node, last began to, and
	// when it last ended.
	starts, ends map[string]time.Time
	// on is on which node each address and each machine is, or was.
	on map[string]string
	// said is when an Attachment last began to say that all is where it is to be.
	said map[string]time.Time
	// nameless are nodes that were without a providerID at some time, unnamed is when a Node
	// was last not there, or without one, and named when a machine last was a Node's that said
	// so, and is not, or was not for a while.
	nameless       map[string]bool
	unnamed, named map[string]time.Time
	// removed is when a Node was last taken away.
	removed map[string]time.Time
}

func newAudit(w *world) *audit {
	return &audit{
		w: w, since: map[place]time.Time{}, until: map[place]time.Time{}, spoke: map[place]time.Time{}, begun: map[leavingTarget]beginning{}, asked: map[string]time.Time{},
		returned: map[string]time.Time{}, ported: map[string]time.Time{},
		starts: map[string]time.Time{}, ends: map[string]time.Time{}, on: map[string]string{}, said: map[string]time.Time{}, nameless: map[string]bool{}, unnamed: map[string]time.Time{}, named: map[string]time.Time{}, removed: map[string]time.Time{},
	}
}

func (a *audit) failf(format string, args ...any) {
	if a.fault != "" {
		return
	}
	what := fmt.Sprintf(format, args...) + ", after " + a.w.history()
	a.w.say("FAULT: %s", what)
	a.fault = what + a.w.describe()
}

// refresh is called before anything is judged, and before the next change of what is stored or of what runs.
func (a *audit) refresh() {
	if a.dirty.IsZero() {
		return
	}
	at := a.dirty
	a.dirty = time.Time{}
	wanted := a.w.wanted()
	for p, s := range wanted {
		a.spoke[p] = at
		if !s.in && !s.stays {
			if !a.since[p].IsZero() {
				a.until[p] = at
			}
			delete(a.since, p)
		} else if a.since[p].IsZero() {
			a.since[p] = at
		}
	}
	for p := range a.since {
		if wanted[p] == nil {
			delete(a.since, p)
			a.until[p] = at
		}
	}
	for _, n := range a.w.nodes {
		a.on[n.instance] = n.name
		a.nameless[n.name] = a.nameless[n.name] || n.nameless
	}
	// One that has failed keeps its address, which another may have by now.
	for _, failed := range []bool{true, false} {
		for _, p := range a.w.pods {
			if p.address != "" && p.failed() == failed {
				a.on[p.address] = p.node
			}
		}
	}
}

// changed is each write, before it can be read.
func (a *audit) changed(before, after client.Object) {
	a.refresh()
	a.dirty = time.Now()
	a.names(before, after)
	if _, ok := newest(before, after).(*v1alpha1.TargetGroupAttachment); ok {
		a.ports(before, after)
	}
	if a.writer == nil {
		return
	}
	switch o := newest(before, after).(type) {
	case *v1alpha1.Attachment:
		a.attachment(typed[*v1alpha1.Attachment](before), typed[*v1alpha1.Attachment](after))
	case *v1alpha1.TargetGroupAttachment:
		a.groupAttachment(typed[*v1alpha1.TargetGroupAttachment](before), typed[*v1alpha1.TargetGroupAttachment](after))
	case *corev1.Node:
		if after != nil && before != nil {
			a.node(before.(*corev1.Node), after.(*corev1.Node))
		}
	case *corev1.Pod:
		if after != nil && before != nil {
			a.hook(o.Name, before, after)
		}
	}
}

// names is a change of a Node, by which it may say which machine it is, or not any more.
func (a *audit) names(before, after client.Object) {
	if _, node := newest(before, after).(*corev1.Node); !node {
		return
	}
	was, is := typed[*corev1.Node](before), typed[*corev1.Node](after)
	if is == nil {
		a.removed[was.Name] = time.Now()
	}
	if was == nil || was.Spec.ProviderID == "" {
		a.unnamed[newest(before, after).GetName()] = time.Now()
	} else if is == nil || is.Spec.ProviderID == "" {
		a.named[strings.TrimPrefix(was.Spec.ProviderID, "aws:///z/")] = time.Now()
	}
}

func newest(before, after client.Object) client.Object {
	if after != nil {
		return after
	}
	return before
}

func typed[T client.Object](o client.Object) (none T) {
	if o == nil {
		return none
	}
	return o.(T)
}

// facts are what may be the reason, by the world and not by the product.
func (a *audit) facts(at place) string {
	g, out := at.group, []string{"registered by " + registrar(at)}
	node := a.on[at.target.ID]
	if g.role.name != "" {
		out = append(out, "of another role")
	}
	switch l := a.writer; {
	case l == nil:
	case g.shown[l].IsZero():
		out = append(out, "never read by "+l.name)
	case g.shown[l].Before(a.asked[node]):
		out = append(out, "unread since it was asked for")
	}
	if a.spoke[at].IsZero() || a.w.wanted()[at] == nil {
		out = append(out, "nobody speaks of it any more")
	}
	speaking := a.w.recordedBy(at)
	if s := a.w.wanted()[at]; s != nil {
		speaking = append(speaking, s.by...)
	}
	slices.Sort(speaking)
	if speaking = slices.Compact(speaking); len(speaking) > 1 {
		out = append(out, "several speak of it")
	}
	if a.w.unreadableIn(g) {
		out = append(out, "a record cannot be read")
	}
	for _, c := range a.w.groupAttachments() {
		if speaksOf(c, g) && a.w.setIsGone(c) {
			out = append(out, "a set is not found")
		}
	}
	if a.w.scenario.skewed && a.w.leads > 1 {
		out = append(out, "leaders' clocks differ")
	}
	if a.writer != nil && !a.writer.lostAt.IsZero() {
		out = append(out, "written by one that has lost its lease")
	}
	if a.nameless[node] {
		out = append(out, "its Node was without a providerID")
	}
	return "[" + strings.Join(out, "; ") + "]"
}

func registrar(at place) string {
	if m := at.group.members[at.target]; m != nil {
		return m.by
	}
	return "nobody"
}

// groupAttachment is a write to a TargetGroupAttachment.
func (a *audit) groupAttachment(before, after *v1alpha1.TargetGroupAttachment) {
	switch {
	case before == nil:
	case after == nil:
		a.dropped("TargetGroupAttachment "+before.Name+", which is released,", before.Name, before.Status.Groups, nil)
		a.released(before)
	default:
		a.dropped("TargetGroupAttachment "+before.Name, before.Name, before.Status.Groups, after.Status.Groups)
		a.takesOver(after)
		a.begins(before, after)
	}
}

// takesOver is that what a group attachment has on record is its own from then on, whoever registered it.
func (a *audit) takesOver(c *v1alpha1.TargetGroupAttachment) {
	for _, g := range a.w.groups() {
		for t, m := range g.members {
			m.theirs = m.theirs && !recorded(c.Status.Groups, place{g, t})
		}
	}
}

// dropped is that what we registered stays on record until its traffic has stopped.
func (a *audit) dropped(whose, name string, before, after []v1alpha1.AttachedGroup) {
	for _, list := range before {
		for _, g := range a.w.groups() {
			if g.ID != list.ID {
				continue
			}
			for _, t := range g.all() {
				at, m := place{g, t}, g.members[t]
				if !slices.Contains(recordsOf(list), t.String()) || recorded(after, at) || m.by != us || m.theirs || !g.routes(t) || !a.lives(t) {
					continue
				}
				if len(a.others(at, name)) > 0 || name != "" && a.heldBy(at) {
					continue
				}
				if name == "" && g.holds(t) {
					// What an Attachment borrowed is put back, and theirs again: whether they took
					// it out themselves meanwhile nobody can tell from a put-back that was lost.
					continue
				}
				a.failf("%s forgets %s of %s, which can get new connections %s", whose, t, g.Name, a.facts(at))
			}
		}
	}
}

// others are the group attachments but one that have a place on record.
func (a *audit) others(at place, but string) []string {
	return slices.DeleteFunc(a.w.recordedBy(at), func(name string) bool { return name == but })
}

// lives reports whether anything is at a target that could lose a connection.
func (a *audit) lives(t targets.Target) bool {
	return a.w.machine(t) || slices.ContainsFunc(a.w.pods, func(p *pod) bool { return p.address == t.ID })
}

// failed reports whether the pod at a target has failed, and no other got its address: what stops its node
// takes nothing from it.
func (a *audit) failed(t targets.Target) (failed bool) {
	for _, p := range a.w.pods {
		if p.address == t.ID && !p.failed() {
			return false
		}
		failed = failed || p.address == t.ID
	}
	return failed
}

// heldBy reports whether an Attachment has a place on record.
func (a *audit) heldBy(at place) bool {
	return slices.ContainsFunc(a.w.attachments(), func(o *v1alpha1.Attachment) bool { return recorded(o.Status.Groups, at) })
}

// released is that nothing is left of a group attachment that is gone: what we registered in its groups
// must be somebody else's.
func (a *audit) released(c *v1alpha1.TargetGroupAttachment) {
	for _, g := range a.w.groups() {
		if !selects(c, g) {
			continue
		}
		for _, t := range g.all() {
			at, m := place{g, t}, g.members[t]
			s := a.w.wanted()[at]
			if m.by == us && !m.theirs && g.holds(t) && s == nil && len(a.others(at, c.Name)) == 0 && !a.heldBy(at) {
				a.failf("TargetGroupAttachment %s is released while %s is registered with %s %s", c.Name, t, g.Name, a.facts(at))
			}
		}
	}
}

// hook is what a pod with a drain hook is told.
func (a *audit) hook(name string, before, after client.Object) {
	if before.GetAnnotations()[v1alpha1.AnnotationTargets] != v1alpha1.TargetsIn || after.GetAnnotations()[v1alpha1.AnnotationTargets] == v1alpha1.TargetsIn {
		return
	}
	for _, p := range a.w.pods {
		if p.name != name || p.gone || p.failed() {
			// In one that has failed no hook runs.
			continue
		}
		for _, g := range a.w.groups() {
			for _, t := range g.all() {
				if g.routes(t) && a.leadsTo(g, t, p) {
					a.failf("the drain hook of pod %s is let go while %s can send new connections to %s %s", name, g.Name, t, a.facts(place{g, t}))
					return
				}
			}
		}
	}
}

// leadsTo reports whether new connections to a target come to a pod: to the last one that serves on, where
// others of its node share the target.
func (a *audit) leadsTo(g *group, t targets.Target, p *pod) bool {
	if g.Type == targets.IP {
		return t.ID == p.address && t.Port == p.port && (g.members[t].by == us)
	}
	if n := a.w.node(p.node); n == nil || n.instance != t.ID || !p.takes(t.Port) || g.members[t].by != us {
		return false
	}
	return !slices.ContainsFunc(a.w.pods, func(o *pod) bool {
		return o != p && o.node == p.node && o.takes(t.Port) && (!o.ends || o.held())
	})
}

// serves is a pod that begins to answer.
func (a *audit) serves(p *pod) {
	a.starts[p.address], a.starts[p.node] = time.Now(), time.Now()
}

// vanished is a pod that is gone, or has failed.
func (a *audit) vanished(p *pod) {
	a.ends[p.address], a.ends[p.node] = time.Now(), time.Now()
}
