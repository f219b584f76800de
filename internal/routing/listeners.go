package routing

import (
	"fmt"
	"slices"

	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/wire"
	"k8s.io/apimachinery/pkg/types"
)

// listenersOf is the unit of an IngressDaemonSet's listeners.
func listenersOf(set types.NamespacedName) key { return key{fact: listenersUnit}.in(set) }

// compileListeners has a port for HTTP and one for HTTPS, as long as an IngressClass names the
// IngressDaemonSet, and each Gateway's, where the port is not another's.
func (v *view) compileListeners(k key) *outcome {
	classes, gateways := v.members(k, classUnit), v.gateways(k)
	if len(classes)+len(gateways) == 0 {
		return nil
	}
	p := v.portsAmongAll(k.set)
	out := &outcome{value: p}
	if len(classes) > 0 {
		v.listenForIngresses(k, p, out)
	}
	for _, g := range gateways {
		own := v.ownAddresses(g)
		if own.problem.Reason != "" || p.lost[g.name()] != "" {
			continue
		}
		addresses := own.all
		if len(addresses) == 0 {
			addresses = anyAddress
		}
		g.without(p.unavailable[g.name()]).listen(k, addresses, out)
	}
	return out
}

// gateways are those of an IngressDaemonSet that have listeners, in their precedence.
func (v *view) gateways(k key) []*gateway {
	return slices.DeleteFunc(v.inPrecedence(v.members(k, gatewayUnit)), func(g *gateway) bool { return g.set != k.set })
}

func (v *view) inPrecedence(members []key) (out []*gateway) {
	for _, member := range members {
		if g := value[gateway](v, member); g != nil {
			out = append(out, g)
		}
	}
	slices.SortStableFunc(out, func(a, b *gateway) int { return comparePrecedence(a.object, b.object) })
	return out
}

// anyAddress is that of a Gateway which is reached at all addresses of a node.
var anyAddress = []string{""}

// listen tells proxies of a Gateway's listeners, at each of its addresses.
func (g *gateway) listen(k key, addresses []string, out *outcome) {
	for _, l := range g.listeners {
		if !l.accepted() {
			continue
		}
		var certificates []string
		for _, n := range l.certificates {
			certificates = append(certificates, n.String())
			out.joins = append(out.joins, certificateOf(k.set, n))
		}
		for _, address := range addresses {
			w := &wire.Listener{Object: g.object, Section: l.name, Address: address, Port: l.port, Hostname: l.hostname, TLS: l.https, Certificates: certificates}
			out.resources = append(out.resources, published(k.set, wire.Resource{Name: g.listenerName(l.name, address), Listener: w}))
		}
	}
}

func (g *gateway) listenerName(section, address string) string {
	name := "Gateway/" + g.name().String() + "/" + section
	if address != "" {
		name += "/" + address
	}
	return name
}

// Ingresses are served at these ports.
const (
	httpPort  = 80
	httpsPort = 443
)

// listenForIngresses presents certificates of older Ingresses first; before them goes the default one,
// or none, so that no Ingress's certificate is presented for a name that it does not fit.
func (v *view) listenForIngresses(k key, p *ports, out *outcome) {
	first := v.defaultCertificates(k, out)
	object := wire.Object{Kind: "IngressDaemonSet", Namespace: k.set.Namespace, Name: k.set.Name}
	certificates := append(first, v.certificates(k, out)...)
	for _, r := range []wire.Resource{
		{Name: httpListener(k.set), Listener: &wire.Listener{Object: object, Port: httpPort}},
		{Name: httpsListener(k.set), Listener: &wire.Listener{Object: object, Port: httpsPort, TLS: true, Certificates: certificates}},
	} {
		if p.ingresses[r.Listener.Port] == "" {
			out.resources = append(out.resources, published(k.set, r))
		}
	}
}

// defaultCertificates are the name of that which is presented where no other fits, and the empty one, so that none is
// where a proxy does not have that.
func (v *view) defaultCertificates(k key, out *outcome) []string {
	n := v.c.options.DefaultCertificate
	if n.Name == "" {
		return []string{""}
	}
	out.joins = append(out.joins, keyOf(wantedUnit, n))
	s := v.secret(n)
	out.waits = !s.answered
	if s.problem != "" {
		out.warnings = append(out.warnings, Event{Ref{"Secret", n.Namespace, n.Name}, ReasonInvalidCertificate, "the default certificate " + s.explained()})
	}
	out.joins = append(out.joins, certificateOf(k.set, n))
	return []string{n.String(), ""}
}

// roomForNames is how many bytes the names of the certificates of a listener may have: what else it has is short.
const roomForNames = wire.MaxResource - 64<<10

// room is shared by namespaces: each may take as much as it leaves, so that none takes all.
type room struct {
	left  int
	taken map[string]int
}

func (r *room) take(n types.NamespacedName) bool {
	// On the wire a name has a tag and its length before it.
	size := len(n.String()) + 4
	if r.taken[n.Namespace]+size > r.left-size {
		return false
	}
	r.taken[n.Namespace] += size
	r.left -= size
	return true
}

// certificates are the names of those of Ingresses. Of two for one host the older Ingress's is
// presented, and the other is told.
func (v *view) certificates(k key, out *outcome) (names []string) {
	owners, named := map[string]certificateOwner{}, map[types.NamespacedName]bool{}
	free := room{roomForNames, map[string]int{}}
	for _, in := range v.withCertificates(k) {
		for _, use := range in.certificates {
			if !named[use.secret] {
				if !free.take(use.secret) {
					out.warnings = append(out.warnings, Event{refTo(in.object), ReasonInvalidCertificate, fmt.Sprintf(
						"the certificate of Secret %s is not presented: older Ingresses of its namespace name too many", use.secret)})
					continue
				}
				named[use.secret] = true
				names = append(names, use.secret.String())
				out.joins = append(out.joins, certificateOf(k.set, use.secret))
			}
			for _, host := range use.hosts {
				owner, owned := owners[host]
				if !owned {
					owners[host] = certificateOwner{in.object, use.secret}
				} else if owner.secret != use.secret {
					out.warnings = append(out.warnings, Event{refTo(in.object), ReasonConflict, fmt.Sprintf(
						"the certificate for %q is that of Secret %s, which Ingress %s/%s names before", host, owner.secret, owner.object.Namespace, owner.object.Name)})
				}
			}
		}
	}
	return names
}

type certificateOwner struct {
	object wire.Object
	secret types.NamespacedName
}

func (v *view) withCertificates(k key) (out []*ingress) {
	for _, member := range v.members(k, ingressUnit) {
		if in := value[ingress](v, member); in != nil && in.set == k.set {
			out = append(out, in)
		}
	}
	slices.SortStableFunc(out, func(a, b *ingress) int {
		return comparePrecedence(a.object, b.object)
	})
	return out
}
