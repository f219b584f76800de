package controller

import (
	"maps"
	"sync"
	"time"
)

// stops remembers which evictions were refused. It may forget: the next refusal
// says so again.
type stops struct {
	sync.Mutex
	refusals map[string]refusal
}

type refusal struct {
	times int
	until time.Time
}

const (
	firstRetry = time.Second
	lastRetry  = time.Minute
	// refusedFor is for how long a refusal is remembered that was due to be tried again.
	refusedFor = 10 * time.Minute
)

func (s *stops) refused(uid string, now time.Time) {
	s.Lock()
	defer s.Unlock()
	times := s.refusals[uid].times
	s.refusals[uid] = refusal{times + 1, now.Add(min(firstRetry<<min(times, 10), lastRetry))}
}

// next is when the first of what was refused is due again, zero where none is to come.
func (s *stops) next(now time.Time) (at time.Time) {
	s.Lock()
	defer s.Unlock()
	for _, r := range s.refusals {
		if r.until.After(now) && (at.IsZero() || r.until.Before(at)) {
			at = r.until
		}
	}
	return at
}

func (s *stops) succeeded(uid string) {
	s.Lock()
	defer s.Unlock()
	delete(s.refusals, uid)
}

// retryAt is when the eviction of a pod may be tried again, zero where none was refused.
func (s *stops) retryAt(uid string) time.Time {
	s.Lock()
	defer s.Unlock()
	return s.refusals[uid].until
}

// forget drops the refusals of pods that are long gone, since they would have been tried again.
func (s *stops) forget(now time.Time) {
	s.Lock()
	defer s.Unlock()
	maps.DeleteFunc(s.refusals, func(_ string, r refusal) bool { return now.Sub(r.until) > refusedFor })
}
