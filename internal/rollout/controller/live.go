package controller

import (
	"context"
	"errors"
	"fmt"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/rollout"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// What a step writes is made of what stands here: caches leave out templates and managed fields, of
// which those of a large fleet are most of what it is, and objects that do not bear our labels.

// whole is a Deployment with all that caches leave out.
func (r *Reconciler) whole(ctx context.Context, d *appsv1.Deployment) (*appsv1.Deployment, error) {
	live := &appsv1.Deployment{}
	return live, r.live.Get(ctx, client.ObjectKeyFromObject(d), live)
}

// namesake is the Deployment of a name, whoever it belongs to; nil where there is none.
func (r *Reconciler) namesake(ctx context.Context, name types.NamespacedName) (*metav1.PartialObjectMetadata, error) {
	existing := &metav1.PartialObjectMetadata{}
	existing.SetGroupVersionKind(appsv1.SchemeGroupVersion.WithKind("Deployment"))
	err := r.live.Get(ctx, name, existing)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("looking for a Deployment of the same name: %w", err)
	}
	return existing, nil
}

// leftOver is the ReplicaSet that a Deployment of the node has left behind; nil where none has, or
// where it goes, too.
func (r *Reconciler) leftOver(ctx context.Context, of *v1alpha1.IngressDaemonSet, s rollout.Step) (*appsv1.ReplicaSet, error) {
	if s.ReplicaSet == "" {
		return nil, nil
	}
	for _, deployment := range v1alpha1.DeploymentNames(of.Name, s.Node) {
		set := &appsv1.ReplicaSet{}
		err := r.live.Get(ctx, types.NamespacedName{Namespace: of.Namespace, Name: deployment + "-" + s.ReplicaSet}, set)
		switch {
		case apierrors.IsNotFound(err), err == nil && metav1.GetControllerOfNoCopy(set) != nil:
		case err != nil:
			return nil, fmt.Errorf("reading what its pods were made from: %w", err)
		default:
			delete(set.Spec.Template.Labels, appsv1.DefaultDeploymentUniqueLabelKey)
			return set, nil
		}
	}
	return nil, nil
}

// replicaSetOf is a ReplicaSet of a Deployment, by its hash.
func (r *Reconciler) replicaSetOf(ctx context.Context, d *appsv1.Deployment, hash string) (*appsv1.ReplicaSet, error) {
	set := &appsv1.ReplicaSet{}
	key := types.NamespacedName{Namespace: d.Namespace, Name: d.Name + "-" + hash}
	err := r.live.Get(ctx, key, set)
	switch {
	case apierrors.IsNotFound(err), err == nil && !controlledBy(set, d.UID):
		// It went together with the pods that were seen.
		return nil, apierrors.NewConflict(appsv1.Resource("replicasets"), key.Name, errors.New("it is gone"))
	case err != nil:
		return nil, fmt.Errorf("reading what its pods were made from: %w", err)
	}
	return set, nil
}

// podTemplateOf is what the pods of a ReplicaSet were made from.
func podTemplateOf(set *appsv1.ReplicaSet) corev1.PodTemplateSpec {
	template := set.Spec.Template
	delete(template.Labels, appsv1.DefaultDeploymentUniqueLabelKey)
	return template
}
