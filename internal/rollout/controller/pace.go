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

func (t *triggerQueue) add(req reconcile.Request, p *pace) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.queue != nil {
		t.queue.AddAfter(req, p.pause(req))
	}
}

// pace lets a pass rest for many times as long as it takes to observe and decide,
// so that a large fleet costs a small share of a processor however long its rollout
// takes, and a small one is not kept waiting. What counts is the processor's time: on a
// machine that is busy with others a pass takes longer, and is no more of a burden.
type pace struct {
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

func newPace(spent func() time.Duration) *pace {
	return &pace{spent: spent, took: map[reconcile.Request]time.Duration{}, reported: map[reconcile.Request]lastReport{}, began: map[reconcile.Request]bool{}}
}

// effort has the work counted that is done until what it returns is called, by the same
// goroutine and no other. That remembers what was counted where the work was all done.
func (p *pace) effort(req reconcile.Request) (end func(done bool)) {
	runtime.LockOSThread()
	begun := p.spent()
	return func(done bool) {
		took := p.spent() - begun
		runtime.UnlockOSThread()
		if done {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.took[req] = took
		}
	}
}

func (p *pace) pause(req reconcile.Request) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return min(max(pausePerEffort*p.took[req], shortestPause), longestPause)
}

// decided is whether a decision was made before.
func (p *pace) decided(req reconcile.Request) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.began[req]
}

func (p *pace) decide(req reconcile.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.began[req] = true
}

// lastReport is of the status that was last written.
func (p *pace) lastReport(req reconcile.Request) lastReport {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.reported[req]
}

func (p *pace) report(req reconcile.Request, at time.Time, version string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reported[req] = lastReport{at, version}
}

func (p *pace) forget(req reconcile.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.took, req)
	delete(p.reported, req)
	delete(p.began, req)
}
