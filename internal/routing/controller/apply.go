package controller

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/internal/routing"
	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/wire"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// patience is how long the write of one status may take.
const patience = 10 * time.Second

// apply has the Secrets watched that are named now, tells proxies, and writes statuses. Proxies are told
// first: they wait for no write.
func (r *Reconciler) apply(ctx context.Context, compiled routing.Result) error {
	r.secrets.want(r.compiler.WantedSecrets())
	r.commit(ctx, compiled.Changes)
	return r.writeStatuses(ctx)
}

// commit tells proxies of changes; at first of all there is, when that is known.
func (r *Reconciler) commit(ctx context.Context, changes []routing.Change) {
	switch {
	case r.complete:
		for _, c := range changes {
			r.commitOne(ctx, c.IngressDaemonSet, c.Changed, c.Removed)
		}
	case len(r.compiler.UnansweredSecrets()) == 0:
		r.complete = true
		for _, set := range r.compiler.IngressDaemonSets() {
			r.commitOne(ctx, set, r.compiler.Resources(set), nil)
		}
	default:
		return
	}
	// Proxies that are told nothing have to know that this is all.
	for ref := range r.objects {
		set := types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}
		if ref.Kind == "IngressDaemonSet" && !r.begun[set] {
			r.commitOne(ctx, set, nil, nil)
		}
	}
}

func (r *Reconciler) commitOne(ctx context.Context, set types.NamespacedName, changed []wire.Resource, removed []routing.ResourceName) {
	var names []string
	for _, n := range removed {
		names = append(names, wire.FullName(n.Kind, n.Name))
	}
	r.begun[set] = true
	position, refused := r.Server.Commit(set, changed, names)
	log.FromContext(ctx).V(1).Info("committed", "ingressdaemonset", set, "position", position, "changed", len(changed), "removed", len(removed))
	for _, refusal := range refused {
		log.FromContext(ctx).Error(errors.New(refusal.Reason), "a resource cannot be told proxies", "ingressdaemonset", set, "resource", refusal.Name)
	}
}

// writeStatuses writes those that differ, where this process leads. One that fails keeps no other from it.
func (r *Reconciler) writeStatuses(ctx context.Context) error {
	var failed []error
	for _, s := range r.compiler.Statuses() {
		if !r.leads() {
			break
		}
		if err := r.writeStatus(ctx, s); err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", s.Object, err))
		}
	}
	return errors.Join(failed...)
}

// writeStatus writes beside the version that was compiled, so that no entry of somebody else is lost. That
// version is not written beside again: the cache is late.
func (r *Reconciler) writeStatus(ctx context.Context, s routing.Status) error {
	in, is := r.objects[s.Object].(*networkingv1.Ingress)
	if !is || s.Ingress == nil || r.written[s.Object] == in.ResourceVersion {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	version, next := in.ResourceVersion, in.DeepCopy()
	next.Status.LoadBalancer.Ingress = s.Ingress.LoadBalancer
	if err := r.client.Status().Update(ctx, next, client.FieldOwner(FieldManager)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("writing its status: %w", err)
	}
	r.written[s.Object] = version
	return nil
}
