package analysis

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/mumoshu/ingress-daemonset-controller/internal/rollout"
	"k8s.io/apimachinery/pkg/util/validation"
)

// Hosts are what the operator lets every check reach beside what it reaches anyway.
type Hosts []host

// host is a name, all names in a domain, or addresses; at one port, or at all.
type host struct {
	name   string // "*.example.com" for those in a domain, empty for addresses
	prefix netip.Prefix
	port   uint16 // 0 for all
}

// ParseHosts reads entries, each of them a name (prometheus.monitoring), the names in a
// domain (*.example.com), an address or a range of such (192.0.2.0/24), and a port behind it
// where only that one is meant ([2001:db8::]:9090).
func ParseHosts(entries []string) (Hosts, error) {
	var hosts Hosts
	for _, entry := range entries {
		h, err := parseHost(entry)
		if err != nil {
			return nil, fmt.Errorf("%q is no host: %w", entry, err)
		}
		hosts = append(hosts, h)
	}
	return hosts, nil
}

func parseHost(entry string) (h host, err error) {
	name, port, ported := cutPort(entry)
	if ported {
		number, err := strconv.ParseUint(port, 10, 16)
		if err != nil || number == 0 {
			return h, fmt.Errorf("its port is to be from 1 to 65535, not %q", port)
		}
		h.port = uint16(number)
	}
	if h.prefix, err = parsePrefix(name); err == nil {
		return h, nil
	}
	h.name = plainName(name)
	if wrong := validation.IsDNS1123Subdomain(strings.TrimPrefix(h.name, "*.")); len(wrong) > 0 {
		return h, fmt.Errorf("it is neither an address nor a name: %s", wrong[0])
	}
	return h, nil
}

// cutPort cuts the port off, which stands behind the only colon, or behind a bracket.
func cutPort(entry string) (name, port string, ok bool) {
	if bracketed, ok := strings.CutPrefix(entry, "["); ok {
		name, rest, closed := strings.Cut(bracketed, "]")
		port, ported := strings.CutPrefix(rest, ":")
		if closed && (ported || rest == "") {
			return name, port, ported
		}
		return entry, "", false
	}
	if strings.Count(entry, ":") > 1 {
		return entry, "", false
	}
	return strings.Cut(entry, ":")
}

func parsePrefix(text string) (netip.Prefix, error) {
	if address, err := netip.ParseAddr(text); err == nil {
		return netip.PrefixFrom(address.Unmap(), address.Unmap().BitLen()), nil
	}
	prefix, err := netip.ParsePrefix(text)
	return prefix.Masked(), err
}

// plainName is a name as it is compared.
func plainName(name string) string { return strings.ToLower(strings.TrimSuffix(name, ".")) }

// permit reports whether a check may ask for the name, or the address, at the port.
func (hosts Hosts) permit(name string, port uint16) bool {
	address, err := netip.ParseAddr(name)
	return slices.ContainsFunc(hosts, func(h host) bool {
		switch {
		case h.port != port && (h.port != 0 || rollout.OfTheSystem(int32(port))):
			return false
		case err == nil:
			return h.holds(address.Unmap())
		default:
			return h.named(plainName(name))
		}
	})
}

// namePort reports whether an entry names the port.
func (hosts Hosts) namePort(port uint16) bool {
	return slices.ContainsFunc(hosts, func(h host) bool { return h.port == port })
}

// hold reports whether the operator names the address, and not a name that leads to it.
func (hosts Hosts) hold(address netip.Addr) bool {
	return slices.ContainsFunc(hosts, func(h host) bool { return h.holds(address) })
}

// holds reports whether an address is one of these. One that is special is only where all are:
// who permits half of the Internet thinks of no loopback.
func (h host) holds(address netip.Addr) bool {
	if h.name != "" || !h.prefix.Contains(address) {
		return false
	}
	in, isSpecial := specialRange(address)
	return !isSpecial || in.Bits() <= h.prefix.Bits()
}

func (h host) named(name string) bool {
	if domain, ok := strings.CutPrefix(h.name, "*"); ok {
		return strings.HasSuffix(name, domain)
	}
	return h.name != "" && h.name == name
}
