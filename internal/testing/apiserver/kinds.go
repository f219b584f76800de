package apiserver

import (
	"strings"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// groups are the API groups of kinds that are not in the core group.
var groups = map[string]string{
	"IngressDaemonSet": v1alpha1.GroupVersion.Group, "TargetGroupAttachment": v1alpha1.GroupVersion.Group, "Attachment": v1alpha1.GroupVersion.Group, "Deployment": "apps", "DaemonSet": "apps", "ReplicaSet": "apps",
	"ControllerRevision": "apps", "EndpointSlice": "discovery.k8s.io", "RoleBinding": "rbac.authorization.k8s.io",
}

func lower(s string) string { return strings.ToLower(s) }

// counts reports whether objects of a kind have a generation.
func counts(kind string) bool {
	switch kind {
	case "IngressDaemonSet", "TargetGroupAttachment", "Attachment", "Deployment", "DaemonSet", "ReplicaSet", "EndpointSlice":
		return true
	}
	return false
}

// custom reports whether a kind is ours, which the API server knows by its definition alone.
func custom(kind string) bool { return groups[kind] == v1alpha1.GroupVersion.Group }

// moves reports whether the generation counts a change: of the spec and of when the object
// was deleted, of Deployments their annotations too, of EndpointSlices their labels.
func moves(a, b client.Object) bool {
	if (a.GetDeletionTimestamp() == nil) != (b.GetDeletionTimestamp() == nil) {
		return true
	}
	differ := func(x, y any) bool { return !equality.Semantic.DeepEqual(x, y) }
	switch b := b.(type) {
	case *v1alpha1.IngressDaemonSet:
		return differ(a.(*v1alpha1.IngressDaemonSet).Spec, b.Spec)
	case *v1alpha1.TargetGroupAttachment:
		return differ(a.(*v1alpha1.TargetGroupAttachment).Spec, b.Spec)
	case *v1alpha1.Attachment:
		return differ(a.(*v1alpha1.Attachment).Spec, b.Spec)
	case *appsv1.Deployment:
		return differ(a.GetAnnotations(), b.Annotations) || differ(a.(*appsv1.Deployment).Spec, b.Spec)
	case *appsv1.DaemonSet:
		return differ(a.(*appsv1.DaemonSet).Spec, b.Spec)
	case *appsv1.ReplicaSet:
		return differ(a.(*appsv1.ReplicaSet).Spec, b.Spec)
	case *discoveryv1.EndpointSlice:
		a := a.(*discoveryv1.EndpointSlice)
		return differ(a.Labels, b.Labels) || differ(a.Endpoints, b.Endpoints) || differ(a.Ports, b.Ports)
	}
	return false
}

// unobserved gives a new object of ours the status that its definition says, and no other.
func unobserved(obj client.Object) {
	switch obj := obj.(type) {
	case *v1alpha1.IngressDaemonSet:
		obj.Status = v1alpha1.IngressDaemonSetStatus{ObservedGeneration: -1}
	case *v1alpha1.TargetGroupAttachment:
		obj.Status = v1alpha1.TargetGroupAttachmentStatus{ObservedGeneration: -1}
	case *v1alpha1.Attachment:
		obj.Status = v1alpha1.AttachmentStatus{ObservedGeneration: -1}
	}
}

// keepStatus gives an object the status of another, and everything but the status where
// that is what is written. It says whether the kind has a status.
func keepStatus(from, to client.Object) bool {
	switch to := to.(type) {
	case *v1alpha1.IngressDaemonSet:
		to.Status = from.(*v1alpha1.IngressDaemonSet).Status
	case *v1alpha1.TargetGroupAttachment:
		to.Status = from.(*v1alpha1.TargetGroupAttachment).Status
	case *v1alpha1.Attachment:
		to.Status = from.(*v1alpha1.Attachment).Status
	case *appsv1.Deployment:
		to.Status = from.(*appsv1.Deployment).Status
	case *appsv1.DaemonSet:
		to.Status = from.(*appsv1.DaemonSet).Status
	default:
		return false
	}
	return true
}
