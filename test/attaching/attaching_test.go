// Package attaching simulates the two loops that move nodes and pods in and out of load
// balancers, those of internal/targets/controller and internal/detach/controller, as they
// are: in virtual time, against an API server in memory and clouds of its own.
//
// Read world_test.go and pods_test.go, cloud_test.go and webhook_test.go: the world;
// leader_test.go, views_test.go and writes_test.go: a process of the controller, what it
// sees and what becomes of its writes; scenario_test.go and happenings_test.go: what is
// drawn; wanted_test.go, audit_test.go and rest_test.go: what must hold; then this file.
package attaching

import (
	"maps"
	"slices"
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
	many := 60
	if *draws > 0 {
		many = *draws
	}
	found, others := map[int]int{}, 0
	passes, begun := 0, time.Now()
	for draw := *first; draw < *first+many; draw++ {
		faults, n := play(t, draw)
		passes += n
		for _, fault := range faults {
			line, _, _ := strings.Cut(fault, "\n")
			e := expectedBy(fault)
			switch {
			case e == nil && !*table:
				t.Fatalf("draw %d: %s", draw, fault)
			case e == nil:
				others++
				t.Logf("draw %d: UNEXPECTED: %s", draw, line)
				continue
			case *table:
				t.Logf("draw %d: fault %d: %s", draw, e.number, line)
			}
			if _, known := found[e.number]; !known {
				found[e.number] = draw
			}
		}
	}
	if *table {
		t.Logf("%d draws, %d passes in %s; %d found something that is not expected", many, passes, time.Since(begun).Round(time.Millisecond), others)
		for _, number := range slices.Sorted(maps.Keys(found)) {
			t.Logf("fault %d: draw %d, after %d draws", number, found[number], found[number]-*first+1)
		}
	}
}

// play plays one scenario in a bubble of virtual time, and says what is amiss.
func play(t *testing.T, draw int) (faults []string, passes int) {
	s := rapid.Custom(drawScenario).Example(draw)
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(s)
		w.play()
		w.mu.Lock()
		faults, passes = w.audit.mild, w.audit.passes
		if w.audit.fault != "" {
			faults = append(faults, w.audit.fault)
		}
		close(w.over)
		for len(w.leaders) > 0 {
			w.leaders[0].end()
		}
		w.mu.Unlock()
		if *tell {
			t.Logf("draw %d: %+v\n%s", draw, s, strings.Join(w.log, "\n"))
		}
	})
	return faults, passes
}

// play is a scenario from beginning to end.
func (w *world) play() {
	w.locked(func() { w.lead(w.anySkew(w.dice("first")), 0) })
	w.run(time.Minute)
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
	if w.rest("while others are broken: %s", func() []string { return append(w.missing(), w.held()...) }) {
		return
	}
	w.locked(func() { w.heal(); w.release() })
	w.rest("at the end: %s", w.unrest)
}

func (w *world) locked(do func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	do()
}

// run lets time pass, and is whether something is amiss.
func (w *world) run(d time.Duration) bool {
	for end := time.Now().Add(d); time.Now().Before(end); {
		time.Sleep(min(10*time.Second, time.Until(end)))
		amiss := false
		if w.locked(func() { amiss = w.audit.fault != "" }); amiss {
			return true
		}
	}
	return false
}

// rest waits until nothing is left to do, and is whether something is amiss.
func (w *world) rest(format string, left func() []string) bool {
	var last []string
	for end := time.Now().Add(patience); time.Now().Before(end); {
		if w.run(10 * time.Second) {
			return true
		}
		if w.locked(func() { last = left() }); len(last) == 0 {
			return w.run(30 * time.Second)
		}
	}
	w.locked(func() { w.audit.failf(format, strings.Join(last, ", ")) })
	return true
}
