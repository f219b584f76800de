// Command cmd does what `make` needs beside tests: it packs the image, installs
// the controller, and readies this machine for the tests.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/mumoshu/ingress-daemonset-controller/test/cluster"
	"github.com/mumoshu/ingress-daemonset-controller/test/harness"
)

const usage = `usage: cmd COMMAND, in the project's folder

  image DIR    build every command and pack them into an image archive in DIR
  deploy       install the controller into the cluster that $KUBECONFIG names, with
               $IMAGE; without $KUBECONFIG into the local one, with an image of its own
  prepare      install the packages and build the programs that the tests need
`

// localDir is the folder of the local cluster.
const localDir = ".cluster"

var errUsage = errors.New("see the usage above")

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	switch err := run(ctx, os.Args[1:]); {
	case errors.Is(err, errUsage):
		fmt.Fprint(os.Stderr, usage)
		os.Exit(2)
	case err != nil:
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	switch {
	case len(args) == 2 && args[0] == "image":
		return image(ctx, args[1])
	case len(args) == 1 && args[0] == "deploy":
		return deploy(ctx, os.Getenv("KUBECONFIG"), os.Getenv("IMAGE"))
	case len(args) == 1 && args[0] == "prepare":
		return prepare(ctx)
	}
	return errUsage
}

func image(ctx context.Context, dir string) error {
	tar, err := harness.BuildImage(ctx, ".", dir)
	if err != nil {
		return err
	}
	fmt.Printf("%s holds %s, for docker load, podman load, ctr images import and skopeo\n", tar, harness.Image)
	return nil
}

// prepare starts a cluster and takes it down again, which installs and builds all
// that is missing, and shows that this machine can run one.
func prepare(ctx context.Context) (err error) {
	dir, err := os.MkdirTemp("", "prepare-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	defer func() { err = errors.Join(err, cluster.Down(context.WithoutCancel(ctx), dir)) }()
	o := cluster.Options{SimulatedNodes: 1, Dir: dir, Log: os.Stdout}
	if os.Geteuid() == 0 {
		o.Nodes, o.Packages = 1, []string{"prometheus", "prometheus-alertmanager"}
	}
	if _, err = cluster.Start(ctx, o); err != nil {
		return err
	}
	fmt.Println("all is there; taking this cluster down")
	return nil
}
