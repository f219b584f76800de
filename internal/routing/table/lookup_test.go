package table

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/wire"
)

// TestPrecedence has, for each criterion, two routes that take a request, of which all later criteria
// are for the one that must lose.
func TestPrecedence(t *testing.T) {
	two := func(name string) []wire.NamedMatch {
		return []wire.NamedMatch{{Name: "a", Value: "1"}, {Name: name, Value: "2"}}
	}
	full := wire.Match{PathType: wire.Exact, Path: "/a/b", Method: "GET", Headers: two("b"), Query: two("b")}
	without := func(change func(*wire.Match)) wire.Match {
		m := full
		change(&m)
		return m
	}
	old := func(r *wire.Route) { r.Object.Created = -1 }
	for _, test := range []struct {
		name      string
		win, lose []func(*wire.Route)
	}{
		{"exact hostname", []func(*wire.Route){hosts("a.b.com")}, []func(*wire.Route){hosts("*.b.com"), matching(full), old}},
		{"longer wildcard", []func(*wire.Route){hosts("*.b.com")}, []func(*wire.Route){hosts("*.com"), matching(full), old}},
		{"wildcard before any", []func(*wire.Route){hosts("*.com")}, []func(*wire.Route){matching(full), old}},
		{"exact path", []func(*wire.Route){exact("/a/b")}, []func(*wire.Route){matching(without(func(m *wire.Match) { m.PathType = wire.Prefix })), old}},
		{"longer prefix", []func(*wire.Route){prefix("/a/b")}, []func(*wire.Route){matching(without(func(m *wire.Match) { m.PathType, m.Path = wire.Prefix, "/a" })), old}},
		{"method", []func(*wire.Route){matching(wire.Match{PathType: wire.Exact, Path: "/a/b", Method: "GET"})},
			[]func(*wire.Route){matching(without(func(m *wire.Match) { m.Method = "" })), old}},
		{"headers", []func(*wire.Route){matching(without(func(m *wire.Match) { m.Query = nil }))},
			[]func(*wire.Route){matching(without(func(m *wire.Match) { m.Headers = m.Headers[:1] })), old}},
		{"query", []func(*wire.Route){matching(full)}, []func(*wire.Route){matching(without(func(m *wire.Match) { m.Query = m.Query[:1] })), old}},
		{"age", []func(*wire.Route){matching(full), old, func(r *wire.Route) { r.Object.Name, r.Rule = "z", 9 }}, []func(*wire.Route){matching(full)}},
		{"namespace and name as one text", []func(*wire.Route){matching(full), func(r *wire.Route) { r.Object.Namespace, r.Rule = "shop-a", 9 }},
			[]func(*wire.Route){matching(full), func(r *wire.Route) { r.Object.Name = "a" }}},
		{"name", []func(*wire.Route){matching(full), func(r *wire.Route) { r.Object.Name, r.Rule = "a", 9 }}, []func(*wire.Route){matching(full)}},
		{"rule", []func(*wire.Route){matching(full), func(r *wire.Route) { r.Object.Name = "same" }},
			[]func(*wire.Route){matching(full), func(r *wire.Route) { r.Object.Name, r.Rule = "same", 1 }}},
	} {
		t.Run(test.name, func(t *testing.T) {
			request := get("a.b.com", "/a/b")
			request.Header, request.Query = values("a", "1", "b", "2"), values("a", "1", "b", "2")
			// Names of resources are for the one that must lose, where all else is equal.
			win, lose := route("zwin", test.win...), route("alose", test.lose...)
			for _, resources := range [][]wire.Resource{{win, lose}, {lose, win}} {
				table := made(t, append(resources, listener(web))...)
				if got := table.Lookup(request); got.Outcome != Found || got.Route.Name != "zwin" {
					t.Errorf("got %s", said(got))
				}
				without := applied(t, table, Changes{Removed: []string{"route/zwin"}})
				if got := without.Lookup(request); got.Outcome != Found || got.Route.Name != "alose" {
					t.Errorf("without the other: got %s", said(got))
				}
			}
		})
	}
}

// TestMatches is what a request must be like.
func TestMatches(t *testing.T) {
	table := made(t, listener(web),
		route("method", matching(wire.Match{Path: "/", Method: "POST"})),
		route("header", matching(wire.Match{Path: "/", Headers: []wire.NamedMatch{{Name: "v", Value: "one"}, {Name: "v", Value: "other"}}})),
		route("regex", matching(wire.Match{Path: "/", Headers: []wire.NamedMatch{{Name: "v", Value: "t[a-z]+", Regex: true}}})),
		route("empty", matching(wire.Match{Path: "/", Headers: []wire.NamedMatch{{Name: "e", Value: ""}}})),
		route("query", matching(wire.Match{Path: "/", Query: []wire.NamedMatch{{Name: "Q", Value: "1"}}}, wire.Match{Path: "/second"})),
		route("one label", hosts("*.one.com"), func(r *wire.Route) { r.OneLabel = true }),
		route("any", hosts("*.one.com"), prefix("/any")),
	)
	for _, test := range []struct {
		change func(*Request)
		want   string
	}{
		{func(*Request) {}, "web 404"},
		{func(r *Request) { r.Method = "POST" }, "web method /"},
		{func(r *Request) { r.Method = "post" }, "web 404"},
		{func(r *Request) { r.Header = values("v", "one") }, "web header /"},
		{func(r *Request) { r.Header = values("v", "other") }, "web 404"},
		{func(r *Request) { r.Header = values("v", "two") }, "web regex /"},
		{func(r *Request) { r.Header = values("v", "One") }, "web 404"},
		{func(r *Request) { r.Header = values("v", "two!") }, "web 404"},
		{func(r *Request) { r.Header = values("e", "") }, "web empty /"},
		{func(r *Request) { r.Query = values("Q", "1") }, "web query /"},
		{func(r *Request) { r.Query = values("q", "1") }, "web 404"},
		{func(r *Request) { r.Path = "/second/x" }, "web query /second"},
		{func(r *Request) { r.Path = "*" }, "web 404"},
		{func(r *Request) { r.Path = "" }, "web 404"},
		{func(r *Request) { r.Host = "a.one.com" }, "web one label"},
		{func(r *Request) { r.Host = "a.one.com." }, "web one label"},
		{func(r *Request) { r.Host = "a.b.one.com" }, "web 404"},
		{func(r *Request) { r.Host = "one.com" }, "web 404"},
		{func(r *Request) { r.Host = ".one.com" }, "web 404"},
		{func(r *Request) { r.Host, r.Path = "a.b.one.com", "/any" }, "web any /any"},
		{func(r *Request) { r.Host = strings.Repeat("a.", 200) + "one.com" }, "web 404"},
		{func(r *Request) { r.Host, r.Path = strings.Repeat("a.", 20000), strings.Repeat("/", 50000) }, "web 404"},
	} {
		request := get("other.com", "/")
		test.change(request)
		if got := said(table.Lookup(request)); got != test.want {
			t.Errorf("%.40q %.40q: got %s, want %s", request.Host, request.Path, got, test.want)
		}
	}
}

// TestPaths has the examples of Kubernetes' documentation of Ingress (path types) and of Gateway API
// (PathPrefix), and what else may be taken for a path element.
func TestPaths(t *testing.T) {
	for _, test := range []struct {
		paths   []func(*wire.Route)
		request string
		want    string
	}{
		{[]func(*wire.Route){prefix("/")}, "/anything", "/"},
		{[]func(*wire.Route){exact("/foo")}, "/foo", "/foo"},
		{[]func(*wire.Route){exact("/foo")}, "/bar", ""},
		{[]func(*wire.Route){exact("/foo")}, "/foo/", ""},
		{[]func(*wire.Route){exact("/foo/")}, "/foo", ""},
		{[]func(*wire.Route){exact("/foo/")}, "/foo/", "/foo/"},
		{[]func(*wire.Route){prefix("/foo")}, "/foo", "/foo"},
		{[]func(*wire.Route){prefix("/foo")}, "/foo/", "/foo"},
		{[]func(*wire.Route){prefix("/foo/")}, "/foo", "/foo/"},
		{[]func(*wire.Route){prefix("/foo/")}, "/foo/", "/foo/"},
		{[]func(*wire.Route){prefix("/aaa/bb")}, "/aaa/bbb", ""},
		{[]func(*wire.Route){prefix("/aaa/bbb")}, "/aaa/bbb", "/aaa/bbb"},
		{[]func(*wire.Route){prefix("/aaa/bbb/")}, "/aaa/bbb", "/aaa/bbb/"},
		{[]func(*wire.Route){prefix("/aaa/bbb")}, "/aaa/bbb/", "/aaa/bbb"},
		{[]func(*wire.Route){prefix("/aaa/bbb")}, "/aaa/bbb/ccc", "/aaa/bbb"},
		{[]func(*wire.Route){prefix("/aaa/bbb")}, "/aaa/bbbxyz", ""},
		{[]func(*wire.Route){prefix("/"), prefix("/aaa")}, "/aaa/ccc", "/aaa"},
		{[]func(*wire.Route){prefix("/aaa"), prefix("/aaa/bbb")}, "/aaa/ccc", "/aaa"},
		{[]func(*wire.Route){prefix("/"), prefix("/aaa"), prefix("/aaa/bbb")}, "/aaa/bbb", "/aaa/bbb"},
		{[]func(*wire.Route){prefix("/"), prefix("/aaa"), prefix("/aaa/bbb")}, "/ccc", "/"},
		{[]func(*wire.Route){prefix("/aaa")}, "/ccc", ""},
		{[]func(*wire.Route){prefix("/foo"), exact("/foo")}, "/foo", "/foo"},
		{[]func(*wire.Route){prefix("/abc")}, "/abcd", ""},
		{[]func(*wire.Route){prefix("/abc")}, "/abc/def", "/abc"},
		{[]func(*wire.Route){prefix("/a%2Fb")}, "/a/b", ""},
		{[]func(*wire.Route){prefix("/a")}, "/a%2Fb", ""},
		{[]func(*wire.Route){prefix("/a")}, "//a", ""},
		{[]func(*wire.Route){prefix("/a")}, "/a//b", "/a"},
		{[]func(*wire.Route){prefix("/a/b")}, "/a//b", ""},
		{[]func(*wire.Route){exact("/")}, "/", "/"},
		{[]func(*wire.Route){exact("/")}, "/a", ""},
		{[]func(*wire.Route){exact("/")}, "//", ""},
	} {
		table := made(t, listener(web), route("r", test.paths...))
		want := "web 404"
		if test.want != "" {
			want = "web r " + test.want
		}
		if got := said(table.Lookup(get("a.com", test.request))); got != want {
			t.Errorf("%s: got %s, want %s", test.request, got, want)
		}
	}
}

// TestListeners: a listener is chosen by address, port, TLS and then the most specific hostname, and
// what it has no route for no other serves.
func TestListeners(t *testing.T) {
	hostname := func(name string) func(*wire.Listener) { return func(l *wire.Listener) { l.Hostname = name } }
	address := func(a string) func(*wire.Listener) { return func(l *wire.Listener) { l.Address = a } }
	table := made(t,
		listener("any"), listener("wide", hostname("*.com")), listener("wild", hostname("*.foo.com")), listener("one", hostname("a.foo.com")),
		listener("younger", hostname("a.foo.com"), func(l *wire.Listener) { l.Object.Created = 1 }),
		listener("own", address("10.0.0.9"), hostname("a.foo.com")), listener("six", address("::ffff:10.0.0.8")),
		listener("tls", func(l *wire.Listener) { l.TLS = true }), listener("other", func(l *wire.Listener) { l.Port = 8080 }),
		route("r", at("any", "wide", "wild", "one", "own", "six", "tls", "other", "younger", "absent")),
		route("only any", at("any"), prefix("/only")))
	for _, test := range []struct {
		host, path, want string
		change           func(*Request)
	}{
		{"a.foo.com", "/", "one r", nil},
		{"b.foo.com", "/", "wild r", nil},
		{"a.b.foo.com", "/", "wild r", nil},
		{"foo.com", "/", "wide r", nil},
		{"org", "/", "any r", nil},
		{"com", "/", "any r", nil},
		{"", "/", "any r", nil},
		{"org", "/only", "any only any /only", nil},
		{"a.foo.com", "/only", "one r", nil},
		{"a.foo.com", "/", "own r", func(r *Request) { r.Local = netip.MustParseAddr("10.0.0.9") }},
		{"b.foo.com", "/", "- 404", func(r *Request) { r.Local = netip.MustParseAddr("10.0.0.9") }},
		{"b.foo.com", "/", "six r", func(r *Request) { r.Local = netip.MustParseAddr("10.0.0.8") }},
		{"b.foo.com", "/", "six r", func(r *Request) { r.Local = netip.MustParseAddr("::ffff:10.0.0.8") }},
		{"a.foo.com", "/", "tls r", func(r *Request) { r.TLS = true }},
		{"a.foo.com", "/", "other r", func(r *Request) { r.Port = 8080 }},
		{"a.foo.com", "/", "- 404", func(r *Request) { r.Port = 81 }},
	} {
		request := get(test.host, test.path)
		if test.change != nil {
			test.change(request)
		}
		if got := said(table.Lookup(request)); got != test.want {
			t.Errorf("%s: got %s, want %s", test.host, got, test.want)
		}
	}
	for _, step := range []struct {
		c    Changes
		want string
	}{
		{Changes{Removed: []string{"listener/one"}}, "younger r"},
		{Changes{Removed: []string{"listener/younger"}}, "wild r"},
		{Changes{Removed: []string{"listener/wild", "listener/wide"}}, "any r"},
		{Changes{Removed: []string{"listener/any"}}, "- 404"},
		{Changes{Set: []wire.Resource{listener("absent", hostname("*.foo.com"))}}, "absent r"},
	} {
		table = applied(t, table, step.c)
		if got := said(table.Lookup(get("a.foo.com", "/"))); got != step.want {
			t.Errorf("after %+v: got %s, want %s", step.c, got, step.want)
		}
	}
}

// TestMisdirected has the cases of Gateway API's conformance test
// HTTPRouteHTTPSListenerDetectMisdirectedRequests (v1.6), whose listeners present the same certificate,
// and those of an Ingress class, where that counts.
func TestMisdirected(t *testing.T) {
	ingress := func(name, hostname string, certificates ...string) wire.Resource {
		r := secure(name, hostname, certificates...)
		r.Listener.Section, r.Listener.Port = "", 8443
		return r
	}
	table := made(t, secure("https", "", "c"), secure("second", "second-example.org", "c"), secure("wild", "*.wildcard.org", "c"), secure("fourth", "fourth-example.wildcard.org", "c"),
		route("r", at("https"), hosts("example.org")), route("rest", at("second", "wild", "fourth")),
		ingress("default", ""), ingress("a", "a.com", "c"), ingress("b", "b.com", "c"), ingress("d", "d.com", "d"), route("ingress", at("default", "a", "b", "d")))
	for _, test := range []struct {
		port       uint16
		name, host string
		want       string
	}{
		{443, "example.org", "example.org", "https r"},
		{443, "example.org", "second-example.org", "second 421"},
		{443, "example.org", "unknown-example.org", "https 404"},
		{443, "second-example.org", "second-example.org", "second rest"},
		{443, "second-example.org", "example.org", "https 421"},
		{443, "second-example.org", "unknown-example.org", "https 421"},
		{443, "third-example.wildcard.org", "third-example.wildcard.org", "wild rest"},
		{443, "third-example.wildcard.org", "fith-example.wildcard.org", "wild rest"},
		{443, "third-example.wildcard.org", "fourth-example.wildcard.org", "fourth 421"},
		{443, "third-example.wildcard.org", "second-example.org", "second 421"},
		{443, "third-example.wildcard.org", "unknown-example.org", "https 421"},
		{443, "fourth-example.wildcard.org", "fourth-example.wildcard.org", "fourth rest"},
		{443, "fourth-example.wildcard.org", "fith-example.wildcard.org", "wild 421"},
		{443, "unknown-example.org", "example.org", "https r"},
		{443, "unknown-example.org", "unknown-example.org", "https 404"},
		{443, "", "second-example.org", "second rest"},
		{8443, "a.com", "b.com", "b ingress"},
		{8443, "a.com", "d.com", "d 421"},
		{8443, "a.com", "e.com", "default 421"},
		{8443, "e.com", "a.com", "a 421"},
	} {
		request := &Request{Local: here, Port: test.port, TLS: true, ServerName: test.name, Host: test.host, Method: "GET", Path: "/"}
		if got := said(table.Lookup(request)); got != test.want {
			t.Errorf("name %s, host %s: got %s, want %s", test.name, test.host, got, test.want)
		}
	}
}
