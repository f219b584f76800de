package proxy

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/wire"
	"github.com/mumoshu/ingress-daemonset-controller/internal/testing/await"
	"github.com/mumoshu/ingress-daemonset-controller/internal/testing/http1"
)

// TestEventsAreFlushed: what an endpoint has said the client has, while more is waited for: the head, and
// each event.
func TestEventsAreFlushed(t *testing.T) {
	for _, framing := range []string{"chunked", "length", "close"} {
		events := make(chan string)
		defer close(events)
		e, _ := played(t, framing, func(s *http1.Session) {
			s.Head()
			switch framing {
			case "chunked":
				s.Say("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
			case "length":
				s.Say("HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\n")
			default:
				s.Say("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n")
			}
			for event := range events {
				if framing == "chunked" {
					event = fmt.Sprintf("%x\r\n%s\r\n", len(event), event)
				}
				s.Say(event)
			}
		})
		s := serving(t, e)
		r, err := clientAt(t, s, 80).Get("http://a/")
		if err != nil {
			t.Fatal(err)
		}
		for _, event := range []string{"event 1\n", "more"} {
			events <- event
			buf := make([]byte, len(event))
			if _, err := io.ReadFull(r.Body, buf); err != nil || string(buf) != event {
				t.Fatalf("%s: read %q, %v, want %q", framing, buf, err, event)
			}
		}
		r.Body.Close()
	}
}

// TestEarlyAnswer: a final response comes through while the client still sends, and then nobody takes the
// rest.
func TestEarlyAnswer(t *testing.T) {
	e, _ := played(t, "early", func(s *http1.Session) {
		s.Head()
		s.Say("HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\nConnection: close\r\n\r\nno")
		s.Hold()
	})
	s := serving(t, e)
	for _, length := range []string{"Content-Length: 1073741824", "Transfer-Encoding: chunked"} {
		c := dial(t, s, 80)
		c.Say("POST / HTTP/1.1\r\nHost: a\r\n" + length + "\r\n\r\n")
		if strings.HasPrefix(length, "T") {
			c.Say("5\r\nhello\r\n")
		} else {
			c.Say("hello")
		}
		r, body := c.Response(t, "POST")
		if r.StatusCode != 403 || body != "no" || !r.Close {
			t.Errorf("%s: %s %q, close %t", length, r.Status, body, r.Close)
		}
		// What is sent meanwhile is read for a moment, and not answered.
		c.Say("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
		if rest, _ := io.ReadAll(c.In); len(rest) > 0 {
			t.Errorf("%s: then came %q", length, rest)
		}
	}
}

// zeros are as many bytes as are read, and counts them.
type zeros struct{ given atomic.Int64 }

func (z *zeros) Read(p []byte) (int, error) {
	clear(p)
	z.given.Add(int64(len(p)))
	return len(p), nil
}

// TestGibibyteRefusedEarly: a client that sends 1 GiB as fast as it can has the refusal while it does, and neither it
// nor the endpoint sends or takes the rest. What comes is in nobody's memory.
func TestGibibyteRefusedEarly(t *testing.T) {
	const size, some = 1 << 30, 64 << 20
	for _, protocol := range []string{"HTTP/1.1", "HTTP/2.0"} {
		for _, says := range []bool{true, false} {
			took := make(chan int64, 1)
			e, _ := played(t, "early", func(s *http1.Session) {
				s.Head()
				n, _ := io.CopyN(io.Discard, s.In, 1<<20)
				s.Say("HTTP/1.1 413 Content Too Large\r\nContent-Length: 2\r\n\r\nno")
				more, _ := io.Copy(io.Discard, s.In)
				took <- n + more
			})
			s := serving(t, e)
			c := clientAt(t, s, 80, func(tr *http.Transport) {
				tr.Protocols = new(http.Protocols)
				tr.Protocols.SetHTTP1(protocol == "HTTP/1.1")
				tr.Protocols.SetUnencryptedHTTP2(protocol == "HTTP/2.0")
			})
			var body zeros
			q := request(t, "POST", "http://a/", io.LimitReader(&body, size))
			if says {
				q.ContentLength = size
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			text, r := did(t, c, q)
			runtime.ReadMemStats(&after)
			if text != "413 no" || r.Proto != protocol {
				t.Errorf("%s, length said %t: %s %s", protocol, says, r.Proto, text)
			}
			taken := <-took
			if given, held := body.given.Load(), after.TotalAlloc-before.TotalAlloc; given > some || taken > some || held > some {
				t.Errorf("%s, length said %t: the client sent %d bytes, the endpoint took %d, and %d were in memory", protocol, says, given, taken, held)
			}
		}
	}
}

// TestUploadGoesOn: a response that begins before the request ends does not end it.
func TestUploadGoesOn(t *testing.T) {
	e, _ := played(t, "echo", func(s *http1.Session) {
		s.Head()
		s.Say("HTTP/1.1 200 OK\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n")
		io.Copy(s, s.In)
	})
	s := serving(t, e)
	for _, protocol := range []string{"HTTP/1.1", "HTTP/2.0"} {
		body, feed := io.Pipe()
		c := clientAt(t, s, 80, func(tr *http.Transport) {
			tr.Protocols = new(http.Protocols)
			tr.Protocols.SetHTTP1(protocol == "HTTP/1.1")
			tr.Protocols.SetUnencryptedHTTP2(protocol == "HTTP/2.0")
		})
		r, err := c.Do(request(t, "POST", "http://a/", body))
		if err != nil {
			t.Fatal(err)
		}
		if r.Proto != protocol {
			t.Errorf("it is spoken %s, want %s", r.Proto, protocol)
		}
		for _, word := range []string{"one", "two"} {
			io.WriteString(feed, word)
			buf := make([]byte, 3)
			if _, err := io.ReadFull(r.Body, buf); err != nil || string(buf) != word {
				t.Fatalf("%s: read %q, %v, want %q", protocol, buf, err, word)
			}
		}
		feed.Close()
		if rest, err := io.ReadAll(r.Body); err != nil || len(rest) > 0 {
			t.Errorf("%s: then came %q, %v", protocol, rest, err)
		}
		r.Body.Close()
	}
}

// TestBrokenAnswerOfHTTP10: a client that finds an answer's end by that of its connection sees it broken, where the answer
// broke off.
func TestBrokenAnswerOfHTTP10(t *testing.T) {
	for whole, rest := range map[bool]string{true: "0\r\n\r\n", false: "x"} {
		e, _ := played(t, "breaks off", func(s *http1.Session) {
			s.Head()
			s.Say("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n" + rest)
		})
		c := dial(t, serving(t, e), 80)
		c.Say("GET / HTTP/1.0\r\nHost: a\r\n\r\n")
		if _, err := io.ReadAll(c.In); (err == nil) != whole {
			t.Errorf("whole %t: it ends with %v", whole, err)
		}
	}
}

// TestTrailers come through both ways, announced or not.
func TestTrailers(t *testing.T) {
	e := handled(t, "trailers", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Trailer", "X-Announced")
		io.Copy(w, r.Body)
		w.Header().Set("X-Announced", r.Trailer.Get("X-Sum"))
		w.Header().Set(http.TrailerPrefix+"X-Unannounced", "2")
	})
	s := serving(t, e)
	q := request(t, "POST", "http://a/", io.MultiReader(strings.NewReader("body")))
	q.Trailer = http.Header{"X-Sum": {"1"}}
	text, r := did(t, clientAt(t, s, 80), q)
	if text != "200 body" || r.Trailer.Get("X-Announced") != "1" || r.Trailer.Get("X-Unannounced") != "2" {
		t.Errorf("%q with trailer %v", text, r.Trailer)
	}
	// All of it may come at once.
	once, _ := recording(t, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nX-Sum: 3\r\n\r\n")
	tell(t, s, backendOf(cheddar, once)...)
	if text, r := did(t, clientAt(t, s, 80), request(t, "GET", "http://a/", nil)); text != "200 hello" || r.Trailer.Get("X-Sum") != "3" {
		t.Errorf("%q with trailer %v", text, r.Trailer)
	}
}

// TestTrailersOfStrangers: a request's come through, announced or not, but for those that would say of the client what
// the head may not, or what a filter has in its hands.
func TestTrailersOfStrangers(t *testing.T) {
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	e := h2Server(t, &protocols, func(w http.ResponseWriter, r *http.Request) {
		announced := slices.Sorted(maps.Keys(r.Trailer))
		io.Copy(io.Discard, r.Body)
		fmt.Fprintf(w, "%v%v", announced, r.Trailer)
	})
	const fields = "X-Sum: 1\r\nX-Forwarded-For: 6.6.6.6\r\nX_Real_Ip: 6.6.6.6\r\nForwarded: for=6.6.6.6\r\nCookie: a=b\r\nAuthorization: x\r\nX-Role: admin\r\nX_Gone: 1\r\n\r\n"
	const names = "Trailer: X-Sum, X-Forwarded-For, X_Real_Ip, Forwarded, Cookie, Authorization, X-Role, X_Gone\r\n"
	for _, protocol := range []string{"", protocolH2C} {
		s := started(t)
		all := backendOf(cheddar, e)
		all[1].Backend.Protocol = protocol
		tell(t, s, append(all, web(), route("all", func(r *wire.Route) {
			r.Filters = []wire.Filter{{Kind: wire.RequestHeaders, Headers: &wire.HeaderFilter{Set: []wire.Header{{Name: "x-role", Value: "guest"}}, Remove: []string{"x-gone"}}}}
		}))...)
		for announced, want := range map[string]string{"": "[]map[X-Sum:[1]]", names: "[X-Sum]map[X-Sum:[1]]"} {
			if protocol == protocolH2C && announced == "" {
				// net/http's server has none that was not announced.
				want = "[]map[]"
			}
			c := dial(t, s, 80)
			c.Say("POST / HTTP/1.1\r\nHost: a\r\n" + announced + "Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n" + fields)
			if r, body := c.Response(t, "POST"); body != want {
				t.Errorf("%q, announced %q: %s %q, want %q", protocol, announced, r.Status, body, want)
			}
		}
	}
}

// TestInformational: 103 comes through as often as it comes, and 100 once, when the endpoint wants the
// body.
func TestInformational(t *testing.T) {
	e, _ := played(t, "hints", func(s *http1.Session) {
		for head := s.Head(); head != ""; head = s.Head() {
			if strings.Contains(head, "Expect: 100-continue") {
				s.Say("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n")
				io.ReadFull(s.In, make([]byte, 5))
			} else {
				s.Say("HTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: b\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n")
			}
			s.Say("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX-Final: 1\r\n\r\nok")
		}
	})
	s := serving(t, e)
	c := dial(t, s, 80)
	c.Say("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	for _, want := range []string{"HTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\n", "HTTP/1.1 103 Early Hints\r\nLink: b\r\n\r\n"} {
		if head := c.Head(); head != want {
			t.Errorf("the head is %q, want %q", head, want)
		}
	}
	if r, body := c.Response(t, "GET"); r.StatusCode != 200 || body != "ok" || r.Header["Link"] != nil {
		t.Errorf("%s %q, %v", r.Status, body, r.Header)
	}
	c.Say("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n")
	if head := c.Head(); head != "HTTP/1.1 100 Continue\r\n\r\n" {
		t.Fatalf("the head is %q", head)
	}
	c.Say("hello")
	if r, body := c.Response(t, "POST"); r.StatusCode != 200 || body != "ok" {
		t.Errorf("%s %q", r.Status, body)
	}
}

// TestInformationalOfHTTP2: those of an endpoint of HTTP/2 are passed on as others are, to clients of either protocol and
// also before a body was read, up to so many, and 100 (Continue) is not: the proxy says that.
func TestInformationalOfHTTP2(t *testing.T) {
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	var asked atomic.Int32
	e := h2Server(t, &protocols, func(w http.ResponseWriter, r *http.Request) {
		many := r.URL.Path == "/many"
		if many {
			asked.Add(1)
		}
		for i := 0; (i < 2 || many && i < 40) && r.Context().Err() == nil; i++ {
			w.Header().Set("Link", fmt.Sprint(i))
			w.WriteHeader(http.StatusEarlyHints)
		}
		if r.Context().Err() != nil {
			// Whose stream was reset: net/http may still be reading the header.
			return
		}
		w.Header().Del("Link")
		w.WriteHeader(http.StatusContinue)
		io.Copy(w, r.Body)
	})
	s := servingH2C(t, e)
	for _, h2 := range []bool{false, true} {
		c := clientAt(t, s, 80, func(tr *http.Transport) {
			tr.Protocols = new(http.Protocols)
			tr.Protocols.SetHTTP1(!h2)
			tr.Protocols.SetUnencryptedHTTP2(h2)
		})
		for _, size := range []int{0, 5, 200_000} {
			var seen []string
			q := request(t, "POST", "http://a/", strings.NewReader(strings.Repeat("x", size)))
			q = q.WithContext(httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
				Got1xxResponse: func(code int, header textproto.MIMEHeader) error {
					seen = append(seen, fmt.Sprintf("%d %s", code, header.Get("Link")))
					return nil
				},
			}))
			text, r := did(t, c, q)
			if len(text) != len("200 ")+size || r.Header["Link"] != nil || !slices.Equal(seen, []string{"103 0", "103 1"}) {
				t.Errorf("HTTP/2: %t, %d bytes: %.20q, %v after %v", h2, size, text, r.Header, seen)
			}
		}
		// That is as wrong each time.
		if text, n := got(t, c, "http://a/many"), asked.Swap(0); !strings.HasPrefix(text, "502 ") || n != 1 {
			t.Errorf("HTTP/2: %t, after too many: %.100q, asked %d times", h2, text, n)
		}
	}
}

// TestContinueOfH2C: a client that waits for 100 (Continue) is told that once, also where the endpoint says it, too.
func TestContinueOfH2C(t *testing.T) {
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	e := h2Server(t, &protocols, func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusContinue)
		// Who answers before the body has ended ends the client's connection.
		io.Copy(io.Discard, r.Body)
		io.WriteString(w, "hello")
	})
	c := dial(t, servingH2C(t, e), 80)
	for range 20 {
		// Too long to be kept before the endpoint is asked.
		c.Say("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\nExpect: 100-continue\r\n\r\n")
		if head := c.Head(); head != "HTTP/1.1 100 Continue\r\n\r\n" {
			t.Fatalf("the head is %q", head)
		}
		c.Say(strings.Repeat("x", 100_000))
		if r, body := c.Response(t, "POST"); r.StatusCode != 200 || body != "hello" {
			t.Fatalf("%s, %q", r.Status, body)
		}
	}
}

// TestHintsToWhoTakesNothing: a client that takes no informational response holds up nobody whose request shares the
// endpoint's connection.
func TestHintsToWhoTakesNothing(t *testing.T) {
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	begun := make(chan bool, 1)
	e := h2Server(t, &protocols, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/many" {
			io.WriteString(w, r.RemoteAddr)
			return
		}
		w.Header().Set("Link", strings.Repeat("x", 60<<10))
		for range 30 {
			w.WriteHeader(http.StatusEarlyHints)
		}
		begun <- true
		<-r.Context().Done()
	})
	s := started(t)
	listen := s.listen
	s.listen = func(address string) (net.Listener, error) {
		l, err := listen(address)
		return narrow{l}, err
	}
	all := backendOf(cheddar, e)
	all[1].Backend.Protocol = protocolH2C
	tell(t, s, append(all, web(), route("all"))...)
	other := clientAt(t, s, 80)
	before := got(t, other, "http://a/")
	slow := http1.Dial(t, s.Addresses()[80].String(), takingLittle)
	slow.Say("GET /many HTTP/1.1\r\nHost: a\r\n\r\n")
	<-begun
	for range 5 {
		if text := got(t, other, "http://a/"); text != before {
			t.Fatalf("%q after %q: it was to share the connection", text, before)
		}
	}
}

// TestHintsToWhoLeaves: a client of HTTP/2 that leaves at an informational response ends nobody else's, and nothing that
// is still being read is written (the race detector sees that).
func TestHintsToWhoLeaves(t *testing.T) {
	e, _ := played(t, "hints", func(s *http1.Session) {
		for head := s.Head(); head != ""; head = s.Head() {
			s.Say(strings.Repeat("HTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\n", 20) + hello)
		}
	})
	s := serving(t, e)
	c := clientAt(t, s, 80, func(tr *http.Transport) {
		tr.Protocols = new(http.Protocols)
		tr.Protocols.SetUnencryptedHTTP2(true)
	})
	for range 100 {
		ctx, cancel := context.WithCancel(t.Context())
		q := request(t, "GET", "http://a/", nil).WithContext(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
			Got1xxResponse: func(int, textproto.MIMEHeader) error { cancel(); return nil },
		}))
		if r, err := c.Do(q); err == nil {
			r.Body.Close()
		}
		cancel()
	}
	if text := got(t, c, "http://a/"); text != "200 hello" {
		t.Error(text)
	}
}

// TestContinueOfHTTP2: exactly one comes there, too.
func TestContinueOfHTTP2(t *testing.T) {
	e := handled(t, "reader", func(w http.ResponseWriter, r *http.Request) { io.Copy(w, r.Body) })
	s := serving(t, e)
	c := clientAt(t, s, 80, func(tr *http.Transport) {
		tr.ExpectContinueTimeout = 20 * time.Second
		tr.Protocols = new(http.Protocols)
		tr.Protocols.SetUnencryptedHTTP2(true)
	})
	var seen []int
	q := request(t, "PUT", "http://a/", strings.NewReader("hello"))
	q.Header.Set("Expect", "100-continue")
	q = q.WithContext(httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
		Got1xxResponse: func(code int, _ textproto.MIMEHeader) error { seen = append(seen, code); return nil },
	}))
	if text, _ := did(t, c, q); text != "200 hello" || fmt.Sprint(seen) != "[100]" {
		t.Errorf("%q after %v", text, seen)
	}
}

// TestUnwantedBody: an endpoint that answers instead of 100 gets no body, and the client none of it to
// send.
func TestUnwantedBody(t *testing.T) {
	e, _ := played(t, "refuses", func(s *http1.Session) {
		s.Head()
		s.Say("HTTP/1.1 413 Content Too Large\r\nContent-Length: 0\r\n\r\n")
		if rest, _ := io.ReadAll(s.In); len(rest) > 0 {
			t.Errorf("the endpoint got %q", rest)
		}
	})
	s := serving(t, e)
	c := dial(t, s, 80)
	c.Say("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n")
	if head := c.Head(); !strings.HasPrefix(head, "HTTP/1.1 413 ") || !strings.Contains(head, "Connection: close") {
		t.Errorf("the head is %q", head)
	}
}

// TestSlowBody: a body whose client falls asleep is answered, 408, whether it is kept or streamed; one
// that comes bit by bit fast enough is not.
func TestSlowBody(t *testing.T) {
	e := handled(t, "reader", func(w http.ResponseWriter, r *http.Request) { io.Copy(io.Discard, r.Body) })
	s := started(t, func(o *Options) { o.BodyRate, o.BodyWindow = 10, 800*time.Millisecond })
	tell(t, s, append(backendOf(cheddar, e), web(), route("all"))...)
	for _, length := range []int{100, 1 << 20} {
		c := dial(t, s, 80)
		fmt.Fprintf(c, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\nhello", length)
		if r, body := c.Response(t, "POST"); r.StatusCode != 408 || !r.Close {
			t.Errorf("%d bytes: %s %q", length, r.Status, body)
		}
	}
	body, feed := io.Pipe()
	go func() {
		// It takes longer than the window.
		for range 12 {
			<-time.After(100 * time.Millisecond)
			feed.Write(make([]byte, 10))
		}
		feed.Close()
	}()
	if text, _ := did(t, clientAt(t, s, 80), request(t, "POST", "http://a/", body)); text != "200 " {
		t.Error(text)
	}
}

// TestSlowMessages: a stream of gRPC has no rate, where its endpoint takes it as one. What only says that it is gRPC, to
// an endpoint that waits for the end of a request, has.
func TestSlowMessages(t *testing.T) {
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	e := h2Server(t, &protocols, func(w http.ResponseWriter, r *http.Request) { io.Copy(io.Discard, r.Body) })
	for protocol, want := range map[string]string{"": "408 408 Request Timeout\n", protocolH2C: "200 "} {
		const window = 300 * time.Millisecond
		s := started(t, func(o *Options) { o.BodyRate, o.BodyWindow = 10, window })
		all := backendOf(cheddar, e)
		all[1].Backend.Protocol = protocol
		tell(t, s, append(all, web(), route("all"))...)
		body, feed := io.Pipe()
		// It is over long after the window.
		end := time.AfterFunc(5*window, func() { feed.Close() })
		defer end.Stop()
		q := request(t, "POST", "http://a/", body)
		q.Header.Set("Content-Type", "application/grpc")
		c := clientAt(t, s, 80, func(tr *http.Transport) {
			tr.Protocols = new(http.Protocols)
			tr.Protocols.SetUnencryptedHTTP2(true)
		})
		if text, _ := did(t, c, q); text != want {
			t.Errorf("%q: %q, want %q", protocol, text, want)
		}
	}
}

// TestLargeBody: beyond the bound it is 413, whether the length is said or not.
func TestLargeBody(t *testing.T) {
	e := handled(t, "reader", func(w http.ResponseWriter, r *http.Request) { io.Copy(io.Discard, r.Body) })
	s := started(t, func(o *Options) { o.MaxBody = 1000 })
	tell(t, s, append(backendOf(cheddar, e), web(), route("all"))...)
	c := clientAt(t, s, 80)
	for size, want := range map[int]string{1000: "200 ", 1001: "413 413 Request Entity Too Large\n", 200_000: "413 413 Request Entity Too Large\n"} {
		if text, _ := did(t, c, request(t, "POST", "http://a/", bytes.NewReader(make([]byte, size)))); text != want {
			t.Errorf("%d bytes: %q, want %q", size, text, want)
		}
		if text, _ := did(t, c, request(t, "POST", "http://a/", io.MultiReader(bytes.NewReader(make([]byte, size))))); text != want {
			t.Errorf("%d bytes in chunks: %q, want %q", size, text, want)
		}
	}
}

// TestBrokenAnswer: the client does not take a part for the whole.
func TestBrokenAnswer(t *testing.T) {
	for _, head := range []string{"Content-Length: 10", "Transfer-Encoding: chunked"} {
		e, _ := played(t, head, func(s *http1.Session) {
			s.Head()
			s.Say("HTTP/1.1 200 OK\r\n" + head + "\r\n\r\n5\r\nhello")
		})
		s := serving(t, e)
		for _, h2 := range []bool{false, true} {
			c := clientAt(t, s, 80, func(tr *http.Transport) {
				tr.Protocols = new(http.Protocols)
				tr.Protocols.SetHTTP1(!h2)
				tr.Protocols.SetUnencryptedHTTP2(h2)
			})
			r, err := c.Get("http://a/")
			if err == nil {
				_, err = io.ReadAll(r.Body)
				r.Body.Close()
			}
			if err == nil {
				t.Errorf("%s, HTTP/2 %t: the client takes it for whole", head, h2)
			}
		}
		b, _ := s.proxy.backends.Load(cheddar)
		if n := b.(*backend).counts.broken.Load(); n != 2 {
			t.Errorf("%s: %d answers are counted as broken", head, n)
		}
	}
}

// TestClientsThatLeave: nobody goes on for them.
func TestClientsThatLeave(t *testing.T) {
	left := make(chan error, 1)
	e, _ := played(t, "waits", func(s *http1.Session) {
		s.Head()
		_, err := s.In.ReadByte()
		left <- err
	})
	s := serving(t, e)
	c := dial(t, s, 80)
	c.Say("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	await.True(t, "the request is under way", func() bool { return s.proxy.under.Load() == 1 })
	c.Close()
	if err := <-left; err == nil {
		t.Errorf("the endpoint reads on: %v", err)
	}
	await.True(t, "it is counted", func() bool { return s.proxy.metrics.refused[statusGone].Load() == 1 })
}

// TestHTTP2Endpoints: requests, bodies, trailers and failures of backends that speak HTTP/2.
func TestHTTP2Endpoints(t *testing.T) {
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	e := h2Server(t, &protocols, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Seen", fmt.Sprint(r.Proto, " ", r.Host, " ", r.RequestURI, " ", r.Header["X-Forwarded-For"], r.Header["Te"], r.Header["User-Agent"]))
		io.Copy(w, r.Body)
		w.Header().Set(http.TrailerPrefix+"Grpc-Status", "0")
	})
	s := started(t)
	all := patient(e, nowhere(t, "nobody"))
	all[1].Backend.Protocol = protocolH2C
	tell(t, s, append(all, web(), route("all"))...)
	c := clientAt(t, s, 80, func(tr *http.Transport) {
		tr.Protocols = new(http.Protocols)
		tr.Protocols.SetUnencryptedHTTP2(true)
	})
	for _, body := range []string{"", "hello", strings.Repeat("x", 200_000)} {
		for range 4 {
			q := request(t, "POST", "http://a//b%2Fc?d", strings.NewReader(body))
			q.Header.Set("Te", "trailers")
			q.Header.Set("User-Agent", "")
			text, r := did(t, c, q)
			if text != "200 "+body || r.Trailer.Get("Grpc-Status") != "0" {
				t.Fatalf("%d bytes: %.100q, trailer %v", len(body), text, r.Trailer)
			}
			if want := "HTTP/2.0 a //b%2Fc?d [127.0.0.1] [trailers] []"; r.Header.Get("X-Seen") != want {
				t.Errorf("the endpoint saw %q, want %q", r.Header.Get("X-Seen"), want)
			}
		}
	}
	tell(t, s, wire.Resource{Name: cheddar, Endpoints: &wire.Endpoints{}})
	if text := got(t, clientAt(t, s, 80), "http://a/"); !strings.HasPrefix(text, "503 ") {
		t.Error(text)
	}
}

// TestTakesNothing: who takes nothing of an answer loses the connection after a while, with TLS and without, and however
// soon after the handshake he asks.
func TestTakesNothing(t *testing.T) {
	e := handled(t, "large", func(w http.ResponseWriter, _ *http.Request) {
		for _, err := w.Write(make([]byte, 1<<20)); err == nil; _, err = w.Write(make([]byte, 1<<20)) {
		}
	})
	s := started(t, func(o *Options) { o.Write = time.Second })
	tell(t, s, append(backendOf(cheddar, e), certificateFor(t, "a", "a.example"), web(), secure("safe", "", "a"),
		route("all", func(r *wire.Route) { r.Listeners = []string{"web", "safe"} }))...)
	plain := dial(t, s, 80).Conn
	over, err := tls.Dial("tcp", s.Addresses()[443].String(), &tls.Config{ServerName: "a.example", InsecureSkipVerify: true})
	if err != nil {
		t.Fatal(err)
	}
	defer over.Close()
	for _, c := range []net.Conn{plain, over} {
		io.WriteString(c, "GET / HTTP/1.1\r\nHost: a.example\r\n\r\n")
	}
	await.True(t, "both are under way", func() bool { return s.proxy.under.Load() == 2 })
	await.True(t, "none is under way", func() bool { return s.proxy.under.Load() == 0 })
}
