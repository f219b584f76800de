package onepass

import (
	"context"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

const (
	// conflictPause is after how long what conflicted is tried again, retryPause and longestPause bound
	// that of what failed.
	conflictPause = 100 * time.Millisecond
	retryPause    = time.Second
	longestPause  = 10 * time.Second
)

// Retries say when what failed in a pass is tried again.
type Retries struct {
	// failures is how many passes in a row failed.
	failures int
}

// Next is how a pass ends after which another is due at a time, zero for never.
func Next(at time.Time) reconcile.Result {
	if at.IsZero() {
		return reconcile.Result{}
	}
	return reconcile.Result{RequeueAfter: max(time.Until(at), time.Millisecond)}
}

// Again is when the next pass is due: when it is anyway, zero for never, or sooner where this one failed.
// Nothing that is due waits for what failed.
func (r *Retries) Again(ctx context.Context, due time.Time, failed error) time.Time {
	if failed == nil {
		r.failures = 0
		return due
	}
	if !OnlyConflicts(failed) {
		log.FromContext(ctx).Error(failed, "writing failed")
	}
	return Earliest(due, time.Now().Add(r.Pause(failed)))
}

// Earliest is the earlier of two moments, of which either may be zero for never.
func Earliest(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// Pause is after how long what failed is tried again.
func (r *Retries) Pause(failed error) time.Duration {
	if OnlyConflicts(failed) {
		return conflictPause
	}
	r.failures++
	return min(retryPause<<min(r.failures-1, 10), longestPause)
}

// OnlyConflicts reports whether nothing went wrong but writes guarded by an outdated resourceVersion or UID.
func OnlyConflicts(err error) bool {
	if joined, is := err.(interface{ Unwrap() []error }); is {
		return !slices.ContainsFunc(joined.Unwrap(), func(e error) bool { return !OnlyConflicts(e) })
	}
	// A patch with another UID is taken for an attempt to change it.
	cause, _ := apierrors.StatusCause(err, metav1.CauseTypeFieldValueInvalid)
	return apierrors.IsConflict(err) || cause.Field == "metadata.uid"
}
