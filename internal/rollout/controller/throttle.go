package controller

import (
	"context"
	"runtime"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// triggerQueue lets health checks and measurements trigger a pass.
type triggerQueue struct {
	mu    sync.Mutex
	queue workqueue.TypedRateLimitingInterface[reconcile.Request]
}

func (t *triggerQueue) open(_ context.Context, q workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.queue = q
	return nil
}

// add calls for a pass after a pause.
func (t *triggerQueue) add(set types.NamespacedName, pause time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.queue != nil {
		t.queue.AddAfter(reconcile.Request{NamespacedName: set}, pause)
	}
}

// throttle lets a pass rest for many times as long as it takes to observe and decide,
// so that a large fleet costs a small share of a processor however long its rollout
// takes, and a small one is not kept waiting. What counts is the processor's time: on a
// machine that is busy with others a pass takes longer, and is no more of a burden.
type throttle struct {
	// spent is how much of it the calling thread has used.
	spent func() time.Duration

	mu       sync.Mutex
	took     time.Duration
	reported lastReport
}

// lastReport is when a status was written, and the resourceVersion that it made.
type lastReport struct {
	at      time.Time
	version string
}

// longestBackoff bounds how long a pass waits whose write failed, since what is due
// meanwhile waits with it: for other nodes too.
const longestBackoff = 10 * time.Second

// backoff is how long to wait after passes that failed.
func backoff() workqueue.TypedRateLimiter[reconcile.Request] {
	return workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](5*time.Millisecond, longestBackoff)
}

const (
	shortestPause  = 10 * time.Millisecond
	longestPause   = 3 * time.Second
	pausePerEffort = 60
)

// effort has the work counted that is done until what it returns is called, by the same
// goroutine and no other. That remembers what was counted where the work was all done.
func (t *throttle) effort() (end func(done bool)) {
	runtime.LockOSThread()
	begun := t.spent()
	return func(done bool) {
		took := t.spent() - begun
		runtime.UnlockOSThread()
		if done {
			t.mu.Lock()
			defer t.mu.Unlock()
			t.took = took
		}
	}
}

// pause is how long to rest.
func (t *throttle) pause() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	return min(max(pausePerEffort*t.took, shortestPause), longestPause)
}

// lastReport is of the status that was last written.
func (t *throttle) lastReport() lastReport {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.reported
}

// report notes that a status was written.
func (t *throttle) report(at time.Time, version string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.reported = lastReport{at, version}
}
