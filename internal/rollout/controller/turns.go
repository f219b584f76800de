package controller

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

const (
	// mostMeasurements are made at a time, for all IngressDaemonSets together.
	mostMeasurements = 8
	// mostOfOne of them are for one IngressDaemonSet.
	mostOfOne = 2
)

// turns says which measurement is made next. The invariants: no more than mostMeasurements
// are under way, and mostOfOne of one IngressDaemonSet; of all that could begin the one does
// that would have ended first, had each begun when it was asked for and taken as long as the
// last of its IngressDaemonSet. So one that is slow keeps another waiting until a measurement
// ends, which is one time-out at most, and is itself kept waiting for no longer than it takes.
type turns struct {
	waiting  []queued
	underWay map[types.NamespacedName]int
	total    int
	// took is how long the last measurement of each took that had a turn and is not forgotten.
	took map[types.NamespacedName]time.Duration
}

// queued is a measurement that is to be made.
type queued struct {
	set   types.NamespacedName
	asked time.Time
	do    func()
}

func newTurns() *turns {
	return &turns{underWay: map[types.NamespacedName]int{}, took: map[types.NamespacedName]time.Duration{}}
}

// take gives who is next, and begins its turn; ok is false where nobody can be.
func (t *turns) take() (next queued, ok bool) {
	first := -1
	for i, w := range t.waiting {
		if t.underWay[w.set] < mostOfOne && (first < 0 || t.due(w).Before(t.due(t.waiting[first]))) {
			first = i
		}
	}
	if first < 0 || t.total == mostMeasurements {
		return queued{}, false
	}
	next = t.waiting[first]
	t.waiting = slices.Delete(t.waiting, first, first+1)
	t.underWay[next.set]++
	t.total++
	if _, known := t.took[next.set]; !known {
		t.took[next.set] = 0
	}
	return next, true
}

// due is when it would have ended.
func (t *turns) due(w queued) time.Time { return w.asked.Add(t.took[w.set]) }

// end ends a turn that took so long.
func (t *turns) end(set types.NamespacedName, took time.Duration) {
	if _, known := t.took[set]; known {
		t.took[set] = took
	}
	t.total--
	if t.underWay[set]--; t.underWay[set] == 0 {
		delete(t.underWay, set)
	}
}

// forget lets nobody wait any more who is gone. What is under way still ends.
func (t *turns) forget(set types.NamespacedName) {
	t.waiting = slices.DeleteFunc(t.waiting, func(w queued) bool { return w.set == set })
	delete(t.took, set)
}
