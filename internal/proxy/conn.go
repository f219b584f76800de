package proxy

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strconv"
	"sync/atomic"
	"time"
)

// linger is for how long what a client still sends is read after its connection has ended here. Otherwise
// the kernel resets it, and the client may lose the answer (RFC 9112, 9.6).
const linger = 2 * time.Second

// clientKey is under what a request's context has its clientConn.
type clientKey struct{}

// clientConn is a client's connection, below TLS.
type clientConn struct {
	*net.TCPConn
	// local is the address at which it came in, port that of the listener.
	local netip.Addr
	port  uint16
	// peerField and portField are values of headers. Nobody changes them.
	peerField, portField []string
	// trusted says whether the peer is believed what it says of clients.
	trusted bool
	// patience bounds each write.
	patience time.Duration

	s *Server
	// early is what has come already of what net/http is to read.
	early []byte
	// http2 says whether net/http has it.
	http2 atomic.Bool

	// begun says whether some of a request's head has come, active whether a request is under way, served whether there was
	// one, ended whether a read came to the connection's end.
	begun, active, served, ended, lingers atomic.Bool
	// writeBy is the deadline for writes, idleSince since when it has waited for a request, both in nanoseconds since
	// 1970. The latter is 0 while one is under way, and after a change of protocol.
	writeBy, idleSince atomic.Int64
}

func newClientConn(s *Server, tcp *net.TCPConn, port uint16) *clientConn {
	local, peer := addressOf(tcp.LocalAddr()), addressOf(tcp.RemoteAddr())
	c := &clientConn{
		s: s, TCPConn: tcp, local: local, port: port, trusted: s.options.trusts(peer), patience: s.options.Write,
		peerField: []string{peer.String()}, portField: []string{strconv.Itoa(int(port))},
	}
	c.idleSince.Store(time.Now().UnixNano())
	return c
}

func addressOf(a net.Addr) netip.Addr {
	tcp, _ := a.(*net.TCPAddr)
	return tcp.AddrPort().Addr().Unmap().WithZone("")
}

// clientOf is the connection of which downstream or net/http has c.
func clientOf(c net.Conn) *clientConn {
	if over, encrypted := c.(*tls.Conn); encrypted {
		c = over.NetConn()
	}
	client, _ := c.(*clientConn)
	return client
}

// withClient lets handlers find the connection.
func withClient(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, clientKey{}, clientOf(c))
}

// Read notes how it ends.
func (c *clientConn) Read(p []byte) (int, error) {
	if len(c.early) > 0 {
		n := copy(p, c.early)
		c.early = c.early[n:]
		return n, nil
	}
	n, err := c.TCPConn.Read(p)
	if c.lingers.Load() {
		// What comes now is for nobody.
		return 0, net.ErrClosed
	}
	if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		c.ended.Store(true)
	}
	return n, err
}

// Write gives the client some time to take it: as long as may be, or a quarter longer, so that the
// deadline is not set each time.
func (c *clientConn) Write(p []byte) (int, error) {
	if now := time.Now(); c.patience > 0 && c.writeBy.Load()-now.UnixNano() < int64(c.patience) {
		by := now.Add(c.patience + c.patience/4)
		c.writeBy.Store(by.UnixNano())
		c.TCPConn.SetWriteDeadline(by)
	}
	return c.TCPConn.Write(p)
}

// SetDeadline is both. That of the connection below would take the bound of writes away.
func (c *clientConn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

// SetWriteDeadline leaves a bound where there would be none: net/http takes it away after each request.
func (c *clientConn) SetWriteDeadline(t time.Time) error {
	if t.IsZero() && c.patience > 0 {
		return nil
	}
	c.writeBy.Store(0)
	return c.TCPConn.SetWriteDeadline(t)
}

// Close ends the connection. If a request was under way, that is told at once, and what the client sends
// meanwhile is read for a moment.
func (c *clientConn) Close() error {
	c.s.clients.remove(c)
	if !c.active.Load() || c.ended.Load() || c.s.life.Err() != nil {
		return c.TCPConn.Close()
	}
	if c.lingers.Swap(true) {
		return nil
	}
	c.TCPConn.SetDeadline(time.Now().Add(linger))
	if err := c.TCPConn.CloseWrite(); err != nil {
		return c.TCPConn.Close()
	}
	go func() {
		defer c.TCPConn.Close()
		io.Copy(io.Discard, struct{ io.Reader }{c.TCPConn})
	}()
	return nil
}

// reset ends the connection so that the client sees that it broke.
func (c *clientConn) reset() {
	c.TCPConn.SetLinger(0)
	c.TCPConn.Close()
}

// follow is told of each change of a connection's state, as http.Server.ConnState is. It counts those that are new by
// itself.
func (s *Server) follow(c net.Conn, state http.ConnState) {
	client := clientOf(c)
	switch state {
	case http.StateActive:
		client.active.Store(true)
		client.served.Store(true)
		client.idleSince.Store(0)
	case http.StateIdle:
		client.active.Store(false)
		client.begun.Store(false)
		client.idleSince.Store(time.Now().UnixNano())
	case http.StateHijacked:
		client.active.Store(false)
		s.proxy.metrics.connections.Add(-1)
	case http.StateClosed:
		s.proxy.metrics.connections.Add(-1)
	}
}
