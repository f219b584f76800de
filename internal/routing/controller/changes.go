package controller

import (
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/mumoshu/ingress-daemonset-controller/internal/onepass"
	"github.com/mumoshu/ingress-daemonset-controller/internal/routing"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// changes are the objects that came, went or changed since the last pass.
type changes struct {
	mu   sync.Mutex
	refs map[routing.Ref]bool
}

func (c *changes) add(refs ...routing.Ref) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, ref := range refs {
		c.refs[ref] = true
	}
}

// take gives them, and begins anew.
func (c *changes) take() []routing.Ref {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := slices.Collect(maps.Keys(c.refs))
	clear(c.refs)
	return out
}

// handler notes what happens to objects that is of matter, and calls for a pass at once: what comes soon after is gathered
// where it is told.
func (c *changes) handler() handler.EventHandler {
	type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
	note := func(q queue, object client.Object) {
		c.add(routing.RefOf(object))
		q.Add(onepass.Everything)
	}
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, q queue) { note(q, e.Object) },
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q queue) {
			if !routing.Alike(e.ObjectOld, e.ObjectNew) {
				note(q, e.ObjectNew)
			}
		},
		DeleteFunc:  func(_ context.Context, e event.DeleteEvent, q queue) { note(q, e.Object) },
		GenericFunc: func(_ context.Context, e event.GenericEvent, q queue) { note(q, e.Object) },
	}
}
