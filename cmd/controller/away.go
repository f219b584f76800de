package main

import (
	"net/http"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/wait"
)

// askAway is how long a watch waits, and as long again by chance, until it asks anew for an API server that is away.
const askAway = 500 * time.Millisecond

// awaitingWatches keeps a watch waiting while nobody listens at the API server. client-go pauses between watches that
// fail, twice as long each time, so that after an outage of a minute up to another one passes in which proxies are not
// told which endpoints have gone.
type awaitingWatches struct{ http.RoundTripper }

var _ utilnet.RoundTripperWrapper = awaitingWatches{}

// WrappedRoundTripper is of utilnet.RoundTripperWrapper, by which client-go ends a request whose time is over.
func (a awaitingWatches) WrappedRoundTripper() http.RoundTripper { return a.RoundTripper }

// RoundTrip is of http.RoundTripper.
func (a awaitingWatches) RoundTrip(r *http.Request) (*http.Response, error) {
	for {
		response, err := a.RoundTripper.RoundTrip(r)
		if !utilnet.IsConnectionRefused(err) || r.URL.Query().Get("watch") == "" {
			return response, err
		}
		select {
		case <-r.Context().Done():
			return nil, err
		case <-time.After(wait.Jitter(askAway, 1)):
		}
	}
}
