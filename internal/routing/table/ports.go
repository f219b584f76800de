package table

import (
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

// Speaks tells whether connections to that address and port begin with a handshake, and whether there is
// a listener for them at all. One for the address comes before one for any, and TLS before none.
func (t *Table) Speaks(local netip.Addr, port uint16) (tls, found bool) {
	for _, address := range [...]netip.Addr{local.Unmap(), {}} {
		for _, tls := range [...]bool{true, false} {
			if t.scopes[endpoint{address, port, tls}] != nil {
				return tls, true
			}
		}
	}
	return false, false
}
