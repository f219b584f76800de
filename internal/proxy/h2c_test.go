package proxy

import (
	"context"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/internal/proxy/upstream"
	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/wire"
	"github.com/mumoshu/ingress-daemonset-controller/internal/testing/await"
	"github.com/mumoshu/ingress-daemonset-controller/internal/testing/http1"
)

// TestVanishedEndpoint: a connection of HTTP/2 on which nothing comes any more, nor an end, makes room for another.
func TestVanishedEndpoint(t *testing.T) {
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	e := h2Server(t, &protocols, func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "hello") })
	// What the relay's first connection has after the first answer is lost.
	var lost atomic.Bool
	relay := http1.Listen(t, func(s *http1.Session) {
		to, err := net.Dial("tcp", net.JoinHostPort(e.Address, strconv.Itoa(int(e.Port))))
		if err != nil {
			return
		}
		defer to.Close()
		pass := func(to io.Writer, from io.Reader) {
			buf := make([]byte, 4096)
			for {
				n, err := from.Read(buf)
				if err != nil {
					return
				}
				if s.Number > 0 || !lost.Load() {
					to.Write(buf[:n])
				}
			}
		}
		var back sync.WaitGroup
		back.Go(func() { pass(s, to) })
		pass(to, s.In)
		to.Close()
		back.Wait()
	})
	o := upstream.Defaults()
	c := newH2C(relay.Address(), &o)
	defer c.CloseIdleConnections()
	c.HTTP2.SendPingTimeout /= 50
	c.HTTP2.PingTimeout /= 50
	answered := func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		r, err := c.RoundTrip(request(t, "GET", "http://"+relay.Address().String()+"/", nil).WithContext(ctx))
		if err != nil {
			return false
		}
		defer r.Body.Close()
		body, _ := io.ReadAll(r.Body)
		return string(body) == "hello"
	}
	if !answered() {
		t.Fatal("it is not answered at all")
	}
	lost.Store(true)
	await.True(t, "it is answered on another connection", answered)
}

// TestBrokenBodyForH2C: a request whose body breaks, is too long, or too slow is held against no endpoint.
func TestBrokenBodyForH2C(t *testing.T) {
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	e := h2Server(t, &protocols, func(_ http.ResponseWriter, r *http.Request) { io.Copy(io.Discard, r.Body) })
	for body, want := range map[string]int{"zz\r\n": 400, "21\r\n" + strings.Repeat("x", 33) + "\r\n": 413, "1\r\nx\r\n": 408} {
		s := started(t, func(o *Options) { o.MaxBody, o.BodyRate, o.BodyWindow = 32, 100, 300*time.Millisecond })
		all := backendOf(cheddar, e)
		all[1].Backend.Protocol = protocolH2C
		tell(t, s, append(all, web(), route("all"))...)
		c := dial(t, s, 80)
		c.Say("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" + body)
		if r, _ := c.Response(t, "POST"); r.StatusCode != want {
			t.Errorf("%q: %s", body, r.Status)
		}
		if states, _ := s.proxy.Endpoints(cheddar, 1); states[0].Failed != nil {
			t.Errorf("%q: held against the endpoint is %v", body, states[0].Failed)
		}
	}
}

// TestUnwrittenForH2C: a request that an endpoint's side of HTTP/2 has no room for, or that has no place in it, is held
// against no endpoint, and not given to all.
func TestUnwrittenForH2C(t *testing.T) {
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	s := started(t)
	var endpoints []wire.Endpoint
	for range 3 {
		endpoints = append(endpoints, h2Server(t, &protocols, func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "hello") }, func(s *http.Server) {
			s.MaxHeaderBytes = 4 << 10
		}))
	}
	all := backendOf(cheddar, endpoints...)
	all[1].Backend.Protocol = protocolH2C
	tell(t, s, append(all, web(), route("all"))...)
	for range endpoints {
		// Each says how long a head may be.
		if text := got(t, clientAt(t, s, 80), "http://a/"); text != "200 hello" {
			t.Fatal(text)
		}
	}
	for _, request := range []string{
		"GET / HTTP/1.1\r\nHost: a\r\nX: " + strings.Repeat("x", 20<<10) + "\r\n\r\n", "GET http://a<b/ HTTP/1.1\r\nHost: a\r\n\r\n",
	} {
		c := dial(t, s, 80)
		c.Say(request)
		if r, body := c.Response(t, "GET"); r.StatusCode != 500 {
			t.Errorf("%.40q: %s %q", request, r.Status, body)
		}
	}
	states, _ := s.proxy.Endpoints(cheddar, len(endpoints))
	for _, e := range states {
		if e.Failed != nil {
			t.Errorf("held against an endpoint is %v", e.Failed)
		}
	}
	b, _ := s.proxy.backends.Load(cheddar)
	if n := b.(*backend).counts.failures[upstream.NotWritten].Load(); n != 2 {
		t.Errorf("%d tries are counted beside the last of each of 2 requests", n)
	}
}
