package balance

import (
	"cmp"
	"math/bits"
	"slices"

	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/wire"
)

// Weights share requests among the shares of a route.
//
// A share of weight w among a total of W is due its n-th request at the earliest when it has earned
// more than n-1 of them, and at the latest when it has earned n; of those that are due, the one whose
// latest moment comes first is served. So no share is ever a whole request ahead of what it has earned
// nor behind (Tijdeman, "The chairman assignment problem", Discrete Mathematics 32, 1980), and of any W
// requests in a row it gets w, or one more or less. Smooth round robin as nginx has it promises that
// for two shares only.
//
// The zero value has no shares. What it holds survives Set.
type Weights struct {
	shares []share
	// total is the sum of weights; lag is counted in it.
	total int64
}

// share is a share and what it has earned.
type share struct {
	// backend, and how many shares of that backend stand before it, tell which one it was before.
	backend string
	nth     int
	weight  int64
	// lag is what it has earned and did not get, in total-ths of a request: negative when it is ahead.
	// All lags together are 0.
	lag int64
}

// Set tells what the shares are now. Those that were there before keep what they have earned; start is
// a random number, of which the first ones take their place in the cycle. Where nothing has changed
// nothing is done.
func (w *Weights) Set(shares []wire.Share, start uint64) {
	if w.are(shares) {
		return
	}
	before := *w
	w.shares, w.total = make([]share, len(shares)), 0
	for i, s := range shares {
		w.shares[i] = share{backend: s.Backend, nth: occurrence(shares, i), weight: int64(s.Weight)}
		w.total += int64(s.Weight)
	}
	switch {
	case w.total == 0:
	case before.total == 0:
		w.begin(start)
	default:
		w.inherit(before)
	}
}

// are reports whether the shares are those that were set last.
func (w *Weights) are(shares []wire.Share) bool {
	return slices.EqualFunc(w.shares, shares, func(a share, b wire.Share) bool {
		return a.backend == b.Backend && a.weight == int64(b.Weight)
	})
}

// occurrence is how many shares before it have the same backend.
func occurrence(shares []wire.Share, at int) (n int) {
	for _, s := range shares[:at] {
		if s.Backend == shares[at].Backend {
			n++
		}
	}
	return n
}

// begin puts the shares somewhere in their cycle. Each has earned a random part of its next request.
// Those parts are so many whole requests as have just been served: to those whose time would have come
// first, which leaves to all others the most time.
func (w *Weights) begin(start uint64) {
	var live []*share
	for i := range w.shares {
		if w.shares[i].weight > 0 {
			live = append(live, &w.shares[i])
		}
	}
	var earned int64
	for _, s := range live[1:] {
		s.lag = below(w.total, &start)
		earned += s.lag
	}
	live[0].lag = (w.total - earned%w.total) % w.total
	earned += live[0].lag
	slices.SortFunc(live, func(a, b *share) int { return w.compare(*a, *b) })
	for _, s := range live[:earned/w.total] {
		s.lag -= w.total
	}
}

// inherit takes over what the shares of before had earned. What is missing to 0, such as the lag of
// one that is gone, is spread over those whose part has changed: the others see nothing of it.
func (w *Weights) inherit(before Weights) {
	var missing, changed int64
	largest := 0
	isChanged := make([]bool, len(w.shares))
	for i := range w.shares {
		s := &w.shares[i]
		old := before.find(*s)
		if s.weight > 0 && old.weight > 0 {
			s.lag = rescale(old.lag, w.total, before.total)
		}
		missing -= s.lag
		if isChanged[i] = !sameRatio(s.weight, w.total, old.weight, before.total); isChanged[i] {
			changed += s.weight
		}
		if s.weight > w.shares[largest].weight {
			largest = i
		}
	}
	rest := missing
	for i := range w.shares {
		if isChanged[i] && changed > 0 {
			part := rescale(missing, w.shares[i].weight, changed)
			w.shares[i].lag += part
			rest -= part
		}
	}
	w.shares[largest].lag += rest
}

// find is the share that is the same, or one of weight 0.
func (w *Weights) find(of share) share {
	for _, s := range w.shares {
		if s.backend == of.backend && s.nth == of.nth {
			return s
		}
	}
	return share{}
}

// Choose is the index of the share that gets the next request, -1 where none has a positive weight. It
// takes time in proportion to their number.
func (w *Weights) Choose() int {
	best := -1
	for i := range w.shares {
		s := &w.shares[i]
		s.lag += s.weight
		if s.weight > 0 && s.lag > 0 && (best < 0 || w.compare(*s, w.shares[best]) < 0) {
			best = i
		}
	}
	if best >= 0 {
		w.shares[best].lag -= w.total
	}
	return best
}

// compare orders shares of positive weight by when their next request is due at the latest: when
// (total-lag)/weight more requests have been served.
func (w *Weights) compare(a, b share) int {
	return compareProducts(w.total-a.lag, b.weight, w.total-b.lag, a.weight)
}

// compareProducts compares a*b with c*d, of which none is negative, in 128 bits: weights have 32, and
// there is no bound on their number.
func compareProducts(a, b, c, d int64) int {
	highA, lowA := bits.Mul64(uint64(max(a, 0)), uint64(b))
	highC, lowC := bits.Mul64(uint64(max(c, 0)), uint64(d))
	return cmp.Or(cmp.Compare(highA, highC), cmp.Compare(lowA, lowC))
}

// sameRatio reports whether a of b is as much as c of d.
func sameRatio(a, b, c, d int64) bool { return compareProducts(a, d, c, b) == 0 }

// rescale is n*to/from, toward 0, where |n| is at most a few times from or to.
func rescale(n, to, from int64) int64 {
	if to == from {
		return n
	}
	return int64(float64(n) / float64(from) * float64(to))
}
