// Package e2e rolls out real proxies on a real cluster under traffic. Every test
// has a control: the same rollout, of which the load balancer is not told. If
// the control loses nothing, the test proves nothing and fails. Tests wait most of their
// time: make test plays two halves of them at the same time, each on a cluster of its own.
package e2e

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/mumoshu/ingress-daemonset-controller/test/cluster"
	"github.com/mumoshu/ingress-daemonset-controller/test/harness"
)

// nodes is how many real nodes there are.
const nodes = 3

// theHarness is shared by the tests, which take turns on it.
var theHarness *harness.Harness

func TestMain(m *testing.M) {
	os.Exit(harness.Main(cmp.Or(os.Getenv("E2E_CLUSTER"), "ids-e2e"), func(ctx context.Context, dir string) int { return run(ctx, dir, m) }))
}

func run(ctx context.Context, dir string, m *testing.M) int {
	var err error
	theHarness, err = harness.SetUp(ctx, cluster.Options{Nodes: nodes, Dir: dir, Packages: []string{"prometheus", "dbus-daemon", "socat", "chromium"}, Log: os.Stdout})
	if err != nil {
		fmt.Println("setting up:", err)
		return 1
	}
	if err := theHarness.LabelNodes(ctx); err != nil {
		fmt.Println("setting up:", err)
		return 1
	}
	crashes := theHarness.WatchCrashes(ctx)
	code := m.Run()
	if err := crashes(); err != nil {
		fmt.Println(err)
		code = 1
	}
	if err := checkPermissions(ctx); err != nil {
		fmt.Println(err)
		code = 1
	}
	return code
}
