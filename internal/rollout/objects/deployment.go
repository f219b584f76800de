// Package objects makes the Kubernetes objects of an IngressDaemonSet: the
// Deployment of a node, the DaemonSet of a health-check port, EndpointSlices and
// ControllerRevisions. It is pure: the same values always give the same object.
package objects

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/rollout"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Pods is what a Deployment is asked for.
type Pods struct {
	Revision string
	Template corev1.PodTemplateSpec
	Replicas int32
	// PerNode is how many make the node serve.
	PerNode int32
	Hold    *v1alpha1.Hold
	// Paused stops the Deployment controller halfway.
	Paused bool
	// Rolling, unless zero, is how pods are replaced instead of the spec's way.
	Rolling rollout.Rolling
	// UpdatedAt is when the pods were last changed.
	UpdatedAt time.Time
}

// DeploymentName is <name>-<node>. Where that is taken or too long, a hash of
// both is appended.
func DeploymentName(set *v1alpha1.IngressDaemonSet, node string, taken bool) string {
	names := v1alpha1.DeploymentNames(set.Name, node)
	if taken {
		return names[len(names)-1]
	}
	return names[0]
}

// Deployment is the Deployment of a node. Its selector never changes.
func Deployment(set *v1alpha1.IngressDaemonSet, node, name string, p Pods) *appsv1.Deployment {
	own := OwnLabels(set, node)
	return &appsv1.Deployment{
		TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"},
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: set.Namespace,
			Labels:          merge(set.Spec.SelectorLabels(), own),
			Annotations:     annotations(node, p),
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(set, v1alpha1.Kind)},
		},
		Spec: appsv1.DeploymentSpec{
			Replicas:             &p.Replicas,
			Paused:               p.Paused,
			RevisionHistoryLimit: new(int32),
			MinReadySeconds:      set.Spec.MinReadySeconds,
			Strategy:             StrategyOf(set, p.Rolling),
			Selector:             &metav1.LabelSelector{MatchLabels: own},
			Template:             podTemplate(set, node, p),
		},
	}
}

func annotations(node string, p Pods) map[string]string {
	out := map[string]string{
		v1alpha1.AnnotationNode:        node,
		v1alpha1.AnnotationPodsPerNode: v1alpha1.PodsPerNodeValue(p.PerNode),
		v1alpha1.AnnotationUpdatedAt:   v1alpha1.Timestamp(p.UpdatedAt),
	}
	if p.Hold != nil {
		out[v1alpha1.AnnotationHold] = p.Hold.Value()
	}
	return out
}

// DeploymentStrategy is the strategy of a node's Deployment. A port of the host
// that is not shared must be free before the next pod can have it.
func DeploymentStrategy(set *v1alpha1.IngressDaemonSet) appsv1.DeploymentStrategy {
	if holdsHostPort(&set.Spec.Template.Spec) {
		return appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType}
	}
	s := set.Spec.Strategy()
	return appsv1.DeploymentStrategy{
		Type:          appsv1.RollingUpdateDeploymentStrategyType,
		RollingUpdate: &appsv1.RollingUpdateDeployment{MaxUnavailable: &s.MaxUnavailablePods, MaxSurge: &s.MaxSurgedPods},
	}
}

// StrategyOf is the strategy of a Deployment that may be held back: its
// controller shares the replicas among ReplicaSets, surge included.
func StrategyOf(set *v1alpha1.IngressDaemonSet, r rollout.Rolling) appsv1.DeploymentStrategy {
	s := DeploymentStrategy(set)
	if r != (rollout.Rolling{}) && s.RollingUpdate != nil {
		s.RollingUpdate = &appsv1.RollingUpdateDeployment{
			MaxUnavailable: new(intstr.FromInt32(r.Unavailable)), MaxSurge: new(intstr.FromInt32(r.Surge)),
		}
	}
	return s
}

func holdsHostPort(spec *corev1.PodSpec) bool {
	return !spec.HostNetwork && slices.ContainsFunc(spec.Containers, func(c corev1.Container) bool {
		return slices.ContainsFunc(c.Ports, func(p corev1.ContainerPort) bool { return p.HostPort != 0 })
	})
}

// OwnLabels are the labels by which the Deployment of a node, and its pods, are found.
func OwnLabels(set *v1alpha1.IngressDaemonSet, node string) map[string]string {
	return map[string]string{
		v1alpha1.LabelNode: v1alpha1.LabelValue(node),
		v1alpha1.LabelName: v1alpha1.LabelValue(set.Name),
	}
}

func merge(all ...map[string]string) map[string]string {
	out := map[string]string{}
	for _, m := range all {
		maps.Copy(out, m)
	}
	return out
}

func digest(data []byte, digits int) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])[:digits]
}
