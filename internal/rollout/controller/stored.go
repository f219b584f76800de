package controller

import (
	"context"
	"fmt"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// index gives the stored objects of a kind, which can be found by namespace and,
// Deployments and pods, by node.
type index func(ctx context.Context, kind client.Object) (toolscache.Indexer, error)

// indexed is where a cache stores what it holds.
func indexed(c cache.Cache) index {
	return func(ctx context.Context, kind client.Object) (toolscache.Indexer, error) {
		informer, err := c.GetInformer(ctx, kind)
		if err != nil {
			return nil, fmt.Errorf("reading the cache: %w", err)
		}
		shared, ok := informer.(toolscache.SharedIndexInformer)
		if !ok {
			return nil, fmt.Errorf("reading the cache: %T has no index", informer)
		}
		return shared.GetIndexer(), nil
	}
}

// stored are the objects of a kind in the cache, of one namespace or, where that
// is empty, of all. They are the cache's own and must not be changed: the lists of
// the client copy each object, and copies of the pods of a large fleet were most of
// what a pass allocated.
func stored[T client.Object](ctx context.Context, in index, kind T, namespace string) ([]T, error) {
	held, err := in(ctx, kind)
	if err != nil {
		return nil, err
	}
	var objects []any
	if namespace == "" {
		objects = held.List()
	} else if objects, err = held.ByIndex(toolscache.NamespaceIndex, namespace); err != nil {
		return nil, fmt.Errorf("reading the cache: %w", err)
	}
	return typed(make([]T, 0, len(objects)), objects), nil
}

// storedAs are those of the names, of a kind without namespaces.
func storedAs[T client.Object](ctx context.Context, in index, kind T, names map[string]bool) ([]T, error) {
	held, err := in(ctx, kind)
	if err != nil {
		return nil, err
	}
	var out []T
	for name := range names {
		object, found, err := held.GetByKey(name)
		if err != nil {
			return nil, fmt.Errorf("reading the cache: %w", err)
		}
		if found {
			out = append(out, object.(T))
		}
	}
	return out, nil
}

// storedOn are those of an IngressDaemonSet on the nodes.
func storedOn[T client.Object](ctx context.Context, in index, kind T, set *v1alpha1.IngressDaemonSet, nodes map[string]bool) ([]T, error) {
	held, err := in(ctx, kind)
	if err != nil {
		return nil, err
	}
	var out []T
	for node := range nodes {
		objects, err := held.ByIndex(byNode, nodeKey(set.Namespace, v1alpha1.LabelValue(set.Name), node))
		if err != nil {
			return nil, fmt.Errorf("reading the cache: %w", err)
		}
		out = typed(out, objects)
	}
	return out, nil
}

func typed[T client.Object](to []T, objects []any) []T {
	for _, object := range objects {
		to = append(to, object.(T))
	}
	return to
}

// byNode is the index of Deployments and pods by IngressDaemonSet and node.
const byNode = "node"

func nodeKey(namespace, set, node string) string { return namespace + "/" + set + "/" + node }

var nodeIndexers = toolscache.Indexers{byNode: func(object any) ([]string, error) {
	obj := object.(client.Object)
	return []string{nodeKey(obj.GetNamespace(), obj.GetLabels()[v1alpha1.LabelName], nodeOf(obj))}, nil
}}

// setOf is the IngressDaemonSet of an object that carries its name.
func setOf(obj client.Object) types.NamespacedName {
	return types.NamespacedName{Namespace: obj.GetNamespace(), Name: obj.GetLabels()[v1alpha1.LabelName]}
}

// nodeOf is the node that a Deployment or a pod belongs to.
func nodeOf(obj client.Object) string {
	if pod, ok := obj.(*corev1.Pod); ok {
		return placeOf(pod).node
	}
	return obj.GetAnnotations()[v1alpha1.AnnotationNode]
}

// addIndexes has the cache find Deployments and pods by node. It must come before the
// cache starts.
func addIndexes(ctx context.Context, c cache.Cache) error {
	for _, kind := range []client.Object{&appsv1.Deployment{}, &corev1.Pod{}} {
		informer, err := c.GetInformer(ctx, kind, cache.BlockUntilSynced(false))
		if err == nil {
			err = informer.AddIndexers(nodeIndexers)
		}
		if err != nil {
			return fmt.Errorf("indexing %T: %w", kind, err)
		}
	}
	return nil
}

// ownerOf is the UID of the controller that owns an object, empty where none does.
func ownerOf(obj client.Object) types.UID {
	if owner := metav1.GetControllerOfNoCopy(obj); owner != nil {
		return owner.UID
	}
	return ""
}

func controlledBy(obj client.Object, owner types.UID) bool {
	for _, ref := range obj.GetOwnerReferences() {
		if ref.Controller != nil && *ref.Controller && ref.UID == owner {
			return true
		}
	}
	return false
}

// place is where a pod belongs: to which node, if any, and behind which health-check
// port where it is a health checker.
type place struct{ node, port string }

func placeOf(pod *corev1.Pod) place {
	node := pod.Annotations[v1alpha1.AnnotationNode]
	switch {
	case pod.Labels[v1alpha1.LabelHealthCheckPort] != "":
		return place{pod.Spec.NodeName, pod.Labels[v1alpha1.LabelHealthCheckPort]}
	case pod.Labels[v1alpha1.LabelNode] != v1alpha1.LabelValue(node):
		return place{}
	}
	return place{node: node}
}
