package delta

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/stream"
	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/wire"
	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"
	"k8s.io/apimachinery/pkg/types"
)

// Options are what a Server asks and tells.
type Options struct {
	// Identify says who opens a stream, from its credentials alone, or gives an error of package status:
	// not a byte is told then.
	Identify func(context.Context) (Peer, error)
	// Report is told of each stream's beginning, acknowledgements and end, by the stream's goroutine: it
	// must not wait.
	Report func(Report)
	// Heard is told what another replica tells, by the number of its stream, and nil at its end. Trusted are
	// the authorities of controllers' certificates, as PEM. Both are asked by the streams' goroutines.
	Heard   func(replica uint64, message []byte)
	Trusted func() []byte
}

// Peer is a proxy: a pod of an IngressDaemonSet.
type Peer struct {
	IngressDaemonSet types.NamespacedName
	// Pod is its name, UID its UID.
	Pod string
	UID types.UID
	// Until is when its credentials end, and its stream with them; zero is never.
	Until time.Time
}

// Report is how far a stream is.
type Report struct {
	Peer
	// Stream tells the streams of a pod apart: a later one has a larger number.
	Stream uint64
	// Acknowledgement is the last one. Its position is that of Commit, 0 before the first.
	stream.Acknowledgement
	// Ended says whether the stream is over: what it acknowledged counts no more.
	Ended bool
}

// Bounds of what strangers may ask for.
const (
	// maxStreams is how many streams one connection may have. A proxy has one.
	maxStreams = 8
	// maxHeaders is how long the headers of one may be: a token has one or two kilobytes.
	maxHeaders = 64 << 10
	// idle is for how long a connection may have none.
	idle = 10 * time.Second
	// identifying is how long it may take to say who opens one.
	identifying = 10 * time.Second
)

// Server serves streams to the proxies of all IngressDaemonSets, each from the log of its own.
type Server struct {
	options   Options
	streams   atomic.Uint64
	complete  atomic.Bool
	untold    atomic.Pointer[func(name string) bool]
	strangers strangers

	mu   sync.Mutex
	logs map[types.NamespacedName]*sharedLog
	open map[*peerStream]bool
}

// sharedLog is the log of an IngressDaemonSet, which the streams of its proxies share.
type sharedLog struct {
	// over says that it goes when its last stream has ended. It is the Server's.
	over bool

	mu  sync.Mutex
	log *stream.Log
	// changed is closed with the next commit.
	changed chan struct{}
}

// NewServer lets in no proxy of an IngressDaemonSet before the first Commit for it.
func NewServer(o Options) *Server {
	return &Server{options: o, strangers: strangers{most: maxStrangers}, logs: map[types.NamespacedName]*sharedLog{}, open: map[*peerStream]bool{}}
}

// GRPC is a server of gRPC with the method. Options say at least how it is secured.
func (s *Server) GRPC(options ...grpc.ServerOption) *grpc.Server {
	g := grpc.NewServer(append([]grpc.ServerOption{
		grpc.ForceServerCodecV2(raw{}), grpc.MaxRecvMsgSize(wire.MaxMessage),
		grpc.MaxConcurrentStreams(maxStreams), grpc.MaxHeaderListSize(maxHeaders),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: keepAlive, Timeout: keepAlive, MaxConnectionIdle: idle}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: keepAlive / 2}),
	}, options...)...)
	handled := described
	handled.Handler = func(_ any, g grpc.ServerStream) error { return s.serve(g) }
	g.RegisterService(&grpc.ServiceDesc{ServiceName: service, HandlerType: (*any)(nil), Streams: []grpc.StreamDesc{handled}}, s)
	told := telling
	told.Handler = func(_ any, g grpc.ServerStream) error { return s.heard(g) }
	g.RegisterService(&grpc.ServiceDesc{ServiceName: controllers, HandlerType: (*any)(nil), Streams: []grpc.StreamDesc{told}}, s)
	return g
}

// Bound is a listener for GRPC's server that bounds the connections on which nobody was let in yet.
func (s *Server) Bound(l net.Listener) net.Listener { return bounded{l, &s.strangers} }

// Commit tells the proxies of an IngressDaemonSet of changes, see stream.Log.Commit.
func (s *Server) Commit(set types.NamespacedName, changed []wire.Resource, removed []string) (position uint64, refused []wire.Refusal) {
	return s.log(set).commit(changed, removed)
}

// Complete notes that there was a first Commit for every IngressDaemonSet that there is. Before it, IsComplete says, proxies
// are better served by another replica.
func (s *Server) Complete() { s.complete.Store(true) }

// IsComplete reports whether Complete was called.
func (s *Server) IsComplete() bool { return s.complete.Load() }

// Untold says of which names nobody can tell yet whether they are gone, nil for none: who has any is not let in, keeps
// what it has, and asks another replica. It comes before the first Commit that leaves such out.
func (s *Server) Untold(untold func(name string) bool) { s.untold.Store(&untold) }

// hasUntold reports whether a proxy has any.
func (s *Server) hasUntold(versions map[string]string) bool {
	untold := s.untold.Load()
	if untold == nil || *untold == nil {
		return false
	}
	for name := range versions {
		if (*untold)(name) {
			return true
		}
	}
	return false
}

// Forget lets the log of an IngressDaemonSet go that is there no more, when its last stream has ended, unless there is
// another Commit.
func (s *Server) Forget(set types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l := s.logs[set]; l != nil {
		l.over = true
		s.drop(set)
	}
}

// drop lets a log go that is over and has no stream.
func (s *Server) drop(set types.NamespacedName) {
	l := s.logs[set]
	if l == nil || !l.over {
		return
	}
	for p := range s.open {
		if p.log == l {
			return
		}
	}
	delete(s.logs, set)
}

// End ends the streams of those peers for which it holds that they are gone. Who is let in at the same time
// may be missed: ask again.
func (s *Server) End(gone func(Peer) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for p := range s.open {
		if gone(p.peer) {
			p.end()
		}
	}
}

// enter and leave keep the streams that are open. None is of a log that is not there: all that its proxies
// have would be gone for them.
func (s *Server) enter(p *peerStream) (there bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p.log = s.logs[p.peer.IngressDaemonSet]
	if p.log == nil {
		return false
	}
	s.open[p] = true
	return true
}

func (s *Server) leave(p *peerStream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, p)
	s.drop(p.peer.IngressDaemonSet)
}

// log is that of a Commit.
func (s *Server) log(set types.NamespacedName) *sharedLog {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.logs[set]
	if l == nil {
		l = &sharedLog{log: stream.New(), changed: make(chan struct{})}
		s.logs[set] = l
	}
	l.over = false
	return l
}

func (l *sharedLog) commit(changed []wire.Resource, removed []string) (position uint64, refused []wire.Refusal) {
	l.mu.Lock()
	defer l.mu.Unlock()
	position, refused = l.log.Commit(changed, removed)
	close(l.changed)
	l.changed = make(chan struct{})
	return position, refused
}

func (l *sharedLog) begin(versions map[string]string) *stream.Cursor {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.log.Open(versions)
}

// next is what the stream is owed, and what is closed when that may be more.
func (l *sharedLog) next(cursor *stream.Cursor) (m stream.Message, owed bool, changed <-chan struct{}, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	m, owed, err = cursor.Next()
	return m, owed, l.changed, err
}

func (l *sharedLog) answer(cursor *stream.Cursor, r wire.Request) (a stream.Acknowledgement, is bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return cursor.Answer(r)
}

func (l *sharedLog) end(cursor *stream.Cursor) {
	l.mu.Lock()
	defer l.mu.Unlock()
	cursor.Close()
}
