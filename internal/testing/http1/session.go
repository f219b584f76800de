package http1

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// Session is a connection as seen from one of its ends.
type Session struct {
	net.Conn
	// In is to be read from instead of Conn: it has what came with what was read before.
	In *bufio.Reader
	// Number is which connection of its Server it is, from 0 on.
	Number int
	// Over is closed when the test of its Server is over.
	Over <-chan struct{}
}

// Dial connects to an address. The session ends with the test, and within 30 seconds.
func Dial(t testing.TB, address string, change ...func(*net.Dialer)) *Session {
	t.Helper()
	var d net.Dialer
	for _, do := range change {
		do(&d)
	}
	c, err := d.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(30 * time.Second))
	return &Session{Conn: c, In: bufio.NewReader(c)}
}

// Replay reads what was sent on a connection.
func Replay(sent string) *Session { return &Session{In: bufio.NewReader(strings.NewReader(sent))} }

// Head is the next head, of a request or a response, as it came; empty at the end.
func (s *Session) Head() string {
	var head strings.Builder
	for {
		line, err := s.In.ReadString('\n')
		if err != nil {
			return ""
		}
		head.WriteString(line)
		if line == "\r\n" {
			return head.String()
		}
	}
}

// Request is the next one, with its body read; nil at the end.
func (s *Session) Request() (*http.Request, string) {
	q, err := http.ReadRequest(s.In)
	if err != nil {
		return nil, ""
	}
	body, err := io.ReadAll(q.Body)
	if err != nil {
		return nil, ""
	}
	return q, string(body)
}

// Response is the next one, to a request of that method, with its body read.
func (s *Session) Response(t testing.TB, method string) (*http.Response, string) {
	t.Helper()
	r, err := http.ReadResponse(s.In, &http.Request{Method: method})
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return r, string(body)
}

// Say sends a text. Whoever does not read any more does not get it.
func (s *Session) Say(text string) { io.WriteString(s, text) }

// Hold leaves the connection open until the other end closes it, or the test is over.
func (s *Session) Hold() { io.Copy(io.Discard, s.In) }

// Reset ends the connection with a reset.
func (s *Session) Reset() {
	s.Conn.(*net.TCPConn).SetLinger(0)
	s.Close()
}

// Pieces reads a text, so many bytes at once.
func Pieces(text string, size int) io.Reader { return &pieces{text, size} }

type pieces struct {
	rest string
	size int
}

func (r *pieces) Read(p []byte) (int, error) {
	if r.rest == "" {
		return 0, io.EOF
	}
	n := copy(p, r.rest[:min(r.size, len(r.rest))])
	r.rest = r.rest[n:]
	return n, nil
}
