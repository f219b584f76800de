package proxy

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/wire"
	"github.com/mumoshu/ingress-daemonset-controller/internal/testing/await"
)

// unasked are endpoints of which a test asks nobody.
func unasked(n int) (all []wire.Endpoint) {
	for i := range n {
		all = append(all, wire.Endpoint{Address: fmt.Sprint("192.0.2.", i+1), Port: 80, UID: fmt.Sprint("pod-", i)})
	}
	return all
}

// backendFor is one of a proxy without listeners.
func backendFor(t *testing.T, told wire.Backend, all ...wire.Endpoint) *backend {
	t.Helper()
	b := newBackend(cheddar, started(t).proxy)
	b.update(&told, all)
	return b
}

// gets reports whether an endpoint is among so many that get requests then.
func (b *backend) gets(e *endpoint, now time.Time) bool {
	for range b.endpoints.All() {
		if b.next(now, "", nil) == e {
			return true
		}
	}
	return false
}

// TestPolicyOfBackend: an endpoint that fails is left out for as long, and after as many in a row, as the backend says.
func TestPolicyOfBackend(t *testing.T) {
	now := time.Now()
	b := backendFor(t, wire.Backend{MaxFails: 1, FailTimeout: 1000}, unasked(2)...)
	e := b.endpoints.All()[0]
	b.failed(e, now, io.ErrUnexpectedEOF)
	if b.gets(e, now.Add(900*time.Millisecond)) || !b.gets(e, now.Add(1100*time.Millisecond)) {
		t.Error("it is not left out for a second")
	}
	b = backendFor(t, wire.Backend{MaxFails: 2, FailTimeout: 60_000}, unasked(2)...)
	e = b.endpoints.All()[0]
	b.failed(e, now, io.ErrUnexpectedEOF)
	b.succeeded(e, now)
	b.failed(e, now.Add(time.Second), io.ErrUnexpectedEOF)
	if !b.gets(e, now.Add(2*time.Second)) {
		t.Error("two failures with an answer between them leave it out")
	}
	b.failed(e, now.Add(2*time.Second), io.ErrUnexpectedEOF)
	if b.gets(e, now.Add(3*time.Second)) {
		t.Error("two in a row do not leave it out")
	}
}

// TestProtocolOfEndpoints: endpoints begin anew with another protocol of connections, and only then.
func TestProtocolOfEndpoints(t *testing.T) {
	b := backendFor(t, wire.Backend{}, unasked(1)...)
	before := b.endpoints.All()[0]
	for _, step := range []struct {
		protocol string
		anew     bool
	}{{"ws", false}, {"", false}, {protocolH2C, true}, {protocolH2C, false}, {"ws", true}, {protocolH2C, true}, {"", true}} {
		b.update(&wire.Backend{Protocol: step.protocol}, unasked(1))
		now := b.endpoints.All()[0]
		if is := now.Value.h2c != nil; is != (step.protocol == protocolH2C) || is == (now.Value.pool != nil) {
			t.Errorf("for protocol %q it has %+v", step.protocol, now.Value)
		}
		if (now != before) != step.anew {
			t.Errorf("with protocol %q it begins anew: %t", step.protocol, now != before)
		}
		before = now
	}
}

// TestBudgetOfBackend: a fifth of its requests may be tried again.
func TestBudgetOfBackend(t *testing.T) {
	b, now, n := backendFor(t, wire.Backend{}, unasked(1)...), time.Now(), 0
	for range 100 {
		b.hold(now)
	}
	for b.retry(now) {
		n++
	}
	if n != 20 {
		t.Errorf("of 100 requests %d may be tried again", n)
	}
}

// TestTriedByCookie: a client's endpoint that was tried is not tried again.
func TestTriedByCookie(t *testing.T) {
	b := backendFor(t, wire.Backend{Cookie: "plate"}, unasked(3)...)
	mine := b.endpoints.All()[1]
	if e := b.next(time.Now(), mine.Cookie, nil); e != mine {
		t.Errorf("a client's cookie leads to %v", e)
	}
	for range 3 {
		if e := b.next(time.Now(), mine.Cookie, []*endpoint{mine}); e == mine {
			t.Error("it is tried again")
		}
	}
}

// TestBackendLetsGo: the endpoints of one that was removed go, those that a request is to be given to when it was.
func TestBackendLetsGo(t *testing.T) {
	b := backendFor(t, wire.Backend{}, unasked(2)...)
	if b.remove(); len(b.endpoints.All()) > 0 || b.hold(time.Now()) {
		t.Error("they are there, or a request is held")
	}
	b = backendFor(t, wire.Backend{}, unasked(2)...)
	b.hold(time.Now())
	if b.remove(); len(b.endpoints.All()) != 2 {
		t.Error("they are gone while a request is to be given to them")
	}
	if b.release(); len(b.endpoints.All()) > 0 {
		t.Error("they are there when none is")
	}
}

// TestPoolsOfPods: two pods never share connections, also where one has the address of the other.
func TestPoolsOfPods(t *testing.T) {
	all := unasked(2)
	all[1].Address = all[0].Address
	b := backendFor(t, wire.Backend{}, all...)
	if e := b.endpoints.All(); len(e) != 2 || e[0].Value.pool == e[1].Value.pool {
		t.Errorf("%d endpoints have one pool", len(e))
	}
}

// TestProxiesBeginApart: neither endpoints nor weights begin at the same place in all proxies.
func TestProxiesBeginApart(t *testing.T) {
	p := started(t).proxy
	endpoints, shares := map[string]bool{}, map[int]bool{}
	for range 64 {
		b := newBackend(cheddar, p)
		b.update(&wire.Backend{}, unasked(4))
		endpoints[b.next(time.Now(), "", nil).UID] = true
		shares[(&weights{}).choose([]wire.Share{{Backend: "a", Weight: 1}, {Backend: "b", Weight: 1}})] = true
	}
	if len(endpoints) < 2 || len(shares) < 2 {
		t.Errorf("all begin with %v and %v", endpoints, shares)
	}
}

// TestH2CEndpointLeaves: the idle connection of one that leaves closes.
func TestH2CEndpointLeaves(t *testing.T) {
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	open := make(chan int, 100)
	e := h2Server(t, &protocols, func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "hello") }, func(s *http.Server) {
		s.ConnState = func(_ net.Conn, state http.ConnState) {
			switch state {
			case http.StateNew:
				open <- 1
			case http.StateClosed:
				open <- -1
			}
		}
	})
	s := servingH2C(t, e)
	if text := got(t, clientAt(t, s, 80), "http://a/"); text != "200 hello" {
		t.Fatal(text)
	}
	n := 0
	count := func() int {
		for len(open) > 0 {
			n += <-open
		}
		return n
	}
	if count() != 1 {
		t.Fatalf("%d connections are open", n)
	}
	tell(t, s, wire.Resource{Name: cheddar, Endpoints: &wire.Endpoints{}})
	await.True(t, "the connection is closed", func() bool { return count() == 0 })
}
