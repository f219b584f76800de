// Package issuer keeps the authorities of package authority: it reads their Secret and ConfigMaps, writes
// what is decided, and has a certificate ready with which a controller shows proxies that it is one.
//
// Its files, in the order in which to open them:
//
//   - issuer.go: Options, and a pass from top to bottom.
//   - observe.go: what a pass is made from. All of it is read past caches: who decides by what a cache has not
//     seen yet may make a second authority.
//   - address.go: the address that proxies are told.
//   - sign.go: the certificate.
//   - apply.go: the Secret is written, or ConfigMaps by what it holds, each beside the version that was read.
//   - report.go: what people are told, and when to look again.
//   - setup.go: what calls for a pass.
//
// All replicas pass, and each has its own certificate. Only the leader writes, and makes events. What was seen
// since when stays in the process (authority.Memory): one that begins counts anew.
package issuer

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/mumoshu/ingress-daemonset-controller/internal/onepass"
	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/authority"
	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/gatewayapi"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Name is that of the Secret of authorities in the controllers' namespace, and of the ConfigMap in each
// namespace that has proxies.
const Name = "ingress-daemonset-controller-proxies"

// FieldManager is the name under which both are written.
const FieldManager = "ingress-daemonset-controller-issuer"

// Options say where controllers are.
type Options struct {
	// Namespace is that of controllers, which has the Secret and the Service.
	Namespace string
	// Service is the name of the Service that leads to the streams of all controllers: its first cluster IP
	// and its only port are the address that proxies are told.
	Service string
	// GatewayAPI are its kinds, whose classes name IngressDaemonSets; nil for none.
	GatewayAPI *gatewayapi.Kinds
	// Leads says whether no other controller can lead at this moment; nil where there is only one.
	Leads func() bool
}

// Reconciler keeps authorities, and a certificate of one of them.
type Reconciler struct {
	Options
	live     client.Reader
	writer   client.Writer
	recorder events.EventRecorder
	random   authority.Random
	// memory is that of the last decision.
	memory authority.Memory
	// certificate is what handshakes are shown, nil until somebody may sign one.
	certificate atomic.Pointer[authority.Certificate]
	// trusted are the authorities of all controllers.
	trusted atomic.Pointer[[]byte]
	// namespaces are those that have proxies, as of the last pass.
	namespaces atomic.Pointer[map[string]bool]
	// logged are the warnings that were logged and that last, told those that were made events.
	logged, told map[warning]bool
}

// Reconcile observes, decides, acts and reports, once.
func (r *Reconciler) Reconcile(ctx context.Context, _ ctrl.Request) (ctrl.Result, error) {
	o, err := r.observe(ctx)
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("observing: %w", err)
	}
	decision, err := authority.Decide(r.state(o))
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("deciding: %w", err)
	}
	r.memory = decision.Memory
	r.trusted.Store(&decision.Trusted)
	// Who opens a stream waits for no write.
	if err := r.sign(o.now, decision.Signer); err != nil {
		return ctrl.Result{}, err
	}
	failed := r.apply(ctx, o, decision)
	return onepass.Next(r.report(ctx, o, decision, failed)), nil
}

// leads reports whether no other controller can lead at this moment.
func (r *Reconciler) leads() bool { return r.Leads == nil || r.Leads() }
