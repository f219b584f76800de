package controller

import (
	"sync"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/internal/rollout"
)

// askAgain is how long a refusal stands: policies, quotas and webhooks change.
const askAgain = 30 * time.Second

// dryRuns remembers what the API server said of a revision.
type dryRuns struct {
	now     func() time.Time
	mu      sync.Mutex
	results map[string]dryRunResult
}

type dryRunResult struct {
	refusal string
	at      time.Time
}

func newDryRuns(now func() time.Time) *dryRuns {
	return &dryRuns{now: now, results: map[string]dryRunResult{}}
}

func (d *dryRuns) set(key string, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	result := dryRunResult{at: d.now()}
	if err != nil {
		result.refusal = shortened(err.Error())
	}
	d.results[key] = result
}

func (d *dryRuns) get(key string) rollout.DryRun {
	d.mu.Lock()
	defer d.mu.Unlock()
	result, ok := d.results[key]
	return rollout.DryRun{Done: ok, Refusal: result.refusal}
}

// retryAt is when a refusal is worth another question, which it then is; zero
// where there is none.
func (d *dryRuns) retryAt(key string) time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	result := d.results[key]
	if result.refusal == "" {
		return time.Time{}
	}
	at := result.at.Add(askAgain)
	if d.now().After(at) {
		delete(d.results, key)
	}
	return at
}
