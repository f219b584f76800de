package controller

import (
	"context"
	"fmt"

	"github.com/mumoshu/ingress-daemonset-controller/internal/targets"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// bindingLists are the lists of objects that each keep the targets of one group:
// aws-load-balancer-controller's, and those of EKS Auto Mode, which has it built in
// (https://docs.aws.amazon.com/eks/latest/userguide/migrate-auto.html). Most clusters
// have neither kind.
var bindingLists = []schema.GroupVersionKind{
	{Group: "elbv2.k8s.aws", Version: "v1beta1", Kind: "TargetGroupBindingList"},
	{Group: "eks.amazonaws.com", Version: "v1", Kind: "TargetGroupBindingList"},
}

// binding is a TargetGroupBinding that has a group to itself: aws-load-balancer-controller
// deregisters from it whatever it did not register
// (https://kubernetes-sigs.github.io/aws-load-balancer-controller/latest/guide/use_cases/multi_cluster/).
type binding struct {
	// name is its namespace and name.
	name string
	// arn or group, a name, says which group it is about.
	arn, group string
}

// refusal says why nothing is done about a group, and what to change.
func (b *binding) refusal(g targets.Group) string {
	return fmt.Sprintf("target group %s belongs to TargetGroupBinding %s, whose controller removes what others register: set spec.multiClusterTargetGroup: true there, delete it, or use another group", g.Name, b.name)
}

// bindingOf is the one that has the group to itself, nil where none has.
func bindingOf(g targets.Group, all []binding) *binding {
	for i, b := range all {
		if b.arn == g.ID || b.arn == "" && b.group == g.Name && g.Balancer != targets.Classic {
			return &all[i]
		}
	}
	return nil
}

// bindingsOf are those of a list that share their group with nobody.
func bindingsOf(list *unstructured.UnstructuredList) []binding {
	var out []binding
	for i := range list.Items {
		object := &list.Items[i]
		spec, _, _ := unstructured.NestedMap(object.Object, "spec")
		if shares, _ := spec["multiClusterTargetGroup"].(bool); shares {
			continue
		}
		arn, _ := spec["targetGroupARN"].(string)
		group, _ := spec["targetGroupName"].(string)
		out = append(out, binding{object.GetNamespace() + "/" + object.GetName(), arn, group})
	}
	return out
}

// newBindings are those of the cluster, none listed yet.
func newBindings(reader client.Reader, ring func()) *listing[binding] {
	list := func(ctx context.Context) ([]binding, error) { return listBindings(ctx, reader) }
	return &listing[binding]{what: "listing the TargetGroupBindings", list: list, ring: ring}
}

// listBindings lists those of every kind that the cluster has. They are not watched,
// since a kind may come and go while the controller runs.
func listBindings(ctx context.Context, reader client.Reader) ([]binding, error) {
	var all []binding
	for _, kind := range bindingLists {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(kind)
		err := reader.List(ctx, list)
		switch {
		case err == nil:
			all = append(all, bindingsOf(list)...)
		case !meta.IsNoMatchError(err) && !apierrors.IsNotFound(err):
			return nil, err
		}
	}
	return all, nil
}
