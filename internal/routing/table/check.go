package table

import (
	"fmt"
	"net/netip"

	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/wire"
)

// checkBackend refuses what this program could not speak.
func checkBackend(b *wire.Backend) error {
	switch b.Protocol {
	case "", "h2c", "ws":
		return nil
	}
	return fmt.Errorf("protocol %q is not known", b.Protocol)
}

func checkEndpoints(all *wire.Endpoints) error {
	for _, e := range all.All {
		if _, err := netip.ParseAddr(e.Address); err != nil {
			return err
		}
		if e.Port == 0 {
			return fmt.Errorf("endpoint %s has no port", e.Address)
		}
		if e.State > wire.Unknown {
			return fmt.Errorf("endpoint %s has state %d, which is not known", e.Address, e.State)
		}
	}
	return nil
}
