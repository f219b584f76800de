package upstream

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/mumoshu/ingress-daemonset-controller/internal/proxy/message"
	"github.com/mumoshu/ingress-daemonset-controller/internal/testing/http1"
)

// oddity is what an endpoint may answer, byte by byte, and what is to come of it.
type oddity struct {
	name   string
	answer string
	// method is GET where it is empty.
	method string
	// status 0 is that the exchange fails without one.
	status int
	body   string
	fails  Class
	// reused says whether another request may follow on the connection.
	reused bool
	// ends says whether the endpoint closes the connection after the answer.
	ends bool
}

const (
	ok   = "HTTP/1.1 200 OK\r\n"
	five = "Content-Length: 5\r\n"
	te   = "Transfer-Encoding: chunked\r\n"
)

func bad(name, answer string) oddity { return oddity{name: name, answer: answer, fails: Malformed} }

func good(name, answer string) oddity {
	return oddity{name: name, answer: answer, status: 200, body: "hello", reused: true}
}

// broken is a body of which some comes.
func broken(name, answer, body string, class Class) oddity {
	return oddity{name: name, answer: answer, status: 200, body: body, fails: class, ends: true}
}

var oddities = []oddity{
	// Status lines.
	good("plain", hello),
	good("no reason", "HTTP/1.1 200 \r\n"+five+"\r\nhello"),
	good("no reason, no space", "HTTP/1.1 200\r\n"+five+"\r\nhello"),
	good("lines that end with LF", "HTTP/1.1 200 OK\nContent-Length: 5\n\nhello"),
	good("a reason in Latin-1", "HTTP/1.1 200 \xe9\r\n"+five+"\r\nhello"),
	bad("HTTP/2", "HTTP/2.0 200 OK\r\n"+five+"\r\nhello"),
	bad("HTTP/1.2", "HTTP/1.2 200 OK\r\n"+five+"\r\nhello"),
	bad("HTTP/0.9", "hello"),
	bad("another protocol", "SSH-2.0-OpenSSH_9.2\r\n"),
	bad("lower case", "http/1.1 200 OK\r\n"+five+"\r\nhello"),
	bad("an empty line before", "\r\n"+hello),
	bad("two spaces", "HTTP/1.1  200 OK\r\n"+five+"\r\nhello"),
	bad("a tab", "HTTP/1.1\t200 OK\r\n"+five+"\r\nhello"),
	bad("a short status", "HTTP/1.1 20 OK\r\n"+five+"\r\nhello"),
	bad("a long status", "HTTP/1.1 2000 OK\r\n"+five+"\r\nhello"),
	bad("a status of 0", "HTTP/1.1 000 OK\r\n"+five+"\r\nhello"),
	bad("a negative status", "HTTP/1.1 -20 OK\r\n"+five+"\r\nhello"),
	bad("a status of letters", "HTTP/1.1 2xx OK\r\n"+five+"\r\nhello"),
	bad("no status", "HTTP/1.1 \r\n\r\n"),
	bad("NUL in the reason", "HTTP/1.1 200 O\x00K\r\n"+five+"\r\nhello"),
	bad("CR in the reason", "HTTP/1.1 200 O\rK\r\n"+five+"\r\nhello"),

	// Fields.
	good("spaces around a value", ok+"Content-Length: \t5 \t\r\n\r\nhello"),
	good("no value", ok+"X:\r\n"+five+"\r\nhello"),
	good("bytes above ASCII in a value", ok+"X: \xff\r\n"+five+"\r\nhello"),
	bad("obs-fold", ok+"X: a\r\n b\r\n"+five+"\r\nhello"),
	bad("a fold at once", ok+" X: a\r\n"+five+"\r\nhello"),
	bad("a space before the colon", ok+"Content-Length : 5\r\n\r\nhello"),
	bad("a space in a name", ok+"Content Length: 5\r\n\r\nhello"),
	bad("no colon", ok+"X\r\n"+five+"\r\nhello"),
	bad("no name", ok+": x\r\n"+five+"\r\nhello"),
	bad("NUL in a name", ok+"X\x00: x\r\n"+five+"\r\nhello"),
	bad("NUL in a value", ok+"X: a\x00b\r\n"+five+"\r\nhello"),
	bad("CR in a value", ok+"X: a\rb\r\n"+five+"\r\nhello"),
	bad("CR CR LF", ok+"X: a\r\r\n"+five+"\r\nhello"),
	bad("CR for a line end", ok+"X: a\rContent-Length: 5\r\n\r\nhello"),
	bad("too long", ok+"X: "+strings.Repeat("x", 64<<10)+"\r\n\r\n"),
	bad("too many fields", ok+strings.Repeat("X: y\r\n", 1001)+"\r\n"),
	bad("endless", ok+strings.Repeat("X: y\r\n", 20_000)),
	good("a long head", ok+"X: "+strings.Repeat("x", 60<<10)+"\r\n"+five+"\r\nhello"),

	// Framing.
	good("chunked", ok+te+"\r\n5\r\nhello\r\n0\r\n\r\n"),
	good("the same length twice", ok+five+five+"\r\nhello"),
	bad("unequal lengths", ok+five+"Content-Length: 6\r\n\r\nhello!"),
	bad("a list of lengths", ok+"Content-Length: 5, 5\r\n\r\nhello"),
	bad("a length with a sign", ok+"Content-Length: +5\r\n\r\nhello"),
	bad("a negative length", ok+"Content-Length: -5\r\n\r\nhello"),
	bad("a length in hex", ok+"Content-Length: 0x5\r\n\r\nhello"),
	bad("an empty length", ok+"Content-Length: \r\n\r\nhello"),
	bad("a length over 63 bits", ok+"Content-Length: 9223372036854775808\r\n\r\nhello"),
	bad("chunked and length", ok+te+five+"\r\n5\r\nhello\r\n0\r\n\r\n"),
	bad("length and chunked", ok+five+te+"\r\nhello"),
	bad("chunked twice", ok+te+te+"\r\n5\r\nhello\r\n0\r\n\r\n"),
	bad("gzip, chunked", ok+"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n"),
	bad("chunked with a sign of Kelvin", ok+"Transfer-Encoding: chun\u212aed\r\n\r\n0\r\n\r\n"),
	bad("identity", ok+"Transfer-Encoding: identity\r\n"+five+"\r\nhello"),
	bad("obfuscated", ok+"Transfer-Encoding: xchunked\r\n\r\nhello"),
	bad("obfuscated by a byte", ok+"Transfer-Encoding: \x0bchunked\r\n\r\nhello"),
	bad("chunked in HTTP/1.0", "HTTP/1.0 200 OK\r\n"+te+"\r\n0\r\n\r\n"),
	bad("a trailer with a length", ok+te+"Trailer: content-length\r\n\r\n0\r\n\r\n"),
	{name: "until close", answer: ok + "\r\nhello", status: 200, body: "hello", ends: true},
	{name: "HTTP/1.0", answer: "HTTP/1.0 200 OK\r\n" + five + "\r\nhello", status: 200, body: "hello"},
	{name: "close", answer: ok + "Connection: x, Close\r\n" + five + "\r\nhello", status: 200, body: "hello"},
	{name: "more than its length", answer: hello + "x", status: 200, body: "hello"},
	{name: "another response", answer: hello + hello, status: 200, body: "hello"},
	{name: "204 with a length", answer: "HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\n", status: 204, reused: true},
	{name: "204 with a body", answer: "HTTP/1.1 204 No Content\r\n" + te + "\r\n0\r\n\r\n", status: 204},
	{name: "304", answer: "HTTP/1.1 304 Not Modified\r\n" + five + "\r\n", status: 304, reused: true},
	{name: "HEAD", method: "HEAD", answer: ok + five + "\r\n", status: 200, reused: true},
	{name: "HEAD, chunked", method: "HEAD", answer: ok + te + "\r\n", status: 200, reused: true},
	{name: "HEAD with a body", method: "HEAD", answer: hello, status: 200},
	{name: "an unknown status", answer: "HTTP/1.1 999 Denied\r\nContent-Length: 0\r\n\r\n", status: 999, reused: true},

	// Chunks.
	good("upper case", ok+"TRANSFER-ENCODING: Chunked\r\n\r\n00005\r\nhello\r\n000\r\n\r\n"),
	good("many", ok+te+"\r\n1\r\nh\r\n1\r\ne\r\n2\r\nll\r\n1\r\no\r\n0\r\n\r\n"),
	good("an extension", ok+te+"\r\n5;a=\"b\"\r\nhello\r\n0;c\r\n\r\n"),
	good("a trailer", ok+te+"\r\n5\r\nhello\r\n0\r\nX-Sum: 1\r\n\r\n"),
	{name: "more after the last chunk", answer: ok + te + "\r\n5\r\nhello\r\n0\r\n\r\nx", status: 200, body: "hello"},
	broken("LF after a size", ok+te+"\r\n5\nhello\r\n0\r\n\r\n", "", Malformed),
	broken("LF after a chunk", ok+te+"\r\n5\r\nhello\n0\r\n\r\n", "hello", Malformed),
	broken("CR in a size", ok+te+"\r\n5\r5\r\nhello\r\n0\r\n\r\n", "", Malformed),
	broken("a space after a size", ok+te+"\r\n5 \r\nhello\r\n0\r\n\r\n", "", Malformed),
	broken("a space before a size", ok+te+"\r\n 5\r\nhello\r\n0\r\n\r\n", "", Malformed),
	broken("a sign", ok+te+"\r\n+5\r\nhello\r\n0\r\n\r\n", "", Malformed),
	broken("0x", ok+te+"\r\n0x5\r\nhello\r\n0\r\n\r\n", "", Malformed),
	broken("no size", ok+te+"\r\n\r\nhello\r\n0\r\n\r\n", "", Malformed),
	broken("no digit", ok+te+"\r\n;a\r\nhello\r\n0\r\n\r\n", "", Malformed),
	broken("a size over 63 bits", ok+te+"\r\n8000000000000000\r\nhello", "", Malformed),
	broken("a size over 64 bits", ok+te+"\r\n10000000000000005\r\nhello", "", Malformed),
	broken("an endless size", ok+te+"\r\n"+strings.Repeat("0", 5000), "", Malformed),
	broken("NUL in an extension", ok+te+"\r\n5;a\x00\r\nhello\r\n0\r\n\r\n", "", Malformed),
	broken("longer than its size", ok+te+"\r\n4\r\nhello\r\n0\r\n\r\n", "hell", Malformed),
	broken("too much beside data", ok+te+"\r\n"+strings.Repeat("1;"+strings.Repeat("x", 1000)+"\r\nh\r\n", 30), strings.Repeat("h", 16), Malformed),
	broken("a length in the trailer", ok+te+"\r\n5\r\nhello\r\n0\r\nContent-Length: 5\r\n\r\n", "hello", Malformed),
	broken("a fold in the trailer", ok+te+"\r\n5\r\nhello\r\n0\r\nX: a\r\n b\r\n\r\n", "hello", Malformed),
	broken("LF in the trailer", ok+te+"\r\n5\r\nhello\r\n0\r\nX: a\n\r\n", "hello", Malformed),
	broken("a long trailer", ok+te+"\r\n5\r\nhello\r\n0\r\n"+strings.Repeat("X: a\r\n", 3000)+"\r\n", "hello", Malformed),

	// Ends.
	{name: "at once", fails: NoResponse, ends: true},
	{name: "within the status line", answer: "HTTP/1.1 2", fails: BodyBroken, ends: true},
	{name: "within the head", answer: ok + five, fails: BodyBroken, ends: true},
	{name: "after 103", answer: "HTTP/1.1 103 Early Hints\r\n\r\n", fails: BodyBroken, ends: true},
	broken("within a body", ok+five+"\r\nhell", "hell", BodyBroken),
	broken("within a chunk", ok+te+"\r\n5\r\nhell", "hell", BodyBroken),
	broken("after a chunk", ok+te+"\r\n5\r\nhello\r\n", "hello", BodyBroken),
	broken("before the end of the trailer", ok+te+"\r\n5\r\nhello\r\n0\r\n", "hello", BodyBroken),

	// Informational.
	good("103", "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"+hello),
	good("100, not asked for", "HTTP/1.1 100 Continue\r\n\r\n"+hello),
	good("with a length", "HTTP/1.1 102 Processing\r\nContent-Length: 3\r\n\r\n"+hello),
	bad("endless ones", strings.Repeat("HTTP/1.1 103 Early Hints\r\n\r\n", 40)+hello),
	bad("101, not asked for", "HTTP/1.1 101 Switching Protocols\r\n\r\n"),
	bad("101 to what was not asked for", "HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\nConnection: upgrade\r\n\r\n"),
}

func TestOddities(t *testing.T) {
	for _, o := range oddities {
		t.Run(o.name, func(t *testing.T) {
			s := listen(t, func(s *http1.Session) {
				for s.Head() != "" {
					if s.Say(o.answer); o.ends {
						return
					}
				}
			})
			p := client(t, s.key)
			method := o.method
			if method == "" {
				method = "GET"
			}
			for range 2 {
				g, _ := exchange(t, p, request(method, "/", 0))
				if g.status != o.status || g.body != o.body || (g.err == nil) != (o.fails == 0) || g.err != nil && g.err.Class != o.fails {
					t.Fatalf("got %d %.50q (%v), want %d %.50q (%s)", g.status, g.body, g.err, o.status, o.body, o.fails)
				}
			}
			if n := s.Connections(); (n == 1) != o.reused || p.Idle() > 1 {
				t.Errorf("two requests took %d connections, %d of them idle: they can be used again is %t", n, p.Idle(), o.reused)
			}
		})
	}
	if len(oddities) < 40 {
		t.Errorf("there are %d rows", len(oddities))
	}
}

// TestPieces lets no answer depend on how it was cut on its way.
func TestPieces(t *testing.T) {
	for _, o := range oddities {
		if len(o.answer) > 2000 {
			continue
		}
		whole := readAll(strings.NewReader(o.answer), o.method == "HEAD")
		for size := range 4 {
			if cut := readAll(http1.Pieces(o.answer, size+1), o.method == "HEAD"); fmt.Sprint(whole) != fmt.Sprint(cut) {
				t.Errorf("%s: whole it is %+v, by %d bytes %+v", o.name, whole, size+1, cut)
			}
		}
	}
}

func TestFieldsOfResponse(t *testing.T) {
	s := listen(t, answering("HTTP/1.1 404 Not Found\r\nx-a: 1\r\nSet-Cookie: a\r\nCONTENT-LENGTH: 2\r\nset-cookie:b\r\nConnection: keep-alive\r\n\r\nno"))
	g, r := exchange(t, client(t, s.key), get())
	want := []message.Field{{Name: "X-A", Value: "1"}, {Name: "Set-Cookie", Value: "a"}, {Name: "Set-Cookie", Value: "b"}, {Name: "Connection", Value: "keep-alive"}}
	if g.status != 404 || r.Length != 2 || !slices.Equal(r.Header, want) {
		t.Errorf("got %d with %d bytes, %v", g.status, r.Length, r.Header)
	}
}

func TestLengths(t *testing.T) {
	for _, test := range []struct {
		method, answer string
		want           int64
	}{
		{"GET", hello, 5},
		{"GET", ok + "Content-Length: 0\r\n\r\n", 0},
		{"GET", ok + te + "\r\n0\r\n\r\n", -1},
		{"GET", ok + "Connection: close\r\n\r\n", -1},
		{"GET", "HTTP/1.1 204 No Content\r\n\r\n", 0},
		{"GET", "HTTP/1.1 204 No Content\r\nContent-Length: 7\r\n\r\n", 0},
		{"GET", "HTTP/1.1 304 Not Modified\r\n\r\n", -1},
		{"HEAD", ok + "Content-Length: 7\r\n\r\n", 7},
		{"HEAD", ok + "\r\n", -1},
		{"HEAD", ok + te + "\r\n", -1},
	} {
		s := listen(t, func(s *http1.Session) { s.Head(); s.Say(test.answer) })
		if g, r := exchange(t, client(t, s.key), request(test.method, "/", 0)); g.err != nil || r.Length != test.want {
			t.Errorf("%s %q: the length is %d (%v), want %d", test.method, test.answer, r.Length, g.err, test.want)
		}
	}
}

func TestTrailer(t *testing.T) {
	s := listen(t, answering(ok+te+"Trailer: grpc-status\r\n\r\n5\r\nhello\r\n0\r\ngrpc-status: 0\r\nX:  y \r\n\r\n"))
	p := client(t, s.key)
	for range 2 {
		g, r := exchange(t, p, get())
		if want := []message.Field{{Name: "Grpc-Status", Value: "0"}, {Name: "X", Value: "y"}}; !slices.Equal(g.trailer, want) {
			t.Errorf("the trailer is %v", g.trailer)
		}
		if r.Trailer() != nil {
			t.Errorf("there is a trailer after Close: %v", r.Trailer())
		}
	}
}
