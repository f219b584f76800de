package main

import (
	"context"
	"fmt"
	"strings"

	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// plain is a Deployment for each node with nothing around it: the floor under
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
	if err := f.patchAll(ctx, `{"op":"add","path":"/metadata/annotations/example.com~1mark","value":"1"}`); err != nil {
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

func plainDeployment(node, version string) *appsv1.Deployment {
	labels := map[string]string{"app": "plain", "node": node}
	t := template(labels, version)
	t.Spec.NodeName, t.Spec.Tolerations = node, daemonTolerations()
	all, none := intstr.FromString("100%"), intstr.FromInt32(0)
	return &appsv1.Deployment{
		ObjectMeta: plainMeta(node),
		Spec: appsv1.DeploymentSpec{
			Replicas:             ptr[int32](podsPerNode),
			RevisionHistoryLimit: new(int32),
			Selector:             &metav1.LabelSelector{MatchLabels: labels},
			Template:             t,
			Strategy:             appsv1.DeploymentStrategy{RollingUpdate: &appsv1.RollingUpdateDeployment{MaxUnavailable: &all, MaxSurge: &none}},
		},
	}
}

// daemonTolerations are those without which a pod does not stay on its node: the DaemonSet
// controller gives them to its pods, and an IngressDaemonSet to those of its Deployments.
func daemonTolerations() (out []corev1.Toleration) {
	for key, effect := range map[string]corev1.TaintEffect{
		corev1.TaintNodeNotReady: corev1.TaintEffectNoExecute, corev1.TaintNodeUnreachable: corev1.TaintEffectNoExecute,
		corev1.TaintNodeDiskPressure: corev1.TaintEffectNoSchedule, corev1.TaintNodeMemoryPressure: corev1.TaintEffectNoSchedule,
		corev1.TaintNodePIDPressure: corev1.TaintEffectNoSchedule, corev1.TaintNodeUnschedulable: corev1.TaintEffectNoSchedule,
		corev1.TaintNodeNetworkUnavailable: corev1.TaintEffectNoSchedule,
	} {
		out = append(out, corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists, Effect: effect})
	}
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
