package table

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/wire"
)

// The listener at which most of these tests serve, and the backend.
const (
	web     = "web"
	cheddar = "shop/cheddar:80"
)

var here = netip.MustParseAddr("10.0.0.1")

func listener(name string, change ...func(*wire.Listener)) wire.Resource {
	l := &wire.Listener{Object: wire.Object{Kind: "Gateway", Namespace: "shop", Name: name}, Section: name, Port: 80}
	for _, do := range change {
		do(l)
	}
	return wire.Resource{Name: name, Listener: l}
}

// secure is a listener of HTTPS for that hostname.
func secure(name, hostname string, certificates ...string) wire.Resource {
	return listener(name, func(l *wire.Listener) {
		l.Port, l.TLS, l.Hostname, l.Certificates = 443, true, hostname, certificates
	})
}

// backend is one with an endpoint.
func backend(name string) []wire.Resource {
	return []wire.Resource{
		{Name: name, Endpoints: &wire.Endpoints{All: []wire.Endpoint{{Address: "10.1.0.1", Port: 8080, UID: "u"}}}},
		{Name: name, Backend: &wire.Backend{Port: 80}},
	}
}

// route is a rule of the HTTPRoute shop/name, whose resource has that name, at the listener web.
func route(name string, change ...func(*wire.Route)) wire.Resource {
	r := &wire.Route{Object: wire.Object{Kind: "HTTPRoute", Namespace: "shop", Name: name}, Listeners: []string{web},
		Backends: []wire.Share{{Backend: cheddar, Weight: 1}}, Fallback: 500}
	for _, do := range change {
		do(r)
	}
	return wire.Resource{Name: name, Route: r}
}

func hosts(names ...string) func(*wire.Route) {
	return func(r *wire.Route) { r.Hostnames = names }
}

func at(listeners ...string) func(*wire.Route) {
	return func(r *wire.Route) { r.Listeners = listeners }
}

func matching(m ...wire.Match) func(*wire.Route) {
	return func(r *wire.Route) { r.Matches = append(r.Matches, m...) }
}

func prefix(path string) func(*wire.Route) { return matching(wire.Match{Path: path}) }

func exact(path string) func(*wire.Route) {
	return matching(wire.Match{PathType: wire.Exact, Path: path})
}

// made is a table of these and of the backend, of which none is refused.
func made(t testing.TB, resources ...wire.Resource) *Table {
	t.Helper()
	return applied(t, &Table{}, Changes{Set: append(backend(cheddar), resources...)})
}

func applied(t testing.TB, table *Table, c Changes) *Table {
	t.Helper()
	result := table.Apply(c)
	for _, r := range result.Refused {
		t.Errorf("%s was refused: %v", r.Name, r.Err)
	}
	return result.Table
}

func get(host, path string) *Request {
	return &Request{Local: here, Port: 80, Host: host, Method: "GET", Path: path}
}

// said is an answer in short.
func said(a Answer) string {
	listener := "-"
	if a.Listener != nil {
		listener = a.Listener.Name
	}
	switch {
	case a.Outcome != Found:
		return fmt.Sprint(listener, " ", a.Outcome.Status())
	case a.Match == &(&wire.Route{}).Alternatives()[0]:
		return fmt.Sprint(listener, " ", a.Route.Name)
	}
	return fmt.Sprint(listener, " ", a.Route.Name, " ", a.Match.Path)
}

// values are headers or parameters.
func values(pairs ...string) func(string) (string, bool) {
	return func(name string) (string, bool) {
		for i := 0; i < len(pairs); i += 2 {
			if pairs[i] == name {
				return pairs[i+1], true
			}
		}
		return "", false
	}
}
