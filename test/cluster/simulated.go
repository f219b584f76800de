package cluster

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mumoshu/ingress-daemonset-controller/test/cluster/progress"
)

// kwokAnnotation marks the nodes that kwok manages.
const kwokAnnotation = "kwok.x-k8s.io/node"

// leaseSeconds is how long the lease of a simulated node lasts. Renewing 5,000
// leases every 10 s, as kubelets do, would keep this machine busy with nothing
// else; so there are at most 100 renewals a second.
func (c *Cluster) leaseSeconds() int {
	return max(40, c.state.SimulatedNodes*4/100)
}

func (c *Cluster) kwokArgs(config string) []string {
	return []string{"--kubeconfig=" + c.kubeconfigOf("kwok"), "--config=" + config, "-v=WARN"}
}

// kwokStages say what kwok does with nodes and pods. They are part of its
// module.
var kwokStages = []string{
	"node/fast/node-initialize.yaml",
	"node/heartbeat-with-lease/node-heartbeat-with-lease.yaml",
	"pod/fast/pod-ready.yaml",
	"pod/fast/pod-complete.yaml",
	"pod/fast/pod-delete.yaml",
}

// writeKwokConfig writes one file of kwok's options and stages, and returns
// where it is.
func (c *Cluster) writeKwokConfig(ctx context.Context, programs *binaries) (string, error) {
	dir := c.path("machines", "host")
	options, err := writeConfig(dir, "kwok.yaml", map[string]any{
		"PodNetwork": simulatedPodNetwork, "Selector": kwokAnnotation + "=fake", "LeaseSeconds": c.leaseSeconds(),
	})
	if err != nil {
		return "", err
	}
	module, err := pinned(ctx, filepath.Join(programs.source, "tools", "kwok"), "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/kwok")
	if err != nil {
		return "", err
	}
	files := []string{options}
	for _, stage := range kwokStages {
		files = append(files, filepath.Join(module, "kustomize", "stage", stage))
	}
	var documents []string
	for _, file := range files {
		document, err := os.ReadFile(file)
		if err != nil {
			return "", err
		}
		documents = append(documents, string(document))
	}
	if err := startWhenMade(documents); err != nil {
		return "", err
	}
	return writeFile(dir, "kwok.yaml", strings.Join(documents, "\n---\n"))
}

// startWhenMade lets pods be ready since they were made, instead of since kwok looked: it
// looks twice where it has not seen its own first answer yet, on a busy machine at most
// pods, and each of the two would otherwise be a change that all controllers hear of.
func startWhenMade(stages []string) error {
	const now, made = "{{ $now := Now }}", "{{ $now := .metadata.creationTimestamp }}"
	for i, stage := range stages {
		if strings.Contains(stage, "name: pod-ready") && strings.Contains(stage, now) {
			stages[i] = strings.Replace(stage, now, made, 1)
			return nil
		}
	}
	return fmt.Errorf("kwok's stage pod-ready does not say %s any more", now)
}

// HeartbeatPeriod is how often a simulated node renews its lease.
func (c *Cluster) HeartbeatPeriod() time.Duration {
	return time.Duration(c.leaseSeconds()) * time.Second / 4
}

// createSimulatedNodes creates the Node objects, which kwok then makes ready,
// and returns when it has.
func (c *Cluster) createSimulatedNodes(ctx context.Context, step *progress.Step) error {
	client, err := c.client()
	if err != nil {
		return err
	}
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(32)
	for i := range c.state.SimulatedNodes {
		group.Go(func() error {
			_, err := client.CoreV1().Nodes().Create(groupCtx, simulatedNode(i), metav1.CreateOptions{})
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return fmt.Errorf("create simulated nodes: %w", err)
	}
	return c.waitForSimulatedNodes(ctx, step)
}

func simulatedNode(index int) *corev1.Node {
	name := fmt.Sprintf("simulated-%d", index+1)
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name:        name,
			Annotations: map[string]string{kwokAnnotation: "fake"},
			Labels: map[string]string{
				"type":                   "simulated",
				corev1.LabelHostname:     name,
				corev1.LabelOSStable:     "linux",
				corev1.LabelArchStable:   "amd64",
				corev1.LabelTopologyZone: zone(index),
			},
		},
		Status: corev1.NodeStatus{Addresses: []corev1.NodeAddress{
			{Type: corev1.NodeInternalIP, Address: simulatedAddress(index)},
			{Type: corev1.NodeHostName, Address: name},
		}},
	}
}

func (c *Cluster) waitForSimulatedNodes(ctx context.Context, step *progress.Step) error {
	patience := 2*time.Minute + time.Duration(c.state.SimulatedNodes)*100*time.Millisecond
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	client, err := c.client()
	if err != nil {
		return err
	}
	for {
		// The API server answers from its cache, which is cheap and may be a
		// little late.
		nodes, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: "type=simulated", ResourceVersion: "0"})
		if err == nil {
			ready := countReady(nodes.Items)
			if ready == c.state.SimulatedNodes {
				return nil
			}
			step.Far("%d of %d are ready", ready, c.state.SimulatedNodes)
		}
		if sleep(ctx, 500*time.Millisecond) != nil {
			return fmt.Errorf("%d of %d simulated nodes are ready: %w", countReady(nodes.Items), c.state.SimulatedNodes, ctx.Err())
		}
	}
}

func countReady(nodes []corev1.Node) int {
	ready := 0
	for _, node := range nodes {
		if readySince(&node, time.Time{}) {
			ready++
		}
	}
	return ready
}
