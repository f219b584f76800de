// Package controller detaches nodes from their load balancers and attaches them again: it reads
// Nodes, Attachments and pods into a State, has detach.Plan decide, writes Attachments, and answers
// on the Nodes.
//
// Its files, in the order in which to open them:
//
//   - controller.go: a pass from top to bottom. reconciler.go: what all passes share. setup.go: what calls for one.
//   - observe.go: Nodes, Attachments and pods become one State.
//   - apply.go: what is written, and which pods are stopped. guard.go: what must still be so before. stops.go: which
//     pods may be stopped again, and when. webhooks.go: other load balancers are asked.
//   - report.go: events and metrics.
package controller

import (
	"context"
	"fmt"

	"github.com/mumoshu/ingress-daemonset-controller/internal/detach"
	"github.com/mumoshu/ingress-daemonset-controller/internal/onepass"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// Reconcile observes, decides, acts and reports, once, for all nodes.
func (r *Reconciler) Reconcile(ctx context.Context, _ ctrl.Request) (ctrl.Result, error) {
	o, err := r.observe(ctx)
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("observing: %w", err)
	}
	d := detach.Plan(o.state)
	log.FromContext(ctx).V(2).Info("decided", "state", o.state, "decision", d)
	failed := r.apply(ctx, o, d)
	return onepass.Next(r.report(ctx, o, d, failed)), nil
}
