package controller

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/internal/onepass"
	"github.com/mumoshu/ingress-daemonset-controller/internal/routing"
	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/wire"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// patience is for how long proxies wait for a Secret, and for the Gateway API where they have no Gateways.
const patience = 10 * time.Second

// apply has the Secrets watched that are named now, tells proxies, and has statuses written.
func (r *Reconciler) apply(ctx context.Context, o *observed, compiled routing.Result) {
	r.secrets.want(r.compiler.WantedSecrets())
	r.commit(ctx, o, compiled.Changes)
	r.statuses.note(o, compiled, r.complete, r.positions)
}

// commit tells proxies of changes; at first of all there is, when that is known.
func (r *Reconciler) commit(ctx context.Context, o *observed, changes []routing.Change) {
	answered := len(r.compiler.UnansweredSecrets()) == 0
	r.complete = r.complete || answered && len(o.unknown) == 0
	r.partly = r.complete || r.partly || answered && !o.now.Before(r.begun.Add(patience))
	if !r.partly {
		return
	}
	r.sayUnknown(ctx, o)
	if !r.complete && !classesKnown(o) {
		r.Server.Untold(ofGatewayAPI)
	}
	for _, c := range changes {
		if r.wasTold(c.IngressDaemonSet) {
			r.commitOne(ctx, c.IngressDaemonSet, c.Changed, c.Removed)
		}
	}
	for set, w := range r.withheld {
		if at := w.retryAt(); !at.IsZero() && !o.now.Before(at) {
			r.commitOne(ctx, set, nil, nil)
		}
	}
	begin, waiting := r.toBegin(o, changes)
	for _, set := range begin {
		r.commitOne(ctx, set, r.compiler.Resources(set), nil)
	}
	if r.complete {
		r.Server.Untold(nil)
	}
	if waiting == 0 || len(r.positions) > 0 {
		// Who can tell nobody is of use to nobody, and is not to replace a replica that can.
		r.Server.Complete()
	}
	r.forget()
}

func (r *Reconciler) wasTold(set types.NamespacedName) bool {
	_, told := r.positions[set]
	return told
}

// toBegin are the IngressDaemonSets whose proxies were told nothing yet, and are to be: also that this is all, where
// there is nothing for them; and how many more wait until all is known.
func (r *Reconciler) toBegin(o *observed, changes []routing.Change) (begin []types.NamespacedName, waiting int) {
	sets := map[types.NamespacedName]bool{}
	for ref := range r.objects {
		if ref.Kind == "IngressDaemonSet" {
			sets[types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}] = true
		}
	}
	for _, c := range changes {
		sets[c.IngressDaemonSet] = true
	}
	if !r.all {
		for _, set := range r.compiler.IngressDaemonSets() {
			sets[set] = true
		}
		r.all = r.complete
	}
	waits := func(types.NamespacedName) bool { return false }
	if !r.complete {
		waits = r.waiting(o)
	}
	for set := range sets {
		switch {
		case r.wasTold(set):
		case waits(set):
			waiting++
		default:
			begin = append(begin, set)
		}
	}
	return begin, waiting
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
	// tried is when they were committed last, changed whether something was committed without them since: there may be
	// room for them.
	tried   time.Time
	changed bool
}

// retryAt is when they are to be committed again though nothing changes, zero for never.
func (w withheld) retryAt() time.Time {
	if len(w.all) == 0 || !w.changed {
		return time.Time{}
	}
	return w.tried.Add(retryWithheld)
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
	before.changed = len(removed) == 0 && time.Since(before.tried) < retryWithheld
	r.withheld[set] = before
	if len(before.all) == 0 || before.changed {
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

// retryAt is when something is to be committed again though nothing changes, zero for never.
func (r *Reconciler) retryAt() (at time.Time) {
	for _, w := range r.withheld {
		at = onepass.Earliest(at, w.retryAt())
	}
	return at
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
