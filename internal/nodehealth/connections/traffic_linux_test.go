package connections

import (
	"errors"
	"io"
	"net"
	"os"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// route is how a peer reaches a listener.
type route struct{ listen, to, from string }

var (
	over4  = route{here4, here4, peer4}
	over6  = route{here6, here6, peer6}
	mapped = route{"::", here4, peer4} // an IPv4 peer of an IPv6 listener
)

var routes = map[string]route{"IPv4": over4, "IPv6": over6, "IPv4 to an IPv6 listener": mapped}

func (r route) skip(t testing.TB) {
	if r == over6 && os.Getuid() != 0 {
		t.Skip("needs root, to have two IPv6 addresses in a network namespace")
	}
}

// port is a listener that accepts only what a test lets it.
type port struct {
	*net.TCPListener
	route  route
	number uint16
}

// lastPort is the last one that a test listened on. None is one that the kernel
// gives to peers: a peer's end counts as a connection too where its port is watched.
var lastPort atomic.Uint32

func listen(t testing.TB, r route, options ...func(fd int) error) *port {
	t.Helper()
	for {
		p, err := listenOn(t, r, uint16(5000+lastPort.Add(1)), options...)
		if errors.Is(err, unix.EADDRINUSE) {
			continue // somebody else's, where the namespace is not the test's own
		}
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
}

func listenOn(t testing.TB, r route, number uint16, options ...func(fd int) error) (*port, error) {
	t.Helper()
	r.skip(t)
	config := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) error {
		var failed error
		err := raw.Control(func(fd uintptr) {
			for _, option := range options {
				if failed == nil {
					failed = option(int(fd))
				}
			}
		})
		if err != nil {
			return err
		}
		return failed
	}}
	l, err := config.Listen(t.Context(), "tcp", net.JoinHostPort(r.listen, strconv.Itoa(int(number))))
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { l.Close() })
	return &port{l.(*net.TCPListener), r, number}, nil
}

// dial connects as a peer. The connection is closed when the test ends, at the latest.
func (p *port) dial(t testing.TB) *net.TCPConn {
	t.Helper()
	conn, err := p.tryDial()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

func (p *port) tryDial() (*net.TCPConn, error) {
	return net.DialTCP("tcp", &net.TCPAddr{IP: net.ParseIP(p.route.from)}, &net.TCPAddr{IP: net.ParseIP(p.route.to), Port: int(p.number)})
}

func (p *port) accept(t testing.TB) *net.TCPConn {
	t.Helper()
	if err := p.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	conn, err := p.AcceptTCP()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// pair is both ends of a new connection.
func (p *port) pair(t testing.TB) (peer, here *net.TCPConn) {
	t.Helper()
	return p.dial(t), p.accept(t)
}

// readEnd awaits that the other end sends no more.
func readEnd(t testing.TB, conn *net.TCPConn) {
	t.Helper()
	if _, err := io.Copy(io.Discard, conn); err != nil {
		t.Error(err)
	}
}

// closed awaits that the other end closes, and closes too.
func closed(t testing.TB, conn *net.TCPConn) {
	t.Helper()
	readEnd(t, conn)
	conn.Close()
}

// deferred keeps connections half-open until data comes.
func deferred(fd int) error {
	return unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_DEFER_ACCEPT, 60)
}
