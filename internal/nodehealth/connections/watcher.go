// Package connections watches the TCP connections to a node's ingress ports, which tell whether traffic
// still reaches the node. It sees those to local ports of its own network namespace, by the
// kernel's socket diagnostics (sock_diag(7)), for which neither root nor a capability is needed.
// Package server shows to the outside what it sees.
//
// Two views complete each other. A dump once a second shows the connections that
// are there. Notices of destroyed sockets tell of those that came and went between
// two dumps. Where one of them fails, nothing is known, and no port is quiet.
package connections

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
)

const (
	// interval is the time from one dump to the next, unless that would take more of
	// a processor than one part in frugality: the kernel spends some 2 µs on each
	// connection. longest is what the interval becomes at most.
	interval  = time.Second
	frugality = 200
	longest   = 20 * time.Second
	// patience is how long the ports are watched after the last question.
	patience = time.Minute
	// firstWait bounds how long a question waits for the first dump.
	firstWait = 2 * time.Second
	// receiveBuffer is how many bytes of notices may wait to be read, as far as the
	// kernel grants it (net.core.rmem_max). A notice takes about a kilobyte.
	receiveBuffer = 4 << 20
)

var (
	errBegun = errors.New("the connections are watched only since a moment ago")
	errEnds  = errors.New("the health checker ends")
)

// Watcher watches ports while somebody asks about them. While nobody does it costs
// nothing.
type Watcher struct {
	ports         []uint16
	log           *slog.Logger
	patience      time.Duration
	receiveBuffer int

	mu      sync.Mutex
	asked   time.Time
	session *session // nil while nobody asks
	closed  bool
	running sync.WaitGroup
}

// session is one time of watching, from the first question until nobody asks any
// more.
type session struct {
	stop context.CancelFunc
	// ledger and over are guarded by the Watcher's mutex.
	ledger *ledger
	over   bool
	// told is closed when the ledger first has something to tell.
	told     chan struct{}
	tellOnce func()
}

// New is a Watcher of the given local ports, one or more. It opens nothing before
// it is asked.
func New(ports []uint16, log *slog.Logger) *Watcher {
	return &Watcher{ports: ports, log: log, patience: patience, receiveBuffer: receiveBuffer}
}

// Connections tells of each port what was seen up to the last dump: about a second ago at most, or
// 20 where there are tens of thousands of connections. The first question begins the watch, which
// goes on for a minute after the last one, and waits until there is something to tell.
func (w *Watcher) Connections(ctx context.Context) []v1alpha1.PortConnections {
	s := w.ask()
	select {
	case <-s.told:
	case <-ctx.Done():
	case <-time.After(firstWait):
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return s.ledger.report(time.Now())
}

// Close ends the watch. Whoever asks later is told that nothing is known.
func (w *Watcher) Close() {
	w.mu.Lock()
	w.closed = true
	if w.session != nil {
		w.session.stop()
	}
	w.mu.Unlock()
	w.running.Wait()
}

// ask is the session under way, or a new one.
func (w *Watcher) ask() *session {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asked = time.Now()
	if w.session != nil {
		return w.session
	}
	s := &session{ledger: newLedger(w.ports), told: make(chan struct{})}
	s.tellOnce = sync.OnceFunc(func() { close(s.told) })
	if w.closed {
		s.ledger.lose(errEnds)
		s.tellOnce()
		return s
	}
	ctx, stop := context.WithCancel(context.Background())
	s.stop, w.session = stop, s
	w.running.Go(func() { w.watch(ctx, s) })
	return s
}

// watch begins anew after each failure, until nobody asks any more.
func (w *Watcher) watch(ctx context.Context, s *session) {
	defer s.stop()
	w.log.Info("Connections are watched", "ports", w.ports)
	for !w.over(ctx, s) {
		if err := w.follow(ctx, s); err != nil && ctx.Err() == nil {
			w.lose(s, err)
			pause(ctx)
		}
	}
	w.log.Info("Connections are not watched any more", "seen", s.ledger.seen)
}

// follow watches until nobody asks any more, or something fails. Notices are
// subscribed to before the first dump, so that nothing is lost between the two.
func (w *Watcher) follow(ctx context.Context, s *session) error {
	k, err := openKernel(w.ports, w.receiveBuffer)
	if err != nil {
		return err
	}
	defer k.close()
	defer context.AfterFunc(ctx, k.interrupt)()
	for !w.over(ctx, s) {
		begun := time.Now()
		connections, spent, err := k.dump()
		if err != nil {
			return err
		}
		if err := w.count(s, k, connections, begun); err != nil {
			return err
		}
		if err := k.wait(begun.Add(intervalAfter(spent)), func(c connection) { w.destroyed(s, c) }); err != nil {
			return err
		}
	}
	return nil
}

// intervalAfter is the time from one dump to the next, of which the first took so much
// processor time.
func intervalAfter(spent time.Duration) time.Duration {
	return min(max(interval, frugality*spent), longest)
}

// count enters a dump, and what ended before it was complete: whoever asks is told
// of both or of neither.
func (w *Watcher) count(s *session, k *kernel, connections []connection, begun time.Time) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	s.ledger.dumped(connections, begun)
	if err := k.drain(func(c connection) { s.ledger.destroyed(c, time.Now()) }); err != nil {
		return err
	}
	s.tellOnce()
	return nil
}

func (w *Watcher) destroyed(s *session, c connection) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s.ledger.destroyed(c, time.Now())
}

// lose makes everything unknown until the next dump. It is logged once, not again
// while it goes on.
func (w *Watcher) lose(s *session, cause error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if before := s.ledger.unknown; before == nil || before.Error() != cause.Error() {
		w.log.Warn("Connections could not be watched", "error", cause)
	}
	s.ledger.lose(cause)
	s.tellOnce()
}

// over reports whether nobody asks any more. Once a session is over it stays so: the
// next question begins another.
func (w *Watcher) over(ctx context.Context, s *session) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !s.over && (ctx.Err() != nil || time.Since(w.asked) >= w.patience) {
		s.over, w.session = true, nil
	}
	return s.over
}

func pause(ctx context.Context) {
	select {
	case <-time.After(interval):
	case <-ctx.Done():
	}
}
