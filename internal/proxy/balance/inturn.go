package balance

import (
	"slices"
	"time"
)

// inTurn are endpoints that get requests one after the other, in the order of compare.
type inTurn[V any] struct {
	all []*Endpoint[V]
	// next is the index of whose turn it is.
	next int
}

// turn is the endpoint whose turn it is, nil where there is none.
func (s *inTurn[V]) turn() *Endpoint[V] {
	if len(s.all) == 0 {
		return nil
	}
	return s.all[s.next]
}

// begin gives the turn to whoever stands at an endpoint or after it, or where that is nil, to one by a random number.
func (s *inTurn[V]) begin(at *Endpoint[V], random uint64) {
	switch {
	case len(s.all) == 0:
		s.next = 0
	case at == nil:
		s.next = int(random % uint64(len(s.all)))
	default:
		next, _ := slices.BinarySearchFunc(s.all, at, func(a, b *Endpoint[V]) int { return compare(a.Endpoint, b.Endpoint) })
		s.next = next % len(s.all)
	}
}

// find is the index of the first that was not tried and is not left out for its failures, or else of the first that was
// not tried, negative where each was. in says which.
func (s *inTurn[V]) find(now time.Time, tried []*Endpoint[V]) (at int, in bool) {
	out := -1
	for i := range s.all {
		at := s.next + i
		if at >= len(s.all) {
			at -= len(s.all)
		}
		switch e := s.all[at]; {
		case slices.Contains(tried, e):
		case !e.record.isOut(now):
			return at, true
		case out < 0:
			out = at
		}
	}
	return out, false
}

// take is the one at that index, nil where it is negative, and gives the turn to whoever comes next.
func (s *inTurn[V]) take(at int) *Endpoint[V] {
	if at < 0 {
		return nil
	}
	if s.next = at + 1; s.next == len(s.all) {
		s.next = 0
	}
	return s.all[at]
}
