package subscription

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestPause(t *testing.T) {
	for _, test := range []struct {
		failures    int
		least, most time.Duration
	}{
		{0, 100 * time.Millisecond, 200 * time.Millisecond},
		{shortPauses, 100 * time.Millisecond, 200 * time.Millisecond},
		{shortPauses + 1, 200 * time.Millisecond, 400 * time.Millisecond},
		{shortPauses + 4, 1600 * time.Millisecond, 3200 * time.Millisecond},
		{shortPauses + 5, 2500 * time.Millisecond, 5 * time.Second},
		{1 << 40, 2500 * time.Millisecond, 5 * time.Second},
	} {
		if least, most := pause(test.failures, 0), pause(test.failures, 1); least != test.least || most != test.most {
			t.Errorf("after %d failures it is from %v to %v, want from %v to %v", test.failures, least, most, test.least, test.most)
		}
	}
}

// TestReconnects: pauses grow from 100 ms to 5 s while no controller tells anything, and begin anew after
// one has.
func TestReconnects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProxy("")
		ctx, cancel := context.WithCancel(t.Context())
		var pauses []time.Duration
		last := time.Now()
		p.keepStream(ctx, func(_ context.Context, heard func()) error {
			pauses = append(pauses, time.Since(last))
			last = time.Now()
			switch len(pauses) {
			case shortPauses + 12:
				heard()
			case 2 * (shortPauses + 10):
				cancel()
			}
			return errors.New("connection refused")
		})
		for i, got := range pauses[1:] {
			failures := i
			if i > shortPauses+10 {
				failures = i - shortPauses - 11
			}
			if got < pause(failures, 0) || got > pause(failures, 1) {
				t.Errorf("pause %d is of %v, after %d failures", i, got, failures)
			}
		}
		if s := p.State(); s.Connected {
			t.Errorf("its state is %+v", s)
		}
	})
}

// TestSaysThatItIsLost: every ten seconds, with the reason, for as long as no controller tells anything.
func TestSaysThatItIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProxy("")
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		p.noteConnected(false, nil)
		go p.sayLost(ctx)
		var accepts atomic.Bool
		go p.keepStream(ctx, func(ctx context.Context, heard func()) error {
			if !accepts.Load() {
				return errors.New("connection refused")
			}
			heard()
			<-ctx.Done()
			return ctx.Err()
		})
		count := func(after time.Duration) int {
			time.Sleep(after)
			synctest.Wait()
			return len(p.logged.with("no controller tells this proxy anything"))
		}
		for i, test := range []struct {
			after time.Duration
			want  int
		}{{9 * time.Second, 0}, {2 * time.Second, 1}, {20 * time.Second, 3}} {
			if got := count(test.after); got != test.want {
				t.Errorf("at %d it was said %d times, want %d", i, got, test.want)
			}
		}
		for _, line := range p.logged.with("no controller") {
			if !strings.Contains(line, "connection refused") {
				t.Errorf("it is said without a reason: %s", line)
			}
		}
		accepts.Store(true)
		count(10 * time.Second)
		if before, after := count(0), count(time.Minute); before != after {
			t.Errorf("a controller tells, and it is said %d times more that none does", after-before)
		}
		if got := p.logged.with("a controller tells this proxy"); len(got) != 1 {
			t.Errorf("that a controller tells is said %d times", len(got))
		}
	})
}
