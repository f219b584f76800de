// Package table makes a table of what a proxy was told, and finds in it the route for a request, and
// why that one.
//
// Its files, in the order in which to open them:
//
//   - table.go: Table, and Lookup: from a request to its listener, and to its route.
//   - listener.go: listeners by address, port and hostname, and which certificate a handshake is presented.
//   - route.go: a route as candidates, and which of two comes first.
//   - paths.go: the candidates for one hostname, by path.
//   - apply.go: the table after a transaction. check.go: what of that this program cannot use. store.go: what others
//     name, and so stays for as long as they do.
//   - trie.go: a map of which the next one shares most with the last.
//   - explain.go: why that route. asked.go: a request as people write it down.
//   - contents.go, ports.go: what there is in a table.
//
// A Table does not change. Apply gives the next one, which shares with it all that stays: what one
// change costs does not grow with what there is beside.
package table

import (
	"net/netip"
	"strings"

	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/wire"
)

// Table is what a proxy was told and can use. The zero Table is empty.
type Table struct {
	routes trie[*Route]
	// waiting are routes that were refused because a backend was not there.
	waiting   trie[*wire.Route]
	listeners trie[*Listener]
	scopes    map[entryPoint]*scope
	// hosts are paths by listener and by key of hostname. A listener that is named by routes need not
	// be there.
	hosts        trie[trie[paths]]
	backends     store[*wire.Backend]
	endpoints    store[*wire.Endpoints]
	certificates store[*certificate]
	// named are certificates by keys of the names that they are for.
	named trie[[]string]
}

// Request is what of a request leads to its route.
type Request struct {
	// Local is the address at which the connection came in, zero for one that no listener has for itself, Port its port, TLS whether it began with a
	// handshake, and ServerName the name that was asked for in it, lower-case (SNI).
	Local      netip.Addr
	Port       uint16
	TLS        bool
	ServerName string
	// Host is lower-case and without port. Path is in normal form, see wire.NormalPath, without query.
	Host, Method, Path string
	// Header and Query give the value of a header, by its lower-case name, and of a parameter, and
	// whether there is one. Of several they give what is to be matched: the first, or all with commas.
	// They may be nil where there are none.
	Header, Query func(name string) (value string, found bool)

	// work is what expressions took so far.
	work int
}

// Outcome is what a Table says of a request.
type Outcome uint8

// Outcomes.
const (
	// NoListener: none is for the request's host, at its address.
	NoListener Outcome = iota
	// Misdirected: the connection was made to another listener than the request's host is of.
	Misdirected
	// TooLong: what has to be matched by expressions is too long for as many as there are, so that nobody knows which
	// route it takes.
	TooLong
	// NoRoute: none of the listener's takes the request.
	NoRoute
	// Found: there is a route.
	Found
)

// Status is that of the answer, 0 where the route says what is answered.
func (o Outcome) Status() int {
	switch o {
	case Found:
		return 0
	case Misdirected:
		return 421
	case TooLong:
		return 431
	}
	return 404
}

// Answer is which route a request takes.
type Answer struct {
	Outcome Outcome
	// Listener is that of the request's host, nil where there is none.
	Listener *Listener
	// Route and Match, which is one of the route's or stands for all requests, are not nil where one
	// was found.
	Route *Route
	Match *wire.Match
}

// Lookup gives the route for a request: of the listener with the most specific hostname, by hostname,
// an exact one before the longest wildcard, then by path, an exact one before the longest prefix, then
// by the criteria of Gateway API v1.6 (HTTPRouteRule, matches). It does not allocate.
func (t *Table) Lookup(r *Request) Answer {
	l, outcome := t.listenerOf(r)
	if outcome != Found {
		return Answer{Outcome: outcome, Listener: l}
	}
	r.work = 0
	c := t.candidate(l, r)
	switch {
	case r.work > maxWork:
		return Answer{Outcome: TooLong, Listener: l}
	case c != nil:
		return Answer{Found, l, c.route, c.match}
	}
	return Answer{Outcome: NoRoute, Listener: l}
}

// listenerOf is the listener of the request's host.
func (t *Table) listenerOf(r *Request) (*Listener, Outcome) {
	s := t.scope(r.Local, r.Port, r.TLS)
	l := s.find(r.Host)
	if l == nil {
		return nil, NoListener
	}
	// Whoever asked for no name was presented what there is for any, and chose no listener by it.
	if r.TLS && r.ServerName != "" && r.ServerName != r.Host {
		if to := s.find(r.ServerName); to != l && !l.sameTLS(to) {
			return l, Misdirected
		}
	}
	return l, Found
}

// scope is that of the address, or else of any: a Gateway with an address of its own shares that with
// nobody.
func (t *Table) scope(local netip.Addr, port uint16, tls bool) *scope {
	if s := t.scopes[entryPoint{local.Unmap(), port, tls}]; s != nil {
		return s
	}
	return t.scopes[entryPoint{port: port, tls: tls}]
}

func (t *Table) candidate(l *Listener, r *Request) *candidate {
	hosts, found := t.hosts.get(l.hash, l.Name)
	if !found || !strings.HasPrefix(r.Path, "/") {
		return nil
	}
	host := nameKey(r.Host)
	for key, more := host, true; more; key, more = wider(key) {
		if p := hosts.at(hashOf(key), key); p != nil {
			if c := p.find(r.Path, r, severalLabels(host, key)); c != nil {
				return c
			}
		}
	}
	return nil
}

// severalLabels reports whether the key is that of a wildcard, for more than one label of the host.
func severalLabels(host, key string) bool {
	return key != "" && strings.IndexByte(host[:len(host)-len(key)], '.') >= 0
}

// Backend gives a backend that a route of this table names, and its endpoints in the order of their
// addresses. It does not allocate.
func (t *Table) Backend(name string) (backend *wire.Backend, endpoints []wire.Endpoint, found bool) {
	hash := hashOf(name)
	backend, found = t.backends.get(hash, name)
	all, there := t.endpoints.get(hash, name)
	if !found || !there {
		return nil, nil, false
	}
	return backend, all.All, true
}

// Has reports whether there is a resource of that name on the stream (wire.NameOf), also where it was removed
// and is still named.
func (t *Table) Has(full string) (found bool) {
	kind, name, err := wire.ParseName(full)
	if err != nil {
		return false
	}
	hash := hashOf(name)
	switch kind {
	case wire.KindCertificate:
		_, found = t.certificates.get(hash, name)
	case wire.KindEndpoints:
		_, found = t.endpoints.get(hash, name)
	case wire.KindBackend:
		_, found = t.backends.get(hash, name)
	case wire.KindListener:
		_, found = t.listeners.get(hash, name)
	case wire.KindRoute:
		_, found = t.routes.get(hash, name)
	}
	return found
}
