//go:build !linux

package cluster

import (
	"context"
	"errors"
	"net"
)

func (c *Cluster) connectHost(int) error { return errors.ErrUnsupported }
func (n *Node) connect(int) error        { return errors.ErrUnsupported }
func (n *Node) unplug() error            { return errors.ErrUnsupported }
func (n *Node) setCable(bool) error      { return errors.ErrUnsupported }

// DialContext connects as a process on the host would.
func (c *Cluster) DialContext(ctx context.Context, protocol, address string) (net.Conn, error) {
	var dialer net.Dialer
	return dialer.DialContext(ctx, protocol, address)
}
