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

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/testing/await"
	"github.com/mumoshu/ingress-daemonset-controller/test/cluster"
	"github.com/mumoshu/ingress-daemonset-controller/test/harness"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
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
	os.Exit(harness.OnAPIServer("apiserver-test", 0, func(ctx context.Context, c *cluster.Cluster) (int, error) {
		if err := c.StopControllers(ctx); err != nil {
			return 0, err
		}
		if err := connect(ctx, c); err != nil {
			return 0, err
		}
		return m.Run(), nil
	}))
}

// connect returns when the CRD is served.
func connect(ctx context.Context, c *cluster.Cluster) error {
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme), apiextensionsv1.AddToScheme(scheme)); err != nil {
		return err
	}
	config, err := harness.AdminConfig(c)
	if err != nil {
		return err
	}
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
	err = await.NoError(ctx, func() error {
		return real.Create(ctx, kinds["IngressDaemonSet"].whole("probe", firstContents), client.DryRunAll)
	})
	if err != nil {
		return fmt.Errorf("the CRD is not served: %w", err)
	}
	return nil
}
