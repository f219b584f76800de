package controller

import (
	"context"
	"sync"
	"time"
)

// pulse tells when this process was frozen last: a beat comes late then, however long passes
// take and whatever they wait for.
type pulse struct {
	now func() time.Time

	mu           sync.Mutex
	last, thawed time.Time
}

const (
	beatEvery = time.Second
	// mostLate is how late a beat may come on a busy machine.
	mostLate = 3 * time.Second
)

func newPulse(now func() time.Time) *pulse { return &pulse{now: now} }

// beat notes that the process runs, and is when it last did so after it had been frozen; zero
// where it never was.
func (p *pulse) beat() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.now()
	if !p.last.IsZero() && now.Sub(p.last) > mostLate {
		p.thawed = now
	}
	p.last = now
	return p.thawed
}

// run beats until the context ends.
func (p *pulse) run(ctx context.Context) error {
	ticker := time.NewTicker(beatEvery)
	defer ticker.Stop()
	for {
		p.beat()
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}
