// Package e2e rolls out real proxies on a real cluster under traffic. Every test
// has a control: the same rollout, of which the load balancer is not told. If
// the control loses nothing, the test proves nothing and fails. Most tests wait most of
// their time: two run at the same time, each on nodes of its own, and beside them what needs
// none of these nodes.
package e2e

import (
	"context"
	"flag"
	"fmt"
	"os"
	"strconv"
	"testing"

	"github.com/mumoshu/ingress-daemonset-controller/test/cluster"
	"github.com/mumoshu/ingress-daemonset-controller/test/harness"
)

// theHarness is shared by the tests, which take turns on its lanes.
var theHarness *harness.Harness

func TestMain(m *testing.M) {
	// A flag that is given counts for more.
	if err := flag.Set("test.parallel", strconv.Itoa(lanes+1)); err != nil {
		panic(err)
	}
	os.Exit(harness.Main("ids-e2e", func(ctx context.Context, dir string) int { return run(ctx, dir, m) }))
}

func run(ctx context.Context, dir string, m *testing.M) int {
	var err error
	theHarness, err = harness.SetUp(ctx, cluster.Options{Nodes: lanes * nodes, Dir: dir, Packages: []string{"prometheus", "dbus-daemon", "socat"}, Log: os.Stdout})
	if err != nil {
		fmt.Println("setting up:", err)
		return 1
	}
	if err := openLanes(ctx); err != nil {
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
