package targets

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

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
					s.hasTold(toldIn(p))
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

// TestAHookIsKeptAsItsTargetGoesOver holds a pod whose target leaves for one that is deleted, while
// another that is not bound yet wants it in.
func TestAHookIsKeptAsItsTargetGoesOver(t *testing.T) {
	s := fleetOf(webGroup(IP), at80("10.0.0.2"))
	pod := hookedPod("a", "10.0.0.1", false)
	pod.Annotations = map[string]string{v1alpha1.AnnotationTargets: v1alpha1.TargetsIn}
	old := s.attachment("old", onPods(IP), leaving80(noon.Add(-time.Second), "10.0.0.1:80"))
	old.Object.DeletionTimestamp, old.Pods = &metav1.Time{Time: noon}, []*corev1.Pod{pod}
	added := s.attachment("added", onPods(IP))
	added.Object.Finalizers, added.Pods = nil, []*corev1.Pod{pod}
	if d := plan(t, s); len(d.hooks()) > 0 {
		t.Errorf("%v", d.hooks())
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
	// What another has on record there may have been the pod's in its own namespace alone.
	a.Object.DeletionTimestamp, a.Object.Status.Groups = nil, nil
	for namespace, holds := range map[string]bool{"ns": true, "tenant": false} {
		another := s
		another.Attachments = slices.Clone(s.Attachments)
		another.attachment("another", onPods(IP), leaving80(time.Time{}, "10.0.0.1:80")).Object.Namespace = namespace
		if d := plan(t, another); len(d.hooks()) == 0 != holds {
			t.Errorf("another's of %s leaves: %v", namespace, d.hooks())
		}
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
// is on record of it is not, whether it ends, its node leaves, or it lives on; and lets go of it before
// the TargetGroupAttachment goes that has it on record.
func TestAHookIsKeptByATargetOfASetThatIsNotThere(t *testing.T) {
	two := webGroup(IP)
	two.ID, two.Name = "arn:two", "two"
	left := func(before time.Duration) v1alpha1.AttachedGroup { return leaving80(noon.Add(-before), "10.0.0.1:80") }
	for name, c := range map[string]struct {
		ends, leaves bool
		registered   map[Target]Health
		record       v1alpha1.AttachedGroup
		holds        bool
	}{
		"it ends":               {true, false, at80("10.0.0.1", "10.0.0.2"), in80("10.0.0.1:80"), true},
		"its node leaves":       {false, true, at80("10.0.0.1", "10.0.0.2"), in80("10.0.0.1:80"), true},
		"it ends, and is out":   {true, false, at80("10.0.0.2"), left(time.Hour), false},
		"it ends, of no record": {true, false, at80("10.0.0.1"), in80(), false},
		"it left a moment ago":  {false, false, at80("10.0.0.2"), left(10 * time.Second), true},
		"it left":               {false, false, at80("10.0.0.2"), left(time.Hour), false},
	} {
		s := fleetOf(webGroup(IP), c.registered)
		s.Accounts[0].Groups = append(s.Accounts[0].Groups, KnownGroup{Group: two, ReadAt: asOf, Live: true, Registered: map[Target]Health{}})
		for _, l := range c.record.Leaving {
			s.Memory.Groups[GroupKey{ID: "arn:web"}] = GroupMemory{Sightings: map[Target]Sighting{{"10.0.0.1", 80}: {LeftAt: l.LeftAt.Time, Left: l.LeftAt.Time}}}
		}
		pod := hookedPod("a", "10.0.0.1", c.ends)
		pod.Annotations = map[string]string{v1alpha1.AnnotationTargets: v1alpha1.TargetsIn}
		spec := onPods(IP)
		spec.PodSelector, spec.IngressDaemonSet = nil, &v1alpha1.LocalReference{Name: "mistyped"}
		lost := s.attachment("lost", spec, c.record)
		lost.Neighbours = []*corev1.Pod{pod}
		other := onPods(IP)
		other.TargetGroup.Name = "two"
		s.attachment("other", other).Pods = []*corev1.Pod{pod}
		s.Attachments[1].Object.DeletionTimestamp = &metav1.Time{Time: noon}
		if c.leaves {
			s.detachment("node-a", "i-a", v1alpha1.WantDetached)
		}
		if d := plan(t, s); len(d.hooks()) > 0 == c.holds || d.hooks()["a"] {
			t.Errorf("%s: %v, %+v", name, d.hooks(), d.of("lost").Status.Groups)
		}
		// Nobody else selects it.
		s.Attachments = s.Attachments[:1]
		if d := plan(t, s); len(d.hooks()) > 0 == c.holds {
			t.Errorf("%s, alone: %v", name, d.hooks())
		}
		s.Attachments[0].Object.DeletionTimestamp = &metav1.Time{Time: noon}
		if d := plan(t, s); d.of("lost").Release || len(d.hooks()) > 0 == c.holds {
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
		s.hasTold(toldIn(a.Pods[0]))
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
		"a record in an unread group": {func(s *State, _ *GroupAttachment) {
			s.attachment("old", onPods(IP), v1alpha1.AttachedGroup{ID: "arn:far", AssumeRole: &roleA, Targets: []string{"10.0.0.1:80"}})
		}, false},
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
}

// TestTheLastHookIsLetGoBeforeTheFinalizer of an attachment that is deleted, since nobody would tell
// its pods after that. Groups in which it has nothing on record need not be known for that.
func TestTheLastHookIsLetGoBeforeTheFinalizer(t *testing.T) {
	for name, change := range map[string]func(*State, *GroupAttachment){
		"all is known":           func(*State, *GroupAttachment) {},
		"its groups are unread":  func(s *State, _ *GroupAttachment) { s.Accounts[0] = Account{Failure: "throttled"} },
		"its Service is missing": func(_ *State, a *GroupAttachment) { a.Unknown = "there is no Service web" },
	} {
		for _, told := range []bool{true, false} {
			s := fleetOf(webGroup(IP), at80("10.0.0.2"))
			a := s.attachment("web", onPods(IP))
			a.Object.DeletionTimestamp, a.Pods = &metav1.Time{Time: noon}, []*corev1.Pod{hookedPod("a", "10.0.0.1", false)}
			a.Pods[0].Annotations = map[string]string{v1alpha1.AnnotationTargets: map[bool]string{true: v1alpha1.TargetsIn, false: v1alpha1.TargetsOut}[told]}
			change(&s, a)
			if d := plan(t, s); d.of("web").Release == told || len(d.Hooks) > 0 != told {
				t.Errorf("%s, told %t: released %t, hooks %v", name, told, d.of("web").Release, d.hooks())
			}
		}
	}
}

// TestADrainHookMayHaveBeenLetGo tells a pod once more before a target of it is registered, unless this
// process told it so last: what is seen may be of before another leader let go of it, and what it, or a
// write that was given up, tells the pod may be on its way.
func TestADrainHookMayHaveBeenLetGo(t *testing.T) {
	for name, c := range map[string]struct {
		in, byUs, registered bool
		tells, needs         bool
	}{
		"told by nobody":         {tells: true, needs: true},
		"told by another":        {in: true, tells: true, needs: true},
		"told by us, not shown":  {byUs: true, tells: true, needs: true},
		"told by us":             {in: true, byUs: true},
		"registered, by another": {in: true, registered: true},
	} {
		s := fleetOf(webGroup(IP), at80())
		a := s.attachment("web", onPods(IP))
		a.Pods = []*corev1.Pod{hookedPod("a", "10.0.0.1", false)}
		if c.registered {
			s = fleetOf(webGroup(IP), at80("10.0.0.1"))
			pods := a.Pods
			a = s.attachment("web", onPods(IP), in80("10.0.0.1:80"))
			a.Pods = pods
		}
		if c.in {
			toldIn(a.Pods[0])
		}
		if c.byUs {
			s.hasTold(a.Pods[0])
		}
		d := plan(t, s)
		pod := Ref{KindPod, a.Pods[0].Namespace, "a", a.Pods[0].UID}
		needs := slices.Contains(d.Groups[0].Needs[Target{"10.0.0.1", 80}], pod)
		if in, tells := d.hooks()["a"]; tells != c.tells || in != c.tells || needs != c.needs {
			t.Errorf("%s: tells %t, in %t, needs %t", name, tells, in, needs)
		}
	}
}
