package routing

import (
	"fmt"
	"net/netip"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

// A Gateway has addresses of its own where the flag --gateway-addresses gives any: those that it asks for, or one
// that is assigned to it, which its status keeps. Without, it is reached at nodes, where each port is one Gateway's.
// A proxy tells Gateways apart by the address to which a connection was made.

// assignedUnits is the one unit that assigns addresses.
var assignedUnits = key{fact: assignmentUnit}

// addressWish is which addresses a Gateway asks for.
type addressWish struct {
	// named are those of spec.addresses, assigned says whether it is to be given one.
	named    []string
	assigned bool
	// kept are those that it was given before.
	kept []string
}

func (w addressWish) empty() bool { return len(w.named) == 0 && !w.assigned }

// addressWish reads what a Gateway asks for, or says what is not supported.
func (v *view) addressWish(object *gatewayv1.Gateway, set types.NamespacedName) (w addressWish, problem Condition) {
	ranges := v.c.options.GatewayAddresses
	for _, a := range object.Spec.Addresses {
		if kind := textOr((*string)(a.Type), string(gatewayv1.IPAddressType)); kind != string(gatewayv1.IPAddressType) {
			return addressWish{}, Condition{Reason: "UnsupportedAddress", Message: fmt.Sprintf("spec.addresses has one of type %s: IPAddress is supported", kind)}
		}
		if a.Value == "" {
			w.assigned = true
		} else {
			w.named = append(w.named, a.Value)
		}
	}
	w.assigned = w.assigned || len(object.Spec.Addresses) == 0 && len(ranges) > 0 && v.onHostNetwork(set)
	if w.assigned {
		for _, a := range object.Status.Addresses {
			w.kept = append(w.kept, a.Value)
		}
	}
	return w, Condition{}
}

// onHostNetwork reports whether the pods of an IngressDaemonSet see the addresses of their node.
func (v *view) onHostNetwork(set types.NamespacedName) bool {
	s := v.set(set)
	return s != nil && s.HostNetwork
}

// assignment is which Gateways have addresses of their own.
type assignment struct {
	of map[types.NamespacedName]*ownAddresses
}

// ownAddresses are those of a Gateway, in the order in which it names them, or why it has none.
type ownAddresses struct {
	all     []string
	problem Condition
}

// compileAssignment gives each Gateway what it names, before any is assigned: to those first that had one, and
// then to the oldest.
func (v *view) compileAssignment(k key) *outcome {
	gateways := v.inPrecedence(v.members(k, gatewayUnit))
	if len(gateways) == 0 {
		return nil
	}
	a := &assigning{view: v, owners: map[addressPort]string{}, taken: map[netip.Addr]bool{}, of: map[types.NamespacedName]*ownAddresses{}}
	for _, g := range gateways {
		a.name(g)
	}
	for _, kept := range []bool{true, false} {
		for _, g := range gateways {
			a.assign(g, kept)
		}
	}
	return &outcome{value: &assignment{a.of}}
}

// assigning is an assignment that is made.
type assigning struct {
	*view
	owners map[addressPort]string
	taken  map[netip.Addr]bool
	of     map[types.NamespacedName]*ownAddresses
}

type addressPort struct {
	address netip.Addr
	port    uint16
}

// name gives a Gateway the addresses that it names.
func (a *assigning) name(g *gateway) {
	own := &ownAddresses{}
	a.of[g.name()] = own
	for _, named := range g.wish.named {
		address, why := a.usable(g, named)
		if why != "" {
			own.problem = Condition{"Programmed", "False", "AddressNotUsable", why}
			return
		}
		own.all = append(own.all, address.String())
	}
	for _, named := range own.all {
		a.take(g, netip.MustParseAddr(named))
	}
}

// usable is an address, or why it is not one that the Gateway can have.
func (a *assigning) usable(g *gateway, named string) (address netip.Addr, why string) {
	address, err := netip.ParseAddr(named)
	address = address.Unmap()
	switch {
	case err != nil || !a.inRange(address):
		return address, fmt.Sprintf("address %s is not within those that Gateways may have", named)
	case !a.onHostNetwork(g.set):
		return address, fmt.Sprintf("pods of IngressDaemonSet %s are not on the host network, and cannot tell at which address of their node a connection came in", g.set)
	}
	for _, l := range g.listeners {
		if owner := a.owners[addressPort{address, l.port}]; l.accepted() && owner != "" {
			return address, fmt.Sprintf("port %d of address %s belongs to %s", l.port, named, owner)
		}
	}
	return address, ""
}

func (a *assigning) take(g *gateway, address netip.Addr) {
	a.taken[address] = true
	for _, l := range g.listeners {
		if l.accepted() {
			a.owners[addressPort{address, l.port}] = "Gateway " + g.name().String()
		}
	}
}

// assign gives a Gateway one that it had, or otherwise the first that nobody has.
func (a *assigning) assign(g *gateway, kept bool) {
	own := a.of[g.name()]
	if !g.wish.assigned || own.problem.Reason != "" || len(own.all) > len(g.wish.named) {
		return
	}
	give := func(address netip.Addr) {
		own.all = append(own.all, address.String())
		a.take(g, address)
	}
	if kept {
		for _, had := range g.wish.kept {
			if address, err := netip.ParseAddr(had); err == nil && a.inRange(address) && !a.taken[address] {
				give(address)
				return
			}
		}
		return
	}
	for _, r := range a.c.options.GatewayAddresses {
		for address := r.Masked().Addr(); r.Contains(address); address = address.Next() {
			if !a.taken[address] {
				give(address)
				return
			}
		}
	}
	own.problem = Condition{"Programmed", "False", "AddressNotAssigned", "all addresses that Gateways may have are taken"}
	if len(a.c.options.GatewayAddresses) == 0 {
		own.problem.Message = "no addresses are given that Gateways may have"
	}
}

func (a *assigning) inRange(address netip.Addr) bool {
	return slices.ContainsFunc(a.c.options.GatewayAddresses, func(r netip.Prefix) bool { return r.Contains(address) })
}

// compileGatewayAddress is what of the assignment is one Gateway's: who reads that is not compiled again because of
// others.
func (v *view) compileGatewayAddress(k key) *outcome {
	if value[gateway](v, keyOf(gatewayUnit, k.namespaced())) == nil {
		return nil
	}
	if a := value[assignment](v, assignedUnits); a != nil && a.of[k.namespaced()] != nil {
		return &outcome{value: a.of[k.namespaced()]}
	}
	return &outcome{value: &ownAddresses{}}
}

// ownAddresses are those of a Gateway, none where it is reached at nodes.
func (v *view) ownAddresses(g *gateway) ownAddresses {
	if own := value[ownAddresses](v, keyOf(gatewayAddressUnit, g.name())); own != nil {
		return *own
	}
	return ownAddresses{}
}
