package table

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"unique"

	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/wire"
)

// maxPath bounds the paths of matches, in bytes, and so how deep paths go. Gateway API takes 1,024.
const maxPath = 4096

// maxWork bounds what the expressions that are tried for a request may take: instructions for each byte of a value. It is
// 20 expressions of 25 instructions on 4 KiB of cookies, or one of 500 on as much: some hundredths of a second of CPU.
const maxWork = 1 << 21

// ErrMissing is that of a route that names a backend which is not there, or whose endpoints are not. It
// is taken as soon as they come.
var ErrMissing = errors.New("not there")

// Route is one as it was told. What a request reads of it lies side by side.
type Route struct {
	wire.Route
	// Kept is for who serves the route: what it would else look up by name for each request. No Table looks at it.
	Kept atomic.Value
	// only has the one of the candidates, and share the one of Backends, where there is no other.
	only  [1]candidate
	share [1]wire.Share

	Name       string
	candidates []*candidate
	listeners  []string
	// hosts are keys of its hostnames, one that is empty where it has none.
	hosts []string
	// backends are those that it names, each once.
	backends []string
}

// candidate is a match of a route.
type candidate struct {
	route *Route
	match *wire.Match
	// at is its place among the route's.
	at int32
	// path is that of the match, of a prefix without the slash at its end; exact says whether it is none.
	exact          bool
	path           string
	method         string
	headers, query []condition
}

// condition is what a header or a parameter must be.
type condition struct {
	name, value string
	// regex is nil where the value must be the one given. It takes cost for each byte of a value.
	regex *regexp.Regexp
	cost  int
}

// holds reports whether a value is as it must be. None is for an expression that the request has no work left for.
func (c *condition) holds(r *Request, get func(string) (string, bool)) bool {
	if get == nil {
		return false
	}
	value, found := get(c.name)
	switch {
	case !found:
		return false
	case c.regex != nil:
		r.work += c.cost * (len(value) + 1)
		return r.work <= maxWork && c.regex.MatchString(value)
	}
	return value == c.value
}

// takes reports whether the request is as the candidate asks for, hostname and path aside, which led here.
// Several says whether the hostname's "*" stands for more than one label.
func (c *candidate) takes(r *Request, several bool) bool {
	if several && c.route.OneLabel || c.method != "" && c.method != r.Method {
		return false
	}
	for i := range c.headers {
		if !c.headers[i].holds(r, r.Header) {
			return false
		}
	}
	for i := range c.query {
		if !c.query[i].holds(r, r.Query) {
			return false
		}
	}
	return true
}

// criterion is one by which a candidate comes before another that takes the same request.
type criterion struct {
	// loses is what is said of the one that comes later.
	loses   string
	compare func(a, b *candidate) int
}

// precedence is that of candidates for the same hostname and the same path: criteria in the order of
// Gateway API v1.6 (HTTPRouteRule, matches), then what makes the order whole. Hostname and path come
// before all of them: paths.find goes by them.
var precedence = []criterion{
	{"the other names a method", func(a, b *candidate) int { return named(b) - named(a) }},
	{"the other has more conditions on headers", func(a, b *candidate) int { return len(b.headers) - len(a.headers) }},
	{"the other has more conditions on the query", func(a, b *candidate) int { return len(b.query) - len(a.query) }},
	{"the other is older", func(a, b *candidate) int { return cmp.Compare(a.route.Object.Created, b.route.Object.Created) }},
	{"the other is of the first object by namespace and name", func(a, b *candidate) int { return cmp.Compare(a.route.object(), b.route.object()) }},
	{"the other is of the first kind by name", func(a, b *candidate) int { return cmp.Compare(a.route.Object.Kind, b.route.Object.Kind) }},
	{"the other is an earlier rule", func(a, b *candidate) int { return cmp.Compare(a.route.Rule, b.route.Rule) }},
	{"the other is first by the name of the resource", func(a, b *candidate) int { return cmp.Compare(a.route.Name, b.route.Name) }},
	{"the other is an earlier match", func(a, b *candidate) int { return int(a.at - b.at) }},
}

func named(c *candidate) int {
	if c.method != "" {
		return 1
	}
	return 0
}

func compare(a, b *candidate) int {
	for i := range precedence {
		if by := precedence[i].compare(a, b); by != 0 {
			return by
		}
	}
	return 0
}

// newRoute reads a route, or says why it cannot be served as it is meant.
func newRoute(name string, told *wire.Route) (*Route, error) {
	r := &Route{Route: *told, Name: name, listeners: once(told.Listeners), hosts: []string{""}}
	if len(told.Backends) == len(r.share) {
		r.Backends = r.share[:copy(r.share[:], told.Backends)]
	}
	if len(told.Hostnames) > 0 {
		r.hosts = nil
	}
	for _, hostname := range once(told.Hostnames) {
		if err := checkHostname(hostname); err != nil {
			return nil, err
		}
		// Not as a part of the route's text: keys alone lie closer together, and each request compares one.
		r.hosts = append(r.hosts, strings.Clone(hostKey(hostname)))
	}
	matches := told.Alternatives()
	for i := range matches {
		c := &r.only[0]
		if len(matches) > 1 {
			c = new(candidate)
		}
		if err := c.read(r, i, &matches[i]); err != nil {
			return nil, fmt.Errorf("match %d: %w", i, err)
		}
		r.candidates = append(r.candidates, c)
	}
	if err := checkFilters(told.Filters); err != nil {
		return nil, err
	}
	if told.Fallback != 0 && !failure(told.Fallback) {
		return nil, fmt.Errorf("fallback %d is no status of a failure", told.Fallback)
	}
	return r, r.readShares()
}

func (r *Route) readShares() error {
	for _, share := range r.Backends {
		if err := checkFilters(share.Filters); err != nil {
			return fmt.Errorf("backend %q: %w", share.Backend, err)
		}
		switch {
		case share.Backend != "":
			r.backends = append(r.backends, share.Backend)
		case !failure(share.Status):
			return fmt.Errorf("a share without backend has %d, which is no status of a failure", share.Status)
		}
	}
	r.backends = once(r.backends)
	return nil
}

func failure(status uint16) bool { return status >= 400 && status <= 599 }

// object is its namespace/name.
func (r *Route) object() string { return r.Object.Namespace + "/" + r.Object.Name }

// once is the list without what it has twice.
func once(list []string) []string {
	if len(list) <= 1 {
		return list
	}
	var out []string
	seen := make(map[string]bool, len(list))
	for _, s := range list {
		if !seen[s] {
			seen[s] = true
			out = append(out, s)
		}
	}
	return out
}

// read makes it that of a match, or says why that cannot be served as it is meant.
func (c *candidate) read(r *Route, at int, m *wire.Match) error {
	if m.PathType != wire.Prefix && m.PathType != wire.Exact {
		return fmt.Errorf("path type %d is not known", m.PathType)
	}
	if len(m.Path) > maxPath {
		return fmt.Errorf("the path has %d bytes, more than %d", len(m.Path), maxPath)
	}
	normal, err := wire.NormalPath(m.Path)
	if err != nil {
		return fmt.Errorf("%q: %w", m.Path, err)
	}
	if normal != m.Path {
		return fmt.Errorf("path %q is not in its normal form, %q", m.Path, normal)
	}
	*c = candidate{route: r, match: m, at: int32(at), exact: m.PathType == wire.Exact, path: m.Path, method: m.Method}
	if !c.exact {
		c.path = prefixOf(m)
	}
	// Many hosts have the same paths.
	c.path = unique.Make(c.path).Value()
	if c.headers, err = conditions(m.Headers); err != nil {
		return fmt.Errorf("header %w", err)
	}
	if c.query, err = conditions(m.Query); err != nil {
		return fmt.Errorf("parameter %w", err)
	}
	return nil
}

// conditions reads those of a match. Of several on the same name the first counts.
func conditions(all []wire.NamedMatch) ([]condition, error) {
	var out []condition
	for _, m := range all {
		if slices.ContainsFunc(out, func(c condition) bool { return c.name == m.Name }) {
			continue
		}
		c := condition{name: m.Name, value: m.Value}
		if m.Regex {
			var err error
			if c.regex, c.cost, err = wire.CompileExpression(m.Value); err != nil {
				return nil, fmt.Errorf("%q: %w", m.Name, err)
			}
		}
		out = append(out, c)
	}
	return out, nil
}

// checkFilters refuses filters that this program does not know: a request must not pass as if there
// were none.
func checkFilters(filters []wire.Filter) error {
	for i, f := range filters {
		var known bool
		switch f.Kind {
		case wire.RequestHeaders, wire.ResponseHeaders:
			known = f.Headers != nil && f.URL == nil
		case wire.Redirect:
			known = f.Headers == nil && f.URL != nil && wire.IsRedirect(int(f.URL.Status))
		case wire.Rewrite:
			known = f.Headers == nil && f.URL != nil
		}
		if !known {
			return fmt.Errorf("filter %d, of kind %d, is not known or incomplete", i, f.Kind)
		}
		if f.URL != nil && f.URL.ReplacePath != nil && f.URL.ReplacePrefix != nil {
			return fmt.Errorf("filter %d replaces both the path and its prefix", i)
		}
	}
	return nil
}
