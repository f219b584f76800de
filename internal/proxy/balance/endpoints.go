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
	// usable says whether it is among those that get requests, spare whether it does where they do not serve.
	usable, spare bool
	// wasReady says whether it was ready once.
	wasReady bool
	// Value is what enter gave for it, such as its connections.
	Value V
	// Cookie is what names it to clients, see Cookie; empty where the policy is not sticky.
	Cookie string

	wire.Endpoint
}

// Endpoints are those of a backend, in turn. A Set moves nobody's turn: the next one is whoever stands
// at or after the place where the next one stood.
type Endpoints[V any] struct {
	// usable are those of all that get requests, spare those that get them where these do not serve, see Choose. few has
	// the former where they are so few.
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
	for _, e := range s.all {
		e.wasReady = e.wasReady || e.State == wire.Ready
	}
	s.use()
	s.name()
}

func (s *Endpoints[V]) drop(e *Endpoint[V]) {
	e.usable, e.spare = false, false
	s.leave(e.Value)
}

// rank orders endpoints by how likely they are to serve on, the best first.
type rank int

const (
	isReady rank = iota
	// mayBeReady are those of which nobody knows more than that they were.
	mayBeReady
	ends
	// mayBeginYet are those of which it is not known that they ever were.
	mayBeginYet
	noRank
)

func (e *Endpoint[V]) rank() rank {
	switch {
	case e.State == wire.Ready:
		return isReady
	case e.State == wire.Unknown && e.wasReady:
		return mayBeReady
	case e.State == wire.Terminating:
		return ends
	}
	return mayBeginYet
}

// use lets those of the best rank get requests. Where they are not ready those of the next rank are spare. The turn is
// whose it was, or of whoever stands after that one.
func (s *Endpoints[V]) use() {
	turn, spareTurn := s.usable.turn(), s.spare.turn()
	best, next := s.ranks()
	s.few, s.spare = [len(s.few)]*Endpoint[V]{}, inTurn[V]{}
	s.usable.all = slices.Grow(s.few[:0], len(s.all))
	for _, e := range s.all {
		rank := e.rank()
		e.usable, e.spare = rank == best, rank == next && best != isReady
		switch {
		case e.usable:
			s.usable.all = append(s.usable.all, e)
		case e.spare:
			s.spare.all = append(s.spare.all, e)
		}
	}
	s.usable.begin(turn, s.start)
	s.spare.begin(cmp.Or(spareTurn, turn), s.start)
}

// ranks are the best that there is, and the next one.
func (s *Endpoints[V]) ranks() (best, next rank) {
	best, next = noRank, noRank
	for _, e := range s.all {
		switch rank := e.rank(); {
		case rank < best:
			best, next = rank, best
		case best < rank && rank < next:
			next = rank
		}
	}
	return best, next
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
			// Whoever has no pod is known by its address.
			e.Cookie = Cookie(cmp.Or(e.UID, e.Address))
		}
		if s.named[e.Cookie] == nil {
			s.named[e.Cookie] = e
		}
	}
}

// All are the endpoints that there are, in order of address. They are not to be changed.
func (s *Endpoints[V]) All() []*Endpoint[V] { return s.all }

// Choose is the endpoint whose turn it is of those of the best rank; nil where there is none, or each was tried. Where
// these are not ready and all are left out for their failures or were tried, it is one of the spare ones; of those that
// end also where one was tried, because many that do not answer would take all the time that a request has. One that was
// tried is not chosen; one that is left out only where all others are, or were tried.
func (s *Endpoints[V]) Choose(now time.Time, tried []*Endpoint[V]) *Endpoint[V] {
	at, in := s.usable.find(now, tried)
	if len(s.spare.all) == 0 || in && !s.gaveUp(tried) {
		return s.usable.take(at)
	}
	other, otherIn := s.spare.find(now, tried)
	if otherIn || at < 0 {
		return s.spare.take(other)
	}
	return s.usable.take(at)
}

// gaveUp reports whether one was tried of which nobody knows, where others still serve.
func (s *Endpoints[V]) gaveUp(tried []*Endpoint[V]) bool {
	return s.spare.all[0].State == wire.Terminating && slices.ContainsFunc(tried, func(e *Endpoint[V]) bool { return e.usable })
}

// compare orders endpoints, and finds those that are the same.
func compare(a, b wire.Endpoint) int {
	return cmp.Or(strings.Compare(a.Address, b.Address), cmp.Compare(a.Port, b.Port), strings.Compare(a.UID, b.UID))
}
