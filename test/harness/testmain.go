package harness

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/mumoshu/ingress-daemonset-controller/test/cluster"
)

// Main runs the tests of a package on a cluster in a folder of this name, and takes
// that down whatever ends the tests. It returns the exit code; without root, it is 0
// and nothing runs.
func Main(name string, run func(ctx context.Context, dir string) int) int {
	if os.Getuid() != 0 {
		fmt.Println("skipped: real nodes need root")
		return 0
	}
	Quiet()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// Always the same folder, so that what a run that was killed left is found.
	dir := filepath.Join(os.TempDir(), name)
	defer os.RemoveAll(dir)
	down := func() { _ = cluster.Down(context.WithoutCancel(ctx), dir) }
	defer down()
	interrupted := context.AfterFunc(ctx, func() {
		down()
		os.Exit(1)
	})
	defer interrupted()
	return run(ctx, dir)
}
