package controller

import (
	"context"
	"slices"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/internal/routing"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

const (
	// conflictPause is after how long what conflicted is tried again, retryPause and longestPause bound
	// that of what failed.
	conflictPause = 100 * time.Millisecond
	retryPause    = time.Second
	longestPause  = 10 * time.Second
)

// report tells of warnings, and says when to look again.
func (r *Reconciler) report(ctx context.Context, compiled routing.Result, failed error) (again time.Time) {
	r.warn()
	again = compiled.WakeAt
	sooner := func(at time.Time) {
		if again.IsZero() || at.Before(again) {
			again = at
		}
	}
	switch {
	case failed == nil:
		r.failures = 0
	case onlyConflicts(failed):
		sooner(time.Now().Add(conflictPause))
	default:
		log.FromContext(ctx).Error(failed, "writing failed")
		sooner(time.Now().Add(min(retryPause<<min(r.failures, 10), longestPause)))
		r.failures++
	}
	return again
}

// warn makes an event of each warning, once for as long as it lasts. Who begins to lead makes them of all.
func (r *Reconciler) warn() {
	last := map[routing.Event]bool{}
	if r.leads() && r.complete {
		for _, w := range r.compiler.Warnings() {
			if last[w] = true; !r.told[w] {
				r.recorder.Eventf(r.regarding(w.Object), nil, corev1.EventTypeWarning, w.Reason, "Compile", "%s", w.Message)
			}
		}
	}
	r.told = last
}

// regarding is the object of an event, or names it where it is not there.
func (r *Reconciler) regarding(ref routing.Ref) runtime.Object {
	if object := r.objects[ref]; object != nil {
		return object
	}
	if object, answered := r.secrets.answer(ref); ref.Kind == kindSecret && answered && object != nil {
		return object
	}
	return &corev1.ObjectReference{Kind: ref.Kind, Namespace: ref.Namespace, Name: ref.Name}
}

// onlyConflicts reports whether nothing went wrong but writes to what has changed.
func onlyConflicts(err error) bool {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		return !slices.ContainsFunc(joined.Unwrap(), func(e error) bool { return !onlyConflicts(e) })
	}
	return apierrors.IsConflict(err)
}
