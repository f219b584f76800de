package proxy

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/wire"
	"github.com/mumoshu/ingress-daemonset-controller/internal/testing/http1"
)

// recorder is an endpoint that keeps every byte that it is sent, and answers each request that it can
// read.
type recorder struct {
	mu   sync.Mutex
	sent strings.Builder
}

func (r *recorder) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.sent.Write(p)
}

func (r *recorder) play(s *http1.Session) {
	in := bufio.NewReader(io.TeeReader(s.Conn, r))
	for {
		q, err := http.ReadRequest(in)
		if err != nil {
			return
		}
		if _, err := io.Copy(io.Discard, q.Body); err != nil {
			return
		}
		s.Say("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
	}
}

// taken is what was sent since the last call.
func (r *recorder) taken() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := r.sent.String()
	r.sent.Reset()
	return all
}

// amiss says what is wrong with what an endpoint was sent: it is to be whole requests, each with at most
// one framing and one Host. The last may be cut off.
func amiss(sent string) string {
	s := http1.Replay(sent)
	for head := s.Head(); head != ""; head = s.Head() {
		q, err := http.ReadRequest(bufio.NewReader(strings.NewReader(head)))
		if err != nil {
			return fmt.Sprintf("%q: %v", head, err)
		}
		low := strings.ToLower(head)
		framings := strings.Count(low, "\r\ncontent-length:") + strings.Count(low, "\r\ntransfer-encoding:")
		if framings > 1 || strings.Count(low, "\r\nhost:") != 1 || strings.Contains(head, "\x00") {
			return fmt.Sprintf("the head is %q", head)
		}
		if q.ContentLength >= 0 {
			_, err = io.CopyN(io.Discard, s.In, q.ContentLength)
		} else if _, err = io.Copy(io.Discard, httputil.NewChunkedReader(s.In)); err == nil {
			// What comes after the last chunk ends as a head does.
			s.Head()
		}
		if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
			return fmt.Sprintf("%q: %v", head, err)
		}
	}
	return ""
}

// TestSmuggling is line 40 of the edge cases: what can be read in two ways is refused and the connection
// closed, or exactly one framing reaches the endpoint.
func TestSmuggling(t *testing.T) {
	const (
		post  = "POST / HTTP/1.1\r\nHost: a\r\n"
		inner = "GET /inner HTTP/1.1\r\nHost: a\r\n\r\n"
	)
	for _, test := range []struct{ name, text string }{
		{"both framings", post + "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + inner},
		{"lengths that differ", post + "Content-Length: 4\r\nContent-Length: 5\r\n\r\nabcde"},
		{"two equal lengths", post + "Content-Length: 4\r\nContent-Length: 4\r\n\r\nabcd"},
		{"a list of lengths", post + "Content-Length: 4, 4\r\n\r\nabcd"},
		{"a length with a sign", post + "Content-Length: +4\r\n\r\nabcd"},
		{"a negative length", post + "Content-Length: -1\r\n\r\n"},
		{"a hexadecimal length", post + "Content-Length: 0x4\r\n\r\nabcd"},
		{"a bare LF after a chunk's size", post + "Transfer-Encoding: chunked\r\n\r\n4\nabcd\r\n0\r\n\r\n"},
		{"a bare CR after a chunk's size", post + "Transfer-Encoding: chunked\r\n\r\n4\rabcd\r\n0\r\n\r\n"},
		{"a chunk's size that overflows", post + "Transfer-Encoding: chunked\r\n\r\n10000000000000004\r\nabcd\r\n0\r\n\r\n"},
		{"a chunk that is longer than its size", post + "Transfer-Encoding: chunked\r\n\r\n4\r\nabcdef\r\n0\r\n\r\n"},
		{"a space in the coding", post + "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n"},
		{"an unknown coding", post + "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n"},
		{"chunked twice", post + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"},
		{"identity after chunked", post + "Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n"},
		{"a tab before the coding", post + "Transfer-Encoding:\tchunked\r\n\r\n0\r\n\r\n"},
		{"a vertical tab before the coding", post + "Transfer-Encoding: \vchunked\r\n\r\n0\r\n\r\n"},
		{"a folded coding", post + "Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n"},
		{"a space before the colon", post + "Content-Length : 4\r\n\r\nabcd"},
		{"a folded field", post + "X: a\r\n b\r\n\r\n"},
		{"a NUL in a value", post + "X: a\x00b\r\n\r\n"},
		{"a CR in a value", post + "X: a\rb\r\n\r\n"},
		{"a NUL in a name", post + "X\x00: a\r\n\r\n"},
		{"no Host", "GET / HTTP/1.1\r\n\r\n"},
		{"two Hosts", "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n"},
		{"a Host with a space", "GET / HTTP/1.1\r\nHost: a b\r\n\r\n"},
		{"a Host with a path", "GET / HTTP/1.1\r\nHost: a/b\r\n\r\n"},
		{"a space in the target", "GET /a b HTTP/1.1\r\nHost: a\r\n\r\n"},
		{"HTTP/1.0 in chunks", "POST / HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + inner},
		{"a GET with a body", "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 32\r\n\r\n" + inner},
		{"a length within the chunks", post + "Transfer-Encoding: chunked\r\nTrailer: Content-Length\r\n\r\n1\r\na\r\n0\r\nContent-Length: 4\r\n\r\n"},
	} {
		rec := &recorder{}
		e, _ := played(t, "recorder", rec.play)
		s := started(t, func(o *Options) { o.Idle, o.Head, o.BodyWindow = 100*time.Millisecond, time.Second, time.Second })
		tell(t, s, append(backendOf(cheddar, e), web(), route("all"))...)
		c := dial(t, s, 80)
		c.Say(test.text)
		// The connection ends with what is refused, or when it is idle.
		said, _ := io.ReadAll(c.In)
		if what := amiss(rec.taken()); what != "" {
			t.Errorf("%s: the endpoint was sent something else: %s", test.name, what)
		}
		statuses := statusesOf(string(said))
		refused := len(statuses) == 1 && (strings.HasPrefix(statuses[0], "400") || strings.HasPrefix(statuses[0], "501"))
		fine := len(statuses) > 0
		for _, status := range statuses {
			fine = fine && strings.HasPrefix(status, "200")
		}
		if !refused && !fine {
			t.Errorf("%s: statuses are %q", test.name, statuses)
		}
	}
}

// TestFramingInDoubt: where the end of a request may be another to the proxy in front, what follows is not read as the
// next request.
func TestFramingInDoubt(t *testing.T) {
	const inner = "GET /inner HTTP/1.1\r\nHost: a\r\n\r\n"
	rec := &recorder{}
	e, _ := played(t, "recorder", rec.play)
	s := started(t, func(o *Options) { o.Trusted = []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")} })
	tell(t, s, append(backendOf(cheddar, e), web(), route("all"))...)
	for _, text := range []string{
		"POST / HTTP/1.0\r\nHost: a\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n",
		"GET / HTTP/1.0\r\nHost: a\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
	} {
		c := dial(t, s, 80)
		c.Say(text + inner)
		said, _ := io.ReadAll(c.In)
		if statuses := statusesOf(string(said)); len(statuses) != 1 || strings.Contains(rec.taken(), "/inner") {
			t.Errorf("%q: statuses are %q", text, statuses)
		}
	}
}

// statusesOf are those of all responses in a text, none of which has a body with a status line in it.
func statusesOf(said string) (out []string) {
	for _, part := range strings.Split(said, "HTTP/1.")[1:] {
		line, _, _ := strings.Cut(part, "\r\n")
		out = append(out, strings.TrimLeft(line[1:], " "))
	}
	return out
}

// TestRefusedAtOnce: what is clearly wrong is 400, and ends the connection.
func TestRefusedAtOnce(t *testing.T) {
	s := serving(t, saying(t, "hello"))
	for _, head := range []string{
		"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nContent-Length: 5\r\n\r\nabcde",
		"POST / HTTP/1.1\r\nHost: a\r\nContent-Length : 4\r\n\r\nabcd",
		"GET / HTTP/1.1\r\nHost: a\r\nX: a\x00b\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: a\r\n X: folded\r\n\r\n",
		"GET / HTTP/1.1\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n",
	} {
		c := dial(t, s, 80)
		c.Say(head + "GET /inner HTTP/1.1\r\nHost: a\r\n\r\n")
		said, _ := io.ReadAll(c.In)
		if statuses := statusesOf(string(said)); len(statuses) != 1 || !strings.HasPrefix(statuses[0], "400 ") {
			t.Errorf("%q: statuses are %q", head, statuses)
		}
	}
}

// TestPaths is line 43: one normal form for the route and for the endpoint.
func TestPaths(t *testing.T) {
	e, heads := recording(t, hello)
	s := started(t)
	tell(t, s, append(backendOf(cheddar, e), web(), route("all", func(r *wire.Route) { r.Matches = []wire.Match{{Path: "/admin"}} }))...)
	for path, want := range map[string]string{
		"/admin": "/admin", "/%61dmin": "/admin", "/x/../admin": "/admin", "/x/%2e%2E/admin": "/admin", "/./admin/.": "/admin/", "//admin": "",
		"/x%2F../admin": "", "/admin%2fx": "", "/admin/%2fx": "/admin/%2Fx", "/admin;x": "", "/admin/..": "", "/admin/../..": "400", "/admin/%": "400",
	} {
		c := dial(t, s, 80)
		c.Say("GET " + path + " HTTP/1.1\r\nHost: a\r\n\r\n")
		r, _ := c.Response(t, "GET")
		switch {
		case r.StatusCode == 200:
			first, _, _ := strings.Cut(<-heads, "\r\n")
			if first != "GET "+want+" HTTP/1.1" {
				t.Errorf("%s became %q, want %q", path, first, want)
			}
		case r.StatusCode == 404 && want == "", r.StatusCode == 400 && want == "400":
		default:
			t.Errorf("%s: %s", path, r.Status)
		}
	}
}

// TestPathsOfHTTP2: net/http gives a :path as it came, with whatever it has. One that would be read as
// something else is refused.
func TestPathsOfHTTP2(t *testing.T) {
	e, heads := recording(t, hello)
	s := serving(t, e)
	for path, want := range map[string]string{"/a b": "", "/?a b HTTP/1.1": "", "/?a\tb": "", "/a?b": "GET /a?b HTTP/1.1"} {
		c := dial(t, s, 80)
		fields := "\x82\x86\x41\x01a\x04" + string([]byte{byte(len(path))}) + path
		c.Say("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00\x00\x00" + string([]byte{byte(len(fields))}) + "\x01\x05\x00\x00\x00\x01" + fields)
		// Indexes 8 and 12 of the static table are 200 and 400 (RFC 7541, appendix A).
		if want == "" {
			if first := firstField(t, c); first != 0x80|12 && first != 0 {
				t.Errorf("%q: the first field of the answer is %x", path, first)
			}
			continue
		}
		if first := firstField(t, c); first != 0x80|8 {
			t.Errorf("%q: the first field of the answer is %x", path, first)
		}
		if first, _, _ := strings.Cut(<-heads, "\r\n"); first != want {
			t.Errorf("%q became %q, want %q", path, first, want)
		}
	}
	if len(heads) > 0 {
		t.Errorf("the endpoint was sent %q", <-heads)
	}
}

// firstField is the first byte of the first HEADERS frame, 0 where the stream or the connection ends
// before that.
func firstField(t testing.TB, s *http1.Session) byte {
	t.Helper()
	for {
		head := make([]byte, 9)
		if _, err := io.ReadFull(s.In, head); err != nil {
			return 0
		}
		payload := make([]byte, int(head[0])<<16|int(head[1])<<8|int(head[2]))
		if _, err := io.ReadFull(s.In, payload); err != nil {
			t.Fatal(err)
		}
		switch head[3] {
		case 1:
			return payload[0]
		case 3, 7:
			return 0
		}
	}
}

// TestLimitsOfHeads is line 45: too large 431, too slow 408, and then the connection ends.
func TestLimitsOfHeads(t *testing.T) {
	s := started(t, func(o *Options) { o.Head = 300 * time.Millisecond })
	tell(t, s, append(backendOf(cheddar, saying(t, "hello")), web(), certificateFor(t, "a", "a.example"), secure("safe", "", "a"), route("all"))...)
	for _, test := range []struct {
		name, text string
		want       string
	}{
		{"large", "GET / HTTP/1.1\r\nHost: a\r\nX: " + strings.Repeat("x", 70<<10) + "\r\n\r\n", "431 "},
		{"fits", "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nX: " + strings.Repeat("x", 60<<10) + "\r\n\r\n", "200 "},
		{"slow", "GET / HTTP/1.1\r\nHost: a\r\nX: ", "408 "},
	} {
		c := dial(t, s, 80)
		c.Say(test.text)
		said, _ := io.ReadAll(c.In)
		if statuses := statusesOf(string(said)); len(statuses) != 1 || !strings.HasPrefix(statuses[0], test.want) {
			t.Errorf("%s: statuses are %q, want %q", test.name, statuses, test.want)
		}
	}
	// The next request of a connection has the same time, which does not begin while it is idle.
	c := dial(t, s, 80)
	c.Say("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	c.Response(t, "GET")
	c.Say("GET / HTTP/1.1\r\n")
	said, _ := io.ReadAll(c.In)
	if statuses := statusesOf(string(said)); len(statuses) != 1 || !strings.HasPrefix(statuses[0], "408 ") {
		t.Errorf("the next request: statuses are %q", statuses)
	}
}

// TestFloods is line 46: a connection of HTTP/2 that asks for too much ends.
func TestFloods(t *testing.T) {
	var now, peak atomic.Int64
	s := started(t)
	handler := s.http2.Handler
	s.http2.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if n := now.Add(1); n > peak.Load() {
			peak.Store(n)
		}
		defer now.Add(-1)
		handler.ServeHTTP(w, r)
	})
	tell(t, s, append(backendOf(cheddar, saying(t, "hello")), web(), route("all"))...)
	for name, flood := range map[string]string{
		// A HEADERS frame without END_HEADERS, and CONTINUATIONs without an end, of fields of 4 KiB.
		"CONTINUATION": "\x00\x00\x01\x01\x00\x00\x00\x00\x01\x82" + strings.Repeat("\x00\x10\x03\x09\x00\x00\x00\x00\x01\x00\x01a\x7f\xfe\x1e"+strings.Repeat("x", 4093), 200),
		// Streams that are reset as soon as they are opened: GET / of the host a.
		"RESET": resets(30_000),
	} {
		c := dial(t, s, 80)
		// The race detector makes so many streams slow.
		if err := c.Conn.SetDeadline(time.Now().Add(3 * time.Minute)); err != nil {
			t.Fatal(err)
		}
		go func() {
			io.WriteString(c, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00"+flood)
			if name == "RESET" {
				c.Conn.(*net.TCPConn).CloseWrite()
			}
		}()
		if _, err := io.Copy(io.Discard, c.In); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%s: the connection goes on", name)
		}
		if n := peak.Load(); n > int64(s.options.Streams) {
			t.Errorf("%s: %d requests were under way", name, n)
		}
	}
	if text := got(t, clientAt(t, s, 80), "http://a/"); text != "200 hello" {
		t.Error(text)
	}
}

func resets(n int) string {
	var b strings.Builder
	for i := range n {
		id := string([]byte{byte((2*i + 1) >> 24), byte((2*i + 1) >> 16), byte((2*i + 1) >> 8), byte(2*i + 1)})
		b.WriteString("\x00\x00\x06\x01\x05" + id + "\x82\x84\x86\x41\x01a")
		b.WriteString("\x00\x00\x04\x03\x00" + id + "\x00\x00\x00\x08")
	}
	return b.String()
}
