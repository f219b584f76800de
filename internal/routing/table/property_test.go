package table

import (
	"cmp"
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/wire"
	"pgregory.net/rapid"
)

// Few of everything, so that what is drawn meets.
var (
	drawnListeners = []string{"l0", "l1", "l2", "l3", "l4"}
	drawnHosts     = []string{"a.com", "b.a.com", "*.a.com", "*.com", "*.b.a.com", "org"}
	drawnPaths     = []string{"/", "/a", "/a/", "/a/b", "/a/b/c", "/b", "//a", "/a//b"}
	drawnBackends  = []string{"x", "y", "z"}
	drawnMethods   = []string{"", "", "GET", "POST"}
)

func few[T any](t *rapid.T, label string, most int, one func() T) (all []T) {
	for range rapid.IntRange(0, most).Draw(t, label) {
		all = append(all, one())
	}
	return all
}

func one[T any](t *rapid.T, label string, of []T) T { return rapid.SampledFrom(of).Draw(t, label) }

func drawObject(t *rapid.T) wire.Object {
	return wire.Object{Kind: one(t, "kind", []string{"HTTPRoute", "Ingress"}), Namespace: one(t, "namespace", []string{"a", "a-b"}),
		Name: one(t, "object", []string{"x", "y"}), Created: int64(rapid.IntRange(0, 2).Draw(t, "created"))}
}

func drawConditions(t *rapid.T, label string) []wire.NamedMatch {
	return few(t, label, 2, func() wire.NamedMatch {
		// The last is no expression.
		m := wire.NamedMatch{Name: one(t, "name", []string{"n", "m"}), Value: one(t, "value", []string{"1", "2", "1|2", "("})}
		m.Regex = rapid.Bool().Draw(t, "regex")
		return m
	})
}

func drawRoute(t *rapid.T) *wire.Route {
	return &wire.Route{
		Object: drawObject(t), Rule: uint32(rapid.IntRange(0, 2).Draw(t, "rule")), OneLabel: rapid.Bool().Draw(t, "one label"),
		Listeners: few(t, "listeners", 3, func() string { return one(t, "listener", drawnListeners) }),
		Hostnames: few(t, "hostnames", 3, func() string { return one(t, "hostname", drawnHosts) }),
		Matches: few(t, "matches", 2, func() wire.Match {
			return wire.Match{PathType: wire.PathType(rapid.IntRange(0, 1).Draw(t, "type")), Path: one(t, "path", drawnPaths), Method: one(t, "method", drawnMethods),
				Headers: drawConditions(t, "headers"), Query: drawConditions(t, "query")}
		}),
		Backends: few(t, "backends", 2, func() wire.Share { return wire.Share{Backend: one(t, "backend", drawnBackends), Weight: 1} }),
	}
}

func drawResource(t *rapid.T) wire.Resource {
	switch rapid.IntRange(0, 9).Draw(t, "what") {
	case 0:
		return wire.Resource{Name: one(t, "backend", drawnBackends), Backend: &wire.Backend{Protocol: one(t, "protocol", []string{"", "h2c", "bad"})}}
	case 1:
		return wire.Resource{Name: one(t, "endpoints", drawnBackends), Endpoints: &wire.Endpoints{}}
	case 2, 3:
		l := &wire.Listener{Object: drawObject(t), Section: one(t, "section", []string{"", "s"}), Port: uint16(rapid.IntRange(0, 6).Draw(t, "port")),
			Address: one(t, "address", []string{"", "", here.String()}), Hostname: one(t, "hostname", append([]string{""}, drawnHosts...)),
			TLS: rapid.Bool().Draw(t, "tls"), Certificates: []string{one(t, "certificate", []string{"c", "d"})}}
		l.Port = min(l.Port, 1)
		return wire.Resource{Name: one(t, "listener", drawnListeners), Listener: l}
	}
	return wire.Resource{Name: fmt.Sprint("r", rapid.IntRange(0, 12).Draw(t, "route")), Route: drawRoute(t)}
}

func drawRequest(t *rapid.T) *Request {
	hosts := []string{"a.com", "b.a.com", "c.b.a.com", "x.b.a.com", "com", "x.com", "org", "net"}
	r := &Request{Local: one(t, "local", []netip.Addr{here, here.Next()}), Port: 1, TLS: rapid.Bool().Draw(t, "tls"),
		Host: one(t, "host", hosts), Method: one(t, "method", []string{"GET", "POST", "PUT"}), Path: one(t, "path", append([]string{"/ab", "/a/b/d", "//"}, drawnPaths...)),
		Header: values("n", one(t, "header", []string{"1", "2"})), Query: values("m", one(t, "parameter", []string{"1", "2"}))}
	if r.TLS && rapid.Bool().Draw(t, "other name") {
		r.ServerName = one(t, "name", hosts)
	}
	return r
}

// TestChangesAsFresh: after 200 random changes a table answers as one that is made at once of what it
// has, and as the plainest reading of the rules has it.
func TestChangesAsFresh(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		table := &Table{}
		for range 200 {
			table = change(t, table)
		}
		all := table.Resources()
		mixed := rapid.Permutation(all).Draw(t, "order")
		fresh := (&Table{}).Apply(Changes{Set: mixed})
		if len(fresh.Refused) > 0 {
			t.Fatalf("made at once, refused are %v", fresh.Refused)
		}
		if diff := gocmp.Diff(all, fresh.Table.Resources()); diff != "" {
			t.Fatal(diff)
		}
		if got, want := places(table), places(fresh.Table); got != want {
			t.Fatalf("%d places of paths, made at once %d", got, want)
		}
		for range 40 {
			request := drawRequest(t)
			got, want := said(table.Lookup(request)), plain(all, request)
			if again := said(fresh.Table.Lookup(request)); got != again || got != want {
				t.Fatalf("%+v: got %s, made at once %s, want %s", request, got, again, want)
			}
			x := table.Explain(request)
			if first := len(x.Considered) > 0 && x.Considered[0].Takes; said(x.Answer) != got || first != (x.Answer.Outcome == Found) ||
				first && (x.Considered[0].Match != x.Answer.Match || x.Considered[0].Why != "") {
				t.Fatalf("%+v: got %s, explained as %+v", request, got, x)
			}
		}
		if waiting := table.waiting.size; waiting > 13 {
			t.Fatalf("%d routes wait", waiting)
		}
	})
}

// places are how many of hosts and paths there are.
func places(t *Table) (n int) {
	var below func(paths) int
	below = func(p paths) int {
		n := 1
		if p.tree != nil {
			for _, next := range p.tree.below.all() {
				n += below(next)
			}
		}
		return n
	}
	for _, hosts := range t.hosts.all() {
		for _, p := range hosts.all() {
			n += below(p)
		}
	}
	return n
}

// change applies one change, and sees that it is there.
func change(t *rapid.T, table *Table) *Table {
	var c Changes
	if r := drawResource(t); rapid.IntRange(0, 3).Draw(t, "remove") == 0 {
		c.Removed = []string{wire.NameOf(r)}
	} else {
		c.Set = []wire.Resource{r}
	}
	result := table.Apply(c)
	has := func(r wire.Resource) bool {
		return slices.ContainsFunc(result.Table.Resources(), func(o wire.Resource) bool { return gocmp.Equal(o, r) })
	}
	for _, r := range c.Set {
		if has(r) == (len(result.Refused) == 1) {
			t.Fatalf("%s is there: %t, refused: %v", wire.NameOf(r), has(r), result.Refused)
		}
	}
	for _, name := range c.Removed {
		if kind, _, _ := wire.ParseName(name); kind >= wire.KindListener && slices.ContainsFunc(result.Table.Resources(), func(o wire.Resource) bool { return wire.NameOf(o) == name }) {
			t.Fatalf("%s is still there", name)
		}
	}
	return result.Table
}

// standsFor is how specific the hostname is for the host, negative where it does not stand for it.
func standsFor(hostname, host string, oneLabel bool) int {
	suffix, wild := strings.CutPrefix(hostname, "*")
	before, fits := strings.CutSuffix(host, suffix)
	switch {
	case hostname == "":
		return 0
	case !wild && hostname == host:
		return 1000
	case wild && fits && before != "" && !(oneLabel && strings.Contains(before, ".")):
		return len(hostname)
	}
	return -1
}

// plainListener goes through all listeners for the one of a name.
func plainListener(all []wire.Resource, r *Request, name string) *wire.Resource {
	own := slices.ContainsFunc(all, func(o wire.Resource) bool {
		return o.Listener != nil && o.Listener.Port == r.Port && o.Listener.TLS == r.TLS && o.Listener.Address == r.Local.String()
	})
	var best *wire.Resource
	for i := range all {
		l := all[i].Listener
		if l == nil || l.Port != r.Port || l.TLS != r.TLS || own != (l.Address == r.Local.String()) || !own && l.Address != "" || standsFor(l.Hostname, name, false) < 0 {
			continue
		}
		if best == nil {
			best = &all[i]
			continue
		}
		b := best.Listener
		if by := cmp.Or(standsFor(l.Hostname, name, false)-standsFor(b.Hostname, name, false), int(b.Object.Created-l.Object.Created),
			strings.Compare(b.Object.Namespace+"/"+b.Object.Name, l.Object.Namespace+"/"+l.Object.Name), strings.Compare(b.Section, l.Section)); by > 0 {
			best = &all[i]
		}
	}
	return best
}

// rated is a match that takes a request, with what it is rated by: the larger comes first.
type rated struct {
	say  string
	rate []int
	tie  string
}

// plain goes through all matches, without any of the table's structures.
func plain(all []wire.Resource, r *Request) string {
	l := plainListener(all, r, r.Host)
	if l == nil {
		return "- 404"
	}
	if r.TLS && r.ServerName != "" {
		to := plainListener(all, r, r.ServerName)
		if to != l && (to == nil || l.Listener.Section+to.Listener.Section != "" || !reflect.DeepEqual(l.Listener.Certificates, to.Listener.Certificates)) {
			return l.Name + " 421"
		}
	}
	best := rated{say: l.Name + " 404"}
	for i := range all {
		if route := all[i].Route; route != nil && slices.Contains(route.Listeners, l.Name) {
			for _, found := range rate(all[i].Name, route, r) {
				if by := slices.Compare(found.rate, best.rate); by > 0 || by == 0 && found.tie < best.tie {
					found.say = l.Name + " " + found.say
					best = found
				}
			}
		}
	}
	return best.say
}

func rate(name string, route *wire.Route, r *Request) (all []rated) {
	hostnames, matches := route.Hostnames, route.Matches
	if len(hostnames) == 0 {
		hostnames = []string{""}
	}
	if len(matches) == 0 {
		matches = []wire.Match{{Path: "/"}}
	}
	for _, hostname := range hostnames {
		specific := standsFor(hostname, r.Host, route.OneLabel)
		for i, m := range matches {
			path := len(strings.TrimSuffix(m.Path, "/"))
			fits := r.Path == strings.TrimSuffix(m.Path, "/") || strings.HasPrefix(r.Path, strings.TrimSuffix(m.Path, "/")+"/")
			if m.PathType == wire.Exact {
				path, fits = 1000, r.Path == m.Path
			}
			headers, hold := holding(m.Headers, r.Header)
			query, held := holding(m.Query, r.Query)
			if specific < 0 || !fits || m.Method != "" && m.Method != r.Method || !hold || !held {
				continue
			}
			say := name
			if len(route.Matches) > 0 {
				say += " " + m.Path
			}
			all = append(all, rated{say, []int{specific, path, min(1, len(m.Method)), headers, query, int(-route.Object.Created)},
				// A byte that is smaller than all in names ends them.
				fmt.Sprintf("%s/%s\x00%s\x00%03d\x00%s\x00%03d", route.Object.Namespace, route.Object.Name, route.Object.Kind, route.Rule, name, i)})
		}
	}
	return all
}

// holding is how many conditions there are, of each name the first, and whether all hold.
func holding(conditions []wire.NamedMatch, get func(string) (string, bool)) (n int, hold bool) {
	seen := map[string]bool{}
	hold = true
	for _, c := range conditions {
		if seen[c.Name] {
			continue
		}
		seen[c.Name] = true
		n++
		value, found := get(c.Name)
		// The only expression that is more than a text is "1|2".
		hold = hold && found && (value == c.Value || c.Regex && c.Value == "1|2" && (value == "1" || value == "2"))
	}
	return n, hold
}
