// Command cmd starts, inspects and takes down the local Kubernetes cluster.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/test/cluster"
)

const usage = `usage: cmd COMMAND [FLAGS]

  up [--nodes N] [--simulated N]   start a cluster; does nothing if it runs already
  prepare [--nodes N] [--simulated N]
                                   install and build what up needs, and start nothing
  down                             take it down, whatever state it is in
  status                           show what runs
  push REFERENCE TARBALL           make an image available to the nodes
  kubectl ARGS...                  kubectl as the administrator
  node NAME stop|start             power a node off or on
  node NAME disconnect|reconnect   pull or plug its network cable
  api stop|start                   stop or start the API server
  run [--node NAME] -- PROGRAM...  run a program in the network of the host or a node

Every command takes --dir, the cluster's folder (default .cluster).
`

// errUsage means that the command line makes no sense.
var errUsage = errors.New("see the usage above")

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := run(ctx, os.Args[1:])
	failed, isFailed := errors.AsType[*programFailed](err)
	switch {
	case err == nil:
	case errors.Is(err, errUsage):
		fmt.Fprint(os.Stderr, usage)
		os.Exit(2)
	case isFailed:
		os.Exit(failed.code)
	default:
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) == 0 {
		return errUsage
	}
	flags := flag.NewFlagSet(args[0], flag.ContinueOnError)
	flags.Usage = func() {}
	dir := flags.String("dir", ".cluster", "the cluster's folder")
	nodes := flags.Int("nodes", 3, "number of real nodes")
	simulated := flags.Int("simulated", 0, "number of simulated nodes")
	node := flags.String("node", "", "run in the network of this node")
	if err := flags.Parse(args[1:]); err != nil {
		return errUsage
	}
	rest := flags.Args()
	options := cluster.Options{Dir: *dir, Nodes: *nodes, SimulatedNodes: *simulated, Log: os.Stderr}
	switch command := args[0]; {
	case command == "up" && len(rest) == 0:
		return up(ctx, options)
	case command == "prepare" && len(rest) == 0:
		return cluster.Prepare(ctx, options)
	case command == "down" && len(rest) == 0:
		return cluster.Down(ctx, *dir)
	case command == "status" && len(rest) == 0:
		return withCluster(*dir, func(c *cluster.Cluster) error { return status(ctx, c) })
	case command == "push" && len(rest) == 2:
		return withCluster(*dir, func(c *cluster.Cluster) error { return c.PushImage(ctx, rest[0], rest[1]) })
	case command == "kubectl":
		return withCluster(*dir, func(c *cluster.Cluster) error { return attached(c.Kubectl(ctx, rest...)) })
	case command == "node" && len(rest) == 2:
		return withCluster(*dir, func(c *cluster.Cluster) error { return changeNode(ctx, c, rest[0], rest[1]) })
	case command == "api" && len(rest) == 1:
		return withCluster(*dir, func(c *cluster.Cluster) error { return changeAPIServer(ctx, c, rest[0]) })
	case command == "run" && len(rest) > 0:
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
