package server

import (
	"errors"
	"net/url"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

const (
	// startPatience is how long the API server may take to answer at first, and
	// gapPatience how long a watch may be interrupted, before it counts as away.
	startPatience = 3 * time.Second
	gapPatience   = 2 * time.Second
	// settleTime is how long the API server is not believed after it was away:
	// a kubelet repeats a report that failed after 10 s.
	settleTime = 15 * time.Second
	// blindAfter is how long the API server may be away until a checker is called blind.
	blindAfter = time.Minute
)

// link tells from the watches whether the API server can be believed.
type link struct {
	mu      sync.Mutex
	watches int
	open    int
	// began says whether all watches were ever open.
	began bool
	// lostAt is when the API server was last heard of; zero while all watches are open.
	lostAt time.Time
	// awayAt is when its absence counts, settledAt when its return does.
	awayAt, settledAt time.Time
	// cause is why a watch could not be opened last.
	cause error
	// blindAfter is blindAfter, but in tests.
	blindAfter time.Duration
}

// newLink is for a number of watches that are yet to be opened.
func newLink(watches int, heardAt, now time.Time) *link {
	return &link{watches: watches, lostAt: heardAt, awayAt: now.Add(startPatience), blindAfter: blindAfter}
}

func (l *link) opened(now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open++
	if l.open < l.watches {
		return
	}
	if !now.Before(l.awayAt) {
		l.settledAt = now.Add(settleTime)
	}
	l.began, l.lostAt, l.cause = true, time.Time{}, nil
}

func (l *link) closed(now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open == l.watches {
		l.lostAt, l.awayAt = now, now.Add(gapPatience)
	}
	l.open--
}

// failed is when nothing can be listed or watched. At the start nothing is gained by
// patience with an API server that cannot be reached.
func (l *link) failed(now time.Time, cause error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cause = cause
	var refused apierrors.APIStatus
	if !errors.As(cause, &refused) && !l.began && now.Before(l.awayAt) {
		l.awayAt = now
	}
}

// view is what a link looks like at one time.
type view struct {
	lostAt time.Time
	cause  error
	// away says whether the API server is away, probing whether own probes count.
	away, probing bool
	// blind is why it has been away for long; empty where it has not.
	blind string
	// next is when the view changes by itself; zero where it does not.
	next time.Time
}

func (l *link) view(now time.Time) view {
	l.mu.Lock()
	defer l.mu.Unlock()
	v := view{lostAt: l.lostAt, cause: l.cause}
	switch {
	case l.lostAt.IsZero() && now.Before(l.settledAt):
		v.probing, v.next = true, l.settledAt
	case l.lostAt.IsZero():
	case now.Before(l.awayAt):
		v.probing, v.next = now.Before(l.settledAt), l.awayAt
	default:
		v.away, v.probing = true, true
		if blindAt := l.lostAt.Add(l.blindAfter); now.Before(blindAt) {
			v.next = blindAt
		} else {
			v.blind = reason(l.cause)
		}
	}
	return v
}

// reason leaves out of a failed request what was asked for.
func reason(cause error) string {
	if cause == nil {
		return "its watches are open and do not tell what there is"
	}
	var request *url.Error
	if errors.As(cause, &request) {
		cause = request.Err
	}
	return cause.Error()
}
