package routing

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/wire"
	"k8s.io/apimachinery/pkg/types"
)

// A proxy binds a port once, for all addresses of its node, also where a Gateway has addresses of its own. So of two
// IngressDaemonSets that meet on a node the older one has a port that both want, and the proxies of the other are not
// told of it. Among those who want a port of one IngressDaemonSet, its Ingresses and its Gateways that have no
// addresses of their own, the oldest has it.

// ReasonPortUnavailable: a port is not listened at, because another has it.
const ReasonPortUnavailable = "PortUnavailable"

// portsUnits is the one unit that says who has which port.
var portsUnits = key{fact: portsUnit}

// ports are those that who is served by an IngressDaemonSet does not have, and why.
type ports struct {
	// ingresses are those at which Ingresses are not served, unavailable those of a Gateway's listeners.
	ingresses   map[uint16]string
	unavailable map[types.NamespacedName]map[uint16]string
	// lost are Gateways that have no port of the nodes, because another has one of theirs.
	lost map[types.NamespacedName]string
}

// allPorts are those of each IngressDaemonSet.
type allPorts struct {
	of map[types.NamespacedName]*ports
}

// portsAmongAll are those of an IngressDaemonSet, for its listeners.
func (v *view) portsAmongAll(set types.NamespacedName) *ports {
	if all := value[allPorts](v, portsUnits); all != nil && all.of[set] != nil {
		return all.of[set]
	}
	return &ports{}
}

// ports are those of an IngressDaemonSet, for who is compiled after its listeners: what is another's changes nothing
// of theirs.
func (v *view) ports(set types.NamespacedName) *ports {
	if p := value[ports](v, listenersOf(set)); p != nil {
		return p
	}
	return &ports{}
}

// portWish is who wants ports of the proxies of an IngressDaemonSet.
type portWish struct {
	object wire.Object
	ports  []uint16
	// gateway is nil for Ingresses, for which the oldest of their classes stands.
	gateway *gateway
	// own says whether it wants them at addresses of its own alone.
	own bool
}

func (w *portWish) owner() string {
	return refTo(w.object).String()
}

// compilePorts lets one IngressDaemonSet after the other have ports, the oldest first. One that is gone meets no other.
func (v *view) compilePorts(k key) *outcome {
	wishes := v.portWishes(k)
	if len(wishes) == 0 {
		return nil
	}
	a := &allotting{v, map[types.NamespacedName]map[uint16]string{}, &allPorts{map[types.NamespacedName]*ports{}}}
	for _, s := range v.placedSets() {
		a.allot(s.name(), a.ofOthers(s), wishes[s.name()])
		delete(wishes, s.name())
	}
	for set, of := range wishes {
		a.allot(set, nil, of)
	}
	return &outcome{value: a.all}
}

// portWishes are those of each IngressDaemonSet's Ingresses and Gateways, in their precedence.
func (v *view) portWishes(k key) map[types.NamespacedName][]*portWish {
	out := map[types.NamespacedName][]*portWish{}
	for _, member := range v.members(k, classUnit) {
		c := value[class](v, member)
		if c == nil {
			continue
		}
		w := &portWish{object: c.object, ports: []uint16{httpPort, httpsPort}}
		if of := out[c.set]; len(of) == 0 {
			out[c.set] = []*portWish{w}
		} else if comparePrecedence(w.object, of[0].object) < 0 {
			of[0] = w
		}
	}
	for _, member := range v.members(k, gatewayUnit) {
		g := value[gateway](v, member)
		if g == nil {
			continue
		}
		own := v.ownAddresses(g)
		if own.problem.Reason != "" {
			continue
		}
		w := &portWish{object: g.object, gateway: g, own: len(own.all) > 0}
		for _, l := range g.listeners {
			if l.accepted() && !slices.Contains(w.ports, l.port) {
				w.ports = append(w.ports, l.port)
			}
		}
		out[g.set] = append(out[g.set], w)
	}
	for _, of := range out {
		slices.SortStableFunc(of, func(a, b *portWish) int { return comparePrecedence(a.object, b.object) })
	}
	return out
}

// allotting is who has which port, as far as that is decided.
type allotting struct {
	*view
	// owners are by IngressDaemonSet.
	owners map[types.NamespacedName]map[uint16]string
	all    *allPorts
}

// ofOthers are ports at which no proxy of an IngressDaemonSet is to listen, and why: those of its health checks, and,
// where it has pods, of others': a proxy would answer the load balancer in the place of the health checker.
func (a *allotting) ofOthers(s *placedSet) map[uint16]string {
	out := map[uint16]string{}
	note := func(port int32, format string, args ...any) {
		if out[uint16(port)] == "" {
			out[uint16(port)] = fmt.Sprintf("port %d ", port) + fmt.Sprintf(format, args...)
		}
	}
	for _, port := range s.checks {
		note(port, "answers the health checks of IngressDaemonSet %s", s.name())
	}
	older := true
	for _, o := range a.placedSets() {
		older = older && o != s
		node := a.meets(s.name(), o.name())
		if node == "" || !s.onHost {
			continue
		}
		for _, port := range o.checks {
			note(port, "answers the health checks of IngressDaemonSet %s, which has pods on nodes of IngressDaemonSet %s, such as %s", o.name(), s.name(), node)
		}
		if !older {
			continue
		}
		const whose = "belongs to %s of IngressDaemonSet %s, which is older than IngressDaemonSet %s and has pods on the same nodes, such as %s"
		for port, owner := range a.owners[o.name()] {
			if o.onHost {
				note(int32(port), whose, owner, o.name(), s.name(), node)
			}
		}
		for _, port := range o.own {
			note(port, whose, "the pods", o.name(), s.name(), node)
		}
	}
	return out
}

// allot gives ports of an IngressDaemonSet's proxies to those who want them, but for those of others.
func (a *allotting) allot(set types.NamespacedName, others map[uint16]string, wishes []*portWish) {
	own := &allotment{others: others, owners: map[uint16]string{}, atNodes: map[uint16]string{}}
	own.ports = &ports{map[uint16]string{}, map[types.NamespacedName]map[uint16]string{}, map[types.NamespacedName]string{}}
	for _, w := range wishes {
		if w.gateway == nil {
			own.giveIngresses(w)
		} else {
			own.giveGateway(w)
		}
	}
	a.owners[set], a.all.of[set] = own.owners, own.ports
}

// allotment is who has which port of an IngressDaemonSet's proxies.
type allotment struct {
	others map[uint16]string
	// owners are those at any addresses, atNodes those at all of a node's.
	owners, atNodes map[uint16]string
	ports           *ports
}

// giveIngresses gives them each port that nobody has.
func (a *allotment) giveIngresses(w *portWish) {
	for _, port := range w.ports {
		if why := cmp.Or(a.others[port], a.taken(port)); why != "" {
			a.ports.ingresses[port] = why
		} else {
			a.give(port, w)
		}
	}
}

// giveGateway gives it each port that is no other IngressDaemonSet's; at the nodes all of these or none.
func (a *allotment) giveGateway(w *portWish) {
	var left []uint16
	for _, port := range w.ports {
		why := a.others[port]
		if why == "" {
			left = append(left, port)
			continue
		}
		of := a.ports.unavailable[w.gateway.name()]
		if of == nil {
			of = map[uint16]string{}
			a.ports.unavailable[w.gateway.name()] = of
		}
		of[port] = why
	}
	for _, port := range left {
		if why := a.taken(port); why != "" && !w.own {
			a.ports.lost[w.gateway.name()] = why
			return
		}
	}
	for _, port := range left {
		a.give(port, w)
	}
}

func (a *allotment) taken(port uint16) (why string) {
	if owner := a.atNodes[port]; owner != "" {
		return fmt.Sprintf("port %d of the nodes belongs to %s", port, owner)
	}
	return ""
}

func (a *allotment) give(port uint16, w *portWish) {
	a.owners[port] = cmp.Or(a.owners[port], w.owner())
	if !w.own {
		a.atNodes[port] = w.owner()
	}
}

// without is the Gateway without its listeners at ports that are not to be had: they are not accepted.
func (g *gateway) without(unavailable map[uint16]string) *gateway {
	out := *g
	out.listeners = slices.Clone(g.listeners)
	for i, l := range g.listeners {
		if why := unavailable[l.port]; why != "" && l.accepted() {
			not := *l
			not.unserved = Condition{Reason: ReasonPortUnavailable, Message: why}
			out.listeners[i] = &not
		}
	}
	return &out
}

// withoutPorts are warnings of an Ingress that is not served at a port.
func (v *view) withoutPorts(in Ref, set types.NamespacedName) (out []Event) {
	lost := v.ports(set).ingresses
	for _, port := range []uint16{httpPort, httpsPort} {
		if lost[port] != "" {
			out = append(out, Event{in, ReasonPortUnavailable, lost[port] + ": it is not served there"})
		}
	}
	return out
}
