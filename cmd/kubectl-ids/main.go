// Command kubectl-ids is the kubectl plugin, which kubectl runs as kubectl ids. Under its second name
// kubectl_complete-ids it completes what follows that in a shell.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/go-logr/logr"
	"github.com/mumoshu/ingress-daemonset-controller/internal/kubectl"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// version is set by the linker in a release.
var version = "of a build from source"

func main() {
	// The library's client complains on a terminal if nobody says where its log goes.
	log.SetLogger(logr.Discard())
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	streams := genericiooptions.IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr}
	command := kubectl.NewCommand(streams, version)
	command.SetArgs(kubectl.Arguments(os.Args))
	if err := command.ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}
