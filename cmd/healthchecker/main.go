// Command healthchecker answers the external load balancer's health checks for
// the node it runs on.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"

	"github.com/mumoshu/ingress-daemonset-controller/internal/nodehealth"
	"github.com/mumoshu/ingress-daemonset-controller/internal/nodehealth/connections"
	"github.com/mumoshu/ingress-daemonset-controller/internal/nodehealth/server"
)

const usage = `Answers the external load balancer's health checks for the node it runs on.

  healthchecker --namespace=... --name=... --node=... --port=...
  healthchecker ready     succeeds while it answers; the readiness probe of its pod

`

type flags struct {
	namespace, name, uid, node, address, markKey, stateDir, kubeconfig string
	port                                                               int
	ingressPorts                                                       portList
	drainHook                                                          nodehealth.DrainHook
}

// portList is a flag: ports with commas between them.
type portList []uint16

func (l *portList) String() string {
	return strings.Trim(strings.ReplaceAll(fmt.Sprint([]uint16(*l)), " ", ","), "[]")
}

func (l *portList) Set(text string) error {
	*l = nil
	if text == "" {
		return nil
	}
	for number := range strings.SplitSeq(text, ",") {
		port, err := strconv.ParseUint(number, 10, 16)
		if err != nil || port == 0 {
			return fmt.Errorf("%q is no port from 1 to 65535", number)
		}
		if !slices.Contains(*l, uint16(port)) {
			*l = append(*l, uint16(port))
		}
	}
	return nil
}

func main() {
	args, ready := os.Args[1:], false
	if len(args) > 0 && args[0] == "ready" {
		args, ready = args[1:], true
	}
	f, err := parse(args, ready, os.Stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return
	case err != nil:
		fmt.Fprintln(os.Stderr, "healthchecker:", err)
		os.Exit(2)
	case ready:
		err = server.Ready(f.stateDir)
	default:
		err = serve(f)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "healthchecker:", err)
		os.Exit(1)
	}
}

// parse returns an error that says which flag to change.
func parse(args []string, ready bool, out io.Writer) (f flags, err error) {
	set := flag.NewFlagSet("healthchecker", flag.ContinueOnError)
	set.SetOutput(io.Discard)
	set.StringVar(&f.stateDir, "state-dir", "/run/healthchecker", "writable `folder` that outlives a restart of the container, such as an emptyDir")
	if !ready {
		set.StringVar(&f.namespace, "namespace", "", "`namespace` of the IngressDaemonSet")
		set.StringVar(&f.name, "name", "", "`name` of the IngressDaemonSet")
		set.StringVar(&f.uid, "uid", "", "`UID` of the IngressDaemonSet; empty: any of that name")
		set.StringVar(&f.node, "node", os.Getenv("NODE_NAME"), "`name` of the node to answer for; $NODE_NAME by default")
		set.StringVar(&f.markKey, "mark-key", os.Getenv("MARK_KEY"), "`annotation` that is the health-check mark too, where the Deployment does not say which is; $MARK_KEY by default")
		set.IntVar(&f.port, "port", 0, "`port` that health checks are answered on, 1 to 65535")
		set.StringVar(&f.address, "address", "", "`IP` address that health checks are answered on; empty: all, IPv4 and IPv6")
		set.Var(&f.ingressPorts, "ingress-ports", "`ports` of the node's own network namespace, with commas between them, of which the connections are told to whoever asks for /?connections; empty: none")
		set.DurationVar(&f.drainHook.Grace, "drain-grace", 10*time.Second, "for how long health checks must have failed until pods whose kubelet asks for /?drain may stop, where the controller says nothing")
		set.DurationVar(&f.drainHook.Linger, "drain-linger", 10*time.Second, "how long open connections of such a pod have to end, once no new one comes")
		set.DurationVar(&f.drainHook.Stop, "drain-stop", 10*time.Second, "how much of its grace period is left to such a pod")
		set.StringVar(&f.kubeconfig, "kubeconfig", "", "`file` that says how to reach the API server; empty: as a pod does")
	}
	switch err := set.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(out, usage)
		set.SetOutput(out)
		set.PrintDefaults()
		return f, err
	case err != nil:
		return f, err
	case set.NArg() > 0:
		return f, fmt.Errorf("unexpected argument %q", set.Arg(0))
	case ready:
		return f, nil
	}
	return f, f.check()
}

func (f flags) check() error {
	switch {
	case f.namespace == "":
		return errors.New("--namespace is needed: the namespace of the IngressDaemonSet")
	case f.name == "":
		return errors.New("--name is needed: the name of the IngressDaemonSet")
	case f.node == "":
		return errors.New("--node, or NODE_NAME in the environment, is needed: the name of the node")
	case f.port < 1 || f.port > 65535:
		return fmt.Errorf("--port must be from 1 to 65535, not %d", f.port)
	case f.address != "" && net.ParseIP(f.address) == nil:
		return fmt.Errorf("--address must be an IP address, not %q", f.address)
	case f.drainHook.Grace < 0:
		return fmt.Errorf("--drain-grace must not be negative, as %s is", f.drainHook.Grace)
	case f.drainHook.Linger < 0:
		return fmt.Errorf("--drain-linger must not be negative, as %s is", f.drainHook.Linger)
	case f.drainHook.Stop < 0:
		return fmt.Errorf("--drain-stop must not be negative, as %s is", f.drainHook.Stop)
	case f.stateDir == "":
		return errors.New("--state-dir is needed: a writable folder")
	}
	return nil
}

func serve(f flags) error {
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	klog.SetSlogLogger(log)
	config, err := clusterConfig(f.kubeconfig)
	if err != nil {
		return fmt.Errorf("finding the API server: %w", err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	options := server.Options{
		Config:    config,
		Namespace: f.namespace,
		Subject:   nodehealth.Subject{Node: f.node, Name: f.name, UID: types.UID(f.uid), MarkKey: f.markKey},
		Address:   net.JoinHostPort(f.address, strconv.Itoa(f.port)),
		StateDir:  f.stateDir,
		DrainHook: f.drainHook,
		Log:       log,
	}
	if len(f.ingressPorts) > 0 {
		watcher := connections.New(f.ingressPorts, log)
		defer watcher.Close()
		options.Connections = watcher.Connections
	}
	return server.Run(ctx, options)
}

func clusterConfig(kubeconfig string) (*rest.Config, error) {
	if kubeconfig == "" {
		return rest.InClusterConfig()
	}
	return clientcmd.BuildConfigFromFlags("", kubeconfig)
}
