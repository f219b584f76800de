package controller

import (
	"context"
	"fmt"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// stored are the objects of a kind in the cache, of one namespace or, where that
// is empty, of all. They are the cache's own and must not be changed: the lists of
// the client copy each object, and copies of the pods of a large fleet were most of
// what a pass allocated.
func stored[T client.Object](ctx context.Context, c cache.Cache, kind T, namespace string) ([]T, error) {
	informer, err := c.GetInformer(ctx, kind)
	if err != nil {
		return nil, fmt.Errorf("reading the cache: %w", err)
	}
	indexed, ok := informer.(toolscache.SharedIndexInformer)
	if !ok {
		return nil, fmt.Errorf("reading the cache: %T has no index", informer)
	}
	var objects []any
	if namespace == "" {
		objects = indexed.GetIndexer().List()
	} else if objects, err = indexed.GetIndexer().ByIndex(toolscache.NamespaceIndex, namespace); err != nil {
		return nil, fmt.Errorf("reading the cache: %w", err)
	}
	out := make([]T, 0, len(objects))
	for _, object := range objects {
		out = append(out, object.(T))
	}
	return out, nil
}

// named are those that carry the name of the IngressDaemonSet, in its namespace.
func named[T client.Object](ctx context.Context, r *Reconciler, o *observed, kind T) ([]T, error) {
	all, err := stored(ctx, r.cache, kind, o.set.Namespace)
	if err != nil {
		return nil, err
	}
	own, name := all[:0], v1alpha1.LabelValue(o.set.Name)
	for _, object := range all {
		if object.GetLabels()[v1alpha1.LabelName] == name {
			own = append(own, object)
		}
	}
	return own, nil
}
