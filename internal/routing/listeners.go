package routing

import (
	"fmt"
	"slices"

	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/wire"
	"k8s.io/apimachinery/pkg/types"
)

// listenersOf is the unit of an IngressDaemonSet's listeners for Ingresses.
func listenersOf(set types.NamespacedName) key { return key{fact: listenersUnit}.in(set) }

// compileListeners has a port for HTTP and one for HTTPS, as long as an IngressClass names the
// IngressDaemonSet. Certificates of older Ingresses go first; before them goes the default one, or none,
// so that no Ingress's certificate is presented for a name that it does not fit.
func (v *view) compileListeners(k key) *outcome {
	if len(v.members(k, classUnit)) == 0 {
		return nil
	}
	out := &outcome{}
	first := v.defaultCertificate(k, out)
	object := wire.Object{Kind: "IngressDaemonSet", Namespace: k.set.Namespace, Name: k.set.Name}
	certificates := append([]string{first}, v.certificates(k, out)...)
	out.resources = []publication{
		published(k.set, wire.Resource{Name: httpListener(k.set), Listener: &wire.Listener{Object: object, Port: v.c.options.HTTPPort}}),
		published(k.set, wire.Resource{Name: httpsListener(k.set), Listener: &wire.Listener{
			Object: object, Port: v.c.options.HTTPSPort, TLS: true, Certificates: certificates,
		}}),
	}
	return out
}

// defaultCertificate is the name of that which is presented where no other fits, empty for none.
func (v *view) defaultCertificate(k key, out *outcome) string {
	n := v.c.options.DefaultCertificate
	if n.Name == "" {
		return ""
	}
	out.joins = append(out.joins, keyOf(wantedUnit, n))
	s := v.secret(n)
	out.waits = !s.answered
	if s.problem != "" {
		out.warnings = append(out.warnings, Event{Ref{"Secret", n.Namespace, n.Name}, ReasonInvalidCertificate, "the default certificate " + s.serves()})
	}
	if s.good == nil {
		return ""
	}
	out.joins = append(out.joins, certificateOf(k.set, n))
	return n.String()
}

// certificates are the names of those of Ingresses. Of two for one host the older Ingress's is
// presented, and the other is told.
func (v *view) certificates(k key, out *outcome) (names []string) {
	owners := map[string]certificateOwner{}
	for _, in := range v.withCertificates(k) {
		for _, use := range in.certificates {
			if name := use.secret.String(); !slices.Contains(names, name) {
				names = append(names, name)
				out.joins = append(out.joins, certificateOf(k.set, use.secret))
			}
			for _, host := range use.hosts {
				owner, owned := owners[host]
				if !owned {
					owners[host] = certificateOwner{in.object, use.secret}
				} else if owner.secret != use.secret {
					out.warnings = append(out.warnings, Event{ingressRef(in.object), ReasonConflict, fmt.Sprintf(
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
