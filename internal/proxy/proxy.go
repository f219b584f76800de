package proxy

import (
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/internal/proxy/upstream"
	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/table"
	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/wire"
)

// Proxy routes requests by what it was told, and sends them to endpoints. It serves connections of a
// Server.
type Proxy struct {
	options   Options
	pools     *upstream.Pools
	exchanges sync.Pool
	metrics   metrics
	tunnels   tunnels

	// table is what requests are routed by: each by one, from its beginning to its end.
	table atomic.Pointer[table.Table]
	// backends are by name, weights by the name of their route: of *backend and *weights.
	backends, weights sync.Map

	// changing is held while changes are taken.
	changing sync.Mutex
	// leaving are backends that were removed, and that a route may still name.
	leaving map[string]bool

	// draining says whether connections end with their next response.
	draining atomic.Bool
	// under is how many requests are under way; quiet tells a drain that none is.
	under atomic.Int64
	quiet chan struct{}
}

// New has an empty table. Close ends it.
func New(o Options) *Proxy {
	p := &Proxy{options: o, pools: upstream.NewPools(o.Upstream), leaving: map[string]bool{}, quiet: make(chan struct{}, 1)}
	p.table.Store(&table.Table{})
	p.exchanges.New = func() any { return newExchange(p) }
	return p
}

// Table is what requests are routed by now.
func (p *Proxy) Table() *table.Table { return p.table.Load() }

// ServeHTTP sends a request to its backend, and the response back.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.under.Add(1)
	x := p.exchanges.Get().(*exchange)
	x.begin(w, r)
	defer p.end(x)
	x.serve()
}

// end counts a request, also one that was cut off.
func (p *Proxy) end(x *exchange) {
	p.metrics.note(x, time.Now())
	x.body.stop()
	if !x.shared {
		x.clear()
		p.exchanges.Put(x)
	}
	if p.under.Add(-1) == 0 && p.draining.Load() {
		select {
		case p.quiet <- struct{}{}:
		default:
		}
	}
}

// Apply takes changes, see table.Table.Apply. Requests see all of them or none. Connections to endpoints
// that are gone get no new request when it returns.
func (p *Proxy) Apply(c table.Changes) table.Result {
	p.changing.Lock()
	defer p.changing.Unlock()
	result := p.table.Load().Apply(c)
	gone := p.updateBackends(result.Table, p.spokenOf(c))
	p.table.Store(result.Table)
	for _, name := range gone {
		p.forget(name)
	}
	for _, full := range c.Removed {
		if kind, name, err := wire.ParseName(full); err == nil && kind == wire.KindRoute {
			p.weights.Delete(name)
		}
	}
	return result
}

// spokenOf are names of backends that changes may change: those they name, and those that only a route
// keeps.
func (p *Proxy) spokenOf(c table.Changes) map[string]bool {
	names := map[string]bool{}
	for _, full := range c.Removed {
		if kind, name, err := wire.ParseName(full); err == nil && isBackend(kind) {
			names[name] = true
			if kind == wire.KindBackend {
				p.leaving[name] = true
			}
		}
	}
	for _, r := range c.Set {
		if isBackend(r.Kind()) {
			names[r.Name] = true
		}
		if r.Kind() == wire.KindBackend {
			delete(p.leaving, r.Name)
		}
	}
	for name := range p.leaving {
		names[name] = true
	}
	return names
}

func isBackend(k wire.Kind) bool { return k == wire.KindBackend || k == wire.KindEndpoints }

// updateBackends makes backends what the table says they are, before requests are routed by it, and gives those
// that it does not have any more.
func (p *Proxy) updateBackends(t *table.Table, names map[string]bool) (gone []string) {
	for name := range names {
		told, endpoints, found := t.Backend(name)
		if !found {
			gone = append(gone, name)
			continue
		}
		b, there := p.backends.Load(name)
		if !there {
			b, _ = p.backends.LoadOrStore(name, newBackend(name, p))
		}
		b.(*backend).update(told, endpoints)
	}
	return gone
}

func (p *Proxy) forget(name string) {
	delete(p.leaving, name)
	if b, there := p.backends.LoadAndDelete(name); there {
		b.(*backend).remove()
	}
}

// Close lets all endpoints go. Nothing is to be served any more.
func (p *Proxy) Close() {
	p.changing.Lock()
	defer p.changing.Unlock()
	p.table.Store(&table.Table{})
	p.backends.Range(func(name, _ any) bool {
		p.forget(name.(string))
		return true
	})
}
