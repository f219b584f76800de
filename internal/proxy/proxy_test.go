package proxy

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/internal/proxy/upstream"
	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/table"
	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/wire"
	"github.com/mumoshu/ingress-daemonset-controller/internal/testing/await"
	"github.com/mumoshu/ingress-daemonset-controller/internal/testing/http1"
)

// lines are those of a head, in order, but for the first.
func lines(head string) (first string, rest []string) {
	all := strings.Split(strings.TrimSuffix(head, "\r\n\r\n"), "\r\n")
	slices.Sort(all[1:])
	return all[0], all[1:]
}

// TestRequest: what an endpoint is sent is the request in normal form, with what tells of the client, and
// without what is about its connection.
func TestRequest(t *testing.T) {
	e, heads := recording(t, hello)
	s := serving(t, e)
	c := dial(t, s, 80)
	c.Say("GET /a/%7Eb/./c/%2e%2E/d%2f//e?x=%zz&y=/../ HTTP/1.1\r\nHost: Shop.example:8080\r\nAccept: */*\r\nAccept: text/plain\r\n" +
		"X-Forwarded-For: 192.0.2.7\r\nX-Forwarded-Proto: https\r\nX-Forwarded-Prefix: /x\r\nX-Real-IP: 192.0.2.7\r\nForwarded: for=192.0.2.7\r\n" +
		"X_Forwarded_For: 192.0.2.8\r\nX-Real_ip: 192.0.2.8\r\nx_other: kept\r\n" +
		"Connection: keep-alive, X-Private, X-Forwarded-For\r\nX-Private: 1\r\nKeep-Alive: 1\r\nTE: gzip, trailers\r\nProxy-Authorization: x\r\n\r\n")
	first, rest := lines(<-heads)
	if want := "GET /a/~b/d%2F//e?x=%zz&y=/../ HTTP/1.1"; first != want {
		t.Errorf("the request line is %q, want %q", first, want)
	}
	want := []string{
		"Accept: */*", "Accept: text/plain", "Host: Shop.example:8080", "Te: trailers",
		"X-Forwarded-For: 127.0.0.1", "X-Forwarded-Host: Shop.example:8080", "X-Forwarded-Port: 80", "X-Forwarded-Proto: http",
		"X-Real-Ip: 127.0.0.1", "X_other: kept",
	}
	if !slices.Equal(rest, want) {
		t.Errorf("the fields are\n%s\nwant\n%s", strings.Join(rest, "\n"), strings.Join(want, "\n"))
	}
	if r, body := c.Response(t, "GET"); r.StatusCode != 200 || body != "hello" || r.Header.Get("Content-Type") != "" || r.ContentLength != 5 {
		t.Errorf("the response is %v %q", r, body)
	}
}

// TestTrusted: what a trusted peer says of the client is kept, and its own address comes after.
func TestTrusted(t *testing.T) {
	e, heads := recording(t, hello)
	s := started(t, func(o *Options) {
		o.Trusted = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("192.0.2.0/24")}
	})
	tell(t, s, append(backendOf(cheddar, e), web(), route("all"))...)
	for _, test := range []struct {
		said string
		want []string
	}{
		{"X-Forwarded-For: 198.51.100.1, 203.0.113.9\r\nX-Forwarded-For: 192.0.2.7\r\nX-Forwarded-Proto: https\r\nConnection: x-forwarded-proto\r\n", []string{
			"X-Forwarded-For: 198.51.100.1, 203.0.113.9, 192.0.2.7, 127.0.0.1", "X-Forwarded-Proto: https", "X-Real-Ip: 203.0.113.9", "X-Forwarded-Host: a", "X-Forwarded-Port: 80",
		}},
		{"X-Real-Ip: 198.51.100.1\r\nX_Real_Ip: 198.51.100.2\r\nX-Forwarded-Prefix: /x\r\n", []string{
			"X-Forwarded-For: 127.0.0.1", "X-Real-Ip: 198.51.100.1", "X-Forwarded-Proto: http", "X-Forwarded-Prefix: /x",
		}},
		{"X-Forwarded-For: unknown\r\n", []string{"X-Forwarded-For: unknown, 127.0.0.1", "X-Real-Ip: 127.0.0.1"}},
		{"", []string{"X-Forwarded-For: 127.0.0.1", "X-Real-Ip: 127.0.0.1"}},
	} {
		c := dial(t, s, 80)
		c.Say("GET / HTTP/1.1\r\nHost: a\r\n" + test.said + "\r\n")
		_, rest := lines(<-heads)
		for _, want := range test.want {
			if !slices.Contains(rest, want) {
				t.Errorf("%q: %q is not among %q", test.said, want, rest)
			}
		}
		if strings.Contains(strings.Join(rest, "\n"), "198.51.100.2") {
			t.Errorf("%q: an alias came through: %q", test.said, rest)
		}
	}
}

// TestStatuses: what cannot be answered by an endpoint is answered by a status that says why.
func TestStatuses(t *testing.T) {
	malformed, _ := played(t, "malformed", func(s *http1.Session) {
		s.Head()
		s.Say("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nxx")
	})
	late, _ := played(t, "late", func(s *http1.Session) { s.Hold() })
	s := started(t)
	at := func(path string, change ...func(*wire.Route)) wire.Resource {
		r := route(path, change...)
		r.Route.Matches = []wire.Match{{Path: path}}
		return r
	}
	to := func(shares ...wire.Share) func(*wire.Route) { return func(r *wire.Route) { r.Backends = shares } }
	filtered := func(f wire.Filter) func(*wire.Route) { return func(r *wire.Route) { r.Filters = []wire.Filter{f} } }
	upward := "/../.."
	bye := saying(t, "bye")
	bye.State = wire.Terminating
	var all []wire.Resource
	for name, endpoints := range map[string][]wire.Endpoint{
		cheddar: {saying(t, "hello")}, "none": nil, "refused": {nowhere(t, "a"), nowhere(t, "b")}, "malformed": {malformed}, "late": {late},
		"terminating": {bye},
	} {
		all = append(all, backendOf(name, endpoints...)...)
	}
	tell(t, s, append(all, web(func(l *wire.Listener) { l.Hostname = "*.example" }),
		at("/fine"), at("/none", to(wire.Share{Backend: "none", Weight: 1})), at("/refused", to(wire.Share{Backend: "refused", Weight: 1})),
		at("/malformed", to(wire.Share{Backend: "malformed", Weight: 1})),
		at("/late", to(wire.Share{Backend: "late", Weight: 1}), func(r *wire.Route) { r.BackendTimeout = 50 }),
		at("/later", to(wire.Share{Backend: "late", Weight: 1}), func(r *wire.Route) { r.Timeout = 50 }),
		at("/terminating", to(wire.Share{Backend: "terminating", Weight: 1})),
		at("/nothing", to()), at("/weightless", to(wire.Share{Backend: cheddar}), func(r *wire.Route) { r.Fallback = 503 }),
		at("/unresolved", to(wire.Share{Weight: 1, Status: 500})),
		at("/newline", filtered(wire.Filter{Kind: wire.RequestHeaders, Headers: &wire.HeaderFilter{Set: []wire.Header{{Name: "x", Value: "a\r\nb: c"}}}})),
		at("/upward", filtered(wire.Filter{Kind: wire.Rewrite, URL: &wire.URLFilter{ReplacePath: &upward}})),
	)...)
	why := map[string]string{
		"/none":      "error=destination_unavailable",
		"/refused":   `error=connection_refused; details="not connected while connecting"`,
		"/malformed": `error=http_protocol_error; details="malformed response while awaiting the head"`,
		"/late":      `error=http_response_timeout; details="timed out while awaiting the head"`,
	}
	why["/later"], why["/weightless"] = why["/late"], why["/none"]
	for _, test := range []struct {
		line, host string
		want       int
	}{
		{"GET /fine", "a.example", 200}, {"GET /terminating", "a.example", 200},
		{"GET /fine", "other", 404}, {"GET /", "a.example", 404}, {"GET /finer", "a.example", 404},
		{"GET /none", "a.example", 503}, {"GET /refused", "a.example", 502}, {"GET /malformed", "a.example", 502},
		{"GET /late", "a.example", 504}, {"GET /later", "a.example", 504},
		{"GET /nothing", "a.example", 500}, {"GET /weightless", "a.example", 503}, {"GET /unresolved", "a.example", 500},
		{"GET /newline", "a.example", 500}, {"GET /upward", "a.example", 500},
		{"GET /fine/../../x", "a.example", 400}, {"GET /fine/%00", "a.example", 400}, {"GET /fine?a#b", "a.example", 400},
		{"OPTIONS *", "a.example", 400}, {"GET http://a.example/fine", "other", 200}, {"GET http://a.example", "other", 404},
		{"CONNECT a.example:80", "a.example:80", 405},
	} {
		c := dial(t, s, 80)
		c.Say(test.line + " HTTP/1.1\r\nHost: " + test.host + "\r\n\r\n")
		r, _ := c.Response(t, "GET")
		if r.StatusCode != test.want {
			t.Errorf("%s of %s: %s, want %d", test.line, test.host, r.Status, test.want)
		}
		_, path, _ := strings.Cut(test.line, " ")
		if said := r.Header.Get("Proxy-Status"); strings.TrimPrefix(said, "ingressdaemonset; ") != why[path] {
			t.Errorf("%s of %s: Proxy-Status %q, want %q", test.line, test.host, said, why[path])
		}
	}
}

// TestProxyStatusOfRetries: where an earlier try may have been seen, that is said, and not that the last one was not.
func TestProxyStatusOfRetries(t *testing.T) {
	refused := &upstream.Error{Class: upstream.NotConnected, During: upstream.Connecting}
	x := &exchange{try: try{failed: refused, seen: &upstream.Error{Class: upstream.NoResponse, During: upstream.AwaitingHead}}}
	if said := x.proxyStatus(http.StatusBadGateway); said != `ingressdaemonset; error=connection_terminated; details="no response while awaiting the head"` {
		t.Errorf("it says %q", said)
	}
	x.try.seen = nil
	if said := x.proxyStatus(http.StatusBadGateway); said != `ingressdaemonset; error=connection_refused; details="not connected while connecting"` {
		t.Errorf("it says %q", said)
	}
}

// TestShares: requests are shared by weight, over changes of routes and endpoints, and a share that cannot be resolved
// answers its part.
func TestShares(t *testing.T) {
	const brie = "shop/brie:80"
	s := started(t)
	all := append(backendOf(cheddar, saying(t, "cheddar")), backendOf(brie, saying(t, "brie"))...)
	shares := func(r *wire.Route) {
		r.Backends = []wire.Share{{Backend: cheddar, Weight: 2}, {Backend: brie, Weight: 1}, {Weight: 1, Status: 503}}
	}
	tell(t, s, append(all, web(), route("all", shares))...)
	c := clientAt(t, s, 80)
	seen := map[string]int{}
	for i := range 100 {
		seen[got(t, c, "http://a/")]++
		if i%10 == 0 {
			tell(t, s, append(backendOf(brie, saying(t, "brie")), route("all", shares))...)
		}
	}
	for text, want := range map[string]int{"200 cheddar": 50, "200 brie": 25, "503 503 Service Unavailable\n": 25} {
		if n := seen[text]; n < want-1 || n > want+1 {
			t.Errorf("%q %d times, want %d and at most one more or less", text, n, want)
		}
	}
}

// TestChangesOfEndpoints: one that leaves gets no new request, and its idle connections close.
func TestChangesOfEndpoints(t *testing.T) {
	closed := make(chan bool, 1)
	leaving, _ := played(t, "leaving", func(s *http1.Session) {
		s.Head()
		s.Say(hello)
		s.Hold()
		closed <- true
	})
	s := serving(t, leaving)
	c := clientAt(t, s, 80)
	if text := got(t, c, "http://a/"); text != "200 hello" {
		t.Fatal(text)
	}
	tell(t, s, backendOf(cheddar, saying(t, "stays"))[0])
	<-closed
	if text := got(t, c, "http://a/"); text != "200 stays" {
		t.Error(text)
	}
	// A backend goes with the last route that names it.
	s.Apply(table.Changes{Removed: []string{"backend/" + cheddar, "endpoints/" + cheddar}})
	if text := got(t, c, "http://a/"); text != "200 stays" {
		t.Error(text)
	}
	// Endpoints that come without it do not make it one that is told.
	s.Apply(table.Changes{Set: backendOf(cheddar, saying(t, "again"))[:1]})
	s.Apply(table.Changes{Removed: []string{"endpoints/" + cheddar}})
	s.Apply(table.Changes{Removed: []string{"route/all"}})
	if _, there := s.proxy.backends.Load(cheddar); there || len(s.proxy.leaving) > 0 {
		t.Error("the backend is still there")
	}
	if text := got(t, c, "http://a/"); text != "404 404 Not Found\n" {
		t.Error(text)
	}
}

// TestBackendGoes: a request that was routed to a backend before that was removed is answered by it, also where its body
// comes later; and none is lost between the look at the table and the choice of an endpoint.
func TestBackendGoes(t *testing.T) {
	const stilton = "shop/stilton:80"
	endpoints := map[string]wire.Endpoint{cheddar: saying(t, cheddar), stilton: saying(t, stilton)}
	s := serving(t, endpoints[cheddar])
	change := func(from, to string) {
		t.Helper()
		set := append(backendOf(to, endpoints[to]), route("all", func(r *wire.Route) { r.Backends[0].Backend = to }))
		result, _ := s.Apply(table.Changes{Set: set, Removed: []string{"backend/" + from, "endpoints/" + from}})
		if _, there := s.proxy.backends.Load(from); there || len(result.Refused) > 0 {
			t.Fatalf("%s is still there: %t; refused is %v", from, there, result.Refused)
		}
	}
	slow := dial(t, s, 80)
	slow.Say("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\na")
	held := func() int {
		b, _ := s.proxy.backends.Load(cheddar)
		b.(*backend).mu.Lock()
		defer b.(*backend).mu.Unlock()
		return b.(*backend).held
	}
	await.True(t, "it is routed", func() bool { return held() == 1 })
	change(cheddar, stilton)
	slow.Say("b")
	if r, body := slow.Response(t, "POST"); string(body) != cheddar {
		t.Errorf("%s %q", r.Status, body)
	}
	var over atomic.Bool
	var asking sync.WaitGroup
	defer asking.Wait()
	defer over.Store(true)
	for range 8 {
		c := clientAt(t, s, 80)
		asking.Go(func() {
			for !over.Load() {
				r, err := c.Get("http://a/")
				if err != nil {
					t.Error(err)
					return
				}
				if r.Body.Close(); r.StatusCode != 200 {
					t.Error(r.Status)
				}
			}
		})
	}
	for range 1000 {
		change(stilton, cheddar)
		change(cheddar, stilton)
	}
}

// TestProtocolChanges: connections of a protocol that is no more spoken close.
func TestProtocolChanges(t *testing.T) {
	closed := make(chan bool, 1)
	e, _ := played(t, "only", func(s *http1.Session) {
		s.Head()
		s.Say(hello)
		s.Hold()
		closed <- true
	})
	s := serving(t, e)
	if text := got(t, clientAt(t, s, 80), "http://a/"); text != "200 hello" {
		t.Fatal(text)
	}
	next := backendOf(cheddar)[1]
	next.Backend.Protocol = protocolH2C
	tell(t, s, next)
	select {
	case <-closed:
	case <-time.After(30 * time.Second):
		t.Error("the connection is open")
	}
}

// TestWeightsGo: what is kept of the shares of a route goes with it.
func TestWeightsGo(t *testing.T) {
	s := serving(t, saying(t, "hello"))
	tell(t, s, route("all", func(r *wire.Route) { r.Backends = append(r.Backends, r.Backends...) }))
	got(t, clientAt(t, s, 80), "http://a/")
	if _, there := s.proxy.weights.Load("all"); !there {
		t.Error("nothing is kept")
	}
	s.Apply(table.Changes{Removed: []string{"route/all"}})
	if _, there := s.proxy.weights.Load("all"); there {
		t.Error("it is still there")
	}
}

// TestSticky: a client stays with the endpoint whose cookie it has, as long as that is there.
func TestSticky(t *testing.T) {
	s := started(t)
	a, b := saying(t, "a"), saying(t, "b")
	all := backendOf(cheddar, a, b)
	all[1].Backend.Cookie = "plate"
	tell(t, s, append(all, web(), route("all"))...)
	c := clientAt(t, s, 80)
	first, response := did(t, c, request(t, "GET", "http://a/", nil))
	cookies := response.Cookies()
	if len(cookies) != 1 || cookies[0].Name != "plate" || !cookies[0].HttpOnly || cookies[0].Secure {
		t.Fatalf("cookies are %v", cookies)
	}
	again := request(t, "GET", "http://a/", nil)
	again.AddCookie(&http.Cookie{Name: "plate", Value: cookies[0].Value})
	for range 5 {
		text, response := did(t, c, again)
		if text != first || len(response.Cookies()) != 0 {
			t.Fatalf("%q after %q, cookies %v", text, first, response.Cookies())
		}
	}
	stays := a
	if first == "200 a" {
		stays = b
	}
	tell(t, s, wire.Resource{Name: cheddar, Endpoints: &wire.Endpoints{All: []wire.Endpoint{stays}}})
	if text, response := did(t, c, again); text == first || len(response.Cookies()) != 1 {
		t.Errorf("%q after its endpoint has gone, cookies %v", text, response.Cookies())
	}
}
