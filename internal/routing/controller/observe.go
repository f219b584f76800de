package controller

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/routing"
	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/gatewayapi"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const kindSecret = "Secret"

// watched are the kinds that are watched as a whole, with their lists.
var watched = map[string]struct {
	object client.Object
	list   client.ObjectList
}{
	"IngressClass":     {&networkingv1.IngressClass{}, &networkingv1.IngressClassList{}},
	"Ingress":          {&networkingv1.Ingress{}, &networkingv1.IngressList{}},
	"Service":          {&corev1.Service{}, &corev1.ServiceList{}},
	"EndpointSlice":    {&discoveryv1.EndpointSlice{}, &discoveryv1.EndpointSliceList{}},
	"Namespace":        {&corev1.Namespace{}, &corev1.NamespaceList{}},
	"Node":             {&corev1.Node{}, &corev1.NodeList{}},
	"Deployment":       {&appsv1.Deployment{}, &appsv1.DeploymentList{}},
	"IngressDaemonSet": {&v1alpha1.IngressDaemonSet{}, &v1alpha1.IngressDaemonSetList{}},
}

// observed is what changed since the pass before: as it is now, or that it is gone.
type observed struct {
	now time.Time
	// unknown are the kinds of the Gateway API of which not all was known before the changes were taken: what came later is
	// for the next pass.
	unknown []string
	there   []client.Object
	gone    []routing.Ref
	// malformed are those that cannot be read as they are now, and why: what was read of them before counts.
	malformed map[routing.Ref]string
	// unreadable are Secrets of which nobody can tell how they are, and why.
	unreadable map[types.NamespacedName]string
}

func (o *observed) add(ref routing.Ref, object client.Object) {
	if object == nil {
		o.gone = append(o.gone, ref)
	} else {
		o.there = append(o.there, object)
	}
}

// observe reads what changed; at first all there is, because it is not told of all one by one. What could be read
// counts for nothing where something could not: the Compiler is told of all of it, or the next pass reads it again.
func (r *Reconciler) observe(ctx context.Context) (*observed, error) {
	o := &observed{now: time.Now(), malformed: map[routing.Ref]string{}, unreadable: map[types.NamespacedName]string{}}
	if r.GatewayAPI != nil {
		o.unknown = r.GatewayAPI.Unknown()
	}
	changed := append(r.changes.take(), r.rewatched()...)
	if err := r.read(ctx, o, changed); err != nil {
		r.changes.add(changed...)
		return nil, err
	}
	if !r.listed {
		r.listed, r.begun = true, o.now
	}
	for _, object := range o.there {
		if secret, is := object.(*corev1.Secret); is {
			r.secrets.told(secret)
		}
	}
	return o, nil
}

func (r *Reconciler) read(ctx context.Context, o *observed, changed []routing.Ref) error {
	if !r.listed {
		if err := r.listAll(ctx, o); err != nil {
			return err
		}
	}
	for _, ref := range changed {
		if ref.Kind == kindSecret {
			r.secrets.observe(ref, o)
			continue
		}
		object, err := r.get(ctx, ref)
		malformed := gatewayapi.Malformed{}
		switch {
		case errors.Is(err, errLater):
			r.changes.add(ref)
		case errors.As(err, &malformed):
			o.malformed[ref] = malformed.Error()
		case apierrors.IsNotFound(err):
			o.add(ref, nil)
		case err != nil:
			return fmt.Errorf("reading %s: %w", ref, err)
		default:
			o.add(ref, object)
		}
	}
	return nil
}

// errLater is that an object cannot be read yet: there is another pass when it can.
var errLater = errors.New("its kind is not synced")

// get reads an object as it is now, nil where there is none of its kind.
func (r *Reconciler) get(ctx context.Context, ref routing.Ref) (client.Object, error) {
	name := types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}
	if w, always := watched[ref.Kind]; always {
		object := w.object.DeepCopyObject().(client.Object)
		return object, r.client.Get(ctx, name, object)
	}
	switch watch, synced := r.GatewayAPI.Watched(ref.Kind); {
	case watch == 0:
		return nil, nil
	case !synced:
		return nil, errLater
	}
	object, err := r.GatewayAPI.Get(ctx, ref.Kind, name)
	var removed *cache.ErrResourceNotCached
	if errors.As(err, &removed) {
		// Its kind was, a moment ago: the next pass is told.
		return nil, errLater
	}
	return object, err
}

// rewatched are the objects of kinds of the Gateway API that were removed, or removed and installed anew, since the
// pass before: nobody says of each that it is gone.
func (r *Reconciler) rewatched() (out []routing.Ref) {
	if r.GatewayAPI == nil {
		return nil
	}
	for _, kind := range gatewayapi.Names {
		watch, synced := r.GatewayAPI.Watched(kind)
		if watch == r.gateways[kind] || watch != 0 && !synced {
			continue
		}
		r.gateways[kind] = watch
		for ref := range r.objects {
			if ref.Kind == kind {
				out = append(out, ref)
			}
		}
		for ref := range r.malformed {
			if ref.Kind == kind {
				out = append(out, ref)
			}
		}
	}
	return out
}

func (r *Reconciler) listAll(ctx context.Context, o *observed) error {
	for kind, w := range watched {
		list := w.list.DeepCopyObject().(client.ObjectList)
		if err := r.client.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
			return fmt.Errorf("listing every %s: %w", kind, err)
		}
		err := meta.EachListItem(list, func(item runtime.Object) error {
			o.there = append(o.there, item.(client.Object))
			return nil
		})
		if err != nil {
			return fmt.Errorf("reading the list of every %s: %w", kind, err)
		}
	}
	return nil
}
