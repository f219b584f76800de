package conformance

import (
	"context"
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/test/cluster"
	"github.com/mumoshu/ingress-daemonset-controller/test/harness"
	"github.com/mumoshu/ingress-daemonset-controller/tools/images"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// addresses are those that Gateways may have, in the network of nodes. Each leads to one node there: so there
	// is one node.
	addresses = "10.10.2.0/26"
	// usable is the last of them to be assigned, unusable is none of them.
	usable, unusable = "10.10.2.63", "10.10.3.1"
)

//go:embed class.yaml
var class []byte

// backends are the images that the suite's manifests name. All are made of its backend, also that of a DNS server,
// which has to run but is asked by tests of UDPRoutes alone.
var backends = []string{
	"registry.k8s.io/gateway-api/echo-basic:v1.5.1",
	"registry.k8s.io/gateway-api/echo-basic:v1.6.0-dev.3",
	"registry.k8s.io/coredns/coredns:v1.12.2",
}

// setup is a cluster where proxies serve the suite's GatewayClass.
type setup struct {
	*harness.Harness
	*Programs
}

func setUp(ctx context.Context, dir string) (*setup, error) {
	if _, err := cluster.Start(ctx, cluster.Options{Nodes: 1, Dir: dir, Log: os.Stdout}); err != nil {
		return nil, err
	}
	h, err := harness.Open(dir, os.Stdout)
	if err != nil {
		return nil, err
	}
	s := &setup{Harness: h}
	for _, step := range []func(context.Context) error{s.build, s.pushBackends, s.deploy, s.startProxies, s.writeKubeconfig} {
		if err := step(ctx); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func (s *setup) build(ctx context.Context) (err error) {
	defer s.Step("building the suite").Done()
	s.Programs, err = Build(ctx, s.Root(), s.Dir())
	return err
}

func (s *setup) pushBackends(ctx context.Context) error {
	defer s.Step("making the image of the suite's backends").Done()
	image, err := images.Program(s.backend())
	if err != nil {
		return err
	}
	archive := s.backend() + ".tar"
	if err := images.Write(archive, backends[0], image); err != nil {
		return err
	}
	for _, reference := range backends {
		if err := s.PushImage(ctx, reference, archive); err != nil {
			return err
		}
	}
	return nil
}

// deploy installs the controller, two replicas of which each may have the other proxy.
func (s *setup) deploy(ctx context.Context) error {
	return s.Deploy(ctx, "--gateway-addresses="+addresses)
}

// startProxies installs the Gateway API where the controller runs already, and has proxies serve its class.
func (s *setup) startProxies(ctx context.Context) error {
	defer s.Step("starting proxies of a GatewayClass").Done()
	crds, err := s.crds(ctx)
	if err != nil {
		return err
	}
	if err := run(s.Kubectl(ctx, "apply", "--server-side", "-f", crds)); err != nil {
		return err
	}
	// The node takes all addresses for its own, also those that no Gateway has yet.
	if err := run(s.Nodes()[0].Command(ctx, "ip", "route", "add", "local", addresses, "dev", "lo")); err != nil {
		return err
	}
	proxy, err := s.Example("proxy.yaml")
	if err != nil {
		return err
	}
	classes, err := harness.ParseManifest(class)
	if err != nil {
		return err
	}
	// Without the IngressClass that stands there too: Ingresses would have port 80 of all addresses.
	set := proxy.Kind(v1alpha1.Kind.Kind)
	if err := s.Apply(ctx, set.GetNamespace(), append(classes, set)); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	fleet := harness.Fleet{Harness: s.Harness, Key: client.ObjectKeyFromObject(set)}
	if err := fleet.WaitServing(ctx); err != nil {
		return err
	}
	return s.waitFeatures(ctx, classes[0])
}

// waitFeatures waits until the class says which features are supported, which the suite goes by.
func (s *setup) waitFeatures(ctx context.Context, class *unstructured.Unstructured) error {
	return harness.Wait(ctx, "the GatewayClass to say which features are supported", func() (bool, error) {
		err := s.Get(ctx, client.ObjectKeyFromObject(class), class)
		features, _, _ := unstructured.NestedSlice(class.Object, "status", "supportedFeatures")
		return len(features) > 0, err
	})
}

// writeKubeconfig writes that with which the suite reaches the API server, from inside the cluster's network.
func (s *setup) writeKubeconfig(context.Context) error {
	config, err := clientcmd.LoadFromFile(s.Kubeconfig())
	if err != nil {
		return err
	}
	for _, to := range config.Clusters {
		to.Server = s.Server()
	}
	return clientcmd.WriteToFile(*config, s.inside())
}

func (s *setup) inside() string { return filepath.Join(s.Dir(), "inside.kubeconfig") }

func run(cmd *exec.Cmd) error {
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", strings.Join(cmd.Args, " "), err, out)
	}
	return nil
}
