// Package attaching simulates the controllers of targets and of detaching together, as they
// are: in virtual time, against an API server in memory and clouds of its own.
//
// Read world_test.go and pods_test.go, cloud_test.go, account_test.go and webhook_test.go: the world;
// leader_test.go, views_test.go and writes_test.go: a process of the controller, what it
// sees and what becomes of its writes; scenario_test.go, happenings_test.go and losses_test.go:
// what is drawn; wanted_test.go, audit_test.go, audit_nodes_test.go, audit_calls_test.go and
// rest_test.go: what must hold; then this file.
// README.md says which draws found what.
package attaching

import (
	"runtime/debug"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

// patience is how long the world may take to come to rest, each time.
const patience = 25 * time.Minute

// TestAttaching lets anything happen, and holds every write and every call against what
// must never be; when the faults end, all must be where it is wanted.
func TestAttaching(t *testing.T) {
	many := 300
	if *draws > 0 {
		many = *draws
	}
	passes, begun := 0, time.Now()
	for draw := *first; draw < *first+many; draw++ {
		p := play(t, draw, *tell)
		passes += p.passes
		if *tell {
			t.Logf("draw %d\n%s", draw, strings.Join(p.log, "\n"))
		}
		switch {
		case p.fault != "" && *all:
			t.Errorf("draw %d: %s", draw, p.fault)
		case p.fault != "":
			t.Fatalf("draw %d: %s", draw, p.fault)
		}
	}
	t.Logf("%d draws, %d passes in %s", many, passes, time.Since(begun).Round(time.Millisecond))
}

// TestPlaysTheSameTwice: a draw is a number, and what it finds can be looked at.
func TestPlaysTheSameTwice(t *testing.T) {
	for draw := *first; draw < *first+20; draw++ {
		one, other := play(t, draw, true).log, play(t, draw, true).log
		for i := range max(len(one), len(other)) {
			if i < len(one) && i < len(other) && one[i] == other[i] {
				continue
			}
			told := func(log []string) string { return strings.Join(log[max(0, i-3):min(i+1, len(log))], "\n") }
			t.Errorf("draw %d was played as\n%s\nand then as\n%s", draw, told(one), told(other))
			break
		}
	}
}

// played is what became of a draw.
type played struct {
	fault  string
	passes int
	log    []string
}

// play plays one scenario in a bubble of virtual time.
func play(t *testing.T, draw int, telling bool) (p played) {
	s := rapid.Custom(drawScenario).Example(draw)
	// What the collector of garbage interrupts goes on after what else can run.
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	synctest.Test(t, func(*testing.T) {
		w := newWorld(s, telling)
		w.play()
		w.mu.Lock()
		defer w.mu.Unlock()
		p = played{w.audit.fault, w.audit.passes, w.log}
		close(w.over)
		for len(w.leaders) > 0 {
			w.leaders[0].end()
		}
	})
	return p
}

// play is a scenario from beginning to end.
func (w *world) play() {
	w.locked(func() { w.lead(w.anySkew(w.dice("first")), 0) })
	w.run(time.Minute)
	w.locked(func() { w.closeOne(); w.lose() })
	for _, h := range w.scenario.happenings {
		if w.run(h.after + 1) {
			return
		}
		w.locked(func() { w.happen(h) })
	}
	if w.run(2 * time.Minute) {
		return
	}
	w.locked(w.calm)
	if w.rest("while others are broken", func() []string { return append(w.missing(), w.held()...) }) {
		return
	}
	w.locked(func() { w.heal(); w.release() })
	w.rest("at the end", w.unrest)
}

// closes reports whether a group is given to another namespace for a while, in one of four draws. It
// hangs on the seed, so that what the others are stays the same.
func (w *world) closes() bool { return w.scenario.seed%4 == 0 }

// closeOne has one of the groups take new targets of another namespace only, for a while.
func (w *world) closeOne() {
	if !w.closes() {
		return
	}
	seed := w.scenario.seed
	g := w.groups()[seed/4%uint64(len(w.groups()))]
	from := time.Duration(seed/100%90) * time.Second
	w.after(from, func() {
		if !w.healed {
			g.close(true)
		}
	})
	w.after(from+time.Duration(60+seed/10000%300)*time.Second, func() {
		if g.closed {
			g.close(false)
		}
	})
}

func (w *world) locked(do func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	do()
}

// run lets time pass, and reports whether something is amiss.
func (w *world) run(d time.Duration) (amiss bool) {
	for end := time.Now().Add(d); time.Now().Before(end) && !amiss; {
		time.Sleep(min(10*time.Second, time.Until(end)))
		w.locked(func() { amiss = w.audit.fault != "" })
	}
	return amiss
}

// rest waits until nothing is left to do, and reports whether something is amiss.
func (w *world) rest(when string, left func() []string) (amiss bool) {
	var last []string
	for end := time.Now().Add(patience); time.Now().Before(end); {
		if w.run(10 * time.Second) {
			return true
		}
		if w.locked(func() { last = left() }); len(last) == 0 {
			return w.run(30 * time.Second)
		}
	}
	w.locked(func() { w.audit.failf("%s: %s", when, strings.Join(last, ", ")) })
	return true
}
