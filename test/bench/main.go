// Command bench compares an IngressDaemonSet with native DaemonSets of as many
// pods, on simulated nodes and the same real API server, in the same run; how
// pods are registered with target groups with a program that polls; and the proxy
// with nginx. It writes one line of JSON for each case, and exits with 1 where a bar
// is missed.
//
// A rollout takes out every node at once, without grace periods, so that what is
// measured is the work and not the waiting. Beside the native one stands the
// baseline: the same writes to a plain Deployment for each node, which tell how much
// of the time is the Deployment controller's and not ours.
//
// Of the proxy what a request costs is compared as processor time, which depends less
// on what else the machine does: rounds.go says how. proxycases.go has its cases.
package main

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mumoshu/ingress-daemonset-controller/test/cluster"
	"github.com/mumoshu/ingress-daemonset-controller/test/harness"
)

type options struct {
	dir          string
	nodes, large int
	targets      int
	account      bool
	rounds       int
	controller   string
	proxy        string
	cases        *regexp.Regexp
}

func main() {
	ctrl.SetLogger(logr.FromSlogHandler(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})))
	var o options
	flag.StringVar(&o.dir, "dir", filepath.Join(os.TempDir(), "ingress-daemonset-bench"), "where the cluster keeps its files")
	flag.IntVar(&o.nodes, "nodes", 1000, "simulated nodes of the comparison; 0 for none")
	flag.IntVar(&o.large, "large", 5000, "simulated nodes of the large cluster; 0 for none")
	flag.IntVar(&o.targets, "targets", 1000, "pods that are kept registered with target groups; 0 for none")
	flag.BoolVar(&o.account, "account", true, "keep targets in an account of as many target groups as AWS allows, which takes a quarter of an hour")
	flag.IntVar(&o.rounds, "rounds", 3, "creations of each kind, and rollouts in the comparison, of which the median counts")
	flag.StringVar(&o.controller, "controller", "./cmd/controller", "package of the controller; one of your own may add a profiler")
	flag.StringVar(&o.proxy, "proxy", "./cmd/proxy", "package of the proxy; one of your own may add a profiler")
	flag.Func("case", "expression of the names of cases to run, all by default: "+caseNames(), func(text string) (err error) {
		o.cases, err = regexp.Compile(text)
		return err
	})
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	missed, err := run(ctx, o)
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
	}
	if err != nil || missed {
		os.Exit(1)
	}
}

// cases are in the order in which they run.
var cases = []struct {
	name string
	run  func(context.Context, options, *report) error
}{
	{"fleets", fleets},
	{"targets", keptTargets},
	{"account", keptAccount},
	{"proxy-request", proxyRequest},
	{"proxy-floor", proxyFloor},
	{"proxy-body", proxyBody},
	{"proxy-handshake", proxyHandshake},
	{"proxy-hosts", proxyHosts},
	{"proxy-change", proxyChange},
	{"proxy-memory", proxyMemory},
	{"proxy-visible", proxyVisible},
	{"proxy-controller", proxyController},
}

func caseNames() string {
	var names []string
	for _, c := range cases {
		names = append(names, c.name)
	}
	return strings.Join(names, ", ")
}

func run(ctx context.Context, o options) (missed bool, err error) {
	if err := openFiles(filesPerNode * uint64(max(o.nodes, o.large))); err != nil {
		return false, err
	}
	r := &report{out: os.Stdout}
	for _, c := range cases {
		if o.cases != nil && !o.cases.MatchString(c.name) {
			continue
		}
		if err := c.run(ctx, o, r); err != nil {
			return r.missed, err
		}
	}
	return r.missed, nil
}

// fleets are those of simulated nodes, first the ones that are compared, then the large one.
func fleets(ctx context.Context, o options, r *report) (err error) {
	if o.nodes > 0 {
		err = on(ctx, o, o.nodes, func(ctx context.Context, b *bench) error { return b.compare(ctx, r, o.rounds) })
	}
	if o.large > 0 && err == nil {
		err = on(ctx, o, o.large, func(ctx context.Context, b *bench) error { return b.growBaseline(ctx, r, o.rounds) })
	}
	if o.large > 0 && err == nil {
		err = on(ctx, o, o.large, func(ctx context.Context, b *bench) error { return b.grow(ctx, r, o.rounds) })
	}
	return err
}

func keptTargets(ctx context.Context, o options, r *report) error {
	if o.targets == 0 {
		return nil
	}
	return on(ctx, o, 0, func(ctx context.Context, b *bench) error { return b.keepTargets(ctx, r, o.targets) })
}

func keptAccount(ctx context.Context, o options, r *report) error {
	if !o.account {
		return nil
	}
	return on(ctx, o, 0, func(ctx context.Context, b *bench) error { return b.keepAccount(ctx, r) })
}

// filesPerNode are what the process of the health checkers has open for each node at least:
// it listens, is asked, and watches, and now and then dials anew.
const filesPerNode = 4

// openFiles lets this process, and those that it starts, open so many files, or twice as
// many where that is allowed.
func openFiles(needed uint64) error {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return fmt.Errorf("limit of open files: %w", err)
	}
	allowed := limit.Max
	more := syscall.Rlimit{Cur: max(allowed, 2*needed), Max: max(allowed, 2*needed)}
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &more); err == nil {
		return nil
	}
	if allowed < needed {
		return fmt.Errorf("%d open files are needed and %d allowed: raise the limit (ulimit -Hn), or measure fewer nodes", needed, allowed)
	}
	return syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: allowed, Max: allowed})
}

// bench is a cluster of simulated nodes with the API installed.
type bench struct {
	*cluster.Cluster
	client            client.WithWatch
	root              string
	nodes             int
	controllerPackage string
	controller        *os.Process
	// asController is the kubeconfig with which the controller reaches the API server.
	asController string
	// idle is the CPU seconds that each program uses in a second of idleness.
	idle map[string]float64
}

// on runs f on a cluster of so many nodes, which is taken down again.
func on(ctx context.Context, o options, nodes int, f func(context.Context, *bench) error) error {
	root, err := projectRoot(ctx)
	if err != nil {
		return err
	}
	c, err := cluster.Start(ctx, cluster.Options{SimulatedNodes: nodes, Dir: o.dir, Log: os.Stderr})
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer cancel()
		if err := c.Down(ctx); err != nil {
			fmt.Fprintln(os.Stderr, "bench: taking the cluster down:", err)
		}
	}()
	// Programs that end with the cluster are no news.
	ctx, end := context.WithCancel(ctx)
	defer end()
	b := &bench{Cluster: c, root: root, nodes: nodes, controllerPackage: o.controller}
	if b.client, err = harness.Admin(c); err != nil {
		return err
	}
	if err := b.install(ctx); err != nil {
		return err
	}
	if err := b.client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}); err != nil {
		return err
	}
	return f(ctx, b)
}
