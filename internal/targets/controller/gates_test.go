package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/targets"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

const webGate = "target-health.ingressdaemonsets.mumoshu.github.io/web"

// podClaim is a claim on the addresses of pods that wait for it, each named after what
// becomes of its target.
func podClaim(addresses map[string]string) *claim {
	a := &v1alpha1.TargetGroupAttachment{Spec: v1alpha1.TargetGroupAttachmentSpec{
		TargetGroup: v1alpha1.TargetGroupSelector{Name: "web"}, TargetType: "ip", Port: intstr.FromInt32(80), PodSelector: &metav1.LabelSelector{},
	}}
	a.Namespace, a.Name = "ns", "web"
	c := &claim{object: a}
	for name, address := range addresses {
		p := &corev1.Pod{Status: corev1.PodStatus{PodIP: address}}
		p.Namespace, p.Name, p.UID, p.ResourceVersion = "ns", name, types.UID(name), "1"
		p.Spec = corev1.PodSpec{NodeName: "node-" + name, ReadinessGates: []corev1.PodReadinessGate{{ConditionType: "other"}, {ConditionType: webGate}}}
		c.pods = append(c.pods, p)
	}
	slices.SortFunc(c.pods, func(a, b *corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
	return c
}

func (c *claim) pod(name string) *corev1.Pod {
	return c.pods[slices.IndexFunc(c.pods, func(p *corev1.Pod) bool { return p.Name == name })]
}

// gatesOf are the gates that would be written after a decision about the group.
func gatesOf(c *claim, g targets.Group, registered map[targets.Target]targets.Health, change func(*share, *observed)) map[string]string {
	s, o := shared(g, registered), &observed{now: now, claims: []*claim{c}, out: map[string]string{}}
	if change != nil {
		change(s, o)
	}
	s.join(c, o.out, nil)
	s.decide(nil)
	(&Reconciler{}).observeGates(o, []*share{s})
	out := map[string]string{}
	for _, g := range c.gates {
		out[g.pod.Name] = string(g.condition.Status) + " " + g.condition.Reason
	}
	return out
}

func TestGates(t *testing.T) {
	addresses := map[string]string{"well": "10.0.0.1", "sick": "10.0.0.2", "new": "10.0.0.3", "bare": "", "v6": "fd00::1", "ends": "10.0.0.4", "free": "10.0.0.5"}
	registered := healthy("10.0.0.1", "10.0.0.4")
	registered[targets.Target{ID: "10.0.0.2", Port: 80}] = targets.Health{Condition: targets.Unhealthy, Reason: "Target.FailedHealthChecks"}
	instances := func() *claim {
		c := podClaim(map[string]string{"well": "10.0.0.1"})
		c.object.Spec.TargetType = "instance"
		c.pods[0].Spec.HostNetwork = true
		return c
	}
	all := func() *claim {
		c := podClaim(addresses)
		c.pod("ends").DeletionTimestamp = &metav1.Time{Time: now}
		c.pod("free").Spec.ReadinessGates = nil
		return c
	}
	everywhere := func(what string) map[string]string {
		return map[string]string{"well": what, "sick": what, "new": what, "bare": what, "v6": what}
	}
	for name, c := range map[string]struct {
		claim  *claim
		kind   targets.TargetType
		change func(*claim, *share, *observed)
		want   map[string]string
	}{
		"each as its target is": {all(), targets.IP, nil, map[string]string{
			"well": "True TargetsHealthy", "sick": "False TargetUnhealthy", "new": "False Registering", "bare": "False TargetUnknown", "v6": "False TargetRefused",
		}},
		"the group was never read": {all(), targets.IP, func(_ *claim, s *share, _ *observed) { s.state.Registered, s.state.ReadAt = nil, metav1.Time{}.Time },
			map[string]string{"well": "False TargetUnknown", "sick": "False TargetUnknown", "new": "False TargetUnknown", "bare": "False TargetUnknown", "v6": "False TargetRefused"}},
		"the record cannot be read":   {all(), targets.IP, func(_ *claim, s *share, _ *observed) { s.broken = "so it is" }, everywhere("False TargetUnknown")},
		"another group":               {all(), targets.IP, func(c *claim, _ *share, _ *observed) { c.object.Spec.TargetGroup.Name = "other" }, everywhere("False TargetUnknown")},
		"somebody else has the group": {all(), targets.IP, func(_ *claim, s *share, _ *observed) { s.binding = &binding{name: "ns/web"} }, everywhere("True NotChecked")},
		"the claim is deleted":        {all(), targets.IP, func(c *claim, _ *share, _ *observed) { c.object.DeletionTimestamp = &metav1.Time{Time: now} }, everywhere("True AttachmentDeleted")},
		"a node is out": {all(), targets.IP, func(_ *claim, _ *share, o *observed) { o.out["node-new"] = "node-new is to be out" }, map[string]string{
			"well": "True TargetsHealthy", "sick": "False TargetUnhealthy", "new": "True NodeDetached", "bare": "False TargetUnknown", "v6": "False TargetRefused",
		}},
		"instances": {instances(), targets.Instance, nil, map[string]string{"well": "True NotChecked"}},
	} {
		got := gatesOf(c.claim, group(c.kind), registered, func(s *share, o *observed) {
			if c.change != nil {
				c.change(c.claim, s, o)
			}
		})
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// TestGatesStay writes nothing anew, and does not close a gate because the controller
// has just started, or because one pod of the claim cannot be understood.
func TestGatesStay(t *testing.T) {
	for name, change := range map[string]func(*claim, *share){
		"as it was":               func(*claim, *share) {},
		"the group is not read":   func(_ *claim, s *share) { s.state.Registered, s.state.ReadAt = nil, metav1.Time{}.Time },
		"a pod without its port":  func(c *claim, _ *share) { c.pods[1].Spec.Containers = nil },
		"it is to be put back":    func(_ *claim, s *share) { s.state.Registered = healthy("10.0.0.9") },
		"its address is not seen": func(c *claim, _ *share) { c.pods[0].Status.PodIP = "" },
	} {
		c := podClaim(map[string]string{"a": "10.0.0.1", "b": "10.0.0.2"})
		c.object.Spec.Port = intstr.FromString("http")
		for _, p := range c.pods {
			p.Spec.Containers = []corev1.Container{{Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 80}}}}
			p.Status.Conditions = []corev1.PodCondition{{Type: webGate, Status: corev1.ConditionTrue, Reason: targets.GateTargetsHealthy, Message: "the pod's target takes traffic in every target group"}}
		}
		got := gatesOf(c, group(targets.IP), healthy("10.0.0.1", "10.0.0.2"), func(s *share, _ *observed) { change(c, s) })
		if len(got) > 0 {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestWritingGates writes to some pods in a pass, to each once, and leaves alone what
// others wrote.
func TestWritingGates(t *testing.T) {
	kubelets := corev1.PodCondition{Type: corev1.ContainersReady, Status: corev1.ConditionTrue}
	c := &claim{}
	var objects []client.Object
	for i := range gatesAPass + 2 {
		p := &corev1.Pod{Status: corev1.PodStatus{Conditions: []corev1.PodCondition{kubelets}}}
		p.Namespace, p.Name, p.UID, p.ResourceVersion = "ns", fmt.Sprintf("p-%02d", i), types.UID(strconv.Itoa(i)), "1"
		c.gates = append(c.gates, gate{p.DeepCopy(), corev1.PodCondition{Type: webGate, Status: corev1.ConditionTrue, Reason: "R", LastTransitionTime: metav1.NewTime(now)}})
		if i > 0 { // The first is gone.
			objects = append(objects, p)
		}
	}
	api := fake.NewClientBuilder().WithObjects(objects...).WithStatusSubresource(&corev1.Pod{}).Build()
	written := func() (names []string) {
		t.Helper()
		var list corev1.PodList
		if err := api.List(t.Context(), &list); err != nil {
			t.Fatal(err)
		}
		for i := range list.Items {
			p := &list.Items[i]
			if got := conditionOf(p, webGate); got != nil && got.Status == corev1.ConditionTrue {
				names = append(names, p.Name)
			}
			if conditionOf(p, corev1.ContainersReady) == nil {
				t.Errorf("%s lost the condition of its kubelet", p.Name)
			}
		}
		return names
	}
	r, o := &Reconciler{client: api}, &observed{claims: []*claim{c}}
	left, err := r.writeGates(t.Context(), o)
	if names := written(); err != nil || !left || len(names) != gatesAPass-1 {
		t.Errorf("%v, left %t, %v", names, left, err)
	}
	// The events of those have come, and one is to be written again.
	c.gates = append(c.gates[gatesAPass:], c.gates[2])
	c.gates[len(c.gates)-1].pod.ResourceVersion = "2"
	left, err = r.writeGates(t.Context(), o)
	if names := written(); err != nil || left || len(names) != gatesAPass+1 {
		t.Errorf("%v, left %t, %v", names, left, err)
	}
	// The events of these have not come yet.
	c.gates[0].condition.Status = corev1.ConditionFalse
	left, err = r.writeGates(t.Context(), o)
	if names := written(); err != nil || left || len(names) != gatesAPass+1 {
		t.Errorf("written again: %v, left %t, %v", names, left, err)
	}
}

// TestAPodOfTheSameNameIsLeftAlone says which pod is meant, so that the API server
// refuses to write on its successor.
func TestAPodOfTheSameNameIsLeftAlone(t *testing.T) {
	successor := &corev1.Pod{}
	successor.Namespace, successor.Name, successor.UID = "ns", "p", "2"
	api := fake.NewClientBuilder().WithObjects(successor).WithStatusSubresource(&corev1.Pod{}).WithInterceptorFuncs(interceptor.Funcs{
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
			data, err := patch.Data(o)
			if err != nil {
				return err
			}
			if !strings.Contains(string(data), `"uid":"2"`) {
				// As the API server answers; the fake takes any.
				return apierrors.NewConflict(corev1.Resource("pods"), o.GetName(), errors.New("the uid differs"))
			}
			return c.SubResource(sub).Patch(ctx, o, patch, opts...)
		},
	}).Build()
	for _, uid := range []types.UID{"1", "2"} {
		meant := successor.DeepCopy()
		meant.UID = uid
		g := gate{meant, corev1.PodCondition{Type: webGate, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(now)}}
		if err := (&Reconciler{client: api}).writeGate(t.Context(), g); err != nil {
			t.Fatal(err)
		}
		got := &corev1.Pod{}
		if err := api.Get(t.Context(), client.ObjectKeyFromObject(successor), got); err != nil {
			t.Fatal(err)
		}
		if written := conditionOf(got, webGate) != nil; written != (uid == "2") {
			t.Errorf("meant for %s: written %t", uid, written)
		}
	}
}

// TestNothingIsReleasedBeforeItsGatesAreOpen keeps a deleted TargetGroupAttachment while a
// pod waits for it.
func TestNothingIsReleasedBeforeItsGatesAreOpen(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	c := podClaim(map[string]string{"a": "10.0.0.1"})
	c.object.Finalizers, c.object.DeletionTimestamp = []string{v1alpha1.Finalizer}, &metav1.Time{Time: now}
	r := &Reconciler{client: fake.NewClientBuilder().WithScheme(scheme).WithObjects(c.object).Build()}
	c.gates = []gate{{pod: c.pods[0]}}
	there := func() bool {
		t.Helper()
		if err := r.release(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		return r.client.Get(t.Context(), client.ObjectKeyFromObject(c.object), &v1alpha1.TargetGroupAttachment{}) == nil
	}
	if !there() {
		t.Error("it is gone, and a pod waits for it")
	}
	c.gates = nil
	if err := r.client.Get(t.Context(), client.ObjectKeyFromObject(c.object), c.object); err != nil {
		t.Fatal(err)
	}
	if there() {
		t.Error("it is kept, and nothing is left to do")
	}
}
