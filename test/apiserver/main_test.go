// Package apiserver holds the API server in memory, which unit tests and the simulations write to, to a
// real one.
package apiserver

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/test/cluster"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

const crdFile = "../../config/crd/ingressdaemonsets.yaml"

var (
	scheme = runtime.NewScheme()
	// real is a client of the real API server, to which nobody else writes.
	real client.Client
)

// TestMain plays the same writes each time, so that what fails is the change and not
// the day; -rapid.seed=0 plays others.
func TestMain(m *testing.M) {
	for name, value := range map[string]string{"rapid.checks": "90", "rapid.seed": "20261122", "rapid.nofailfile": "true"} {
		if err := flag.Set(name, value); err != nil {
			panic(err)
		}
	}
	flag.Parse()
	code, err := run(context.Background(), m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func run(ctx context.Context, m *testing.M) (code int, err error) {
	dir, err := os.MkdirTemp("", "apiserver-test-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	c, err := cluster.Start(ctx, cluster.Options{Dir: dir, Log: os.Stderr})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, c.Down(ctx)) }()
	if err := c.StopControllers(ctx); err != nil {
		return 0, err
	}
	if err := connect(ctx, c); err != nil {
		return 0, err
	}
	return m.Run(), nil
}

// connect returns when the CRD is served.
func connect(ctx context.Context, c *cluster.Cluster) error {
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme, apiextensionsv1.AddToScheme} {
		if err := add(scheme); err != nil {
			return err
		}
	}
	config, err := c.RESTConfig()
	if err != nil {
		return err
	}
	config.QPS, config.WarningHandler = -1, rest.NoWarnings{}
	if real, err = client.New(config, client.Options{Scheme: scheme}); err != nil {
		return err
	}
	data, err := os.ReadFile(crdFile)
	if err != nil {
		return err
	}
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.Unmarshal(data, crd); err != nil {
		return err
	}
	if err := real.Create(ctx, crd); err != nil {
		return err
	}
	var last error
	err = wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, 30*time.Second, true, func(ctx context.Context) (bool, error) {
		last = real.Create(ctx, kinds["IngressDaemonSet"].whole("probe", firstContents), client.DryRunAll)
		return last == nil, nil
	})
	if err != nil {
		return fmt.Errorf("the CRD is not served: %w", last)
	}
	return nil
}
