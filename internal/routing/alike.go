package routing

import (
	"reflect"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Alike reports whether all that is read of an object is as it was, so that Set need not be told of it: a kubelet writes
// every few minutes that its Node is still there, and a rollout writes how far it is. It is asked of kinds that often
// change so; of all others it is false.
func Alike(before, after metav1.Object) bool {
	a := readOf(compiledFrom(before))
	return a != nil && reflect.DeepEqual(a, readOf(compiledFrom(after)))
}

// readOf is all that is read of an object, nil where that is not told apart from the rest.
func readOf(object metav1.Object) any {
	switch o := object.(type) {
	case *corev1.Node:
		return []any{
			o.Labels, o.Spec.Taints, o.DeletionTimestamp == nil, o.Annotations[v1alpha1.AnnotationNodeDetaching],
			o.Status.Addresses, readyOf(o),
		}
	case *appsv1.Deployment:
		return []any{o.Labels, o.Annotations, o.OwnerReferences, o.DeletionTimestamp == nil, o.Status.ReadyReplicas > 0}
	case *corev1.Namespace:
		return []any{o.Labels}
	case *discoveryv1.EndpointSlice:
		read := *o
		read.Annotations, read.Generation = nil, 0
		read.ResourceVersion, read.ManagedFields = "", nil
		return read
	case *IngressDaemonSet:
		read := *o
		read.ResourceVersion, read.ManagedFields = "", nil
		return read
	}
	return nil
}

// readyOf is what is read of the condition that says whether a node's kubelet is heard.
func readyOf(node *corev1.Node) corev1.NodeCondition {
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return corev1.NodeCondition{Type: c.Type, Status: c.Status, LastTransitionTime: c.LastTransitionTime}
		}
	}
	return corev1.NodeCondition{}
}
