package controller

import (
	"cmp"
	"container/heap"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/internal/routing"
)

// queue has the statuses that may be written in the order of their turns. There may be tens of thousands: who comes, goes
// or is next is found without a look at the others.
type queue struct {
	all map[routing.Ref]*queued
	// later are those whose time has not come, the next first. Others are in the lines of their namespaces, of which ready
	// has first the one whose turn it is.
	later heaped[*queued]
	lines map[string]*line
	ready heaped[*line]
}

// queued is a status in the queue.
type queued struct {
	ref  routing.Ref
	from time.Time
	// change is which one made it due.
	change uint64
	// in is its line, nil until its time has come.
	in *line
	at int
}

func (q *queued) place() *int { return &q.at }

// line has those of a namespace, the next first.
type line struct {
	heaped[*queued]
	namespace string
	at        int
}

func (l *line) place() *int { return &l.at }

// newQueue has nobody in it. last are the turns that namespaces had last.
func newQueue(last map[string]uint64) *queue {
	return &queue{
		all: map[routing.Ref]*queued{}, lines: map[string]*line{},
		later: heaped[*queued]{before: func(a, b *queued) bool { return a.from.Before(b.from) }},
		ready: heaped[*line]{before: func(a, b *line) bool {
			return cmp.Or(cmp.Compare(last[a.namespace], last[b.namespace]), cmp.Compare(a.namespace, b.namespace)) < 0
		}},
	}
}

// before says which of two of a namespace is written first.
func before(a, b *queued) bool {
	kind := func(q *queued) int {
		if q.ref.Kind == "Gateway" {
			return 0
		}
		return 1
	}
	return cmp.Or(cmp.Compare(kind(a), kind(b)), cmp.Compare(a.change, b.change)) < 0
}

// put has one written from a time on.
func (q *queue) put(ref routing.Ref, from time.Time, change uint64) {
	q.drop(ref)
	q.all[ref] = &queued{ref: ref, from: from, change: change}
	heap.Push(&q.later, q.all[ref])
}

// drop has one written no more.
func (q *queue) drop(ref routing.Ref) {
	one := q.all[ref]
	if one == nil {
		return
	}
	delete(q.all, ref)
	if one.in == nil {
		heap.Remove(&q.later, one.at)
		return
	}
	if heap.Remove(one.in, one.at); one.in.Len() == 0 {
		delete(q.lines, one.in.namespace)
		heap.Remove(&q.ready, one.in.at)
	}
}

// next is the one whose turn it is. from says from when on one may be written, which may be later by now than it was.
func (q *queue) next(now time.Time, from func(routing.Ref) time.Time) (ref routing.Ref, is bool) {
	for q.lineUp(now); q.ready.Len() > 0; {
		next := q.ready.all[0].all[0]
		at := from(next.ref)
		if !at.After(now) {
			return next.ref, true
		}
		q.put(next.ref, at, next.change)
	}
	return ref, false
}

// lineUp has those whose time has come in the lines of their namespaces.
func (q *queue) lineUp(now time.Time) {
	for q.later.Len() > 0 && !q.later.all[0].from.After(now) {
		one := heap.Pop(&q.later).(*queued)
		one.in = q.lines[one.ref.Namespace]
		if one.in == nil {
			one.in = &line{heaped: heaped[*queued]{before: before}, namespace: one.ref.Namespace}
			q.lines[one.ref.Namespace] = one.in
			heap.Push(&q.ready, one.in)
		}
		heap.Push(one.in, one)
	}
}

// had has a namespace that had its turn behind others.
func (q *queue) had(namespace string) {
	if l := q.lines[namespace]; l != nil {
		heap.Fix(&q.ready, l.at)
	}
}

// first is from when on the next may be written, zero where there is none.
func (q *queue) first(now time.Time) time.Time {
	switch {
	case q.ready.Len() > 0:
		return now
	case q.later.Len() > 0:
		return q.later.all[0].from
	}
	return time.Time{}
}

// heaped is a heap of what has a note of its place in it.
type heaped[T interface{ place() *int }] struct {
	all    []T
	before func(a, b T) bool
}

func (h *heaped[T]) Len() int           { return len(h.all) }
func (h *heaped[T]) Less(i, j int) bool { return h.before(h.all[i], h.all[j]) }

func (h *heaped[T]) Swap(i, j int) {
	h.all[i], h.all[j] = h.all[j], h.all[i]
	*h.all[i].place(), *h.all[j].place() = i, j
}

func (h *heaped[T]) Push(x any) {
	one := x.(T)
	*one.place() = len(h.all)
	h.all = append(h.all, one)
}

func (h *heaped[T]) Pop() any {
	last := len(h.all) - 1
	one := h.all[last]
	clear(h.all[last:])
	h.all = h.all[:last]
	return one
}
