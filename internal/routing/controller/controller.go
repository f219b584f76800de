// Package controller tells proxies what to serve: it watches Ingresses, the Gateway API and what these name, has
// a routing.Compiler make resources of them, commits these to a delta.Server, and writes statuses and events.
//
// Its files, in the order in which to open them:
//
//   - controller.go: a pass from top to bottom.
//   - setup.go: what calls for a pass. changes.go: what changed since the last. cache.go: what caches keep of it.
//   - observe.go: what a pass is made from. secrets.go: Secrets, each watched by its name: no other is ever read.
//   - apply.go: what proxies are told. partly.go: who waits while not all of the Gateway API can be read.
//   - report.go: events.
//   - statuses.go: which statuses are to be written, by passes of their own. turns.go: one such pass, and when each
//     may be written again. queue.go: which is next. written.go: a status as it is to be.
//   - acknowledgements.go: how far proxies are. progress.go: what other replicas say of theirs. behind.go: how many lag.
//
// All replicas compile and serve. Only the leader writes statuses and makes events. What the Compiler remembers,
// the last good certificates, ends with the process.
package controller

import (
	"context"
	"fmt"
	"maps"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/internal/onepass"
	"github.com/mumoshu/ingress-daemonset-controller/internal/routing"
	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/delta"
	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/gatewayapi"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// FieldManager is the name under which statuses are written.
const FieldManager = "ingress-daemonset-controller-routing"

// Options say what is compiled, and for whom.
type Options struct {
	// Compile are the Compiler's.
	Compile routing.Options
	// Server is what proxies are told by.
	Server *delta.Server
	// Acknowledgements are what the Server reports.
	Acknowledgements *Acknowledgements
	// GatewayAPI are its kinds, nil for none.
	GatewayAPI *gatewayapi.Kinds
	// Leads says whether no other controller can lead at this moment; nil where there is only one.
	Leads func() bool
}

// Reconciler compiles what changed, and tells proxies of it.
type Reconciler struct {
	Options
	client   client.Client
	recorder events.EventRecorder
	compiler *routing.Compiler
	changes  *changes
	secrets  *secrets
	statuses *statuses
	// gateways are the watches of the Gateway API's kinds of which objects were read, by kind.
	gateways map[string]uint64
	// objects are those that the Compiler was told of, malformed why what it was told of some is not how they are now.
	objects   map[routing.Ref]client.Object
	malformed map[routing.Ref]string
	// listed says whether all objects were read once, at first when begun. Until complete, which is when all Secrets that
	// these name were answered for, too, or cannot be, nothing is committed: proxies would take what is missing for gone.
	listed, complete bool
	begun            time.Time
	// partly says whether that holds for IngressDaemonSets that have no Gateways: they do not wait for ever for what cannot
	// be read of the Gateway API. unknown are the kinds for which others wait, as was said last.
	partly  bool
	unknown []string
	// all says whether each for which there is something was told of it, also those that are gone and left their pods.
	all bool
	// positions are those at which the proxies of each IngressDaemonSet were told last.
	positions map[types.NamespacedName]uint64
	// withheld are resources that proxies cannot be told, by IngressDaemonSet.
	withheld map[types.NamespacedName]withheld
	// told are the warnings that were made events and that last.
	told map[routing.Event]bool
	// said is how often was said what proxies refuse.
	said said
}

// Reconcile observes, compiles, acts and reports, once, for all that changed.
func (r *Reconciler) Reconcile(ctx context.Context, _ ctrl.Request) (ctrl.Result, error) {
	o, err := r.observe(ctx)
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("observing: %w", err)
	}
	r.tell(o)
	compiled := r.compiler.Compile(o.now)
	log.FromContext(ctx).V(2).Info("compiled", "changed", len(o.there)+len(o.gone), "ingressdaemonsets", len(compiled.Changes))
	r.apply(ctx, o, compiled)
	next := onepass.Earliest(onepass.Earliest(compiled.WakeAt, r.report()), r.retryAt())
	if patient := r.begun.Add(patience); !r.complete && patient.After(o.now) {
		next = onepass.Earliest(next, patient)
	}
	return onepass.Next(next), nil
}

// tell tells the Compiler what was observed.
func (r *Reconciler) tell(o *observed) {
	for _, object := range o.there {
		ref := routing.RefOf(object)
		if ref.Kind != kindSecret {
			r.objects[ref] = object
		}
		delete(r.malformed, ref)
		r.compiler.Set(object)
	}
	for _, ref := range o.gone {
		delete(r.objects, ref)
		delete(r.malformed, ref)
		r.compiler.Delete(ref)
	}
	maps.Copy(r.malformed, o.malformed)
	for n, why := range o.unreadable {
		r.compiler.Unreadable(n, why)
	}
}

// leads reports whether no other controller can lead at this moment.
func (r *Reconciler) leads() bool { return r.Leads == nil || r.Leads() }
