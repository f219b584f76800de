package holdings

import (
	"testing"

	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/table"
	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/wire"
)

// proxy is one that has a table, and notes what it was to apply.
type proxy struct {
	*Holdings
	table   *table.Table
	applied []table.Changes
}

func newProxy() *proxy { return &proxy{Holdings: New(), table: &table.Table{}} }

func (p *proxy) apply(c table.Changes) table.Result {
	p.applied = append(p.applied, c)
	result := p.table.Apply(c)
	p.table = result.Table
	return result
}

func (p *proxy) take(r wire.Response) wire.Request { return p.Take(r, p.apply) }

// delivery is a resource as a controller sends it, with more bytes behind it where a newer one does.
func delivery(t testing.TB, r wire.Resource, more ...byte) wire.Delivery {
	t.Helper()
	b, err := wire.Encode(r)
	if err != nil {
		t.Fatal(err)
	}
	b = append(b, more...)
	return wire.Delivery{Name: wire.NameOf(r), Version: wire.Version(b), TypeURL: wire.TypeURL, Value: b}
}

func response(nonce string, all ...wire.Delivery) wire.Response {
	return wire.Response{Position: nonce, Nonce: nonce, TypeURL: wire.TypeURL, Resources: all}
}

func backend(name, protocol string) wire.Resource {
	return wire.Resource{Name: name, Backend: &wire.Backend{Port: 80, Protocol: protocol}}
}

func endpoints(name string) wire.Resource {
	return wire.Resource{Name: name, Endpoints: &wire.Endpoints{All: []wire.Endpoint{{Address: "10.1.0.1", Port: 8080}}}}
}

func route(name, backend, path string) wire.Resource {
	return wire.Resource{Name: name, Route: &wire.Route{Listeners: []string{"web"}, Backends: []wire.Share{{Backend: backend, Weight: 1}},
		Matches: []wire.Match{{Path: path}}}}
}
