package table

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/wire"
)

// TestRefused: what cannot be used is refused alone and says why; what was there stays.
func TestRefused(t *testing.T) {
	empty := ""
	onListener := func(do func(*wire.Listener)) wire.Resource { return listener(web, do) }
	onRoute := func(do func(*wire.Route)) wire.Resource { return route("r", do) }
	filtered := func(f wire.Filter) wire.Resource {
		return onRoute(func(r *wire.Route) { r.Filters = []wire.Filter{f} })
	}
	endpoints := func(e wire.Endpoint) wire.Resource {
		return wire.Resource{Name: cheddar, Endpoints: &wire.Endpoints{All: []wire.Endpoint{e}}}
	}
	header := wire.NamedMatch{Name: "v", Value: "(", Regex: true}
	for _, test := range []struct {
		name     string
		resource wire.Resource
		say      string
	}{
		{"no kind", wire.Resource{Name: "r"}, "not of one kind"},
		{"no name", wire.Resource{Endpoints: &wire.Endpoints{}}, "no name"},
		{"certificate", wire.Resource{Name: "c", Certificate: &wire.Certificate{Chain: []byte("x")}}, "failed to find any PEM"},
		{"endpoint's address", endpoints(wire.Endpoint{Address: "a", Port: 1}), "unable to parse"},
		{"endpoint's port", endpoints(wire.Endpoint{Address: "::1"}), "no port"},
		{"endpoint's state", endpoints(wire.Endpoint{Address: "::1", Port: 1, State: wire.Unknown + 1}), "state 3"},
		{"protocol", wire.Resource{Name: cheddar, Backend: &wire.Backend{Protocol: "h3"}}, `protocol "h3"`},
		{"no port", onListener(func(l *wire.Listener) { l.Port = 0 }), "no port"},
		{"address", onListener(func(l *wire.Listener) { l.Address = "x" }), "unable to parse"},
		{"listener's hostname", onListener(func(l *wire.Listener) { l.Hostname = "A.com" }), `"A"`},
		{"hostname", onRoute(hosts("a..com")), `label ""`},
		{"empty hostname", onRoute(hosts("")), `label ""`},
		{"star", onRoute(hosts("*")), `label "*"`},
		{"star within", onRoute(hosts("a.*.com")), `label "*"`},
		{"long hostname", onRoute(hosts(strings.Repeat("a.", 127) + "a")), "255 bytes"},
		{"path type", onRoute(matching(wire.Match{PathType: 7, Path: "/"})), "match 0: path type 7"},
		{"no path", onRoute(matching(wire.Match{})), "begin with /"},
		{"path not normal", onRoute(prefix("/%61")), `normal form, "/a"`},
		{"path that has no normal form", onRoute(prefix("/..")), "above the root"},
		{"long path", onRoute(prefix("/" + strings.Repeat("a", 4096))), "4097 bytes"},
		{"regex", onRoute(matching(wire.Match{Path: "/"}, wire.Match{Path: "/", Headers: []wire.NamedMatch{header}})), `match 1: header "v"`},
		{"regex on a parameter", onRoute(matching(wire.Match{Path: "/", Query: []wire.NamedMatch{header}})), `parameter "v"`},
		{"filter", filtered(wire.Filter{Kind: 99, Headers: &wire.HeaderFilter{}}), "kind 99"},
		{"filter without its part", filtered(wire.Filter{Kind: wire.RequestHeaders}), "incomplete"},
		{"rewrite without its part", filtered(wire.Filter{Kind: wire.Rewrite}), "incomplete"},
		{"filter with another's part", filtered(wire.Filter{Kind: wire.Rewrite, Headers: &wire.HeaderFilter{}}), "incomplete"},
		{"redirect", filtered(wire.Filter{Kind: wire.Redirect, URL: &wire.URLFilter{Status: 200}}), "kind 3"},
		{"rewrite of both", filtered(wire.Filter{Kind: wire.Rewrite, URL: &wire.URLFilter{ReplacePath: &empty, ReplacePrefix: &empty}}), "both"},
		{"filter of a share", onRoute(func(r *wire.Route) { r.Backends[0].Filters = []wire.Filter{{}} }), "kind 0"},
		{"share without backend", onRoute(func(r *wire.Route) { r.Backends = []wire.Share{{Weight: 1, Status: 200}} }), "no status of a failure"},
		{"fallback", onRoute(func(r *wire.Route) { r.Fallback = 200 }), "fallback 200"},
		{"backend", onRoute(func(r *wire.Route) { r.Backends[0].Backend = "absent" }), `backend "absent" is not there`},
	} {
		t.Run(test.name, func(t *testing.T) {
			before := made(t, listener(web), route("r"))
			result := before.Apply(Changes{Set: []wire.Resource{test.resource, route("good", prefix("/good"))}})
			if len(result.Refused) != 1 || result.Refused[0].Name != wire.NameOf(test.resource) || !strings.Contains(result.Refused[0].Err.Error(), test.say) {
				t.Fatalf("got %v, want that %s is refused with %q", result.Refused, wire.NameOf(test.resource), test.say)
			}
			if got := said(result.Table.Lookup(get("a.com", "/"))); got != "web r" {
				t.Errorf("got %s, want the route that was there", got)
			}
			if got := said(result.Table.Lookup(get("a.com", "/good"))); got != "web good /good" {
				t.Errorf("got %s, want the route that came with it", got)
			}
			want := append(before.Resources(), route("good", prefix("/good")))
			slices.SortFunc(want, func(a, b wire.Resource) int { return strings.Compare(kindFirst(a), kindFirst(b)) })
			if diff := cmp.Diff(want, result.Table.Resources()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func kindFirst(r wire.Resource) string { return string(rune('0'+r.Kind())) + r.Name }

// TestLateBackend: a route that comes before its backend, or before its endpoints, is refused alone,
// and taken when they come.
func TestLateBackend(t *testing.T) {
	parts := backend("late")
	first := made(t, listener(web), route("r"))
	later := route("r", prefix("/later"), func(r *wire.Route) { r.Backends = append(r.Backends, wire.Share{Backend: "late"}) })
	for _, order := range [][]wire.Resource{{parts[0], parts[1]}, {parts[1], parts[0]}} {
		result := first.Apply(Changes{Set: []wire.Resource{later, order[0]}})
		if len(result.Refused) != 1 || result.Refused[0].Name != "route/r" || !errors.Is(result.Refused[0].Err, ErrMissing) {
			t.Fatalf("got %v, want that the route is refused", result.Refused)
		}
		if got := said(result.Table.Lookup(get("a.com", "/later"))); got != "web r" {
			t.Errorf("got %s, want the route that was there", got)
		}
		for name, instead := range map[string]Changes{
			"replaced":          {Set: []wire.Resource{route("r", prefix("/instead")), order[1]}},
			"removed":           {Set: order[1:], Removed: []string{"route/r"}},
			"waits for another": {Set: []wire.Resource{route("r", func(r *wire.Route) { r.Backends[0].Backend = "absent" }), order[1]}, Removed: []string{"route/r"}},
		} {
			result := result.Table.Apply(instead)
			if name == "waits for another" && len(result.Refused) == 1 {
				result.Refused = nil
			}
			if got := said(result.Table.Lookup(get("a.com", "/later"))); got != "web 404" || len(result.Refused)+len(result.Late) > 0 {
				t.Errorf("%s: got %s, refused %v, late %v; want nothing of the route that waited", name, got, result.Refused, result.Late)
			}
		}
		again := result.Table.Apply(Changes{Set: order[1:]})
		if !slices.Equal(again.Late, []string{"route/r"}) || len(again.Refused) != 0 {
			t.Errorf("got late %v, refused %v", again.Late, again.Refused)
		}
		if got := said(again.Table.Lookup(get("a.com", "/later"))); got != "web r /later" {
			t.Errorf("got %s, want the route that waited", got)
		}
		if once := again.Table.Apply(Changes{Set: order}); len(once.Late) != 0 {
			t.Errorf("got late %v, which came before", once.Late)
		}
	}
}

// TestKept: what is removed stays for as long as it is named, as it is where the next version of a
// route was refused.
func TestKept(t *testing.T) {
	table := made(t, listener(web), route("r"))
	gone := []string{"backend/" + cheddar, "endpoints/" + cheddar, "listener/absent", "nonsense"}
	kept := table.Apply(Changes{Removed: gone, Set: []wire.Resource{route("r", prefix("/.."))}}).Table
	if _, endpoints, found := kept.Backend(cheddar); !found || len(endpoints) != 1 {
		t.Error("the backend of a route is gone")
	}
	refused := kept.Apply(Changes{Set: []wire.Resource{route("other")}}).Refused
	if len(refused) != 1 || !errors.Is(refused[0].Err, ErrMissing) {
		t.Errorf("got %v, want that nobody can name any more what was removed", refused)
	}
	for name, c := range map[string]Changes{
		"removed":  {Removed: []string{"route/r"}},
		"replaced": {Set: []wire.Resource{route("r", func(r *wire.Route) { r.Backends = nil })}},
	} {
		table := applied(t, kept, c)
		if _, _, found := table.Backend(cheddar); found || table.backends.entries.size+table.endpoints.entries.size != 0 {
			t.Errorf("%s: the backend is there for nobody", name)
		}
	}
	back := applied(t, kept, Changes{Set: backend(cheddar)})
	back = applied(t, back, Changes{Removed: []string{"route/r"}})
	if _, _, found := back.Backend(cheddar); !found {
		t.Error("a backend that came back is gone")
	}
	if _, _, found := table.Backend(cheddar); !found {
		t.Error("the first table changed")
	}
}

// TestEndpoints: those of a backend are what was told last.
func TestEndpoints(t *testing.T) {
	table := made(t, listener(web), route("r"))
	next := applied(t, table, Changes{Set: []wire.Resource{{Name: cheddar, Endpoints: &wire.Endpoints{}}}})
	if told, endpoints, found := next.Backend(cheddar); !found || told.Port != 80 || len(endpoints) != 0 {
		t.Errorf("got %+v, %v, %t", told, endpoints, found)
	}
	if _, endpoints, _ := table.Backend(cheddar); len(endpoints) != 1 {
		t.Error("the first table changed")
	}
	if _, _, found := table.Backend("absent"); found {
		t.Error("a backend is there that never was told")
	}
}
