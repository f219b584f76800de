package proxy

import (
	"iter"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/mumoshu/ingress-daemonset-controller/internal/proxy/message"
	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/wire"
)

// fields are what a head is written to: upstream.Head or http.Header.
type fields interface{ Add(name, value string) }

// isHop reports whether a header, by its canonical name, is about one connection or the framing of a message:
// each side writes its own (RFC 9110, 7.6.1). Te and Trailer are passed on in part.
func isHop(name string) bool {
	switch name {
	case "Connection", "Content-Length", "Expect", "Host", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization",
		"Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade":
		return true
	}
	return false
}

// writeFields writes the request's fields for an endpoint.
func (x *exchange) writeFields(to fields) {
	h := x.r.Header
	for name, values := range h {
		if isHop(name) {
			continue
		}
		for _, value := range values {
			to.Add(name, value)
		}
	}
	if te := h["Te"]; te != nil && hasElement(te, "trailers") {
		to.Add("Te", "trailers")
	}
	if len(x.r.Trailer) > 0 && x.r.ContentLength < 0 {
		to.Add("Trailer", trailerNames(x.r.Trailer))
	}
}

// trimTrailer takes away what may not come after the request's body: of what is announced before the head is sent,
// and of what there is at the end.
func (x *exchange) trimTrailer() {
	maps.DeleteFunc(x.r.Trailer, func(name string, _ []string) bool { return !x.mayTrail(name) })
}

// mayTrail reports whether a field may come after the body. A server that takes it for one of the head is not to believe
// a stranger there what it would not be told in the head, or what a filter gives or takes away (RFC 9110, 6.5.1).
func (x *exchange) mayTrail(name string) bool {
	tells, _ := isForwarded(name)
	if tells || isHop(name) || name == "Authorization" || name == "Cookie" {
		return false
	}
	for _, filters := range [...][]wire.Filter{x.route.Filters, x.share.Filters} {
		if slices.ContainsFunc(filters, func(f wire.Filter) bool { return f.Kind == wire.RequestHeaders && concerns(f.Headers, dashed(name)) }) {
			return false
		}
	}
	return true
}

// dropConnection takes away the fields that are named as being about the connection, before routes and filters see
// them: what a filter gives to an endpoint nobody takes away. Those that tell of the client are written here, and
// those that are about framing are read by name.
func dropConnection(h http.Header) {
	for one := range elements(h["Connection"]) {
		name := http.CanonicalHeaderKey(one)
		if tells, _ := isForwarded(name); !tells && !isHop(name) {
			delete(h, name)
		}
	}
}

// hasElement reports whether one of the lists has an element, whatever its case.
func hasElement(lists []string, element string) bool {
	for one := range elements(lists) {
		if message.IsWord(one, element) {
			return true
		}
	}
	return false
}

// elements are those of lists.
func elements(lists []string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, list := range lists {
			for one := range strings.SplitSeq(list, ",") {
				if !yield(strings.Trim(one, " \t")) {
					return
				}
			}
		}
	}
}

func trailerNames(trailer http.Header) string {
	names := make([]string, 0, len(trailer))
	for name := range trailer {
		names = append(names, name)
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// asksFor is the protocol to which a client of HTTP/1.1 wants to change, empty for none and for one that
// is never passed on. A request with a body is not asked to change: what follows it would be in doubt.
func asksFor(r *http.Request) string {
	upgrade := r.Header["Upgrade"]
	if len(upgrade) != 1 || r.ProtoMajor != 1 || r.ProtoMinor != 1 || r.ContentLength != 0 || !hasElement(r.Header["Connection"], "upgrade") {
		return ""
	}
	name, version, versioned := strings.Cut(upgrade[0], "/")
	if !message.IsToken(name) || versioned && !message.IsToken(version) || strings.EqualFold(name, "h2c") || strings.EqualFold(name, "h2") {
		return ""
	}
	return upgrade[0]
}

// copyFields takes a response's fields over; values has room for those of all. Trailer is left where there may be one.
func copyFields(to http.Header, from []message.Field, trailer bool, values []string) {
	var connection []string
	for i := range from {
		if from[i].Name == "Connection" {
			connection = append(connection, from[i].Value)
		}
	}
	named := map[string]bool{}
	for one := range elements(connection) {
		named[http.CanonicalHeaderKey(one)] = true
	}
	for i, f := range from {
		if isHop(f.Name) && !(trailer && f.Name == "Trailer") || named[f.Name] {
			continue
		}
		f.AddTo(to, values[i:])
	}
}
