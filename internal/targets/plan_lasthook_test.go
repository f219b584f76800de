package targets

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// toldIn is a pod that was told that traffic may come to it.
func toldIn(p *corev1.Pod) *corev1.Pod {
	p.Annotations = map[string]string{v1alpha1.AnnotationTargets: v1alpha1.TargetsIn}
	return p
}

// hasTold has this process have told pods that traffic may come to them.
func (s *State) hasTold(pods ...*corev1.Pod) {
	s.Told = map[types.UID]bool{}
	for _, p := range pods {
		s.Told[p.UID] = true
	}
}

// anotherGroup is one more of ourselves, in which so much is registered.
func (s *State) anotherGroup(name string, kind TargetType, registered map[Target]Health) {
	g := webGroup(kind)
	g.ID, g.Name = "arn:"+name, name
	s.Accounts[0].Groups = append(s.Accounts[0].Groups, KnownGroup{Group: g, ReadAt: asOf, Live: true, Registered: registered})
}

// TestAHookIsKeptByWhatANamespaceHasOnRecord holds a pod that is out of its group while what leads to it
// leaves another one, for whoever has that on record: one that is deleted and whose Service went with
// it, or one that does not select the pod any more. What is another pod's, another's node, or on record
// in another namespace, holds it not.
func TestAHookIsKeptByWhatANamespaceHasOnRecord(t *testing.T) {
	another := func(ends bool) *corev1.Pod {
		p := hookedPod("a", "10.0.0.9", ends)
		p.UID, p.Spec.Containers[0].Ports[0].HostPort = "another", 80
		return p
	}
	for name, c := range map[string]struct {
		change func(*State, *GroupAttachment)
		holds  bool
	}{
		"deleted, without its Service": {func(_ *State, a *GroupAttachment) {
			a.Unknown, a.Object.DeletionTimestamp = "there is no Service web", &metav1.Time{Time: noon}
		}, true},
		"without its Service": {func(_ *State, a *GroupAttachment) { a.Unknown = "there is no Service web" }, true},
		"deleted, of a node that is not named": {func(s *State, a *GroupAttachment) {
			a.Unknown, a.Object.DeletionTimestamp = "there is no Service web", &metav1.Time{Time: noon}
			s.Nodes[0].Spec.ProviderID = ""
		}, true},
		"deleted, and a record of it cannot be read": {func(_ *State, a *GroupAttachment) {
			a.Object.DeletionTimestamp, a.Object.Status.Groups = &metav1.Time{Time: noon}, []v1alpha1.AttachedGroup{in80("?")}
		}, true},
		"deleted, of another node": {func(_ *State, a *GroupAttachment) {
			a.Unknown, a.Object.DeletionTimestamp = "there is no Service web", &metav1.Time{Time: noon}
			a.Object.Status.Groups = []v1alpha1.AttachedGroup{in80("i-b:80")}
		}, false},
		"deleted, and out": {func(s *State, a *GroupAttachment) {
			a.Unknown, a.Object.DeletionTimestamp = "there is no Service web", &metav1.Time{Time: noon}
			a.Object.Status.Groups = []v1alpha1.AttachedGroup{leaving80(noon.Add(-time.Hour), "i-a:80")}
			s.Memory.Groups[GroupKey{ID: "arn:web"}] = GroupMemory{Sightings: map[Target]Sighting{{"i-a", 80}: {LeftAt: noon.Add(-time.Hour), Left: noon.Add(-time.Hour)}}}
			s.group().Registered = at80("i-b")
		}, false},
		"it is not selected any more":    {func(_ *State, a *GroupAttachment) { a.Pods = nil }, true},
		"it is another's of the node":    {func(_ *State, a *GroupAttachment) { a.Pods = []*corev1.Pod{another(false)} }, false},
		"it was another's that ends":     {func(_ *State, a *GroupAttachment) { a.Pods = []*corev1.Pod{another(true)} }, true},
		"on record in another namespace": {func(_ *State, a *GroupAttachment) { a.Object.Namespace, a.Pods = "tenant", nil }, false},
		"the node is selected itself": {func(_ *State, a *GroupAttachment) {
			a.Object.Spec, a.Pods = onNodes("node-a"), nil
			a.Object.Spec.TargetGroup.Name = "web"
		}, false},
	} {
		s := fleetOf(webGroup(Instance), at80("i-a", "i-b"))
		s.anotherGroup("two", IP, map[Target]Health{})
		pod := toldIn(hookedPod("a", "10.0.0.1", true))
		a := s.attachment("web", onPods(Instance), in80("i-a:80"))
		a.Pods = []*corev1.Pod{pod}
		c.change(&s, a)
		spec := onPods(IP)
		spec.TargetGroup.Name = "two"
		s.attachment("other", spec).Pods = []*corev1.Pod{pod}
		d := plan(t, s)
		if released := slices.ContainsFunc(d.Hooks, func(h HookWrite) bool { return h.Pod == pod && !h.In }); released == c.holds {
			t.Errorf("%s: %v while %+v", name, d.hooks(), d.Groups[len(d.Groups)-1].Reports)
		}
	}
}

const (
	ourOwner = "arn:aws:elasticloadbalancing:eu-west-1:111111111111"
	goneARN  = ourOwner + ":targetgroup/gone/1"
)

// goneGroup is a State in which a pod that was told is on record in a group that is not listed, and the
// only other group is nobody's that is known to be of the same owner.
func goneGroup(deleted bool) (State, *GroupAttachment) {
	s := fleetOf(webGroup(IP), at80("10.0.0.2"))
	spec := onPods(IP)
	spec.TargetGroup.Name = "gone"
	a := s.attachment("web", spec, v1alpha1.AttachedGroup{ID: goneARN, Balancer: "network", Targets: []string{"10.0.0.1:80"}})
	a.Pods = []*corev1.Pod{toldIn(hookedPod("a", "10.0.0.1", !deleted))}
	if deleted {
		a.Object.DeletionTimestamp = &metav1.Time{Time: noon}
	}
	return s, a
}

// TestAHookIsLetGoWhereItsGroupIsGone, and not before somebody knows that: by others of its owner, by
// those of before, or by the role whose they are. The finalizer goes when the pod is told.
func TestAHookIsLetGoWhereItsGroupIsGone(t *testing.T) {
	missing := map[string]bool{goneARN: true}
	for name, c := range map[string]struct {
		change func(*State, *GroupAttachment)
		gone   bool
	}{
		"it is not asked for":   {func(s *State, _ *GroupAttachment) { s.group().ID = ourOwner + ":targetgroup/web/2" }, false},
		"no other of its owner": {func(s *State, _ *GroupAttachment) { s.Accounts[0].Missing = missing }, false},
		"others of its owner": {func(s *State, _ *GroupAttachment) {
			s.Accounts[0].Missing, s.group().ID = missing, ourOwner+":targetgroup/web/2"
		}, true},
		"none left": {func(s *State, _ *GroupAttachment) {
			s.Accounts[0] = Account{ListedAt: asOf, Missing: missing, Owners: map[string]bool{ourOwner: true}}
		}, true},
		"none left, and none was before": {func(s *State, _ *GroupAttachment) { s.Accounts[0] = Account{ListedAt: asOf, Missing: missing} }, false},
		"others alone, where some were": {func(s *State, _ *GroupAttachment) {
			s.Accounts[0].Missing, s.Accounts[0].Owners = missing, map[string]bool{ourOwner: true}
		}, false},
		"the role's own":                    {func(s *State, a *GroupAttachment) { asRoleA(s, a, "eu-west-1", missing) }, true},
		"of another region than the role's": {func(s *State, a *GroupAttachment) { asRoleA(s, a, "us-east-1", missing) }, false},
	} {
		for _, deleted := range []bool{false, true} {
			s, a := goneGroup(deleted)
			c.change(&s, a)
			d := plan(t, s)
			if len(d.hooks()) > 0 != c.gone || d.hooks()["a"] || d.of("web").Release {
				t.Errorf("%s, deleted %t: %v, released %t", name, deleted, d.hooks(), d.of("web").Release)
			}
			s.Attachments[0].Pods[0].Annotations[v1alpha1.AnnotationTargets] = v1alpha1.TargetsOut
			if d := plan(t, s); d.of("web").Release != (deleted && c.gone) {
				t.Errorf("%s, deleted %t, told: released %t", name, deleted, d.of("web").Release)
			}
		}
	}
}

func asRoleA(s *State, a *GroupAttachment, region string, missing map[string]bool) {
	a.Object.Spec.AssumeRole, a.Object.Status.Groups[0].AssumeRole = &roleA, &roleA
	s.Accounts = append(s.Accounts, Account{Role: roleA, ListedAt: asOf, Region: region, Missing: missing})
}

// TestNoPodIsLeftTold holds a finalizer while a pod is told that traffic may come to it whom nobody else
// would tell otherwise, or may be there unseen.
func TestNoPodIsLeftTold(t *testing.T) {
	for name, c := range map[string]struct {
		change   func(*State, *GroupAttachment)
		letsGo   bool
		released bool
	}{
		"nothing is left":    {func(*State, *GroupAttachment) {}, true, false},
		"another selects it": {func(s *State, a *GroupAttachment) { s.attachment("other", onPods(IP)).Pods = a.Pods }, false, true},
		"another goes as well": {func(s *State, a *GroupAttachment) {
			o := s.attachment("other", onPods(IP))
			o.Pods, o.Object.DeletionTimestamp = a.Pods, a.Object.DeletionTimestamp
		}, true, false},
		"it has ended":            {func(_ *State, a *GroupAttachment) { a.Pods[0].Status.Phase = corev1.PodFailed }, true, true},
		"its Node has no machine": {func(s *State, _ *GroupAttachment) { s.Nodes[0].Spec.ProviderID = "" }, true, false},
		"another's leaves": {func(s *State, _ *GroupAttachment) {
			s.attachment("other", onPods(IP), leaving80(noon.Add(-time.Second), "10.0.0.1:80"))
		}, false, false},
		"another's that goes later cannot be read": {func(s *State, a *GroupAttachment) {
			o := s.attachment("other", onPods(IP), in80("?"))
			o.Pods, o.Object.DeletionTimestamp = a.Pods, a.Object.DeletionTimestamp
		}, false, true},
		"another's cannot be read": {func(s *State, _ *GroupAttachment) { s.attachment("other", onPods(IP), in80("?")) }, true, false},
		"pods may be missing":      {func(_ *State, a *GroupAttachment) { a.Behind, a.Pods = true, nil }, false, false},
		"nodes may be missing": {func(_ *State, a *GroupAttachment) {
			a.Behind, a.Pods, a.Object.Spec.NodeSelector = true, nil, &metav1.LabelSelector{}
		}, false, true},
		"another node's target": {func(s *State, _ *GroupAttachment) {
			s.anotherGroup("nodes", Instance, at80("i-a", "i-b"))
			spec := onNodes()
			spec.TargetGroup.Name = "nodes"
			r := in80("i-a:80", "i-b:80")
			r.ID = "arn:nodes"
			s.attachment("nodes", spec, r)
		}, true, false},
	} {
		s := fleetOf(webGroup(IP), at80("10.0.0.2"))
		a := s.attachment("web", onPods(IP))
		a.Object.DeletionTimestamp, a.Unknown = &metav1.Time{Time: noon}, "there is no Service web"
		a.Pods = []*corev1.Pod{toldIn(hookedPod("a", "10.0.0.1", false))}
		s.hasTold(a.Pods...)
		c.change(&s, a)
		d := plan(t, s)
		if in, told := d.hooks()["a"]; told != c.letsGo || in || d.of("web").Release != c.released {
			t.Errorf("%s: told %t, in %t, released %t", name, told, in, d.of("web").Release)
		}
		if missing := name == "pods may be missing"; d.of("web").CatchUp != missing {
			t.Errorf("%s: catches up %t", name, d.of("web").CatchUp)
		}
	}
}

// TestAHookThatWasLetGoIsNotHeldAgain: a new leader, that has not seen when a target left, and may be shown
// an object yet that is gone, tells no pod that it gets traffic of which another one saw that it gets none.
// What is registered, or wanted in, may get some.
func TestAHookThatWasLetGoIsNotHeldAgain(t *testing.T) {
	for name, c := range map[string]struct {
		told       string
		deleted    bool
		registered map[Target]Health
		want       map[string]bool
	}{
		"it was told that it gets none": {v1alpha1.TargetsOut, true, at80("10.0.0.2"), map[string]bool{}},
		"it was told nothing":           {"", true, at80("10.0.0.2"), map[string]bool{"a": true}},
		"it was told that it gets some": {v1alpha1.TargetsIn, true, at80("10.0.0.2"), map[string]bool{}},
		"it is registered again":        {v1alpha1.TargetsOut, true, at80("10.0.0.1", "10.0.0.2"), map[string]bool{"a": true}},
		"it is wanted in again":         {v1alpha1.TargetsOut, false, at80("10.0.0.2"), map[string]bool{"a": true}},
	} {
		s := fleetOf(webGroup(IP), c.registered)
		s.Memory.Groups = nil
		a := s.attachment("web", onPods(IP), leaving80(noon.Add(-time.Second), "10.0.0.1:80"))
		if c.deleted {
			a.Object.DeletionTimestamp = &metav1.Time{Time: noon}
		}
		a.Pods = []*corev1.Pod{hookedPod("a", "10.0.0.1", false)}
		a.Pods[0].Annotations = map[string]string{v1alpha1.AnnotationTargets: c.told}
		if got := plan(t, s).hooks(); !maps.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}
