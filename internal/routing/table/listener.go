package table

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/wire"
)

// maxName bounds hostnames (RFC 1035, 2.3.4).
const maxName = 253

// Listener is one as it was told.
type Listener struct {
	*wire.Listener
	Name string
	// hash is that of its name.
	hash uint64
	at   entryPoint
	// rank is that of each certificate among those for one name: its place in the list, but for those before an empty name,
	// which come last.
	rank map[string]int
}

// entryPoint is where connections come in. Its zero address is any.
type entryPoint struct {
	address netip.Addr
	port    uint16
	tls     bool
}

// scope are the listeners at one entry point, by the key of their hostname. Of several with the same
// hostname the first serves: the oldest.
type scope struct{ names trie[[]*Listener] }

// find gives the listener for a name: that of the most specific hostname.
func (s *scope) find(name string) *Listener {
	if s == nil {
		return nil
	}
	for key, more := nameKey(name), true; more; key, more = wider(key) {
		if list, found := s.names.get(hashOf(key), key); found {
			return list[0]
		}
	}
	return nil
}

// nameKey is a host as it is looked up, empty for one that no hostname can be.
func nameKey(host string) string {
	host = strings.TrimSuffix(host, ".")
	if len(host) > maxName || strings.HasPrefix(host, ".") {
		return ""
	}
	return host
}

// hostKey is a hostname as it is looked up: "*.example.com" as ".example.com", which is a part of each
// name that it stands for.
func hostKey(hostname string) string { return strings.TrimPrefix(hostname, "*") }

// wider is the next key that stands for the same name, down to the empty one, which stands for all.
func wider(key string) (next string, more bool) {
	if key == "" {
		return "", false
	}
	if at := strings.IndexByte(key[1:], '.'); at >= 0 {
		return key[1+at:], true
	}
	return "", true
}

// checkHostname says why a hostname is none: labels, the first of which may be "*".
func checkHostname(hostname string) error {
	if len(hostname) > maxName {
		return fmt.Errorf("hostname %.40q… has %d bytes, more than %d", hostname, len(hostname), maxName)
	}
	for label := range strings.SplitSeq(strings.TrimPrefix(hostname, "*."), ".") {
		if label == "" || strings.Trim(label, "abcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
			return fmt.Errorf("hostname %q: label %q is empty or not of lower-case letters, digits and -", hostname, label)
		}
	}
	return nil
}

func newListener(name string, told *wire.Listener) (*Listener, error) {
	l := &Listener{Listener: told, Name: name, hash: hashOf(name), at: entryPoint{port: told.Port, tls: told.TLS}, rank: map[string]int{}}
	if told.Port == 0 {
		return nil, errors.New("it has no port")
	}
	if told.Address != "" {
		address, err := netip.ParseAddr(told.Address)
		if err != nil {
			return nil, err
		}
		l.at.address = address.Unmap()
	}
	if told.Hostname != "" {
		if err := checkHostname(told.Hostname); err != nil {
			return nil, err
		}
	}
	l.rankCertificates()
	return l, nil
}

func (l *Listener) rankCertificates() {
	defaults := slices.Index(l.Certificates, "")
	for i, name := range l.Certificates {
		if i < defaults {
			i += len(l.Certificates)
		}
		if before, twice := l.rank[name]; !twice || i < before {
			l.rank[name] = i
		}
	}
}

// before orders listeners of the same hostname: the oldest first, then by names.
func (l *Listener) before(o *Listener) int {
	return cmp.Or(
		cmp.Compare(l.Object.Created, o.Object.Created),
		cmp.Compare(l.Object.Namespace+"/"+l.Object.Name, o.Object.Namespace+"/"+o.Object.Name),
		cmp.Compare(l.Section, o.Section),
		cmp.Compare(l.Name, o.Name))
}

// sameTLS reports whether a request may come in at the one on a connection made to the other: both are of
// an Ingress class and present the same certificates. Listeners of a Gateway are told apart always, as
// its documentation of hostnames says (Gateway API v1.6, Listener).
func (l *Listener) sameTLS(o *Listener) bool {
	return o != nil && l.Section == "" && o.Section == "" && slices.Equal(l.Certificates, o.Certificates)
}

// certificate is one with its key.
type certificate struct {
	told *wire.Certificate
	tls  *tls.Certificate
	// keys are those of the names that it is for.
	keys []string
}

func newCertificate(told *wire.Certificate) (*certificate, error) {
	pair, err := tls.X509KeyPair(told.Chain, told.Key)
	if err != nil {
		return nil, err
	}
	if pair.Leaf == nil {
		if pair.Leaf, err = x509.ParseCertificate(pair.Certificate[0]); err != nil {
			return nil, err
		}
	}
	c := &certificate{told: told, tls: &pair}
	for _, name := range pair.Leaf.DNSNames {
		c.keys = append(c.keys, hostKey(strings.ToLower(name)))
	}
	slices.Sort(c.keys)
	c.keys = slices.Compact(c.keys)
	return c, nil
}

// Certificate gives what a TLS connection to that address is presented, nil for an alert instead. The
// name is what the client asks for (SNI), lower-case, empty where it asks for none. Of the certificates
// of the listener for that name it is the first that is for the name, an exact name before a wildcard,
// or else the first that is there, before an empty name: that says that none is presented instead.
func (t *Table) Certificate(local netip.Addr, port uint16, name string) *tls.Certificate {
	l := t.scope(local, port, true).find(name)
	if l == nil {
		return nil
	}
	name = nameKey(name)
	if c := t.certificateFor(l, name); c != nil {
		return c
	}
	// A wildcard of a certificate stands for one label (RFC 6125, 6.4.3).
	if key, _ := wider(name); key != "" {
		if c := t.certificateFor(l, key); c != nil {
			return c
		}
	}
	for _, of := range l.Certificates {
		if of == "" {
			break
		}
		if c, found := t.certificates.get(hashOf(of), of); found {
			return c.tls
		}
	}
	return nil
}

// certificateFor is the listener's first certificate that is for the key of a name.
func (t *Table) certificateFor(l *Listener, key string) *tls.Certificate {
	names, _ := t.named.get(hashOf(key), key)
	first, of := -1, ""
	for _, name := range names {
		if rank, found := l.rank[name]; found && (first < 0 || rank < first) {
			first, of = rank, name
		}
	}
	if first < 0 {
		return nil
	}
	c, _ := t.certificates.get(hashOf(of), of)
	return c.tls
}
