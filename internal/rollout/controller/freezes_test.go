package controller

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// TestFreezes: a process was frozen where its beats stopped for long, and not where one of them
// is a little late.
func TestFreezes(t *testing.T) {
	now := start
	p := newFreezeDetector(func() time.Time { return now })
	for _, beat := range []struct {
		after  time.Duration
		thawed time.Time
	}{
		{0, time.Time{}}, {beatEvery, time.Time{}}, {mostLate, time.Time{}},
		{mostLate + time.Millisecond, start.Add(beatEvery + 2*mostLate + time.Millisecond)},
		{beatEvery, start.Add(beatEvery + 2*mostLate + time.Millisecond)},
	} {
		now = now.Add(beat.after)
		if got := p.beat(); !got.Equal(beat.thawed) {
			t.Errorf("%s after the last beat: frozen until %s, want %s", beat.after, got, beat.thawed)
		}
	}
}

// TestAProcessAtRestIsNotFrozen: while nothing is to be done for an hour the process is not taken
// for frozen.
func TestAProcessAtRestIsNotFrozen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		p := newFreezeDetector(time.Now)
		go p.run(ctx)
		time.Sleep(time.Hour)
		if thawed := p.beat(); !thawed.IsZero() {
			t.Errorf("frozen until %s", thawed)
		}
		stop()
	})
}
