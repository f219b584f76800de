package downstream

import (
	"bufio"
	"errors"
	"io"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"github.com/mumoshu/ingress-daemonset-controller/internal/proxy/message"
	"github.com/mumoshu/ingress-daemonset-controller/internal/testing/http1"
)

// TestHeads: what is read of them, and what is refused by which status.
func TestHeads(t *testing.T) {
	const get, post = "GET / HTTP/1.1\r\nHost: a\r\n", "POST / HTTP/1.1\r\nHost: a\r\n"
	for _, test := range []struct {
		text string
		// status is by which it is refused, or else head is what it says.
		status int
		head   head
	}{
		{get + "\r\n", 0, head{method: "GET", target: "/", host: "a", minor: 1, length: -1}},
		{"GET / HTTP/1.1\nHost: a\n\n", 0, head{method: "GET", target: "/", host: "a", minor: 1, length: -1}},
		{"GET / HTTP/1.0\r\n\r\n", 0, head{method: "GET", target: "/", length: -1, close: true}},
		{"GET http://b/c HTTP/1.1\r\nHost: a\r\n\r\n", 0, head{method: "GET", target: "http://b/c", host: "b", minor: 1, length: -1, hosts: 1}},
		{"GET http://b?c HTTP/1.1\r\nHost: a\r\n\r\n", 0, head{method: "GET", target: "http://b?c", host: "b", minor: 1, length: -1}},
		{"OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n", 0, head{method: "OPTIONS", target: "*", host: "a", minor: 1, length: -1}},
		{get + "x-y:  1\t\r\nX-Y: 2\r\n\r\n", 0, head{method: "GET", target: "/", host: "a", minor: 1, length: -1, fields: []message.Field{{Name: "X-Y", Value: "1"}, {Name: "X-Y", Value: "2"}}}},
		{get + "Connection: x, Close\r\n\r\n", 0, head{method: "GET", target: "/", host: "a", minor: 1, length: -1, close: true, fields: []message.Field{{Name: "Connection", Value: "x, Close"}}}},
		{post + "Content-Length: 0\r\n\r\n", 0, head{method: "POST", target: "/", host: "a", minor: 1}},
		{post + "Content-Length: 007\r\n\r\n", 0, head{method: "POST", target: "/", host: "a", minor: 1, framing: message.Sized, length: 7}},
		{post + "Transfer-Encoding: Chunked\r\nTrailer: x-a,,X-B\r\n\r\n", 0, head{method: "POST", target: "/", host: "a", minor: 1, framing: message.Chunked, length: -1,
			announced: []string{"X-A", "X-B"}, fields: []message.Field{{Name: "Trailer", Value: "x-a,,X-B"}}}},
		{post + "Expect: 100-Continue\r\nContent-Length: 1\r\n\r\n", 0, head{method: "POST", target: "/", host: "a", minor: 1, framing: message.Sized, length: 1, expects: true,
			fields: []message.Field{{Name: "Expect", Value: "100-Continue"}}}},
		{get + "Expect: 100-continue\r\n\r\n", 0, head{method: "GET", target: "/", host: "a", minor: 1, length: -1, fields: []message.Field{{Name: "Expect", Value: "100-continue"}}}},
		{"POST / HTTP/1.0\r\nContent-Length: 1\r\nExpect: 100-continue\r\n\r\n", 0, head{method: "POST", target: "/", framing: message.Sized, length: 1, close: true,
			fields: []message.Field{{Name: "Expect", Value: "100-continue"}}}},

		{"GET /\r\n\r\n", 400, head{}},
		{"GET  / HTTP/1.1\r\nHost: a\r\n\r\n", 400, head{}},
		{"GET / HTTP/1.1 \r\nHost: a\r\n\r\n", 400, head{}},
		{"GET\t/ HTTP/1.1\r\nHost: a\r\n\r\n", 400, head{}},
		{"G(T / HTTP/1.1\r\nHost: a\r\n\r\n", 400, head{}},
		{"GET /\x7f HTTP/1.1\r\nHost: a\r\n\r\n", 400, head{}},
		{"GET / HTTP/11\r\nHost: a\r\n\r\n", 400, head{}},
		{"GET / http/1.1\r\nHost: a\r\n\r\n", 400, head{}},
		{"GET / HTTP/1.x\r\nHost: a\r\n\r\n", 400, head{}},
		{"GET a?b=c://d HTTP/1.1\r\nHost: a\r\n\r\n", 400, head{}},
		{"GET http://b#c/d HTTP/1.1\r\nHost: a\r\n\r\n", 400, head{}},
		{"GET http:///b HTTP/1.1\r\nHost: a\r\n\r\n", 400, head{}},
		{"GET http://c@b/ HTTP/1.1\r\nHost: a\r\n\r\n", 400, head{}},
		{"GET / HTTP/2.0\r\nHost: a\r\n\r\n", 505, head{}},
		{"GET / HTTP/0.9\r\nHost: a\r\n\r\n", 505, head{}},
		{"GET / HTTP/1.1\r\n\r\n", 400, head{}},
		{"GET http://a/ HTTP/1.1\r\n\r\n", 400, head{}},
		{get + "Host: a\r\n\r\n", 400, head{}},
		{get + "Host : a\r\n\r\n", 400, head{}},
		{get + " X: a\r\n\r\n", 400, head{}},
		{get + "X: a\r\n b\r\n\r\n", 400, head{}},
		{get + "X\r\n\r\n", 400, head{}},
		{get + "X: a\rb\r\n\r\n", 400, head{}},
		{get + "X: a\x00b\r\n\r\n", 400, head{}},
		{get + ": a\r\n\r\n", 400, head{}},
		{get + "Expect: 200-ok\r\n\r\n", 417, head{}},
		{post + "Content-Length: 1\r\nContent-Length: 1\r\n\r\n", 400, head{}},
		{post + "Content-Length: 0\r\nContent-Length: 0\r\n\r\n", 400, head{}},
		{post + "Content-Length: -1\r\n\r\n", 400, head{}},
		{post + "Content-Length: +1\r\n\r\n", 400, head{}},
		{post + "Content-Length: 1, 1\r\n\r\n", 400, head{}},
		{post + "Content-Length:\r\n\r\n", 400, head{}},
		{post + "Content-Length: 9223372036854775808\r\n\r\n", 400, head{}},
		{post + "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", 400, head{}},
		{post + "Transfer-Encoding: chunked\r\nContent-Length: 0\r\n\r\n", 400, head{}},
		{"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", 400, head{}},
		{post + "Transfer-Encoding: gzip, chunked\r\n\r\n", 501, head{}},
		{post + "Transfer-Encoding: chun\u212aed\r\n\r\n", 501, head{}},
		{post + "Transfer-Encoding: identity\r\n\r\n", 501, head{}},
		{post + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n", 501, head{}},
		{post + "Transfer-Encoding: chunked\r\nTrailer: X, content-length\r\n\r\n", 400, head{}},
		{get + strings.Repeat("X: y\r\n", message.MaxFields+1) + "\r\n", 431, head{}},
	} {
		var h head
		err := h.parse(test.text)
		status := 0
		if err != nil {
			if status, _ = statusOf(err); status != test.status {
				t.Errorf("%.80q is refused by %d, want %d: %v", test.text, status, test.status, err)
			}
			continue
		}
		h.hosts, test.head.hosts = 0, 0
		if len(h.fields) == 0 {
			h.fields = nil
		}
		if test.status != 0 || !reflect.DeepEqual(h, test.head) {
			t.Errorf("%.80q is %+v, want %+v or %d", test.text, h, test.head, test.status)
		}
	}
}

// understood is what a request says.
type understood struct {
	method, target, host, proto string
	header, trailer             http.Header
	length                      int64
	body, rest                  string
	close, wrong                bool
}

// ours reads a request as a connection does.
func ours(src io.Reader) (u understood) {
	in := message.Reader{Src: src}
	defer in.Release()
	text, err := in.Head(64<<10, beginsLikeRequest)
	if err != nil {
		return understood{wrong: true}
	}
	c := &conn{}
	c.body.c, c.answer.c, c.presence = c, c, newPresence(nil, c)
	if err := c.head.parse(string(text)); err != nil {
		return understood{wrong: true}
	}
	h := &c.head
	var b message.Body
	b.Begin(&in, h.framing, h.length)
	body, err := io.ReadAll(&b)
	if err != nil {
		return understood{wrong: true}
	}
	rest, _ := io.ReadAll(&in)
	u = understood{method: h.method, target: h.target, host: h.host, proto: "HTTP/1." + string(rune('0'+h.minor)), body: string(body), rest: string(rest), close: h.close}
	u.header, u.trailer = headerOf(h.fields, nil, make([]string, len(h.fields))), headerOf(b.Trailer(), nil, make([]string, len(b.Trailer())))
	if h.framing != message.None {
		u.length = h.length
	}
	return u
}

// peers reads it with net/http.
func peers(text string) understood {
	in := bufio.NewReaderSize(strings.NewReader(text), 256<<10)
	r, err := http.ReadRequest(in)
	if err != nil {
		return understood{wrong: true}
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return understood{wrong: true}
	}
	rest, _ := io.ReadAll(in)
	u := understood{method: r.Method, target: r.RequestURI, host: r.Host, proto: r.Proto, header: r.Header, trailer: http.Header{}, length: r.ContentLength, body: string(body), rest: string(rest), close: r.Close}
	for name, values := range r.Trailer {
		// What is announced and does not come has no value.
		if values != nil {
			u.trailer[name] = values
		}
	}
	return u
}

// plain is a request for / of the host a instead.
func plain(text string) string {
	head, rest, _ := strings.Cut(text, "\n")
	method, after, _ := strings.Cut(head, " ")
	_, version, _ := strings.Cut(after, " ")
	lines := []string{method + " / " + version}
	for line := head; ; lines = append(lines, line) {
		line, rest, _ = strings.Cut(rest, "\n")
		if name, _, _ := strings.Cut(line, ":"); strings.EqualFold(name, "host") {
			line = "Host: a"
		}
		if line == "" || line == "\r" {
			return strings.Join(append(lines, line, rest), "\n")
		}
	}
}

// FuzzRequest: what is accepted, net/http accepts and understands as the same, with the same end. Less may be accepted,
// never more; but for targets, which this package leaves to handlers.
func FuzzRequest(f *testing.F) {
	for _, text := range []string{
		"GET / HTTP/1.1\r\nHost: a\r\n\r\nGET /inner HTTP/1.1\r\nHost: a\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabcd",
		"POST /a?b HTTP/1.1\nHost: a\nTransfer-Encoding: chunked\n\n3;x=y\r\nabc\r\n0\r\nX: y\r\n\r\nrest",
		"PUT http://b/ HTTP/1.0\r\nhost: a\r\nConnection: close\r\nX: a\r\nx: b\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: a\r\nTrailer: X-A\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\nX-A: 1\r\nX-B: 2\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: a\r\nX : b\r\n\r\n", "GET / HTTP/1.1\r\nHost: a\r\nX: b\r\n c\r\n\r\n", "GET / HTTP/1.2\r\nHost: a\r\n\r\n",
	} {
		f.Add(text, byte(0))
		f.Add(text, byte(1))
	}
	f.Fuzz(func(t *testing.T, text string, size byte) {
		var src io.Reader = strings.NewReader(text)
		if size > 0 {
			src = http1.Pieces(text, int(size))
		}
		we := ours(src)
		if we.wrong {
			return
		}
		they := peers(text)
		if they.wrong {
			// It asks more of targets and of hosts, and of nothing else.
			if they = peers(plain(text)); they.wrong {
				t.Fatalf("%q is read as\n%+v, and by net/http not at all", text, we)
			}
			they.target, they.host = we.target, we.host
		}
		// These net/http takes out of the header, or adds; it closes for its own reasons.
		for _, name := range []string{"Connection", "Trailer", "Cache-Control", "Content-Length", "Transfer-Encoding"} {
			we.header.Del(name)
			they.header.Del(name)
		}
		we.close, they.close = false, false
		if !reflect.DeepEqual(we, they) {
			t.Errorf("%q is read as\n%+v, by net/http as\n%+v", text, we, they)
		}
	})
}

// TestStatusOf: what is nobody's fault here has none.
func TestStatusOf(t *testing.T) {
	if _, said := statusOf(errors.New("reset by the peer")); said {
		t.Error("a broken connection is answered")
	}
	if _, said := statusOf(io.ErrUnexpectedEOF); said {
		t.Error("an ended connection is answered")
	}
}
