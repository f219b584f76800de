package controller

import (
	"sync"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/internal/rollout"
)

// askAgain is how long a refusal stands: policies, quotas and webhooks change.
const askAgain = 30 * time.Second

// dryRun is what the API server said last of one revision.
type dryRun struct {
	now func() time.Time

	mu sync.Mutex
	// revision is that which was judged; empty where none was.
	revision, refusal string
	at                time.Time
}

// set notes the answer, nil where the revision was accepted.
func (d *dryRun) set(revision string, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.revision, d.refusal, d.at = revision, "", d.now()
	if err != nil {
		d.refusal = shortened(err.Error())
	}
}

// of is the answer for a revision, nothing where its refusal has stood for so long that it is worth
// another question.
func (d *dryRun) of(revision string) rollout.DryRun {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.revision != revision || d.refusal != "" && !d.now().Before(d.at.Add(askAgain)) {
		return rollout.DryRun{}
	}
	return rollout.DryRun{Done: revision != "", Refusal: d.refusal}
}

// retryAt is until when a refusal stands that was decided upon, zero where none was.
func (d *dryRun) retryAt(decided rollout.DryRun) time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	if decided.Refusal == "" {
		return time.Time{}
	}
	return d.at.Add(askAgain)
}
