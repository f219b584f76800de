package proxy

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/table"
	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/wire"
	"github.com/mumoshu/ingress-daemonset-controller/internal/testing/apart"
	"github.com/mumoshu/ingress-daemonset-controller/internal/testing/http1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/testing/loopback"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	apart.Main(serveBenchmark)
	goleak.VerifyTestMain(m)
}

// cheddar is the backend of most routes.
const cheddar = "shop/cheddar:80"

// started is a server that ends with the test, and listens on loopback at ports of the kernel's choice
// instead of those of its table.
func started(t testing.TB, change ...func(*Options)) *Server {
	t.Helper()
	o := Defaults()
	o.DrainDelay, o.DrainIdle = 0, 0
	for _, do := range change {
		do(&o)
	}
	s := NewServer(o)
	s.listen = func(string) (net.Listener, error) { return net.Listen("tcp", "127.0.0.1:0") }
	t.Cleanup(s.Close)
	return s
}

// tell applies resources, of which none is refused, and opens listeners.
func tell(t testing.TB, s *Server, set ...wire.Resource) {
	t.Helper()
	result, unavailable := s.Apply(table.Changes{Set: set})
	for _, r := range result.Refused {
		t.Fatalf("%s was refused: %v", r.Name, r.Err)
	}
	for _, u := range unavailable {
		t.Fatalf("port %d: %v", u.Port, u.Err)
	}
}

// serving is a server whose listener at port 80 sends all to these endpoints.
func serving(t testing.TB, endpoints ...wire.Endpoint) *Server {
	t.Helper()
	s := started(t)
	tell(t, s, append(backendOf(cheddar, endpoints...), web(), route("all"))...)
	return s
}

// servingH2C is one whose endpoints speak HTTP/2 without TLS.
func servingH2C(t testing.TB, endpoints ...wire.Endpoint) *Server {
	t.Helper()
	s, all := started(t), backendOf(cheddar, endpoints...)
	all[1].Backend.Protocol = protocolH2C
	tell(t, s, append(all, web(), route("all"))...)
	return s
}

func web(change ...func(*wire.Listener)) wire.Resource {
	l := &wire.Listener{Object: wire.Object{Kind: "Gateway", Namespace: "shop", Name: "web"}, Section: "web", Port: 80}
	for _, do := range change {
		do(l)
	}
	return wire.Resource{Name: "web", Listener: l}
}

func backendOf(name string, endpoints ...wire.Endpoint) []wire.Resource {
	return []wire.Resource{
		{Name: name, Endpoints: &wire.Endpoints{All: endpoints}},
		{Name: name, Backend: &wire.Backend{Port: 80, MaxFails: 1, FailTimeout: 10_000}},
	}
}

func route(name string, change ...func(*wire.Route)) wire.Resource {
	r := &wire.Route{Object: wire.Object{Kind: "HTTPRoute", Namespace: "shop", Name: name}, Listeners: []string{"web"},
		Backends: []wire.Share{{Backend: cheddar, Weight: 1}}}
	for _, do := range change {
		do(r)
	}
	return wire.Resource{Name: name, Route: r}
}

// endpointAt is that of a server on loopback.
func endpointAt(address fmt.Stringer, uid string) wire.Endpoint {
	a := netip.MustParseAddrPort(address.String())
	return wire.Endpoint{Address: a.Addr().String(), Port: a.Port(), UID: uid}
}

// handled is the endpoint of a server that ends with the test.
func handled(t testing.TB, uid string, h http.HandlerFunc) wire.Endpoint {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return endpointAt(s.Listener.Addr(), uid)
}

// saying answers every request with that text.
func saying(t testing.TB, text string) wire.Endpoint {
	return handled(t, text, func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, text) })
}

// played is an endpoint that does with each connection what a test says, and then closes it.
func played(t testing.TB, uid string, play func(*http1.Session)) (wire.Endpoint, *http1.Server) {
	t.Helper()
	s := http1.Listen(t, play)
	return endpointAt(s.Address(), uid), s
}

const hello = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"

// recording answers each request with that text, and gives their heads.
func recording(t testing.TB, text string) (wire.Endpoint, <-chan string) {
	t.Helper()
	heads := make(chan string, 100)
	e, _ := played(t, "recording", func(s *http1.Session) {
		for head := s.Head(); head != ""; head = s.Head() {
			heads <- head
			s.Say(text)
		}
	})
	return e, heads
}

// nowhere is an endpoint at which nobody listens.
func nowhere(t testing.TB, uid string) wire.Endpoint {
	t.Helper()
	return endpointAt(loopback.Closed(t), uid)
}

// dial connects to the listener of that port of the table.
func dial(t testing.TB, s *Server, port uint16) *http1.Session {
	t.Helper()
	address := s.Addresses()[port]
	if address == nil {
		t.Fatalf("nobody listens at port %d", port)
	}
	return http1.Dial(t, address.String())
}

// clientAt sends whatever URL it is asked for to a port of the table.
func clientAt(t testing.TB, s *Server, port uint16, change ...func(*http.Transport)) *http.Client {
	t.Helper()
	transport := &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", s.Addresses()[port].String())
		},
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
	}
	for _, do := range change {
		do(transport)
	}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: 30 * time.Second,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// did is a response in short: its status and body.
func did(t testing.TB, c *http.Client, r *http.Request) (string, *http.Response) {
	t.Helper()
	response, err := c.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%d %s", response.StatusCode, body), response
}

func request(t testing.TB, method, url string, body io.Reader) *http.Request {
	t.Helper()
	r, err := http.NewRequest(method, url, body)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// got is what a GET is answered.
func got(t testing.TB, c *http.Client, url string) string {
	t.Helper()
	text, _ := did(t, c, request(t, "GET", url, nil))
	return text
}

// h2Server is the endpoint of a server that speaks these protocols, and ends with the test.
func h2Server(t testing.TB, protocols *http.Protocols, h http.HandlerFunc, change ...func(*http.Server)) wire.Endpoint {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: h, Protocols: protocols}
	for _, do := range change {
		do(s)
	}
	done := make(chan bool)
	go func() {
		s.Serve(l)
		close(done)
	}()
	t.Cleanup(func() {
		s.Close()
		<-done
	})
	return endpointAt(l.Addr(), "h2")
}
