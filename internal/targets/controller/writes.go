package controller

import (
	"context"
	"errors"
	"maps"
	"sync"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/internal/onepass"
	"github.com/mumoshu/ingress-daemonset-controller/internal/targets"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

const (
	// mostWrites is how many writes are under way at once.
	mostWrites = 16
	// writeTimeout is after how long a write has failed, patience how long a pass waits for
	// its writes: what one that hangs stands for waits alone.
	writeTimeout = 10 * time.Second
	patience     = time.Second
	// firstRetry and lastRetry are after how long what failed is tried again. Conflicts are
	// tried again at once, when what was written by others has been seen.
	firstRetry    = time.Second
	lastRetry     = 30 * time.Second
	conflictPause = 50 * time.Millisecond
)

// errNotYet is no failure: the object that was written comes back by its event.
var errNotYet = errors.New("the finalizer was added a moment ago")

// writes are those of the last passes that are under way, or failed, one an object.
type writes struct {
	slots chan struct{}
	// trigger calls for another pass.
	trigger func()

	mu sync.Mutex
	of map[targets.Ref]*write
}

// write is one that was begun.
type write struct {
	// done is closed when it has ended, err is how.
	done     chan struct{}
	err      error
	failures int
	retryAt  time.Time
	// late says whether the pass that began it did not wait for its end.
	late bool
}

func newWrites(trigger func()) *writes {
	return &writes{slots: make(chan struct{}, mostWrites), trigger: trigger, of: map[targets.Ref]*write{}}
}

// begin writes to an object in the background, unless a write to it is under way, or failed
// a moment ago. It returns what is to be waited for, nil where nothing was begun.
func (w *writes) begin(ctx context.Context, ref targets.Ref, do func(context.Context) error) *write {
	w.mu.Lock()
	defer w.mu.Unlock()
	before := w.of[ref]
	if before != nil && (!before.ended() || time.Now().Before(before.retryAt)) {
		return nil
	}
	one := &write{done: make(chan struct{})}
	if before != nil {
		one.failures = before.failures
	}
	w.of[ref] = one
	go func() {
		ctx, cancel := context.WithTimeout(ctx, writeTimeout)
		defer cancel()
		var err error
		select {
		case w.slots <- struct{}{}:
			err = do(ctx)
			<-w.slots
		case <-ctx.Done():
			err = ctx.Err()
		}
		if w.end(one, err, time.Now()) {
			w.trigger()
		}
	}()
	return one
}

// isUnderWay reports whether a write to an object is.
func (w *writes) isUnderWay(ref targets.Ref) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	one := w.of[ref]
	return one != nil && !one.ended()
}

func (w *write) ended() bool {
	select {
	case <-w.done:
		return true
	default:
		return false
	}
}

// end notes how a write ended, and says whether nobody waits for it any more.
func (w *writes) end(one *write, err error, now time.Time) (late bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	one.err = err
	if err == nil || harmless(err) {
		one.failures = 0
	} else {
		one.retryAt = now.Add(min(firstRetry<<min(one.failures, 10), lastRetry))
		one.failures++
	}
	close(one.done)
	return one.late
}

// wait waits for a write until ctx is done. A write that goes on after that calls for a
// pass when it ends.
func (w *writes) wait(ctx context.Context, one *write) (ended bool, err error) {
	select {
	case <-one.done:
		return true, one.err
	case <-ctx.Done():
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if one.ended() {
		return true, one.err
	}
	one.late = true
	return false, nil
}

// keep forgets the writes to objects that are not there any more, those that succeeded, and
// those that were to be tried again and are not due any more: the pass has begun all that are.
func (w *writes) keep(there map[targets.Ref]bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	maps.DeleteFunc(w.of, func(ref targets.Ref, one *write) bool {
		return one.ended() && (!there[ref] || one.failures == 0 || !now.Before(one.retryAt))
	})
}

// next is when what failed is tried again, zero for never.
func (w *writes) next() (at time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, one := range w.of {
		if one.ended() && one.failures > 0 {
			at = onepass.Earliest(at, one.retryAt)
		}
	}
	return at
}

// harmless reports whether a write failed because its object has changed, or gone, since it was
// observed: it is decided about again in any case.
func harmless(err error) bool {
	return apierrors.IsConflict(err) || apierrors.IsNotFound(err) || errors.Is(err, errNotYet)
}
