package console

import (
	"cmp"
	"crypto/x509"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/listing"
	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/table"
	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/wire"
)

// What of a proxy is shown at a time.
const (
	mostRules     = 100
	mostListed    = 100
	mostEndpoints = 1000
	// mostParts are conditions of a rule and names of a certificate, mostText bytes of each text.
	mostParts = 16
	mostText  = 500
)

// Process is one proxy of the node, in short.
type Process struct {
	// Key names it to other proxies, and in a query.
	Key     string    `json:"key"`
	Pod     string    `json:"pod"`
	Version string    `json:"version,omitempty"`
	Began   time.Time `json:"began,omitzero"`
	// Unready is why no requests are to come, empty where they may.
	Unready   string    `json:"unready,omitempty"`
	Connected bool      `json:"connected"`
	Since     time.Time `json:"since,omitzero"`
	Position  string    `json:"position,omitempty"`
	Refused   int       `json:"refused"`
	// Problem is why nothing of this is known, empty where it is.
	Problem string `json:"problem,omitempty"`
}

// View is what is shown of a proxy.
type View struct {
	Process
	Time         time.Time         `json:"time"`
	Answer       *listing.Answer   `json:"answer,omitempty"`
	NoAnswer     string            `json:"noAnswer,omitempty"`
	Unavailable  []Port            `json:"unavailable,omitempty"`
	Refusals     some[Refusal]     `json:"refusals"`
	Listeners    some[Listener]    `json:"listeners"`
	Certificates some[Certificate] `json:"certificates"`
	// Rules are those from From on, of All.
	Rules    []listing.Rule `json:"rules,omitempty"`
	From     int            `json:"from"`
	All      int            `json:"all"`
	Backends some[Backend]  `json:"backends"`
}

// some are the first of a list, and how many more there are.
type some[V any] struct {
	List []V `json:"list,omitempty"`
	More int `json:"more,omitempty"`
}

func firstOf[V any](all []V) some[V] {
	if len(all) <= mostListed {
		return some[V]{List: all}
	}
	return some[V]{all[:mostListed], len(all) - mostListed}
}

// Port is one that is not listened at.
type Port struct {
	Port uint16 `json:"port"`
	Why  string `json:"why"`
}

// Refusal is a resource that cannot be used.
type Refusal struct {
	Name string `json:"name"`
	Why  string `json:"why"`
}

// Listener is where requests come in.
type Listener struct {
	Name         string         `json:"name"`
	Object       listing.Object `json:"object"`
	Section      string         `json:"section,omitempty"`
	Address      string         `json:"address,omitempty"`
	Port         uint16         `json:"port"`
	Hostname     string         `json:"hostname,omitempty"`
	TLS          bool           `json:"tls"`
	Certificates []string       `json:"certificates,omitempty"`
}

// Certificate is what may be shown of one.
type Certificate struct {
	Name     string    `json:"name"`
	DNSNames []string  `json:"dnsNames"`
	From     time.Time `json:"notBefore"`
	Until    time.Time `json:"notAfter"`
	// Problem is what is wrong with it now, empty for nothing.
	Problem string `json:"problem,omitempty"`
}

// Backend is one that a listed rule names.
type Backend struct {
	Name        string        `json:"name"`
	Protocol    string        `json:"protocol"`
	Cookie      string        `json:"cookie,omitempty"`
	MaxFails    uint32        `json:"maxFails"`
	FailTimeout string        `json:"failTimeout"`
	Endpoints   []EndpointNow `json:"endpoints,omitempty"`
	More        int           `json:"more,omitempty"`
}

// EndpointNow is how an endpoint stands.
type EndpointNow struct {
	Address string `json:"address"`
	Port    uint16 `json:"port"`
	Node    string `json:"node,omitempty"`
	Zone    string `json:"zone,omitempty"`
	UID     string `json:"uid,omitempty"`
	// State is ready, leaving, unknown or left out. Why says it of the last two, and Until until when one is left out.
	State string    `json:"state"`
	Until time.Time `json:"until,omitzero"`
	Why   string    `json:"why,omitempty"`
	// Connections are nil where they are not known.
	Connections *int `json:"connections,omitempty"`
	Idle        int  `json:"idle"`
}

func (c *Console) process() Process {
	return c.processIn(c.options.State())
}

func (c *Console) processIn(s State) Process {
	return Process{
		Key: c.peers.Own, Pod: cut(c.options.Pod), Version: c.options.Version, Began: c.options.Began,
		Unready: cut(s.Unready), Connected: s.Connected, Since: s.Since, Position: cut(s.Position), Refused: len(s.Refused),
	}
}

// view is what is shown of this proxy.
func (c *Console) view(q query) View {
	state, t, now := c.options.State(), c.options.Table(), c.now()
	v := View{Process: c.processIn(state), Time: now, Certificates: firstOf(certificates(t, q.Text, now)), Listeners: firstOf(listeners(t))}
	for _, port := range slices.Sorted(maps.Keys(state.Unavailable)) {
		v.Unavailable = append(v.Unavailable, Port{port, cut(state.Unavailable[port])})
	}
	var refusals []Refusal
	for _, r := range state.Refused {
		refusals = append(refusals, Refusal{cut(r.Name), cut(r.Reason)})
	}
	v.Refusals = firstOf(refusals)
	v.Rules, v.All = listing.Rules(t, listing.Wanted{Text: q.Text, From: q.From, Most: mostRules})
	v.From = min(q.From, v.All)
	v.Backends = firstOf(c.backends(t, v.Rules))
	for i := range v.Rules {
		shorten(&v.Rules[i])
	}
	v.explain(t, q.Asked)
	return v
}

// explain answers the question, where there is one.
func (v *View) explain(t *table.Table, asked table.Asked) {
	if asked.Host == "" {
		return
	}
	answer, err := listing.Explain(t, asked)
	if err != nil {
		v.NoAnswer = cut(err.Error())
		return
	}
	answer.Request, answer.Why = cut(answer.Request), cut(answer.Why)
	if answer.Rule != nil {
		shorten(answer.Rule)
	}
	for i := range answer.Others {
		shorten(&answer.Others[i].Rule)
		answer.Others[i].Why = cut(answer.Others[i].Why)
	}
	v.Answer = answer
}

// backends are those that rules name, each once.
func (c *Console) backends(t *table.Table, rules []listing.Rule) (out []Backend) {
	left, seen := mostEndpoints, map[string]bool{}
	for _, rule := range rules {
		for _, share := range rule.Backends {
			told, _, found := t.Backend(share.Backend)
			if !found || seen[share.Backend] {
				continue
			}
			seen[share.Backend] = true
			b := Backend{Name: cut(share.Backend), Protocol: cmp.Or(told.Protocol, "http/1.1"), Cookie: cut(told.Cookie), MaxFails: told.MaxFails,
				FailTimeout: (time.Duration(told.FailTimeout) * time.Millisecond).String()}
			endpoints, all := c.options.Endpoints(share.Backend, left)
			for _, e := range endpoints {
				b.Endpoints = append(b.Endpoints, endpointNow(e))
			}
			left -= len(endpoints)
			b.More = all - len(endpoints)
			out = append(out, b)
		}
	}
	return out
}

func endpointNow(e Endpoint) EndpointNow {
	now := EndpointNow{Address: e.Address, Port: e.Port, Node: cut(e.Node), Zone: cut(e.Zone), UID: cut(e.UID), State: "ready", Idle: e.Idle}
	if e.Open >= 0 {
		now.Connections = &e.Open
	}
	switch {
	case !e.Out.IsZero():
		now.State, now.Until, now.Why = "left out", e.Out, cut(e.Failed)
	case e.State == wire.Terminating:
		now.State = "leaving"
	case e.State == wire.Unknown:
		now.State, now.Why = "unknown", "its node is not heard, or was not a minute ago"
	}
	return now
}

func listeners(t *table.Table) (out []Listener) {
	for l := range t.Listeners() {
		out = append(out, Listener{
			Name: cut(l.Name), Object: listing.Object{Kind: l.Object.Kind, Namespace: l.Object.Namespace, Name: l.Object.Name}, Section: l.Section,
			Address: l.Address, Port: l.Port, Hostname: l.Hostname, TLS: l.TLS, Certificates: few(l.Certificates),
		})
	}
	slices.SortFunc(out, func(a, b Listener) int { return cmp.Or(cmp.Compare(a.Port, b.Port), cmp.Compare(a.Name, b.Name)) })
	return out
}

// certificates are those of which a name has the text, whatever its case, whichever expires first.
func certificates(t *table.Table, text string, now time.Time) (out []Certificate) {
	has := func(name string) bool { return strings.Contains(strings.ToLower(name), text) }
	text = strings.ToLower(text)
	for name, leaf := range t.Certificates() {
		if !has(name) && !slices.ContainsFunc(leaf.DNSNames, has) {
			continue
		}
		out = append(out, certificateOf(name, leaf, now))
	}
	slices.SortFunc(out, func(a, b Certificate) int { return cmp.Or(a.Until.Compare(b.Until), cmp.Compare(a.Name, b.Name)) })
	return out
}

func certificateOf(name string, leaf *x509.Certificate, now time.Time) Certificate {
	c := Certificate{Name: cut(name), DNSNames: few(leaf.DNSNames), From: leaf.NotBefore, Until: leaf.NotAfter}
	switch {
	case now.After(leaf.NotAfter):
		c.Problem = "expired"
	case now.Before(leaf.NotBefore):
		c.Problem = "not valid yet"
	}
	return c
}

// shorten bounds what is shown of a rule.
func shorten(r *listing.Rule) {
	r.Host, r.Path, r.Method, r.Name = cut(r.Host), cut(r.Path), cut(r.Method), cut(r.Name)
	r.Headers, r.Query, r.Filters, r.Listeners = few(r.Headers), few(r.Query), few(r.Filters), few(r.Listeners)
	r.Backends = r.Backends[:min(len(r.Backends), mostParts)]
}

// few are the first of a list, each cut, and a mark where there are more.
func few(all []string) (out []string) {
	for _, text := range all[:min(len(all), mostParts)] {
		out = append(out, cut(text))
	}
	if len(all) > mostParts {
		out = append(out, "…")
	}
	return out
}

// cut is a text of mostText bytes at most, and a mark where there was more.
func cut(text string) string {
	if len(text) <= mostText {
		return text
	}
	end := mostText
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + "…"
}
