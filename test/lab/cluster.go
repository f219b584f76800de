package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/test/cluster"
	"github.com/mumoshu/ingress-daemonset-controller/test/cluster/progress"
	"github.com/mumoshu/ingress-daemonset-controller/test/conformance"
	"github.com/mumoshu/ingress-daemonset-controller/test/harness"
	"github.com/mumoshu/ingress-daemonset-controller/tools/release/helm"
)

// clusterVerbs are those of the local cluster.
var clusterVerbs = []string{"up", "down", "status", "deploy", "push", "kubectl", "node", "api", "run"}

func onCluster(ctx context.Context, verb string, args []string) error {
	flags := flag.NewFlagSet(verb, flag.ContinueOnError)
	flags.Usage = func() {}
	dir := flags.String("dir", ".cluster", "the cluster's folder")
	nodes := flags.Int("nodes", 3, "number of real nodes")
	simulated := flags.Int("simulated", 0, "number of simulated nodes")
	node := flags.String("node", "", "run in the network of this node")
	if err := flags.Parse(args); err != nil {
		return errUsage
	}
	rest := flags.Args()
	options := cluster.Options{Dir: *dir, Nodes: *nodes, SimulatedNodes: *simulated, Log: os.Stderr}
	switch {
	case verb == "up" && len(rest) == 0:
		return up(ctx, options)
	case verb == "down" && len(rest) == 0:
		return cluster.Down(ctx, *dir)
	case verb == "status" && len(rest) == 0:
		return withCluster(*dir, func(c *cluster.Cluster) error { return status(ctx, c) })
	case verb == "deploy" && len(rest) == 0:
		return deploy(ctx, *dir)
	case verb == "push" && len(rest) == 2:
		return withCluster(*dir, func(c *cluster.Cluster) error { return c.PushImage(ctx, rest[0], rest[1]) })
	case verb == "kubectl":
		return withCluster(*dir, func(c *cluster.Cluster) error { return attached(c.Kubectl(ctx, rest...)) })
	case verb == "node" && len(rest) == 2:
		return withCluster(*dir, func(c *cluster.Cluster) error { return changeNode(ctx, c, rest[0], rest[1]) })
	case verb == "api" && len(rest) == 1:
		return withCluster(*dir, func(c *cluster.Cluster) error { return changeAPIServer(ctx, c, rest[0]) })
	case verb == "run" && len(rest) > 0:
		return withCluster(*dir, func(c *cluster.Cluster) error { return runInside(ctx, c, *node, rest) })
	}
	return errUsage
}

func withCluster(dir string, do func(*cluster.Cluster) error) error {
	c, err := cluster.Attach(dir)
	if err != nil {
		return err
	}
	return do(c)
}

// prepare starts a cluster and takes it down again, which installs and builds all
// that is missing, and shows that this machine can run one. Then it builds helm and the tests of the Gateway API.
func prepare(ctx context.Context) error {
	log := progress.To(os.Stdout)
	if err := tryCluster(ctx, log); err != nil {
		return err
	}
	for i, build := range []func(context.Context, string) error{helm.Build, helm.Build3} {
		step := log.Step("building helm (%d/2, about 2 min when nothing is cached)", i+1)
		err := build(ctx, ".")
		step.Done()
		if err != nil {
			return err
		}
	}
	return buildConformance(ctx, log)
}

// buildConformance builds the Gateway API's tests, which only root runs, so that they are cached.
func buildConformance(ctx context.Context, log *progress.Log) error {
	if os.Geteuid() != 0 {
		return nil
	}
	defer log.Step("building the tests of the Gateway API (about 3 min when nothing is cached)").Done()
	dir, err := os.MkdirTemp("", "conformance-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	_, err = conformance.Build(ctx, ".", dir)
	return err
}

func tryCluster(ctx context.Context, log *progress.Log) (err error) {
	dir, err := os.MkdirTemp("", "prepare-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	defer func() { err = errors.Join(err, cluster.Down(context.WithoutCancel(ctx), dir)) }()
	o := cluster.Options{SimulatedNodes: 1, Dir: dir, Log: os.Stdout}
	if os.Geteuid() == 0 {
		o.Nodes, o.Packages = 1, []string{"prometheus", "prometheus-alertmanager", "jq", "chromium"}
	}
	if _, err = cluster.Start(ctx, o); err != nil {
		return err
	}
	log.Say("all is there; taking this cluster down")
	return nil
}

// deploy installs the controller, image included.
func deploy(ctx context.Context, dir string) error {
	if os.Getenv("IMAGE") != "" {
		return errors.New("IMAGE is for other clusters, and KUBECONFIG names none: the local one gets the image that is built here")
	}
	s, err := harness.Open(dir, os.Stdout)
	if err != nil {
		return fmt.Errorf("%w: start one with `make cluster`, or let KUBECONFIG name another", err)
	}
	if err := s.Deploy(ctx); err != nil {
		return err
	}
	fmt.Println("the controller runs in namespace", harness.Namespace)
	return nil
}

func up(ctx context.Context, o cluster.Options) error {
	if c, err := cluster.Attach(o.Dir); err == nil && c.Matches(o) {
		fmt.Fprintf(os.Stderr, "already running: export KUBECONFIG=%s\n", c.Kubeconfig())
		return nil
	}
	started := time.Now()
	if _, err := cluster.Start(ctx, o); err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "started in %s\n", time.Since(started).Round(100*time.Millisecond))
	return furnish(ctx, o)
}

// furnish readies a cluster for whoever plays with it: the images that examples/ and the guides name, and kubectl and
// the plugin where they can be called.
func furnish(ctx context.Context, o cluster.Options) error {
	s, err := harness.Open(o.Dir, o.Log)
	if err != nil {
		return err
	}
	if o.Nodes > 0 {
		if err := s.PushImages(ctx); err != nil {
			return err
		}
	}
	bin, err := s.LinkKubectl(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(o.Log, "kubectl and kubectl ids: export KUBECONFIG=%s PATH=%s:$PATH\n", s.Kubeconfig(), bin)
	return nil
}

func changeNode(ctx context.Context, c *cluster.Cluster, name, change string) error {
	node, err := c.Node(name)
	if err != nil {
		return err
	}
	switch change {
	case "stop":
		return node.Stop(ctx)
	case "start":
		return node.Start(ctx)
	case "disconnect":
		return node.Disconnect(ctx)
	case "reconnect":
		return node.Reconnect(ctx)
	}
	return errUsage
}

func changeAPIServer(ctx context.Context, c *cluster.Cluster, change string) error {
	switch change {
	case "stop":
		return c.StopAPIServer(ctx)
	case "start":
		return c.StartAPIServer(ctx)
	}
	return errUsage
}

func runInside(ctx context.Context, c *cluster.Cluster, node string, program []string) error {
	if node == "" {
		return attached(c.Command(ctx, program[0], program[1:]...))
	}
	n, err := c.Node(node)
	if err != nil {
		return err
	}
	return attached(n.Command(ctx, program[0], program[1:]...))
}

// programFailed means that a program which was run here has said itself what
// went wrong.
type programFailed struct{ code int }

func (e *programFailed) Error() string { return fmt.Sprintf("exit code %d", e.code) }

// attached runs a program on this process's terminal.
func attached(cmd *exec.Cmd) error {
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	err := cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return &programFailed{code: exit.ExitCode()}
	}
	return err
}
