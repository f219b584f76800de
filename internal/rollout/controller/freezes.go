package controller

import (
	"context"
	"sync"
	"time"
)

// freezeDetector tells when this process was frozen last: a beat comes late then, however long passes
// take and whatever they wait for.
type freezeDetector struct {
	now func() time.Time

	mu           sync.Mutex
	last, thawed time.Time
}

const (
	beatEvery = time.Second
	// mostLate is how late a beat may come on a busy machine.
	mostLate = 3 * time.Second
)

func newFreezeDetector(now func() time.Time) *freezeDetector { return &freezeDetector{now: now} }

// beat notes that the process runs, and is when it last did so after it had been frozen; zero
// where it never was.
func (d *freezeDetector) beat() time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.now()
	if !d.last.IsZero() && now.Sub(d.last) > mostLate {
		d.thawed = now
	}
	d.last = now
	return d.thawed
}

// run beats until the context ends.
func (d *freezeDetector) run(ctx context.Context) error {
	ticker := time.NewTicker(beatEvery)
	defer ticker.Stop()
	for {
		d.beat()
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}
