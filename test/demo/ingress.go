package main

import (
	"context"
	"fmt"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/test/harness"
	"k8s.io/apimachinery/pkg/types"
)

const (
	example   = "nginx.yaml"
	checkPort = 10080
)

// ingress is examples/nginx.yaml, an IngressDaemonSet.
type ingress struct {
	harness.Fleet
	// adjust changes the example before it is applied.
	adjust func(*v1alpha1.IngressDaemonSet)
	failed *harness.FailedPods
}

func newIngress(s *harness.Harness) *ingress {
	return &ingress{
		Fleet:  harness.Fleet{Harness: s, Key: types.NamespacedName{Namespace: "demo-ingressdaemonset", Name: "nginx"}},
		adjust: func(set *v1alpha1.IngressDaemonSet) { shortenGrace(set, graceSeconds) },
	}
}

func shortenGrace(set *v1alpha1.IngressDaemonSet, seconds int32) {
	set.Spec.UpdateStrategy.RollingUpdate.AnnotateDeploymentToDetach.GracePeriodSeconds = &seconds
}

func (i *ingress) namespace() string { return i.Key.Namespace }

func (i *ingress) ports() harness.Ports { return harness.Ports{Traffic: 80, Check: checkPort} }

func (i *ingress) apply(ctx context.Context) error {
	manifest, err := i.Example(example)
	if err != nil {
		return err
	}
	if err := manifest.AdjustSet(i.adjust); err != nil {
		return err
	}
	step := i.Step("applying examples/%s with a grace of %d s", example, graceSeconds)
	defer step.Done()
	i.failed = i.WatchFailed(ctx)
	if err := i.Apply(ctx, i.namespace(), manifest); err != nil {
		return err
	}
	set, err := i.Set(ctx)
	if err != nil {
		return err
	}
	return i.WaitStatus(ctx, "every node to serve", func(s v1alpha1.IngressDaemonSetStatus) bool {
		step.Far("%d of %d nodes serve", s.ServingNodes, s.DesiredNodes)
		return harness.Complete(set.Generation, s)
	})
}

func (i *ingress) change(ctx context.Context, version string) error {
	return i.Change(ctx, harness.SetVersion(version))
}

func (i *ingress) look(ctx context.Context) (state, error) {
	set, err := i.Set(ctx)
	if err != nil {
		return state{}, err
	}
	out := state{complete: harness.Complete(set.Generation, set.Status), summary: summarize(set.Status), nodes: map[string]stateOfNode{}}
	// The status lists the nodes that do not serve.
	for _, n := range i.Nodes() {
		out.nodes[n.Name()] = stateOfNode{state: string(v1alpha1.NodeServing)}
	}
	for _, n := range set.Status.Nodes {
		out.nodes[n.Name] = stateOfNode{string(n.State), n.Reason}
	}
	out.pods, err = i.Pods(ctx)
	return out, err
}

func summarize(s v1alpha1.IngressDaemonSetStatus) string {
	wave := "none"
	if len(s.Wave) > 0 {
		wave = enumerate(s.Wave)
	}
	return fmt.Sprintf("wave: %s; %d of %d nodes serve, %d have the new template", wave, s.ServingNodes, s.DesiredNodes, s.UpdatedNodes)
}

// checkClean is an error where a mark is left, or a pod was Failed at any time.
func (i *ingress) checkClean(ctx context.Context) error {
	if count, example := i.failed.Count(); count > 0 {
		return fmt.Errorf("%d pods failed, such as %s", count, example)
	}
	return i.CheckUnmarked(ctx)
}
