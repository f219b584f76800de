// Package harness sets up what a rollout is tested on: a local cluster with the
// controller installed, real proxies, a real load balancer in front of the
// nodes, and a client that counts every request. The demonstration, the tests on
// the real cluster and the benchmarks use it. For tests that need no node it starts
// an API server (OnAPIServer).
package harness

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/go-logr/logr"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/test/cluster"
	"github.com/mumoshu/ingress-daemonset-controller/test/cluster/progress"
	"github.com/mumoshu/ingress-daemonset-controller/tools/images"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
)

// proxies are the images that examples/ names, by the Debian package that they
// are made of.
var proxies = map[string][]string{
	"nginx": {
		"docker.io/library/nginx:1.22",
		"quay.io/kubernetes-ingress-controller/nginx-ingress-controller:0.26.1",
	},
	"haproxy": {"docker.io/library/haproxy:2.6"},
	"caddy":   {"docker.io/library/caddy:2.6"},
}

// Harness is a cluster with the controller on it.
type Harness struct {
	*cluster.Cluster
	client.WithWatch
	root string
	log  *progress.Log
}

// Open attaches to the cluster in dir.
func Open(dir string, log io.Writer) (*Harness, error) {
	c, err := cluster.Attach(dir)
	if err != nil {
		return nil, err
	}
	return on(c, log)
}

// SetUp starts a cluster, installs the controller, and makes images
// available to it.
func SetUp(ctx context.Context, o cluster.Options) (*Harness, error) {
	c, err := cluster.Start(ctx, o)
	if err != nil {
		return nil, err
	}
	s, err := on(c, o.Log)
	if err != nil {
		return nil, err
	}
	if err := s.Deploy(ctx); err != nil {
		return s, err
	}
	return s, s.PushImages(ctx)
}

// Quiet has the client's library say nothing. A program calls it first: if nobody says within half a
// minute where that is to log, it complains with a stack.
func Quiet() { ctrllog.SetLogger(logr.Discard()) }

func on(c *cluster.Cluster, log io.Writer) (*Harness, error) {
	config, err := c.RESTConfig()
	if err != nil {
		return nil, err
	}
	config.QPS, config.Burst = 200, 400
	config.WarningHandlerWithContext = rest.NoWarnings{}
	api, err := Connect(config)
	if err != nil {
		return nil, fmt.Errorf("connecting to the cluster: %w", err)
	}
	root, err := moduleRoot(context.Background())
	return &Harness{Cluster: c, WithWatch: api, root: root, log: progress.To(log)}, err
}

// Connect is a client that knows Kubernetes' kinds and this project's.
func Connect(config *rest.Config) (client.WithWatch, error) {
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		return nil, err
	}
	return client.NewWithWatch(config, client.Options{Scheme: scheme})
}

// moduleRoot is the folder of this project.
func moduleRoot(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "github.com/mumoshu/ingress-daemonset-controller").Output()
	if err != nil {
		return "", fmt.Errorf("finding the project's folder: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}

// Root is the folder of this project.
func (s *Harness) Root() string { return s.root }

// Step says that something begins that may take a while; its Done is to be called.
func (s *Harness) Step(format string, args ...any) *progress.Step { return s.log.Step(format, args...) }

// Deploy builds the controller's image, gives it to the cluster's registry, and
// installs or updates the controller, with what its proxies need, and flags beside --proxies.
func (s *Harness) Deploy(ctx context.Context, more ...string) error {
	if err := s.pushProduct(ctx); err != nil {
		return err
	}
	var flags []string
	for _, flag := range append([]string{"--proxies"}, more...) {
		flags = append(flags, fmt.Sprintf(`{"op":"add","path":"/spec/template/spec/containers/0/args/-","value":%q}`, flag))
	}
	defer s.Step("installing the controller").Done()
	return s.kubectl(ctx,
		[]string{"apply", "--server-side", "--force-conflicts", "-k", filepath.Join(s.root, "config", "default")},
		[]string{"apply", "--server-side", "--force-conflicts", "-k", filepath.Join(s.root, "config", "proxies")},
		[]string{"-n", Namespace, "patch", "deployment", "ingress-daemonset-controller", "--type=json",
			"-p", "[" + strings.Join(flags, ",") + "]"},
		// The nodes must not keep an earlier image of the same name.
		[]string{"-n", Namespace, "patch", "deployment", "ingress-daemonset-controller", "--type=json",
			"-p", `[{"op":"replace","path":"/spec/template/spec/containers/0/imagePullPolicy","value":"Always"}]`},
		[]string{"-n", Namespace, "rollout", "restart", "deployment", "ingress-daemonset-controller"},
		[]string{"-n", Namespace, "rollout", "status", "deployment", "ingress-daemonset-controller", "--timeout=180s"})
}

// pushProduct builds the controller's image and gives it to the cluster's registry.
func (s *Harness) pushProduct(ctx context.Context) error {
	defer s.Step("building the controller's image (minutes when nothing is cached)").Done()
	tar, err := images.Build(ctx, s.root, s.Dir(), images.Product)
	if err != nil {
		return err
	}
	return s.PushImage(ctx, images.Product, tar)
}

// UseImage installs the controller with another image, which becomes that of the
// health checkers too, and waits until it runs.
func (s *Harness) UseImage(ctx context.Context, image string) error {
	patch := fmt.Sprintf(`{"spec":{"template":{"spec":{"containers":[{"name":"controller","image":%q,"env":[{"name":"HEALTHCHECKER_IMAGE","value":%q}]}]}}}}`, image, image)
	return s.kubectl(ctx,
		[]string{"-n", Namespace, "patch", "deployment", "ingress-daemonset-controller", "-p", patch},
		[]string{"-n", Namespace, "rollout", "status", "deployment", "ingress-daemonset-controller", "--timeout=180s"})
}

// kubectl runs kubectl once for each list of arguments.
func (s *Harness) kubectl(ctx context.Context, calls ...[]string) error {
	for _, args := range calls {
		if out, err := s.Kubectl(ctx, args...).CombinedOutput(); err != nil {
			return fmt.Errorf("kubectl %s: %w: %s", strings.Join(args, " "), err, out)
		}
	}
	return nil
}

// Namespace is the controller's.
const Namespace = "ingress-daemonset-system"

// BuildTool builds one of the project's programs for tests and returns its path.
func (s *Harness) BuildTool(ctx context.Context, pkg string) (string, error) {
	path := filepath.Join(s.Dir(), "bin", strings.ReplaceAll(strings.TrimPrefix(pkg, "./"), "/", "-"))
	build := exec.CommandContext(ctx, "go", "build", "-o", path, pkg)
	build.Dir, build.Env = s.root, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building %s: %w: %s", pkg, err, out)
	}
	return path, nil
}

// Lab is test/lab, to be started in the network of the cluster's host: as the emulator of AWS, or to
// send traffic. It is built where that was not done before.
func (s *Harness) Lab(ctx context.Context, verb string) (*exec.Cmd, error) {
	program, err := s.BuildTool(ctx, "./test/lab")
	if err != nil {
		return nil, err
	}
	return s.Command(context.WithoutCancel(ctx), program, verb), nil
}

// PushImages makes the images that examples/ and the guides name, and that are built here, available to the cluster.
func (s *Harness) PushImages(ctx context.Context) error {
	count := len(proxies) + 1
	for i, name := range slices.Sorted(maps.Keys(proxies)) {
		if err := s.pushProxy(ctx, name, fmt.Sprintf("%d/%d", i+1, count)); err != nil {
			return err
		}
	}
	return s.pushCheeses(ctx, fmt.Sprintf("%d/%d", count, count))
}

// pushProxy makes the image of a proxy available under all its names; place is which of how many it is.
func (s *Harness) pushProxy(ctx context.Context, name, place string) error {
	defer s.Step("making the image of %s (%s)", name, place).Done()
	image, err := images.Proxy(ctx, name)
	if err != nil {
		return err
	}
	return s.pushAs(ctx, name, image, proxies[name]...)
}

// pushCheeses makes what the guide to Ingresses sends requests to available.
func (s *Harness) pushCheeses(ctx context.Context, place string) error {
	defer s.Step("making the images of three cheeses (%s)", place).Done()
	cheeses, err := images.Cheeses(ctx)
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(cheeses)) {
		if err := s.pushAs(ctx, name, cheeses[name], "docker.io/mumoshu/cheese:"+name); err != nil {
			return err
		}
	}
	return nil
}

// pushAs makes an image available under references; name is that of its archive.
func (s *Harness) pushAs(ctx context.Context, name string, image v1.Image, references ...string) error {
	tar := filepath.Join(s.Dir(), name+".tar")
	if err := images.Write(tar, references[0], image); err != nil {
		return err
	}
	for _, ref := range references {
		if err := s.PushImage(ctx, ref, tar); err != nil {
			return err
		}
	}
	return nil
}
