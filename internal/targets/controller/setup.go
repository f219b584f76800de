package controller

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/targets"
	"golang.org/x/time/rate"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// gatherFor is how long events are gathered before a pass. It is a part of the time
// from a pod's address to its registration.
const gatherFor = 20 * time.Millisecond

// backoff is how long to wait after passes that failed: not long, since what is due
// meanwhile waits with it.
func backoff() workqueue.TypedRateLimiter[reconcile.Request] {
	return workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](5*time.Millisecond, 10*time.Second)
}

// all is what there is to reconcile.
var all = reconcile.Request{}

// SetUp registers the controller with the manager. Nothing is asked of the cloud
// before this process leads.
func SetUp(mgr ctrl.Manager, o Options) error {
	triggers := make(chan event.GenericEvent, 1)
	running, stop := context.WithCancel(context.Background())
	r := New(running, o, mgr.GetClient(), mgr.GetAPIReader(), mgr.GetEventRecorder(FieldManager), func() {
		select {
		case triggers <- event.GenericEvent{Object: &v1alpha1.TargetGroupAttachment{}}:
		default:
			// One is called for already.
		}
	})
	b := ctrl.NewControllerManagedBy(mgr).
		Named("targets").
		Watches(&corev1.Node{}, onePass(), nodeChanges()).
		Watches(&corev1.Pod{}, onePass()).
		Watches(&corev1.Service{}, onePass()).
		Watches(&v1alpha1.IngressDaemonSet{}, onePass(), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&v1alpha1.TargetGroupAttachment{}, onePass()).
		Watches(&v1alpha1.Attachment{}, onePass()).
		Watches(&appsv1.ControllerRevision{}, onePass()).
		WatchesRawSource(source.Channel(triggers, onePass())).
		WithOptions(controller.Options{MaxConcurrentReconciles: 1, RateLimiter: backoff()})
	if err := b.Complete(r); err != nil {
		stop()
		return fmt.Errorf("setting up the targets: %w", err)
	}
	// What runs in the background ends with what leads.
	return mgr.Add(manager.RunnableFunc(func(ctx context.Context) error {
		<-ctx.Done()
		stop()
		return nil
	}))
}

// New makes a Reconciler that calls trigger for another pass, and calls the cloud in the
// background until running is done. live reads past the cache.
func New(running context.Context, o Options, c client.Client, live client.Reader, recorder events.EventRecorder, trigger func()) *Reconciler {
	if o.Random == nil {
		o.Random = rand.Float64
	}
	if o.BackgroundRate == 0 {
		o.BackgroundRate = targets.BackgroundRate
	}
	return &Reconciler{
		Options: o, client: c, recorder: recorder, trigger: trigger, running: running,
		background: rate.NewLimiter(rate.Limit(o.BackgroundRate), max(1, int(targets.BackgroundBurst*o.BackgroundRate))),
		accounts:   map[v1alpha1.AssumeRole]*account{}, writes: newWrites(trigger),
		connections: newConnections(trigger), bindings: newBindings(live, trigger),
		caches: newCaches(c, live, trigger), answers: newAnswers(),
	}
}

// onePass gathers the events of a moment into one pass.
func onePass() handler.EventHandler {
	type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
	add := func(q queue) { q.AddAfter(all, gatherFor) }
	return handler.Funcs{
		CreateFunc:  func(_ context.Context, _ event.CreateEvent, q queue) { add(q) },
		UpdateFunc:  func(_ context.Context, _ event.UpdateEvent, q queue) { add(q) },
		DeleteFunc:  func(_ context.Context, _ event.DeleteEvent, q queue) { add(q) },
		GenericFunc: func(_ context.Context, _ event.GenericEvent, q queue) { add(q) },
	}
}

// nodeChanges leaves out all but what wants are made of.
func nodeChanges() builder.Predicates {
	return builder.WithPredicates(predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, after := e.ObjectOld.(*corev1.Node), e.ObjectNew.(*corev1.Node)
		return before.Spec.ProviderID != after.Spec.ProviderID || !equality.Semantic.DeepEqual(before.Status.Addresses, after.Status.Addresses) || !equality.Semantic.DeepEqual(before.Labels, after.Labels)
	}})
}
