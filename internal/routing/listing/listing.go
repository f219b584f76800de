// Package listing says for people what a table has: its rules one by one, and which of them serves a request,
// and why. The proxy's console and the kubectl plugin show it.
package listing

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/table"
	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/wire"
)

// Statuses that a proxy answers by itself.
const (
	failed      = 500
	unavailable = 503
)

// Rule is one match of a route, for one of its hosts.
type Rule struct {
	// Host is "*" for any, Path that of requests, PathType Prefix or Exact.
	Host     string `json:"host"`
	Path     string `json:"path"`
	PathType string `json:"pathType"`
	// Method is empty for any. Headers and Query are what else is asked for, Filters what becomes of a request.
	Method  string   `json:"method,omitempty"`
	Headers []string `json:"headers,omitempty"`
	Query   []string `json:"query,omitempty"`
	Filters []string `json:"filters,omitempty"`
	// Object is where it comes from, Index which rule of it, and Name the rule's name, empty for none.
	Object    Object   `json:"object"`
	Index     uint32   `json:"rule"`
	Name      string   `json:"ruleName,omitempty"`
	Listeners []string `json:"listeners,omitempty"`
	Backends  []Share  `json:"backends,omitempty"`
	// Fallback is what is answered where no backend can be chosen, 0 where one can.
	Fallback uint16 `json:"fallback,omitempty"`
}

// Object is one of the API.
type Object struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
}

// String is its kind, namespace and name.
func (o Object) String() string { return o.Kind + " " + o.Namespace + "/" + o.Name }

// Share is a backend and its part of a rule's requests.
type Share struct {
	// Backend is empty where there is none that could serve.
	Backend string `json:"backend,omitempty"`
	// Weight is of the rule's total, and Percent what that comes to.
	Weight  uint32  `json:"weight"`
	Percent float64 `json:"percent"`
	// Ready, Terminating and Unknown are how many endpoints there are of each state.
	Ready       int `json:"ready"`
	Terminating int `json:"terminating,omitempty"`
	Unknown     int `json:"unknown,omitempty"`
	// Status is what it answers where nothing serves it, 0 where something does.
	Status uint16 `json:"status,omitempty"`
}

// Wanted is which rules are listed.
type Wanted struct {
	// Text is part of a host, a path, an object's or a backend's name, whatever its case, empty for all.
	Text string
	// Object reports whether the rules of an object are listed, nil for all.
	Object func(wire.Object) bool
	// From is how many are left out before the first, Most how many are listed, 0 for all.
	From, Most int
}

// place is a rule that is listed, before it is put into words.
type place struct {
	host  string
	route *table.Route
	match *wire.Match
	at    int
}

// Rules lists what is wanted, by host, path and precedence of objects, and tells how many there are.
func Rules(t *table.Table, w Wanted) (rules []Rule, all int) {
	places := find(t, w)
	slices.SortFunc(places, compare)
	all = len(places)
	places = places[min(max(w.From, 0), all):]
	if w.Most > 0 {
		places = places[:min(w.Most, len(places))]
	}
	for _, p := range places {
		rules = append(rules, ruleOf(t, p.host, p.route, p.match))
	}
	return rules, all
}

func find(t *table.Table, w Wanted) (out []place) {
	w.Text = strings.ToLower(w.Text)
	for r := range t.Routes() {
		if w.Object != nil && !w.Object(r.Object) {
			continue
		}
		byName := w.Text == "" || named(r, w.Text)
		for _, host := range hostsOf(r) {
			matches := r.Alternatives()
			for i := range matches {
				if byName || has(host, w.Text) || has(matches[i].Path, w.Text) {
					out = append(out, place{host, r, &matches[i], i})
				}
			}
		}
	}
	return out
}

// named reports whether the text is part of the name of the route's object, or of one of its backends.
func named(r *table.Route, text string) bool {
	return has(objectOf(r.Object).String(), text) ||
		slices.ContainsFunc(r.Backends, func(s wire.Share) bool { return has(s.Backend, text) })
}

// has reports whether a text has a part, which is lower-case, in any case.
func has(text, part string) bool { return strings.Contains(strings.ToLower(text), part) }

func hostsOf(r *table.Route) []string {
	if len(r.Hostnames) == 0 {
		return []string{"*"}
	}
	return r.Hostnames
}

func compare(a, b place) int {
	return cmp.Or(
		cmp.Compare(a.host, b.host), cmp.Compare(a.match.Path, b.match.Path), cmp.Compare(b.match.PathType, a.match.PathType),
		cmp.Compare(a.route.Object.Created, b.route.Object.Created), cmp.Compare(a.route.Object.Namespace, b.route.Object.Namespace),
		cmp.Compare(a.route.Object.Name, b.route.Object.Name), cmp.Compare(a.route.Rule, b.route.Rule),
		cmp.Compare(a.route.Name, b.route.Name), cmp.Compare(a.at, b.at),
	)
}

func ruleOf(t *table.Table, host string, r *table.Route, m *wire.Match) Rule {
	out := Rule{
		Host: host, Path: m.Path, PathType: "Prefix", Method: m.Method,
		Headers: conditions(m.Headers, ": "), Query: conditions(m.Query, "="), Filters: filters(r.Filters),
		Object: objectOf(r.Object), Index: r.Rule, Name: r.Named, Listeners: r.Listeners,
	}
	if m.PathType == wire.Exact {
		out.PathType = "Exact"
	}
	out.Backends, out.Fallback = shares(t, r)
	return out
}

func objectOf(o wire.Object) Object { return Object{o.Kind, o.Namespace, o.Name} }

func conditions(all []wire.NamedMatch, is string) (out []string) {
	for _, m := range all {
		if m.Regex {
			out = append(out, m.Name+is+"/"+m.Value+"/")
		} else {
			out = append(out, m.Name+is+m.Value)
		}
	}
	return out
}

func filters(all []wire.Filter) (out []string) {
	for _, f := range all {
		switch f.Kind {
		case wire.RequestHeaders:
			out = append(out, "changes headers of requests")
		case wire.ResponseHeaders:
			out = append(out, "changes headers of responses")
		case wire.Redirect:
			out = append(out, fmt.Sprintf("redirects with %d", f.URL.Status))
		case wire.Rewrite:
			out = append(out, "rewrites the URL")
		}
	}
	return out
}

// shares are those of a route, and what it answers where none has a weight.
func shares(t *table.Table, r *table.Route) (out []Share, fallback uint16) {
	var total uint64
	for _, s := range r.Backends {
		total += uint64(s.Weight)
	}
	for _, s := range r.Backends {
		one := Share{Backend: s.Backend, Weight: s.Weight, Status: s.Status}
		if total > 0 {
			one.Percent = float64(s.Weight) * 100 / float64(total)
		}
		if s.Backend != "" {
			_, endpoints, _ := t.Backend(s.Backend)
			one.count(endpoints)
			one.Status = 0
			if len(endpoints) == 0 {
				one.Status = unavailable
			}
		}
		out = append(out, one)
	}
	if total > 0 || redirects(r) {
		return out, 0
	}
	return out, cmp.Or(r.Fallback, failed)
}

func redirects(r *table.Route) bool {
	return slices.ContainsFunc(r.Filters, func(f wire.Filter) bool { return f.Kind == wire.Redirect })
}

func (s *Share) count(endpoints []wire.Endpoint) {
	for _, e := range endpoints {
		switch e.State {
		case wire.Ready:
			s.Ready++
		case wire.Terminating:
			s.Terminating++
		case wire.Unknown:
			s.Unknown++
		}
	}
}
