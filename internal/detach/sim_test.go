package detach

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"
)

// The simulation plays Plan against a fake of the cloud and of the API server.
// The fake controller may die between any two effects; all it then knows is what
// stands on the Nodes and in the Attachments.

const (
	stopsAfter = 40 * time.Second
	healsAfter = 20 * time.Second
	passEvery  = 5 * time.Second

	controlPlane = "node-role.kubernetes.io/control-plane"
)

// target is one of the node's, as the cloud has it.
type target struct {
	registered bool
	// since is when it was last registered or deregistered.
	since time.Time
}

type simNode struct {
	Node
	// targets are what the cloud has of the node's instance, by group.
	targets map[string]*target
	// remembered are those that the targets' controller has taken out.
	remembered map[string]bool
}

type sim struct {
	t     *rapid.T
	now   time.Time
	min   intstr.IntOrString
	nodes []*simNode
	story []string
}

func (s *sim) tell(format string, args ...any) {
	s.story = append(s.story, s.now.Format("15:04:05 ")+fmt.Sprintf(format, args...))
}

func (s *sim) fail(format string, args ...any) {
	for _, line := range s.story {
		s.t.Log(line)
	}
	s.t.Fatalf(format, args...)
}

func newSim(t *rapid.T) *sim {
	s := &sim{t: t, now: time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC), min: intstr.FromInt(rapid.IntRange(0, 2).Draw(t, "min"))}
	if rapid.Bool().Draw(t, "min in percent") {
		s.min = intstr.FromString(fmt.Sprintf("%d%%", 25*s.min.IntValue()))
	}
	for i := range rapid.IntRange(1, 4).Draw(t, "nodes") {
		n := &simNode{targets: map[string]*target{}, remembered: map[string]bool{}}
		n.Name, n.Exists, n.Ready = fmt.Sprintf("node-%d", i), true, true
		n.Instance = fmt.Sprintf("i-%d", i)
		n.Labels, n.Annotations = map[string]string{}, map[string]string{}
		for g := range rapid.IntRange(0, 3).Draw(t, "groups") {
			s.register(n, fmt.Sprintf("group-%d", g))
		}
		s.nodes = append(s.nodes, n)
	}
	return s
}

func (s *sim) register(n *simNode, group string) {
	n.targets[group] = &target{registered: true, since: s.now.Add(-time.Hour)}
}

// observe is what the controller would read.
func (s *sim) observe() State {
	out := State{Now: s.now, Reasons: AllReasons, MinAttached: s.min}
	for _, n := range s.nodes {
		view := n.Node
		view.Labels, view.Annotations = maps.Clone(n.Labels), maps.Clone(n.Annotations)
		if n.Attachment != nil {
			view.Attachment = new(*n.Attachment)
		}
		out.Nodes = append(out.Nodes, view)
	}
	return out
}

// moveTargets is what the controller of targets does meanwhile: it reads the
// Attachment, remembers and takes out, or puts back, and answers how far it is.
func (s *sim) moveTargets() {
	for _, n := range s.nodes {
		a := n.Attachment
		if a == nil || a.Instance != n.Instance || rapid.IntRange(0, 2).Draw(s.t, "slow") == 0 {
			continue
		}
		a.Remembered, a.Done, a.Waits, a.Evidence = true, true, "", "FloorPassed"
		for group, t := range n.targets {
			switch {
			case a.Detach && t.registered:
				n.remembered[group] = true
				t.registered, t.since = false, s.now
			case !a.Detach && !t.registered && n.remembered[group]:
				if n.Annotations[v1alpha1.AnnotationDetachmentTimestamp] != "" {
					s.fail("%s returns to %s while it is said to be out", n.Name, group)
				}
				t.registered, t.since = true, s.now
			}
			if age := s.now.Sub(t.since); a.Detach && age < stopsAfter || !a.Detach && age < healsAfter {
				a.Done, a.Waits = false, "time passes"
			}
		}
	}
}

// pass is one pass of the controller, which may die between two effects.
func (s *sim) pass(dies bool) {
	var effects []func()
	for _, d := range Plan(s.observe()).Nodes {
		effects = append(effects, s.effects(d)...)
	}
	for _, effect := range effects {
		if dies && rapid.IntRange(0, 4).Draw(s.t, "dies") == 0 {
			s.tell("the controller dies")
			return
		}
		effect()
	}
}

func (s *sim) effects(d NodeDecision) (out []func()) {
	n := s.nodes[slices.IndexFunc(s.nodes, func(n *simNode) bool { return n.Name == d.Name })]
	do := func(what string, f func()) {
		out = append(out, func() { s.tell("%s: %s (%s, %s)", d.Name, what, d.Phase, d.Reason); f() })
	}
	if d.Patch != nil {
		do("patch", func() { s.patch(n, d.Patch) })
	}
	if d.Attachment == WriteDetach || d.Attachment == WriteAttach {
		do("ask to "+string(d.Attachment), func() { s.write(n, d.Attachment == WriteDetach) })
	}
	if d.Attachment == Delete {
		do("delete Attachment", func() {
			n.Attachment = nil
			clear(n.remembered)
		})
	}
	return out
}

func (s *sim) write(n *simNode, detach bool) {
	if _, of := n.Labels[controlPlane]; of && detach {
		s.fail("%s is of the control plane, and is taken out", n.Name)
	}
	if n.Attachment != nil {
		*n.Attachment = Attachment{Instance: n.Instance, Detach: detach, Waits: "nobody has answered yet"}
		return
	}
	left, all := 0, 0
	for _, other := range s.nodes {
		if other != n && other.Exists && other.Ready && other.Attachment == nil {
			left++
		}
		if _, of := other.Labels[controlPlane]; other.Exists && !of {
			all++
		}
	}
	least := s.min.IntValue()
	if s.min.Type == intstr.String {
		least = (least*all + 99) / 100
	}
	if n.Ready && left < least {
		s.fail("%s is taken out, which leaves %d of %d attached, at least %s must be", n.Name, left, all, s.min.String())
	}
	n.Attachment = &Attachment{Instance: n.Instance, Detach: detach, Waits: "nobody has answered yet"}
}

func (s *sim) patch(n *simNode, p *Patch) {
	apply := func(to map[string]string, changes map[string]*string) {
		for key, value := range changes {
			if value == nil {
				delete(to, key)
			} else {
				to[key] = *value
			}
		}
	}
	_, before := n.Annotations[v1alpha1.AnnotationDetachmentTimestamp]
	apply(n.Annotations, p.Annotations)
	if _, after := n.Annotations[v1alpha1.AnnotationDetachmentTimestamp]; after && !before {
		for group, t := range n.targets {
			if t.registered || s.now.Sub(t.since) < stopsAfter {
				s.fail("%s is said to be detached while traffic from %s may reach it", n.Name, group)
			}
		}
	}
	if _, excludes := p.Labels[v1alpha1.LabelExclude]; excludes && n.Labels[v1alpha1.LabelExclude] == "" && !n.Attachment.Remembered {
		s.fail("%s is excluded before it is remembered what it is attached to", n.Name)
	}
	foreign := n.Labels[v1alpha1.LabelExclude] == "somebody"
	apply(n.Labels, p.Labels)
	if foreign && n.Labels[v1alpha1.LabelExclude] != "somebody" {
		s.fail("the label that somebody set on %s was changed", n.Name)
	}
	if p.Taint != nil {
		n.Taints = slices.DeleteFunc(n.Taints, isOurs)
		if *p.Taint {
			n.Taints = append(n.Taints, corev1.Taint{Key: v1alpha1.TaintDetaching, Effect: corev1.TaintEffectNoSchedule})
		}
	}
	if p.Detaching != nil {
		n.Detaching = *p.Detaching
	}
}

// happen is something that others do.
func (s *sim) happen() {
	n := rapid.SampledFrom(s.nodes).Draw(s.t, "node")
	switch rapid.SampledFrom([]string{"ask", "release", "cordon", "uncordon", "taint", "untaint", "exclude", "include", "register", "restart", "replace", "delete", "unready", "ready", "promote", "demote"}).Draw(s.t, "what") {
	case "ask":
		n.Annotations[v1alpha1.AnnotationNodeDetached] = ""
	case "release":
		delete(n.Annotations, v1alpha1.AnnotationNodeDetached)
	case "cordon":
		n.Cordoned = true
	case "uncordon":
		n.Cordoned = false
	case "taint":
		n.Taints = append(n.Taints, corev1.Taint{Key: karpenterTaint})
	case "untaint":
		n.Taints = slices.DeleteFunc(n.Taints, func(t corev1.Taint) bool { return t.Key == karpenterTaint })
	case "exclude":
		n.Labels[v1alpha1.LabelExclude] = "somebody"
	case "include":
		if n.Labels[v1alpha1.LabelExclude] == "somebody" {
			delete(n.Labels, v1alpha1.LabelExclude)
		}
	case "register":
		s.register(n, "late")
		if n.Attachment != nil {
			n.Attachment.Done, n.Attachment.Waits = false, "somebody has registered it"
		}
	case "restart":
		n.Exists, n.GoneSince = !n.Exists, s.now
	case "replace":
		// The old machine and what it was registered for are gone.
		n.Instance += "'"
		clear(n.targets)
		n.Exists = true
		if rapid.Bool().Draw(s.t, "new Node") {
			clear(n.Annotations)
			clear(n.Labels)
			n.Taints, n.Cordoned, n.Detaching = nil, false, false
		}
	case "delete":
		// Somebody who thinks that the controller hangs.
		if a := n.Attachment; a != nil && !a.Detach && !s.missing(n) {
			n.Attachment = nil
			clear(n.remembered)
		}
	case "promote":
		n.Labels[controlPlane] = ""
	case "demote":
		delete(n.Labels, controlPlane)
	case "unready":
		n.Ready = false
	case "ready":
		n.Ready = true
	}
}

// missing reports whether a target of the node is out.
func (s *sim) missing(n *simNode) bool {
	for _, t := range n.targets {
		if !t.registered {
			return true
		}
	}
	return false
}

// marked fails where a node is out and does not say so.
func (s *sim) marked() {
	for _, n := range s.nodes {
		if n.Exists && s.missing(n) && (n.Annotations[v1alpha1.AnnotationNodeDetaching] != "true" || !n.Detaching) {
			s.fail("%s is out and carries no mark", n.Name)
		}
	}
}

// calm ends all that others do, but for nodes of the control plane, which stay so.
func (s *sim) calm() {
	for _, n := range s.nodes {
		n.Exists, n.Ready, n.Cordoned = true, true, false
		delete(n.Annotations, v1alpha1.AnnotationNodeDetached)
		if n.Labels[v1alpha1.LabelExclude] == "somebody" {
			delete(n.Labels, v1alpha1.LabelExclude)
		}
		n.Taints = slices.DeleteFunc(n.Taints, func(t corev1.Taint) bool { return t.Key == karpenterTaint })
	}
}

// TestNothingIsLeftDetached draws reasons that come and go, nodes that restart or
// come back on other machines, and a controller that dies between any two effects.
func TestNothingIsLeftDetached(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := newSim(t)
		for range rapid.IntRange(1, 40).Draw(t, "passes") {
			for rapid.IntRange(0, 2).Draw(t, "happens") == 0 {
				s.happen()
			}
			s.pass(true)
			s.marked()
			s.moveTargets()
			s.now = s.now.Add(passEvery)
		}
		s.calm()
		for range 90 {
			s.pass(false)
			s.marked()
			s.moveTargets()
			s.now = s.now.Add(passEvery)
		}
		for _, n := range s.nodes {
			s.attached(n)
		}
	})
}

// attached fails where anything of a detachment is left.
func (s *sim) attached(n *simNode) {
	delete(n.Labels, controlPlane)
	for group, t := range n.targets {
		if !t.registered {
			s.fail("%s is not back in %s", n.Name, group)
		}
	}
	switch {
	case n.Attachment != nil:
		s.fail("%s still has an Attachment", n.Name)
	case n.Annotations[v1alpha1.AnnotationDetachmentTimestamp] != "", n.Annotations[v1alpha1.AnnotationNodeDetaching] == "true",
		n.Annotations[v1alpha1.AnnotationDetachmentEvidence] != "", n.Detaching:
		s.fail("%s still has marks: %v", n.Name, n.Annotations)
	case len(n.Labels) > 0, len(n.Taints) > 0:
		s.fail("%s still has %v %v", n.Name, n.Labels, n.Taints)
	}
}
