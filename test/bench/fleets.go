package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
)

const (
	namespace       = "bench"
	podsPerNode     = 2
	healthCheckPort = 10080
	idsName         = "proxy"
)

// fleet runs two pods on every node.
type fleet interface {
	name() string
	// create and roll return when every pod is there, of the version, and ready.
	create(ctx context.Context, version string) error
	roll(ctx context.Context, version string) error
	// remove returns when no pod is left.
	remove(ctx context.Context) error
}

// template is the same for all.
func template(labels map[string]string, version string) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: labels},
		Spec: corev1.PodSpec{
			HostNetwork:                   true,
			TerminationGracePeriodSeconds: new(int64),
			Containers: []corev1.Container{{
				Name: "proxy", Image: "nginx:1.22",
				Env: []corev1.EnvVar{{Name: "VERSION", Value: version}},
				ReadinessProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{
					HTTPGet: &corev1.HTTPGetAction{Path: "/healthz", Port: intstr.FromInt32(10254)}}},
			}},
		},
	}
}

// native is a DaemonSet for each pod of a node.
type native struct {
	*bench
	kind string
	pods int
	sets []*appsv1.DaemonSet
}

func (f *native) name() string { return f.kind }

func (f *native) create(ctx context.Context, version string) error {
	all := intstr.FromString("100%")
	f.sets = nil
	for i := range f.pods {
		labels := map[string]string{"app": fmt.Sprintf("%s-%d", f.kind, i+1)}
		ds := &appsv1.DaemonSet{
			ObjectMeta: metav1.ObjectMeta{Name: labels["app"], Namespace: namespace},
			Spec: appsv1.DaemonSetSpec{
				Selector:             &metav1.LabelSelector{MatchLabels: labels},
				Template:             template(labels, version),
				RevisionHistoryLimit: new(int32),
				UpdateStrategy: appsv1.DaemonSetUpdateStrategy{
					RollingUpdate: &appsv1.RollingUpdateDaemonSet{MaxUnavailable: &all},
				},
			},
		}
		if err := f.client.Create(ctx, ds); err != nil {
			return err
		}
		f.sets = append(f.sets, ds)
	}
	return f.wait(ctx)
}

func (f *native) roll(ctx context.Context, version string) error {
	for _, ds := range f.sets {
		before := ds.DeepCopy()
		ds.Spec.Template.Spec.Containers[0].Env[0].Value = version
		if err := f.client.Patch(ctx, ds, client.MergeFrom(before)); err != nil {
			return err
		}
	}
	return f.wait(ctx)
}

func (f *native) remove(ctx context.Context) error {
	for _, ds := range f.sets {
		if err := f.client.Delete(ctx, ds); err != nil {
			return err
		}
	}
	for _, ds := range f.sets {
		if err := f.noPods(ctx, ds.Spec.Template.Labels); err != nil {
			return err
		}
	}
	return nil
}

func (f *native) wait(ctx context.Context) error {
	return until(ctx, func() (bool, error) {
		for _, ds := range f.sets {
			if err := f.get(ctx, ds); err != nil {
				return false, err
			}
			s, nodes := ds.Status, int32(f.nodes)
			if s.ObservedGeneration != ds.Generation || s.UpdatedNumberScheduled != nodes || s.NumberAvailable != nodes {
				return false, nil
			}
		}
		return true, nil
	})
}

// ids is the IngressDaemonSet. With detach it annotates Nodes, too.
type ids struct {
	*bench
	set *v1alpha1.IngressDaemonSet
}

func (f *ids) name() string { return "ingressdaemonset" }

func (f *ids) create(ctx context.Context, version string) error {
	f.set = newSet(metav1.ObjectMeta{
		Name: idsName, Namespace: namespace,
		Annotations: map[string]string{v1alpha1.AnnotationAllowForegroundDeletion: ""},
	}, version)
	if err := f.client.Create(ctx, f.set); err != nil {
		return err
	}
	return f.wait(ctx)
}

// newSet is an IngressDaemonSet whose nodes are all taken out together.
func newSet(meta metav1.ObjectMeta, version string) *v1alpha1.IngressDaemonSet {
	all := intstr.FromString("100%")
	return &v1alpha1.IngressDaemonSet{
		ObjectMeta: meta,
		Spec: v1alpha1.IngressDaemonSetSpec{
			PodsPerNode:          ptr[int32](podsPerNode),
			HealthCheckNodePorts: []int32{healthCheckPort},
			Template:             template(map[string]string{"app": meta.Name}, version),
			UpdateStrategy: v1alpha1.UpdateStrategy{RollingUpdate: &v1alpha1.RollingUpdate{
				MaxUnavailableNodes:        &all,
				MinServingNodes:            new(intstr.IntOrString),
				AnnotateDeploymentToDetach: &v1alpha1.AnnotateDeploymentToDetach{GracePeriodSeconds: new(int32)},
				AttachGracePeriodSeconds:   new(int32),
			}},
		},
	}
}

// settleCheckers waits until the health checkers' pods are there, which no
// rollout begins before.
func (f *ids) settleCheckers(ctx context.Context) error {
	ds := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%d", idsName, healthCheckPort), Namespace: namespace}}
	return until(ctx, func() (bool, error) {
		err := f.get(ctx, ds)
		return err == nil && ds.Status.NumberReady == int32(f.nodes), err
	})
}

func (f *ids) roll(ctx context.Context, version string) error {
	return f.change(ctx, func() { f.set.Spec.Template.Spec.Containers[0].Env[0].Value = version })
}

func (f *ids) change(ctx context.Context, change func()) error {
	before := f.set.DeepCopy()
	change()
	if err := f.client.Patch(ctx, f.set, client.MergeFrom(before)); err != nil {
		return err
	}
	return f.wait(ctx)
}

// wait returns when every node has the present template and serves.
func (f *ids) wait(ctx context.Context) error {
	nodes := int32(f.nodes)
	err := f.watch(ctx, &v1alpha1.IngressDaemonSetList{}, func(o client.Object) { f.set = o.(*v1alpha1.IngressDaemonSet).DeepCopy() }, func() bool {
		s := f.set.Status
		return s.ObservedGeneration == f.set.Generation && s.ServingNodes == nodes && s.UpdatedNodes == nodes && len(s.Wave) == 0
	}, client.MatchingFields{"metadata.name": f.set.Name})
	if err != nil {
		s := f.set.Status
		return fmt.Errorf("%d nodes serve, %d are updated; %v: %w", s.ServingNodes, s.UpdatedNodes, s.Conditions, err)
	}
	return nil
}

// remove deletes the IngressDaemonSet, whose health checkers go with it, and does
// not wait for nodes to be detached in their turn.
func (f *ids) remove(ctx context.Context) error {
	if err := f.client.Delete(ctx, f.set, client.PropagationPolicy(metav1.DeletePropagationForeground)); err != nil {
		return err
	}
	for _, labels := range []map[string]string{f.set.Spec.Template.Labels, {v1alpha1.LabelName: v1alpha1.LabelValue(idsName)}} {
		if err := f.noPods(ctx, labels); err != nil {
			return err
		}
	}
	return until(ctx, func() (bool, error) {
		err := f.get(ctx, f.set)
		return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
	})
}

// noPods waits until no pod has the labels.
func (b *bench) noPods(ctx context.Context, labels map[string]string) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return until(ctx, func() (bool, error) {
		pods := &corev1.PodList{}
		err := b.client.List(ctx, pods, client.InNamespace(namespace), client.MatchingLabels(labels), client.Limit(1))
		return err == nil && len(pods.Items) == 0, err
	})
}

// watch has see called for each object as it is now and as it changes, until done. It does
// not list again and again, since reading a thousand objects would disturb what is measured,
// but when the API server ends the watch, as it does with one that falls behind in a burst.
func (b *bench) watch(ctx context.Context, list client.ObjectList, see func(client.Object), done func() bool, selected ...client.ListOption) error {
	selected = append(selected, client.InNamespace(namespace))
	for {
		if err := b.client.List(ctx, list, selected...); err != nil {
			return err
		}
		err := meta.EachListItem(list, func(o runtime.Object) error { see(o.(client.Object)); return nil })
		if err != nil || done() {
			return err
		}
		from := &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: list.GetResourceVersion()}}
		w, err := b.client.Watch(ctx, list, append(selected, from)...)
		if err != nil {
			return err
		}
		err = follow(ctx, w, see, done)
		w.Stop()
		if err != nil || done() {
			return err
		}
	}
}

// follow returns when done, or when the watch ends.
func follow(ctx context.Context, w watch.Interface, see func(client.Object), done func() bool) error {
	for !done() {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case e, open := <-w.ResultChan():
			if !open || e.Type == watch.Error {
				return nil
			}
			see(e.Object.(client.Object))
		}
	}
	return nil
}

// until asks ten times a second.
func until(ctx context.Context, done func() (bool, error)) error {
	for {
		ok, err := done()
		if ok && err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), err)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func ptr[T any](v T) *T { return &v }
