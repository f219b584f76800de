package traffic

import (
	"maps"
	"math"
	"sync"
	"time"
)

// lateAfter tolerates what a timer and the scheduler of a busy machine need.
const lateAfter = 20 * time.Millisecond

// outcome is all there is to know about one finished request.
type outcome struct {
	stream string
	due    time.Time
	start  time.Time
	end    time.Time

	kind   Kind // empty: as expected
	detail string

	node, pod, version string

	connected     bool // a connection was opened for it
	closedIdle    bool // the connection meant for it had been closed by the peer
	connectionAge time.Duration
	reused        int
	clientAddress string
}

func (o outcome) late() time.Duration { return max(0, o.start.Sub(o.due)) }

// tally adds up outcomes. Each request is recorded exactly once, when it ends.
type tally struct {
	options Options
	started time.Time

	mu        sync.Mutex
	streams   map[string]*streamTally
	seconds   []Second
	failures  []Failure
	maxLate   time.Duration
	latencies histogram
}

type streamTally struct {
	counts    Counts
	latencies histogram
}

func newTally(o Options, started time.Time) *tally {
	t := &tally{options: o, started: started, streams: map[string]*streamTally{}}
	for _, s := range o.Streams {
		t.streams[s.Name] = &streamTally{counts: Counts{
			ByKind: map[Kind]int64{}, ByNode: map[string]int64{}, ByPod: map[string]int64{}, ByVersion: map[string]int64{},
		}}
	}
	return t
}

func (t *tally) record(o outcome) {
	t.mu.Lock()
	defer t.mu.Unlock()

	stream := t.streams[o.stream]
	stream.counts.add(o)
	t.addSecond(o)
	t.maxLate = max(t.maxLate, o.late())
	if o.kind == "" {
		t.latencies.add(o.end.Sub(o.start))
		stream.latencies.add(o.end.Sub(o.start))
		return
	}
	if len(t.failures) < t.options.MaxFailures {
		t.failures = append(t.failures, Failure{
			Time: o.start, Stream: o.stream, Kind: o.kind, Detail: o.detail, Node: o.node, Pod: o.pod,
			ConnectionAge: o.connectionAge, Reused: o.reused, ClientAddress: o.clientAddress,
			Late: o.late(), Duration: o.end.Sub(o.start),
		})
	}
}

func (t *tally) addSecond(o outcome) {
	i := max(0, int(o.start.Sub(t.started)/time.Second))
	for len(t.seconds) <= i {
		t.seconds = append(t.seconds, Second{})
	}
	t.seconds[i].Requests++
	if o.kind != "" {
		t.seconds[i].Failed++
	}
}

func (c *Counts) add(o outcome) {
	c.Requests++
	if o.kind != "" {
		c.Failed++
		c.ByKind[o.kind]++
	}
	if o.late() > lateAfter {
		c.Late++
	}
	if o.connected {
		c.Connections++
	}
	if o.closedIdle {
		c.ClosedIdle++
	}
	count(c.ByNode, o.node)
	count(c.ByPod, o.pod)
	count(c.ByVersion, o.version)
}

func count(by map[string]int64, value string) {
	if value != "" {
		by[value]++
	}
}

func (t *tally) snapshot(now time.Time) Snapshot {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.snapshotLocked(now)
}

func (t *tally) snapshotLocked(now time.Time) Snapshot {
	s := Snapshot{
		Started: t.started, Elapsed: now.Sub(t.started), Streams: map[string]Counts{},
		Counts: Counts{
			ByKind: map[Kind]int64{}, ByNode: map[string]int64{}, ByPod: map[string]int64{}, ByVersion: map[string]int64{},
		},
	}
	for name, stream := range t.streams {
		s.Streams[name] = stream.counts.clone()
		s.sum(stream.counts)
	}
	if s.Elapsed > 0 {
		s.Rate = float64(s.Requests) / s.Elapsed.Seconds()
	}
	return s
}

func (c Counts) clone() Counts {
	c.ByKind, c.ByNode = maps.Clone(c.ByKind), maps.Clone(c.ByNode)
	c.ByPod, c.ByVersion = maps.Clone(c.ByPod), maps.Clone(c.ByVersion)
	return c
}

func (c *Counts) sum(other Counts) {
	c.Requests += other.Requests
	c.Failed += other.Failed
	c.Late += other.Late
	c.Connections += other.Connections
	c.ClosedIdle += other.ClosedIdle
	sumMaps(c.ByKind, other.ByKind)
	sumMaps(c.ByNode, other.ByNode)
	sumMaps(c.ByPod, other.ByPod)
	sumMaps(c.ByVersion, other.ByVersion)
}

func sumMaps[K comparable](to, from map[K]int64) {
	for k, n := range from {
		to[k] += n
	}
}

func (t *tally) report(end time.Time) Report {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := Report{
		Snapshot: t.snapshotLocked(end), WantedRate: t.options.Rate,
		Latency: t.latencies.latency(), LatencyByStream: map[string]Latency{},
		MaxLate: t.maxLate, Seconds: t.seconds, Failures: t.failures,
	}
	for name, stream := range t.streams {
		r.LatencyByStream[name] = stream.latencies.latency()
	}
	return r
}

// histogram counts durations in buckets 2% apart, from 1 µs up: small, and exact
// enough for percentiles over millions of requests.
type histogram struct {
	buckets []int64
	total   int64
	max     time.Duration
}

var bucketWidth = math.Log(1.02)

func (h *histogram) add(d time.Duration) {
	i := int(math.Log(max(1, float64(d)/1e3)) / bucketWidth)
	for len(h.buckets) <= i {
		h.buckets = append(h.buckets, 0)
	}
	h.buckets[i]++
	h.total++
	h.max = max(h.max, d)
}

func (h *histogram) latency() Latency {
	return Latency{P50: h.quantile(0.50), P99: h.quantile(0.99), Max: h.max}
}

// quantile returns the upper edge of the bucket that holds the share q of all, 0 when empty.
func (h *histogram) quantile(q float64) time.Duration {
	rank := int64(math.Ceil(q * float64(h.total)))
	for i, n := range h.buckets {
		if rank -= n; rank <= 0 && h.total > 0 {
			edge := time.Duration(math.Exp(float64(i+1)*bucketWidth) * 1e3)
			return min(edge, h.max)
		}
	}
	return 0
}
