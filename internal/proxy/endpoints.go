package proxy

import (
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/wire"
)

// EndpointState is how an endpoint stands.
type EndpointState struct {
	wire.Endpoint
	// Out is until when it is left out for its failures, zero where it is not. Failed is how it failed last, nil
	// where it never did.
	Out    time.Time
	Failed error
	// Open are connections to it, Idle those of them that wait for a request. Of h2c neither is known, and Open is
	// negative.
	Open, Idle int
}

// Endpoints are those of a backend, in the order of their addresses, at most that many, and how many there are.
func (p *Proxy) Endpoints(name string, most int) (states []EndpointState, all int) {
	found, there := p.backends.Load(name)
	if !there {
		return nil, 0
	}
	b := found.(*backend)
	b.mu.Lock()
	defer b.mu.Unlock()
	now, each := time.Now(), b.endpoints.All()
	for _, e := range each[:min(len(each), most)] {
		s := EndpointState{Endpoint: e.Endpoint, Out: b.endpoints.Out(e, now), Failed: e.Value.failed, Open: -1}
		if pool := e.Value.pool; pool != nil {
			s.Open, s.Idle = pool.Open(), pool.Idle()
		}
		states = append(states, s)
	}
	return states, len(each)
}
