package table

import (
	"fmt"
	"strings"
	"testing"

	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/wire"
)

// TestExplain: what is considered is listed, with the reason why it did not win.
func TestExplain(t *testing.T) {
	old := func(r *wire.Route) { r.Object.Created = -1 }
	table := made(t, listener(web, func(l *wire.Listener) { l.Hostname = "*.com" }), secure("tls", "a.com"), secure("tls other", "b.com"),
		route("winner", hosts("a.com"), matching(wire.Match{Path: "/a", Method: "GET"})),
		route("any method", hosts("a.com"), prefix("/a"), old),
		route("shorter", hosts("a.com"), prefix("/"), old),
		route("wild", hosts("*.com"), exact("/a/b"), old),
		route("any", old),
		route("post", hosts("a.com"), matching(wire.Match{Path: "/a/b", Method: "POST"})),
		route("header", hosts("a.com"), matching(wire.Match{Path: "/a/b", Headers: []wire.NamedMatch{{Name: "v", Value: "1"}}})),
		route("query", hosts("a.com"), matching(wire.Match{Path: "/a/b", Query: []wire.NamedMatch{{Name: "q", Value: "1"}}})),
		route("elsewhere", hosts("a.com"), exact("/elsewhere")),
		route("other host", hosts("b.com")), route("other listener", at("tls")))
	x := table.Explain(get("a.com", "/a/b"))
	var got []string
	for _, c := range x.Considered {
		got = append(got, fmt.Sprintf("%s %q %t: %s", c.Route.Name, c.Hostname, c.Takes, c.Why))
	}
	want := []string{
		`winner "a.com" true: `,
		`any method "a.com" true: the other names a method`,
		`shorter "a.com" true: the other has an exact or longer path`,
		`wild "*.com" true: the other has a more specific hostname`,
		`any "" true: the other has a more specific hostname`,
		`post "a.com" false: method is GET, not POST`,
		`header "a.com" false: header "v" is missing or not as it asks for`,
		`query "a.com" false: parameter "q" is missing or not as it asks for`,
		`elsewhere "a.com" false: path /a/b is not as it asks for`,
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	secured := &Request{Local: here, Port: 443, TLS: true, ServerName: "b.com", Host: "a.com", Method: "GET", Path: "/"}
	for _, test := range []struct {
		request *Request
		want    string
	}{
		{get("a.com", "/a/b"), `web at 10.0.0.1 port 80 without TLS has hostname *.com, the most specific for host "a.com"`},
		{get("a.org", "/"), `no listener at 10.0.0.1 port 80 without TLS is for host "a.org"`},
		{secured, `the connection was made for "b.com", and host "a.com" is of another listener, tls`},
	} {
		if got := table.Explain(test.request); got.Why != test.want || said(got.Answer) != said(table.Lookup(test.request)) {
			t.Errorf("got %s, %s; want %s", said(got.Answer), got.Why, test.want)
		}
	}
}

// TestExplainBound: of very many matches the first hundred are listed.
func TestExplainBound(t *testing.T) {
	resources := []wire.Resource{listener(web)}
	for i := range 250 {
		resources = append(resources, route(fmt.Sprint("r", i), prefix(fmt.Sprint("/", i))))
	}
	x := made(t, resources...).Explain(get("a.com", "/200"))
	if len(x.Considered) != maxConsidered || x.More != 150 || x.Considered[0].Route.Name != "r200" {
		t.Errorf("got %d and %d more, first %s", len(x.Considered), x.More, x.Considered[0].Route.Name)
	}
}
