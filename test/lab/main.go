// Command lab runs what the tests are played on, by verbs: the local cluster, the emulator of AWS,
// the client that counts requests, and the cases behind the emulator. `make` calls it.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"syscall"

	"github.com/mumoshu/ingress-daemonset-controller/test/aws"
	"github.com/mumoshu/ingress-daemonset-controller/test/cluster/progress"
	"github.com/mumoshu/ingress-daemonset-controller/test/harness"
	"github.com/mumoshu/ingress-daemonset-controller/test/traffic"
	"github.com/mumoshu/ingress-daemonset-controller/tools/images"
)

const usage = `usage: lab COMMAND [FLAGS], in the project's folder

The local cluster; each takes --dir, its folder (default .cluster):
  up [--nodes N] [--simulated N]   start it; does nothing if it runs already
  down                             take it down, whatever state it is in
  status                           show what runs
  deploy                           install the controller, with an image that is built here
  push REFERENCE TARBALL           make an image available to the nodes
  kubectl ARGS...                  kubectl as the administrator
  node NAME stop|start             power a node off or on
  node NAME disconnect|reconnect   pull or plug its network cable
  api stop|start                   stop or start the API server
  run [--node NAME] -- PROGRAM...  run a program in the network of the host or a node

Beside it:
  prepare                          install and build what clusters need, and show that one starts
  image DIR NAME                   build the product's commands and pack them into an image archive
  aws [FILE]                       the emulator of AWS: its configuration as JSON in, addresses out
  traffic [FILE]                   requests: options as JSON in, counts out
  balancer [FLAGS]                 move targets behind the emulator under traffic, in every way

aws and traffic read FILE before standard input, and end when that is closed.
`

// errUsage means that the command line makes no sense.
var errUsage = errors.New("see the usage above")

func main() {
	harness.Quiet()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	// A second signal ends it at once.
	context.AfterFunc(ctx, stop)
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
	switch verb, rest := args[0], args[1:]; {
	case slices.Contains(clusterVerbs, verb):
		return onCluster(ctx, verb, rest)
	case verb == "prepare" && len(rest) == 0:
		return prepare(ctx)
	case verb == "image" && len(rest) == 2:
		return image(ctx, rest[0], rest[1])
	case verb == "aws" && len(rest) <= 1:
		return withInput(rest, func(in io.Reader) error { return aws.Main(ctx, in, os.Stdout) })
	case verb == "traffic" && len(rest) <= 1:
		return withInput(rest, func(in io.Reader) error { return traffic.Main(ctx, in, os.Stdout) })
	case verb == "balancer":
		return moveTargets(ctx, rest)
	}
	return errUsage
}

// withInput calls do with what a file holds, where there is one, and then standard input.
func withInput(files []string, do func(io.Reader) error) error {
	if len(files) == 0 {
		return do(os.Stdin)
	}
	file, err := os.Open(files[0])
	if err != nil {
		return err
	}
	defer file.Close()
	return do(io.MultiReader(file, os.Stdin))
}

// image builds the product's image under a name, by default that of config/default.
func image(ctx context.Context, dir, named string) error {
	reference, err := images.Named(cmp.Or(named, images.Product))
	if err != nil {
		return fmt.Errorf("IMAGE: %w", err)
	}
	step := progress.To(os.Stdout).Step("building the image")
	archive, err := images.Build(ctx, ".", dir, reference)
	step.Done()
	if err != nil {
		return err
	}
	fmt.Printf("%s holds %s, for docker load, podman load, ctr images import and skopeo\n", archive, reference)
	return nil
}
