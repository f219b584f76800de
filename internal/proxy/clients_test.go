package proxy

import (
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"syscall"
	"testing"

	"github.com/mumoshu/ingress-daemonset-controller/internal/testing/await"
	"github.com/mumoshu/ingress-daemonset-controller/internal/testing/http1"
	"golang.org/x/net/http2"
)

// idle is how many connections wait for a request.
func (s *clients) idle() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.open {
		if c.idleSince.Load() != 0 {
			n++
		}
	}
	return n
}

// begun is of how many connections some of a head has come.
func (s *clients) begun() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.open {
		if c.begun.Load() {
			n++
		}
	}
	return n
}

// TestHeadsMakeRoom: who sends the beginning of a head and no more keeps nobody out.
func TestHeadsMakeRoom(t *testing.T) {
	s := started(t, func(o *Options) { o.Connections = 3 })
	tell(t, s, append(backendOf(cheddar, saying(t, "hello")), web(), route("all"))...)
	for n := range 3 {
		dial(t, s, 80).Say("G")
		await.True(t, "it has begun", func() bool { return s.clients.begun() == n+1 })
	}
	c := dial(t, s, 80)
	c.Say("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	if r, body := c.Response(t, "GET"); body != "hello" {
		t.Errorf("%s %q", r.Status, body)
	}
}

// scarce is a listener that has no descriptor left so many times.
type scarce struct {
	net.Listener
	times int
}

func (s *scarce) Accept() (net.Conn, error) {
	if s.times > 0 {
		s.times--
		return nil, &net.OpError{Op: "accept", Net: "tcp", Err: os.NewSyscallError("accept4", syscall.EMFILE)}
	}
	return s.Listener.Accept()
}

// TestNothingLeft: a port at which there was no descriptor left for a connection goes on to be listened at.
func TestNothingLeft(t *testing.T) {
	s := started(t)
	s.listen = func(string) (net.Listener, error) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		return &scarce{l, 3}, err
	}
	tell(t, s, append(backendOf(cheddar, saying(t, "hello")), web(), route("all"))...)
	c := dial(t, s, 80)
	c.Say("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	if r, body := c.Response(t, "GET"); body != "hello" {
		t.Errorf("%s %q", r.Status, body)
	}
}

// TestConnectionsAreBounded: where there are as many as there may be, the one that has waited longest makes room, of
// either protocol, and where none waits a new one is closed. Those that have a request under way stay.
func TestConnectionsAreBounded(t *testing.T) {
	goOn := make(chan bool)
	release := sync.OnceFunc(func() { close(goOn) })
	defer release()
	e := handled(t, "slow", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			<-goOn
		}
		io.WriteString(w, "hello")
	})
	s := started(t, func(o *Options) { o.Connections = 3 })
	tell(t, s, append(backendOf(cheddar, e), web(), route("all"))...)
	ask := func(c *http1.Session, path string) { c.Say("GET " + path + " HTTP/1.1\r\nHost: a\r\n\r\n") }
	answered := func(c *http1.Session) {
		t.Helper()
		if r, body := c.Response(t, "GET"); body != "hello" {
			t.Errorf("%s %q", r.Status, body)
		}
	}
	ended := func(c *http1.Session) {
		t.Helper()
		if _, err := io.Copy(io.Discard, c.In); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Error("it goes on")
		}
	}
	busy := dial(t, s, 80)
	ask(busy, "/slow")
	await.True(t, "it is under way", func() bool { return s.proxy.under.Load() == 1 })

	first := dialH2(t, s, 80)
	first.get(1, "/")
	if first.next(http2.FrameData) == nil {
		t.Fatal("it is not answered")
	}
	await.True(t, "the first waits", func() bool { return s.clients.idle() == 1 })
	second := dial(t, s, 80)
	ask(second, "/")
	answered(second)
	await.True(t, "the second waits", func() bool { return s.clients.idle() == 2 })
	third := dial(t, s, 80)
	ask(third, "/slow")
	ended(first.Session)
	await.True(t, "the third is under way", func() bool { return s.proxy.under.Load() == 2 })
	ask(second, "/slow")
	await.True(t, "all are under way", func() bool { return s.proxy.under.Load() == 3 })
	ended(dial(t, s, 80))
	if n := s.proxy.metrics.displaced.Load(); n != 2 {
		t.Errorf("%d are counted", n)
	}

	release()
	for _, c := range []*http1.Session{busy, second, third} {
		answered(c)
	}
	await.True(t, "all wait", func() bool { return s.clients.idle() == 3 })
	last := dial(t, s, 80)
	ask(last, "/")
	answered(last)
	for _, c := range []*http1.Session{busy, second, third, last} {
		c.Close()
	}
	await.True(t, "all are forgotten", func() bool {
		s.clients.mu.Lock()
		defer s.clients.mu.Unlock()
		return len(s.clients.open) == 0
	})
}
