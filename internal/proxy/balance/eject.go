package balance

import "time"

// record is how an endpoint has done.
type record struct {
	// fails are those in a row, since first.
	fails uint32
	first time.Time
	// out is until when it is left out, and outSince since when.
	out, outSince time.Time
}

func (r *record) isOut(now time.Time) bool { return r != nil && now.Before(r.out) }

// Failed notes that an endpoint refused, reset or did not answer in time. After as many in a row as
// the policy permits, all within its FailTimeout, the endpoint is left out for as long.
func (s *Endpoints[V]) Failed(e *Endpoint[V], now time.Time) {
	if s.policy.MaxFails == 0 {
		return
	}
	if e.record == nil {
		e.record = &record{}
	}
	r := e.record
	if r.fails == 0 || now.Sub(r.first) > s.policy.FailTimeout {
		r.fails, r.first = 0, now
	}
	if r.fails++; r.fails < s.policy.MaxFails {
		return
	}
	if !r.isOut(now) {
		r.outSince = now
	}
	r.fails, r.out = 0, now.Add(s.policy.FailTimeout)
}

// Succeeded notes that an endpoint answered a request that was given to it at that time. Its failures
// are forgotten; and if it got the request while it was left out, because all were, it is in again.
func (s *Endpoints[V]) Succeeded(e *Endpoint[V], given time.Time) {
	r := e.record
	if r == nil {
		return
	}
	r.fails = 0
	if !r.out.IsZero() && !given.Before(r.outSince) {
		r.out = time.Time{}
	}
}

// Out is until when an endpoint is left out for its failures, zero where it is not.
func (s *Endpoints[V]) Out(e *Endpoint[V], now time.Time) time.Time {
	if !e.record.isOut(now) {
		return time.Time{}
	}
	return e.record.out
}
