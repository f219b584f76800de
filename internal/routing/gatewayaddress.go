package routing

import (
	"fmt"
	"hash/fnv"
	"iter"
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
	// had are those that its status has.
	had []string
}

func (w addressWish) empty() bool { return len(w.named) == 0 && !w.assigned }

// addressWish reads what a Gateway asks for, or says what is not supported.
func (v *view) addressWish(object *gatewayv1.Gateway, onHost bool) (w addressWish, problem Condition) {
	ranges := v.c.options.GatewayAddresses
	for _, a := range object.Spec.Addresses {
		if kind := textOr((*string)(a.Type), string(gatewayv1.IPAddressType)); kind != string(gatewayv1.IPAddressType) {
			return addressWish{}, Condition{Reason: "UnsupportedAddress", Message: fmt.Sprintf("spec.addresses has one of type %s: IPAddress is supported", kind)}
		}
		if a.Value == "" {
			w.assigned = true
			continue
		}
		// In one form, as statuses have it.
		if address, err := netip.ParseAddr(a.Value); err == nil {
			a.Value = address.Unmap().String()
		}
		w.named = append(w.named, a.Value)
	}
	w.assigned = w.assigned || len(object.Spec.Addresses) == 0 && len(ranges) > 0 && onHost
	if !w.empty() {
		for _, a := range object.Status.Addresses {
			w.had = append(w.had, a.Value)
		}
	}
	return w, Condition{}
}

// onHostNetwork reports whether the pods of an IngressDaemonSet see the addresses of their node. Where that is gone, an
// address of its own that the Gateway has says so.
func (v *view) onHostNetwork(object *gatewayv1.Gateway, set types.NamespacedName) bool {
	if s := v.set(set); s != nil {
		return s.HostNetwork
	}
	return slices.ContainsFunc(object.Status.Addresses, func(a gatewayv1.GatewayStatusAddress) bool {
		address, err := netip.ParseAddr(a.Value)
		return err == nil && v.inRange(address)
	})
}

func (v *view) inRange(address netip.Addr) bool {
	return slices.ContainsFunc(v.c.options.GatewayAddresses, func(r netip.Prefix) bool { return r.Contains(address) })
}

// assignment is which Gateways have addresses of their own.
type assignment struct {
	of map[types.NamespacedName]*ownAddresses
}

// ownAddresses are those of a Gateway, in the order in which it names them, or why it has none.
type ownAddresses struct {
	all     []string
	problem Condition
	// assigned is that of all which it does not name.
	assigned string
}

// compileAssignment has each Gateway keep the address that it was assigned, then gives each what it names, and then
// assigns others, to the oldest first. Nobody can name what another was assigned.
func (v *view) compileAssignment(k key) *outcome {
	gateways := v.inPrecedence(v.members(k, gatewayUnit))
	if len(gateways) == 0 {
		return nil
	}
	a := &assigning{
		view: v, owners: map[addressPort]string{}, taken: map[netip.Addr]bool{}, assigned: map[netip.Addr]string{},
		held: map[netip.Addr]bool{}, of: map[types.NamespacedName]*ownAddresses{},
	}
	for _, g := range gateways {
		a.of[g.name()] = &ownAddresses{}
		a.hold(g)
	}
	for _, round := range []func(*gateway){a.keep, a.name, a.assign} {
		for _, g := range gateways {
			round(g)
		}
	}
	return &outcome{value: &assignment{a.of}}
}

// assigning is an assignment that is made.
type assigning struct {
	*view
	owners map[addressPort]string
	// held are those that a Gateway names and has, taken those that any has, assigned those that one was assigned, and
	// which one.
	held, taken map[netip.Addr]bool
	assigned    map[netip.Addr]string
	of          map[types.NamespacedName]*ownAddresses
}

type addressPort struct {
	address netip.Addr
	port    uint16
}

// hold notes what a Gateway names and has.
func (a *assigning) hold(g *gateway) {
	for _, named := range g.wish.named {
		if address, err := netip.ParseAddr(named); err == nil && slices.Contains(g.wish.had, named) {
			a.held[address.Unmap()] = true
		}
	}
}

// keep has a Gateway that is to be assigned one keep which it has.
func (a *assigning) keep(g *gateway) {
	if !g.wish.assigned || !g.onHost {
		return
	}
	for _, had := range g.wish.had {
		address, err := netip.ParseAddr(had)
		if err == nil && a.inRange(address) && !a.taken[address] && !a.held[address] && !slices.Contains(g.wish.named, had) {
			a.give(g, address)
			return
		}
	}
}

func (a *assigning) give(g *gateway, address netip.Addr) {
	a.of[g.name()].assigned = address.String()
	a.assigned[address] = "Gateway " + g.name().String()
	a.take(g, address)
}

// name gives a Gateway the addresses that it names.
func (a *assigning) name(g *gateway) {
	own := a.of[g.name()]
	for _, named := range g.wish.named {
		address, why := a.usable(g, named)
		if why != "" {
			own.problem, own.all = Condition{"Programmed", "False", "AddressNotUsable", why}, nil
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
		return address, fmt.Sprintf("address %s is not within those that Gateways may have, see --gateway-addresses", named)
	case a.assigned[address] != "":
		return address, fmt.Sprintf("address %s was assigned to %s", named, a.assigned[address])
	case !g.onHost:
		return address, notOnHost(g)
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

// assign gives a Gateway one that nobody has, unless it kept one.
func (a *assigning) assign(g *gateway) {
	own := a.of[g.name()]
	if !g.wish.assigned || own.problem.Reason != "" {
		return
	}
	if own.assigned == "" {
		address, why := a.free(g)
		if why != "" {
			own.problem = Condition{"Programmed", "False", "AddressNotAssigned", why}
			return
		}
		a.give(g, address)
	}
	own.all = append(own.all, own.assigned)
}

// free is an address that nobody has, or why there is none.
func (a *assigning) free(g *gateway) (address netip.Addr, why string) {
	if len(a.c.options.GatewayAddresses) == 0 {
		return address, "no addresses are given that Gateways may have"
	}
	if !g.onHost {
		return address, notOnHost(g)
	}
	for _, r := range a.c.options.GatewayAddresses {
		for address := range from(r, g.name()) {
			if !a.taken[address] {
				return address, ""
			}
		}
	}
	return address, "all addresses that Gateways may have are taken"
}

// from are the addresses of a range, beginning with one that depends on who asks: who comes next has not at once the
// address of who has just gone, which names lead to for a while.
func from(r netip.Prefix, who types.NamespacedName) iter.Seq[netip.Addr] {
	return func(yield func(netip.Addr) bool) {
		hash := fnv.New32a()
		hash.Write([]byte(who.String()))
		first := r.Masked().Addr()
		begin := first
		// Of a range that is larger some are beginnings, one for each number.
		for range hash.Sum32() % (1 << min(first.BitLen()-r.Bits(), 10)) {
			begin = begin.Next()
		}
		for address := begin; r.Contains(address); address = address.Next() {
			if !yield(address) {
				return
			}
		}
		for address := first; address != begin; address = address.Next() {
			if !yield(address) {
				return
			}
		}
	}
}

func notOnHost(g *gateway) string {
	return fmt.Sprintf("pods of IngressDaemonSet %s are not on the host network, and cannot tell at which address of their node a connection came in", g.set)
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
