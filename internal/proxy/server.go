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
	"syscall"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/internal/proxy/downstream"
	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/table"
	"golang.org/x/sys/unix"
)

// sweepEvery is how often idle connections to endpoints are looked through.
const sweepEvery = 5 * time.Second

// acceptPause is for how long nothing is taken in at first where there is nothing left for a connection.
const acceptPause = 5 * time.Millisecond

// Server has the listeners of a Proxy, with HTTP/1.1 and HTTP/2, both with TLS and without.
type Server struct {
	proxy   *Proxy
	options Options
	tls     *tls.Config
	clients clients
	// http1 serves connections, http2 those that handed gives it because they speak HTTP/2.
	http1  *downstream.Server
	http2  *http.Server
	handed *handed
	log    *log.Logger
	// life ends when connections are to end at once, and with it the contexts of requests of HTTP/1.1 and what goes on
	// beside requests.
	life context.Context
	end  context.CancelFunc
	// listen opens a listener. Tests have another.
	listen func(address string) (net.Listener, error)

	mu    sync.Mutex
	bound map[uint16]net.Listener
	wait  sync.WaitGroup
}

// Unavailable is a port that cannot be listened at, and why.
type Unavailable struct {
	Port uint16
	Err  error
}

// NewServer has a Proxy with an empty table, and no listeners. Drain or Close ends both.
func NewServer(o Options) *Server {
	s := &Server{proxy: New(o), options: o, listen: ListenShared, bound: map[uint16]net.Listener{}}
	if o.Listen != nil {
		s.listen = o.Listen
	}
	s.clients = clients{most: o.Connections, open: map[*clientConn]bool{}, none: make(chan struct{}, 1)}
	s.tls = &tls.Config{GetCertificate: s.certificate, NextProtos: []string{"h2", "http/1.1"}, MinVersion: tls.VersionTLS12}
	if s.log = o.Log; s.log == nil {
		s.log = log.New(io.Discard, "", 0)
	}
	s.life, s.end = context.WithCancel(context.Background())
	s.http1 = &downstream.Server{
		Handler: s.proxy, Head: o.Head, HeadBytes: o.HeadBytes, Idle: o.Idle, Rest: o.BodyWindow,
		Begun: func(c net.Conn) { clientOf(c).begun.Store(true) }, ConnState: s.follow, Refused: s.proxy.metrics.own, ErrorLog: s.log,
	}
	protocols := new(http.Protocols)
	protocols.SetHTTP2(true)
	protocols.SetUnencryptedHTTP2(true)
	s.http2 = &http.Server{
		Handler: s.proxy, TLSConfig: s.tls.Clone(), Protocols: protocols,
		ReadHeaderTimeout: o.Head, IdleTimeout: o.Idle, MaxHeaderBytes: o.HeadBytes,
		HTTP2:       &http.HTTP2Config{MaxConcurrentStreams: o.Streams},
		ConnContext: withClient, ConnState: s.follow, ErrorLog: s.log,
		DisableGeneralOptionsHandler: true,
	}
	s.handed = newHanded()
	s.wait.Go(func() { s.http2.Serve(s.handed) })
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
			delete(s.bound, port)
			l.Close()
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
		s.wait.Go(func() { s.serve(l, port) })
	}
	return unavailable
}

// serve takes connections in until the listener is closed. Where it fails the port is not listened at any more, and
// Listen opens it again.
func (s *Server) serve(l net.Listener, port uint16) {
	err := s.accept(l, port)
	l.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.bound[port] == l {
		delete(s.bound, port)
		s.log.Printf("port %d is not listened at any more: %v", port, err)
	}
}

// accept takes connections in. One to an address at which there is no listener is closed, and so is one for which there
// is no room. Where the machine has nothing left for another one, it waits a moment.
func (s *Server) accept(l net.Listener, port uint16) error {
	pause := acceptPause
	for {
		c, err := l.Accept()
		if isNothingLeft(err) {
			s.log.Printf("port %d takes nothing in for %v: %v", port, pause, err)
			select {
			case <-time.After(pause):
			case <-s.life.Done():
			}
			pause = min(2*pause, time.Second)
			continue
		}
		if err != nil {
			return err
		}
		pause = acceptPause
		tcp, isTCP := c.(*net.TCPConn)
		if !isTCP {
			c.Close()
			return errors.New("a listener is not of TCP")
		}
		client := newClientConn(s, tcp, port)
		switch encrypted, found := s.proxy.Table().Speaks(client.local, port); {
		case !found:
			c.Close()
		case !s.clients.admit(client):
			s.proxy.metrics.displaced.Add(1)
			c.Close()
		default:
			s.proxy.metrics.connections.Add(1)
			go s.serveClient(client, encrypted)
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

// isNothingLeft reports whether this process or machine has no descriptor left for a connection.
func isNothingLeft(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)
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
		case <-s.life.Done():
			return
		}
	}
}

// Close ends everything at once, and returns when it has ended.
func (s *Server) Close() {
	s.proxy.draining.Store(true)
	s.proxy.tunnels.end()
	s.closeListeners()
	s.end()
	s.http2.Close()
	s.wait.Wait()
	s.clients.end()
	ctx, cancel := context.WithTimeout(context.Background(), endTimeout)
	defer cancel()
	s.proxy.settle(ctx)
	s.clients.settle(ctx)
	s.proxy.Close()
}

func (s *Server) closeListeners() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for port, l := range s.bound {
		delete(s.bound, port)
		l.Close()
	}
}
