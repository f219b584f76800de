package cluster

import (
	"context"
	"fmt"

	"github.com/mumoshu/ingress-daemonset-controller/test/cluster/machine"
)

// MachineStatus is what runs on the host or a node.
type MachineStatus struct {
	Name, IP string
	Services []machine.ServiceStatus
	// Err is why the services are not known: the machine is powered off.
	Err error
}

// Machines returns the status of the host and then of each node.
func (c *Cluster) Machines(ctx context.Context) []MachineStatus {
	services, err := c.host.Services(ctx)
	all := []MachineStatus{{Name: "host", IP: c.HostIP(), Services: services, Err: err}}
	for _, n := range c.nodes {
		status := MachineStatus{Name: n.Name(), IP: n.IP()}
		if _, status.Err = n.machine.PID(); status.Err == nil {
			status.Services, status.Err = n.machine.Services(ctx)
		}
		all = append(all, status)
	}
	return all
}

// Node returns the real node of that name.
func (c *Cluster) Node(name string) (*Node, error) {
	for _, n := range c.nodes {
		if n.Name() == name {
			return n, nil
		}
	}
	return nil, fmt.Errorf("there is no node %q", name)
}

// Matches tells whether the cluster has the nodes that the options ask for.
func (c *Cluster) Matches(o Options) bool {
	return c.state.Nodes == o.Nodes && c.state.SimulatedNodes == o.SimulatedNodes
}
