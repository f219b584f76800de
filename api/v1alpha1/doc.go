// Package v1alpha1 is the API of ingress-daemonset-controller: the kinds IngressDaemonSet,
// TargetGroupAttachment and Attachment, the labels and annotations that are written on other
// objects, and what the health checker answers.
//
// +kubebuilder:object:generate=true
// +groupName=ingressdaemonsets.mumoshu.github.io
package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the API group and version of every kind in this package.
var GroupVersion = schema.GroupVersion{Group: "ingressdaemonsets.mumoshu.github.io", Version: "v1alpha1"}

// Kind is the kind of an IngressDaemonSet.
var Kind = GroupVersion.WithKind("IngressDaemonSet")

// AddToScheme registers the kinds of this package.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion,
		&IngressDaemonSet{}, &IngressDaemonSetList{},
		&TargetGroupAttachment{}, &TargetGroupAttachmentList{},
		&Attachment{}, &AttachmentList{},
	)
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
