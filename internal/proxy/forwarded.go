package proxy

import (
	"net/http"
	"net/netip"
	"strings"
)

// Names that tell endpoints of the client, in canonical form.
const (
	forwardedFor   = "X-Forwarded-For"
	forwardedHost  = "X-Forwarded-Host"
	forwardedPort  = "X-Forwarded-Port"
	forwardedProto = "X-Forwarded-Proto"
	realIP         = "X-Real-Ip"
)

// Values of X-Forwarded-Proto. Nobody changes them.
var protoHTTP, protoHTTPS = []string{"http"}, []string{"https"}

// forward tells the endpoint of the client: what a trusted peer said, and its address after the others
// that it named; of all other peers nothing that they said, but their address.
func (x *exchange) forward() {
	h, c := x.r.Header, x.client
	dropConnection(h)
	for name := range h {
		if tells, alias := isForwarded(name); tells && (alias || !c.trusted) {
			delete(h, name)
		}
	}
	proto := protoHTTP
	if x.asked.TLS {
		proto = protoHTTPS
	}
	if !c.trusted {
		h[forwardedFor], h[realIP] = c.peerField, c.peerField
		h[forwardedProto], h[forwardedPort], h[forwardedHost] = proto, c.portField, []string{x.r.Host}
		return
	}
	chain := h[forwardedFor]
	setIfMissing(h, realIP, []string{x.lastUntrusted(chain)})
	h[forwardedFor] = []string{strings.Join(append(chain[:len(chain):len(chain)], c.peerField...), ", ")}
	setIfMissing(h, forwardedProto, proto)
	setIfMissing(h, forwardedPort, c.portField)
	setIfMissing(h, forwardedHost, []string{x.r.Host})
}

func setIfMissing(h http.Header, name string, values []string) {
	if len(h[name]) == 0 {
		h[name] = values
	}
}

// lastUntrusted is the last address of a chain that is no trusted peer's, or else the peer's own.
func (x *exchange) lastUntrusted(chain []string) string {
	all := strings.Split(strings.Join(chain, ","), ",")
	for i := len(all) - 1; i >= 0; i-- {
		address, err := netip.ParseAddr(strings.TrimSpace(all[i]))
		if err != nil {
			break
		}
		if address = address.Unmap().WithZone(""); !x.p.options.trusts(address) {
			return address.String()
		}
	}
	return x.client.peerField[0]
}

// isForwarded reports whether a header tells of clients, and whether it is not one of that name, but one that
// a server may take for it because it takes "_" for "-".
func isForwarded(name string) (tells, alias bool) {
	if strings.IndexByte(name, '_') >= 0 {
		name, alias = dashed(name), true
	}
	return strings.HasPrefix(name, "X-Forwarded-") || name == realIP || name == "Forwarded", alias
}

// dashed is the name for which one with underscores may be taken.
func dashed(name string) string {
	return http.CanonicalHeaderKey(strings.ReplaceAll(name, "_", "-"))
}
