// Package controller runs rollouts: it reads an IngressDaemonSet, its nodes and pods into a State,
// has rollout.Plan decide, carries out the steps, and reports in the status, events and metrics.
//
// Its files, in the order in which to open them:
//
//   - controller.go: a pass from top to bottom. reconciler.go: what all passes share. session.go: what is remembered of
//     one IngressDaemonSet between two of them; sessions.go: of all. setup.go: what calls for a pass.
//   - observe.go: caches become one State, of a large fleet only what changed (changes.go). observed.go: what was read.
//     node.go: what of it is one node's. stored.go: how caches are read. transform.go, intern.go: what they leave out,
//     and what their objects have in common. mutations.go: what was written and does not stand there yet.
//   - checks.go: what the nodes' health-check ports answer. seats.go: which health checkers hold ports of their nodes.
//     measurements.go: what a wave's analysis measures; turns.go: who measures next. evictions.go: which pods are taken
//     by others. replicasets.go: which pods are of an older template, where some are rejected. dryrun.go: what the API
//     server said of the present template.
//   - apply.go: steps are carried out, of parallel.go several at a time. guard.go: what must still be so before a first
//     touch. write.go: how objects are written, and deleted. live.go: what caches leave out of them.
//   - deployments.go, amend.go, revisions.go, healthcheckers.go, service.go: the steps of one kind of object each.
//   - report.go: the status, then events. metrics.go: what is counted.
//   - throttle.go: what calls for a pass beside events, and how often a large fleet is looked through, by what that
//     took (effort_linux.go). freezes.go: whether this process stood still.
package controller

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/onepass"
	"github.com/mumoshu/ingress-daemonset-controller/internal/rollout"
	"github.com/mumoshu/ingress-daemonset-controller/internal/rollout/objects"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// Reconcile observes, decides, acts and reports, once, for one IngressDaemonSet.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	set := &v1alpha1.IngressDaemonSet{}
	if err := r.client.Get(ctx, req.NamespacedName, set); err != nil {
		if apierrors.IsNotFound(err) {
			r.sessions.end(req.NamespacedName)
		}
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	set = latest(r.mutations, set)
	if set.DeletionTimestamp == nil && !controllerutil.ContainsFinalizer(set, v1alpha1.Finalizer) {
		return ctrl.Result{}, r.addFinalizer(ctx, set)
	}
	if set.DeletionTimestamp != nil && !controllerutil.ContainsFinalizer(set, v1alpha1.Finalizer) {
		// It may be there for minutes, until the garbage collector is done with what it owns.
		r.sessions.end(req.NamespacedName)
		return ctrl.Result{}, nil
	}
	s := r.sessions.pass(set)
	o, decision, took, err := r.decide(ctx, s, set)
	if o == nil || err != nil {
		return ctrl.Result{}, err
	}
	log.FromContext(ctx).V(2).Info("decided", "state", o.state, "decision", decision)
	done, failed := r.apply(ctx, o, decision.Steps)
	keepClaims(&decision.Status, o.state.Status.Wave, decision.Steps, done)
	again, err := r.report(ctx, o, decision.Status, done, took)
	err = errors.Join(failed, err)
	if onepass.OnlyConflicts(err) {
		// Something was written in between; its event may have come already.
		log.FromContext(ctx).V(1).Info("observed state was outdated", "error", err)
		return ctrl.Result{RequeueAfter: 100 * time.Millisecond}, nil
	}
	if err != nil {
		r.recorder.Eventf(o.set, nil, corev1.EventTypeWarning, "Failed", "Reconcile", "%s", shortened(err.Error()))
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: untilNext(r.now(), decision.WakeAt, again, o.lookAt, s.dryRun.retryAt(o.state.DryRun))}, nil
}

// decide observes and decides, and tells how long it took to decide. There is nothing to
// tell of a fleet of which not every health check was heard yet.
func (r *Reconciler) decide(ctx context.Context, s *session, set *v1alpha1.IngressDaemonSet) (o *observed, d rollout.Decision, took time.Duration, err error) {
	end := s.throttle.effort()
	defer func() { end(o != nil) }()
	if o, err = r.observe(ctx, s, set); err != nil {
		return nil, d, 0, fmt.Errorf("observing: %w", err)
	}
	s.evictions.of(o.reader.Nodes)
	if !s.decided && !s.checks.heardAll() {
		return nil, d, 0, nil
	}
	s.decided = true
	begun := r.now()
	d = rollout.Plan(o.state)
	return o, d, r.now().Sub(begun), nil
}

func (r *Reconciler) addFinalizer(ctx context.Context, set *v1alpha1.IngressDaemonSet) error {
	changed := set.DeepCopy()
	controllerutil.AddFinalizer(changed, v1alpha1.Finalizer)
	patch := client.MergeFromWithOptions(set, client.MergeFromWithOptimisticLock{})
	err := r.client.Patch(ctx, changed, patch, client.FieldOwner(objects.FieldManager))
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("adding the finalizer: %w", err)
	}
	r.mutations.remember(changed)
	return nil
}

// untilNext is the time from now to the earliest of the moments, 0 where all are zero.
func untilNext(now time.Time, moments ...time.Time) time.Duration {
	var next time.Duration
	for _, at := range moments {
		if at.IsZero() {
			continue
		}
		if d := max(at.Sub(now), time.Millisecond); next == 0 || d < next {
			next = d
		}
	}
	return next
}
