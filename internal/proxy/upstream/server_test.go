package upstream

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/internal/testing/loopback"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if address := os.Getenv(servesBenchmark); address != "" {
		serveBenchmark()
	}
	goleak.VerifyTestMain(m)
}

// server is an endpoint that does with each connection what a test says.
type server struct {
	net.Listener
	key   Key
	serve func(s *session)

	mu       sync.Mutex
	sessions []*session
	wait     sync.WaitGroup
}

// session is a connection to it. What was read of it and does not belong to a request is in in.
type session struct {
	net.Conn
	in *bufio.Reader
	// number counts connections from 0, got requests.
	number, got int
	// over is closed when the test is over.
	over chan struct{}
}

// listen starts a server, which ends with the test. When serve returns, the connection is closed.
func listen(t testing.TB, serve func(s *session)) *server {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &server{Listener: l, serve: serve, key: Key{l.Addr().(*net.TCPAddr).AddrPort(), "pod"}}
	over := make(chan struct{})
	s.wait.Go(func() { s.accept(over) })
	t.Cleanup(func() {
		close(over)
		l.Close()
		s.mu.Lock()
		for _, session := range s.sessions {
			session.Close()
		}
		s.mu.Unlock()
		s.wait.Wait()
	})
	return s
}

func (s *server) accept(over chan struct{}) {
	for n := 0; ; n++ {
		conn, err := s.Accept()
		if err != nil {
			return
		}
		session := &session{Conn: conn, in: bufio.NewReader(conn), number: n, over: over}
		s.mu.Lock()
		s.sessions = append(s.sessions, session)
		s.mu.Unlock()
		s.wait.Go(func() { s.serve(session); session.Close() })
	}
}

// connections are how many there were.
func (s *server) connections() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.sessions)
}

// head is the next request's head as it came, empty at the end.
func (s *session) head() string {
	var head strings.Builder
	for {
		line, err := s.in.ReadString('\n')
		if err != nil {
			return ""
		}
		head.WriteString(line)
		if line == "\r\n" {
			s.got++
			return head.String()
		}
	}
}

// request is the next one, with its body read; nil at the end.
func (s *session) request() (*http.Request, string) {
	q, err := http.ReadRequest(s.in)
	if err != nil {
		return nil, ""
	}
	body, err := io.ReadAll(q.Body)
	if err != nil {
		return nil, ""
	}
	s.got++
	return q, string(body)
}

func (s *session) answer(text string) { io.WriteString(s, text) }

// hold leaves the connection open until the client closes it or the test is over.
func (s *session) hold() { io.Copy(io.Discard, s.in) }

// reset ends the connection with a reset.
func (s *session) reset() {
	s.Conn.(*net.TCPConn).SetLinger(0)
	s.Close()
}

const hello = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"

// answering says the same to each request.
func answering(text string) func(s *session) {
	return func(s *session) {
		for s.head() != "" {
			s.answer(text)
		}
	}
}

// client has a pool for an endpoint, which is closed with the test.
func client(t testing.TB, k Key, change ...func(o *Options)) *Pool {
	t.Helper()
	o := Defaults()
	for _, c := range change {
		c(&o)
	}
	p := NewPools(o).Open(k)
	t.Cleanup(p.Close)
	return p
}

// request has a head with that length of its body.
func request(method, target string, length int64) *Request {
	h := &Head{}
	h.Start(method, target, "example.com", length)
	return &Request{Head: h}
}

func get() *Request { return request("GET", "/", 0) }

// got is what came of an exchange.
type got struct {
	status  int
	body    string
	trailer []Header
	// whole is whether the body came to its end.
	err   *Error
	whole bool
}

// exchange is one, from the request to the end of the response.
func exchange(t testing.TB, p *Pool, q *Request) (g got, r Response) {
	t.Helper()
	if err := p.Do(context.Background(), q, &r); err != nil {
		if !errors.As(err, &g.err) {
			t.Fatalf("%v is no *Error", err)
		}
		return g, r
	}
	g.status = r.Status
	body, err := io.ReadAll(&r)
	g.body, g.trailer, g.whole = string(body), append(g.trailer, r.Trailer()...), err == nil
	if err != nil && !errors.As(err, &g.err) {
		t.Fatalf("%v is no *Error", err)
	}
	r.Close()
	return g, r
}

// fine lets an exchange be one that went well, with that body.
func fine(t testing.TB, p *Pool, q *Request, body string) {
	t.Helper()
	if g, _ := exchange(t, p, q); g.err != nil || g.status != 200 || g.body != body {
		t.Fatalf("got %d %q (%v), want 200 %q", g.status, g.body, g.err, body)
	}
}

// failing lets an exchange fail like that.
func failing(t testing.TB, p *Pool, q *Request, class Class, during Phase) {
	t.Helper()
	g, _ := exchange(t, p, q)
	if g.err == nil || g.err.Class != class || g.err.During != during {
		t.Fatalf("got %d %q (%v), want %s while %s", g.status, g.body, g.err, class, during)
	}
}

// eventually waits for what other goroutines do.
func eventually(t testing.TB, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !is(); {
		if time.Now().After(end) {
			t.Fatalf("it is not so that %s", what)
		}
		<-time.After(time.Millisecond)
	}
}

// nobody is an address at which nobody listens.
func nobody(t testing.TB) Key {
	t.Helper()
	return Key{Address: loopback.Closed(t)}
}
