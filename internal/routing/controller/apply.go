package controller

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/internal/routing"
	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/wire"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// patience is for how long proxies wait for a Secret.
const patience = 10 * time.Second

// apply has the Secrets watched that are named now, tells proxies, and has statuses written.
func (r *Reconciler) apply(ctx context.Context, compiled routing.Result) {
	r.secrets.want(r.compiler.WantedSecrets())
	r.commit(ctx, compiled.Changes)
	r.statuses.want(r.compiler.Statuses(), r.objects)
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
	r.Server.Complete()
	r.forget()
}

// forget lets go what is kept of IngressDaemonSets that are there no more and whose proxies are told nothing.
func (r *Reconciler) forget() {
	for set := range r.begun {
		ref := routing.Ref{Kind: "IngressDaemonSet", Namespace: set.Namespace, Name: set.Name}
		if r.objects[ref] == nil && !slices.Contains(r.compiler.IngressDaemonSets(), set) {
			delete(r.begun, set)
			delete(r.withheld, set)
			r.Server.Forget(set)
		}
	}
}

func (r *Reconciler) commitOne(ctx context.Context, set types.NamespacedName, changed []wire.Resource, removed []routing.ResourceName) {
	var names []string
	for _, n := range removed {
		names = append(names, wire.FullName(n.Kind, n.Name))
	}
	r.begun[set] = true
	changed = r.withWithheld(set, changed, names)
	position, refused := r.Server.Commit(set, changed, names)
	log.FromContext(ctx).V(1).Info("committed", "ingressdaemonset", set, "position", position, "changed", len(changed), "removed", len(removed))
	r.withhold(set, changed, refused)
}

// withheld is a resource that proxies cannot be told, and why it was so first.
type withheld struct {
	wire.Resource
	reason string
}

// withWithheld has the withheld ones after what changed: there may be room for them by now.
func (r *Reconciler) withWithheld(set types.NamespacedName, changed []wire.Resource, removed []string) []wire.Resource {
	over := map[string]bool{}
	for _, name := range removed {
		over[name] = true
	}
	for _, c := range changed {
		over[wire.NameOf(c)] = true
	}
	before := r.withheld[set]
	for _, name := range slices.Sorted(maps.Keys(before)) {
		if !over[name] {
			changed = append(changed, before[name].Resource)
		}
	}
	return changed
}

// withhold notes what was refused.
func (r *Reconciler) withhold(set types.NamespacedName, changed []wire.Resource, refused []wire.Refusal) {
	before, now := r.withheld[set], map[string]withheld{}
	for _, refusal := range refused {
		at := slices.IndexFunc(changed, func(c wire.Resource) bool { return wire.NameOf(c) == refusal.Name })
		now[refusal.Name] = withheld{changed[at], cmp.Or(before[refusal.Name].reason, refusal.Reason)}
	}
	r.withheld[set] = now
}
