package controller

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/rollout"
	"github.com/mumoshu/ingress-daemonset-controller/internal/rollout/objects"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// amend patches annotations and fields that restart no pod.
func (r *Reconciler) amend(ctx context.Context, o *observed, s rollout.Step) error {
	live := o.nodes[s.Node].deployment
	set, spec := amendment(o, live, s)
	labels := objects.OwnLabels(o.set, s.Node)
	return r.guarded(ctx, o.nodes[s.Node], func(resourceVersion string) (*appsv1.Deployment, error) {
		patch := map[string]any{"metadata": map[string]any{
			"uid": live.UID, "resourceVersion": resourceVersion, "annotations": set, "labels": labels,
		}}
		if spec != nil {
			patch["spec"] = spec
		}
		data, err := json.Marshal(patch)
		if err != nil {
			return nil, fmt.Errorf("encoding: %w", err)
		}
		d := live.DeepCopy()
		return d, r.client.Patch(ctx, d, client.RawPatch(types.MergePatchType, data), client.FieldOwner(objects.FieldManager))
	})
}

// amendment is what a step changes of the annotations and, unless nil, of the spec.
func amendment(o *observed, live *appsv1.Deployment, s rollout.Step) (set, spec map[string]any) {
	set = map[string]any{}
	switch s.Action {
	case rollout.Mark:
		key := o.strategy.MarkKey
		set[v1alpha1.MarkKeyOf(live.Annotations, o.strategy.MarkKey)] = nil
		set[v1alpha1.AnnotationMarkKey], set[key] = key, s.Mark
		if s.Drained {
			set[v1alpha1.AnnotationDrainedAt] = v1alpha1.Timestamp(s.At)
		}
	case rollout.Unmark:
		set[v1alpha1.MarkKeyOf(live.Annotations, o.strategy.MarkKey)] = nil
		set[v1alpha1.AnnotationMarkKey], set[v1alpha1.AnnotationDrainedAt] = nil, nil
		set[v1alpha1.AnnotationAttachedAt] = v1alpha1.Timestamp(s.At)
	case rollout.Stamp:
		set[v1alpha1.AnnotationClaimDropped] = v1alpha1.Timestamp(s.At)
	case rollout.SetFields:
		set[v1alpha1.AnnotationHold] = holdPatch(s.Hold)
		if s.PodsPerNode != nil {
			set[v1alpha1.AnnotationPodsPerNode] = v1alpha1.PodsPerNodeValue(*s.PodsPerNode)
		}
		spec = map[string]any{"minReadySeconds": o.set.Spec.MinReadySeconds, "strategy": strategyPatch(o.set, rollout.Rolling{}), "paused": nil}
	case rollout.HoldBack, rollout.Update:
		set[v1alpha1.AnnotationHold] = holdPatch(s.Hold)
		if s.Action == rollout.Update {
			set[v1alpha1.AnnotationUpdatedAt], set[v1alpha1.AnnotationDrainedAt] = v1alpha1.Timestamp(s.At), nil
		}
		spec = map[string]any{"replicas": s.Replicas, "paused": s.Paused, "strategy": strategyPatch(o.set, s.Rolling)}
	case rollout.ScaleToZero:
		spec = map[string]any{"replicas": 0}
	}
	return set, spec
}

func holdPatch(h *v1alpha1.Hold) any {
	if h == nil {
		return nil
	}
	return h.Value()
}

// strategyPatch replaces the strategy, since the two types exclude each other's fields.
func strategyPatch(set *v1alpha1.IngressDaemonSet, how rollout.Rolling) map[string]any {
	s := objects.StrategyOf(set, how)
	if s.RollingUpdate == nil {
		return map[string]any{"type": s.Type, "rollingUpdate": nil}
	}
	return map[string]any{"type": s.Type, "rollingUpdate": s.RollingUpdate}
}
