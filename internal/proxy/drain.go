package proxy

import (
	"context"
	"time"
)

// endTimeout is for how long connections that were told to end may take to.
const endTimeout = 2 * time.Second

// Drain ends the server without losing a request, and returns when it has ended: it has Settle, and then
// End. It ends early with the context.
func (s *Server) Drain(ctx context.Context) {
	s.Settle(ctx)
	s.End(context.Background())
}

// Settle returns when End loses nothing, or as little as it may. From the beginning each response ends its
// connection (Connection: close, or GOAWAY). Connections are taken, and idle ones left open, for as long as
// the options say; and then on until no request is under way, or for DrainTimeout from the beginning on.
// It returns early with the context. Changes are taken all the while, and after it until End.
func (s *Server) Settle(ctx context.Context) {
	begun := time.Now()
	s.proxy.draining.Store(true)
	ctx, cancel := context.WithDeadline(ctx, begun.Add(s.options.DrainTimeout))
	defer cancel()
	wait(ctx, max(s.options.DrainDelay, s.options.DrainIdle))
	s.proxy.settle(ctx)
}

// End takes nothing in any more, ends tunnels (WebSockets with 1001) and idle connections, gives the others a moment,
// which is over with the context, and ends all. No changes are to be applied any more: an ended server has no table that
// they could be held against.
func (s *Server) End(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, endTimeout)
	defer cancel()
	s.closeListeners()
	s.proxy.tunnels.end()
	s.proxy.settle(ctx)
	s.clients.endIdle(time.Now())
	s.http2.Shutdown(ctx)
	s.clients.settle(ctx)
	s.Close()
}

// settle returns when no request is under way, or with the context.
func (p *Proxy) settle(ctx context.Context) {
	for p.under.Load() > 0 && ctx.Err() == nil {
		select {
		case <-p.quiet:
		case <-ctx.Done():
		}
	}
}

// wait returns after that time, or with the context.
func wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
