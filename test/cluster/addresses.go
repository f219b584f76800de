package cluster

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
)

// The addresses are the same in every cluster: each lives behind its own wall.
const (
	podNetwork          = "10.244.0.0/16"
	simulatedPodNetwork = "10.128.0.0/12"
	serviceNetwork      = "10.96.0.0/16"
	hostAddress         = "10.10.0.1"
	serviceAddress      = "10.96.0.1"  // of the Service "kubernetes"
	clusterDNS          = "10.96.0.10" // refuses at once: there is no DNS server
	apiServerPort       = 6443
	registryPort        = 5000
	maxNodes            = 250
	firstSimulated      = "127.1.0.1"
	hostNetworkBits     = 16
)

// Issuer is who issues the tokens of service accounts.
const Issuer = "https://kubernetes.default.svc.cluster.local"

// nodeAddress is the address of the node with that number, counted from 1.
func nodeAddress(number int) string {
	return fmt.Sprintf("10.10.1.%d", number)
}

// podSubnet is the network of the node's pods.
func podSubnet(number int) string {
	return fmt.Sprintf("10.244.%d.0/24", number)
}

// hardwareAddress is derived from an IPv4 address, so that a machine that is
// powered on again is not unreachable until its neighbours forget the old one.
func hardwareAddress(ip string) net.HardwareAddr {
	b := netip.MustParseAddr(ip).As4()
	return net.HardwareAddr{0x02, 0x00, b[0], b[1], b[2], b[3]}
}

// simulatedAddress is the loopback address of a simulated node, counted from
// 0. Each is its own, so that one process can answer health checks for all.
func simulatedAddress(index int) string {
	first := netip.MustParseAddr(firstSimulated).As4()
	var b [4]byte
	binary.BigEndian.PutUint32(b[:], binary.BigEndian.Uint32(first[:])+uint32(index))
	return netip.AddrFrom4(b).String()
}
