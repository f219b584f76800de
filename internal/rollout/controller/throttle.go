package controller

import (
	"context"
	"runtime"
	"sync"
	"time"

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

func (t *triggerQueue) add(req reconcile.Request, by *throttle) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.queue != nil {
		t.queue.AddAfter(req, by.pause(req))
	}
}

// throttle lets a pass rest for many times as long as it takes to observe and decide,
// so that a large fleet costs a small share of a processor however long its rollout
// takes, and a small one is not kept waiting. What counts is the processor's time: on a
// machine that is busy with others a pass takes longer, and is no more of a burden.
type throttle struct {
	// spent is how much of it the calling thread has used.
	spent    func() time.Duration
	mu       sync.Mutex
	took     map[reconcile.Request]time.Duration
	reported map[reconcile.Request]lastReport
	began    map[reconcile.Request]bool
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

func newThrottle(spent func() time.Duration) *throttle {
	return &throttle{spent: spent, took: map[reconcile.Request]time.Duration{}, reported: map[reconcile.Request]lastReport{}, began: map[reconcile.Request]bool{}}
}

// effort has the work counted that is done until what it returns is called, by the same
// goroutine and no other. That remembers what was counted where the work was all done.
func (t *throttle) effort(req reconcile.Request) (end func(done bool)) {
	runtime.LockOSThread()
	begun := t.spent()
	return func(done bool) {
		took := t.spent() - begun
		runtime.UnlockOSThread()
		if done {
			t.mu.Lock()
			defer t.mu.Unlock()
			t.took[req] = took
		}
	}
}

func (t *throttle) pause(req reconcile.Request) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	return min(max(pausePerEffort*t.took[req], shortestPause), longestPause)
}

// decided reports whether a decision was made before.
func (t *throttle) decided(req reconcile.Request) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.began[req]
}

func (t *throttle) decide(req reconcile.Request) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.began[req] = true
}

// lastReport is of the status that was last written.
func (t *throttle) lastReport(req reconcile.Request) lastReport {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.reported[req]
}

func (t *throttle) report(req reconcile.Request, at time.Time, version string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.reported[req] = lastReport{at, version}
}

func (t *throttle) forget(req reconcile.Request) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.took, req)
	delete(t.reported, req)
	delete(t.began, req)
}
