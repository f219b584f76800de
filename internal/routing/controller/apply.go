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
func (r *Reconciler) apply(ctx context.Context, o *observed, compiled routing.Result) {
	r.secrets.want(r.compiler.WantedSecrets())
	r.commit(ctx, compiled.Changes, o.known)
	r.statuses.note(o, compiled, r.complete, r.positions)
}

// commit tells proxies of changes; at first of all there is, when that is known.
func (r *Reconciler) commit(ctx context.Context, changes []routing.Change, known bool) {
	switch {
	case r.complete:
		for _, c := range changes {
			r.commitOne(ctx, c.IngressDaemonSet, c.Changed, c.Removed)
		}
	case len(r.compiler.UnansweredSecrets()) == 0 && known:
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
		if _, told := r.positions[set]; ref.Kind == "IngressDaemonSet" && !told {
			r.commitOne(ctx, set, nil, nil)
		}
	}
	r.Server.Complete()
	r.forget()
}

// forget lets go what is kept of IngressDaemonSets that are there no more and whose proxies are told nothing.
func (r *Reconciler) forget() {
	for set := range r.positions {
		ref := routing.Ref{Kind: "IngressDaemonSet", Namespace: set.Namespace, Name: set.Name}
		if r.objects[ref] == nil && !slices.Contains(r.compiler.IngressDaemonSets(), set) {
			delete(r.positions, set)
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
	changed = r.withWithheld(set, changed, names)
	position, refusals := r.Server.Commit(set, changed, names)
	r.positions[set] = position
	log.FromContext(ctx).V(1).Info("committed", "ingressdaemonset", set, "position", position, "changed", len(changed), "removed", len(removed))
	r.withhold(set, changed, refusals)
}

// withheld are the resources of an IngressDaemonSet that its proxies cannot be told, by name on the stream.
type withheld struct {
	all map[string]refused
	// tried is when they were committed last.
	tried time.Time
}

// refused is a resource that was, and why it was so first.
type refused struct {
	wire.Resource
	reason string
}

// retryWithheld is after how long what is withheld is committed again, though nothing was removed: there may be
// thousands of them, and each change of an endpoint would encode them all.
const retryWithheld = time.Second

// withWithheld has the withheld ones after what changed, where there may be room for them by now.
func (r *Reconciler) withWithheld(set types.NamespacedName, changed []wire.Resource, removed []string) []wire.Resource {
	before := r.withheld[set]
	for _, name := range removed {
		delete(before.all, name)
	}
	if len(before.all) == 0 || len(removed) == 0 && time.Since(before.tried) < retryWithheld {
		return changed
	}
	over := map[string]bool{}
	for _, c := range changed {
		over[wire.NameOf(c)] = true
	}
	for _, name := range slices.Sorted(maps.Keys(before.all)) {
		if !over[name] {
			changed = append(changed, before.all[name].Resource)
		}
	}
	return changed
}

// withhold notes what was refused of what was committed. What was not stays withheld.
func (r *Reconciler) withhold(set types.NamespacedName, committed []wire.Resource, refusals []wire.Refusal) {
	reasons := map[string]string{}
	for _, refusal := range refusals {
		reasons[refusal.Name] = refusal.Reason
	}
	w := r.withheld[set]
	if w.all == nil {
		w.all = map[string]refused{}
	}
	for _, c := range committed {
		name := wire.NameOf(c)
		reason, is := reasons[name]
		if !is {
			delete(w.all, name)
			continue
		}
		w.all[name] = refused{c, cmp.Or(w.all[name].reason, reason)}
		w.tried = time.Now()
	}
	r.withheld[set] = w
}
