// Package cluster starts a real Kubernetes cluster on one Linux machine, out of
// pinned and locally built binaries: etcd, kube-apiserver,
// kube-controller-manager, kube-scheduler, an image registry, and nodes with
// containerd, kubelet and kube-proxy; and simulated nodes by the thousand.
//
// Every machine of the cluster is a set of namespaces (package machine). The
// machine "host" is the network outside the nodes: it holds the bridge, the
// control plane and the registry, and is where external load balancers and
// clients run. The namespaces of the caller get one loopback port, for
// kubectl, and nothing else. Without root there are no namespaces and no
// nodes, but the control plane and simulated nodes are the same.
//
// Read cluster.go, controlplane.go, node.go, network_linux.go in this order;
// the other files serve these.
package cluster

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/mumoshu/ingress-daemonset-controller/test/cluster/machine"
	"github.com/mumoshu/ingress-daemonset-controller/test/cluster/progress"
)

const defaultDir = ".cluster"

// Options say what cluster to start.
type Options struct {
	// Nodes is the number of real nodes, named node-1, node-2 and so on. They
	// need root. 0 starts a control plane only.
	Nodes int
	// SimulatedNodes is the number of nodes, named simulated-1 and so on, on
	// which kwok pretends that pods run.
	SimulatedNodes int
	// Oldest asks for a control plane of the oldest Kubernetes that is supported, to which real nodes
	// would be too new.
	Oldest bool
	// Dir is where the cluster keeps its files, by default ".cluster". Two
	// clusters with different folders do not know of each other.
	Dir string
	// Packages are Debian packages to install beside those that nodes need, each
	// with a program of its name.
	Packages []string
	// Log gets a line for each step, and how far long ones are; by default nothing is said.
	Log io.Writer

	withoutNamespaces bool
}

// Cluster is a running cluster.
type Cluster struct {
	dir   string
	state state
	host  *machine.Machine
	nodes []*Node
}

// state is what a cluster's folder says about it, so that it can be attached
// to.
type state struct {
	Nodes          int  `json:"nodes"`
	SimulatedNodes int  `json:"simulatedNodes"`
	Oldest         bool `json:"oldest,omitempty"`
	Isolated       bool `json:"isolated"`
	// Server is the URL of the API server for those inside the cluster.
	Server string `json:"server"`
	// Kubectl is a kubectl of the cluster's version.
	Kubectl string `json:"kubectl"`
}

// Start starts a cluster, and takes down first what is left of an earlier one
// in the same folder. The cluster outlives the calling process.
//
// It returns when every node is ready and pods can be created. When it fails
// it leaves nothing but the logs.
func Start(ctx context.Context, o Options) (*Cluster, error) {
	if o.Oldest && o.Nodes > 0 {
		return nil, errors.New("start cluster: with the oldest control plane nodes can only be simulated")
	}
	if o.Nodes < 0 || o.Nodes > maxNodes || o.SimulatedNodes < 0 {
		return nil, fmt.Errorf("start cluster: %d nodes and %d simulated ones: the first may be 0 to %d, the second not negative", o.Nodes, o.SimulatedNodes, maxNodes)
	}
	dir, err := makeDir(o.Dir)
	if err != nil {
		return nil, err
	}
	c := &Cluster{dir: dir, state: state{
		Nodes:          o.Nodes,
		SimulatedNodes: o.SimulatedNodes,
		Oldest:         o.Oldest,
		Isolated:       runtime.GOOS == "linux" && os.Geteuid() == 0 && !o.withoutNamespaces,
	}}
	unlock, err := lock(ctx, c.path("lock"))
	if err != nil {
		return nil, err
	}
	defer unlock()
	if err := c.takeDown(ctx); err != nil {
		return nil, err
	}
	if err := c.start(ctx, o.Packages, progress.To(o.Log)); err != nil {
		return nil, fmt.Errorf("start cluster (logs are in %s): %w", c.logs(), errors.Join(err, c.takeDown(context.WithoutCancel(ctx))))
	}
	return c, nil
}

func (c *Cluster) start(ctx context.Context, packages []string, log *progress.Log) error {
	programs, err := c.prepare(ctx, packages, log)
	if err != nil {
		return err
	}
	if err := c.buildOwn(ctx, programs, log); err != nil {
		return err
	}
	if err := c.clearLogs(); err != nil {
		return err
	}
	c.state.Kubectl = programs.path("kubectl")
	step := log.Step("starting the control plane")
	ca, err := c.startControlPlane(ctx, programs)
	step.Done()
	if err != nil {
		return err
	}
	if err := c.populate(ctx, programs, ca, log); err != nil {
		return err
	}
	log.Say("ready: export KUBECONFIG=%s", c.Kubeconfig())
	return nil
}

// buildOwn builds the programs of this module that run in the cluster.
func (c *Cluster) buildOwn(ctx context.Context, programs *binaries, log *progress.Log) error {
	defer log.Step("building what runs the machines").Done()
	return programs.addOwn(ctx, c.path("bin"))
}

// populate starts all nodes, and returns when they are ready and pods can be created.
func (c *Cluster) populate(ctx context.Context, programs *binaries, ca *authority, log *progress.Log) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return c.waitForServiceAccount(ctx) })
	if c.state.Nodes > 0 {
		step := log.Step("starting %d nodes", c.state.Nodes)
		group.Go(func() error {
			defer step.Done()
			return c.startNodes(ctx, programs, ca, step)
		})
	}
	if c.state.SimulatedNodes > 0 {
		step := log.Step("creating %d simulated nodes", c.state.SimulatedNodes)
		group.Go(func() error {
			defer step.Done()
			return c.createSimulatedNodes(ctx, step)
		})
	}
	return group.Wait()
}

// Prepare installs and builds all that Start would, which takes minutes the
// first time, and starts nothing.
func Prepare(ctx context.Context, o Options) error {
	c := &Cluster{state: state{Nodes: o.Nodes, SimulatedNodes: o.SimulatedNodes}}
	_, err := c.prepare(ctx, o.Packages, progress.To(o.Log))
	return err
}

func (c *Cluster) prepare(ctx context.Context, packages []string, log *progress.Log) (*binaries, error) {
	if c.state.Nodes > 0 {
		if err := meetRequirements(ctx, c.state.Nodes, packages, log); err != nil {
			return nil, err
		}
	}
	return buildTools(ctx, c.tools(), log)
}

func (c *Cluster) tools() []tool {
	var tools []tool
	for _, t := range controlPlaneTools {
		if c.state.Oldest && t.module == currentKubernetes {
			t.module = oldestKubernetes
		}
		tools = append(tools, t)
	}
	if c.state.Nodes > 0 {
		tools = append(tools, nodeTools...)
	}
	if c.state.SimulatedNodes > 0 {
		tools = append(tools, simulationTools...)
	}
	return tools
}

// Attach returns the cluster that runs in dir, by default ".cluster". It fails
// when none does.
func Attach(dir string) (*Cluster, error) {
	resolved, err := resolveDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("no cluster runs in %s", cmp.Or(dir, defaultDir))
	}
	if err != nil {
		return nil, err
	}
	c := &Cluster{dir: resolved}
	data, err := os.ReadFile(c.path("cluster.json"))
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("no cluster runs in %s", c.dir)
	}
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(data, &c.state); err != nil {
		return nil, fmt.Errorf("%s: %w", c.path("cluster.json"), err)
	}
	c.assemble()
	if _, err := c.host.PID(); err != nil {
		return nil, fmt.Errorf("no cluster runs in %s any more, it was not taken down: %w", c.dir, err)
	}
	return c, nil
}

// assemble makes the handles of the machines that the state speaks of.
func (c *Cluster) assemble() {
	c.host = machine.Open(c.path("machines", "host"))
	for number := 1; number <= c.state.Nodes; number++ {
		c.nodes = append(c.nodes, newNode(c, number))
	}
}

func (c *Cluster) writeState() error {
	data, err := json.Marshal(c.state)
	if err != nil {
		return err
	}
	return os.WriteFile(c.path("cluster.json"), data, 0o644)
}

// Kubeconfig is the file with which an administrator reaches the cluster.
func (c *Cluster) Kubeconfig() string { return c.path("kubeconfig") }

// RESTConfig is the administrator's client configuration.
func (c *Cluster) RESTConfig() (*rest.Config, error) {
	return clientcmd.BuildConfigFromFlags("", c.Kubeconfig())
}

// Server is the URL of the API server for those inside the cluster.
func (c *Cluster) Server() string { return c.state.Server }

// AuditLog is the file with one JSON audit event a line, at level Metadata.
func (c *Cluster) AuditLog() string { return c.path("audit.log") }

// Dir is the cluster's folder, absolute.
func (c *Cluster) Dir() string { return c.dir }

// Nodes returns the real nodes.
func (c *Cluster) Nodes() []*Node { return c.nodes }

// HostIP is the address of the host on the nodes' network.
func (c *Cluster) HostIP() string {
	if !c.state.Isolated {
		return "127.0.0.1"
	}
	return hostAddress
}

func (c *Cluster) client() (kubernetes.Interface, error) {
	config, err := c.RESTConfig()
	if err != nil {
		return nil, err
	}
	config.QPS = -1
	return kubernetes.NewForConfig(config)
}

func (c *Cluster) path(elements ...string) string {
	return filepath.Join(append([]string{c.dir}, elements...)...)
}

func (c *Cluster) logs() string { return c.path("logs") }

func (c *Cluster) clearLogs() error {
	for _, path := range []string{c.logs(), c.AuditLog()} {
		if err := os.RemoveAll(path); err != nil {
			return err
		}
	}
	return os.MkdirAll(c.logs(), 0o755)
}

// resolveDir returns the one name of a cluster's folder, by which its processes
// are marked and its control groups are called.
func resolveDir(dir string) (string, error) {
	absolute, err := filepath.Abs(cmp.Or(dir, defaultDir))
	if err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(absolute)
}

func makeDir(dir string) (string, error) {
	if err := os.MkdirAll(cmp.Or(dir, defaultDir), 0o755); err != nil {
		return "", err
	}
	return resolveDir(dir)
}

// sleep waits unless the context ends first.
func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
