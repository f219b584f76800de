package controller

import (
	"sync"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/internal/rollout"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// askAgain is how long a refusal stands: policies, quotas and webhooks change.
const askAgain = 30 * time.Second

// dryRuns remembers what the API server said last of each IngressDaemonSet.
type dryRuns struct {
	now     func() time.Time
	mu      sync.Mutex
	results map[types.NamespacedName]dryRunResult
}

// dryRunResult is the answer for one revision of one object.
type dryRunResult struct {
	uid               types.UID
	revision, refusal string
	at                time.Time
}

func newDryRuns(now func() time.Time) *dryRuns {
	return &dryRuns{now: now, results: map[types.NamespacedName]dryRunResult{}}
}

func (d *dryRuns) set(o *observed, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	result := dryRunResult{uid: o.set.UID, revision: o.state.Revision, at: d.now()}
	if err != nil {
		result.refusal = shortened(err.Error())
	}
	d.results[client.ObjectKeyFromObject(o.set)] = result
}

func (d *dryRuns) get(o *observed) rollout.DryRun {
	d.mu.Lock()
	defer d.mu.Unlock()
	result, ok := d.of(o)
	return rollout.DryRun{Done: ok, Refusal: result.refusal}
}

// of is the answer for the revision that is wanted now, if there is one.
func (d *dryRuns) of(o *observed) (dryRunResult, bool) {
	result, ok := d.results[client.ObjectKeyFromObject(o.set)]
	if !ok || result.uid != o.set.UID || result.revision != o.state.Revision {
		return dryRunResult{}, false
	}
	return result, true
}

// retryAt is when a refusal is worth another question, which it then is; zero
// where there is none.
func (d *dryRuns) retryAt(o *observed) time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	result, _ := d.of(o)
	if result.refusal == "" {
		return time.Time{}
	}
	at := result.at.Add(askAgain)
	if d.now().After(at) {
		delete(d.results, client.ObjectKeyFromObject(o.set))
	}
	return at
}

func (d *dryRuns) forget(set types.NamespacedName) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.results, set)
}
