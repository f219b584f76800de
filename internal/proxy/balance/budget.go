package balance

import "time"

// The budget: of the requests of the last seconds, so many may be tried again.
const (
	budgetSeconds = 10
	budgetPercent = 20
	budgetLeast   = 10
)

// Budget bounds retries, so that they cannot multiply the load on what is failing because of it: to 20%
// of the requests of the last 10 seconds, or 10 where that is more. It counts by seconds. The zero value
// is ready.
type Budget struct {
	// zero is the time from which seconds are counted.
	zero time.Time
	// current is the second in which something was done last, before are those before it.
	current second
	before  [budgetSeconds - 1]second
}

// second is what was done in one.
type second struct {
	number, requests, retries uint32
}

// Request counts a request, once, however often it is tried.
func (b *Budget) Request(now time.Time) { b.at(now).requests++ }

// Retry reports whether a request may be tried again, and counts that if so.
func (b *Budget) Retry(now time.Time) bool {
	current := b.at(now)
	requests, retries := uint64(current.requests), uint64(current.retries)
	for _, s := range b.before {
		if s.number+budgetSeconds > current.number {
			requests += uint64(s.requests)
			retries += uint64(s.retries)
		}
	}
	if retries >= max(budgetLeast, requests*budgetPercent/100) {
		return false
	}
	current.retries++
	return true
}

// at is the second that it is. Time that goes backwards counts as the second that it was: what is
// passed in may have been read before another caller's.
func (b *Budget) at(now time.Time) *second {
	if b.zero.IsZero() {
		b.zero = now.Add(-budgetSeconds * time.Second)
	}
	number := uint32(max(now.Sub(b.zero), 0) / time.Second)
	if last := b.current; last.number < number {
		b.before[last.number%uint32(len(b.before))] = last
		b.current = second{number: number}
	}
	return &b.current
}
