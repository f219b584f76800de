// Package e2e rolls out real proxies on a real cluster under traffic. Every test
// has a control: the same rollout, of which the load balancer is not told. If
// the control loses nothing, the test proves nothing and fails.
package e2e

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/mumoshu/ingress-daemonset-controller/test/cluster"
	"github.com/mumoshu/ingress-daemonset-controller/test/stage"
)

// nodes is how many real nodes the tests share.
const nodes = 3

// theStage is shared by the tests, which take turns.
var theStage *stage.Stage

func TestMain(m *testing.M) {
	if os.Getuid() != 0 {
		fmt.Println("test/e2e: skipped: real nodes need root")
		return
	}
	os.Exit(run(m))
}

func run(m *testing.M) int {
	ctx, _ := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// Always the same folder, so that what a run that was killed left is found.
	dir := filepath.Join(os.TempDir(), "ids-e2e")
	defer os.RemoveAll(dir)
	down := func() { _ = cluster.Down(context.WithoutCancel(ctx), dir) }
	defer down()
	context.AfterFunc(ctx, func() {
		down()
		os.Exit(1)
	})
	var err error
	theStage, err = stage.SetUp(ctx, cluster.Options{Nodes: nodes, Dir: dir, Packages: []string{"prometheus", "skopeo"}, Log: os.Stdout})
	if err != nil {
		fmt.Println("setting up:", err)
		return 1
	}
	if err := theStage.LabelNodes(ctx); err != nil {
		fmt.Println("setting up:", err)
		return 1
	}
	code := m.Run()
	if err := checkPermissions(ctx); err != nil {
		fmt.Println(err)
		code = 1
	}
	return code
}
