package proxy

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/table"
	"golang.org/x/sys/unix"
)

// sweepEvery is how often idle connections to endpoints are looked through.
const sweepEvery = 5 * time.Second

// Server has the listeners of a Proxy, with HTTP/1.1 and HTTP/2, both with TLS and without.
type Server struct {
	proxy   *Proxy
	options Options
	http    *http.Server
	tls     *tls.Config
	clients clients
	// listen opens a listener. Tests have another.
	listen func(address string) (net.Listener, error)

	mu    sync.Mutex
	bound map[uint16]net.Listener
	wait  sync.WaitGroup
	// over ends what goes on beside requests.
	over chan struct{}
	once sync.Once
	// closing says whether connections are to end at once.
	closing atomic.Bool
}

// Unavailable is a port that cannot be listened at, and why.
type Unavailable struct {
	Port uint16
	Err  error
}

// NewServer has a Proxy with an empty table, and no listeners. Drain or Close ends both.
func NewServer(o Options) *Server {
	s := &Server{proxy: New(o), options: o, listen: ListenShared, bound: map[uint16]net.Listener{}, over: make(chan struct{})}
	if o.Listen != nil {
		s.listen = o.Listen
	}
	s.clients = clients{most: o.Connections, open: map[*clientConn]bool{}}
	s.tls = &tls.Config{GetCertificate: s.certificate, NextProtos: []string{"h2", "http/1.1"}, MinVersion: tls.VersionTLS12}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	protocols.SetUnencryptedHTTP2(true)
	s.http = &http.Server{
		Handler: s.proxy, TLSConfig: s.tls.Clone(), Protocols: protocols,
		ReadHeaderTimeout: o.Head, IdleTimeout: o.Idle, MaxHeaderBytes: o.HeadBytes,
		HTTP2:       &http.HTTP2Config{MaxConcurrentStreams: o.Streams},
		ConnContext: withClient, ConnState: s.follow, ErrorLog: o.Log,
		DisableGeneralOptionsHandler: true,
	}
	if o.Log == nil {
		s.http.ErrorLog = log.New(io.Discard, "", 0)
	}
	s.wait.Go(s.sweep)
	return s
}

// Proxy is the handler of requests.
func (s *Server) Proxy() *Proxy { return s.proxy }

// Apply takes changes, see Proxy.Apply, and then opens and closes listeners as the table has them, see
// Listen.
func (s *Server) Apply(c table.Changes) (table.Result, []Unavailable) {
	result := s.proxy.Apply(c)
	return result, s.Listen()
}

// Listen opens the listeners that the table has and that are not open, and closes those that it has not.
// Connections of those end with their next response. A port that cannot be listened at, or whose listener has failed, is
// tried again by the next call.
func (s *Server) Listen() (unavailable []Unavailable) {
	s.mu.Lock()
	defer s.mu.Unlock()
	ports := s.proxy.Table().Ports()
	for port, l := range s.bound {
		if !slices.Contains(ports, port) {
			l.Close()
			delete(s.bound, port)
		}
	}
	for _, port := range ports {
		if s.bound[port] != nil {
			continue
		}
		l, err := s.listenAt(port)
		if err != nil {
			unavailable = append(unavailable, Unavailable{port, err})
			continue
		}
		s.bound[port] = l
		s.wait.Go(func() { s.serve(&listener{l, s, port}) })
	}
	return unavailable
}

// serve takes connections in until the listener is closed. Where it fails the port is not listened at any more, and
// Listen opens it again.
func (s *Server) serve(l *listener) {
	err := s.http.Serve(l)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.bound[l.port] == l.Listener {
		delete(s.bound, l.port)
		if !errors.Is(err, http.ErrServerClosed) {
			s.http.ErrorLog.Printf("port %d is not listened at any more: %v", l.port, err)
		}
	}
}

func (s *Server) listenAt(port uint16) (net.Listener, error) {
	if why := s.options.Reserved[port]; why != "" {
		return nil, errors.New(why)
	}
	return s.listen(":" + strconv.Itoa(int(port)))
}

// Addresses are those that are listened at, by port.
func (s *Server) Addresses() map[uint16]net.Addr {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make(map[uint16]net.Addr, len(s.bound))
	for port, l := range s.bound {
		out[port] = l.Addr()
	}
	return out
}

// ListenShared listens at a port that other processes may listen at, too: proxies of one node share it.
func ListenShared(address string) (net.Listener, error) {
	config := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) error {
		var failed error
		err := raw.Control(func(fd uintptr) {
			failed = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1)
		})
		return cmp.Or(err, failed)
	}}
	return config.Listen(context.Background(), "tcp", address)
}

// listener takes connections in for a port.
type listener struct {
	net.Listener
	s    *Server
	port uint16
}

// Accept is the next connection, with TLS where the table says so. One to an address at which there is no
// listener is closed, and so is one for which there is no room.
func (l *listener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		tcp, isTCP := c.(*net.TCPConn)
		if !isTCP {
			c.Close()
			return nil, errors.New("a listener is not of TCP")
		}
		client := newClientConn(l.s, tcp, l.port)
		switch encrypted, found := l.s.proxy.Table().Speaks(client.local, l.port); {
		case !found:
			c.Close()
		case !l.s.clients.admit(client):
			l.s.proxy.metrics.displaced.Add(1)
			c.Close()
		case encrypted:
			client.over = tls.Server(client, l.s.tls)
			return client.over, nil
		default:
			return client, nil
		}
	}
}

// certificate is what a handshake presents, by the table as it is then. Where there is none crypto/tls
// ends the handshake with an alert.
func (s *Server) certificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	client, _ := hello.Conn.(*clientConn)
	if client == nil {
		return nil, nil
	}
	return s.proxy.Table().Certificate(client.local, client.port, strings.ToLower(hello.ServerName)), nil
}

// sweep closes connections to endpoints that nobody has used for too long.
func (s *Server) sweep() {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		select {
		case now := <-tick.C:
			s.proxy.pools.Sweep(now)
		case <-s.over:
			return
		}
	}
}

// Close ends everything at once, and returns when it has ended.
func (s *Server) Close() {
	s.once.Do(func() { close(s.over) })
	s.proxy.draining.Store(true)
	s.proxy.tunnels.end()
	s.closing.Store(true)
	s.http.Close()
	s.mu.Lock()
	for port, l := range s.bound {
		l.Close()
		delete(s.bound, port)
	}
	s.mu.Unlock()
	s.wait.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), endTimeout)
	defer cancel()
	s.proxy.settle(ctx)
	s.proxy.Close()
}
