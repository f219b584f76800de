package subscription

import (
	"context"
	"math/rand/v2"
	"time"
)

// Bounds of the pause between two streams, and how often it is said that there is none.
const (
	shortestPause = 100 * time.Millisecond
	// shortPauses are as short in a row, some two seconds: so long kube-proxy may lead to a controller that has died, by
	// chance, while another is there.
	shortPauses  = 15
	longestPause = 5 * time.Second
	sayEvery     = 10 * time.Second
)

// keepStream has one stream after the other until the context ends, with a pause between them that grows
// as long as none is told anything.
func (s *Subscription) keepStream(ctx context.Context, stream func(ctx context.Context, heard func()) error) {
	for failures := 0; ; failures++ {
		err := stream(ctx, func() {
			failures = 0
			if s.noteConnected(true, nil) {
				s.options.Log.Info("a controller tells this proxy what to serve")
			}
		})
		if ctx.Err() != nil {
			return
		}
		if s.noteConnected(false, err) {
			s.options.Log.Warn("the stream from the controller ended", "error", err)
		}
		select {
		case <-time.After(pause(failures, rand.Float64())):
		case <-ctx.Done():
			return
		}
	}
}

// pause is how long to wait after that many failures in a row: it doubles after the first ones, and is drawn (from 0 to
// 1) between the half and the whole of that, so that proxies that lost the same controller come apart.
func pause(failures int, drawn float64) time.Duration {
	whole := longestPause
	// 2 * 100 ms doubled five times is more than the longest.
	if doubled := max(0, failures-shortPauses); doubled < 5 {
		whole = min(longestPause, 2*shortestPause<<doubled)
	}
	return whole/2 + time.Duration(drawn*float64(whole/2))
}

// sayLost says every ten seconds that no controller tells, for as long as none does.
func (s *Subscription) sayLost(ctx context.Context) {
	tick := time.NewTicker(sayEvery)
	defer tick.Stop()
	for {
		select {
		case now := <-tick.C:
			s.mu.Lock()
			state, why := s.state, s.lost
			s.mu.Unlock()
			if !state.Connected {
				s.options.Log.Warn("no controller tells this proxy anything, it serves what it was told last", "for", now.Sub(state.Since).Round(time.Second), "error", why)
			}
		case <-ctx.Done():
			return
		}
	}
}
