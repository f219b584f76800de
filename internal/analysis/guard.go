package analysis

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"syscall"
)

// special are addresses that names must not lead to: this machine's own, those of a link, such
// as that of a cloud's metadata, and of no single machine.
var special = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"), netip.MustParsePrefix("::/128"),
	netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128"),
	netip.MustParsePrefix("169.254.0.0/16"), netip.MustParsePrefix("fe80::/10"),
	netip.MustParsePrefix("224.0.0.0/4"), netip.MustParsePrefix("ff00::/8"), netip.MustParsePrefix("255.255.255.255/32"),
	// EC2's metadata by IPv6.
	netip.MustParsePrefix("fd00:ec2::254/128"),
}

// specialRange is the one of special that holds an address; ok is false where none does.
func specialRange(a netip.Addr) (in netip.Prefix, ok bool) {
	i := slices.IndexFunc(special, func(p netip.Prefix) bool { return p.Contains(a) })
	if i < 0 {
		return in, false
	}
	return special[i], true
}

// dial opens a connection.
type dial func(ctx context.Context, network, address string) (net.Conn, error)

// guarded checks what is dialled once names are resolved, whatever they were.
func (m *Measurer) guarded(forbidden map[netip.AddrPort]bool, kubelets []netip.AddrPort) dial {
	dialer := net.Dialer{Control: func(_, address string, _ syscall.RawConn) error {
		to, err := netip.ParseAddrPort(address)
		if err != nil {
			return err
		}
		at := to.Addr().Unmap().WithZone("")
		_, isSpecial := specialRange(at)
		to = netip.AddrPortFrom(at, to.Port())
		switch {
		case forbidden[to]:
			return fmt.Errorf("%s is the API server, which no check may ask", address)
		case slices.Contains(kubelets, to) && !m.Hosts.namePort(to.Port()):
			return fmt.Errorf("%s is a kubelet, which no check may ask unless --analysis-hosts names its port", address)
		case isSpecial && !m.Hosts.hold(at):
			return fmt.Errorf("no name may lead to %s", at)
		}
		return nil
	}}
	return dialer.DialContext
}
