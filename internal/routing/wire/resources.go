// Package wire has what the controller tells a proxy: resources, their canonical bytes, and the
// envelope in which a stream carries them (docs/adr/0026).
//
// Its files, in the order in which to open them:
//
//   - resources.go: Resource, which is one of five kinds.
//   - names.go: how a resource is named on a stream, and its version.
//   - path.go: the one form of a path, in which rules name it and requests are matched and sent. token.go: names of
//     methods, headers and cookies. expression.go: regular expressions, and what they may take.
//   - fields.go: the bytes of a resource, as a table of its fields. codec.go: how these are written and read.
//   - envelope.go: requests and responses of a stream. field.go: how messages of others are read.
//   - refusal.go: what a proxy cannot use, as a status says it.
package wire

// Kind is what a resource is.
type Kind uint8

// Kinds, in the order in which a transaction applies them: what is named comes before who names it.
const (
	KindCertificate Kind = iota + 1
	KindEndpoints
	KindBackend
	KindListener
	KindRoute
)

// Resource is one of its fields, the others are nil.
type Resource struct {
	// Name is unique among resources of its kind, see NameOf.
	Name        string
	Certificate *Certificate
	Endpoints   *Endpoints
	Backend     *Backend
	Listener    *Listener
	Route       *Route
}

// Object is where something comes from, for people and for precedence.
type Object struct {
	// Kind is Ingress, HTTPRoute, Gateway or Service, and IngressDaemonSet for what serves Ingresses.
	Kind, Namespace, Name string
	// Created is in seconds since 1970.
	Created int64
	// Generation is what of it was read.
	Generation int64
}

// Certificate is a chain and its key, as PEM. It is never logged nor shown.
type Certificate struct {
	Chain, Key []byte
}

// Listener is where requests come in: one for each hostname of a port.
type Listener struct {
	Object Object
	// Section is the listener's name in a Gateway, empty of an Ingress class.
	Section string
	// Address is the local address at which connections come in, empty for any.
	Address string
	Port    uint16
	// Hostname is empty for any, "*.example.com" for names of one or more labels before that.
	Hostname string
	// TLS says whether connections begin with a handshake, Certificates name what is presented: that which
	// fits the name a client asks for, the first that is there where none fits or none is asked for. With
	// an empty one before that such a handshake fails. Of those that fit a name as well the first is presented, but one
	// before an empty one only where there is no other.
	TLS          bool
	Certificates []string
}

// Route is one rule of one object.
type Route struct {
	Object Object
	// Rule is its index in the object, Named its name there, empty for none.
	Rule  uint32
	Named string
	// Listeners are names of those at which it serves, Hostnames those for which it does there: empty
	// for all of the listener's. A "*." stands for one or more labels, of an Ingress for one.
	Listeners []string
	Hostnames []string
	// OneLabel says whether a "*." of Hostnames stands for one label only (Ingress).
	OneLabel bool
	// Matches are alternatives; none matches all requests.
	Matches []Match
	Filters []Filter
	// Backends share requests by weight. Without any of a positive weight it answers 500 (503 for an
	// Ingress, see Fallback).
	Backends []Share
	// Fallback is the status where no backend can be chosen.
	Fallback uint16
	// Timeout bounds a whole request, BackendTimeout each try, in milliseconds; 0 is none.
	Timeout, BackendTimeout uint32
}

// everything are the alternatives of a route that has none.
var everything = []Match{{Path: "/"}}

// Alternatives are the matches of a route, one for all requests where it has none. They are not to be changed.
func (r *Route) Alternatives() []Match {
	if len(r.Matches) == 0 {
		return everything
	}
	return r.Matches
}

// PathType is how a path is matched.
type PathType uint8

// Path types. Prefix goes by element.
const (
	Prefix PathType = iota
	Exact
)

// Match is what a request must be like, in all of its parts.
type Match struct {
	PathType PathType
	// Path is in normal form, "/" for all where PathType is Prefix.
	Path string
	// Method is empty for any.
	Method  string
	Headers []NamedMatch
	Query   []NamedMatch
}

// NamedMatch is about a header, whose name is lower-case, or a parameter of the query.
type NamedMatch struct {
	Name, Value string
	// Regex says whether Value is an expression of RE2 that the whole value must match.
	Regex bool
}

// FilterKind is what a filter does.
type FilterKind uint8

// Filters, in the order in which they act.
const (
	RequestHeaders FilterKind = iota + 1
	ResponseHeaders
	Redirect
	Rewrite
)

// Filter is one of its fields.
type Filter struct {
	Kind    FilterKind
	Headers *HeaderFilter
	URL     *URLFilter
}

// HeaderFilter sets, adds and removes headers; names are lower-case.
type HeaderFilter struct {
	Set, Add []Header
	Remove   []string
}

// Header is a name and a value.
type Header struct{ Name, Value string }

// URLFilter changes the URL of a request, or of where it is redirected. What is empty stays.
type URLFilter struct {
	Scheme, Hostname string
	// Port is 0 for that which the scheme implies, or where that is not given, the listener's.
	Port uint16
	// ReplacePath is the whole new path, ReplacePrefix what stands for the prefix that matched; at most
	// one is not nil.
	ReplacePath, ReplacePrefix *string
	// Status is that of a redirect, see IsRedirect.
	Status uint16
}

// IsRedirect reports whether clients may be sent elsewhere by a status.
func IsRedirect(status int) bool {
	switch status {
	case 301, 302, 303, 307, 308:
		return true
	}
	return false
}

// Share is a backend and its part of the requests.
type Share struct {
	// Backend is the name of one, empty for one that cannot be resolved: its share is answered by Status.
	Backend string
	Weight  uint32
	// Status is what its share is answered by where Backend is empty.
	Status  uint16
	Filters []Filter
}

// Backend is a port of a Service and how its endpoints are used. Its endpoints have the same name.
type Backend struct {
	Service Object
	Port    uint16
	// Protocol is empty for HTTP/1.1, "h2c" for HTTP/2 without TLS, "ws" for WebSocket.
	Protocol string
	// Cookie is the name of the cookie by which requests stay with an endpoint, empty for none.
	Cookie string
	// MaxFails is after how many failures in a row an endpoint is left out, 0 for never, and FailTimeout
	// for how long, in milliseconds.
	MaxFails, FailTimeout uint32
}

// Endpoints are those of a backend, in the order of their addresses.
type Endpoints struct {
	All []Endpoint
}

// EndpointState says what an endpoint may get.
type EndpointState uint8

// States of endpoints.
const (
	// Ready gets requests.
	Ready EndpointState = iota
	// Terminating serves, but not for long. It gets requests only where none is ready, and none answers that is Unknown and
	// was ready.
	Terminating
	// Unknown may serve. It gets requests only where none is ready, and where the proxy never saw it ready, none that is
	// Terminating answers.
	Unknown
)

// Endpoint is a pod that serves.
type Endpoint struct {
	Address string
	Port    uint16
	// UID is that of the pod, by which connections to one of before at its address are told apart.
	UID   string
	Zone  string
	Node  string
	State EndpointState
}
