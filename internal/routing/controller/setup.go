package controller

import (
	"context"
	"fmt"

	"github.com/mumoshu/ingress-daemonset-controller/internal/onepass"
	"github.com/mumoshu/ingress-daemonset-controller/internal/recorder"
	"github.com/mumoshu/ingress-daemonset-controller/internal/routing"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// SetUp registers the controller with the manager, whose cache must have every Ingress, IngressClass,
// Service, EndpointSlice, Namespace, Node, IngressDaemonSet and Deployment of one. The first pass begins when it has them.
func SetUp(mgr ctrl.Manager, o Options) error {
	live, err := client.NewWithWatch(unpaced(mgr.GetConfig()), client.Options{Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(), HTTPClient: mgr.GetHTTPClient()})
	if err != nil {
		return fmt.Errorf("making a client for Secrets: %w", err)
	}
	passes, writes := onepass.Gather(0), onepass.Gather(0)
	running, stop := context.WithCancel(context.Background())
	r := New(running, o, mgr.GetClient(), live, recorder.ByNote(mgr.GetEventRecorder(FieldManager)), passes.Trigger, writes.Trigger)
	if o.Leads != nil {
		r.statuses.hearing = hearOthers
	}
	all := false
	options := onepass.Options()
	options.NeedLeaderElection = &all
	b := ctrl.NewControllerManagedBy(mgr).Named("routing").WatchesRawSource(passes.Triggered()).WithOptions(options)
	for _, w := range watched {
		b = b.Watches(w.object, r.changes.handler())
	}
	if o.GatewayAPI != nil {
		o.GatewayAPI.Listeners = append(o.GatewayAPI.Listeners, func(kind string, name types.NamespacedName) {
			if kind != "" {
				r.changes.add(routing.Ref{Kind: kind, Namespace: name.Namespace, Name: name.Name})
			}
			passes.Trigger()
		})
	}
	if err := b.Complete(r); err != nil {
		stop()
		return fmt.Errorf("setting up what proxies are told: %w", err)
	}
	err = ctrl.NewControllerManagedBy(mgr).Named("routing-statuses").WatchesRawSource(writes.Triggered()).WithOptions(options).Complete(r.statuses)
	if err != nil {
		stop()
		return fmt.Errorf("setting up the statuses of Ingresses: %w", err)
	}
	// Who begins to lead writes what is to be written.
	begin := func() {
		passes.Trigger()
		writes.Trigger()
	}
	return mgr.Add(background{elected: mgr.Elected(), trigger: begin, stop: stop})
}

// unpaced has no bound on requests in a second, see secrets.
func unpaced(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.QPS, config.RateLimiter = -1, nil
	return config
}

// background runs in every replica.
type background struct {
	elected <-chan struct{}
	trigger func()
	stop    context.CancelFunc
}

var _ manager.LeaderElectionRunnable = background{}

// NeedLeaderElection is of manager.LeaderElectionRunnable.
func (background) NeedLeaderElection() bool { return false }

// Start is of manager.Runnable.
func (b background) Start(ctx context.Context) error {
	defer b.stop()
	select {
	case <-b.elected:
		b.trigger()
		<-ctx.Done()
	case <-ctx.Done():
	}
	return nil
}

// New makes a Reconciler that calls trigger for another pass, and write for one of its statuses, and watches
// Secrets until running is done. live reads past the cache.
func New(running context.Context, o Options, c client.Client, live client.WithWatch, recorder events.EventRecorder, trigger, write func()) *Reconciler {
	noted := &changes{refs: map[routing.Ref]bool{}}
	changed := func(ref routing.Ref) {
		noted.add(ref)
		trigger()
	}
	r := &Reconciler{
		Options: o, client: c, recorder: recorder, compiler: routing.New(o.Compile), changes: noted,
		secrets: newSecrets(running, live, changed),
		objects: map[routing.Ref]client.Object{}, malformed: map[routing.Ref]string{}, gateways: map[string]uint64{},
		positions: map[types.NamespacedName]uint64{}, withheld: map[types.NamespacedName]withheld{}, said: said{},
	}
	if o.Acknowledgements == nil {
		r.Acknowledgements = NewAcknowledgements()
	}
	r.Acknowledgements.refusedChanged = trigger
	r.statuses = newStatuses(c, r.leads, write, r.Acknowledgements)
	r.statuses.raw = func(ctx context.Context, route types.NamespacedName) (*unstructured.Unstructured, error) {
		return r.GatewayAPI.Raw(ctx, "HTTPRoute", route)
	}
	return r
}
