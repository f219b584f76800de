package delta

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/stream"
	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/wire"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// burst is for how long at most changes are gathered that come soon after a message. The first after a
// silence waits for nothing.
const burst = 10 * time.Millisecond

// peerStream is a stream while it is served. All of it is of one goroutine, but for what comes in.
type peerStream struct {
	grpc.ServerStream
	class  *class
	cursor *stream.Cursor
	report func(stream.Acknowledgement)
	// requests are those that came, failed is why no more does.
	requests chan wire.Request
	failed   chan error
	// gathering is not nil while changes are gathered, and tells when they have been for long enough.
	gathering <-chan time.Time
}

// serve serves a stream until it ends.
func (s *Server) serve(g grpc.ServerStream) error {
	peer, err := s.options.Identify(g.Context())
	if err != nil {
		return err
	}
	first, err := receive(g, readRequest)
	if err != nil {
		return err
	}
	if first.TypeURL != wire.TypeURL {
		return status.Errorf(codes.InvalidArgument, "type %q is not served", first.TypeURL)
	}
	c := s.class(peer.IngressDaemonSet)
	said := Report{Peer: peer, Stream: s.streams.Add(1)}
	p := &peerStream{
		ServerStream: g, class: c, cursor: c.open(first.Versions), requests: make(chan wire.Request), failed: make(chan error, 1),
		report: func(a stream.Acknowledgement) {
			said.Acknowledgement = a
			s.options.Report(said)
		},
	}
	s.options.Report(said)
	defer func() {
		c.end(p.cursor)
		said.Ended = true
		s.options.Report(said)
	}()
	go p.listen(g.Context())
	return p.run()
}

func readRequest(b []byte) (wire.Request, error) {
	r, err := wire.DecodeRequest(b)
	if err != nil {
		return r, status.Error(codes.InvalidArgument, err.Error())
	}
	return r, nil
}

// listen hands over what comes, until the stream ends, which it does when run returns.
func (p *peerStream) listen(ctx context.Context) {
	for {
		r, err := receive(p, readRequest)
		if err != nil {
			p.failed <- err
			return
		}
		select {
		case p.requests <- r:
		case <-ctx.Done():
			return
		}
	}
}

// run tells what is owed as soon as it is.
func (p *peerStream) run() error {
	for {
		changed, err := p.tell()
		if err != nil {
			return err
		}
		select {
		case <-changed:
		case <-p.gathering:
			p.gathering = nil
		case r := <-p.requests:
			if a, is := p.class.answer(p.cursor, r); is {
				p.report(a)
			}
		case err := <-p.failed:
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		case <-p.Context().Done():
			return status.FromContextError(p.Context().Err()).Err()
		}
	}
}

// tell sends what is owed, unless changes are gathered. It gives what is closed when more may be owed,
// nil while that is of no interest.
func (p *peerStream) tell() (changed <-chan struct{}, err error) {
	if p.gathering != nil {
		return nil, nil
	}
	m, owed, changed, err := p.class.next(p.cursor)
	if err != nil {
		return nil, status.Error(codes.ResourceExhausted, err.Error())
	}
	if !owed {
		return changed, nil
	}
	if err := p.SendMsg(m.Parts); err != nil {
		return nil, err
	}
	p.gathering = time.After(burst)
	return nil, nil
}
