package traffic

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// tick is the grain of due times. Requests that are due together cost one wake-up
// together, which is most of what a request costs here.
const tick = 4 * time.Millisecond

// Run is traffic under way.
type Run struct {
	tally  *tally
	cancel context.CancelFunc
	done   chan struct{}
	end    time.Time // valid once done is closed
}

// Start begins to send. The run ends with ctx, with Stop or after Options.Duration,
// whichever is first; requests under way are finished and counted.
func Start(ctx context.Context, options Options) (*Run, error) {
	options, err := options.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("traffic options: %w", err)
	}
	started := time.Now()
	ctx, cancel := context.WithTimeout(ctx, options.Duration)
	run := &Run{tally: newTally(options, started), cancel: cancel, done: make(chan struct{})}

	var workers sync.WaitGroup
	for i := range options.Streams {
		sender := newSender(options, i, run.tally)
		for range sender.stream.Workers {
			workers.Go(func() { sender.work(ctx) })
		}
	}
	go func() {
		<-ctx.Done()
		run.end = time.Now()
		workers.Wait()
		cancel()
		close(run.done)
	}()
	return run, nil
}

// Snapshot returns the counts up to now.
func (r *Run) Snapshot() Snapshot { return r.tally.snapshot(time.Now()) }

// Done is closed when the last request of the run is counted.
func (r *Run) Done() <-chan struct{} { return r.done }

// Stop ends the run, waits for the requests under way (at most Options.Timeout and
// a second) and reports. It may be called again.
func (r *Run) Stop() Report {
	r.cancel()
	<-r.done
	return r.tally.report(r.end)
}

// sender issues the requests of one stream. Its workers take due times in turn; while
// fewer than all of them are busy every request starts on time.
type sender struct {
	stream   Stream
	request  []byte
	interval float64 // ns between two requests
	timeout  time.Duration
	tally    *tally
	issued   atomic.Int64
}

func newSender(o Options, i int, t *tally) *sender {
	return &sender{
		stream: o.Streams[i], request: requestOf(o.Streams[i]),
		interval: float64(time.Second) / o.rateOf(i), timeout: o.Timeout, tally: t,
	}
}

func (s *sender) nextDue() time.Time {
	n := s.issued.Add(1) - 1
	due := time.Duration(float64(n) * s.interval)
	return s.tally.started.Add((due + tick - 1).Truncate(tick))
}

// work sends until ctx ends, on a connection of its own.
func (s *sender) work(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	var kept *connection
	defer func() { kept.drop() }()
	for {
		due := s.nextDue()
		timer.Reset(time.Until(due))
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		if ctx.Err() != nil {
			return
		}
		kept = s.send(due, kept)
	}
}

// send makes one request, records its one outcome and returns the connection where
// it can be used again, else nil.
func (s *sender) send(due time.Time, kept *connection) *connection {
	start := time.Now()
	deadline := start.Add(s.timeout)
	o := outcome{stream: s.stream.Name, due: due, start: start}

	conn, err := s.connection(kept, &o, deadline)
	if err != nil {
		o.kind, o.detail, o.end = Connect, err.Error(), time.Now()
		s.tally.record(o)
		return nil
	}
	o.connectionAge, o.reused, o.clientAddress = start.Sub(conn.opened), conn.answered, conn.LocalAddr().String()

	a, kind, err := conn.exchange(s.request, deadline)
	o.end = time.Now()
	o.node, o.pod, o.version = a.header.Get("X-Node"), a.header.Get("X-Pod"), a.header.Get("X-Version")
	if err != nil {
		o.kind, o.detail = kind, err.Error()
		s.tally.record(o)
		return conn.drop()
	}
	o.kind, o.detail = s.judge(a)
	s.tally.record(o)
	switch {
	case !a.keepAlive:
		go conn.awaitClose()
		return nil
	case !s.stream.KeepAlive:
		return conn.drop()
	default:
		return conn
	}
}

// connection returns the kept one if a request may be sent on it, else a new one.
func (s *sender) connection(kept *connection, o *outcome, deadline time.Time) (*connection, error) {
	if kept != nil {
		expired := s.stream.Lifetime > 0 && o.start.Sub(kept.opened) >= s.stream.Lifetime
		if !expired && kept.open() {
			return kept, nil
		}
		o.closedIdle = !expired
		kept.drop()
	}
	conn, err := dial(s.stream.Address, o.start, deadline)
	o.connected = err == nil
	return conn, err
}

// judge compares a complete answer with the expected one.
func (s *sender) judge(a answer) (Kind, string) {
	if a.status != s.stream.Status {
		why := strings.Join(a.header.Values("Proxy-Status"), ", ")
		return Status, fmt.Sprintf("status %d, expected %d; %s", a.status, s.stream.Status, cmp.Or(why, "no reason is given"))
	}
	if a.body == s.stream.Body || s.stream.Prefix && strings.HasPrefix(a.body, s.stream.Body) {
		return "", ""
	}
	return Body, fmt.Sprintf("body %.60q, expected %.60q", a.body, s.stream.Body)
}

// drop closes the connection if there is one, and returns none.
func (c *connection) drop() *connection {
	if c != nil {
		c.Close()
	}
	return nil
}
