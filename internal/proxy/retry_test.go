package proxy

import (
	"io"
	"net/http"
	"net/http/httputil"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/internal/proxy/upstream"
	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/wire"
	"github.com/mumoshu/ingress-daemonset-controller/internal/testing/await"
	"github.com/mumoshu/ingress-daemonset-controller/internal/testing/http1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/testing/loopback"
	"golang.org/x/sys/unix"
)

// resetting reads a request's head, and resets.
func resetting(t testing.TB, uid string) (wire.Endpoint, *http1.Server) {
	return played(t, uid, func(s *http1.Session) {
		s.Head()
		s.Reset()
	})
}

// resettingOnce resets its first connection, and answers on others.
func resettingOnce(t testing.TB) wire.Endpoint {
	var n atomic.Int64
	e, _ := played(t, "only", func(s *http1.Session) {
		s.Head()
		if n.Add(1) == 1 {
			s.Reset()
			return
		}
		s.Say(hello)
	})
	return e
}

// patient are endpoints that are never left out.
func patient(endpoints ...wire.Endpoint) []wire.Resource {
	all := backendOf(cheddar, endpoints...)
	all[1].Backend.MaxFails = 0
	return all
}

// TestRefusedConnectionsMoveOn: whatever the method, and without a budget.
func TestRefusedConnectionsMoveOn(t *testing.T) {
	s := started(t)
	tell(t, s, append(patient(nowhere(t, "a"), nowhere(t, "b"), nowhere(t, "c"), saying(t, "hello")), web(), route("all"))...)
	c := clientAt(t, s, 80)
	for _, size := range []int{0, 10, 100 << 10} {
		for range 40 {
			if text, _ := did(t, c, request(t, "POST", "http://a/", strings.NewReader(strings.Repeat("x", size)))); text != "200 hello" {
				t.Fatalf("%d bytes: %s", size, text)
			}
		}
	}
}

// TestRetries: what may have been acted upon is tried again only where acting twice is as acting once, and
// the body is still there.
func TestRetries(t *testing.T) {
	for _, test := range []struct {
		method string
		size   int
		want   string
	}{
		{"GET", 0, "200 hello"}, {"HEAD", 0, "200 "}, {"OPTIONS", 0, "200 hello"}, {"DELETE", 0, "200 hello"},
		{"PUT", 64 << 10, "200 hello"}, {"PUT", 64<<10 + 1, "502 502 Bad Gateway\n"},
		{"POST", 0, "502 502 Bad Gateway\n"}, {"POST", 10, "502 502 Bad Gateway\n"}, {"PATCH", 10, "502 502 Bad Gateway\n"},
	} {
		s := started(t)
		bad, server := resetting(t, "bad")
		good := handled(t, "good", func(w http.ResponseWriter, r *http.Request) {
			if n, _ := io.Copy(io.Discard, r.Body); n != int64(test.size) {
				w.WriteHeader(http.StatusTeapot)
			}
			io.WriteString(w, "hello")
		})
		tell(t, s, append(patient(bad, good), web(), route("all"))...)
		c := clientAt(t, s, 80)
		for server.Connections() == 0 {
			if text, _ := did(t, c, request(t, test.method, "http://a/", strings.NewReader(strings.Repeat("x", test.size)))); server.Connections() == 1 && text != test.want {
				t.Errorf("%s with %d bytes: %q, want %q", test.method, test.size, text, test.want)
			}
		}
	}
}

// TestRetryOfAStream: a body of unknown length that was small, and had been read, is sent again.
func TestRetryOfAStream(t *testing.T) {
	for _, method := range []string{"PUT", "POST"} {
		s := started(t)
		bad, server := played(t, "bad", func(s *http1.Session) {
			s.Head()
			io.Copy(io.Discard, httputil.NewChunkedReader(s.In))
			s.Head()
			s.Reset()
		})
		good := handled(t, "good", func(w http.ResponseWriter, r *http.Request) { io.Copy(w, r.Body) })
		tell(t, s, append(patient(bad, good), web(), route("all"))...)
		c := clientAt(t, s, 80)
		for server.Connections() == 0 {
			text, _ := did(t, c, request(t, method, "http://a/", io.MultiReader(strings.NewReader("hello"))))
			if want := map[bool]string{true: "200 hello", false: "502 502 Bad Gateway\n"}[method == "PUT" || server.Connections() == 0]; text != want {
				t.Errorf("%s: %q, want %q", method, text, want)
			}
		}
	}
}

// TestRetryOfExpected: a body that waited for 100 (Continue) is sent again, where the endpoint said nothing.
func TestRetryOfExpected(t *testing.T) {
	s := started(t, func(o *Options) { o.Upstream.Continue = time.Millisecond })
	e, _ := played(t, "only", func(s *http1.Session) {
		s.Head()
		if io.CopyN(io.Discard, s.In, 5); s.Number == 0 {
			s.Reset()
			return
		}
		s.Say(hello)
	})
	tell(t, s, append(patient(e), web(), route("all"))...)
	c := dial(t, s, 80)
	c.Say("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\nhello")
	if r, body := c.Response(t, "PUT"); r.StatusCode != 100 {
		t.Errorf("%s %q", r.Status, body)
	}
	if r, body := c.Response(t, "PUT"); r.StatusCode != 200 {
		t.Errorf("%s %q", r.Status, body)
	}
}

// TestNoRetryOfTrailers: what had fields after its body is not sent again without them.
func TestNoRetryOfTrailers(t *testing.T) {
	e, _ := played(t, "only", func(s *http1.Session) {
		s.Head()
		io.Copy(io.Discard, httputil.NewChunkedReader(s.In))
		s.Head()
		if s.Number == 0 {
			s.Reset()
			return
		}
		s.Say(hello)
	})
	s := serving(t, e)
	c := dial(t, s, 80)
	c.Say("PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\nX-Sum: 1\r\n\r\n")
	if r, body := c.Response(t, "PUT"); r.StatusCode != 502 {
		t.Errorf("%s %q", r.Status, body)
	}
}

// TestRetriesAreFew: at most 2 for a request, and none beyond the budget.
func TestRetriesAreFew(t *testing.T) {
	s := started(t, func(o *Options) { o.LastRetry = 0 })
	var all []wire.Endpoint
	var servers []*http1.Server
	for _, uid := range []string{"a", "b", "c", "d", "e"} {
		e, server := resetting(t, uid)
		all, servers = append(all, e), append(servers, server)
	}
	tell(t, s, append(patient(all...), web(), route("all"))...)
	c := clientAt(t, s, 80)
	tried := func() (n int) {
		for _, server := range servers {
			n += server.Connections()
		}
		return n
	}
	if text := got(t, c, "http://a/"); !strings.HasPrefix(text, "502 ") || tried() != 3 {
		t.Errorf("%s after %d tries, want 3", text, tried())
	}
	// Ten of them are permitted at least, whatever the number of requests.
	for range 19 {
		got(t, c, "http://a/")
	}
	if want := 20 + 10; tried() != want {
		t.Errorf("%d tries of 20 requests, want %d", tried(), want)
	}
	b, _ := s.proxy.backends.Load(cheddar)
	if n := b.(*backend).counts.retries.Load(); n != 10 {
		t.Errorf("%d retries are counted", n)
	}
}

// TestLastRetryWaits: of endpoints that end together, at one after the other of which a request is lost, the proxy is told
// before the last retry.
func TestLastRetryWaits(t *testing.T) {
	s := started(t, func(o *Options) { o.LastRetry = 2 * time.Second })
	well, _ := played(t, "well", func(s *http1.Session) {
		s.Head()
		s.Say(hello)
	})
	var lost atomic.Int64
	var ending []wire.Endpoint
	for _, uid := range []string{"a", "b", "c"} {
		e, _ := played(t, uid, func(session *http1.Session) {
			session.Head()
			session.Reset()
			if lost.Add(1) == 2 {
				tell(t, s, patient(well)...)
			}
		})
		ending = append(ending, e)
	}
	tell(t, s, append(patient(ending...), web(), route("all"))...)
	if text := got(t, clientAt(t, s, 80), "http://a/"); text != "200 hello" {
		t.Error(text)
	}
}

// TestLastRetryInTime: the wait before the last retry leaves it some of the route's time-out.
func TestLastRetryInTime(t *testing.T) {
	s := started(t, func(o *Options) { o.LastRetry = time.Hour })
	var n atomic.Int64
	e, _ := played(t, "only", func(s *http1.Session) {
		s.Head()
		if n.Add(1) < 3 {
			s.Reset()
			return
		}
		s.Say(hello)
	})
	tell(t, s, append(patient(e), web(), route("all", func(r *wire.Route) { r.Timeout = 4000 }))...)
	if text := got(t, clientAt(t, s, 80), "http://a/"); text != "200 hello" {
		t.Error(text)
	}
}

// TestOnlyEndpoint: a request whose connection was reset is tried again on another of the same endpoint,
// where there is no other.
func TestOnlyEndpoint(t *testing.T) {
	only := resettingOnce(t)
	s := serving(t, only)
	if text := got(t, clientAt(t, s, 80), "http://a/"); text != "200 hello" {
		t.Error(text)
	}
}

// TestSlowToConnect: one that does not answer a connect in time is asked again where there is no other, whatever the
// method, and for three seconds.
func TestSlowToConnect(t *testing.T) {
	l := loopback.Full(t)
	e := endpointAt(l.Addr(), "slow")
	s := started(t, func(o *Options) { o.Upstream.Connect = 50 * time.Millisecond })
	tell(t, s, append(patient(nowhere(t, "gone"), e), web(), route("all"))...)
	late := func() uint64 {
		b, _ := s.proxy.backends.Load(cheddar)
		return b.(*backend).counts.failures[upstream.TimedOut].Load()
	}
	answered := make(chan string)
	go func() {
		text, _ := did(t, clientAt(t, s, 80), request(t, "POST", "http://a/", nil))
		answered <- text
	}()
	await.True(t, "a connect is late", func() bool { return late() > 0 })
	go http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "hello") }))
	if text := <-answered; text != "200 hello" {
		t.Error(text)
	}
}

// TestShortTimeoutOfConnects: one that does not answer a connect in the time of the route is asked once for a request.
func TestShortTimeoutOfConnects(t *testing.T) {
	s := started(t)
	e := endpointAt(loopback.Full(t).Addr(), "slow")
	tell(t, s, append(patient(e), web(), route("all", func(r *wire.Route) { r.BackendTimeout = 10 }))...)
	if text := got(t, clientAt(t, s, 80), "http://a/"); text != "504 504 Gateway Timeout\n" {
		t.Error(text)
	}
	b, _ := s.proxy.backends.Load(cheddar)
	if n := b.(*backend).counts.failures[upstream.TimedOut].Load(); n != 1 {
		t.Errorf("it was asked %d times", n)
	}
}

// TestRetryAfterRefusals: a request whose connection was reset is tried again there also after all others
// refused: none of these saw it.
func TestRetryAfterRefusals(t *testing.T) {
	only := resettingOnce(t)
	s := started(t)
	tell(t, s, append(patient(nowhere(t, "a"), only, nowhere(t, "b")), web(), route("all"))...)
	if text := got(t, clientAt(t, s, 80), "http://a/"); text != "200 hello" {
		t.Error(text)
	}
}

// TestRetriesConnect: what is tried again is sent on a new connection: those that are idle may be of processes
// that end together.
func TestRetriesConnect(t *testing.T) {
	var fail atomic.Bool
	server := func(uid string) (wire.Endpoint, *http1.Server) {
		return played(t, uid, func(s *http1.Session) {
			for {
				s.Head()
				if fail.Load() {
					s.Reset()
					return
				}
				s.Say(hello)
			}
		})
	}
	a, first := server("a")
	b, second := server("b")
	s := started(t)
	tell(t, s, append(patient(a, b), web(), route("all"))...)
	c := clientAt(t, s, 80)
	for range 4 {
		if text := got(t, c, "http://a/"); text != "200 hello" {
			t.Fatal(text)
		}
	}
	before := first.Connections() + second.Connections()
	fail.Store(true)
	got(t, c, "http://a/")
	if more := first.Connections() + second.Connections() - before; more != 2 {
		t.Errorf("%d new connections for 2 retries", more)
	}
}

// TestEjection: an endpoint that fails is left out, and the last one never is.
func TestEjection(t *testing.T) {
	bad, server := resetting(t, "bad")
	s := serving(t, bad, saying(t, "hello"))
	c := clientAt(t, s, 80)
	for range 20 {
		if text := got(t, c, "http://a/"); text != "200 hello" {
			t.Fatal(text)
		}
	}
	if n := server.Connections(); n != 1 {
		t.Errorf("the endpoint that fails got %d requests, want 1", n)
	}
	tell(t, s, backendOf(cheddar, bad)[0])
	if got(t, c, "http://a/"); server.Connections() < 2 {
		t.Error("the last endpoint is left out")
	}
}

// TestNoDescriptors: that this process has none left is held against no endpoint, of either protocol, and is 503.
func TestNoDescriptors(t *testing.T) {
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	protocols.SetHTTP1(true)
	hi := func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "hello") }
	for _, protocol := range []string{"", protocolH2C} {
		s := started(t)
		all := backendOf(cheddar, h2Server(t, &protocols, hi), h2Server(t, &protocols, hi))
		all[1].Backend.Protocol = protocol
		tell(t, s, append(all, web(), route("all", func(r *wire.Route) { r.Hostnames = []string{"a"} }))...)
		c := dial(t, s, 80)
		ask := func(host string) string {
			c.Say("GET / HTTP/1.1\r\nHost: " + host + "\r\n\r\n")
			r, _ := c.Response(t, "GET")
			return r.Status[:3]
		}
		// The connection is the last that it can take.
		if status := ask("none"); status != "404" {
			t.Fatal(status)
		}
		allow := withoutDescriptors(t)
		short := ask("a")
		allow()
		if short != "503" {
			t.Errorf("%q: without descriptors it is %s", protocol, short)
		}
		states, _ := s.proxy.Endpoints(cheddar, 2)
		for _, state := range states {
			if state.Failed != nil || !state.Out.IsZero() {
				t.Errorf("%q: held against the endpoint is %v, until %v", protocol, state.Failed, state.Out)
			}
		}
		if status := ask("a"); status != "200" {
			t.Errorf("%q: with descriptors it is %s", protocol, status)
		}
	}
}

// withoutDescriptors lets the process have no more than it has, until what it returns is called.
func withoutDescriptors(t testing.TB) (allow func()) {
	t.Helper()
	next, err := unix.Open(os.DevNull, unix.O_RDONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	unix.Close(next)
	var before unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &before); err != nil {
		t.Fatal(err)
	}
	set := func(limit unix.Rlimit) {
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
			t.Error(err)
		}
	}
	allow = func() { set(before) }
	// Otherwise what a failing test leaves cannot be ended.
	t.Cleanup(allow)
	set(unix.Rlimit{Cur: uint64(next), Max: before.Max})
	return allow
}

// TestHurried: a time-out of the route is not held against an endpoint that was left little of it, whose client sends its
// body late or bit by bit; and is where the endpoint had the time.
func TestHurried(t *testing.T) {
	// So long that a machine that is busy takes less than half of it.
	const timeout = 3 * time.Second
	silent, _ := played(t, "silent", func(s *http1.Session) {
		s.Head()
		s.Hold()
	})
	for name, test := range map[string]struct {
		head, body string
		late       time.Duration
		fault      bool
	}{
		"kept, too late":          {"Content-Length: 2", "b", timeout * 3 / 2, false},
		"kept, late":              {"Content-Length: 2", "b", timeout * 3 / 4, false},
		"kept, in time":           {"Content-Length: 2", "b", 0, true},
		"sent as it comes, never": {"Content-Length: 100000", "", 0, false},
		"sent as it comes, late":  {"Content-Length: 100000", strings.Repeat("b", 99_999), timeout * 3 / 4, false},
		"sent as it comes":        {"Content-Length: 100000", strings.Repeat("b", 99_999), 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := started(t)
			tell(t, s, append(backendOf(cheddar, silent), web(), route("all", func(r *wire.Route) { r.Timeout = uint32(timeout.Milliseconds()) }))...)
			c := dial(t, s, 80)
			c.Say("POST / HTTP/1.1\r\nHost: a\r\n" + test.head + "\r\n\r\na")
			<-time.After(test.late)
			c.Say(test.body)
			if r, body := c.Response(t, "POST"); r.StatusCode != 504 {
				t.Errorf("%s %q", r.Status, body)
			}
			if states, _ := s.proxy.Endpoints(cheddar, 1); states[0].Failed != nil != test.fault {
				t.Errorf("held against the endpoint is %v", states[0].Failed)
			}
		})
	}
}

// TestFaults: what is held against an endpoint, and how the client is told.
func TestFaults(t *testing.T) {
	for _, test := range []struct {
		failed upstream.Error
		fault  bool
		status int
	}{
		{upstream.Error{Class: upstream.NotConnected, During: upstream.Connecting, Err: io.EOF}, true, 502},
		{upstream.Error{Class: upstream.NotConnected, During: upstream.Connecting, Err: upstream.ErrLeft}, false, 502},
		{upstream.Error{Class: upstream.NotConnected, During: upstream.Connecting, Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}, true, 502},
		{upstream.Error{Class: upstream.NotConnected, During: upstream.Connecting, Err: os.NewSyscallError("socket", syscall.EMFILE)}, false, 503},
		{upstream.Error{Class: upstream.NotConnected, During: upstream.Connecting, Err: os.NewSyscallError("socket", syscall.ENFILE)}, false, 503},
		{upstream.Error{Class: upstream.NotConnected, During: upstream.Connecting, Err: os.NewSyscallError("socket", syscall.ENOBUFS)}, false, 503},
		{upstream.Error{Class: upstream.NotConnected, During: upstream.Connecting, Err: os.NewSyscallError("socket", syscall.ENOMEM)}, false, 503},
		{upstream.Error{Class: upstream.NotConnected, During: upstream.Connecting, Err: os.NewSyscallError("connect", syscall.EADDRNOTAVAIL)}, false, 503},
		{upstream.Error{Class: upstream.TimedOut, During: upstream.Connecting}, true, 504},
		{upstream.Error{Class: upstream.TimedOut, During: upstream.AwaitingHead}, true, 504},
		{upstream.Error{Class: upstream.NotWritten, During: upstream.Sending}, true, 502},
		{upstream.Error{Class: upstream.NoResponse, During: upstream.AwaitingHead}, true, 502},
		{upstream.Error{Class: upstream.BodyBroken, During: upstream.AwaitingHead}, true, 502},
		{upstream.Error{Class: upstream.BodyBroken, During: upstream.ReadingBody}, false, 502},
		{upstream.Error{Class: upstream.Malformed, During: upstream.AwaitingHead}, false, 502},
		{upstream.Error{Class: upstream.RequestBroken, During: upstream.Sending}, false, 400},
		{upstream.Error{Class: upstream.Canceled, During: upstream.AwaitingHead}, false, statusGone},
		{upstream.Error{Class: upstream.Invalid, During: upstream.Sending}, false, 500},
	} {
		if got := isFault(&test.failed); got != test.fault {
			t.Errorf("%s while %s is a fault: %t", test.failed.Class, test.failed.During, got)
		}
		if got := (&exchange{}).statusOf(&test.failed); got != test.status {
			t.Errorf("%s while %s is told as %d, want %d", test.failed.Class, test.failed.During, got, test.status)
		}
	}
}
