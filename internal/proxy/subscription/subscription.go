// Package subscription is the proxy's side of the stream: it keeps one open to a controller, has what comes
// applied, and keeps a snapshot of it for the time when no controller can be reached.
//
// Its files, in the order in which to open them:
//
//   - subscription.go: Subscription: what it needs, and what it says of itself.
//   - stream.go: one stream, from its first request to its end.
//   - retry.go: one stream after the other.
//   - snapshot.go: when snapshots are written. files.go: the two files that they are in.
//
// What was told is decided upon in package holdings. Two goroutines meet here: that of the stream, and that
// which writes snapshots, so that neither a request nor a change ever waits for a file.
package subscription

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/internal/proxy/holdings"
	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/table"
	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/wire"
	"google.golang.org/grpc"
)

// Options are what a Subscription needs.
type Options struct {
	// Node is the id under which the proxy asks.
	Node string
	// Connect makes a connection by delta.Dial, anew for each stream: the address, the credentials and
	// who is trusted may be others by then.
	Connect func() (*grpc.ClientConn, error)
	// Apply takes a transaction, as proxy.Proxy.Apply does. One at a time is applied.
	Apply func(table.Changes) table.Result
	// Unavailable are the listeners that were taken and whose ports cannot be had, with why, nil where they always
	// can.
	Unavailable func() []table.Refusal
	// Directory is where snapshots are kept, empty for nowhere. Only the proxy may read it: there are keys
	// of certificates in them.
	Directory string
	Log       *slog.Logger
}

// Subscription is a proxy's. Restore, if it is called, comes before Run.
type Subscription struct {
	options Options
	files   files
	// unsaved holds one token where there is something that no snapshot has, unsaid where something is unavailable
	// that no controller was told of, or is so no more.
	unsaved, unsaid chan struct{}
	// saidRefused and saidUnsaved are what was said last of refusals and of snapshots, each by one
	// goroutine: it is said once for as long as it lasts.
	saidRefused, saidUnsaved string

	// set is the proxy's IngressDaemonSet, nil where nobody has said.
	set atomic.Pointer[string]

	mu       sync.Mutex
	holdings *holdings.Holdings
	state    State
	// lost is why the last stream ended, or could not be opened.
	lost error
}

// State is what a Subscription says of itself.
type State struct {
	// Applied says whether anything was, from a controller or from a snapshot: before it there is nothing to
	// serve.
	Applied bool
	// Connected says whether a controller has told on a stream that is still open. Since is since when it is
	// so or not, zero before Run.
	Connected bool
	Since     time.Time
	// Position is where in its log the controller was, as it says it.
	Position string
	// Refused are all resources that cannot be used as they were told last, in the order of their names.
	Refused []wire.Refusal
}

// New has not been told anything.
func New(o Options) *Subscription {
	return &Subscription{options: o, files: files{directory: o.Directory, log: o.Log}, unsaved: make(chan struct{}, 1), unsaid: make(chan struct{}, 1), holdings: holdings.New()}
}

// Run keeps a stream to a controller until the context ends.
func (s *Subscription) Run(ctx context.Context) {
	s.noteConnected(false, nil)
	var wait sync.WaitGroup
	wait.Go(func() { s.keepSnapshot(ctx) })
	wait.Go(func() { s.sayLost(ctx) })
	s.keepStream(ctx, s.stream)
	wait.Wait()
}

// State is that of now.
func (s *Subscription) State() State {
	s.mu.Lock()
	defer s.mu.Unlock()
	state := s.state
	state.Position, state.Refused = s.holdings.Position(), s.holdings.Refused()
	return state
}

// IngressDaemonSet is that of the proxy, as namespace/name, as a controller said it last, to this process or to the one
// before it; empty where none did. Apply may ask.
func (s *Subscription) IngressDaemonSet() string {
	if set := s.set.Load(); set != nil {
		return *set
	}
	return ""
}

// SayAgain has the controller told again what is unavailable.
func (s *Subscription) SayAgain() {
	select {
	case s.unsaid <- struct{}{}:
	default:
	}
}

// answer is that to the message of a nonce, as all stands now.
func (s *Subscription) answer(nonce string) wire.Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.holdings.Refused()
	if s.options.Unavailable != nil {
		for _, u := range s.options.Unavailable() {
			all = append(all, wire.Refusal{Name: u.Name, Reason: wire.PortUnavailable + u.Err.Error()})
		}
	}
	return wire.Request{TypeURL: wire.TypeURL, Nonce: nonce, Error: wire.Refused(all)}
}

// noteConnected notes whether a controller tells, and why none does. It says whether that is new.
func (s *Subscription) noteConnected(connected bool, why error) (changed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lost = why
	if s.state.Connected == connected && !s.state.Since.IsZero() {
		return false
	}
	s.state.Connected, s.state.Since = connected, time.Now()
	return true
}

// take has a transaction applied.
func (s *Subscription) take(r wire.Response) (answer wire.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	answer = s.holdings.Take(r, s.options.Apply)
	s.state.Applied = s.state.Applied || s.holdings.Position() != ""
	return answer
}
