package proxy

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/table"
	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/wire"
	"github.com/mumoshu/ingress-daemonset-controller/internal/testing/await"
	"github.com/mumoshu/ingress-daemonset-controller/internal/testing/http1"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// certificateFor is one for these names, of its own making.
func certificateFor(t testing.TB, name string, hosts ...string) wire.Resource {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		DNSNames: hosts, NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return wire.Resource{Name: name, Certificate: &wire.Certificate{
		Chain: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), Key: pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}),
	}}
}

func secure(name, hostname string, certificates ...string) wire.Resource {
	return wire.Resource{Name: name, Listener: &wire.Listener{Object: wire.Object{Kind: "Gateway", Namespace: "shop", Name: name},
		Section: name, Port: 443, Hostname: hostname, TLS: true, Certificates: certificates}}
}

// presented is the common name of what a client that asks for a name is presented, or the alert.
func presented(t testing.TB, s *Server, name string) string {
	t.Helper()
	c, err := tls.Dial("tcp", s.Addresses()[443].String(), &tls.Config{ServerName: name, InsecureSkipVerify: true})
	if err != nil {
		return err.Error()
	}
	defer c.Close()
	return c.ConnectionState().PeerCertificates[0].Subject.CommonName
}

// TestCertificates are chosen by the name that is asked for, and by the table as it is then: connections
// that there are go on.
func TestCertificates(t *testing.T) {
	s := started(t)
	tell(t, s, append(backendOf(cheddar, saying(t, "hello")), certificateFor(t, "a", "a.example"), certificateFor(t, "b", "b.example"),
		secure("safe", "", "a", "b"), route("all", func(r *wire.Route) { r.Listeners = []string{"safe"} }))...)
	for name, want := range map[string]string{"a.example": "a", "b.example": "b", "B.Example": "b", "": "a", "c.example": "a"} {
		if got := presented(t, s, name); got != want {
			t.Errorf("%q is presented %q, want %q", name, got, want)
		}
	}
	c, err := tls.Dial("tcp", s.Addresses()[443].String(), &tls.Config{ServerName: "a.example", InsecureSkipVerify: true})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	tell(t, s, wire.Resource{Name: "a", Certificate: certificateFor(t, "new", "a.example").Certificate})
	if got := presented(t, s, "a.example"); got != "new" {
		t.Errorf("after the swap it is presented %q", got)
	}
	io.WriteString(c, "GET / HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n")
	if all, _ := io.ReadAll(c); !strings.HasSuffix(string(all), "hello") {
		t.Errorf("the connection of before got %q", all)
	}
	// Where there is none, there is an alert.
	tell(t, s, secure("safe", "", "gone"))
	if got := presented(t, s, "a.example"); !strings.Contains(got, "unrecognized name") {
		t.Errorf("without a certificate it is presented %q", got)
	}
}

// TestBrokenHandshakes: who does not end a handshake, or breaks it off, is let go, and counted no more.
func TestBrokenHandshakes(t *testing.T) {
	s := started(t, func(o *Options) { o.Head = 300 * time.Millisecond })
	tell(t, s, append(backendOf(cheddar, saying(t, "hello")), certificateFor(t, "a", "a.example"), secure("web", "", "a"), route("all"))...)
	for _, text := range []string{"", "\x16\x03\x01", "\x16\x03\x01\x00\x01\x00", "GET / HTTP/1.1\r\nHost: a\r\n\r\n"} {
		c := dial(t, s, 443)
		c.Say(text)
		if _, err := io.Copy(io.Discard, c.In); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%q: it goes on", text)
		}
		await.True(t, "it is counted no more", func() bool { return s.proxy.metrics.connections.Load() == 0 })
	}
}

// TestMisdirected: SNI and Host of different listeners are 421.
func TestMisdirected(t *testing.T) {
	s := started(t)
	to := func(listener string) wire.Resource {
		return route(listener, func(r *wire.Route) { r.Listeners = []string{listener} })
	}
	tell(t, s, append(backendOf(cheddar, saying(t, "hello")), certificateFor(t, "a", "a.example"), certificateFor(t, "b", "b.example"),
		secure("sa", "a.example", "a"), secure("sb", "b.example", "b"), to("sa"), to("sb"))...)
	for _, h2 := range []bool{false, true} {
		c := clientAt(t, s, 443, func(tr *http.Transport) {
			tr.ForceAttemptHTTP2 = h2
			tr.TLSClientConfig.ServerName = "a.example"
		})
		for host, want := range map[string]string{"a.example": "200 hello", "b.example": "421 421 Misdirected Request\n"} {
			text, r := did(t, c, request(t, "GET", "https://"+host+"/", nil))
			if text != want || (r.ProtoMajor == 2) != h2 {
				t.Errorf("host %s by %s: %q, want %q", host, r.Proto, text, want)
			}
		}
	}
}

// TestListeners come and go with the table.
func TestListeners(t *testing.T) {
	s := serving(t, saying(t, "hello"))
	alt := wire.Resource{Name: "alt", Listener: &wire.Listener{Object: wire.Object{Kind: "Gateway", Name: "alt"}, Section: "alt", Port: 8080}}
	tell(t, s, alt, route("all", func(r *wire.Route) { r.Listeners = []string{"web", "alt"} }))
	old := clientAt(t, s, 8080)
	if text := got(t, old, "http://a/"); text != "200 hello" {
		t.Fatal(text)
	}
	c := dial(t, s, 8080)
	await.True(t, "both are taken", func() bool { return s.proxy.metrics.connections.Load() == 2 })
	address := s.Addresses()[8080].String()
	s.Apply(table.Changes{Removed: []string{"listener/alt"}})
	if _, err := net.Dial("tcp", address); err == nil {
		t.Error("it is still listened at")
	}
	// A connection of before ends with its next answer.
	c.Say("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	if r, _ := c.Response(t, "GET"); r.StatusCode != 404 || !r.Close {
		t.Errorf("%s, close %t", r.Status, r.Close)
	}
	// One that cannot be opened is told of, and tried again.
	listen := s.listen
	s.listen = func(string) (net.Listener, error) { return nil, io.ErrClosedPipe }
	_, unavailable := s.Apply(table.Changes{Set: []wire.Resource{alt}})
	if len(unavailable) != 1 || unavailable[0].Port != 8080 {
		t.Errorf("unavailable are %v", unavailable)
	}
	s.listen = listen
	if unavailable := s.Listen(); len(unavailable) != 0 || got(t, clientAt(t, s, 8080), "http://a/") != "200 hello" {
		t.Errorf("unavailable are %v", unavailable)
	}
}

// failing is a listener that takes no connection in.
type failing struct{ net.Listener }

func (failing) Accept() (net.Conn, error) { return nil, os.NewSyscallError("accept4", syscall.ENOBUFS) }

// TestListenerFails: one that takes no more in is not said to be open, and is opened again.
func TestListenerFails(t *testing.T) {
	s := started(t)
	listen := s.listen
	s.listen = func(address string) (net.Listener, error) {
		l, err := listen(address)
		return failing{l}, err
	}
	tell(t, s, append(backendOf(cheddar, saying(t, "hello")), web(), route("all"))...)
	await.True(t, "nobody listens", func() bool { return s.Addresses()[80] == nil })
	s.listen = listen
	if unavailable := s.Listen(); len(unavailable) > 0 || got(t, clientAt(t, s, 80), "http://a/") != "200 hello" {
		t.Errorf("unavailable are %v", unavailable)
	}
}

// TestPortsAreShared: two processes of a node listen at one port.
func TestPortsAreShared(t *testing.T) {
	first, err := ListenShared("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	second, err := ListenShared(first.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	second.Close()
}

// TestAddresses: a listener with an address of its own takes only connections to that, and what speaks
// TLS may be another one at the same port.
func TestAddresses(t *testing.T) {
	s := started(t)
	s.listen = func(string) (net.Listener, error) { return net.Listen("tcp", "0.0.0.0:0") }
	at := func(name, address string, tls bool) wire.Resource {
		return wire.Resource{Name: name, Listener: &wire.Listener{Object: wire.Object{Kind: "Gateway", Name: name}, Section: name, Port: 80, Address: address, TLS: tls, Certificates: []string{"a"}}}
	}
	tell(t, s, append(backendOf(cheddar, saying(t, "hello")), certificateFor(t, "a", "a.example"), at("one", "127.0.0.1", false), at("two", "127.0.0.2", true),
		route("one", func(r *wire.Route) { r.Listeners = []string{"one"} }))...)
	_, port, _ := net.SplitHostPort(s.Addresses()[80].String())
	first := func(address, text string) string {
		c, err := net.Dial("tcp", net.JoinHostPort(address, port))
		if err != nil {
			return err.Error()
		}
		defer c.Close()
		c.SetDeadline(time.Now().Add(20 * time.Second))
		io.WriteString(c, text)
		all, _ := io.ReadAll(c)
		line, _, _ := strings.Cut(string(all), "\r\n")
		return line
	}
	const get = "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
	if line := first("127.0.0.1", get); line != "HTTP/1.1 200 OK" {
		t.Errorf("one says %q", line)
	}
	if line := first("127.0.0.2", get); line != "HTTP/1.1 400 Bad Request" {
		t.Errorf("two says %q to what is no handshake", line)
	}
	if line := first("127.0.0.3", get); line != "" {
		t.Errorf("nobody says %q", line)
	}
}

// TestDrain: each answer ends its connection, idle ones are left for a while, requests end as they would,
// and connections are taken until the end.
func TestDrain(t *testing.T) {
	goOn := make(chan bool)
	e := handled(t, "slow", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			<-goOn
		}
		io.WriteString(w, "hello")
	})
	s := serving(t, e)
	idle, slow := dial(t, s, 80), dial(t, s, 80)
	idle.Say("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	if r, _ := idle.Response(t, "GET"); r.StatusCode != 200 || r.Close {
		t.Fatalf("%s, close %t", r.Status, r.Close)
	}
	slow.Say("GET /slow HTTP/1.1\r\nHost: a\r\n\r\n")
	await.True(t, "the request is under way", func() bool { return s.proxy.under.Load() == 1 })
	done := make(chan bool)
	go func() {
		s.Drain(context.Background())
		close(done)
	}()
	await.True(t, "it drains", s.proxy.draining.Load)
	for _, c := range []*http1.Session{idle, dial(t, s, 80)} {
		c.Say("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
		if r, body := c.Response(t, "GET"); body != "hello" || !r.Close {
			t.Errorf("%s %q, close %t", r.Status, body, r.Close)
		}
	}
	select {
	case <-done:
		t.Error("it ended while a request was under way")
	default:
	}
	close(goOn)
	if r, body := slow.Response(t, "GET"); r.StatusCode != 200 || body != "hello" || !r.Close {
		t.Errorf("%s %q, close %t", r.Status, body, r.Close)
	}
	<-done
}

// TestIdleConnectionsAreLeft: none is closed unasked for a while, so that a request that is on its way
// is answered.
func TestIdleConnectionsAreLeft(t *testing.T) {
	s := started(t, func(o *Options) { o.DrainIdle, o.DrainTimeout = time.Hour, 2*time.Hour })
	tell(t, s, append(backendOf(cheddar, saying(t, "hello")), web(), route("all"))...)
	c := dial(t, s, 80)
	c.Say("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	c.Response(t, "GET")
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	done := make(chan bool)
	go func() {
		s.Drain(ctx)
		close(done)
	}()
	await.True(t, "it drains", s.proxy.draining.Load)
	c.Say("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	if r, body := c.Response(t, "GET"); body != "hello" || !r.Close {
		t.Errorf("%s %q, close %t", r.Status, body, r.Close)
	}
	select {
	case <-done:
		t.Error("it ended before its time")
	default:
	}
	cancel()
	<-done
}

// TestDrainOfHTTP2: the answer comes with GOAWAY, and a client goes elsewhere by itself.
func TestDrainOfHTTP2(t *testing.T) {
	s := serving(t, saying(t, "hello"))
	c := clientAt(t, s, 80, func(tr *http.Transport) {
		tr.Protocols = new(http.Protocols)
		tr.Protocols.SetUnencryptedHTTP2(true)
	})
	connections := func() int64 { return s.proxy.metrics.connections.Load() }
	got(t, c, "http://a/")
	if n := connections(); n != 1 {
		t.Fatalf("%d connections", n)
	}
	s.proxy.draining.Store(true)
	got(t, c, "http://a/")
	await.True(t, "the connection has ended", func() bool { return connections() == 0 })
}

// TestSettle: between the two parts of a drain changes are taken, and requests are routed by them.
func TestSettle(t *testing.T) {
	s := serving(t, saying(t, "before"))
	s.Settle(context.Background())
	tell(t, s, backendOf(cheddar, saying(t, "after"))...)
	c := dial(t, s, 80)
	c.Say("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	if r, body := c.Response(t, "GET"); body != "after" || !r.Close {
		t.Errorf("%s %q, close %t", r.Status, body, r.Close)
	}
	address := s.Addresses()[80].String()
	s.End(context.Background())
	if c, err := net.Dial("tcp", address); err == nil {
		c.Close()
		t.Error("an ended server takes connections")
	}
}

// TestEndTakesNothingIn: whoever comes when the end has begun is refused, and goes elsewhere; he is not taken in and ended
// in the middle.
func TestEndTakesNothingIn(t *testing.T) {
	s := serving(t, saying(t, "hello"))
	s.Settle(context.Background())
	address := s.Addresses()[80].String()
	late := dial(t, s, 80)
	late.Say("GET / HTTP/1.1\r\nHost: a\r\n")
	await.True(t, "a head has begun", func() bool { return s.clients.begun() == 1 })
	done := make(chan bool)
	go func() {
		s.End(context.Background())
		close(done)
	}()
	await.True(t, "nothing is taken in", func() bool {
		c, err := net.Dial("tcp", address)
		if err == nil {
			c.Close()
		}
		return err != nil
	})
	late.Say("\r\n")
	if r, body := late.Response(t, "GET"); body != "hello" || !r.Close {
		t.Errorf("%s %q, close %t", r.Status, body, r.Close)
	}
	<-done
}

// TestEndAwaitsNewConnections: a request that is on its way on a connection that was taken in right before the end is
// answered.
func TestEndAwaitsNewConnections(t *testing.T) {
	s := serving(t, saying(t, "hello"))
	s.Settle(context.Background())
	late := dial(t, s, 80)
	await.True(t, "it is taken in", func() bool { return s.clients.idle() == 1 })
	done := make(chan bool)
	go func() {
		s.End(context.Background())
		close(done)
	}()
	await.True(t, "nothing is taken in", func() bool { return len(s.Addresses()) == 0 })
	await.True(t, "idle ones have ended", func() bool { return s.handed.closed() })
	late.Say("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	if r, body := late.Response(t, "GET"); body != "hello" || !r.Close {
		t.Errorf("%s %q, close %t", r.Status, body, r.Close)
	}
	<-done
}

// closed says whether nobody takes any more.
func (h *handed) closed() bool {
	select {
	case <-h.over:
		return true
	default:
		return false
	}
}

// TestDrainEnds: after its time, whatever goes on.
func TestDrainEnds(t *testing.T) {
	e, _ := played(t, "never", func(s *http1.Session) { s.Hold() })
	s := started(t, func(o *Options) { o.DrainTimeout = 50 * time.Millisecond })
	tell(t, s, append(backendOf(cheddar, e), web(), route("all"))...)
	c := dial(t, s, 80)
	c.Say("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	await.True(t, "the request is under way", func() bool { return s.proxy.under.Load() == 1 })
	s.Drain(context.Background())
	if all, _ := io.ReadAll(c.In); len(all) > 0 {
		t.Errorf("then came %q", all)
	}
	if n := s.proxy.under.Load(); n != 0 {
		t.Errorf("%d requests are under way", n)
	}
}

// TestStreams: no more at a time than the bound, on a connection of HTTP/2.
func TestStreams(t *testing.T) {
	s := started(t, func(o *Options) { o.Streams = 7 })
	tell(t, s, append(backendOf(cheddar, saying(t, "hello")), web(), route("all"))...)
	c := dial(t, s, 80)
	c.Say("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00")
	head := make([]byte, 9)
	if _, err := io.ReadFull(c.In, head); err != nil || head[3] != 4 {
		t.Fatalf("the first frame is %x, %v", head, err)
	}
	settings := make([]byte, int(head[1])<<8|int(head[2]))
	io.ReadFull(c.In, settings)
	if want := "\x00\x03\x00\x00\x00\x07"; !strings.Contains(string(settings), want) {
		t.Errorf("settings are %x, want %x among them", settings, want)
	}
}

// gathered is what a scrape gets.
func gathered(t testing.TB, p *Proxy) string {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	if err := registry.Register(p); err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{ErrorHandling: promhttp.PanicOnError}).ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
	return w.Body.String()
}

// TestMetrics: series are of backends that there are.
func TestMetrics(t *testing.T) {
	s := started(t)
	tell(t, s, append(patient(nowhere(t, "a"), saying(t, "hello")), web(), route("all", func(r *wire.Route) { r.Matches = []wire.Match{{Path: "/x"}} }))...)
	c := clientAt(t, s, 80, func(tr *http.Transport) { tr.MaxConnsPerHost = 1 })
	for range 4 {
		got(t, c, "http://a/x")
	}
	got(t, c, "http://a/")
	var text, missing string
	defer func() {
		if t.Failed() {
			t.Logf("%q is not in\n%s", missing, text)
		}
	}()
	await.True(t, "all are counted", func() bool {
		text = gathered(t, s.proxy)
		for _, want := range []string{
			`requests_total{backend="shop/cheddar:80",code="2xx"} 4` + "\n", `failed_tries_total{backend="shop/cheddar:80",failure="not connected"} `,
			`own_answers_total{code="404"} 1` + "\n", `request_seconds_count 5` + "\n", `connections 1` + "\n",
		} {
			if !strings.Contains(text, "ingressdaemonset_proxy_"+want) {
				missing = want
				return false
			}
		}
		return true
	})
	s.Apply(table.Changes{Removed: []string{"route/all", "backend/" + cheddar, "endpoints/" + cheddar}})
	if text := gathered(t, s.proxy); strings.Contains(text, "cheddar") {
		t.Errorf("there are series of what has gone:\n%s", text)
	}
}
