package harness

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/mumoshu/ingress-daemonset-controller/test/cluster"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// OldestVariable is what to set, to anything, for tests on the oldest API server that is supported.
const OldestVariable = "OLDEST"

// OnAPIServer runs the tests of a package on an API server of their own, with the controllers of Kubernetes and
// so many simulated nodes, and takes all that down when run returns. Its folder is a new one, with this name in
// its own. It returns the exit code, which is that of run, and 1 where there is an error, which is told.
func OnAPIServer(name string, simulatedNodes int, run func(context.Context, *cluster.Cluster) (code int, err error)) int {
	code, err := onAPIServer(context.Background(), name, simulatedNodes, run)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

func onAPIServer(ctx context.Context, name string, simulatedNodes int, run func(context.Context, *cluster.Cluster) (int, error)) (code int, err error) {
	dir, err := os.MkdirTemp("", name+"-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	c, err := cluster.Start(ctx, cluster.Options{SimulatedNodes: simulatedNodes, Oldest: os.Getenv(OldestVariable) != "", Dir: dir, Log: os.Stderr})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, c.Down(ctx)) }()
	return run(ctx, c)
}

// AdminConfig is the administrator's client configuration, without a limit of requests. Warnings are not told.
func AdminConfig(c *cluster.Cluster) (*rest.Config, error) {
	config, err := c.RESTConfig()
	if err != nil {
		return nil, err
	}
	config.QPS, config.WarningHandlerWithContext = -1, rest.NoWarnings{}
	return config, nil
}

// Admin is the administrator's client.
func Admin(c *cluster.Cluster) (client.WithWatch, error) {
	config, err := AdminConfig(c)
	if err != nil {
		return nil, err
	}
	return Connect(config)
}

// KeepLog keeps the controller's log of tests that failed, in a file of this name, and says where.
func KeepLog(name string, log []byte) error {
	file := filepath.Join(os.TempDir(), name)
	if err := os.WriteFile(file, log, 0o644); err != nil {
		return err
	}
	fmt.Fprintln(os.Stderr, "the controller's log is in", file)
	return nil
}
