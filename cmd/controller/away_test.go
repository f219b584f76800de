package main

import (
	"context"
	"net/http"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// refusing refuses connections until a time.
type refusing struct {
	until time.Time
	asked int
}

func (r *refusing) RoundTrip(*http.Request) (*http.Response, error) {
	r.asked++
	if time.Now().Before(r.until) {
		return nil, syscall.ECONNREFUSED
	}
	return &http.Response{StatusCode: http.StatusOK}, nil
}

// TestWatchesWait: a watch is answered within a second when the API server is back, ends with its context, and nothing
// else waits.
func TestWatchesWait(t *testing.T) {
	request := func(ctx context.Context, query string) *http.Request {
		r, err := http.NewRequestWithContext(ctx, "GET", "https://api/apis"+query, nil)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	synctest.Test(t, func(t *testing.T) {
		const outage = 5 * time.Minute
		api := &refusing{until: time.Now().Add(outage)}
		if _, err := (awaitingWatches{api}).RoundTrip(request(t.Context(), "")); err == nil || api.asked != 1 {
			t.Errorf("what is no watch asks %d times: %v", api.asked, err)
		}
		soon, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := (awaitingWatches{api}).RoundTrip(request(soon, "?watch=true")); err == nil || soon.Err() == nil {
			t.Errorf("it is answered: %v", err)
		}
		if _, err := (awaitingWatches{api}).RoundTrip(request(t.Context(), "?watch=true")); err != nil {
			t.Error(err)
		}
		if late := time.Since(api.until); late < 0 || late > 2*askAway {
			t.Errorf("it is answered %s after the API server was back", late)
		}
	})
}
