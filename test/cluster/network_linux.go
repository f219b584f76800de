package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
)

const bridgeName = "bridge"

// network speaks netlink in the network namespace of a machine.
type network struct {
	*netlink.Handle
	namespace netns.NsHandle
}

func openNetwork(pid int) (*network, error) {
	namespace, err := netns.GetFromPid(pid)
	if err != nil {
		return nil, fmt.Errorf("network namespace of process %d: %w", pid, err)
	}
	handle, err := netlink.NewHandleAt(namespace)
	if err != nil {
		namespace.Close()
		return nil, fmt.Errorf("network namespace of process %d: %w", pid, err)
	}
	return &network{Handle: handle, namespace: namespace}, nil
}

func (n *network) close() {
	n.Handle.Close()
	n.namespace.Close()
}

// hostNetworkOf opens the network of the running host.
func (c *Cluster) hostNetworkOf() (*network, error) {
	pid, err := c.host.PID()
	if err != nil {
		return nil, err
	}
	return openNetwork(pid)
}

// connectHost makes the bridge that the nodes' cables are plugged into, and
// routes to their pods.
func (c *Cluster) connectHost(pid int) error {
	n, err := openNetwork(pid)
	if err != nil {
		return err
	}
	defer n.close()
	attributes := netlink.NewLinkAttrs()
	attributes.Name = bridgeName
	// Without an address of its own the bridge takes one of its ports', and
	// another when that port goes.
	attributes.HardwareAddr = hardwareAddress(hostAddress)
	bridge := &netlink.Bridge{LinkAttrs: attributes}
	if err := n.LinkAdd(bridge); err != nil {
		return fmt.Errorf("add the bridge: %w", err)
	}
	if err := n.up(bridge, hostAddress); err != nil {
		return err
	}
	return n.routeToPods(bridge, c.nodes, nil)
}

// connect plugs the node into the bridge.
func (n *Node) connect(pid int) error {
	host, err := n.cluster.hostNetworkOf()
	if err != nil {
		return err
	}
	defer host.close()
	bridge, err := host.LinkByName(bridgeName)
	if err != nil {
		return err
	}
	attributes := netlink.NewLinkAttrs()
	attributes.Name = n.Name()
	attributes.MasterIndex = bridge.Attrs().Index
	cable := &netlink.Veth{
		LinkAttrs:        attributes,
		PeerName:         "eth0",
		PeerHardwareAddr: hardwareAddress(n.IP()),
		PeerNamespace:    netlink.NsPid(pid),
	}
	if err := host.LinkAdd(cable); err != nil {
		return fmt.Errorf("connect %s to the bridge: %w", n.Name(), err)
	}
	if err := host.LinkSetUp(cable); err != nil {
		return fmt.Errorf("connect %s to the bridge: %w", n.Name(), err)
	}
	return n.configure(pid)
}

// configure gives the node its address, and routes to the other nodes' pods.
func (n *Node) configure(pid int) error {
	network, err := openNetwork(pid)
	if err != nil {
		return err
	}
	defer network.close()
	eth0, err := network.LinkByName("eth0")
	if err != nil {
		return err
	}
	if err := network.up(eth0, n.IP()); err != nil {
		return err
	}
	gateway := &netlink.Route{LinkIndex: eth0.Attrs().Index, Gw: net.ParseIP(hostAddress)}
	if err := network.RouteAdd(gateway); err != nil {
		return fmt.Errorf("default route of %s: %w", n.Name(), err)
	}
	return network.routeToPods(eth0, n.cluster.nodes, n)
}

// up gives a link its address, and starts it and the loopback.
func (n *network) up(link netlink.Link, address string) error {
	loopback, err := n.LinkByName("lo")
	if err != nil {
		return err
	}
	ip, err := netlink.ParseAddr(fmt.Sprintf("%s/%d", address, hostNetworkBits))
	if err != nil {
		return err
	}
	if err := n.AddrAdd(link, ip); err != nil {
		return fmt.Errorf("add address %s: %w", address, err)
	}
	if err := n.LinkSetUp(link); err != nil {
		return fmt.Errorf("set %s up: %w", link.Attrs().Name, err)
	}
	return n.LinkSetUp(loopback)
}

func (n *network) routeToPods(via netlink.Link, nodes []*Node, except *Node) error {
	for _, node := range nodes {
		if node == except {
			continue
		}
		_, pods, err := net.ParseCIDR(podSubnet(node.number))
		if err != nil {
			return err
		}
		route := &netlink.Route{LinkIndex: via.Attrs().Index, Dst: pods, Gw: net.ParseIP(node.IP())}
		if err := n.RouteAdd(route); err != nil {
			return fmt.Errorf("route to the pods of %s: %w", node.Name(), err)
		}
	}
	return nil
}

// unplug removes the node's cable.
func (n *Node) unplug() error {
	host, err := n.cluster.hostNetworkOf()
	if err != nil {
		return err
	}
	defer host.close()
	cable, err := host.LinkByName(n.Name())
	if errors.As(err, &netlink.LinkNotFoundError{}) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := host.LinkDel(cable); err != nil {
		return fmt.Errorf("unplug %s: %w", n.Name(), err)
	}
	return nil
}

func (n *Node) setCable(connected bool) error {
	host, err := n.cluster.hostNetworkOf()
	if err != nil {
		return err
	}
	defer host.close()
	cable, err := host.LinkByName(n.Name())
	if err != nil {
		return fmt.Errorf("cable of %s: %w", n.Name(), err)
	}
	if connected {
		return host.LinkSetUp(cable)
	}
	return host.LinkSetDown(cable)
}

// DialContext connects as a process on the host would. The address must be an
// IP address and a port. It serves as the DialContext of an http.Transport.
func (c *Cluster) DialContext(ctx context.Context, protocol, address string) (net.Conn, error) {
	var dialer net.Dialer
	if !c.state.Isolated {
		return dialer.DialContext(ctx, protocol, address)
	}
	pid, err := c.host.PID()
	if err != nil {
		return nil, err
	}
	// A socket belongs to the namespace its thread was in when it was made.
	runtime.LockOSThread()
	outside, err := netns.Get()
	if err != nil {
		runtime.UnlockOSThread()
		return nil, err
	}
	defer outside.Close()
	inside, err := netns.GetFromPid(pid)
	if err != nil {
		runtime.UnlockOSThread()
		return nil, err
	}
	defer inside.Close()
	if err := netns.Set(inside); err != nil {
		runtime.UnlockOSThread()
		return nil, fmt.Errorf("enter the host: %w", err)
	}
	connection, err := dialer.DialContext(ctx, protocol, address)
	// A thread that cannot come back stays locked, and ends with its
	// goroutine.
	if back := netns.Set(outside); back == nil {
		runtime.UnlockOSThread()
	}
	return connection, err
}
