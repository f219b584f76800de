// Command proxy takes in HTTP requests, and sends them to endpoints as a controller tells it: it is the
// proxy that comes with the controller.
//
// Its files, in the order in which to open them:
//
//   - main.go: what runs, from the start to the end.
//   - flags.go: flags, and what they may be.
//   - controller.go: how it reaches a controller.
//   - ports.go: where it listens, and where it cannot.
//   - ready.go: whether requests are to come, and the probe that asks.
//   - node.go: what the proxies of a node answer together.
//   - metrics.go: what it tells Prometheus. console.go: what it shows people. log.go: what clients have it log.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"runtime/debug"
	"sync"
	"syscall"

	"github.com/mumoshu/ingress-daemonset-controller/internal/garbage"
	"github.com/mumoshu/ingress-daemonset-controller/internal/proxy"
	"github.com/mumoshu/ingress-daemonset-controller/internal/proxy/peers"
	"github.com/mumoshu/ingress-daemonset-controller/internal/proxy/subscription"
)

// version is set by the linker in a release.
var version = "of a build from source"

// garbageRule is for what many hosts keep, whose requests make garbage all the time.
var garbageRule = garbage.Rule{Little: 40 << 20, LeastPercent: 50}

func main() {
	// Where the file gives a capability, as in the image, Go would not say where a panic was.
	debug.SetTraceback("single")
	args, probe := os.Args[1:], ""
	if len(args) > 0 && (args[0] == "ready" || args[0] == "alive") {
		args, probe = args[1:], args[0]
	}
	f, err := parse(args, probe != "", os.Stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return
	case err != nil:
		fmt.Fprintln(os.Stderr, "proxy:", err)
		os.Exit(2)
	case probe == "ready":
		err = askReady(f.readySocket)
	case probe == "alive":
		_, err = ask(f.readySocket)
	default:
		err = serve(f)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "proxy:", err)
		os.Exit(1)
	}
}

// serve serves until a signal has it drain, and the drain is over.
func serve(f flags) error {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	log.Info("starting", "version", version)

	var told *subscription.Subscription
	shared := peers.Ports{Pod: f.podName, Set: func() string { return told.IngressDaemonSet() }, Open: proxy.ListenShared, Log: log}
	f.options.Log, f.options.Reserved, f.options.Listen = fewOf(log), f.reserved(), shared.Listen
	server := proxy.NewServer(f.options)
	listening := newPorts(server, log)
	told = subscription.New(subscription.Options{
		Node: f.podName, Connect: controller{f.controllerDir, f.tokenFile}.connect,
		Apply: listening.apply, Unavailable: listening.refusals, Directory: f.snapshotDir, Log: log,
	})
	listening.changed = told.SayAgain
	current := &condition{applied: func() bool { return told.State().Applied }, missing: listening.needed}
	ready, err := listenReady(f.readySocket, log, current.unready)
	if err != nil {
		return err
	}
	defer ready.Close()
	if told.Restore() {
		log.Info("serving what the last snapshot says, until a controller tells")
	}

	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	var beside sync.WaitGroup
	if os.Getenv("GOGC") == "" {
		go garbageRule.Keep(ctx)
	}
	beside.Go(func() { told.Run(ctx) })
	beside.Go(func() { listening.keepTrying(ctx) })
	if f.metricsAddress != "" {
		node := newScrape(portOf(f.metricsAddress), f.podName, server.Proxy(), told.State)
		beside.Go(func() { serveShared(ctx, "metrics", f.metricsAddress, node, log) })
	}
	if f.console != "" {
		page := newConsole(f.podName, server.Proxy(), told.State, current.unready, listening.unavailable)
		beside.Go(func() { serveShared(ctx, "the console", f.console, page, log) })
	}

	log.Info("draining, another signal ends it at once", "signal", <-signals)
	current.draining.Store(true)
	patient, hurry := context.WithCancel(context.Background())
	defer hurry()
	go func() {
		log.Info("ending at once", "signal", <-signals)
		hurry()
	}()
	// Endpoints change while the last requests pass, so that a controller is listened to until then, and no
	// longer: an ended server would refuse what it is told.
	server.Settle(patient)
	stop()
	beside.Wait()
	server.End(patient)
	log.Info("ended")
	return nil
}
