package proxy

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/wire"
)

// TestReplacePrefix is the table of Gateway API v1.6 (HTTPPathModifier, replacePrefixMatch).
func TestReplacePrefix(t *testing.T) {
	for _, test := range []struct{ path, prefix, by, want string }{
		{"/foo/bar", "/foo", "/xyz", "/xyz/bar"},
		{"/foo/bar", "/foo", "/xyz/", "/xyz/bar"},
		{"/foo/bar", "/foo/", "/xyz", "/xyz/bar"},
		{"/foo/bar", "/foo/", "/xyz/", "/xyz/bar"},
		{"/foo", "/foo", "/xyz", "/xyz"},
		{"/foo/", "/foo", "/xyz", "/xyz/"},
		{"/foo/bar", "/foo", "", "/bar"},
		{"/foo/", "/foo", "", "/"},
		{"/foo", "/foo", "", "/"},
		{"/foo/", "/foo", "/", "/"},
		{"/foo", "/foo", "/", "/"},
		{"/foo/bar", "/", "/xyz", "/xyz/foo/bar"},
		{"/", "/", "/xyz", "/xyz/"},
	} {
		x := &exchange{path: test.path, match: &wire.Match{Path: test.prefix}}
		if got, fine := x.newPath(&wire.URLFilter{ReplacePrefix: &test.by}); got != test.want || !fine {
			t.Errorf("%s with %q for %s is %q, %t, want %q", test.path, test.by, test.prefix, got, fine, test.want)
		}
	}
}

func TestRedirect(t *testing.T) {
	full, prefix := "/new", "/other"
	s := started(t)
	listeners := []wire.Resource{
		web(), {Name: "alt", Listener: &wire.Listener{Object: wire.Object{Kind: "Gateway", Name: "alt"}, Section: "alt", Port: 8080}},
	}
	at := func(path string, u wire.URLFilter) wire.Resource {
		return route(path, func(r *wire.Route) {
			r.Listeners = []string{"web", "alt"}
			r.Matches = []wire.Match{{Path: path}}
			r.Filters = []wire.Filter{
				{Kind: wire.ResponseHeaders, Headers: &wire.HeaderFilter{Set: []wire.Header{{Name: "x-by", Value: path}}}},
				{Kind: wire.Redirect, URL: &u},
			}
		})
	}
	tell(t, s, append(append(listeners, backendOf(cheddar)...),
		at("/scheme", wire.URLFilter{Scheme: "https", Status: 301}),
		at("/host", wire.URLFilter{Hostname: "b.example", Status: 302}),
		at("/port", wire.URLFilter{Port: 8443, Status: 303}),
		at("/both", wire.URLFilter{Scheme: "https", Port: 8443, Status: 307}),
		at("/known", wire.URLFilter{Scheme: "https", Port: 443, Status: 308}),
		at("/full", wire.URLFilter{ReplacePath: &full, Status: 302}),
		at("/prefix", wire.URLFilter{ReplacePrefix: &prefix, Status: 302}),
	)...)
	for _, test := range []struct {
		port   uint16
		path   string
		status int
		want   string
	}{
		{80, "/scheme/a?b=c", 301, "https://a.example/scheme/a?b=c"},
		{8080, "/scheme", 301, "https://a.example/scheme"},
		{80, "/host", 302, "http://b.example/host"},
		{8080, "/host?", 302, "http://b.example:8080/host?"},
		{80, "/port", 303, "http://a.example:8443/port"},
		{80, "/both", 307, "https://a.example:8443/both"},
		{80, "/known", 308, "https://a.example/known"},
		{80, "/full/x?y", 302, "http://a.example/new?y"},
		{80, "/prefix/x%2Fy", 302, "http://a.example/other/x%2Fy"},
	} {
		c := dial(t, s, test.port)
		c.Say("GET " + test.path + " HTTP/1.1\r\nHost: A.example:1234\r\n\r\n")
		r, _ := c.Response(t, "GET")
		if got := r.Header.Get("Location"); r.StatusCode != test.status || got != test.want {
			t.Errorf("%s at port %d: %d to %q, want %d to %q", test.path, test.port, r.StatusCode, got, test.status, test.want)
		}
		if by := r.Header.Get("X-By"); !strings.HasPrefix(test.path, by) || by == "" {
			t.Errorf("%s: the response has X-By %q", test.path, by)
		}
	}
}

// TestFilters: those of the route act before those of the share, and neither touches what frames a
// message.
func TestFilters(t *testing.T) {
	e, heads := recording(t, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX-Old: 1\r\nX-Gone: 1\r\nX-More: 1\r\nConnection: x-private\r\nX-Private: 1\r\n\r\nhello")
	s := started(t)
	path := "/new/%7epath"
	headers := func(kind wire.FilterKind, set, add, remove string) wire.Filter {
		f := &wire.HeaderFilter{Remove: strings.Fields(remove)}
		for _, pair := range strings.Fields(set) {
			name, value, _ := strings.Cut(pair, "=")
			f.Set = append(f.Set, wire.Header{Name: name, Value: value})
		}
		for _, pair := range strings.Fields(add) {
			name, value, _ := strings.Cut(pair, "=")
			f.Add = append(f.Add, wire.Header{Name: name, Value: value})
		}
		return wire.Filter{Kind: kind, Headers: f}
	}
	tell(t, s, append(backendOf(cheddar, e), web(), route("all", func(r *wire.Route) {
		r.Filters = []wire.Filter{
			headers(wire.RequestHeaders, "x-set=route x-forwarded-proto=https content-length=7", "x-add=route", "x-gone connection"),
			headers(wire.ResponseHeaders, "x-old=new content-length=7", "x-more=2", "x-gone"),
			{Kind: wire.Rewrite, URL: &wire.URLFilter{Hostname: "in.example", ReplacePath: &path}},
		}
		r.Backends[0].Filters = []wire.Filter{
			headers(wire.RequestHeaders, "x-set=share", "x-add=share", ""),
			headers(wire.ResponseHeaders, "", "x-more=3", ""),
		}
	}))...)
	c := dial(t, s, 80)
	c.Say("GET /old?q HTTP/1.1\r\nHost: a\r\nX-Set: client\r\nX_Set: client\r\nX-Add: client\r\nX-Gone: client\r\n\r\n")
	first, rest := lines(<-heads)
	if want := "GET /new/~path?q HTTP/1.1"; first != want {
		t.Errorf("the request line is %q, want %q", first, want)
	}
	want := []string{
		"Host: in.example", "X-Add: client", "X-Add: route", "X-Add: share", "X-Forwarded-For: 127.0.0.1", "X-Forwarded-Host: a",
		"X-Forwarded-Port: 80", "X-Forwarded-Proto: https", "X-Real-Ip: 127.0.0.1", "X-Set: share",
	}
	if !slices.Equal(rest, want) {
		t.Errorf("the fields are\n%s\nwant\n%s", strings.Join(rest, "\n"), strings.Join(want, "\n"))
	}
	r, body := c.Response(t, "GET")
	if body != "hello" || r.Header.Get("X-Old") != "new" || !slices.Equal(r.Header["X-More"], []string{"1", "2", "3"}) ||
		r.Header["X-Gone"] != nil || r.Header["X-Private"] != nil {
		t.Errorf("the response is %q with %v", body, r.Header)
	}
}

// TestFieldsOfConnections: what a list names is found whatever its case and place.
func TestFieldsOfConnections(t *testing.T) {
	lists := []string{"close, X-a", " x-B\t,"}
	for element, want := range map[string]bool{"x-a": true, "X-B": true, "close": true, "x": false, "": true} {
		if hasElement(lists, element) != want {
			t.Errorf("%q is an element: %t, want %t", element, !want, want)
		}
	}
	for _, test := range []struct {
		upgrade, connection string
		want                string
	}{
		{"websocket", "Upgrade", "websocket"}, {"websocket", "keep-alive, upgrade", "websocket"}, {"foo/1", "upgrade", "foo/1"},
		{"websocket", "keep-alive", ""}, {"h2c", "Upgrade", ""}, {"H2C", "Upgrade, HTTP2-Settings", ""}, {"h2", "Upgrade", ""},
		{"a, b", "Upgrade", ""}, {"", "Upgrade", ""},
	} {
		r := &http.Request{ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{"Upgrade": {test.upgrade}, "Connection": {test.connection}}}
		if got := asksFor(r); got != test.want {
			t.Errorf("Upgrade %q with Connection %q asks for %q, want %q", test.upgrade, test.connection, got, test.want)
		}
	}
}

// TestStrangersChooseNothing: what a client says of itself, or names as being about the connection, chooses no route and
// takes nothing from a filter.
func TestStrangersChooseNothing(t *testing.T) {
	e, heads := recording(t, hello)
	s := started(t)
	set := func(name, value string) *wire.HeaderFilter {
		return &wire.HeaderFilter{Set: []wire.Header{{Name: name, Value: value}}, Remove: []string{"x-admin"}}
	}
	tell(t, s, append(backendOf(cheddar, e), web(),
		route("all", func(r *wire.Route) {
			r.Filters = []wire.Filter{{Kind: wire.RequestHeaders, Headers: set("x-role", "guest")}}
		}),
		route("inner", func(r *wire.Route) {
			r.Matches = []wire.Match{{Path: "/", Headers: []wire.NamedMatch{{Name: "x-real-ip", Value: "10.0.0.1"}}}}
			r.Filters = []wire.Filter{{Kind: wire.RequestHeaders, Headers: set("x-inner", "yes")}}
		}))...)
	for _, test := range []struct{ fields, has, lacks string }{
		{"Connection: keep-alive, X-Role\r\n", "X-Role: guest", "none"},
		{"Connection: keep-alive, X-Other\r\nX-Other: 1\r\n", "X-Role: guest", "X-Other"},
		{"X-Admin: 1\r\nX_Admin: 1\r\n", "X-Role: guest", "dmin"},
		{"X-Real-Ip: 10.0.0.1\r\n", "X-Role: guest", "X-Inner"},
	} {
		c := dial(t, s, 80)
		c.Say("GET / HTTP/1.1\r\nHost: a\r\n" + test.fields + "\r\n")
		c.Response(t, "GET")
		if head := <-heads; !strings.Contains(head, test.has) || strings.Contains(head, test.lacks) {
			t.Errorf("of %q became %q", test.fields, head)
		}
	}
}
