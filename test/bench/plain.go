package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/rollout/objects"
)

// plain is a Deployment for each node with nothing around it: the baseline of
// what can be had with one Deployment a node. Its client writes once to each.
type plain struct {
	*bench
}

func (f *plain) name() string { return "plain-deployments" }

func (f *plain) create(ctx context.Context, version string) error {
	err := f.writeAll(ctx, func(ctx context.Context, node string) error {
		return f.client.Create(ctx, plainDeployment(node, version))
	})
	if err != nil {
		return err
	}
	return f.wait(ctx)
}

func (f *plain) roll(ctx context.Context, version string) error {
	if err := f.patchAll(ctx, fmt.Sprintf(`{"op":"replace","path":"/spec/template/spec/containers/0/env/0/value","value":%q}`, version)); err != nil {
		return err
	}
	return f.wait(ctx)
}

func (f *plain) remove(ctx context.Context) error {
	// Of a deletion of all at once the API server ends the request after a minute.
	err := f.writeAll(ctx, func(ctx context.Context, node string) error {
		return client.IgnoreNotFound(f.client.Delete(ctx, plainDeployment(node, ""), client.PropagationPolicy(metav1.DeletePropagationBackground)))
	})
	if err != nil {
		return err
	}
	return f.noPods(ctx, map[string]string{"app": "plain"})
}

// together are fleets of which all are created at once: Deployments and DaemonSet of an
// IngressDaemonSet keep the controllers and the API server busy for each other.
type together []fleet

func (t together) name() string {
	names := make([]string, len(t))
	for i, f := range t {
		names[i] = f.name()
	}
	return strings.Join(names, " and ")
}

func (t together) create(ctx context.Context, version string) error {
	return t.each(ctx, func(ctx context.Context, f fleet) error { return f.create(ctx, version) })
}

func (t together) roll(ctx context.Context, version string) error {
	return t.each(ctx, func(ctx context.Context, f fleet) error { return f.roll(ctx, version) })
}

func (t together) remove(ctx context.Context) error {
	return t.each(ctx, func(ctx context.Context, f fleet) error { return f.remove(ctx) })
}

func (t together) each(ctx context.Context, do func(context.Context, fleet) error) error {
	group, groupCtx := errgroup.WithContext(ctx)
	for _, f := range t {
		group.Go(func() error { return do(groupCtx, f) })
	}
	return group.Wait()
}

// marked rolls the same Deployments out with the writes of an IngressDaemonSet and
// nobody to decide them: a mark on each before it is updated, removed thereafter.
type marked struct{ *plain }

func (f marked) name() string { return "marked-deployments" }

func (f marked) roll(ctx context.Context, version string) error {
	if err := f.patchAll(ctx, `{"op":"add","path":"/metadata/annotations/example.com~1mark","value":"`+string(v1alpha1.NewMark(time.Now(), version, ""))+`"}`); err != nil {
		return err
	}
	if err := f.plain.roll(ctx, version); err != nil {
		return err
	}
	return f.patchAll(ctx, `{"op":"remove","path":"/metadata/annotations/example.com~1mark"}`)
}

func (f *plain) patchAll(ctx context.Context, operation string) error {
	patch := client.RawPatch(types.JSONPatchType, fmt.Appendf(nil, "[%s]", operation))
	return f.writeAll(ctx, func(ctx context.Context, node string) error {
		return f.client.Patch(ctx, &appsv1.Deployment{ObjectMeta: plainMeta(node)}, patch)
	})
}

func plainMeta(node string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: "plain-" + node, Namespace: namespace, Labels: map[string]string{"app": "plain"}}
}

// plainDeployment has what that of an IngressDaemonSet has but for its owner, so that the same
// is written: objects that are a third larger cost the API server about as much more.
func plainDeployment(node, version string) *appsv1.Deployment {
	set := newSet(metav1.ObjectMeta{Name: "plain", Namespace: namespace}, version)
	d := objects.Deployment(set, node, plainMeta(node).Name, objects.Pods{
		Revision: objects.Revision(objects.Template(set)), Template: objects.Template(set), Replicas: podsPerNode, PerNode: podsPerNode, UpdatedAt: time.Now(),
	})
	d.OwnerReferences = nil
	return nobodys(d)
}

// nobodys gives a Deployment labels and annotations that are as long as ours and mean nothing.
func nobodys(d *appsv1.Deployment) *appsv1.Deployment {
	// Plain values and what came from them always encode and decode.
	text, _ := json.Marshal(d)
	text = bytes.ReplaceAll(text, []byte(v1alpha1.GroupVersion.Group), []byte("plain-"+v1alpha1.GroupVersion.Group[len("plain-"):]))
	text = bytes.ReplaceAll(text, []byte(v1alpha1.LabelNode), []byte("plain-"+v1alpha1.LabelNode[len("plain-"):]))
	out := &appsv1.Deployment{}
	_ = json.Unmarshal(text, out)
	return out
}

// writeAll writes to each node's Deployment.
func (f *plain) writeAll(ctx context.Context, write func(context.Context, string) error) error {
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(32)
	for i := range f.nodes {
		group.Go(func() error { return write(groupCtx, fmt.Sprintf("simulated-%d", i+1)) })
	}
	return group.Wait()
}

// wait returns when all are complete.
func (f *plain) wait(ctx context.Context) error {
	missing := map[string]bool{}
	err := f.watch(ctx, &appsv1.DeploymentList{}, func(o client.Object) {
		d := o.(*appsv1.Deployment)
		if s := d.Status; s.ObservedGeneration == d.Generation && s.UpdatedReplicas == podsPerNode && s.AvailableReplicas == podsPerNode && s.Replicas == podsPerNode {
			delete(missing, d.Name)
		} else {
			missing[d.Name] = true
		}
	}, func() bool { return len(missing) == 0 }, client.MatchingLabels{"app": "plain"})
	if err != nil {
		return fmt.Errorf("%d Deployments are not complete: %w", len(missing), err)
	}
	return nil
}
