package controller

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/onepass"
	"github.com/mumoshu/ingress-daemonset-controller/internal/recorder"
	"github.com/mumoshu/ingress-daemonset-controller/internal/targets"
	"golang.org/x/time/rate"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
)

// gatherFor is how long events are gathered before a pass. It is a part of the time
// from a pod's address to its registration.
const gatherFor = 20 * time.Millisecond

// SetUp registers the controller with the manager. Nothing is asked of the cloud
// before this process leads.
func SetUp(mgr ctrl.Manager, o Options) error {
	passes := onepass.Gather(gatherFor)
	running, stop := context.WithCancel(context.Background())
	r := New(running, o, mgr.GetClient(), mgr.GetAPIReader(), recorder.ByNote(mgr.GetEventRecorder(FieldManager)), passes.Trigger)
	b := ctrl.NewControllerManagedBy(mgr).
		Named("targets").
		Watches(&corev1.Node{}, passes, nodeChanges()).
		Watches(&corev1.Pod{}, passes).
		Watches(&corev1.Service{}, passes).
		Watches(&v1alpha1.IngressDaemonSet{}, passes, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&v1alpha1.TargetGroupAttachment{}, passes).
		Watches(&v1alpha1.Attachment{}, passes).
		Watches(&appsv1.ControllerRevision{}, passes).
		WatchesRawSource(passes.Triggered()).
		WithOptions(onepass.Options())
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

// nodeChanges leaves out all but what wants are made of.
func nodeChanges() builder.Predicates {
	return builder.WithPredicates(predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, after := e.ObjectOld.(*corev1.Node), e.ObjectNew.(*corev1.Node)
		return before.Spec.ProviderID != after.Spec.ProviderID || !equality.Semantic.DeepEqual(before.Status.Addresses, after.Status.Addresses) || !equality.Semantic.DeepEqual(before.Labels, after.Labels)
	}})
}
