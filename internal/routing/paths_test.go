package routing

import (
	"strings"
	"testing"

	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/wire"
	networkingv1 "k8s.io/api/networking/v1"
)

// TestPathTable is the table of examples of
// https://kubernetes.io/docs/concepts/services-networking/ingress/#examples: the path that serves a
// request, empty for none.
func TestPathTable(t *testing.T) {
	const exact, prefix = networkingv1.PathTypeExact, networkingv1.PathTypePrefix
	type path struct {
		kind networkingv1.PathType
		path string
	}
	for _, test := range []struct {
		paths   []path
		request string
		want    int
	}{
		{[]path{{prefix, "/"}}, "/any/thing", 0},
		{[]path{{exact, "/foo"}}, "/foo", 0},
		{[]path{{exact, "/foo"}}, "/bar", -1},
		{[]path{{exact, "/foo"}}, "/foo/", -1},
		{[]path{{exact, "/foo/"}}, "/foo", -1},
		{[]path{{prefix, "/foo"}}, "/foo", 0},
		{[]path{{prefix, "/foo"}}, "/foo/", 0},
		{[]path{{prefix, "/foo/"}}, "/foo", 0},
		{[]path{{prefix, "/foo/"}}, "/foo/", 0},
		{[]path{{prefix, "/aaa/bb"}}, "/aaa/bbb", -1},
		{[]path{{prefix, "/aaa/bbb"}}, "/aaa/bbb", 0},
		{[]path{{prefix, "/aaa/bbb/"}}, "/aaa/bbb", 0},
		{[]path{{prefix, "/aaa/bbb"}}, "/aaa/bbb/", 0},
		{[]path{{prefix, "/aaa/bbb"}}, "/aaa/bbb/ccc", 0},
		{[]path{{prefix, "/aaa/bbb"}}, "/aaa/bbbxyz", -1},
		{[]path{{prefix, "/"}, {prefix, "/aaa"}}, "/aaa/ccc", 1},
		{[]path{{prefix, "/"}, {prefix, "/aaa"}, {prefix, "/aaa/bbb"}}, "/aaa/bbb", 2},
		{[]path{{prefix, "/"}, {prefix, "/aaa"}, {prefix, "/aaa/bbb"}}, "/ccc", 0},
		{[]path{{prefix, "/aaa"}}, "/ccc", -1},
		{[]path{{prefix, "/foo"}, {exact, "/foo"}}, "/foo", 1},
		{[]path{{networkingv1.PathTypeImplementationSpecific, "/foo/"}}, "/foo", 0},
		{[]path{{networkingv1.PathTypeImplementationSpecific, ""}}, "/bar", 0},
	} {
		c := New(Options{})
		c.Set(&IngressDaemonSet{ObjectMeta: meta("ingress", "proxy")})
		c.Set(classFor("ids", "proxy"))
		c.Set(serviceAt("default", "web", 80))
		in := ingressFor("default", "web", "ids", "web.example", "web")
		in.Spec.Rules[0].HTTP.Paths = nil
		for _, p := range test.paths {
			in.Spec.Rules[0].HTTP.Paths = append(in.Spec.Rules[0].HTTP.Paths, pathOf(p.path, p.kind, "web"))
		}
		c.Set(in)
		c.Compile(noon)
		if got := servedBy(c.Resources(proxySet), test.request); got != test.want {
			t.Errorf("%s with %v is served by path %d, not %d", test.request, test.paths, got, test.want)
		}
	}
}

// servedBy is the index of the rule that a proxy chooses: the longest path, of the same Exact.
func servedBy(resources []wire.Resource, request string) int {
	best, rule := wire.Match{}, -1
	for _, r := range resources {
		if r.Route == nil {
			continue
		}
		for _, m := range r.Route.Matches {
			longer := len(m.Path) > len(best.Path) || len(m.Path) == len(best.Path) && m.PathType == wire.Exact
			if fits(m, request) && (rule < 0 || longer) {
				best, rule = m, int(r.Route.Rule)
			}
		}
	}
	return rule
}

func fits(m wire.Match, request string) bool {
	return request == m.Path || m.PathType == wire.Prefix && strings.HasPrefix(request, strings.TrimSuffix(m.Path, "/")+"/")
}
