// Package controller keeps target groups as they should be: it reads pods, nodes and what is known
// of the cloud into a State, has targets.Plan decide, records that in statuses, and then registers
// and deregisters targets.
//
// Its files, in the order in which to open them:
//
//   - controller.go: a pass from top to bottom. reconciler.go: what all passes share. setup.go: what calls for one.
//   - observe.go: objects, and what is known of the cloud, become one State. caches.go: whether caches show what
//     another leader saw. answers.go: what they do not show yet of what was written.
//   - apply.go: what must be remembered is written, and calls are left to accounts. writes.go: writes that fail hold up
//     no others. told.go: what pods' drain hooks are told.
//   - cloud.go: what a cloud can be asked. account.go: calls as one role. roles.go: which may be assumed. survey.go: all
//     else that is asked of an account. listing.go: what changes seldom, and is listed at intervals. bindings.go: who has a
//     group to itself.
//   - connections.go: health checkers are asked whether traffic still comes.
//   - report.go: events. metrics.go: what is counted. idle.go: where there is no cloud, each status says so.
package controller

import (
	"context"
	"fmt"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/internal/onepass"
	"github.com/mumoshu/ingress-daemonset-controller/internal/targets"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// Reconcile observes, decides, applies and reports, once, for all groups.
func (r *Reconciler) Reconcile(ctx context.Context, _ ctrl.Request) (ctrl.Result, error) {
	o, err := r.observe(ctx)
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("observing: %w", err)
	}
	d := targets.Plan(o.state)
	r.date(ctx, o, &d)
	log.FromContext(ctx).V(2).Info("decided", "groups", len(d.Groups))
	done := r.apply(ctx, o, d)
	return onepass.Next(r.report(ctx, o, d, done)), nil
}

// date has the age of a decision count from now, and tells users where one after another took too long:
// a process that was frozen once goes on by itself.
func (r *Reconciler) date(ctx context.Context, o *observed, d *targets.Decision) {
	before, err := r.slow, d.Date(o.state.Now, time.Now())
	if r.slow = err; err == nil {
		r.tooSlow = ""
		return
	}
	log.FromContext(ctx).Error(err, "a decision came too late")
	if before != nil {
		r.tooSlow = err.Error()
	}
}
