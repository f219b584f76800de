// Package onepass calls for the passes of a controller each of which is over all objects at once, and says when
// what failed in one is tried again.
package onepass

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// Everything is what such a controller is asked to reconcile.
var Everything = reconcile.Request{}

// Passes are called for by the events of what a controller watches, which they handle, and by Trigger.
type Passes struct {
	handler.Funcs
	triggers chan event.GenericEvent
}

// Gather makes Passes of which each is for all events of so long a moment.
func Gather(moment time.Duration) *Passes {
	return GatherFor(func() time.Duration { return moment })
}

// GatherFor is Gather with a moment that is asked for at each event.
func GatherFor(moment func() time.Duration) *Passes {
	type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
	add := func(q queue) { q.AddAfter(Everything, moment()) }
	return &Passes{
		Funcs: handler.Funcs{
			CreateFunc:  func(_ context.Context, _ event.CreateEvent, q queue) { add(q) },
			UpdateFunc:  func(_ context.Context, _ event.UpdateEvent, q queue) { add(q) },
			DeleteFunc:  func(_ context.Context, _ event.DeleteEvent, q queue) { add(q) },
			GenericFunc: func(_ context.Context, _ event.GenericEvent, q queue) { add(q) },
		},
		triggers: make(chan event.GenericEvent, 1),
	}
}

// Trigger calls for a pass, before its time and without an event. It does not wait.
func (p *Passes) Trigger() {
	select {
	case p.triggers <- event.GenericEvent{Object: &metav1.PartialObjectMetadata{}}:
	default:
		// One is called for already.
	}
}

// Triggered is the source of the passes that Trigger calls for.
func (p *Passes) Triggered() source.Source { return source.Channel(p.triggers, p) }

// Options let one pass run at a time. After one that failed the next does not wait for long, since what is
// due meanwhile waits with it.
func Options() controller.Options {
	return controller.Options{
		MaxConcurrentReconciles: 1,
		RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](5*time.Millisecond, 10*time.Second),
	}
}
