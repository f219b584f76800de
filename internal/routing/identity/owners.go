package identity

import (
	"fmt"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// Objects are what is read of a claim's pod and of its owners, each by the name that Owner gives; nil is
// one that is not there.
type Objects struct {
	// Pod is read from the API server itself: a cache may still have one that is gone.
	Pod              *corev1.Pod
	ReplicaSet       *appsv1.ReplicaSet
	Deployment       *appsv1.Deployment
	IngressDaemonSet *v1alpha1.IngressDaemonSet
}

// Owner is the name of the controller of an object, of the same namespace, empty where it has none.
func Owner(o metav1.Object) types.NamespacedName {
	if ref := metav1.GetControllerOfNoCopy(o); ref != nil {
		return types.NamespacedName{Namespace: o.GetNamespace(), Name: ref.Name}
	}
	return types.NamespacedName{}
}

// Verify gives the IngressDaemonSet that a claim's pod is of, or why it is of none.
func Verify(c Claim, o Objects) (set types.NamespacedName, err error) {
	switch {
	case o.Pod == nil || o.Pod.UID != c.UID:
		return set, fmt.Errorf("pod %s is gone", c.Pod)
	case o.Pod.Status.Phase == corev1.PodSucceeded || o.Pod.Status.Phase == corev1.PodFailed:
		return set, fmt.Errorf("pod %s has ended", c.Pod)
	case o.ReplicaSet == nil || !controls(appsv1.SchemeGroupVersion.WithKind("ReplicaSet"), o.ReplicaSet, o.Pod):
		return set, fmt.Errorf("pod %s is of no ReplicaSet that is there", c.Pod)
	case o.Deployment == nil || !controls(appsv1.SchemeGroupVersion.WithKind("Deployment"), o.Deployment, o.ReplicaSet):
		return set, fmt.Errorf("pod %s is of no Deployment that is there", c.Pod)
	case o.IngressDaemonSet == nil || !controls(v1alpha1.Kind, o.IngressDaemonSet, o.Deployment):
		return set, fmt.Errorf("pod %s is of no IngressDaemonSet that is there", c.Pod)
	}
	set = types.NamespacedName{Namespace: o.IngressDaemonSet.Namespace, Name: o.IngressDaemonSet.Name}
	if wanted := accountOf(o.IngressDaemonSet.Spec.Template.Spec); c.ServiceAccount != wanted || accountOf(o.Pod.Spec) != wanted {
		return types.NamespacedName{}, fmt.Errorf("pod %s has service account %s, and the template of IngressDaemonSet %s has %s", c.Pod, c.ServiceAccount, set, wanted)
	}
	return set, nil
}

// controls reports whether an owner of that kind, and no other of its name, is the controller of an object.
func controls(kind schema.GroupVersionKind, owner, object metav1.Object) bool {
	ref := metav1.GetControllerOfNoCopy(object)
	if ref == nil || ref.Kind != kind.Kind || ref.UID != owner.GetUID() || ref.UID == "" || object.GetNamespace() != owner.GetNamespace() {
		return false
	}
	group, err := schema.ParseGroupVersion(ref.APIVersion)
	return err == nil && group.Group == kind.Group
}

// accountOf is the service account of a pod, which has a default.
func accountOf(p corev1.PodSpec) string {
	if p.ServiceAccountName == "" {
		return "default"
	}
	return p.ServiceAccountName
}
