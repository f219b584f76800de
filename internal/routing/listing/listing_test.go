package listing

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/table"
	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/wire"
)

// made is a table of a listener, of two backends of which one has no endpoints, and of routes.
func made(t *testing.T, routes ...*wire.Route) *table.Table {
	t.Helper()
	set := []wire.Resource{
		{Name: "web", Listener: &wire.Listener{Port: 80}},
		{Name: "shop/a:80", Endpoints: &wire.Endpoints{All: []wire.Endpoint{{Address: "10.1.0.1", Port: 80}, {Address: "10.1.0.2", Port: 80, State: wire.Terminating}, {Address: "10.1.0.3", Port: 80, State: wire.Unknown}}}},
		{Name: "shop/a:80", Backend: &wire.Backend{Port: 80}},
		{Name: "shop/none:80", Endpoints: &wire.Endpoints{}}, {Name: "shop/none:80", Backend: &wire.Backend{Port: 80}},
	}
	for i, r := range routes {
		r.Listeners = []string{"web"}
		r.Object.Kind, r.Object.Namespace = "HTTPRoute", "shop"
		set = append(set, wire.Resource{Name: fmt.Sprint(r.Object.Name, i), Route: r})
	}
	result := (&table.Table{}).Apply(table.Changes{Set: set})
	for _, r := range result.Refused {
		t.Fatalf("%s is refused: %v", r.Name, r.Err)
	}
	return result.Table
}

func object(name string, created int64) wire.Object { return wire.Object{Name: name, Created: created} }

// TestShares: what each backend gets, and what is answered where nothing serves it.
func TestShares(t *testing.T) {
	for want, r := range map[string]*wire.Route{
		"[{shop/a:80 3 75 1 1 1 0} { 1 25 0 0 0 503}] 0": {Backends: []wire.Share{{Backend: "shop/a:80", Weight: 3}, {Weight: 1, Status: 503}}},
		"[{shop/none:80 1 100 0 0 0 503}] 0":             {Backends: []wire.Share{{Backend: "shop/none:80", Weight: 1}}},
		"[{shop/a:80 0 0 1 1 1 0}] 500":                  {Backends: []wire.Share{{Backend: "shop/a:80"}}},
		"[] 503":                                         {Fallback: 503},
		"[] 0":                                           {Filters: []wire.Filter{{Kind: wire.Redirect, URL: &wire.URLFilter{Status: 301}}}},
	} {
		rules, all := Rules(made(t, r), Wanted{})
		if all != 1 {
			t.Fatalf("there are %d rules", all)
		}
		if got := fmt.Sprint(rules[0].Backends, " ", rules[0].Fallback); got != want {
			t.Errorf("the shares are %s, want %s", got, want)
		}
	}
}

// TestRules are in the order of hosts, paths and age; a text is looked for in hosts, paths and names.
func TestRules(t *testing.T) {
	a := []wire.Share{{Backend: "shop/a:80", Weight: 1}}
	table := made(t,
		&wire.Route{Object: object("young", 9), Backends: a, Matches: []wire.Match{{Path: "/"}, {Path: "/", PathType: wire.Exact}}, Hostnames: []string{"b.example.com", "a.example.com"}},
		&wire.Route{Object: object("old", 1), Matches: []wire.Match{{Path: "/"}, {Path: "/b"}}, Hostnames: []string{"b.example.com"}},
		&wire.Route{Object: object("any", 5)})
	listed := func(w Wanted) (out []string) {
		rules, all := Rules(table, w)
		for _, r := range rules {
			out = append(out, r.Host+r.Path+" "+r.PathType+" "+r.Object.Name)
		}
		return append(out, fmt.Sprint(all))
	}
	all := []string{"*/ Prefix any", "a.example.com/ Exact young", "a.example.com/ Prefix young", "b.example.com/ Exact young", "b.example.com/ Prefix old",
		"b.example.com/ Prefix young", "b.example.com/b Prefix old"}
	for _, test := range []struct {
		wanted Wanted
		want   []string
	}{
		{Wanted{}, append(slices.Clone(all), "7")},
		{Wanted{From: 2, Most: 2}, append(slices.Clone(all[2:4]), "7")},
		{Wanted{From: 99, Most: 2}, []string{"7"}}, {Wanted{From: -1, Most: 1}, []string{all[0], "7"}},
		{Wanted{Text: "a.exam"}, append(slices.Clone(all[1:3]), "2")},
		{Wanted{Text: "A.Exam"}, append(slices.Clone(all[1:3]), "2")},
		{Wanted{Text: "/b"}, []string{all[6], "1"}},
		{Wanted{Text: "shop/old"}, []string{all[4], all[6], "2"}},
		{Wanted{Text: "shop/a:80", Most: 1}, []string{all[1], "4"}},
		{Wanted{Object: func(o wire.Object) bool { return o.Name == "any" }}, []string{all[0], "1"}},
		{Wanted{Text: "nothing"}, []string{"0"}},
	} {
		if got := listed(test.wanted); !slices.Equal(got, test.want) {
			t.Errorf("listed are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(test.want, "\n"))
		}
	}
	if got := Hosts(table); len(got) != 2 {
		t.Errorf("the hosts are %q", got)
	}
}

// TestExplain: the rule that serves a request is apart from the others, also from itself under another host.
func TestExplain(t *testing.T) {
	tab := made(t, &wire.Route{Object: object("old", 1), Hostnames: []string{"a.example.com", "*.example.com"}}, &wire.Route{Object: object("young", 9), Hostnames: []string{"a.example.com"}})
	a, err := Explain(tab, table.Asked{Host: "a.example.com", Target: "/"})
	if err != nil || a.Rule == nil || a.Rule.Object.Name != "old" || a.Rule.Host != "a.example.com" || len(a.Others) != 2 || a.Status != 0 {
		t.Fatalf("the answer is %+v, %v", a, err)
	}
	if o := a.Others[0]; o.Rule.Object.String() != "HTTPRoute shop/young" || !o.Takes || o.Why != "the other is older" {
		t.Errorf("next is %+v", o)
	}
	if o := a.Others[1]; o.Rule.Object.Name != "old" || o.Rule.Host != "*.example.com" || !strings.Contains(o.Why, "more specific") {
		t.Errorf("last is %+v", o)
	}
	if a, err = Explain(tab, table.Asked{Host: "example.org", Target: "/"}); err != nil || a.Rule != nil || a.Status != 404 {
		t.Errorf("the answer is %+v, %v", a, err)
	}
	if _, err := Explain(tab, table.Asked{Host: "a.example.com", Target: "x"}); err == nil {
		t.Error("a path that is none is answered")
	}
}
