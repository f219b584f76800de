// Package traffic measures what a rollout loses: it sends requests at a fixed rate over many
// connections, never sends one twice, and counts every request that was not answered as expected.
//
// The rate is open loop: each request has a due time of its own, whatever became
// of those before it. A request that starts late because all workers were still
// busy is counted as late, so a stall shows up and does not quietly lower the load.
package traffic

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"net"
	"strings"
	"time"
)

const (
	defaultTimeout     = 5 * time.Second
	defaultDuration    = 15 * time.Minute
	defaultMaxFailures = 100
	defaultBody        = "ok\n"

	// With so many workers a stream keeps its rate while each answer takes this long.
	workerReserve = 100 * time.Millisecond
	maxWorkers    = 1000
)

// Options say what to send. Durations are nanoseconds in JSON.
type Options struct {
	Rate    float64  `json:"rate"` // requests a second, over all streams
	Streams []Stream `json:"streams"`

	Timeout     time.Duration `json:"timeout,omitempty"`     // from the start of a request, connecting included, to its last byte; default 5 s
	Duration    time.Duration `json:"duration,omitempty"`    // the run ends after it; default 15 min
	MaxFailures int           `json:"maxFailures,omitempty"` // how many failures are kept in detail; default 100
}

// Stream is a part of the traffic that goes to one address in one manner.
type Stream struct {
	Name    string  `json:"name"`
	Address string  `json:"address"`         // host:port
	Share   float64 `json:"share,omitempty"` // weight among the streams; default 1

	KeepAlive bool          `json:"keepAlive,omitempty"` // false opens a connection for each request
	Lifetime  time.Duration `json:"lifetime,omitempty"`  // no request is sent on a connection this old; 0 is unlimited
	Workers   int           `json:"workers,omitempty"`   // most requests under way, and with KeepAlive connections; default a tenth of the stream's rate

	Method string `json:"method,omitempty"` // default POST, which no proxy sends twice; GET has no body
	Host   string `json:"host,omitempty"`   // Host header; default Address
	Path   string `json:"path,omitempty"`   // default /
	Status int    `json:"status,omitempty"`
	Body   string `json:"body,omitempty"`   // expected body; default "ok\n"
	Prefix bool   `json:"prefix,omitempty"` // the body need only begin with Body
}

// withDefaults returns a copy of o that is complete, or an error that names what is wrong.
func (o Options) withDefaults() (Options, error) {
	if o.Rate <= 0 || math.IsInf(o.Rate, 0) || math.IsNaN(o.Rate) {
		return o, fmt.Errorf("rate %v: must be a number above 0", o.Rate)
	}
	if len(o.Streams) == 0 {
		return o, errors.New("no streams")
	}
	if o.Timeout < 0 || o.Duration < 0 || o.MaxFailures < 0 {
		return o, errors.New("timeout, duration and maxFailures must not be negative")
	}
	o.Timeout = cmp.Or(o.Timeout, defaultTimeout)
	o.Duration = cmp.Or(o.Duration, defaultDuration)
	o.MaxFailures = cmp.Or(o.MaxFailures, defaultMaxFailures)

	streams := make([]Stream, len(o.Streams))
	names := map[string]bool{}
	for i, s := range o.Streams {
		if err := s.validate(); err != nil {
			return o, fmt.Errorf("stream %q: %w", s.Name, err)
		}
		if names[s.Name] {
			return o, fmt.Errorf("stream %q: the name is taken", s.Name)
		}
		names[s.Name] = true
		s.Share = cmp.Or(s.Share, 1)
		s.Method = cmp.Or(s.Method, "POST")
		s.Host = cmp.Or(s.Host, s.Address)
		s.Path = cmp.Or(s.Path, "/")
		s.Status = cmp.Or(s.Status, 200)
		s.Body = cmp.Or(s.Body, defaultBody)
		streams[i] = s
	}
	o.Streams = streams
	for i := range o.Streams {
		enough := math.Ceil(o.rateOf(i) * workerReserve.Seconds())
		o.Streams[i].Workers = cmp.Or(o.Streams[i].Workers, int(min(max(enough, 4), maxWorkers)))
	}
	return o, nil
}

func (s Stream) validate() error {
	if s.Name == "" {
		return errors.New("no name")
	}
	if _, _, err := net.SplitHostPort(s.Address); err != nil {
		return fmt.Errorf("address: %w", err)
	}
	if s.Share < 0 || s.Lifetime < 0 || s.Workers < 0 {
		return errors.New("share, lifetime and workers must not be negative")
	}
	if strings.ContainsAny(s.Method+s.Host+s.Path, " \r\n") {
		return errors.New("method, host and path must not contain blanks or line ends")
	}
	return nil
}

// rateOf returns the requests a second of stream i.
func (o Options) rateOf(i int) float64 {
	var shares float64
	for _, s := range o.Streams {
		shares += s.Share
	}
	return o.Rate * o.Streams[i].Share / shares
}
