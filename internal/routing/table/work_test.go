package table

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/wire"
)

// cookie is a match of that header by an expression.
func cookie(path, expression string) wire.Match {
	return wire.Match{Path: path, Headers: []wire.NamedMatch{{Name: "cookie", Value: expression, Regex: true}}}
}

// TestWork: what is usual is matched. What would take long is not, and then nobody knows the route; who explains it says
// what it did not try.
func TestWork(t *testing.T) {
	slow := route("slow", func(r *wire.Route) {
		for i := range 100 {
			r.Matches = append(r.Matches, cookie("/", fmt.Sprintf("(?:[a-z]*[a-f]?){200}%d", i)))
		}
	})
	usual := route("usual", func(r *wire.Route) {
		for i := range 16 {
			r.Matches = append(r.Matches, cookie("/a", fmt.Sprintf(".*canary-%x=always.*", i)))
		}
	})
	table := made(t, listener(web), slow, usual, route("any"))
	const last = "; canary-f=always"
	for _, test := range []struct {
		path, value string
		// route is the one that is found, empty where it takes too long.
		route string
		// tried says whether an explanation can try all.
		tried bool
	}{
		{"/", "aaa", "any", true},
		{"/", strings.Repeat("a", 16<<10), "", true},
		{"/a", "canary-f=always", "usual", true},
		{"/a", strings.Repeat("a", 4<<10) + last, "usual", false},
		{"/a", strings.Repeat("a", 63<<10) + last, "", true},
	} {
		r := get("a.com", test.path)
		r.Header = func(name string) (string, bool) { return test.value, name == "cookie" }
		x := table.Explain(r)
		a := table.Lookup(r)
		if x.Answer != a {
			t.Errorf("%s, %d bytes: explained is %s, found %s", test.path, len(test.value), said(x.Answer), said(a))
		}
		if test.route == "" {
			if a.Outcome != TooLong || a.Outcome.Status() != 431 || !strings.Contains(x.Why, "too long") {
				t.Errorf("%s, %d bytes: %s, because %s", test.path, len(test.value), said(a), x.Why)
			}
			continue
		}
		if a.Outcome != Found || a.Route.Name != test.route {
			t.Fatalf("%s, %d bytes: %s, want %s", test.path, len(test.value), said(a), test.route)
		}
		if first := x.Considered[0]; first.Route.Name != test.route || !first.Takes || first.Why != "" {
			t.Errorf("%s, %d bytes: the first that is considered is %s, %q", test.path, len(test.value), first.Route.Name, first.Why)
		}
		tried := !slices.ContainsFunc(x.Considered, func(c Considered) bool { return strings.Contains(c.Why, "was not tried") })
		if tried != test.tried {
			t.Errorf("%s, %d bytes: all are tried: %t", test.path, len(test.value), tried)
		}
	}
}
