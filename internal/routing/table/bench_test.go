package table

import (
	"fmt"
	"net/http"
	"runtime"
	"testing"

	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/wire"
)

func hostNumber(i int) string { return fmt.Sprintf("app-%d.team-%d.example.com", i, i%97) }

// routeNumber is the route of a host of its own.
func routeNumber(i int, change ...func(*wire.Route)) wire.Resource {
	return route(fmt.Sprint("route-", i), append([]func(*wire.Route){hosts(hostNumber(i)), prefix("/"), prefix("/api/v1"), func(r *wire.Route) {
		r.Backends[0].Backend = fmt.Sprint("backend-", i)
	}}, change...)...)
}

// ofHosts is a table of that many hosts, each with a route and a backend of its own.
func ofHosts(t testing.TB, n int) *Table {
	resources := []wire.Resource{listener(web)}
	for i := range n {
		resources = append(append(resources, backend(fmt.Sprint("backend-", i))...), routeNumber(i))
	}
	return made(t, resources...)
}

// bytesOf is how many bytes a call allocates, as a mean of many.
func bytesOf(calls int, call func(i int)) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for i := range calls {
		call(i)
	}
	runtime.ReadMemStats(&after)
	return (after.TotalAlloc - before.TotalAlloc) / uint64(calls)
}

// TestCostOfChange: at 10,000 hosts one change of a route, of endpoints, or of a new host allocates at
// most 64 KiB.
func TestCostOfChange(t *testing.T) {
	table := ofHosts(t, 10_000)
	for name, changes := range map[string]func(i int) Changes{
		"route": func(i int) Changes { return Changes{Set: []wire.Resource{routeNumber(i, prefix("/new"))}} },
		"new": func(i int) Changes {
			return Changes{Set: []wire.Resource{route(fmt.Sprint("new", i), hosts(fmt.Sprint("new", i)), func(r *wire.Route) { r.Backends = nil })}}
		},
		"removal":   func(i int) Changes { return Changes{Removed: []string{fmt.Sprint("route/route-", i)}} },
		"endpoints": func(i int) Changes { return Changes{Set: backend(fmt.Sprint("backend-", i))[:1]} },
		"listener":  func(i int) Changes { return Changes{Set: []wire.Resource{secure("tls", hostNumber(i))}} },
	} {
		got := bytesOf(100, func(i int) { applied(t, table, changes(i)) })
		t.Logf("%s: %d bytes", name, got)
		if got > 64<<10 {
			t.Errorf("%s: a change allocates %d bytes", name, got)
		}
	}
}

// TestLookupAllocatesNothing, whatever a request is.
func TestLookupAllocatesNothing(t *testing.T) {
	table := made(t, listener(web), secure("tls", ""), route("r", at(web, "tls"), hosts("*.a.com"),
		matching(wire.Match{Path: "/a", Headers: []wire.NamedMatch{{Name: "v", Value: "x+", Regex: true}}, Query: []wire.NamedMatch{{Name: "q", Value: "1"}}})))
	found := get("b.a.com", "/a/b/c")
	found.Header, found.Query = values("v", "xx"), values("q", "1")
	for _, request := range []*Request{found, get("b.a.com", "/b"), get("c", "/"), {Local: here, Port: 443, TLS: true, ServerName: "x", Host: "b.a.com", Method: "GET", Path: "/"}} {
		if got := testing.AllocsPerRun(100, func() {
			if a := table.Lookup(request); a.Route != nil {
				table.Backend(a.Route.Backends[0].Backend)
			}
		}); got > 0 {
			t.Errorf("%s: a lookup allocates %v times", said(table.Lookup(request)), got)
		}
	}
	if got := said(table.Lookup(found)); got != "web r /a" {
		t.Errorf("got %s", got)
	}
}

// BenchmarkLookup draws hosts from 1 and from 10,000, beside the mux of net/http, which knows hosts and
// paths alone.
func BenchmarkLookup(b *testing.B) {
	for _, n := range []int{1, 10_000} {
		table := ofHosts(b, n)
		mux := http.NewServeMux()
		requests, asked := make([]*Request, n), make([]*http.Request, n)
		for i := range n {
			mux.Handle(hostNumber(i)+"/", http.NotFoundHandler())
			mux.Handle(hostNumber(i)+"/api/v1/", http.NotFoundHandler())
			// In an order that caches do not know.
			host := hostNumber(i * 7919 % n)
			requests[i] = get(host, "/api/v1/things")
			asked[i], _ = http.NewRequest(http.MethodGet, "http://"+host+"/api/v1/things", nil)
		}
		b.Run(fmt.Sprint("hosts=", n, "/table"), func(b *testing.B) {
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				if a := table.Lookup(requests[i%n]); a.Outcome != Found {
					b.Fatal(said(a))
				}
				i++
			}
		})
		b.Run(fmt.Sprint("hosts=", n, "/ServeMux"), func(b *testing.B) {
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				if _, pattern := mux.Handler(asked[i%n]); pattern == "" {
					b.Fatal("none was found")
				}
				i++
			}
		})
	}
}

// BenchmarkApply is one change at 10,000 hosts, and the whole of them at once.
func BenchmarkApply(b *testing.B) {
	table := ofHosts(b, 10_000)
	changes := map[string]Changes{
		"route":     {Set: []wire.Resource{routeNumber(5000, prefix("/new"))}},
		"endpoints": {Set: backend("backend-5000")[:1]},
	}
	for name, c := range changes {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				table.Apply(c)
			}
		})
	}
	all := Changes{Set: table.Resources()}
	b.Run("all", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			(&Table{}).Apply(all)
		}
	})
}
