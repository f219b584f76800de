// Package fakeapi is a fake of an API server for tests of what controllers write, and in which
// order: each write is noted, and may be refused.
package fakeapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
)

// API reads and writes what it holds. An eviction is noted, and evicts nothing.
type API struct {
	client.WithWatch
	// Refuse is asked about each write, such as "patch Node a", "update Attachment/status a" or
	// "create Pod/eviction p"; nil refuses none.
	Refuse func(write string) error

	mu        sync.Mutex
	writes    []string
	patches   []patched
	evictions []types.UID
}

// patched is the body of a patch of an object itself.
type patched struct {
	kind string
	body map[string]any
}

// New holds some objects.
func New(t testing.TB, objects ...client.Object) *API {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme), gatewayv1.Install(scheme)); err != nil {
		t.Fatal(err)
	}
	a := &API{}
	a.WithWatch = fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).
		WithStatusSubresource(&corev1.Node{}, &corev1.Pod{}, &networkingv1.Ingress{}, &v1alpha1.TargetGroupAttachment{}, &v1alpha1.Attachment{}).
		WithStatusSubresource(&gatewayv1.GatewayClass{}, &gatewayv1.Gateway{}, &gatewayv1.HTTPRoute{}).
		WithIndex(&corev1.Pod{}, "spec.nodeName", func(o client.Object) []string { return []string{o.(*corev1.Pod).Spec.NodeName} }).
		WithInterceptorFuncs(a.noted()).Build()
	return a
}

// noted notes each write before it is made.
func (a *API) noted() interceptor.Funcs {
	return interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			return a.write("create", o, "", func() error { return c.Create(ctx, o, opts...) })
		},
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
			return a.write("update", o, "", func() error { return c.Update(ctx, o, opts...) })
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			return a.write("delete", o, "", func() error {
				if err := meant(ctx, c, o, opts); err != nil {
					return err
				}
				return c.Delete(ctx, o, opts...)
			})
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, patch client.Patch, opts ...client.PatchOption) error {
			return a.write("patch", o, "", func() error {
				if err := errors.Join(a.keep(o, patch), meantByPatch(ctx, c, o, patch)); err != nil {
					return err
				}
				return c.Patch(ctx, o, patch, opts...)
			})
		},
		SubResourceUpdate: func(ctx context.Context, c client.Client, sub string, o client.Object, opts ...client.SubResourceUpdateOption) error {
			return a.write("update", o, sub, func() error { return updateSubResource(ctx, c, sub, o, opts) })
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
			return a.write("patch", o, sub, func() error {
				if err := meantByPatch(ctx, c, o, patch); err != nil {
					return err
				}
				return c.SubResource(sub).Patch(ctx, o, patch, opts...)
			})
		},
		SubResourceCreate: func(_ context.Context, _ client.Client, sub string, o, body client.Object, _ ...client.SubResourceCreateOption) error {
			return a.write("create", o, sub, func() error { return a.evict(body) })
		},
	}
}

// updateSubResource takes the annotations of an Ingress with its status, as the API server does; the client
// beneath takes none.
func updateSubResource(ctx context.Context, c client.Client, sub string, o client.Object, opts []client.SubResourceUpdateOption) error {
	annotations := o.GetAnnotations()
	err := c.SubResource(sub).Update(ctx, o, opts...)
	if _, is := o.(*networkingv1.Ingress); !is || err != nil || maps.Equal(annotations, o.GetAnnotations()) {
		return err
	}
	o.SetAnnotations(annotations)
	return c.Update(ctx, o)
}

// write notes a write, and makes it unless it is refused.
func (a *API) write(verb string, o client.Object, sub string, do func() error) error {
	kind := reflect.TypeOf(o).Elem().Name()
	if untyped, is := o.(*unstructured.Unstructured); is {
		kind = untyped.GetKind()
	}
	if sub != "" {
		kind += "/" + sub
	}
	what := fmt.Sprintf("%s %s %s", verb, kind, o.GetName())
	a.mu.Lock()
	a.writes = append(a.writes, what)
	a.mu.Unlock()
	if a.Refuse != nil {
		if err := a.Refuse(what); err != nil {
			return err
		}
	}
	return do()
}

// meant is an error where a deletion is bound to another object of the name, as the API server
// answers; the client beneath deletes any.
func meant(ctx context.Context, c client.Reader, o client.Object, opts []client.DeleteOption) error {
	p := (&client.DeleteOptions{}).ApplyOptions(opts).Preconditions
	if p == nil || p.UID == nil {
		return nil
	}
	return hasUID(ctx, c, o, *p.UID)
}

// meantByPatch is the same of a patch, whose body may name the object's UID.
func meantByPatch(ctx context.Context, c client.Reader, o client.Object, patch client.Patch) error {
	data, err := patch.Data(o)
	if err != nil {
		return err
	}
	body := struct {
		Metadata struct{ UID types.UID }
	}{}
	if err := json.Unmarshal(data, &body); err != nil || body.Metadata.UID == "" {
		return err
	}
	return hasUID(ctx, c, o, body.Metadata.UID)
}

// hasUID is an error where the object of the name has another UID.
func hasUID(ctx context.Context, c client.Reader, o client.Object, uid types.UID) error {
	there := o.DeepCopyObject().(client.Object)
	if err := c.Get(ctx, client.ObjectKeyFromObject(o), there); err != nil {
		return err
	}
	if there.GetUID() != uid {
		return apierrors.NewConflict(schema.GroupResource{}, o.GetName(), errors.New("the UID differs"))
	}
	return nil
}

// keep keeps the body of a patch.
func (a *API) keep(o client.Object, patch client.Patch) error {
	data, err := patch.Data(o)
	if err != nil {
		return err
	}
	body := map[string]any{}
	if err := json.Unmarshal(data, &body); err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.patches = append(a.patches, patched{reflect.TypeOf(o).Elem().Name(), body})
	return nil
}

func (a *API) evict(body client.Object) error {
	e, ok := body.(*policyv1.Eviction)
	if !ok {
		return fmt.Errorf("%T is no eviction", body)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if e.DeleteOptions != nil && e.DeleteOptions.Preconditions != nil && e.DeleteOptions.Preconditions.UID != nil {
		a.evictions = append(a.evictions, *e.DeleteOptions.Preconditions.UID)
	}
	return nil
}

// Writes are what was written, or was to be, in order.
func (a *API) Writes() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.writes)
}

// Patches are those of a kind that were made.
func (a *API) Patches(kind string) (bodies []map[string]any) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, p := range a.patches {
		if p.kind == kind {
			bodies = append(bodies, p.body)
		}
	}
	return bodies
}

// Evictions are the UIDs that evictions were bound to.
func (a *API) Evictions() []types.UID {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.evictions)
}
