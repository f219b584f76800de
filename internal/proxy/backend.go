package proxy

import (
	"math/rand/v2"
	"net/netip"
	"sync"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/internal/proxy/balance"
	"github.com/mumoshu/ingress-daemonset-controller/internal/proxy/upstream"
	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/table"
	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/wire"
)

// endpoint is one of a backend, with its connections.
type endpoint = balance.Endpoint[connections]

// connections are those to an endpoint, of the one protocol or the other.
type connections struct {
	pool *upstream.Pool
	h2c  *h2cTransport
	// failed is how the endpoint failed last, nil where it never did. The backend's mutex guards it.
	failed error
}

// backend is one of the table, with what is kept of it between requests. What each request reads and writes comes first.
type backend struct {
	mu sync.Mutex
	// held is how many requests are still to be given to its endpoints, removed says whether the table has it no more.
	held    int
	removed bool
	budget  balance.Budget
	// protocol, and cookieName, are as the table has them.
	cookieName, protocol string
	endpoints            balance.Endpoints[connections]

	counts counts
	// alone is what is kept of a route that leads to nothing else, and itself has that.
	alone  routeBackends
	itself [1]*backend

	name string
	p    *Proxy
}

func newBackend(name string, p *Proxy) *backend {
	b := &backend{name: name, p: p}
	b.itself[0] = b
	b.alone.all = b.itself[:]
	b.endpoints = balance.NewEndpoints(rand.Uint64(), b.enter, leave)
	return b
}

const protocolH2C = "h2c"

// update makes the backend what the table says it is.
func (b *backend) update(told *wire.Backend, all []wire.Endpoint) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if (b.protocol == protocolH2C) != (told.Protocol == protocolH2C) {
		// Those of before speak another protocol.
		b.endpoints.Set(nil)
	}
	b.protocol, b.cookieName = told.Protocol, told.Cookie
	b.endpoints.SetPolicy(balance.Policy{
		MaxFails: told.MaxFails, FailTimeout: time.Duration(told.FailTimeout) * time.Millisecond, Sticky: told.Cookie != "",
	})
	b.endpoints.Set(all)
}

// enter opens the connections of an endpoint that came. Its address was checked by the table.
func (b *backend) enter(e wire.Endpoint) connections {
	address := netip.AddrPortFrom(netip.MustParseAddr(e.Address), e.Port)
	if b.protocol == protocolH2C {
		return connections{h2c: newH2C(address, &b.p.options.Upstream)}
	}
	return connections{pool: b.p.pools.Open(upstream.Key{Address: address, UID: e.UID})}
}

// leave closes what is idle of one that has gone. What is under way ends as it would.
func leave(c connections) {
	if c.h2c != nil {
		c.h2c.leave()
		return
	}
	c.pool.Close()
}

// remove lets it go when no request is to be given to its endpoints any more.
func (b *backend) remove() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.removed = true
	b.letGo()
}

// hold counts a request, and keeps the endpoints for it until release: it was routed when they were there, and its body
// may take a while. It is false where the backend was removed before.
func (b *backend) hold(now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.removed {
		return false
	}
	b.held++
	b.budget.Request(now)
	return true
}

func (b *backend) release() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.held--
	b.letGo()
}

func (b *backend) letGo() {
	if b.removed && b.held == 0 {
		b.endpoints.Set(nil)
	}
}

// speaks is the protocol of its endpoints, as the table has it.
func (b *backend) speaks() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.protocol
}

// cookie is the name of the backend's cookie, empty for none.
func (b *backend) cookie() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.cookieName
}

// next is the endpoint that a cookie's value names, or whose turn it is; nil where there is none that was
// not tried.
func (b *backend) next(now time.Time, cookie string, tried []*endpoint) *endpoint {
	b.mu.Lock()
	defer b.mu.Unlock()
	if cookie != "" {
		if e := b.endpoints.ByCookie(cookie, now, tried); e != nil {
			return e
		}
	}
	return b.endpoints.Choose(now, tried)
}

// succeeded notes that an endpoint answered what was given to it at that time.
func (b *backend) succeeded(e *endpoint, given time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.endpoints.Succeeded(e, given)
}

func (b *backend) failed(e *endpoint, now time.Time, how error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	e.Value.failed = how
	b.endpoints.Failed(e, now)
}

// retry reports whether the budget permits one more.
func (b *backend) retry(now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.budget.Retry(now)
}

// weights share a route's requests among its backends.
type weights struct {
	mu sync.Mutex
	balance.Weights
}

// choose is the place of the share that gets the next request, negative where none has a weight.
func (w *weights) choose(shares []wire.Share) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.Set(shares, rand.Uint64())
	return w.Choose()
}

// routeBackends are what is kept of a route for its requests.
type routeBackends struct {
	// all are those of its shares, nil for a share that has none.
	all []*backend
	// weights are nil where there is nothing to choose.
	weights *weights
}

// backendsOf is what is kept of a route. A backend of which requests are to know is there before the route is, and stays
// the same for as long as a route names it.
func (p *Proxy) backendsOf(r *table.Route) *routeBackends {
	if b, _ := r.Kept.Load().(*routeBackends); b != nil {
		return b
	}
	if len(r.Backends) == 1 {
		if b, found := p.backends.Load(r.Backends[0].Backend); found {
			alone := &b.(*backend).alone
			r.Kept.Store(alone)
			return alone
		}
	}
	out, whole := &routeBackends{all: make([]*backend, len(r.Backends))}, true
	for i := range r.Backends {
		if name := r.Backends[i].Backend; name != "" {
			b, found := p.backends.Load(name)
			out.all[i], _ = b.(*backend)
			whole = whole && found
		}
	}
	if len(r.Backends) > 1 {
		w, _ := p.weights.LoadOrStore(r.Name, &weights{})
		out.weights = w.(*weights)
	}
	if whole {
		r.Kept.Store(out)
	}
	return out
}

// choose is the place of the share that gets the next request, negative where none has a weight.
func (b *routeBackends) choose(shares []wire.Share) int {
	switch {
	case b.weights != nil:
		return b.weights.choose(shares)
	case len(shares) == 0 || shares[0].Weight == 0:
		return -1
	}
	return 0
}
