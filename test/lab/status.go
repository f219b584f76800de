package main

import (
	"context"
	"fmt"
	"os"
	"text/tabwriter"

	"github.com/mumoshu/ingress-daemonset-controller/test/cluster"
)

func status(ctx context.Context, c *cluster.Cluster) error {
	fmt.Printf("kubeconfig  %s\nhost        %s\n\n", c.Kubeconfig(), c.HostIP())
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "MACHINE\tADDRESS\tSERVICE\tSTATE\tRESTARTS")
	for _, m := range c.Machines(ctx) {
		if m.Err != nil {
			fmt.Fprintf(table, "%s\t%s\t\t%v\t\n", m.Name, m.IP, m.Err)
		}
		for _, service := range m.Services {
			state := "running"
			if service.PID == 0 {
				state = "stopped"
			}
			fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%d\n", m.Name, m.IP, service.Name, state, service.Restarts)
		}
	}
	return table.Flush()
}
