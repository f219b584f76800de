package controller

import (
	"context"

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

// bindingsOf are those of a list that share their group with nobody: the controller of one
// deregisters from it whatever it did not register
// (https://kubernetes-sigs.github.io/aws-load-balancer-controller/latest/guide/use_cases/multi_cluster/).
func bindingsOf(list *unstructured.UnstructuredList) []targets.Binding {
	var out []targets.Binding
	for i := range list.Items {
		object := &list.Items[i]
		spec, _, _ := unstructured.NestedMap(object.Object, "spec")
		if shares, _ := spec["multiClusterTargetGroup"].(bool); shares {
			continue
		}
		arn, _ := spec["targetGroupARN"].(string)
		group, _ := spec["targetGroupName"].(string)
		out = append(out, targets.Binding{Name: object.GetNamespace() + "/" + object.GetName(), ARN: arn, Group: group})
	}
	return out
}

// newBindings are those of the cluster, none listed yet.
func newBindings(reader client.Reader, trigger func()) *listing[targets.Binding] {
	list := func(ctx context.Context) ([]targets.Binding, error) { return listBindings(ctx, reader) }
	return &listing[targets.Binding]{what: "listing the TargetGroupBindings", list: list, trigger: trigger}
}

// listBindings lists those of every kind that the cluster has. They are not watched,
// since a kind may come and go while the controller runs.
func listBindings(ctx context.Context, reader client.Reader) ([]targets.Binding, error) {
	var all []targets.Binding
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
