package controller

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// guarded writes to a Deployment if its spec and annotations are still those that
// were observed. They are as long as its generation is the same; its status, which
// the Deployment controller writes all the time, may have changed meanwhile.
func (r *Reconciler) guarded(ctx context.Context, live *appsv1.Deployment, write func(resourceVersion string) (*appsv1.Deployment, error)) error {
	const attempts = 5
	version := r.cachedVersion(ctx, live)
	for attempt := 1; ; attempt++ {
		d, err := write(version)
		if err == nil {
			r.written.remember(d)
			return nil
		}
		if !apierrors.IsConflict(err) || attempt == attempts {
			return err
		}
		now := &metav1.PartialObjectMetadata{}
		now.SetGroupVersionKind(appsv1.SchemeGroupVersion.WithKind("Deployment"))
		if r.live.Get(ctx, client.ObjectKeyFromObject(live), now) != nil || !sameGeneration(now, live) {
			return err
		}
		version = now.ResourceVersion
	}
}

// cachedVersion is the newest resourceVersion that is known of what was observed.
func (r *Reconciler) cachedVersion(ctx context.Context, live *appsv1.Deployment) string {
	cached := &appsv1.Deployment{}
	if r.client.Get(ctx, client.ObjectKeyFromObject(live), cached) != nil {
		return live.ResourceVersion
	}
	if newest := latest(r.written, cached); sameGeneration(newest, live) {
		return newest.ResourceVersion
	}
	return live.ResourceVersion
}

func sameGeneration(a, b client.Object) bool {
	return a.GetUID() == b.GetUID() && a.GetGeneration() == b.GetGeneration()
}
