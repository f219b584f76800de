package cluster

import (
	"context"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mumoshu/ingress-daemonset-controller/test/cluster/machine"
	"github.com/mumoshu/ingress-daemonset-controller/test/cluster/progress"
)

// Node is a real node: a machine with containerd, kubelet and kube-proxy.
type Node struct {
	cluster *Cluster
	number  int
	machine *machine.Machine
}

func newNode(c *Cluster, number int) *Node {
	n := &Node{cluster: c, number: number}
	n.machine = machine.Open(n.dir())
	return n
}

// Name is the name of the node's Node object.
func (n *Node) Name() string { return fmt.Sprintf("node-%d", n.number) }

// IP is the node's address, its InternalIP.
func (n *Node) IP() string { return nodeAddress(n.number) }

// PodSubnet is the network of the node's pods, in CIDR notation.
func (n *Node) PodSubnet() string { return podSubnet(n.number) }

// Zone is the value of the node's label topology.kubernetes.io/zone: zone-a,
// zone-b and zone-c in turn.
func (n *Node) Zone() string { return zone(n.number - 1) }

func zone(index int) string { return "zone-" + string(rune('a'+index%3)) }

// Stop powers the node off: kubelet, containerd and all pods are gone at once,
// and its address answers no more.
func (n *Node) Stop(ctx context.Context) error {
	if err := n.unplug(); err != nil {
		return err
	}
	return n.machine.PowerOff(ctx)
}

// Start powers the node on and returns when its kubelet reports it ready.
func (n *Node) Start(ctx context.Context) error {
	if _, err := n.machine.PID(); err == nil {
		return fmt.Errorf("start %s: it is powered on", n.Name())
	}
	spec, err := machine.ReadSpec(n.dir())
	if err != nil {
		return err
	}
	// Heartbeats are to the second, and that of this boot shall be told from
	// the last of the one before.
	if err := sleep(ctx, time.Until(time.Now().Truncate(time.Second).Add(time.Second))); err != nil {
		return err
	}
	return n.boot(ctx, *spec)
}

// Disconnect pulls the node's network cable.
func (n *Node) Disconnect(context.Context) error { return n.setCable(false) }

// Reconnect plugs the node's network cable in again.
func (n *Node) Reconnect(context.Context) error { return n.setCable(true) }

// StopService kills one of containerd, kubelet and kube-proxy on the node.
// Pods go on running.
func (n *Node) StopService(ctx context.Context, name string) error {
	return n.machine.StopService(ctx, name)
}

// StartService starts a service that StopService has stopped.
func (n *Node) StartService(ctx context.Context, name string) error {
	return n.machine.StartService(ctx, name)
}

// File is where a file of the node is seen from outside. It fails when the node is
// powered off.
func (n *Node) File(path string) (string, error) {
	pid, err := n.machine.PID()
	return fmt.Sprintf("/proc/%d/root%s", pid, path), err
}

// KubeletConfig is the file that configures the kubelet, read when that starts.
func (n *Node) KubeletConfig() string { return filepath.Join(n.dir(), "kubelet.yaml") }

func (n *Node) dir() string { return n.cluster.path("machines", n.Name()) }

// startNodes boots all nodes and returns when they are ready.
func (c *Cluster) startNodes(ctx context.Context, programs *binaries, ca *authority, step *progress.Step) error {
	var ready atomic.Int32
	group, ctx := errgroup.WithContext(ctx)
	for _, n := range c.nodes {
		spec, err := n.spec(programs, ca)
		if err != nil {
			return err
		}
		group.Go(func() error {
			if err := n.boot(ctx, spec); err != nil {
				return err
			}
			step.Far("%d of %d are ready", ready.Add(1), len(c.nodes))
			return nil
		})
	}
	return group.Wait()
}

func (n *Node) boot(ctx context.Context, spec machine.Spec) error {
	if err := makeControlGroups(ctx, spec.ControlGroups); err != nil {
		return err
	}
	since := time.Now().Truncate(time.Second)
	_, err := machine.Boot(ctx, spec, machine.BootOptions{
		Init:    n.cluster.path("bin", "init"),
		Connect: n.connect,
	})
	if err != nil {
		return err
	}
	return n.waitUntilReady(ctx, since)
}

// waitUntilReady waits for a heartbeat that says ready and is not older than
// since: the Node object of a node that was away may not know it yet.
func (n *Node) waitUntilReady(ctx context.Context, since time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	client, err := n.cluster.client()
	if err != nil {
		return err
	}
	for {
		node, err := client.CoreV1().Nodes().Get(ctx, n.Name(), metav1.GetOptions{})
		if err == nil && readySince(node, since) {
			return nil
		}
		if sleep(ctx, 200*time.Millisecond) != nil {
			return fmt.Errorf("%s is not ready: %w", n.Name(), readyError(node, err))
		}
	}
}

// readySince tells whether a node has reported itself ready, and takes pods.
func readySince(node *corev1.Node, since time.Time) bool {
	for _, taint := range node.Spec.Taints {
		// Set and removed by the node lifecycle controller, a little later.
		if taint.Key == corev1.TaintNodeNotReady || taint.Key == corev1.TaintNodeUnreachable {
			return false
		}
	}
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			return condition.Status == corev1.ConditionTrue && !condition.LastHeartbeatTime.Time.Before(since)
		}
	}
	return false
}

func readyError(node *corev1.Node, err error) error {
	if err != nil {
		return err
	}
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			return fmt.Errorf("%s: %s", condition.Reason, condition.Message)
		}
	}
	return fmt.Errorf("its kubelet has not reported yet")
}
