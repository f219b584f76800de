package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/rollout"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
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

// sameGeneration is whether spec and annotations of a Deployment are the same in two
// versions: its generation counts both.
func sameGeneration(a, b client.Object) bool {
	return a.GetUID() == b.GetUID() && a.GetGeneration() == b.GetGeneration()
}

// stillClaims refuses the first touch of a node whose claim does not stand any more: this
// controller may have been frozen since it decided. What changes after this look
// is noticed by the Deployment's version (rollout.Stamp). One look serves a pass.
func (r *Reconciler) stillClaims(ctx context.Context, o *observed, s rollout.Step) error {
	first := s.Action == rollout.Mark && !s.Drained || s.Action == rollout.Update
	if !first || !slices.Contains(o.state.Status.Wave, s.Node) {
		return nil
	}
	if _, marked := v1alpha1.MarkOf(o.nodes[s.Node].deployment.Annotations, o.strategy.MarkKey); marked {
		return nil
	}
	o.claims.once.Do(func() {
		live := &v1alpha1.IngressDaemonSet{}
		err := r.live.Get(ctx, client.ObjectKeyFromObject(o.set), live)
		switch {
		case err != nil:
			o.claims.err = fmt.Errorf("looking whether the claim stands: %w", err)
		case live.UID != o.set.UID || live.ResourceVersion != o.set.ResourceVersion:
			o.claims.err = apierrors.NewConflict(schema.GroupResource{Group: v1alpha1.GroupVersion.Group, Resource: "ingressdaemonsets"}, o.set.Name, errors.New("it has changed since nodes were claimed"))
		}
	})
	return o.claims.err
}

// keepClaims keeps the claims in the status whose Deployments could not be stamped.
func keepClaims(status *v1alpha1.IngressDaemonSetStatus, steps, done []rollout.Step) {
	for _, s := range steps {
		if s.Action != rollout.Stamp {
			continue
		}
		stamped := slices.ContainsFunc(done, func(d rollout.Step) bool { return d.Action == rollout.Stamp && d.Node == s.Node })
		if !stamped {
			status.Wave = append(status.Wave, s.Node)
		}
	}
	slices.Sort(status.Wave)
}
