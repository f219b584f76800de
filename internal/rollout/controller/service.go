package controller

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/rollout/objects"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func (r *Reconciler) observeService(ctx context.Context, o *observed) error {
	name := o.set.Spec.ServiceName
	if name == "" {
		return nil
	}
	svc := &corev1.Service{}
	err := r.client.Get(ctx, types.NamespacedName{Namespace: o.set.Namespace, Name: name}, svc)
	switch {
	case apierrors.IsNotFound(err):
		o.fault(v1alpha1.ReasonServiceUnusable, fmt.Sprintf("Service %s does not exist: create it without a selector and with externalTrafficPolicy Local", name))
		return nil
	case err != nil:
		return fmt.Errorf("reading Service %s: %w", name, err)
	}
	if fault := objects.ServiceFault(svc); fault != "" {
		o.fault(v1alpha1.ReasonServiceUnusable, fault)
		o.unusable = true
	}
	o.service = svc
	return nil
}

// publish brings the EndpointSlices of the Service to what they should be.
func (r *Reconciler) publish(ctx context.Context, o *observed) error {
	wanted := map[string]*discoveryv1.EndpointSlice{}
	if o.service != nil {
		for _, n := range o.state.Nodes {
			marked := n.Deployment == nil || n.Marked()
			if slice := objects.EndpointSlice(o.set, o.service, n.Name, o.nodes[n.Name].pods, marked); slice != nil {
				wanted[slice.Name] = slice
			}
		}
	}
	list := &discoveryv1.EndpointSliceList{}
	if err := r.client.List(ctx, list, r.named(o)...); err != nil {
		return fmt.Errorf("listing EndpointSlices: %w", err)
	}
	published := map[string]bool{}
	for i := range list.Items {
		have := &list.Items[i]
		want := wanted[have.Name]
		published[have.Name] = controlledBy(have, o.set.UID)
		switch {
		case !controlledBy(have, o.set.UID):
		case want == nil:
			if err := r.delete(ctx, have); err != nil {
				return fmt.Errorf("deleting EndpointSlice %s: %w", have.Name, err)
			}
		case samePublication(have, want):
			delete(wanted, have.Name)
		}
	}
	if o.unusable {
		// What is published stays true, or its traffic would end; but nothing is
		// published to a Service that may be meant for something else.
		maps.DeleteFunc(wanted, func(name string, _ *discoveryv1.EndpointSlice) bool { return !published[name] })
	}
	return forEach(slices.Sorted(maps.Keys(wanted)), r.parallel, func(name string) error {
		if err := r.write(ctx, wanted[name], client.ForceOwnership); err != nil {
			return fmt.Errorf("publishing EndpointSlice %s: %w", name, err)
		}
		return nil
	})
}

func samePublication(a, b *discoveryv1.EndpointSlice) bool {
	return equality.Semantic.DeepEqual(a.Endpoints, b.Endpoints) && equality.Semantic.DeepEqual(a.Ports, b.Ports) &&
		a.Labels[discoveryv1.LabelServiceName] == b.Labels[discoveryv1.LabelServiceName]
}
