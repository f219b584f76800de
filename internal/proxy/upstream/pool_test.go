package upstream

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/internal/testing/await"
	"github.com/mumoshu/ingress-daemonset-controller/internal/testing/http1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/testing/loopback"
)

// TestStaleConnections: what an endpoint does to an idle connection is no failure of the next request,
// whatever its method, and nothing that was sent meanwhile is its response.
func TestStaleConnections(t *testing.T) {
	for name, then := range map[string]func(s *http1.Session){
		"closed":            func(s *http1.Session) {},
		"reset":             func(s *http1.Session) { s.Reset() },
		"a response":        func(s *http1.Session) { s.Say(hello); s.Hold() },
		"a time-out's":      func(s *http1.Session) { s.Say("HTTP/1.1 408 Request Timeout\r\nConnection: close\r\n\r\n") },
		"a byte":            func(s *http1.Session) { s.Say("x"); s.Hold() },
		"an informational":  func(s *http1.Session) { s.Say("HTTP/1.1 100 Continue\r\n\r\n"); s.Hold() },
		"nothing, it holds": nil,
	} {
		t.Run(name, func(t *testing.T) {
			idle := make(chan struct{})
			s := listen(t, func(s *http1.Session) {
				if q, _ := s.Request(); q == nil {
					return
				}
				s.Say(hello)
				if s.Number == 0 && then != nil {
					<-idle
					then(s)
					return
				}
				for q, _ := s.Request(); q != nil; q, _ = s.Request() {
					s.Say("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nagain")
				}
			})
			p := client(t, s.key)
			fine(t, p, get(), "hello")
			if close(idle); then != nil {
				await.True(t, "the connection is not quiet", func() bool { return !p.idle[0].quiet() })
			}
			q := request("POST", "/", 1)
			q.Body = []byte("x")
			want := "hello"
			if then == nil {
				want = "again"
			}
			fine(t, p, q, want)
		})
	}
}

// TestNotWritten: a connection that breaks before anything is written is no failure either, and a new
// one that does is one of its own class.
func TestNotWritten(t *testing.T) {
	s := listen(t, func(s *http1.Session) {
		if s.Head() == "" {
			<-s.Over
			return
		}
		s.Say(hello)
		<-s.Over
	})
	p := client(t, s.key)
	fine(t, p, get(), "hello")
	p.idle[0].tcp.CloseWrite()
	q := request("POST", "/", 5)
	q.Stream = strings.NewReader("whole")
	fine(t, p, q, "hello")
	if n := s.Connections(); n != 2 {
		t.Errorf("there were %d connections", n)
	}
	c, failed := p.connect(context.Background(), time.Now(), time.Time{})
	if failed != nil {
		t.Fatal(failed)
	}
	c.tcp.CloseWrite()
	if failed := c.exchange(context.Background(), get(), &Response{}); failed == nil || failed.Class != NotWritten {
		t.Errorf("got %v", failed)
	}
	c.end(false)
}

func TestNoResponse(t *testing.T) {
	for name, end := range map[string]func(s *http1.Session){"closed": nothing, "reset": (*http1.Session).Reset} {
		t.Run(name, func(t *testing.T) {
			s := listen(t, func(s *http1.Session) {
				if s.Head(); s.Number == 0 {
					s.Say(hello)
					s.Head()
				}
				end(s)
			})
			p := client(t, s.key)
			fine(t, p, get(), "hello")
			failing(t, p, get(), NoResponse, AwaitingHead)
			failing(t, p, get(), NoResponse, AwaitingHead)
			if n := s.Connections(); n != 2 {
				t.Errorf("there were %d connections: what may have been acted upon was sent again", n)
			}
		})
	}
}

func nothing(*http1.Session) {}

func TestNotConnected(t *testing.T) {
	failing(t, client(t, nobody(t)), get(), NotConnected, Connecting)
}

// full is an address at which connects are not answered.
func full(t *testing.T) Key {
	t.Helper()
	return Key{Address: loopback.Full(t).Addr().(*net.TCPAddr).AddrPort()}
}

func TestConnectIsBounded(t *testing.T) {
	k := full(t)
	failing(t, client(t, k, func(o *Options) { o.Connect = 20 * time.Millisecond }), get(), TimedOut, Connecting)
	q := get()
	q.Deadline = time.Now().Add(20 * time.Millisecond)
	failing(t, client(t, k), q, TimedOut, Connecting)
}

// TestConnectIsAbandoned: a connect under way ends when the endpoint leaves, and when the request does.
func TestConnectIsAbandoned(t *testing.T) {
	k := full(t)
	patient := func(o *Options) { o.Connect = time.Hour }
	pools := NewPools(Defaults())
	pools.options.Connect = time.Hour
	p := pools.Open(k)
	result := make(chan error)
	go func() { result <- p.Do(context.Background(), get(), &Response{}) }()
	p.Close()
	var failed *Error
	if err := <-result; !errors.As(err, &failed) || failed.Class != NotConnected || !errors.Is(err, ErrLeft) {
		t.Errorf("when the endpoint leaves: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() { result <- client(t, k, patient).Do(ctx, get(), &Response{}) }()
	cancel()
	if err := <-result; !errors.As(err, &failed) || failed.Class != Canceled {
		t.Errorf("when the request ends: %v", err)
	}
}

func TestClose(t *testing.T) {
	over := make(chan struct{})
	s := listen(t, func(s *http1.Session) {
		for h := s.Head(); h != ""; h = s.Head() {
			if s.Say(hello[:len(hello)-1]); strings.HasPrefix(h, "POST") {
				<-over
			}
			s.Say("o")
		}
	})
	pools := NewPools(Defaults())
	p, same := pools.Open(s.key), pools.Open(s.key)
	if p != same {
		t.Fatal("one endpoint has two pools")
	}
	if other := pools.Open(Key{s.key.Address, "another pod"}); other == p {
		t.Fatal("two pods share a pool")
	} else {
		other.Close()
	}
	var r Response
	if err := p.Do(context.Background(), request("POST", "/", 0), &r); err != nil {
		t.Fatal(err)
	}
	fine(t, p, get(), "hello")
	p.Close()
	if p.Idle() != 1 || p.Open() != 2 {
		t.Errorf("%d are idle, of %d, and one still has it open", p.Idle(), p.Open())
	}
	idle := p.idle[0]
	same.Close()
	if p.Idle() != 0 || idle.quiet() {
		t.Errorf("%d are idle when nobody has it open", p.Idle())
	}
	close(over)
	if body, err := io.ReadAll(&r); err != nil || string(body) != "hello" {
		t.Errorf("what was under way ended with %q, %v", body, err)
	}
	r.Close()
	if p.Idle() != 0 || p.Open() != 0 {
		t.Errorf("what was under way came back to a closed pool")
	}
	failing(t, p, get(), NotConnected, Connecting)
	if len(pools.byKey) != 0 {
		t.Errorf("there are %d pools", len(pools.byKey))
	}
	if p = pools.Open(s.key); p == same {
		t.Errorf("the pool is used again")
	}
	fine(t, p, get(), "hello")
	p.Close()
}

// TestPoolKeepsNoText: a UID is part of all that was told when its endpoint came, which goes with the next that is told.
func TestPoolKeepsNoText(t *testing.T) {
	const pods, told = 64, 1 << 20
	pools := NewPools(Defaults())
	before := kept()
	for i := range pods {
		text := strings.Repeat("x", told)
		pools.Open(Key{netip.AddrPortFrom(netip.IPv4Unspecified(), uint16(i)), text[:36]})
	}
	if more := kept() - before; more > pods*told/4 {
		t.Errorf("%d pools keep %d bytes", pods, more)
	}
	runtime.KeepAlive(pools)
}

// kept is how many bytes are used.
func kept() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestIdle: connections are closed when they were idle for too long or are too many, the oldest first.
func TestIdle(t *testing.T) {
	s := listen(t, answering(hello))
	p := client(t, s.key, func(o *Options) { o.MaxIdle, o.Idle = 2, time.Minute })
	now := time.Now()
	var conns []*conn
	for i := range 3 {
		c, failed := p.connect(context.Background(), now, time.Time{})
		if failed != nil {
			t.Fatal(failed)
		}
		conns = append(conns, c)
		p.put(c, now.Add(time.Duration(i)*time.Second))
	}
	if p.Idle() != 2 || conns[2].quiet() {
		t.Errorf("%d are idle, of two at most", p.Idle())
	}
	p.pools.Sweep(now.Add(time.Minute - 1))
	if p.Idle() != 2 {
		t.Errorf("%d are idle before they have been for a minute", p.Idle())
	}
	p.pools.Sweep(now.Add(time.Minute))
	if p.Idle() != 1 || conns[0].quiet() || !conns[1].quiet() {
		t.Errorf("%d are idle after the first was for a minute", p.Idle())
	}
	conns[1].idleSince = now.Add(-time.Hour)
	fine(t, p, get(), "hello")
	if n := s.Connections(); n != 4 {
		t.Errorf("there were %d connections: one was used that had been idle for an hour", n)
	}
}

// TestManyAtOnce: no response comes to another request, whatever their framings.
func TestManyAtOnce(t *testing.T) {
	s := listen(t, func(s *http1.Session) {
		for q, body := s.Request(); q != nil; q, body = s.Request() {
			text := q.URL.Path + body
			switch len(text) % 4 {
			case 0:
				s.Say(ok + te + "\r\n" + chunk(text[:1]) + chunk(text[1:]) + "0\r\n\r\n")
			case 1:
				s.Say(ok + "Connection: close\r\n\r\n" + text)
				return
			default:
				s.Say(ok + "Content-Length: " + decimal(len(text)) + "\r\n\r\n" + text)
			}
		}
	})
	p := client(t, s.key)
	var wait sync.WaitGroup
	for worker := range 16 {
		wait.Go(func() {
			for i := range 50 {
				path, body := "/"+decimal(worker)+"/"+decimal(i), strings.Repeat("x", i*(worker%3))
				q := request("POST", path, int64(len(body)))
				switch {
				case body == "":
				case i%3 == 0:
					q = request("POST", path, -1)
					q.Stream = strings.NewReader(body)
				case i%3 == 1:
					q.Stream = strings.NewReader(body)
				default:
					q.Body = []byte(body)
				}
				if g, _ := exchange(t, p, q); g.err != nil || g.body != path+body {
					t.Errorf("%s got %q (%v)", path, g.body, g.err)
				}
			}
		})
	}
	wait.Wait()
}
