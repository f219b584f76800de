package connections

import (
	"errors"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

var noon = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

func at(seconds int) time.Time { return noon.Add(time.Duration(seconds) * time.Second) }

func TestNothingIsKnownAtFirst(t *testing.T) {
	for _, p := range newLedger([]uint16{80, 443}).report(noon) {
		if p.Unknown != errBegun.Error() || p.Open != 0 || p.QuietSeconds != 0 {
			t.Errorf("told: %+v", p)
		}
	}
}

func TestOldDumpSaysNothing(t *testing.T) {
	l := newLedger([]uint16{80})
	l.dumped(nil, at(0))
	l.dumped(nil, at(10))
	if p := l.report(at(30))[0]; p.Unknown != "" || p.QuietSeconds != 10 {
		t.Errorf("told 20 s later: %+v", p)
	}
	if p := l.report(at(36))[0]; p.Unknown != errStale.Error() || p.QuietSeconds != 0 {
		t.Errorf("told 26 s later: %+v", p)
	}
}

func TestQuietAfterALoss(t *testing.T) {
	l := newLedger([]uint16{80})
	one := connection{cookie: 1, port: 80}
	l.dumped([]connection{one}, at(0))
	l.dumped([]connection{one}, at(20))
	l.lose(errors.New("lost"))
	l.destroyed(one, at(21)) // a notice is not enough to know the rest
	if p := l.report(at(21))[0]; p.Unknown != "lost" || p.QuietSeconds != 0 || p.Open != 0 {
		t.Errorf("told of a loss: %+v", p)
	}
	l.dumped(nil, at(22))
	l.dumped(nil, at(25))
	if p := l.report(at(25))[0]; p.Unknown != "" || p.QuietSeconds != 3 {
		t.Errorf("told after a loss: %+v", p)
	}
}

// TestWhatCame: a connection counts as new where it came after a dump that was without it, and was
// not lost sight of meanwhile; an open one may be old.
func TestWhatCame(t *testing.T) {
	l := newLedger([]uint16{80})
	old, one, brief := connection{cookie: 1, port: 80}, connection{cookie: 2, port: 80}, connection{cookie: 3, port: 80}
	came := func(what string, now int, want float64) {
		t.Helper()
		got := l.report(at(now))[0].CameSeconds
		if known := got != nil; known != (want >= 0) || known && *got != want {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	l.dumped([]connection{old}, at(0))
	l.dumped([]connection{old}, at(1))
	came("only an old one", 1, -1)
	l.dumped([]connection{old, one}, at(2))
	came("one more", 2, 1)
	came("later", 5, 4)
	l.destroyed(brief, at(6))
	came("one that a dump did not show", 6, 4)
	l.lose(errors.New("lost"))
	l.destroyed(connection{cookie: 4, port: 80}, at(7))
	l.dumped([]connection{{cookie: 5, port: 80}}, at(8))
	came("one of which it is not known since when", 8, 6)
}

// TestForgets keeps no connection for ever of which no end is told, and none that
// is still there for less.
func TestForgets(t *testing.T) {
	l := newLedger([]uint16{80})
	lasting := connection{cookie: 1, port: 80}
	for i := range 10 * forgetAfter {
		l.dumped([]connection{lasting, {cookie: uint64(100 + i), port: 80}}, at(i))
	}
	if n := len(l.known); n > 2*forgetAfter+1 {
		t.Errorf("%d connections are known", n)
	}
	if _, known := l.known[lasting.cookie]; !known || l.seen != 10*forgetAfter+1 {
		t.Errorf("the lasting connection is known: %v; seen: %d", known, l.seen)
	}
}

// world is what a ledger hears of: connections with the time of their arrival, and
// when something was lost.
type world struct {
	ledger   *ledger
	now      int
	next     uint64
	open     []connection
	arrivals map[uint16][]int
	losses   []int
	dumps    []int
	lost     bool
}

func (w *world) come(port uint16) connection {
	w.next++
	c := connection{cookie: w.next, port: port}
	w.arrivals[port] = append(w.arrivals[port], w.now)
	w.open = append(w.open, c)
	return c
}

func (w *world) end(i int, told bool) {
	c := w.open[i]
	w.open = slices.Delete(w.open, i, i+1)
	if told {
		w.ledger.destroyed(c, at(w.now))
	}
}

func (w *world) lose() {
	w.losses = append(w.losses, w.now)
	w.ledger.lose(errors.New("lost"))
	w.lost = true
}

// dump takes a second, so that what comes after it has a later time.
func (w *world) dump() {
	w.dumps = append(w.dumps, w.now)
	w.ledger.dumped(w.open, at(w.now))
	w.lost = false
	w.now++
}

// settled is the first dump at or after a time.
func (w *world) settled(time int) int {
	for _, dump := range w.dumps {
		if dump >= time {
			return dump
		}
	}
	return w.now
}

// TestQuietIsTrue plays arrivals, ends, dumps and losses in any order. Of a port
// that is called quiet for a time, no connection came in that time; and it is called
// quiet for as long as can be known.
func TestQuietIsTrue(t *testing.T) {
	ports := []uint16{80, 443}
	rapid.Check(t, func(t *rapid.T) {
		w := &world{ledger: newLedger(ports), arrivals: map[uint16][]int{}}
		port := rapid.SampledFrom(ports)
		w.dump()
		t.Repeat(map[string]func(*rapid.T){
			"time passes": func(t *rapid.T) { w.now += rapid.IntRange(1, 5).Draw(t, "seconds") },
			"come":        func(t *rapid.T) { w.come(port.Draw(t, "port")) },
			"come and go": func(t *rapid.T) {
				w.come(port.Draw(t, "port"))
				w.end(len(w.open)-1, !w.lost)
			},
			"end": func(t *rapid.T) {
				if len(w.open) == 0 {
					t.Skip("none is open")
				}
				w.end(rapid.IntRange(0, len(w.open)-1).Draw(t, "which"), !w.lost)
			},
			"dump": func(*rapid.T) { w.dump() },
			"lose": func(*rapid.T) { w.lose() },
			"":     func(t *rapid.T) { w.check(t) },
		})
	})
}

func (w *world) check(t *rapid.T) {
	if w.lost {
		for _, p := range w.ledger.report(at(w.now)) {
			if p.Unknown == "" || p.Open != 0 || p.QuietSeconds != 0 {
				t.Fatalf("told after a loss: %+v", p)
			}
		}
		return
	}
	last := w.dumps[len(w.dumps)-1]
	for _, p := range w.ledger.report(at(last)) {
		quietSince := last - int(p.QuietSeconds)
		earliest := w.dumps[0]
		for _, arrival := range w.arrivals[uint16(p.Port)] {
			if arrival > quietSince && arrival <= last {
				t.Fatalf("one came at %d, and since %d it is quiet: %+v", arrival, quietSince, p)
			}
			earliest = max(earliest, w.settled(arrival))
		}
		for _, loss := range w.losses {
			if loss > quietSince && loss <= last {
				t.Fatalf("some may have come at %d, and since %d it is quiet: %+v", loss, quietSince, p)
			}
			earliest = max(earliest, w.settled(loss))
		}
		if earliest <= last && quietSince > earliest {
			t.Fatalf("it could be known quiet since %d, not only since %d: %+v", earliest, quietSince, p)
		}
	}
}
