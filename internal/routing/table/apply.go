package table

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/wire"
)

// Changes are one transaction: what is new or changed, and names (wire.NameOf) of what is gone. What
// they hold must not be changed any more.
type Changes struct {
	Set     []wire.Resource
	Removed []string
}

// Result is what became of Changes.
type Result struct {
	Table *Table
	// Refused are those that cannot be used. What was there under their names stays.
	Refused []Refusal
	// Late are names of routes that were refused before with ErrMissing and are taken now.
	Late []string
}

// Refusal is a resource that cannot be used, by its name on the stream, and why.
type Refusal struct {
	Name string
	Err  error
}

// Apply gives the table after the changes. A resource that cannot be used is refused alone, all others
// apply. What is removed while a route or a listener names it stays until none does any more; names
// that are not known are passed over.
func (t *Table) Apply(c Changes) Result {
	next := *t
	e := edit{Table: &next}
	e.removeAll(c.Removed)
	var refused []Refusal
	for _, r := range c.Set {
		if r.Kind() == 0 || r.Name == "" {
			refused = append(refused, Refusal{wire.NameOf(r), errors.New("it has no name or is not of one kind")})
		}
	}
	for kind := wire.KindCertificate; kind <= wire.KindRoute; kind++ {
		for _, r := range c.Set {
			if r.Kind() != kind || r.Name == "" {
				continue
			}
			if err := e.set(r); err != nil {
				refused = append(refused, Refusal{wire.NameOf(r), err})
			}
		}
	}
	return Result{Table: &next, Refused: refused, Late: e.retry(t.waiting)}
}

// edit is a table on its way to the next. What it shares with the one before it does not change.
type edit struct {
	*Table
	// copied says whether the map of scopes is its own.
	copied bool
}

// removeAll removes what names others before what they name.
func (e *edit) removeAll(names []string) {
	for kind := wire.KindRoute; kind >= wire.KindCertificate; kind-- {
		for _, full := range names {
			if k, name, err := wire.ParseName(full); err == nil && k == kind {
				e.remove(kind, name)
			}
		}
	}
}

func (e *edit) remove(kind wire.Kind, name string) {
	switch kind {
	case wire.KindCertificate:
		e.changeCertificate(name, func() { e.certificates.remove(name) })
	case wire.KindEndpoints:
		e.endpoints.remove(name)
	case wire.KindBackend:
		e.backends.remove(name)
	case wire.KindListener:
		e.setListener(name, nil)
	case wire.KindRoute:
		e.waiting = e.waiting.without(hashOf(name), name)
		e.setRoute(name, nil)
	}
}

func (e *edit) set(r wire.Resource) error {
	switch r.Kind() {
	case wire.KindCertificate:
		c, err := newCertificate(r.Certificate)
		if err != nil {
			return err
		}
		e.changeCertificate(r.Name, func() { e.certificates.set(r.Name, c) })
	case wire.KindEndpoints:
		if err := checkEndpoints(r.Endpoints); err != nil {
			return err
		}
		e.endpoints.set(r.Name, r.Endpoints)
	case wire.KindBackend:
		if err := checkBackend(r.Backend); err != nil {
			return err
		}
		e.backends.set(r.Name, r.Backend)
	case wire.KindListener:
		l, err := newListener(r.Name, r.Listener)
		if err != nil {
			return err
		}
		e.setListener(r.Name, l)
	case wire.KindRoute:
		return e.takeRoute(r.Name, r.Route)
	}
	return nil
}

// takeRoute sets a route, unless it cannot be used. One whose backend is missing waits for it.
func (e *edit) takeRoute(name string, told *wire.Route) error {
	hash := hashOf(name)
	e.waiting = e.waiting.without(hash, name)
	r, err := newRoute(name, told)
	if err != nil {
		return err
	}
	if err := e.missing(r); err != nil {
		e.waiting = e.waiting.put(hash, name, told)
		return err
	}
	e.setRoute(name, r)
	return nil
}

// missing says which backend of the route is not there, or not yet with its endpoints: requests would
// be refused that before found no route.
func (e *edit) missing(r *Route) error {
	for _, name := range r.backends {
		switch {
		case !e.backends.has(name):
			return fmt.Errorf("backend %q is %w", name, ErrMissing)
		case !e.endpoints.has(name):
			return fmt.Errorf("the endpoints of backend %q are %w", name, ErrMissing)
		}
	}
	return nil
}

// retry takes those of the routes that waited whose backends came.
func (e *edit) retry(waited trie[*wire.Route]) []string {
	var late []string
	for name, told := range waited.all() {
		if now, still := e.waiting.get(hashOf(name), name); !still || now != told {
			continue
		}
		if e.takeRoute(name, told) == nil {
			late = append(late, wire.FullName(wire.KindRoute, name))
		}
	}
	slices.Sort(late)
	return late
}

// setRoute puts a route in the place of the one of that name, or none.
func (e *edit) setRoute(name string, r *Route) {
	hash := hashOf(name)
	old, _ := e.routes.get(hash, name)
	if old != nil {
		e.attach(old, paths.without)
	}
	if r == nil {
		e.routes = e.routes.without(hash, name)
	} else {
		e.attach(r, paths.with)
		e.routes = e.routes.put(hash, name, r)
	}
	e.useInstead(old, r)
}

// useInstead counts who names backends: the new before the old one, so that what both name stays.
func (e *edit) useInstead(old, r *Route) {
	if old != nil && r != nil && slices.Equal(old.backends, r.backends) {
		return
	}
	if r != nil {
		e.use(r.backends, 1)
	}
	if old != nil {
		e.use(old.backends, -1)
	}
}

func (e *edit) use(backends []string, by int) {
	for _, name := range backends {
		e.backends.use(name, by)
		e.endpoints.use(name, by)
	}
}

// attach has the paths in which the route's candidates are, or are to be, done with.
func (e *edit) attach(r *Route, do func(paths, *candidate) paths) {
	for _, listener := range r.listeners {
		hash := hashOf(listener)
		hosts, _ := e.hosts.get(hash, listener)
		for _, key := range r.hosts {
			at := hashOf(key)
			p, _ := hosts.get(at, key)
			for _, c := range r.candidates {
				p = do(p, c)
			}
			if p.isEmpty() {
				hosts = hosts.without(at, key)
			} else {
				hosts = hosts.put(at, key, p)
			}
		}
		if hosts.size == 0 {
			e.hosts = e.hosts.without(hash, listener)
		} else {
			e.hosts = e.hosts.put(hash, listener, hosts)
		}
	}
}

// setListener puts a listener in the place of the one of that name, or none.
func (e *edit) setListener(name string, l *Listener) {
	hash := hashOf(name)
	old, _ := e.listeners.get(hash, name)
	if old != nil {
		e.changeScope(old, func(list []*Listener) []*Listener { return without(list, slices.Index(list, old)) })
		e.listeners = e.listeners.without(hash, name)
	}
	if l != nil {
		e.changeScope(l, func(list []*Listener) []*Listener {
			at, _ := slices.BinarySearchFunc(list, l, (*Listener).before)
			return with(list, at, l)
		})
		e.listeners = e.listeners.put(hash, name, l)
		for _, certificate := range once(l.Certificates) {
			e.certificates.use(certificate, 1)
		}
	}
	if old != nil {
		e.unuseCertificates(old)
	}
}

// unuseCertificates lets those go that were removed and that no other listener names.
func (e *edit) unuseCertificates(l *Listener) {
	for _, name := range once(l.Certificates) {
		e.changeCertificate(name, func() { e.certificates.use(name, -1) })
	}
}

func (e *edit) changeScope(l *Listener, do func([]*Listener) []*Listener) {
	if !e.copied {
		e.copied = true
		if e.scopes = maps.Clone(e.scopes); e.scopes == nil {
			e.scopes = map[entryPoint]*scope{}
		}
	}
	var s scope
	if before := e.scopes[l.at]; before != nil {
		s = *before
	}
	key := hostKey(l.Hostname)
	hash := hashOf(key)
	list, _ := s.names.get(hash, key)
	if list = do(list); len(list) == 0 {
		s.names = s.names.without(hash, key)
	} else {
		s.names = s.names.put(hash, key, list)
	}
	if s.names.size == 0 {
		delete(e.scopes, l.at)
	} else {
		e.scopes[l.at] = &s
	}
}

// changeCertificate does something to a certificate, and keeps the index of names to it.
func (e *edit) changeCertificate(name string, do func()) {
	hash := hashOf(name)
	before, _ := e.certificates.get(hash, name)
	do()
	after, _ := e.certificates.get(hash, name)
	if before == after {
		return
	}
	if before != nil {
		for _, key := range before.keys {
			e.changeNamed(key, func(list []string) []string { return without(list, slices.Index(list, name)) })
		}
	}
	if after != nil {
		for _, key := range after.keys {
			e.changeNamed(key, func(list []string) []string {
				at, _ := slices.BinarySearch(list, name)
				return with(list, at, name)
			})
		}
	}
}

func (e *edit) changeNamed(key string, do func([]string) []string) {
	hash := hashOf(key)
	list, _ := e.named.get(hash, key)
	if list = do(list); len(list) == 0 {
		e.named = e.named.without(hash, key)
		return
	}
	e.named = e.named.put(hash, key, list)
}

// Resources are all that the table is made of, by kind and name: also what was removed and is still
// named. A table made of them answers as this one.
func (t *Table) Resources() []wire.Resource {
	var all []wire.Resource
	for name, h := range t.certificates.entries.all() {
		if h.there {
			all = append(all, wire.Resource{Name: name, Certificate: h.value.told})
		}
	}
	for name, h := range t.endpoints.entries.all() {
		if h.there {
			all = append(all, wire.Resource{Name: name, Endpoints: h.value})
		}
	}
	for name, h := range t.backends.entries.all() {
		if h.there {
			all = append(all, wire.Resource{Name: name, Backend: h.value})
		}
	}
	for name, l := range t.listeners.all() {
		all = append(all, wire.Resource{Name: name, Listener: l.Listener})
	}
	for name, r := range t.routes.all() {
		all = append(all, wire.Resource{Name: name, Route: &r.Route})
	}
	slices.SortFunc(all, func(a, b wire.Resource) int {
		return cmp.Or(cmp.Compare(a.Kind(), b.Kind()), cmp.Compare(a.Name, b.Name))
	})
	return all
}
