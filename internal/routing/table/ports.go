package table

import (
	"cmp"
	"net/netip"
	"slices"
)

// Ports are those at which there are listeners, each once, in order. It takes time in proportion to
// addresses and ports, not to listeners.
func (t *Table) Ports() []uint16 {
	var ports []uint16
	for at := range t.scopes {
		ports = append(ports, at.port)
	}
	slices.Sort(ports)
	return slices.Compact(ports)
}

// ListenersAt are those at a port, in the order of their names. It takes time in proportion to all listeners.
func (t *Table) ListenersAt(port uint16) (out []*Listener) {
	for _, l := range t.listeners.all() {
		if l.Port == port {
			out = append(out, l)
		}
	}
	slices.SortFunc(out, func(a, b *Listener) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// Speaks tells whether connections to that address and port begin with a handshake, and whether there is
// a listener for them at all. One for the address comes before one for any, and TLS before none.
func (t *Table) Speaks(local netip.Addr, port uint16) (tls, found bool) {
	for _, address := range [...]netip.Addr{local.Unmap(), {}} {
		for _, tls := range [...]bool{true, false} {
			if t.scopes[entryPoint{address, port, tls}] != nil {
				return tls, true
			}
		}
	}
	return false, false
}
