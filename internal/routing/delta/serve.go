package delta

import (
	"context"
	"errors"
	"io"
	"strconv"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/stream"
	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/wire"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// burst is for how long at most changes are gathered that come soon after a message. The first after a
// silence waits for nothing.
const burst = 10 * time.Millisecond

// peerStream is a stream while it is served. All of it is of one goroutine, but for what comes in.
type peerStream struct {
	grpc.ServerStream
	// ctx is that of the stream, or ends before it with the peer's credentials or by end.
	ctx    context.Context
	end    context.CancelFunc
	peer   Peer
	log    *sharedLog
	cursor *stream.Cursor
	report func(stream.Acknowledgement)
	// requests are those that came, failed is why no more does.
	requests chan wire.Request
	failed   chan error
	// gathering is not nil while changes are gathered, and tells when they have been for long enough.
	gathering <-chan time.Time
}

// errUnknown has a proxy keep what it has, and ask another replica.
var errUnknown = status.Error(codes.Unavailable, "this controller does not know yet all that there is to serve")

// serve serves a stream until it ends.
func (s *Server) serve(g grpc.ServerStream) error {
	peer, err := s.identify(g.Context())
	if err != nil {
		return err
	}
	s.strangers.letIn(g.Context())
	p := newStream(g, peer)
	defer p.end()
	if !s.enter(p) {
		return errUnknown
	}
	defer s.leave(p)
	// A proxy leaves its stream for the next one when it has the header of that.
	said := Report{Peer: peer, Stream: s.streams.Add(1)}
	p.report = func(a stream.Acknowledgement) {
		said.Acknowledgement = a
		s.options.Report(said)
	}
	s.options.Report(said)
	defer func() {
		said.Ended = true
		s.options.Report(said)
	}()
	if err := g.SendHeader(headerTo(peer)); err != nil {
		return err
	}
	go p.listen()
	first, err := p.first()
	if err != nil {
		return err
	}
	if first.TypeURL != wire.TypeURL {
		return status.Errorf(codes.InvalidArgument, "type %q is not served", first.TypeURL)
	}
	if s.hasUntold(first.Versions) {
		return errUnknown
	}
	p.cursor = p.log.begin(first.Versions)
	defer p.log.end(p.cursor)
	return p.run()
}

func (s *Server) identify(stream context.Context) (Peer, error) {
	ctx, cancel := context.WithTimeout(stream, identifying)
	defer cancel()
	return s.options.Identify(ctx)
}

func newStream(g grpc.ServerStream, peer Peer) *peerStream {
	p := &peerStream{ServerStream: g, peer: peer, requests: make(chan wire.Request), failed: make(chan error, 1)}
	if peer.Until.IsZero() {
		p.ctx, p.end = context.WithCancel(g.Context())
	} else {
		p.ctx, p.end = context.WithDeadline(g.Context(), peer.Until)
	}
	return p
}

// longest bounds the lifetime that is said: a stream may be renewed before it must be.
const longest = 24 * time.Hour

// headerTo says it, and whose the proxy is.
func headerTo(peer Peer) metadata.MD {
	header := metadata.Pairs(setKey, peer.IngressDaemonSet.String())
	if !peer.Until.IsZero() {
		left := min(max(time.Until(peer.Until), time.Millisecond), longest)
		header.Set(lifetimeKey, strconv.FormatInt(left.Milliseconds(), 10))
	}
	return header
}

func readRequest(b []byte) (wire.Request, error) {
	r, err := wire.DecodeRequest(b)
	if err != nil {
		return r, status.Error(codes.InvalidArgument, err.Error())
	}
	return r, nil
}

// listen hands over what comes, until the stream ends, which it does when run returns.
func (p *peerStream) listen() {
	for {
		r, err := receive(p, readRequest)
		if err != nil {
			p.failed <- err
			return
		}
		select {
		case p.requests <- r:
		case <-p.ctx.Done():
			return
		}
	}
}

// first is the request with which a stream begins.
func (p *peerStream) first() (wire.Request, error) {
	select {
	case r := <-p.requests:
		return r, nil
	case err := <-p.failed:
		return wire.Request{}, err
	case <-p.ctx.Done():
		return wire.Request{}, p.over()
	}
}

// run tells what is owed as soon as it is, and nothing when the stream is over.
func (p *peerStream) run() error {
	for p.ctx.Err() == nil {
		changed, err := p.tell()
		if err != nil {
			return err
		}
		select {
		case <-changed:
		case <-p.gathering:
			p.gathering = nil
		case r := <-p.requests:
			if a, is := p.log.answer(p.cursor, r); is {
				p.report(a)
			}
		case err := <-p.failed:
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		case <-p.ctx.Done():
		}
	}
	return p.over()
}

// over is why the stream is.
func (p *peerStream) over() error {
	if err := p.Context().Err(); err != nil {
		return status.FromContextError(err).Err()
	}
	return status.Error(codes.Unauthenticated, "the token has expired, or the pod is gone")
}

// tell sends what is owed, unless changes are gathered. It gives what is closed when more may be owed,
// nil while that is of no interest.
func (p *peerStream) tell() (changed <-chan struct{}, err error) {
	if p.gathering != nil {
		return nil, nil
	}
	m, owed, changed, err := p.log.next(p.cursor)
	if err != nil {
		return nil, status.Error(codes.ResourceExhausted, err.Error())
	}
	if !owed {
		return changed, nil
	}
	if err := p.send(m.Parts); err != nil {
		return nil, err
	}
	p.gathering = time.After(burst)
	return nil, nil
}

// send waits for a peer that does not read for no longer than its stream lasts. What waits then ends with the
// stream, which does when run returns.
func (p *peerStream) send(parts [][]byte) error {
	sent := make(chan error, 1)
	go func() { sent <- p.SendMsg(parts) }()
	select {
	case err := <-sent:
		return err
	case <-p.ctx.Done():
		return p.over()
	}
}
