package harness

import (
	"context"
	"fmt"
	"strings"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Fleet is an IngressDaemonSet of the harness.
type Fleet struct {
	*Harness
	Key types.NamespacedName
}

// Get reads the IngressDaemonSet.
func (f *Fleet) Set(ctx context.Context) (*v1alpha1.IngressDaemonSet, error) {
	set := &v1alpha1.IngressDaemonSet{}
	return set, f.Get(ctx, f.Key, set)
}

// WaitServing waits until every node serves with the present template.
func (f *Fleet) WaitServing(ctx context.Context) error {
	set, err := f.Set(ctx)
	if err != nil {
		return err
	}
	return f.WaitStatus(ctx, "every node of "+f.Key.String()+" to serve the present template", func(s v1alpha1.IngressDaemonSetStatus) bool {
		return Complete(set.Generation, s)
	})
}

// Complete reports whether every node serves with the template of a generation, or a later one.
func Complete(generation int64, s v1alpha1.IngressDaemonSetStatus) bool {
	progressing := meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionProgressing)
	return s.ObservedGeneration >= generation && progressing != nil && progressing.Reason == v1alpha1.ReasonComplete &&
		s.DesiredNodes > 0 && s.ServingNodes == s.DesiredNodes && s.UpdatedNodes == s.DesiredNodes && len(s.Wave) == 0
}

// Describe tells the state of an IngressDaemonSet in a line.
func Describe(set *v1alpha1.IngressDaemonSet) string {
	s := set.Status
	parts := []string{fmt.Sprintf("%d desired, %d serving, %d updated, wave %v", s.DesiredNodes, s.ServingNodes, s.UpdatedNodes, s.Wave)}
	for _, n := range s.Nodes {
		parts = append(parts, fmt.Sprintf("%s %s (%s)", n.Name, n.State, n.Reason))
	}
	for _, c := range s.Conditions {
		if c.Message != "" {
			parts = append(parts, fmt.Sprintf("%s=%s %s: %s", c.Type, c.Status, c.Reason, c.Message))
		}
	}
	return strings.Join(parts, "; ")
}

// Change changes the IngressDaemonSet.
func (f *Fleet) Change(ctx context.Context, change func(*v1alpha1.IngressDaemonSet)) error {
	set, err := f.Set(ctx)
	if err != nil {
		return err
	}
	before := set.DeepCopy()
	change(set)
	return f.Patch(ctx, set, client.MergeFrom(before))
}

// SetVersion changes the template: the environment variable VERSION of the proxy.
func SetVersion(version string) func(*v1alpha1.IngressDaemonSet) {
	return func(set *v1alpha1.IngressDaemonSet) {
		env := set.Spec.Template.Spec.Containers[0].Env
		for i := range env {
			if env[i].Name == "VERSION" {
				env[i].Value = version
				return
			}
		}
		set.Spec.Template.Spec.Containers[0].Env = append(env, corev1.EnvVar{Name: "VERSION", Value: version})
	}
}

// Pods are the proxy's pods, by UID.
func (f *Fleet) Pods(ctx context.Context) (map[types.UID]*corev1.Pod, error) {
	list := &corev1.PodList{}
	err := f.List(ctx, list, client.InNamespace(f.Key.Namespace), client.MatchingLabels{v1alpha1.LabelName: f.Key.Name}, client.HasLabels{v1alpha1.LabelNode})
	out := map[types.UID]*corev1.Pod{}
	for i := range list.Items {
		out[list.Items[i].UID] = &list.Items[i]
	}
	return out, err
}

// CheckReplaced is an error where a pod of before is left, a pod failed, or a
// Deployment or Node carries a mark.
func (f *Fleet) CheckReplaced(ctx context.Context, before map[types.UID]*corev1.Pod) error {
	now, err := f.Pods(ctx)
	if err != nil {
		return err
	}
	for uid, pod := range now {
		if before[uid] != nil {
			return fmt.Errorf("pod %s was not replaced", pod.Name)
		}
		if failed(pod) {
			return fmt.Errorf("pod %s is Failed: %s", pod.Name, pod.Status.Message)
		}
	}
	return f.CheckUnmarked(ctx)
}

// CheckUnmarked is an error where a Deployment of the fleet or a Node carries a mark
// of ours.
func (f *Fleet) CheckUnmarked(ctx context.Context) error {
	deployments := &appsv1.DeploymentList{}
	if err := f.List(ctx, deployments, client.InNamespace(f.Key.Namespace)); err != nil {
		return err
	}
	for _, d := range deployments.Items {
		if _, marked := v1alpha1.MarkOf(d.Annotations); marked {
			return fmt.Errorf("Deployment %s is still marked", d.Name)
		}
	}
	for _, n := range f.Nodes() {
		node := &corev1.Node{}
		if err := f.Get(ctx, types.NamespacedName{Name: n.Name()}, node); err != nil {
			return err
		}
		for key := range node.Annotations {
			if strings.HasPrefix(key, v1alpha1.AnnotationDetachPrefix) {
				return fmt.Errorf("Node %s still carries %s", node.Name, key)
			}
		}
	}
	return nil
}

// WaitUpdated waits until so many nodes have the present template, serving or not.
func (f *Fleet) WaitUpdated(ctx context.Context, nodes int32) error {
	set, err := f.Set(ctx)
	if err != nil {
		return err
	}
	return f.WaitStatus(ctx, fmt.Sprintf("%d nodes to be updated", nodes), func(s v1alpha1.IngressDaemonSetStatus) bool {
		return s.ObservedGeneration >= set.Generation && s.UpdatedNodes >= nodes
	})
}

// WaitStatus waits until the status satisfies is.
func (f *Fleet) WaitStatus(ctx context.Context, what string, is func(v1alpha1.IngressDaemonSetStatus) bool) error {
	last := ""
	err := Wait(ctx, what, func() (bool, error) {
		set, err := f.Set(ctx)
		if err != nil {
			return false, err
		}
		last = Describe(set)
		return is(set.Status), nil
	})
	if err != nil {
		return fmt.Errorf("%w; last seen: %s", err, last)
	}
	return nil
}

// Attempts is how often the rejected pods of the fleet's nodes were tried, summed up.
func (f *Fleet) Attempts(ctx context.Context) (int, error) {
	list := &appsv1.DeploymentList{}
	if err := f.List(ctx, list, client.InNamespace(f.Key.Namespace)); err != nil {
		return 0, err
	}
	attempts := 0
	for _, d := range list.Items {
		if hold := v1alpha1.HoldOf(d.Annotations); hold != nil {
			attempts += hold.Attempts
		}
	}
	return attempts, nil
}
