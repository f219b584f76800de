package traffic

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Kind is the way in which a request failed. Each failed request has exactly one.
type Kind string

const (
	Connect   Kind = "connect"   // no connection: refused, unreachable, no answer in time
	Reset     Kind = "reset"     // the connection was reset while the request was under way
	Closed    Kind = "closed"    // the peer closed before the first byte of an answer
	Truncated Kind = "truncated" // the peer closed within the answer
	Timeout   Kind = "timeout"   // no complete answer in time
	Protocol  Kind = "protocol"  // the answer is not HTTP/1, or goes on after its end
	Status    Kind = "status"    // a status other than the expected one
	Body      Kind = "body"      // a body other than the expected one
)

// Failure is one request that failed.
type Failure struct {
	Time   time.Time `json:"time"` // when the request started
	Stream string    `json:"stream"`
	Kind   Kind      `json:"kind"`
	Detail string    `json:"detail"`
	Node   string    `json:"node,omitempty"` // header X-Node, where an answer came
	Pod    string    `json:"pod,omitempty"`  // header X-Pod

	ConnectionAge time.Duration `json:"connectionAge"`      // when the request started
	Reused        int           `json:"reused"`             // requests answered on the connection before
	ClientAddress string        `json:"clientAddress"`      // to find the request in a log; empty without a connection
	Late          time.Duration `json:"late,omitempty"`     // start after the due time
	Duration      time.Duration `json:"duration,omitempty"` // from start to failure
}

// Counts are the requests of one stream or of all, up to now. A request is counted
// when its outcome is known.
type Counts struct {
	Requests int64 `json:"requests"`
	Failed   int64 `json:"failed"`
	Late     int64 `json:"late"` // started more than 20 ms after they were due

	Connections int64 `json:"connections"` // opened
	ClosedIdle  int64 `json:"closedIdle"`  // found closed by the peer before a request was sent on them: no request is lost by that

	ByKind    map[Kind]int64   `json:"byKind,omitempty"`
	ByNode    map[string]int64 `json:"byNode,omitempty"`    // answers by header X-Node
	ByPod     map[string]int64 `json:"byPod,omitempty"`     // by X-Pod
	ByVersion map[string]int64 `json:"byVersion,omitempty"` // by X-Version
}

// Snapshot is the state of a run at one moment.
type Snapshot struct {
	Started time.Time     `json:"started"`
	Elapsed time.Duration `json:"elapsed"`
	Rate    float64       `json:"rate"` // achieved requests a second since the start
	Counts
	Streams map[string]Counts `json:"streams"`
}

// Second is what became of the requests that started in one second of the run.
type Second struct {
	Requests int64 `json:"requests"`
	Failed   int64 `json:"failed"`
}

// Latency is taken over the requests that succeeded, from the start of each.
type Latency struct {
	P50 time.Duration `json:"p50"`
	P99 time.Duration `json:"p99"`
	Max time.Duration `json:"max"`
}

// Report is the result of a run.
type Report struct {
	Snapshot
	WantedRate      float64            `json:"wantedRate"`
	Latency         Latency            `json:"latency"`
	LatencyByStream map[string]Latency `json:"latencyByStream"`
	MaxLate         time.Duration      `json:"maxLate"` // the latest start after its due time
	Seconds         []Second           `json:"seconds"` // index 0 is the first second
	Failures        []Failure          `json:"failures,omitempty"`
}

// String tells the report in a few lines: totals, streams, the first failures.
func (r Report) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d requests in %s (%.0f of %.0f a second), %d failed, %d late (at most %s); p50 %s, p99 %s, max %s\n",
		r.Requests, r.Elapsed.Round(100*time.Millisecond), r.Rate, r.WantedRate, r.Failed, r.Late,
		r.MaxLate.Round(time.Millisecond), r.Latency.P50, r.Latency.P99, r.Latency.Max)
	for _, name := range slices.Sorted(maps.Keys(r.Streams)) {
		s := r.Streams[name]
		fmt.Fprintf(&b, "  %s: %d requests, %d failed %v, %d connections\n", name, s.Requests, s.Failed, s.ByKind, s.Connections)
	}
	for _, f := range r.Failures[:min(len(r.Failures), 10)] {
		fmt.Fprintf(&b, "  %s %s %s after %s: %s (node %q, connection %s old, %d requests before, client %s)\n",
			f.Time.Format("15:04:05.000"), f.Stream, f.Kind, f.Duration.Round(time.Millisecond), f.Detail, f.Node,
			f.ConnectionAge.Round(time.Millisecond), f.Reused, f.ClientAddress)
	}
	return b.String()
}
