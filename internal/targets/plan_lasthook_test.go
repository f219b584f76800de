package targets

import (
	"slices"
	"testing"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// toldIn is a pod that was told that traffic may come to it.
func toldIn(p *corev1.Pod) *corev1.Pod {
	p.Annotations = map[string]string{v1alpha1.AnnotationTargets: v1alpha1.TargetsIn}
	return p
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
		if letGo := slices.ContainsFunc(d.Hooks, func(h HookWrite) bool { return h.Pod == pod && !h.In }); letGo == c.holds {
			t.Errorf("%s: %v while %+v", name, d.hooks(), d.Groups[len(d.Groups)-1].Reports)
		}
	}
}
