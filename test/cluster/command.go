package cluster

import (
	"context"
	"fmt"
	"os"
	"os/exec"

	"github.com/mumoshu/ingress-daemonset-controller/test/cluster/machine"
)

// Command returns a command that runs in the host's network, as an external
// load balancer or a client does. Files and processes are the caller's, so
// that the command's process is the program itself. What still runs when the
// cluster goes down is killed. Servers should listen below port 12000, where
// no outgoing connection takes their port.
func (c *Cluster) Command(ctx context.Context, path string, args ...string) *exec.Cmd {
	if !c.state.Isolated {
		return c.mark(exec.CommandContext(ctx, path, args...))
	}
	return c.enter(ctx, c.host, path, args)
}

// Command returns a command that runs in the node's network. It ends with an
// error when the node is powered off.
func (n *Node) Command(ctx context.Context, path string, args ...string) *exec.Cmd {
	return n.cluster.enter(ctx, n.machine, path, args)
}

// Kubectl returns a kubectl command, of the cluster's version, that acts as the
// administrator.
func (c *Cluster) Kubectl(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, c.state.Kubectl, args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+c.Kubeconfig())
	return cmd
}

func (c *Cluster) enter(ctx context.Context, m *machine.Machine, path string, args []string) *exec.Cmd {
	pid, err := m.PID()
	enter := []string{fmt.Sprintf("--net=/proc/%d/ns/net", pid), "--", path}
	cmd := c.mark(exec.CommandContext(ctx, "nsenter", append(enter, args...)...))
	if err != nil {
		cmd.Err = err
	}
	return cmd
}

func (c *Cluster) mark(cmd *exec.Cmd) *exec.Cmd {
	cmd.Env = append(os.Environ(), machine.ClusterVariable+"="+c.dir)
	return cmd
}
