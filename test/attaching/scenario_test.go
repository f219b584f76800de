package attaching

import (
	"fmt"
	"slices"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/targets"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"
)

// scenario is all that is drawn: how the world begins, how bad it is, and what happens in
// it. What else is left to chance hangs on the seed.
type scenario struct {
	seed               uint64
	nodes              int
	webPods, plainPods int
	groups             []groupSpec
	groupAttachments   []groupAttachmentSpec
	foreign            bool
	hooks, gates       bool
	webhook            bool
	minAttached        int
	rate               float64
	burst              int

	skewed, stale           bool
	crashes, freezes        float64
	lostWrites, lostAnswers float64
	lateCalls, lateWrites   float64
	happenings              []happening
}

// reuses reports whether pods get addresses that others had, in one of three draws. It hangs on the seed,
// so that what the others are stays the same.
func (s scenario) reuses() bool { return s.seed%3 == 1 }

// groupSpec is a target group at the beginning.
type groupSpec struct {
	role      string
	balancer  targets.Balancer
	kind      targets.TargetType
	delay     time.Duration
	crossZone bool
}

// groupAttachmentSpec is a TargetGroupAttachment.
type groupAttachmentSpec struct {
	name  string
	group int
	// sel is "nodes", "set" or "plain".
	sel    string
	named  bool
	byTags bool
	whole  bool
}

// happening is something that somebody does, or that breaks.
type happening struct {
	after time.Duration
	kind  string
	which int
}

// others are accounts beside our own.
var others = []string{"arn:aws:iam::000000000001:role/far", "arn:aws:iam::000000000002:role/farther"}

func rolesOf(arns []string) (out []v1alpha1.AssumeRole) {
	for _, arn := range arns {
		out = append(out, v1alpha1.AssumeRole{ARN: arn})
	}
	return out
}

// drawScenario draws one. Of the kinds of happenings each draw has a few, so that what one
// of them does is not always hidden behind what another one did.
func drawScenario(t *rapid.T) scenario {
	number := func(what string, low, high int) int { return rapid.IntRange(low, high).Draw(t, what) }
	oneIn := func(what string, n int) bool { return number(what, 1, n) == n }
	s := scenario{
		seed: rapid.Uint64().Draw(t, "seed"), nodes: number("nodes", 2, 5), webPods: number("web pods", 1, 2), plainPods: number("plain pods", 0, 1),
		foreign: oneIn("foreign", 2), hooks: oneIn("hooks", 2), gates: oneIn("gates", 3), webhook: oneIn("webhook", 3), minAttached: number("attached", 0, 1),
		rate: targets.DefaultRate, burst: targets.DefaultBurst, skewed: oneIn("skewed", 4), stale: oneIn("stale", 3),
		crashes: []float64{0, 0, 0.005, 0.03}[number("crashes", 0, 3)], freezes: []float64{0, 0, 0.002, 0.01}[number("freezes", 0, 3)],
		lostWrites: []float64{0, 0, 0.05}[number("lost writes", 0, 2)], lostAnswers: []float64{0, 0, 0.1}[number("lost answers", 0, 2)],
		lateCalls: []float64{0, 0.2}[number("late calls", 0, 1)],
	}
	roles := append([]string{""}, others[:number("other roles", 0, 2)]...)
	for _, role := range roles {
		for range number("groups", 1, 2) {
			g := groupSpec{role: role, balancer: targets.Network, kind: targets.Instance, crossZone: !oneIn("zones apart", 4)}
			g.delay = []time.Duration{0, 20 * time.Second, 60 * time.Second}[number("delay", 0, 2)]
			if oneIn("application", 2) {
				g.balancer = targets.Application
			}
			if oneIn("addresses", 2) {
				g.kind = targets.IP
			} else if oneIn("classic", 6) {
				g.balancer = targets.Classic
			}
			s.groups = append(s.groups, g)
		}
	}
	names := []string{"a", "m", "z"}
	for _, name := range rapid.Permutation(names).Draw(t, "names")[:number("claims", 1, 3)] {
		c := groupAttachmentSpec{name: name, group: number("group of "+name, 0, len(s.groups)-1), named: oneIn("by the port's name", 2), byTags: oneIn("by tags", 3), whole: oneIn("whole", 8)}
		c.sel = []string{"set", "plain"}[number("pods", 0, 1)]
		if g := s.groups[c.group]; g.kind == targets.Instance {
			c.sel = []string{"nodes", "nodes", "set"}[number("selected", 0, 2)]
			c.byTags = c.byTags || g.balancer == targets.Classic
			if g.balancer == targets.Classic {
				c.sel = "nodes"
			}
		}
		if c.sel == "plain" {
			s.plainPods = 1
		}
		s.groupAttachments = append(s.groupAttachments, c)
	}
	if oneIn("scarce calls", 3) {
		s.rate, s.burst = 0.5, 5
	}
	some := rapid.Permutation(happeningKinds()).Draw(t, "kinds")[:number("kinds", 1, 4)]
	// Nodes are detached in most: much hangs on that.
	if !oneIn("no detachment", 3) {
		some = append(some, "cordon", "uncordon")
	}
	for range number("happenings", 1, 8) {
		s.happenings = append(s.happenings, happening{
			after: time.Duration(number("seconds", 0, 9)*number("times", 0, 9)) * time.Second,
			kind:  rapid.SampledFrom(some).Draw(t, "happening"), which: number("which", 0, 1000),
		})
	}
	// Drawn last, so that all else of a draw stays as it was.
	s.lateWrites = []float64{0, 0, 0.02}[number("late writes", 0, 2)]
	return s
}

// build makes the beginning of the world.
func (w *world) build() {
	s := w.scenario
	w.roles = []*role{{name: ""}}
	for _, name := range others {
		w.roles = append(w.roles, &role{name: name})
	}
	for i, g := range s.groups {
		added := w.addGroup(w.role(g.role), targets.Group{
			ID: w.groupID(fmt.Sprintf("g%d", i), g.role), Name: fmt.Sprintf("g%d", i), Balancer: g.balancer, Type: g.kind, Port: nodePort, Tags: map[string]string{"group": fmt.Sprint(i)},
			InUse: true, ChecksTarget: true, Delay: g.delay, CrossZone: g.crossZone,
		})
		if g.balancer == targets.Classic {
			added.ID = added.Name
		}
	}
	set := &v1alpha1.IngressDaemonSet{}
	set.Namespace, set.Name = namespace, "web"
	set.Spec.Template.Spec = w.podSpec("web", w.template, s.hooks, true)
	if s.hooks {
		set.Spec.DrainHook = &v1alpha1.DrainHook{}
	}
	w.api.Put(set)
	w.record()
	for i := range s.nodes {
		n := &node{name: fmt.Sprintf("n%d", i+1), instance: fmt.Sprintf("i-%d", i+1), zone: []string{"z1", "z2"}[i%2], machines: 1}
		w.nodes = append(w.nodes, n)
		w.boot(n)
	}
	if w.servesByService() {
		w.makeService()
	}
	for _, c := range s.groupAttachments {
		w.addGroupAttachment(c)
	}
	if s.foreign {
		for _, g := range w.groups() {
			if g.Type == targets.IP {
				g.register(targets.Target{ID: "10.9.0.1", Port: 8080}, them)
			} else {
				for _, n := range w.nodes[:2] {
					g.register(targets.Target{ID: n.instance, Port: foreignPort}, them)
				}
			}
		}
	}
}

func (w *world) addGroupAttachment(c groupAttachmentSpec) {
	o := &v1alpha1.TargetGroupAttachment{}
	o.Namespace, o.Name = namespace, c.name
	g := w.groups()[c.group]
	spec := &o.Spec
	w.point(spec, g, c.byTags)
	spec.TargetType = string(g.Type)
	spec.Port = intstr.FromInt32(8080)
	if c.named {
		spec.Port = intstr.FromString("http")
	}
	switch c.sel {
	case "nodes":
		spec.NodeSelector, spec.Port = &metav1.LabelSelector{MatchLabels: map[string]string{"pool": "edge"}}, intstr.FromInt32(nodePort)
	case "set":
		spec.IngressDaemonSet = &v1alpha1.LocalReference{Name: "web"}
	default:
		spec.PodSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "plain"}}
	}
	if c.whole {
		spec.Ownership = v1alpha1.OwnGroup
	}
	w.ask(spec, g)
	must(w.user.Create(ctx, o))
}

// point has a group attachment's selector choose a group.
func (w *world) point(spec *v1alpha1.TargetGroupAttachmentSpec, g *group, byTags bool) {
	spec.TargetGroup = v1alpha1.TargetGroupSelector{Name: g.Name}
	if byTags || g.Balancer == targets.Classic {
		spec.TargetGroup = v1alpha1.TargetGroupSelector{Tags: g.Tags}
	}
	spec.AssumeRole = nil
	if g.role.name != "" {
		spec.AssumeRole = &v1alpha1.AssumeRole{ARN: g.role.name}
	}
}

func roleOf(c *v1alpha1.TargetGroupAttachment) string {
	if c.Spec.AssumeRole == nil {
		return ""
	}
	return c.Spec.AssumeRole.ARN
}

// selects reports whether a group attachment is on a group.
func selects(c *v1alpha1.TargetGroupAttachment, g *group) bool {
	if roleOf(c) != g.role.name || c.Spec.TargetType != string(g.Type) {
		return false
	}
	s := c.Spec.TargetGroup
	if s.Name != "" {
		return s.Name == g.Name
	}
	for key, value := range s.Tags {
		if g.Tags[key] != value {
			return false
		}
	}
	return true
}

// speaksOf reports whether a group attachment has a part in a group: it is on it, or has records there.
func speaksOf(c *v1alpha1.TargetGroupAttachment, g *group) bool {
	return selects(c, g) || slices.ContainsFunc(c.Status.Groups, func(o v1alpha1.AttachedGroup) bool { return o.ID == g.ID })
}
