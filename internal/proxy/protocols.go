package proxy

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"runtime/debug"
	"sync"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/internal/proxy/downstream"
)

// serveClient serves a connection until its end, or until net/http has it.
func (s *Server) serveClient(c *clientConn, encrypted bool) {
	defer s.survive(c)
	ctx := withClient(s.life, c)
	if encrypted {
		s.serveTLS(ctx, c)
		return
	}
	if early, err := s.http1.Serve(ctx, c, nil); err == downstream.ErrHTTP2 {
		c.early = early
		s.handOver(c, c)
	}
}

// survive ends a connection whose handshake panicked, and nothing else.
func (s *Server) survive(c *clientConn) {
	if failed := recover(); failed != nil {
		s.log.Printf("panic in a handshake with %v: %v\n%s", c.RemoteAddr(), failed, debug.Stack())
		c.Close()
		s.follow(c, http.StateClosed)
	}
}

// serveTLS is the same after a handshake.
func (s *Server) serveTLS(ctx context.Context, c *clientConn) {
	over := tls.Server(c, s.tls)
	if late := s.options.Head; late > 0 {
		c.SetDeadline(time.Now().Add(late))
	}
	if err := over.Handshake(); err != nil {
		s.failedHandshake(c, err)
		c.Close()
		s.follow(c, http.StateClosed)
		return
	}
	c.SetDeadline(time.Time{})
	state := over.ConnectionState()
	if state.NegotiatedProtocol == "h2" {
		s.handOver(c, over)
		return
	}
	s.http1.Serve(ctx, over, &state)
}

// failedHandshake logs why, and answers who speaks without TLS.
func (s *Server) failedHandshake(c *clientConn, err error) {
	var wrong tls.RecordHeaderError
	if errors.As(err, &wrong) && wrong.Conn != nil && 'A' <= wrong.RecordHeader[0] && wrong.RecordHeader[0] <= 'Z' {
		s.proxy.metrics.own(http.StatusBadRequest)
		c.active.Store(true)
		c.Write(downstream.Refusal(http.StatusBadRequest))
	}
	s.log.Printf("TLS handshake with %v: %v", c.RemoteAddr(), err)
}

// handOver gives a connection to net/http; over is what it is to have of it.
func (s *Server) handOver(c *clientConn, over net.Conn) {
	c.http2.Store(true)
	if !s.handed.give(over) {
		c.Close()
		s.follow(c, http.StateClosed)
	}
}

// handed is a listener of connections that were taken in already.
type handed struct {
	conns chan net.Conn
	over  chan struct{}
	once  sync.Once
}

func newHanded() *handed { return &handed{conns: make(chan net.Conn), over: make(chan struct{})} }

// give is false when nobody takes any more.
func (h *handed) give(c net.Conn) bool {
	select {
	case h.conns <- c:
		return true
	case <-h.over:
		return false
	}
}

// Accept is that of net.Listener.
func (h *handed) Accept() (net.Conn, error) {
	select {
	case c := <-h.conns:
		return c, nil
	case <-h.over:
		return nil, net.ErrClosed
	}
}

// Close is that of net.Listener.
func (h *handed) Close() error {
	h.once.Do(func() { close(h.over) })
	return nil
}

// Addr is that of net.Listener. Nobody asks for it.
func (h *handed) Addr() net.Addr { return &net.TCPAddr{} }
