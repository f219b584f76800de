package upstream

import (
	"context"
	"errors"
	"io"
	"testing"

	"github.com/mumoshu/ingress-daemonset-controller/internal/proxy/message"
	"github.com/mumoshu/ingress-daemonset-controller/internal/testing/apart"
	"github.com/mumoshu/ingress-daemonset-controller/internal/testing/http1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/testing/loopback"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	apart.Main(serveBenchmark)
	goleak.VerifyTestMain(m)
}

// server is an endpoint that does with each connection what a test says.
type server struct {
	*http1.Server
	key Key
}

func listen(t testing.TB, play func(s *http1.Session)) *server {
	t.Helper()
	s := http1.Listen(t, play)
	return &server{s, Key{s.Address(), "pod"}}
}

const hello = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"

// answering says the same to each request.
func answering(text string) func(s *http1.Session) {
	return func(s *http1.Session) {
		for s.Head() != "" {
			s.Say(text)
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
	trailer []message.Field
	// whole says whether the body came to its end.
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

// nobody is an address at which nobody listens.
func nobody(t testing.TB) Key {
	t.Helper()
	return Key{Address: loopback.Closed(t)}
}
