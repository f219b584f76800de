package e2e

import (
	"context"
	"encoding/json"
	"sync"
	"testing"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/test/harness"
	"github.com/mumoshu/ingress-daemonset-controller/test/lb"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	detachKey    = "node-detacher.variant.run/detached"
	timestampKey = "node-detacher.variant.run/detachment-timestamp"
)

// detacher keeps node-detacher's contract with the load balancer of the test: a
// Node that carries the annotation is drained, and a timestamp says so; both are
// taken back when the annotation goes. An idle one writes the timestamps only.
type detacher struct {
	harness *harness.Harness
	front   *lb.LB
	idle    bool
}

// start works until the function that it returns is called.
func (d detacher) start(ctx context.Context, t *testing.T) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var done sync.WaitGroup
	done.Go(func() {
		for ctx.Err() == nil {
			if err := d.look(ctx); err != nil && ctx.Err() == nil {
				t.Log("detacher:", err)
			}
			select {
			case <-ctx.Done():
			case <-time.After(300 * time.Millisecond):
			}
		}
	})
	return func() {
		cancel()
		done.Wait()
	}
}

func (d detacher) look(ctx context.Context) error {
	for _, n := range d.harness.Nodes() {
		node := &corev1.Node{}
		err := d.harness.Get(ctx, types.NamespacedName{Name: n.Name()}, node)
		if err != nil {
			return err
		}
		_, asked := node.Annotations[detachKey]
		_, out := node.Annotations[timestampKey]
		switch {
		case asked && !out:
			err = d.detach(ctx, node)
		case !asked && out:
			err = d.attach(ctx, node)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (d detacher) detach(ctx context.Context, node *corev1.Node) error {
	if !d.idle {
		if err := d.front.Drain(node.Name); err != nil {
			return err
		}
	}
	return stamp(ctx, d.harness, node, time.Now().UTC().Format(time.RFC3339))
}

func (d detacher) attach(ctx context.Context, node *corev1.Node) error {
	if !d.idle {
		if err := d.front.Enable(node.Name); err != nil {
			return err
		}
	}
	return stamp(ctx, d.harness, node, nil)
}

// clearTimestamps removes what a detacher left that was stopped halfway: the next
// test would wait for ever for a detacher that has let go.
func clearTimestamps(ctx context.Context, on *harness.Harness) error {
	for _, n := range on.Nodes() {
		node := &corev1.Node{}
		node.Name = n.Name()
		if err := stamp(ctx, on, node, nil); err != nil {
			return err
		}
	}
	return nil
}

func stamp(ctx context.Context, on *harness.Harness, node *corev1.Node, value any) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]any{timestampKey: value}}})
	if err != nil {
		return err
	}
	return on.Patch(ctx, node, client.RawPatch(types.MergePatchType, patch))
}
