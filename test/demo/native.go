package main

import (
	"context"
	"fmt"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/test/harness"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// native is the template of examples/nginx.yaml, unchanged, in a DaemonSet.
type native struct {
	harness *harness.Harness
	key     types.NamespacedName
}

func newNative(s *harness.Harness) *native {
	return &native{harness: s, key: types.NamespacedName{Namespace: "demo-daemonset", Name: "nginx"}}
}

func (n *native) namespace() string { return n.key.Namespace }

// ports are nginx's own: nothing else tells whether it serves.
func (n *native) ports() harness.Ports {
	return harness.Ports{Traffic: 80, Check: 10254, Path: "/healthz"}
}

func (n *native) apply(ctx context.Context) error {
	manifest, err := n.harness.Example(example)
	if err != nil {
		return err
	}
	set := &v1alpha1.IngressDaemonSet{}
	obj := manifest.Kind(v1alpha1.Kind.Kind)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object, set); err != nil {
		return fmt.Errorf("reading examples/%s: %w", example, err)
	}
	if obj.Object, err = runtime.DefaultUnstructuredConverter.ToUnstructured(n.daemonSet(set.Spec.Template)); err != nil {
		return err
	}
	step := n.harness.Step("applying the template of examples/%s as a DaemonSet", example)
	defer step.Done()
	if err := n.harness.Apply(ctx, n.namespace(), manifest); err != nil {
		return err
	}
	return harness.Wait(ctx, "the DaemonSet to serve", func() (bool, error) {
		now, err := n.get(ctx)
		step.Far("%d of %d pods are available", now.Status.NumberAvailable, now.Status.DesiredNumberScheduled)
		return err == nil && rolledOut(now), err
	})
}

func (n *native) daemonSet(template corev1.PodTemplateSpec) *appsv1.DaemonSet {
	return &appsv1.DaemonSet{
		TypeMeta:   metav1.TypeMeta{APIVersion: appsv1.SchemeGroupVersion.String(), Kind: "DaemonSet"},
		ObjectMeta: metav1.ObjectMeta{Name: n.key.Name},
		Spec: appsv1.DaemonSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: template.Labels},
			Template: template,
			UpdateStrategy: appsv1.DaemonSetUpdateStrategy{
				Type:          appsv1.RollingUpdateDaemonSetStrategyType,
				RollingUpdate: &appsv1.RollingUpdateDaemonSet{MaxUnavailable: new(intstr.FromInt32(1))},
			},
		},
	}
}

func (n *native) get(ctx context.Context) (*appsv1.DaemonSet, error) {
	set := &appsv1.DaemonSet{}
	return set, n.harness.Get(ctx, n.key, set)
}

func (n *native) change(ctx context.Context, version string) error {
	set, err := n.get(ctx)
	if err != nil {
		return err
	}
	before := set.DeepCopy()
	env := set.Spec.Template.Spec.Containers[0].Env
	for i := range env {
		if env[i].Name == versionVariable {
			env[i].Value = version
		}
	}
	return n.harness.Patch(ctx, set, client.MergeFrom(before))
}

// rolledOut is what `kubectl rollout status` waits for.
func rolledOut(set *appsv1.DaemonSet) bool {
	s := set.Status
	return s.ObservedGeneration == set.Generation && s.DesiredNumberScheduled > 0 &&
		s.UpdatedNumberScheduled == s.DesiredNumberScheduled && s.NumberAvailable == s.DesiredNumberScheduled
}

func (n *native) look(ctx context.Context) (state, error) {
	set, err := n.get(ctx)
	if err != nil {
		return state{}, err
	}
	s := set.Status
	out := state{
		complete: rolledOut(set),
		summary:  fmt.Sprintf("%d of %d pods are available, %d have the new template", s.NumberAvailable, s.DesiredNumberScheduled, s.UpdatedNumberScheduled),
		nodes:    map[string]stateOfNode{}, pods: map[types.UID]*corev1.Pod{},
	}
	list := &corev1.PodList{}
	if err := n.harness.List(ctx, list, client.InNamespace(n.namespace())); err != nil {
		return state{}, err
	}
	for i := range list.Items {
		pod := &list.Items[i]
		out.pods[pod.UID] = pod
		out.nodes[pod.Spec.NodeName] = stateOfNode{state: "NotReady"}
		if serves(pod) {
			out.nodes[pod.Spec.NodeName] = stateOfNode{state: "Ready"}
		}
	}
	return out, nil
}

func (n *native) checkClean(context.Context) error { return nil }
