package routing

import (
	"fmt"
	"slices"
	"strings"

	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/wire"
	"k8s.io/apimachinery/pkg/types"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

// parent is a parentRef that names a Gateway of ours.
type parent struct {
	ref     gatewayv1.ParentReference
	gateway *gateway
	// listeners are those to which the route attaches, and refusal why there are none.
	listeners []*gatewayListener
	refusal   Condition
}

// served is where an HTTPRoute is: its parents that are ours, and a site for each IngressDaemonSet of theirs.
type served struct {
	object  wire.Object
	parents []*parent
	at      map[types.NamespacedName]*site
}

// site is where it is served by the proxies of an IngressDaemonSet.
type site struct {
	// listeners are the names of those, hostnames what of its hostnames they get requests for.
	listeners, hostnames []string
	// entries are how many a proxy has of it, one for each match, hostname and listener.
	entries int
}

func (v *view) compileAttached(k key) *outcome {
	object := read[gatewayv1.HTTPRoute](v, routeObject, k.namespaced())
	if object == nil {
		return nil
	}
	s := &served{objectOf(object), v.parents(object), map[types.NamespacedName]*site{}}
	for _, p := range s.parents {
		v.servedAt(object, p, s.at)
	}
	out := &outcome{value: s}
	for set, at := range s.at {
		at.listeners, at.hostnames = distinctNames(at.listeners), distinctNames(at.hostnames)
		at.entries = len(at.listeners) * max(1, len(at.hostnames)) * matchesOf(object)
		out.joins = append(out.joins, entriesOf(set, k.namespace))
	}
	slices.SortFunc(out.joins, compareKeys)
	return out
}

// servedAt adds the listeners of a parent.
func (v *view) servedAt(object *gatewayv1.HTTPRoute, p *parent, at map[types.NamespacedName]*site) {
	if v.unassigned(p.gateway).Reason != "" {
		return
	}
	addresses := anyAddress
	if own := v.ownAddresses(p.gateway); len(own.all) > 0 {
		addresses = own.all
	}
	for _, l := range p.listeners {
		if !l.accepted() {
			continue
		}
		here := at[p.gateway.set]
		if here == nil {
			here = &site{}
			at[p.gateway.set] = here
		}
		for _, address := range addresses {
			here.listeners = append(here.listeners, p.gateway.listenerName(l.name, address))
		}
		here.hostnames = append(here.hostnames, intersecting(object.Spec.Hostnames, l.hostname)...)
	}
}

// matchesOf is how many matches all rules have: a rule without has one, and a route without rules a rule.
func matchesOf(object *gatewayv1.HTTPRoute) (n int) {
	for i := range object.Spec.Rules {
		n += max(1, len(object.Spec.Rules[i].Matches))
	}
	if object.Spec.Rules == nil {
		return 1
	}
	return n
}

// parents are a route's parents that are ours. Others say of theirs themselves.
func (v *view) parents(r *gatewayv1.HTTPRoute) (out []*parent) {
	for _, ref := range r.Spec.ParentRefs {
		if textOr(ref.Group, gatewayGroup) != gatewayGroup || textOr(ref.Kind, "Gateway") != "Gateway" {
			continue
		}
		n := types.NamespacedName{Namespace: textOr(ref.Namespace, r.Namespace), Name: string(ref.Name)}
		g := value[gateway](v, keyOf(gatewayUnit, n))
		if g == nil {
			continue
		}
		p := &parent{ref: ref, gateway: g}
		p.listeners, p.refusal = v.attach(r, p)
		out = append(out, p)
	}
	return out
}

// attach finds the listeners that a parentRef means, that let the route attach, and that have a
// hostname of its.
func (v *view) attach(r *gatewayv1.HTTPRoute, p *parent) ([]*gatewayListener, Condition) {
	meant := p.gateway.meant(p.ref)
	if len(meant) == 0 {
		return nil, Condition{Reason: "NoMatchingParent", Message: "no listener has that sectionName and port"}
	}
	var allowed, fitting []*gatewayListener
	for _, l := range meant {
		if v.mayAttach(p.gateway, l, r.Namespace) {
			allowed = append(allowed, l)
		}
	}
	if len(allowed) == 0 {
		return nil, Condition{Reason: "NotAllowedByListeners", Message: fmt.Sprintf("no listener lets HTTPRoutes of namespace %s attach", r.Namespace)}
	}
	for _, l := range allowed {
		if len(r.Spec.Hostnames) == 0 || len(intersecting(r.Spec.Hostnames, l.hostname)) > 0 {
			fitting = append(fitting, l)
		}
	}
	if len(fitting) == 0 {
		return nil, Condition{Reason: "NoMatchingListenerHostname", Message: "no listener has a hostname that the route's fit"}
	}
	return fitting, Condition{}
}

// meant are the listeners that a parentRef means, and that are accepted.
func (g *gateway) meant(ref gatewayv1.ParentReference) (out []*gatewayListener) {
	for _, l := range g.listeners {
		if (ref.SectionName == nil || string(*ref.SectionName) == l.name) && (ref.Port == nil || *ref.Port == int32(l.port)) && l.conflict.Reason == "" {
			out = append(out, l)
		}
	}
	return out
}

// intersecting are the hostnames for which a listener of a hostname gets requests.
func intersecting(hostnames []gatewayv1.Hostname, listener string) (out []string) {
	for _, in := range hostnames {
		if h := normalHost(string(in)); listener == "" || h == listener || covers(listener, h) || covers(h, listener) {
			out = append(out, h)
		}
	}
	return out
}

// covers reports whether all names of one hostname are names of a wildcard, which stands for one or more labels.
func covers(wildcard, hostname string) bool {
	return isWildcard(wildcard) && strings.HasSuffix(strings.TrimPrefix(hostname, "*"), wildcard[1:])
}
