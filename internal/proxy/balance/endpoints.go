package balance

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/wire"
)

// Policy is how a backend's endpoints are used.
type Policy struct {
	// MaxFails is after how many failures in a row, all within FailTimeout, an endpoint is left out for
	// FailTimeout; 0 is never.
	MaxFails    uint32
	FailTimeout time.Duration
	// Sticky says whether cookies are given out, see Cookie.
	Sticky bool
}

// Endpoint is one of a backend, and the same one for as long as its address, port and pod are.
type Endpoint[V any] struct {
	// record is nil until it fails.
	record *record
	// usable says whether it is among those that get requests.
	usable bool
	// Value is what enter gave for it, such as its connections.
	Value V
	// Cookie is what names it to clients, see Cookie; empty where the policy is not sticky.
	Cookie string

	wire.Endpoint
}

// Endpoints are those of a backend, in turn. A Set moves nobody's turn: the next one is whoever stands
// at or after the place where the next one stood.
type Endpoints[V any] struct {
	// usable are those of all that get requests, spare those that get them where no usable one does. few has the former
	// where they are so few.
	usable inTurn[V]
	few    [4]*Endpoint[V]
	spare  inTurn[V]
	// all are in the order of compare.
	all    []*Endpoint[V]
	named  map[string]*Endpoint[V]
	policy Policy
	start  uint64
	enter  func(wire.Endpoint) V
	leave  func(V)
}

// NewEndpoints has no endpoints and no policy yet. It calls enter for each that comes, and leave with what that gave
// when it goes; start is a random number, which says whose turn is first.
func NewEndpoints[V any](start uint64, enter func(wire.Endpoint) V, leave func(V)) Endpoints[V] {
	return Endpoints[V]{start: start, enter: enter, leave: leave}
}

// SetPolicy tells how endpoints are used from now on. Failures that were counted count on.
func (s *Endpoints[V]) SetPolicy(p Policy) {
	s.policy = p
	s.name()
}

// Set tells what the endpoints are now. It takes time in proportion to their number, and a little more
// where they are not in the order of address, port and pod.
func (s *Endpoints[V]) Set(now []wire.Endpoint) {
	if !slices.IsSortedFunc(now, compare) {
		now = slices.SortedFunc(slices.Values(now), compare)
	}
	turn := s.usable.turn()
	old := s.all
	s.all = make([]*Endpoint[V], 0, len(now))
	for i, e := range now {
		if i > 0 && compare(now[i-1], e) == 0 {
			continue
		}
		for len(old) > 0 && compare(old[0].Endpoint, e) < 0 {
			s.drop(old[0])
			old = old[1:]
		}
		if len(old) > 0 && compare(old[0].Endpoint, e) == 0 {
			old[0].Endpoint = e
			s.all = append(s.all, old[0])
			old = old[1:]
			continue
		}
		s.all = append(s.all, &Endpoint[V]{Endpoint: e, Value: s.enter(e)})
	}
	for _, e := range old {
		s.drop(e)
	}
	s.use(turn)
	s.name()
}

func (s *Endpoints[V]) drop(e *Endpoint[V]) {
	e.usable = false
	s.leave(e.Value)
}

// use lets the ready ones get requests, or where none is, those of which nobody knows, with those that still serve in
// reserve, or else these; first of them whoever stands at turn or after it.
func (s *Endpoints[V]) use(turn *Endpoint[V]) {
	is := func(state wire.EndpointState) bool {
		return slices.ContainsFunc(s.all, func(e *Endpoint[V]) bool { return e.State == state })
	}
	state, spare := wire.Ready, wire.Ready
	switch {
	case is(wire.Ready):
	case is(wire.Unknown):
		state, spare = wire.Unknown, wire.Terminating
	default:
		state = wire.Terminating
	}
	s.few, s.spare = [len(s.few)]*Endpoint[V]{}, inTurn[V]{}
	s.usable.all = slices.Grow(s.few[:0], len(s.all))
	for _, e := range s.all {
		e.usable = e.State == state
		switch {
		case e.usable:
			s.usable.all = append(s.usable.all, e)
		case e.State == spare:
			s.spare.all = append(s.spare.all, e)
		}
	}
	s.usable.begin(turn, s.start)
	s.spare.begin(turn, s.start)
}

// name gives each endpoint its cookie, where the policy has cookies. Of two endpoints of one pod the
// first is meant.
func (s *Endpoints[V]) name() {
	s.named = nil
	if !s.policy.Sticky {
		return
	}
	s.named = make(map[string]*Endpoint[V], len(s.all))
	for _, e := range s.all {
		if e.Cookie == "" {
			e.Cookie = Cookie(e.UID)
		}
		if s.named[e.Cookie] == nil {
			s.named[e.Cookie] = e
		}
	}
}

// All are the endpoints that there are, in order of address. They are not to be changed.
func (s *Endpoints[V]) All() []*Endpoint[V] { return s.all }

// Choose is the endpoint whose turn it is, of those that are ready or, where none is, of which nobody knows, and then of
// those that still serve; nil where there is none, or each was tried. One that was tried is not chosen; one that is left
// out for its failures only where all others are, or were tried.
func (s *Endpoints[V]) Choose(now time.Time, tried []*Endpoint[V]) *Endpoint[V] {
	at, in := s.usable.find(now, tried)
	if in || len(s.spare.all) == 0 {
		return s.usable.take(at)
	}
	other, in := s.spare.find(now, tried)
	if in || at < 0 {
		return s.spare.take(other)
	}
	return s.usable.take(at)
}

// compare orders endpoints, and finds those that are the same.
func compare(a, b wire.Endpoint) int {
	return cmp.Or(strings.Compare(a.Address, b.Address), cmp.Compare(a.Port, b.Port), strings.Compare(a.UID, b.UID))
}
