// Command demo rolls out real proxies under real traffic and counts every
// request that is lost: first as an IngressDaemonSet, then as a native DaemonSet;
// or, with -ingress, it plays the guide to Ingresses.
// It starts the cluster that it runs on. With simulated nodes it needs no root,
// and sends no traffic.
//
// Read demo.go first, or walk.go for the guide; the other files serve demo.go.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"syscall"

	"github.com/mumoshu/ingress-daemonset-controller/test/harness"
)

type options struct {
	dir       string
	simulated int
	ingress   bool
	keep      bool
}

func main() {
	harness.Quiet()
	var o options
	flag.StringVar(&o.dir, "dir", ".cluster", "the cluster's folder")
	flag.IntVar(&o.simulated, "simulated", 0, "run on so many simulated nodes, without root and without traffic")
	flag.BoolVar(&o.ingress, "ingress", false, "play the guide to Ingresses: what was asked, and what came back")
	flag.BoolVar(&o.keep, "keep", false, "leave the cluster running at the end")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	// A second signal ends the demo at once.
	context.AfterFunc(ctx, stop)
	err := run(ctx, o)
	switch {
	case err == nil:
	case ctx.Err() != nil:
		fmt.Fprintln(os.Stderr, "demo: interrupted")
		os.Exit(130)
	default:
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) error {
	switch {
	case o.simulated < 0:
		return errors.New("the number of simulated nodes must not be negative")
	case runtime.GOOS != "linux":
		return fmt.Errorf("this is %s, and the demo needs Linux", runtime.GOOS)
	case o.simulated > 0 && o.ingress:
		return errors.New("simulated nodes serve no Ingress: leave out -simulated or -ingress")
	case o.simulated > 0:
		return simulate(ctx, o)
	case o.ingress && os.Geteuid() != 0:
		return errors.New("real nodes need root: run `make demo-ingress` as root")
	case o.ingress:
		return playWalk(ctx, o)
	case os.Geteuid() != 0:
		return errors.New("real nodes need root: run `make demo` as root, or `make demo SIMULATED=1`, which simulates the nodes and sends no traffic")
	}
	return demonstrate(ctx, o)
}
