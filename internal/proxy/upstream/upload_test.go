package upstream

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/mumoshu/ingress-daemonset-controller/internal/proxy/message"
	"github.com/mumoshu/ingress-daemonset-controller/internal/testing/await"
	"github.com/mumoshu/ingress-daemonset-controller/internal/testing/http1"
)

// endless is a body without an end, of which it is known how much was read, and which can be stopped.
type endless struct {
	read    atomic.Int64
	stopped atomic.Bool
}

var errStopped = errors.New("stopped")

func (e *endless) Read(p []byte) (int, error) {
	if e.stopped.Load() {
		return 0, errStopped
	}
	e.read.Add(int64(len(p)))
	return len(p), nil
}

// stuck is a body that does not come before it is stopped.
type stuck chan struct{}

func (s stuck) Read([]byte) (int, error) { <-s; return 0, errStopped }

// uploading is a request with a stream.
func uploading(length int64, stream io.Reader) *Request {
	q := request("POST", "/", length)
	q.Stream = stream
	return q
}

// TestUploads: a recording endpoint gets the body whole, in one framing, and the connection is used again.
func TestUploads(t *testing.T) {
	large := strings.Repeat("0123456789abcdef", 100_000)
	var header http.Header
	var trailer http.Header
	s := listen(t, func(s *http1.Session) {
		for q, body := s.Request(); q != nil; q, body = s.Request() {
			header, trailer = q.Header, q.Trailer
			s.Say(ok + "Content-Length: " + decimal(len(body)) + "\r\n\r\n" + body)
		}
	})
	p := client(t, s.key)
	for _, body := range []string{"x", "hello", large} {
		fine(t, p, uploading(int64(len(body)), strings.NewReader(body+"what is beyond")), body)
		fine(t, p, uploading(-1, strings.NewReader(body)), body)
		fine(t, p, uploading(-1, http1.Pieces(body, 17_000)), body)
		q := request("POST", "/", int64(len(body)))
		q.Body = []byte(body)
		fine(t, p, q, body)
		fine(t, p, q, body)
	}
	fine(t, p, uploading(-1, strings.NewReader("")), "")
	q := uploading(-1, strings.NewReader("x"))
	q.Head.Add("Trailer", "X-Sum")
	q.Trailer = func() http.Header { return http.Header{"X-Sum": {"1"}, "Content-Length": {"7"}, "Host": {"b"}} }
	fine(t, p, q, "x")
	if len(trailer) != 1 || trailer.Get("X-Sum") != "1" {
		t.Errorf("the trailer is %v, the header %v", trailer, header)
	}
	if n := s.Connections(); n != 1 {
		t.Errorf("there were %d connections", n)
	}
}

// TestRefusedEarly: a response before the end of a body is given at once; the rest of the body is not
// sent, and nobody reads of it after Close.
func TestRefusedEarly(t *testing.T) {
	for name, end := range map[string]func(s *http1.Session){"stays": (*http1.Session).Hold, "closes": nothing, "does not read": func(s *http1.Session) { <-s.Over }} {
		t.Run(name, func(t *testing.T) {
			s := listen(t, func(s *http1.Session) {
				s.Head()
				s.Say("HTTP/1.1 413 Content Too Large\r\nContent-Length: 2\r\n\r\nno")
				end(s)
			})
			p := client(t, s.key)
			body := &endless{}
			q := uploading(1<<30, body)
			q.Stop = func() { body.stopped.Store(true) }
			if g, _ := exchange(t, p, q); g.status != 413 || g.body != "no" || g.err != nil {
				t.Fatalf("got %d %q (%v)", g.status, g.body, g.err)
			}
			if !body.stopped.Load() && name != "closes" || p.Idle() != 0 {
				t.Errorf("%d are idle, and %d bytes were sent", p.Idle(), body.read.Load())
			}
		})
	}
}

// TestResponseWhileSending: a response may go on while its request does, without a bound on its parts.
func TestResponseWhileSending(t *testing.T) {
	s := listen(t, func(s *http1.Session) {
		q, _ := http.ReadRequest(s.In)
		s.Say(ok + te + "\r\n")
		b := make([]byte, 100)
		for {
			n, err := q.Body.Read(b)
			s.Say(chunk(string(b[:n])))
			if err != nil {
				s.Say("0\r\n\r\n")
				break
			}
		}
		s.Hold()
	})
	p := client(t, s.key, short)
	from, to := io.Pipe()
	var r Response
	if err := p.Do(context.Background(), uploading(-1, from), &r); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		<-waited()
		if _, err := io.WriteString(to, "ping"); err != nil {
			t.Fatal(err)
		}
		b := make([]byte, 4)
		if _, err := io.ReadFull(&r, b); err != nil || string(b) != "ping" {
			t.Fatalf("it echoes %q (%v)", b, err)
		}
	}
	to.Close()
	if rest, err := io.ReadAll(&r); err != nil || len(rest) > 0 {
		t.Errorf("then came %q (%v)", rest, err)
	}
	r.Close()
	await.True(t, "the connection is idle", func() bool { return p.Idle() == 1 })
}

// TestSlowUploadIsNotLate: a response is awaited from when the request was sent, and not for longer.
func TestSlowUploadIsNotLate(t *testing.T) {
	s := listen(t, func(s *http1.Session) {
		for q, body := s.Request(); q != nil && body != "late"; q, body = s.Request() {
			<-waited()
			s.Say(hello)
		}
		s.Hold()
	})
	p := client(t, s.key, func(o *Options) { o.Head = 4 * moment })
	slow := func(body string) *Request {
		from, to := io.Pipe()
		go func() {
			for _, part := range []string{"", "", body} {
				<-waited()
				io.WriteString(to, part)
			}
			to.Close()
		}()
		return uploading(4, from)
	}
	fine(t, p, slow("fine"), "hello")
	failing(t, p, slow("late"), TimedOut, AwaitingHead)
}

func TestBrokenStreams(t *testing.T) {
	for name, q := range map[string]*Request{
		"too short":     uploading(10, strings.NewReader("short")),
		"breaks":        uploading(10, io.MultiReader(strings.NewReader("short"), errReader{})),
		"chunks break":  uploading(-1, io.MultiReader(strings.NewReader("short"), errReader{})),
		"breaks within": uploading(-1, errReader{}),
	} {
		t.Run(name, func(t *testing.T) {
			bodies := make(chan string, 1)
			s := listen(t, func(s *http1.Session) {
				q, _ := http.ReadRequest(s.In)
				body, err := io.ReadAll(q.Body)
				if err == nil {
					bodies <- string(body)
				}
				close(bodies)
			})
			failing(t, client(t, s.key), q, RequestBroken, Sending)
			if body, whole := <-bodies; whole {
				t.Errorf("the endpoint had a whole request, %q", body)
			}
		})
	}
}

type errReader struct{}

func (errReader) Read([]byte) (int, error) { return 0, errStopped }

// TestStuckStream: a body that does not come does not keep an exchange that is over.
func TestStuckStream(t *testing.T) {
	for name, test := range map[string]struct {
		end  func(s *http1.Session)
		want Class
	}{
		"answered": {func(s *http1.Session) { s.Say(hello); s.Hold() }, 0},
		"closed":   {nothing, NoResponse},
		"nonsense": {func(s *http1.Session) { s.Say("nonsense"); s.Hold() }, Malformed},
	} {
		t.Run(name, func(t *testing.T) {
			s := listen(t, func(s *http1.Session) { s.Head(); test.end(s) })
			body := make(stuck)
			q := uploading(10, body)
			q.Stop = func() { close(body) }
			if g, _ := exchange(t, client(t, s.key), q); (g.err == nil) != (test.want == 0) || g.err != nil && g.err.Class != test.want {
				t.Errorf("got %d (%v)", g.status, g.err)
			}
			<-body
		})
	}
}

// TestNobodyTakesIt: an endpoint that reads nothing and says nothing is too late.
func TestNobodyTakesIt(t *testing.T) {
	s := listen(t, func(s *http1.Session) { s.Head(); <-s.Over })
	p := client(t, s.key, short)
	body := &endless{}
	q := uploading(-1, body)
	q.Stop = func() { body.stopped.Store(true) }
	failing(t, p, q, TimedOut, Sending)
	q = request("PUT", "/", 64<<20)
	q.Body = make([]byte, 64<<20)
	failing(t, p, q, TimedOut, Sending)
}

// TestExpect: a body waits for 100 (Continue), which is passed on once at most, and not for ever.
func TestExpect(t *testing.T) {
	const proceed = "HTTP/1.1 100 Continue\r\n\r\n"
	for _, test := range []struct {
		name   string
		before string
		// after is said when the body came, which is awaited where it is not empty.
		after  string
		status int
		told   int
		sent   bool
	}{
		{"continue", proceed, hello, 200, 1, true},
		{"continue twice", proceed + proceed, hello, 200, 1, true},
		{"continue with the answer", proceed, proceed + hello, 200, 1, true},
		{"never, then an answer", "", hello, 200, 0, true},
		{"never, then continue", "", proceed + hello, 200, 0, true},
		{"refused", "HTTP/1.1 417 Expectation Failed\r\nContent-Length: 0\r\n\r\n", "", 417, 0, false},
		{"early hints, refused", "HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n", "", 401, 1, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := listen(t, func(s *http1.Session) {
				s.Head()
				s.Say(test.before)
				body := make([]byte, 4)
				if _, err := io.ReadFull(s.In, body); err == nil {
					s.Say(test.after)
					s.Hold()
				}
			})
			p := client(t, s.key, func(o *Options) { o.Continue = moment })
			if test.before != "" {
				p = client(t, s.key, func(o *Options) { o.Continue = o.Head })
			}
			stream := &counted{strings.NewReader("body"), 0}
			q := uploading(4, stream)
			q.Head.Add("Expect", "100-continue")
			q.Expect = true
			told := 0
			q.Informational = func(int, []message.Field) { told++ }
			g, _ := exchange(t, p, q)
			if g.err != nil || g.status != test.status || told != test.told || (stream.reads > 0) != test.sent {
				t.Errorf("got %d (%v), told %d, %d reads of the body", g.status, g.err, told, stream.reads)
			}
			if (p.Idle() == 1) != test.sent {
				t.Errorf("%d are idle, when the body was sent: %t", p.Idle(), test.sent)
			}
		})
	}
}

// counted counts how often it is read.
type counted struct {
	io.Reader
	reads int
}

func (c *counted) Read(p []byte) (int, error) { c.reads++; return c.Reader.Read(p) }
