package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/test/cluster"
	"github.com/mumoshu/ingress-daemonset-controller/test/harness"
)

const (
	nodes = 3
	// rate leaves some room above the thousand that is promised: the client
	// starts requests when they are due, and its last second is cut short.
	rate      = 1200
	leastRate = 1000
	// graceSeconds is shorter than the example's, since the load balancer here
	// checks twice a second.
	graceSeconds = 5
)

// demonstrate shows the same roll-out twice. The report is written whatever it says;
// an error says what was promised and not kept.
func demonstrate(ctx context.Context, o options) (err error) {
	report := filepath.Join(o.dir, "demo-report.json")
	if err := os.RemoveAll(report); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end(ctx, o, tryExample(o))) }()
	heading("A cluster of %d nodes, each with a kernel network, containerd and kubelet of its own", nodes)
	if _, err := cluster.Attach(o.dir); err == nil {
		fmt.Printf("the cluster that runs in %s is replaced\n", o.dir)
	}
	s, err := harness.SetUp(ctx, cluster.Options{Nodes: nodes, Dir: o.dir, Log: os.Stdout})
	if err != nil {
		return err
	}
	step := s.Step("building the client")
	_, err = s.Lab(ctx, "traffic")
	step.Done()
	if err != nil {
		return err
	}
	heading("nginx as an IngressDaemonSet: 2 pods a node, the load balancer asks the health-check node port")
	ours, err := rollOutUnderTraffic(ctx, s, newIngress(s))
	if err != nil {
		return err
	}
	heading("nginx as a native DaemonSet: 1 pod a node, maxUnavailable 1, the load balancer asks nginx itself")
	theirs, err := rollOutUnderTraffic(ctx, s, newNative(s))
	if err != nil {
		return err
	}
	heading("The same roll-out, side by side")
	compare(os.Stdout, ours, theirs)
	if err := writeReport(report, ours, theirs); err != nil {
		return err
	}
	fmt.Printf("\n%s\nThe counts are in %s.\n", verdict(ours, theirs), report)
	if n := ours.traffic.Failed; n != 0 {
		return fmt.Errorf("%d requests failed while the IngressDaemonSet was rolled out:\n%s", n, ours.traffic)
	}
	return nil
}

// tryExample is what may be done with a cluster that is kept.
func tryExample(o options) string {
	return fmt.Sprintf("export KUBECONFIG=%s; then kubectl apply -f examples/%s, for instance", filepath.Join(o.dir, "kubeconfig"), example)
}

// end takes the cluster down, unless it is to be kept; next is what may be done with it then.
func end(ctx context.Context, o options, next string) error {
	if o.keep && ctx.Err() == nil {
		fmt.Printf("\nThe cluster runs on: %s.\n`make cluster-down` takes it down.\n", next)
		return nil
	}
	fmt.Println("\ntaking the cluster down; with KEEP=1 it is left running")
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	return cluster.Down(ctx, o.dir)
}

func heading(format string, args ...any) {
	fmt.Printf("\n== "+format+"\n", args...)
}
