package targets

import (
	"context"
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/test/aws/cloud"
)

// bindingKind is as much of aws-load-balancer-controller's kind as matters here; EKS Auto
// Mode has another of the same name.
func bindingKind(group, version string) string {
	return `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: targetgroupbindings.` + group + `
spec:
  group: ` + group + `
  scope: Namespaced
  names: {kind: TargetGroupBinding, listKind: TargetGroupBindingList, plural: targetgroupbindings, singular: targetgroupbinding}
  versions:
  - name: ` + version + `
    served: true
    storage: true
    schema:
      openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}
`
}

// TestBoundGroup leaves a group alone as soon as a TargetGroupBinding has it to itself,
// of a kind that was not there when the controller started; another group of the same
// tags goes on. When the TargetGroupBinding shares the group, all is made up for.
func TestBoundGroup(t *testing.T) {
	f := newFixture(t, "ip")
	other := &fixture{T: t, group: f.group + "-other", admin: f.admin, terraform: f.terraform}
	f.must(admin.PutTargetGroup(t.Context(), cloud.TargetGroup{
		Name: other.group, Protocol: "TCP", Port: 80, TargetType: "ip", AssumeHealthy: true, Tags: map[string]string{"team": f.group},
	}))
	other.arn = f.arnOf(other.group)
	t.Cleanup(func() { f.must(admin.DeleteTargetGroup(context.Background(), other.group)) })
	a := f.attach(v1alpha1.TargetGroupAttachmentSpec{
		TargetType: "ip", Port: intstr.FromString("http"), PodSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": f.group}},
	})
	one := f.pod("one", "simulated-1")
	f.holds("the first pod", one.Status.PodIP+":8080")
	other.holds("the first pod", one.Status.PodIP+":8080")

	f.must(api.Create(t.Context(), object(f, bindingKind("elbv2.k8s.aws", "v1beta1"))))
	f.must(api.Create(t.Context(), object(f, bindingKind("eks.amazonaws.com", "v1"))))
	binding := object(f, `{apiVersion: elbv2.k8s.aws/v1beta1, kind: TargetGroupBinding, metadata: {namespace: default, name: bound}, spec: {targetGroupARN: "`+f.arn+`"}}`)
	f.eventually("a TargetGroupBinding", func(ctx context.Context) error { return api.Create(ctx, binding) })
	f.eventually("the refusal", func(ctx context.Context) error {
		if err := api.Get(ctx, client.ObjectKeyFromObject(a), a); err != nil {
			return err
		}
		ready, blocked := meta.FindStatusCondition(a.Status.Conditions, v1alpha1.ConditionReady), meta.FindStatusCondition(a.Status.Conditions, v1alpha1.ConditionBlocked)
		if ready.Status != metav1.ConditionFalse || ready.Reason != v1alpha1.ReasonGroupBound || blocked.Status != metav1.ConditionTrue || blocked.Reason != v1alpha1.ReasonGroupBound {
			return fmt.Errorf("%+v, %+v", ready, blocked)
		}
		return nil
	})
	moves := f.moves()
	two := f.pod("two", "simulated-2")
	other.holds("both pods", one.Status.PodIP+":8080", two.Status.PodIP+":8080")
	f.must(api.Delete(t.Context(), one))
	other.holds("the second pod", two.Status.PodIP+":8080")
	if n := f.moves(); n != moves {
		t.Errorf("%d calls moved targets of the group that was refused", n-moves)
	}
	f.holds("what it had", one.Status.PodIP+":8080")

	patch := client.MergeFrom(binding.DeepCopy())
	f.must(unstructured.SetNestedField(binding.Object, true, "spec", "multiClusterTargetGroup"))
	f.must(api.Patch(t.Context(), binding, patch))
	f.holds("the second pod", two.Status.PodIP+":8080")
	f.must(api.Delete(t.Context(), binding))
	f.removed(a)
	f.removed(two)
}

func object(f *fixture, text string) *unstructured.Unstructured {
	f.Helper()
	out := &unstructured.Unstructured{}
	f.must(yaml.Unmarshal([]byte(text), &out.Object))
	return out
}

// moves is how many calls registered or deregistered targets of the group.
func (f *fixture) moves() (n int) {
	f.Helper()
	calls, err := f.admin.Calls(f.Context(), 0)
	f.must(err)
	for _, c := range calls {
		if c.Resource == f.arn && (c.Action == "RegisterTargets" || c.Action == "DeregisterTargets") {
			n++
		}
	}
	return n
}
