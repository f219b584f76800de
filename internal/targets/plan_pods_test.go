package targets

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// hookedPod is one with a drain hook.
func hookedPod(name, address string, ends bool) *corev1.Pod {
	p := podOf(name, address)
	p.Spec.Containers = []corev1.Container{{
		Ports:     []corev1.ContainerPort{{ContainerPort: 80}},
		Lifecycle: &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{HTTPGet: &corev1.HTTPGetAction{Path: v1alpha1.DrainPath}}},
	}}
	if ends {
		p.DeletionTimestamp = &metav1.Time{Time: noon}
	}
	return p
}

// hooks are what is written on pods, by name.
func (r result) hooks() map[string]bool {
	out := map[string]bool{}
	for _, h := range r.Hooks {
		out[h.Pod.Name] = h.In
	}
	return out
}

// gates are what is written on pods, by name.
func (r result) gates() map[string]string {
	out := map[string]string{}
	for _, g := range r.Gates {
		out[g.Pod.Name] = string(g.Condition.Status) + " " + g.Condition.Reason
	}
	return out
}

// TestHooksLearnWhetherTrafficComes goes by each pod's target: one that others of the
// node keep in does not hold a pod that ends. Each pod was told the reverse before.
func TestHooksLearnWhetherTrafficComes(t *testing.T) {
	for name, c := range map[string]struct {
		pods       []*corev1.Pod
		registered []string
		deleted    bool
		want       []bool
	}{
		"a pod that has an address":            {[]*corev1.Pod{hookedPod("a", "10.0.0.1", false)}, nil, false, []bool{true}},
		"a pod that ends":                      {[]*corev1.Pod{hookedPod("a", "10.0.0.1", true)}, []string{"10.0.0.1", "10.0.0.2"}, false, []bool{true}},
		"a pod that ended out of the group":    {[]*corev1.Pod{hookedPod("a", "10.0.0.1", true)}, []string{"10.0.0.2"}, false, []bool{false}},
		"two pods share an address, one ends":  {[]*corev1.Pod{hookedPod("a", "10.0.0.1", true), hookedPod("b", "10.0.0.1", false)}, []string{"10.0.0.1"}, false, []bool{false, true}},
		"two pods share an address, both end":  {[]*corev1.Pod{hookedPod("a", "10.0.0.1", true), hookedPod("b", "10.0.0.1", true)}, []string{"10.0.0.1"}, false, []bool{true, true}},
		"the TargetGroupAttachment is deleted": {[]*corev1.Pod{hookedPod("a", "10.0.0.1", false)}, []string{"10.0.0.1"}, true, []bool{true}},
		"it is deleted, and nothing is left":   {[]*corev1.Pod{hookedPod("a", "10.0.0.1", false)}, nil, true, []bool{false}},
	} {
		for _, told := range []bool{false, true} {
			s := fleetOf(webGroup(IP), at80(c.registered...))
			var owned []string
			for _, id := range c.registered {
				owned = append(owned, id+":80")
			}
			a := s.attachment("web", onPods(IP), in80(owned...))
			if c.deleted {
				a.Object.DeletionTimestamp = &metav1.Time{Time: noon}
			}
			want := map[string]bool{}
			for i, p := range c.pods {
				p := p.DeepCopy()
				if told {
					p.Annotations = map[string]string{v1alpha1.AnnotationTargets: v1alpha1.TargetsIn}
				}
				if c.want[i] != told {
					want[p.Name] = c.want[i]
				}
				a.Pods = append(a.Pods, p)
			}
			if diff := cmp.Diff(want, plan(t, s).hooks()); diff != "" {
				t.Errorf("%s, told %t: %s", name, told, diff)
			}
		}
	}
	plain := hookedPod("a", "10.0.0.1", false)
	plain.Spec.Containers[0].Lifecycle.PreStop.HTTPGet.Path = "/stop"
	s := fleetOf(webGroup(IP), nil)
	s.attachment("web", onPods(IP)).Pods = []*corev1.Pod{plain}
	if got := plan(t, s).hooks(); len(got) > 0 {
		t.Error("a pod with a hook of its own is told")
	}
}

// TestAPodIsToldWhenItsAttachmentIsBound, and not before: what may go at any moment lets nobody go.
func TestAPodIsToldWhenItsAttachmentIsBound(t *testing.T) {
	for _, bound := range []bool{true, false} {
		s := fleetOf(webGroup(IP), at80("10.0.0.2"))
		a := s.attachment("web", onPods(IP))
		a.Pods = []*corev1.Pod{hookedPod("a", "10.0.0.1", false)}
		if !bound {
			a.Object.Finalizers = nil
		}
		if d := plan(t, s); d.hooks()["a"] != bound || d.of("web").AddFinalizer == bound {
			t.Errorf("bound %t: %v", bound, d.hooks())
		}
	}
}

// TestAHookIsKeptByATargetThatOnlyStays holds a pod that ends while its target is left in for
// another pod of the node, of which nobody knows that it serves there.
func TestAHookIsKeptByATargetThatOnlyStays(t *testing.T) {
	s := fleetOf(webGroup(Instance), at80("i-a", "i-b"))
	a := s.attachment("web", onPods(Instance), in80("i-a:80"))
	old, replacement := hookedPod("a", "", true), hookedPod("b", "", false)
	replacement.Spec.NodeName = "node-a"
	for pod, port := range map[*corev1.Pod]int32{old: 80, replacement: 81} {
		pod.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: port, HostPort: port}}
		pod.Annotations = map[string]string{v1alpha1.AnnotationTargets: v1alpha1.TargetsIn}
	}
	a.Pods = []*corev1.Pod{old, replacement}
	if d := plan(t, s); d.calls() != "" || len(d.hooks()) > 0 {
		t.Errorf("%s, hooks %v", d.calls(), d.hooks())
	}
}

// TestAHookIsKeptWhileAnotherPortLeaves holds a pod while what was registered of it leaves at
// the port that was asked for before.
func TestAHookIsKeptWhileAnotherPortLeaves(t *testing.T) {
	s := fleetOf(webGroup(IP), at80("10.0.0.1", "10.0.0.2"))
	spec := onPods(IP)
	spec.Port = intstrOf(81)
	a := s.attachment("web", spec, leaving80(time.Time{}, "10.0.0.1:80"))
	pod := hookedPod("a", "10.0.0.1", true)
	pod.Annotations = map[string]string{v1alpha1.AnnotationTargets: v1alpha1.TargetsIn}
	a.Pods = []*corev1.Pod{pod}
	for _, deleted := range []*metav1.Time{nil, {Time: noon}} {
		if a.Object.DeletionTimestamp = deleted; len(plan(t, s).hooks()) > 0 {
			t.Errorf("it leaves, its TargetGroupAttachment is deleted %t: %v", deleted != nil, plan(t, s).hooks())
		}
	}
	// What another has on record there is no pod's of this one.
	a.Object.DeletionTimestamp, a.Object.Status.Groups = nil, nil
	another := s
	another.Attachments = slices.Clone(s.Attachments)
	another.attachment("another", onPods(IP), leaving80(time.Time{}, "10.0.0.1:80"))
	if d := plan(t, another); len(d.hooks()) != 1 {
		t.Errorf("another's leaves: %v", d.hooks())
	}
	delete(s.group().Registered, Target{"10.0.0.1", 80})
	if d := plan(t, s); len(d.hooks()) != 1 {
		t.Errorf("it has left: %v", d.hooks())
	}
}

// TestAHookIsKeptByANodeThatIsNotNamed holds a pod that is out of another group while its node may be
// registered as an instance that nobody knows.
func TestAHookIsKeptByANodeThatIsNotNamed(t *testing.T) {
	for _, unnamed := range []bool{true, false} {
		s := fleetOf(webGroup(Instance), at80("i-a", "i-b"))
		if !unnamed {
			s.group().Registered = at80("i-b")
		} else {
			s.Nodes[0].Spec.ProviderID = ""
		}
		two := webGroup(IP)
		two.ID, two.Name = "arn:two", "two"
		s.Accounts[0].Groups = append(s.Accounts[0].Groups, KnownGroup{Group: two, ReadAt: asOf, Live: true, Registered: map[Target]Health{}})
		pod := hookedPod("a", "10.0.0.1", true)
		pod.Spec.HostNetwork = true
		pod.Annotations = map[string]string{v1alpha1.AnnotationTargets: v1alpha1.TargetsIn}
		s.attachment("web", onPods(Instance), in80("i-b:80")).Pods = []*corev1.Pod{pod}
		other := onPods(IP)
		other.TargetGroup.Name = "two"
		s.attachment("other", other).Pods = []*corev1.Pod{pod}
		if d := plan(t, s); len(d.hooks()) == 0 != unnamed {
			t.Errorf("not named %t: %v", unnamed, d.hooks())
		}
	}
}

// TestAHookIsKeptByATargetOfASetThatIsNotThere holds a pod that is out of another group while what
// is on record of it is not, whether it ends or its node leaves; and lets go of it before the
// TargetGroupAttachment goes that has it on record.
func TestAHookIsKeptByATargetOfASetThatIsNotThere(t *testing.T) {
	two := webGroup(IP)
	two.ID, two.Name = "arn:two", "two"
	for name, c := range map[string]struct {
		ends       bool
		registered map[Target]Health
		record     v1alpha1.AttachedGroup
		holds      bool
	}{
		"it ends":               {true, at80("10.0.0.1", "10.0.0.2"), in80("10.0.0.1:80"), true},
		"its node leaves":       {false, at80("10.0.0.1", "10.0.0.2"), in80("10.0.0.1:80"), true},
		"it ends, and is out":   {true, at80("10.0.0.2"), leaving80(noon.Add(-time.Hour), "10.0.0.1:80"), false},
		"it ends, of no record": {true, at80("10.0.0.1"), in80(), false},
	} {
		s := fleetOf(webGroup(IP), c.registered)
		s.Accounts[0].Groups = append(s.Accounts[0].Groups, KnownGroup{Group: two, ReadAt: asOf, Live: true, Registered: map[Target]Health{}})
		s.Memory.Groups[GroupKey{ID: "arn:web"}] = GroupMemory{Sightings: map[Target]Sighting{{"10.0.0.1", 80}: {LeftAt: noon.Add(-time.Hour), Left: noon.Add(-time.Hour)}}}
		pod := hookedPod("a", "10.0.0.1", c.ends)
		pod.Annotations = map[string]string{v1alpha1.AnnotationTargets: v1alpha1.TargetsIn}
		spec := onPods(IP)
		spec.PodSelector, spec.IngressDaemonSet = nil, &v1alpha1.LocalReference{Name: "mistyped"}
		lost := s.attachment("lost", spec, c.record)
		lost.Neighbours = []*corev1.Pod{pod}
		other := onPods(IP)
		other.TargetGroup.Name = "two"
		s.attachment("other", other).Pods = []*corev1.Pod{pod}
		if !c.ends {
			s.detachment("node-a", "i-a", v1alpha1.WantDetached)
		}
		if d := plan(t, s); len(d.hooks()) > 0 == c.holds || d.hooks()["a"] {
			t.Errorf("%s: %v, %+v", name, d.hooks(), d.of("lost").Status.Groups)
		}
		s.Attachments = s.Attachments[:1]
		s.Attachments[0].Object.DeletionTimestamp = &metav1.Time{Time: noon}
		if d := plan(t, s); c.record.Leaving != nil && (d.of("lost").Release || len(d.hooks()) != 1) {
			t.Errorf("%s, deleted: %v, released %t", name, d.hooks(), d.of("lost").Release)
		}
	}
}

// TestHooksAreKeptWhileAGroupIsNotKnown lets go of no pod by the groups of one role while
// those of another are unread.
func TestHooksAreKeptWhileAGroupIsNotKnown(t *testing.T) {
	pod := hookedPod("a", "10.0.0.1", true)
	pod.Annotations = map[string]string{v1alpha1.AnnotationTargets: v1alpha1.TargetsIn}
	s := fleetOf(webGroup(IP), at80("10.0.0.2"))
	s.attachment("web", onPods(IP)).Pods = []*corev1.Pod{pod}
	other := onPods(IP)
	other.AssumeRole, other.TargetGroup.Name = &roleA, "other"
	s.attachment("other", other).Pods = []*corev1.Pod{pod}
	if got := plan(t, s).hooks(); len(got) > 0 {
		t.Errorf("%v", got)
	}
	s.Accounts = append(s.Accounts, Account{Role: roleA, ListedAt: asOf})
	if diff := cmp.Diff(map[string]bool{"a": false}, plan(t, s).hooks()); diff != "" {
		t.Error(diff)
	}
}

// TestAHookIsLetGoByATargetThatIsNotRegistered where that would only stay, since its set is not
// found; one that is registered, or to be put back, holds its pod.
func TestAHookIsLetGoByATargetThatIsNotRegistered(t *testing.T) {
	for name, c := range map[string]struct {
		registered map[Target]Health
		record     v1alpha1.AttachedGroup
		seen       time.Duration
		letsGo     bool
	}{
		"registered":       {at80("10.0.0.1", "10.0.0.2"), in80("10.0.0.1:80"), 0, false},
		"not registered":   {at80("10.0.0.2"), in80(), 0, true},
		"to be put back":   {at80("10.0.0.2"), leaving80(noon.Add(-time.Minute), "10.0.0.1:80"), 0, false},
		"on its way":       {at80("10.0.0.2"), in80("10.0.0.1:80"), 0, false},
		"taken by another": {at80("10.0.0.2"), in80("10.0.0.1:80"), time.Minute, true},
	} {
		s := fleetOf(webGroup(IP), c.registered)
		s.Memory.Groups[GroupKey{ID: "arn:web"}] = GroupMemory{Sightings: map[Target]Sighting{{"10.0.0.1", 80}: {Left: asOf.Add(-c.seen)}}}
		spec := onPods(IP)
		spec.PodSelector, spec.IngressDaemonSet = nil, &v1alpha1.LocalReference{Name: "web"}
		a := s.attachment("web", spec, c.record)
		a.Pods = []*corev1.Pod{hookedPod("a", "10.0.0.1", false)}
		a.Pods[0].Annotations = map[string]string{v1alpha1.AnnotationTargets: v1alpha1.TargetsIn}
		if d := plan(t, s); len(d.hooks()) > 0 != c.letsGo || d.hooks()["a"] {
			t.Errorf("%s: %v, %s", name, d.hooks(), d.calls())
		}
	}
}

// TestNoHookIsForgotten lets go of a pod of which nothing is left in any group, as often as that
// is needed, and of the finalizer only after that; and holds one of which something may be left.
func TestNoHookIsForgotten(t *testing.T) {
	record, v6 := leaving80(noon.Add(-time.Second), "10.0.0.1:80"), leaving80(time.Time{}, "10.0.0.2:80")
	for name, c := range map[string]struct {
		change func(*State, *GroupAttachment)
		told   bool
	}{
		"its groups are others":      {func(*State, *GroupAttachment) {}, true},
		"its Service is missing":     {func(_ *State, a *GroupAttachment) { a.Unknown = "there is no Service web" }, false},
		"it has no address":          {func(_ *State, a *GroupAttachment) { a.Pods[0].Status = corev1.PodStatus{} }, false},
		"its Node is not there":      {func(s *State, _ *GroupAttachment) { s.Nodes = s.Nodes[1:] }, false},
		"its groups are unread":      {func(s *State, _ *GroupAttachment) { s.Accounts[0].ListedAt = time.Time{} }, false},
		"a record of it leaves":      {func(s *State, _ *GroupAttachment) { s.attachment("old", onPods(IP), record) }, false},
		"a record of another leaves": {func(s *State, _ *GroupAttachment) { s.attachment("old", onPods(IP), v6) }, true},
		"a record was made as another": {func(_ *State, a *GroupAttachment) {
			a.Object.Status.Groups = []v1alpha1.AttachedGroup{{ID: "arn:far", AssumeRole: &roleA, Targets: []string{"10.0.0.1:80"}}}
		}, false},
		"a record of it cannot be read": {func(_ *State, a *GroupAttachment) { a.Object.Status.Groups = []v1alpha1.AttachedGroup{in80("?")} }, false},
	} {
		s := fleetOf(webGroup(IP), at80("10.0.0.3"))
		pod := hookedPod("a", "10.0.0.1", false)
		pod.Annotations = map[string]string{v1alpha1.AnnotationTargets: v1alpha1.TargetsIn}
		spec := onPods(IP)
		spec.TargetGroup.Name = "gone"
		a := s.attachment("web", spec)
		a.Pods = []*corev1.Pod{pod}
		c.change(&s, a)
		if in, told := plan(t, s).hooks()["a"]; told != c.told || in {
			t.Errorf("%s: told %t, in %t", name, told, in)
		}
	}
	s := fleetOf(webGroup(IP), at80("10.0.0.2"))
	a := s.attachment("web", onPods(IP))
	a.Object.DeletionTimestamp, a.Pods = &metav1.Time{Time: noon}, []*corev1.Pod{hookedPod("a", "10.0.0.1", false)}
	for _, told := range []bool{true, false} {
		a.Pods[0].Annotations = map[string]string{v1alpha1.AnnotationTargets: map[bool]string{true: v1alpha1.TargetsIn, false: v1alpha1.TargetsOut}[told]}
		if d := plan(t, s); d.of("web").Release == told || len(d.Hooks) > 0 != told {
			t.Errorf("told %t: released %t, hooks %v", told, d.of("web").Release, d.hooks())
		}
	}
}

const webGate = "target-health.ingressdaemonsets.mumoshu.github.io/web"

// gated selects the addresses of pods that wait for it, each named after what becomes of
// its target.
func (s *State) gated(addresses map[string]string) *GroupAttachment {
	a := s.attachment("web", onPods(IP))
	for name, address := range addresses {
		p := podOf(name, address)
		p.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: "other"}, {ConditionType: webGate}}
		a.Pods = append(a.Pods, p)
	}
	slices.SortFunc(a.Pods, func(a, b *corev1.Pod) int { return slices.Compare([]string{a.Name}, []string{b.Name}) })
	return a
}

func (a *GroupAttachment) pod(name string) *corev1.Pod {
	return a.Pods[slices.IndexFunc(a.Pods, func(p *corev1.Pod) bool { return p.Name == name })]
}

func TestGates(t *testing.T) {
	addresses := map[string]string{"well": "10.0.0.1", "sick": "10.0.0.2", "new": "10.0.0.3", "bare": "", "v6": "fd00::1", "ends": "10.0.0.4", "free": "10.0.0.5"}
	everywhere := func(what string) map[string]string {
		return map[string]string{"well": what, "sick": what, "new": what, "bare": what, "v6": what}
	}
	for name, c := range map[string]struct {
		change func(*State, *GroupAttachment)
		want   map[string]string
	}{
		"each as its target is": {func(*State, *GroupAttachment) {}, map[string]string{
			"well": "True TargetsHealthy", "sick": "False TargetUnhealthy", "new": "False Registering", "bare": "False TargetUnknown", "v6": "False TargetRefused",
		}},
		"the group was never read": {func(s *State, _ *GroupAttachment) { s.group().Registered, s.group().ReadAt = nil, time.Time{} },
			map[string]string{"well": "False TargetUnknown", "sick": "False TargetUnknown", "new": "False TargetUnknown", "bare": "False TargetUnknown", "v6": "False TargetRefused"}},
		"the record cannot be read": {func(_ *State, a *GroupAttachment) {
			a.Object.Status.Groups = []v1alpha1.AttachedGroup{in80("so it is")}
		}, everywhere("False TargetUnknown")},
		"another group":               {func(_ *State, a *GroupAttachment) { a.Object.Spec.TargetGroup.Name = "other" }, everywhere("False TargetUnknown")},
		"somebody else has the group": {func(s *State, _ *GroupAttachment) { s.Bindings.All = []Binding{{Name: "ns/web", ARN: "arn:web"}} }, everywhere("True NotChecked")},
		"it is deleted":               {func(_ *State, a *GroupAttachment) { a.Object.DeletionTimestamp = &metav1.Time{Time: noon} }, everywhere("True AttachmentDeleted")},
		"a node is out": {func(s *State, _ *GroupAttachment) { s.detachment("node-new", "i-new", v1alpha1.WantDetached) }, map[string]string{
			"well": "True TargetsHealthy", "sick": "False TargetUnhealthy", "new": "True NodeDetached", "bare": "False TargetUnknown", "v6": "False TargetRefused",
		}},
	} {
		registered := at80("10.0.0.1", "10.0.0.4")
		registered[Target{"10.0.0.2", 80}] = Health{Condition: Unhealthy, Reason: "Target.FailedHealthChecks"}
		s := fleetOf(webGroup(IP), registered)
		a := s.gated(addresses)
		a.pod("ends").DeletionTimestamp = &metav1.Time{Time: noon}
		a.pod("free").Spec.ReadinessGates = nil
		c.change(&s, &s.Attachments[0])
		d := plan(t, s)
		if diff := cmp.Diff(c.want, d.gates()); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		// A deleted TargetGroupAttachment stays while a pod waits for it.
		if d.of("web").Release {
			t.Errorf("%s: it is let go", name)
		}
	}
	s := fleetOf(webGroup(Instance), at80("i-a"))
	a := s.gated(map[string]string{"a": "10.0.0.1"})
	a.Object.Spec.TargetType, a.Pods[0].Spec.HostNetwork = "instance", true
	if diff := cmp.Diff(map[string]string{"a": "True NotChecked"}, plan(t, s).gates()); diff != "" {
		t.Error(diff)
	}
}

// TestGatesStay writes nothing anew, and does not close a gate because the controller
// has just started, or because one pod cannot be understood.
func TestGatesStay(t *testing.T) {
	for name, change := range map[string]func(*State, *GroupAttachment){
		"as it was":               func(*State, *GroupAttachment) {},
		"the group is not read":   func(s *State, _ *GroupAttachment) { s.group().Registered, s.group().ReadAt = nil, time.Time{} },
		"a pod without its port":  func(_ *State, a *GroupAttachment) { a.Pods[1].Spec.Containers = nil },
		"it is to be put back":    func(s *State, _ *GroupAttachment) { s.group().Registered = at80("10.0.0.9") },
		"its address is not seen": func(_ *State, a *GroupAttachment) { a.Pods[0].Status.PodIP, a.Pods[0].Status.PodIPs = "", nil },
	} {
		s := fleetOf(webGroup(IP), at80("10.0.0.1", "10.0.0.2"))
		a := s.gated(map[string]string{"a": "10.0.0.1", "b": "10.0.0.2"})
		a.Object.Spec.Port = intstr.FromString("http")
		for _, p := range a.Pods {
			p.Spec.Containers = []corev1.Container{{Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 80}}}}
			p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: webGate, Status: corev1.ConditionTrue, Reason: GateTargetsHealthy, Message: "the pod's target takes traffic in every target group"})
		}
		change(&s, a)
		if got := plan(t, s).gates(); len(got) > 0 {
			t.Errorf("%s: %v", name, got)
		}
	}
}

const (
	stopsEarly = "a load balancer may send new connections to a pod for 1m0s after its deletion began, and lets open ones go on for another 30s, but " +
		"the container that serves is stopped after 0s: give it a preStop hook that sleeps, lifecycle.preStop.sleep.seconds: 60"
	killedEarly = ", and the pod is killed after 30s: set terminationGracePeriodSeconds to 90"
	alwaysOpen  = "the readiness gate " + webGate + " is always open, because the targets of target group web are instances, whose health says nothing of a single pod: remove it from the template"
)

// lasting is a pod that outlasts its load balancer.
func lasting(p *corev1.PodSpec) {
	p.TerminationGracePeriodSeconds = new(int64(90))
	p.Containers = []corev1.Container{{Lifecycle: &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: 60}}}}}
}

func TestWarnings(t *testing.T) {
	for name, c := range map[string]struct {
		change  func(*GroupAttachment)
		reason  string
		message string
	}{
		"pods that end at once": {func(*GroupAttachment) {}, "GraceTooShort", stopsEarly + killedEarly},
		"one of them":           {func(a *GroupAttachment) { lasting(&a.Pods[0].Spec) }, "GraceTooShort", stopsEarly + killedEarly},
		"none of them":          {func(a *GroupAttachment) { lasting(&a.Pods[0].Spec); lasting(&a.Pods[1].Spec) }, "AsExpected", ""},
		"one of them goes": {func(a *GroupAttachment) {
			lasting(&a.Pods[0].Spec)
			a.Pods[1].DeletionTimestamp = &metav1.Time{Time: noon}
		}, "AsExpected", ""},
		"killed": {func(a *GroupAttachment) {
			lasting(&a.Pods[0].Spec)
			lasting(&a.Pods[1].Spec)
			a.Pods[1].Spec.Containers[0].Lifecycle.PreStop.Sleep.Seconds = 1
			a.Pods[1].Spec.TerminationGracePeriodSeconds = nil
		}, "GraceTooShort", "a load balancer may send new connections to a pod for 1m0s after its deletion began, and lets open ones go on for another 30s, but " +
			"the container that serves is stopped after 1s: give it a preStop hook that sleeps, lifecycle.preStop.sleep.seconds: 60" + killedEarly},
		"no pod at present": {func(a *GroupAttachment) { a.Pods = nil }, "Before", "before"},
		"no group":          {func(a *GroupAttachment) { a.Object.Spec.TargetGroup.Name = "other" }, "Before", "before"},
		"a set with a drain hook": {func(a *GroupAttachment) {
			a.Set = &v1alpha1.IngressDaemonSet{}
			a.Set.Spec.DrainHook = &v1alpha1.DrainHook{}
		}, "GraceTooShort", "a load balancer may send new connections to a pod for 1m0s after its deletion began, and lets open ones go on for another 30s, but " +
			"the pod is killed after 30s, of which its drain hook leaves it the last 10s: set terminationGracePeriodSeconds to 100"},
		"a set's template, not its pods": {func(a *GroupAttachment) {
			a.Set = &v1alpha1.IngressDaemonSet{}
			lasting(&a.Set.Spec.Template.Spec)
		}, "AsExpected", ""},
	} {
		checkWarning(t, name, IP, map[string]string{"a": "10.0.0.1", "b": "10.0.0.2"}, c.change, c.reason, c.message)
	}
	host := func(a *GroupAttachment) { a.Pods[0].Spec.HostNetwork = true }
	one := map[string]string{"a": "10.0.0.1"}
	checkWarning(t, "instances", Instance, one, host, "GraceTooShort", alwaysOpen+"; "+stopsEarly+killedEarly)
	checkWarning(t, "instances that last", Instance, one, func(a *GroupAttachment) { host(a); lasting(&a.Pods[0].Spec) }, "GateNotChecked", alwaysOpen)
	checkWarning(t, "no gate", Instance, one, func(a *GroupAttachment) { host(a); lasting(&a.Pods[0].Spec); a.Pods[0].Spec.ReadinessGates = nil }, "AsExpected", "")
}

func checkWarning(t *testing.T, name string, kind TargetType, pods map[string]string, change func(*GroupAttachment), reason, message string) {
	t.Helper()
	g := webGroup(kind)
	g.Delay = 30 * time.Second
	s := fleetOf(g, nil)
	a := s.gated(pods)
	a.Object.Spec.TargetType = string(kind)
	a.Object.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionWarning, Status: metav1.ConditionTrue, Reason: "Before", Message: "before"}}
	change(a)
	d := plan(t, s)
	got := meta.FindStatusCondition(d.of("web").Status.Conditions, v1alpha1.ConditionWarning)
	if got.Reason != reason || got.Message != message || (got.Status == metav1.ConditionTrue) != (message != "") {
		t.Errorf("%s: %+v", name, got)
	}
}

// TestNodesThatAreResetAreWarnedOf asks for another order of a rollout where turning
// unhealthy ends what is open, and only there.
func TestNodesThatAreResetAreWarnedOf(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*v1alpha1.IngressDaemonSetSpec, *Group)
		warns  bool
	}{
		"checks fail first": {func(*v1alpha1.IngressDaemonSetSpec, *Group) {}, true},
		"checks fail last": {func(s *v1alpha1.IngressDaemonSetSpec, _ *Group) {
			s.UpdateStrategy.RollingUpdate.FailHealthChecks = v1alpha1.FailAfterDetachment
		}, false},
		"nothing is reset":        {func(_ *v1alpha1.IngressDaemonSetSpec, g *Group) { g.EndsFlowsOfUnhealthy = false }, false},
		"nobody answers checks":   {func(s *v1alpha1.IngressDaemonSetSpec, _ *Group) { s.HealthCheckNodePorts = nil }, false},
		"nodes are not taken out": {func(s *v1alpha1.IngressDaemonSetSpec, _ *Group) { s.UpdateStrategy.RollingUpdate = nil }, false},
	} {
		set := &v1alpha1.IngressDaemonSet{}
		lasting(&set.Spec.Template.Spec)
		set.Spec.Template.Spec.HostNetwork, set.Spec.HealthCheckNodePorts = true, []int32{10080}
		set.Spec.UpdateStrategy.RollingUpdate = &v1alpha1.RollingUpdate{MaxUnavailableNodes: new(intstr.FromInt32(1))}
		g := webGroup(Instance)
		g.EndsFlowsOfUnhealthy = true
		c.change(&set.Spec, &g)
		s := fleetOf(g, nil)
		spec := onPods(Instance)
		spec.PodSelector, spec.IngressDaemonSet = nil, &v1alpha1.LocalReference{Name: "nginx"}
		s.attachment("web", spec).Set = set
		got := meta.FindStatusCondition(plan(t, s).of("web").Status.Conditions, v1alpha1.ConditionWarning)
		if warned := got.Reason == v1alpha1.ReasonConnectionsReset; warned != c.warns {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// TestAGateThatOneGroupOpensIsNotWarnedOf: it says something.
func TestAGateThatOneGroupOpensIsNotWarnedOf(t *testing.T) {
	for _, checked := range []bool{true, false} {
		s := fleetOf(webGroup(IP), nil)
		known := s.Accounts[0].Groups[0]
		s.Accounts[0].Groups = nil
		for _, id := range []string{"arn:one", "arn:two"} {
			known.Group.ID, known.Group.ChecksTarget = id, checked && id == "arn:two"
			s.Accounts[0].Groups = append(s.Accounts[0].Groups, known)
		}
		a := s.gated(map[string]string{"a": "10.0.0.1"})
		a.Pods[0].Spec.HostNetwork = true
		lasting(&a.Pods[0].Spec)
		got := meta.FindStatusCondition(plan(t, s).of("web").Status.Conditions, v1alpha1.ConditionWarning)
		if warned := got.Reason == v1alpha1.ReasonGateNotChecked; warned == checked {
			t.Errorf("one group checks the pods: %t, %+v", checked, got)
		}
	}
}

// TestToldIsWhereConnectionsTell has health checkers asked of nodes from which a target
// leaves, and believes them of the port and where connections tell.
func TestToldIsWhereConnectionsTell(t *testing.T) {
	quiet := Quiet{Busy: noon, From: noon, To: noon.Add(time.Minute)}
	for name, c := range map[string]struct {
		change func(*Group)
		port   int32
		quiet  bool
		asks   bool
	}{
		"its node, its port": {func(*Group) {}, 80, true, true},
		"another port":       {func(*Group) {}, 443, false, true},
		"datagrams":          {func(g *Group) { g.Datagrams = true }, 80, false, false},
	} {
		g := webGroup(Instance)
		c.change(&g)
		s := fleetOf(g, at80("i-b"))
		s.attachment("web", onNodes("node-b"), leaving80(noon.Add(-10*time.Second), "i-a:80"))
		s.Memory.Groups[GroupKey{ID: "arn:web"}] = GroupMemory{Sightings: map[Target]Sighting{{"i-a", 80}: {LeftAt: noon.Add(-10 * time.Second), Left: noon.Add(-10 * time.Second)}}}
		s.Quiet = map[string]map[int32]Quiet{"node-a": {c.port: quiet}}
		d := plan(t, s)
		got := d.of("web").Status.Groups
		if (got[0].Leaving[0].QuietAt != nil) != c.quiet || slices.Contains(d.Ask, "node-a") != c.asks {
			t.Errorf("%s: %+v, asks %v", name, got, d.Ask)
		}
	}
}

// TestToldIsOfTheNodesNetwork takes the connections to a node's port for none to a pod there that
// has the same port, and a network of its own.
func TestToldIsOfTheNodesNetwork(t *testing.T) {
	for _, shares := range []bool{true, false} {
		s := fleetOf(webGroup(IP), at80("10.0.0.2"))
		left := noon.Add(-10 * time.Second)
		a := s.attachment("web", onPods(IP), leaving80(left, "10.0.0.1:80"))
		pod := podOf("a", "10.0.0.1")
		pod.Spec.HostNetwork, pod.DeletionTimestamp = shares, &metav1.Time{Time: noon}
		a.Pods = []*corev1.Pod{pod}
		s.Memory.Groups[GroupKey{ID: "arn:web"}] = GroupMemory{Sightings: map[Target]Sighting{{"10.0.0.1", 80}: {LeftAt: left, Left: left}}}
		s.Quiet = map[string]map[int32]Quiet{"node-a": {80: {Busy: noon, From: noon, To: noon.Add(time.Minute)}}}
		d := plan(t, s)
		if got := d.of("web").Status.Groups[0].Leaving[0].QuietAt != nil; got != shares || slices.Contains(d.Ask, "node-a") != shares {
			t.Errorf("host network %t: quiet %t, asks %v", shares, got, d.Ask)
		}
	}
}
