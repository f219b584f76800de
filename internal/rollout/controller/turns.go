package controller

import (
	"cmp"
	"slices"

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
// whose namespace has the fewest under way or, of such, was served longest ago, and in a
// namespace it is the same among IngressDaemonSets. So whatever one namespace asks for, it keeps
// another, of which nothing is under way, waiting until one measurement ends: one time-out at most.
type turns struct {
	waiting  []queued
	underWay map[types.NamespacedName]int
	total    int
	// served is the number of the last turn of each IngressDaemonSet that is not forgotten, and of
	// each namespace, under no name. Those of namespaces stay until nobody waits: who makes
	// objects anew would otherwise come first each time.
	served map[types.NamespacedName]int
	// number is that of the last turn.
	number int
}

// queued is a measurement that is to be made.
type queued struct {
	set types.NamespacedName
	do  func()
}

func newTurns() *turns {
	return &turns{underWay: map[types.NamespacedName]int{}, served: map[types.NamespacedName]int{}}
}

// take gives who is next, and begins its turn; ok is false where nobody can be.
func (t *turns) take() (next queued, ok bool) {
	if t.total == mostMeasurements {
		return queued{}, false
	}
	first := -1
	for i, w := range t.waiting {
		if t.underWay[w.set] < mostOfOne && (first < 0 || t.before(w.set, t.waiting[first].set)) {
			first = i
		}
	}
	if first < 0 {
		return queued{}, false
	}
	next = t.waiting[first]
	t.waiting = slices.Delete(t.waiting, first, first+1)
	t.total++
	t.number++
	for _, who := range both(next.set) {
		t.underWay[who]++
		t.served[who] = t.number
	}
	return next, true
}

// before reports whether a is to be served before b, which asked earlier.
func (t *turns) before(a, b types.NamespacedName) bool {
	of, than := both(a), both(b)
	return cmp.Or(
		t.underWay[of[0]]-t.underWay[than[0]], t.served[of[0]]-t.served[than[0]],
		t.underWay[of[1]]-t.underWay[than[1]], t.served[of[1]]-t.served[than[1]],
	) < 0
}

// both are the namespace of an IngressDaemonSet, and itself.
func both(set types.NamespacedName) [2]types.NamespacedName {
	return [2]types.NamespacedName{{Namespace: set.Namespace}, set}
}

// end ends a turn.
func (t *turns) end(set types.NamespacedName) {
	t.total--
	for _, who := range both(set) {
		if t.underWay[who]--; t.underWay[who] == 0 {
			delete(t.underWay, who)
		}
	}
	t.rest()
}

// forget lets nobody wait any more who is gone. What is under way still ends, and counts.
func (t *turns) forget(set types.NamespacedName) {
	t.waiting = slices.DeleteFunc(t.waiting, func(w queued) bool { return w.set == set })
	delete(t.served, set)
	t.rest()
}

// rest forgets who was served when, where nobody waits for a turn, nor for the end of one.
func (t *turns) rest() {
	if t.total == 0 && len(t.waiting) == 0 {
		clear(t.served)
	}
}
