package controller

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/rollout"
	"github.com/mumoshu/ingress-daemonset-controller/internal/rollout/objects"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// create makes the Deployment of a node, or adopts the one that is there already. A
// foreign object of its name is left alone and a hash appended.
func (r *Reconciler) create(ctx context.Context, o *observed, s rollout.Step) error {
	pods, err := o.pods(s)
	if err != nil {
		return err
	}
	left, err := r.leftOver(ctx, o.set, s)
	if err != nil {
		return err
	}
	name := objects.DeploymentName(o.set, s.Node, false)
	for range 2 {
		d := objects.Deployment(o.set, s.Node, name, pods)
		if left != nil {
			d.Spec.Template, d.Spec.Replicas = left.Spec.Template, new(max(s.Replicas, *left.Spec.Replicas))
			if s.Replicas == 0 {
				// With none that make the node serve its health checks would fail before its turn.
				d.Annotations[v1alpha1.AnnotationPodsPerNode] = v1alpha1.PodsPerNodeValue(*d.Spec.Replicas)
			}
		}
		d.ResourceVersion = versionOfNone
		conflict := r.write(ctx, d)
		if conflict == nil {
			r.mutations.remember(d)
			return nil
		}
		if !apierrors.IsConflict(conflict) {
			return conflict
		}
		existing, err := r.namesake(ctx, types.NamespacedName{Namespace: o.set.Namespace, Name: name})
		switch {
		case err != nil:
			return err
		case existing == nil:
			// It went in between.
			return conflict
		case belongs(existing, o.set, s.Node):
			return r.adopt(ctx, o, s.Node, existing)
		}
		name = objects.DeploymentName(o.set, s.Node, true)
	}
	return fmt.Errorf("Deployment %s belongs to somebody else: rename or delete it", name)
}

// versionOfNone is the version of no object: an apply with it creates one that is not
// there, and conflicts where there is one, whoever applied that.
const versionOfNone = "1"

// belongs reports whether a Deployment is the node's: one of this IngressDaemonSet, which the
// cache does not show where somebody took its labels or annotations, or one that another
// of the same name has left behind.
func belongs(d *metav1.PartialObjectMetadata, set *v1alpha1.IngressDaemonSet, node string) bool {
	on := d.Annotations[v1alpha1.AnnotationNode]
	own := controlledBy(d, set.UID) && (on == "" || on == node)
	return own || orphaned(d) && on == node && d.Labels[v1alpha1.LabelName] == v1alpha1.LabelValue(set.Name)
}

// adopt puts owner, labels and annotation back by which a Deployment is found. Its
// template stays: what is outdated waits for the node's turn.
func (r *Reconciler) adopt(ctx context.Context, o *observed, node string, found *metav1.PartialObjectMetadata) error {
	labels, owners := objects.OwnLabels(o.set, node), found.OwnerReferences
	if !controlledBy(found, o.set.UID) {
		if err := r.setAsSeenNow(ctx, o); err != nil {
			return err
		}
		owners = append(owners, *metav1.NewControllerRef(o.set, v1alpha1.Kind))
	} else if found.Annotations[v1alpha1.AnnotationNode] == node && maps.Equal(merged(found.Labels, labels), found.Labels) {
		return nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": found.UID, "resourceVersion": found.ResourceVersion, "ownerReferences": owners,
		"labels": labels, "annotations": map[string]string{v1alpha1.AnnotationNode: node},
	}})
	if err != nil {
		return fmt.Errorf("encoding: %w", err)
	}
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: found.Namespace, Name: found.Name}}
	if err := r.client.Patch(ctx, d, client.RawPatch(types.MergePatchType, patch), client.FieldOwner(objects.FieldManager)); err != nil {
		return fmt.Errorf("adopting Deployment %s: %w", d.Name, err)
	}
	r.mutations.remember(d)
	return nil
}

func (o *observed) pods(s rollout.Step) (objects.Pods, error) {
	template, err := o.templateOf(s.Revision)
	return objects.Pods{
		Revision: s.Revision, Template: template, Replicas: s.Replicas, PerNode: o.set.Spec.Pods(),
		Hold: s.Hold, Paused: s.Paused, Rolling: s.Rolling, UpdatedAt: s.At,
	}, err
}

// update gives a Deployment a template and a number of pods, by server-side
// apply. Where something would survive that, it is replaced whole.
func (r *Reconciler) update(ctx context.Context, o *observed, s rollout.Step) error {
	r.mutations.replace(o.set, o.nodes[s.Node].deployment.UID, o.nodes[s.Node].pods)
	switch {
	case s.Keep:
		return r.amend(ctx, o, s)
	case s.ReplicaSet != "":
		return r.goBack(ctx, o, s)
	}
	pods, err := o.pods(s)
	if err != nil {
		return err
	}
	live := o.nodes[s.Node].deployment
	return r.guarded(ctx, o.nodes[s.Node], func(resourceVersion string) (*appsv1.Deployment, error) {
		d := objects.Deployment(o.set, s.Node, live.Name, pods)
		keepMark(d, live, o.strategy.MarkKey)
		d.UID, d.ResourceVersion = live.UID, resourceVersion
		if survives(live, d) {
			return d, r.replace(ctx, d)
		}
		return d, r.write(ctx, d, client.ForceOwnership)
	})
}

// temporary are the annotations of what ends with an update that does not set them.
var temporary = []string{v1alpha1.AnnotationHold, v1alpha1.AnnotationDrainedAt}

// survives reports whether server-side apply would leave something of a Deployment that is not
// asked for: fields of the spec that others own, or an annotation that was patched, which
// owns nothing of the spec where that is as it was.
func survives(live, d *appsv1.Deployment) bool {
	return slices.ContainsFunc(live.ManagedFields, objects.Outlives) || slices.ContainsFunc(temporary, func(key string) bool {
		_, there := live.Annotations[key]
		_, kept := d.Annotations[key]
		return there && !kept
	})
}

// goBack gives a Deployment the template of one of its ReplicaSets as it is there: made
// anew it could be another, and replace the pods that run.
func (r *Reconciler) goBack(ctx context.Context, o *observed, s rollout.Step) error {
	live := o.nodes[s.Node].deployment
	set, err := r.replicaSetOf(ctx, live, s.ReplicaSet)
	if err != nil {
		return err
	}
	held := objects.Deployment(o.set, s.Node, live.Name, objects.Pods{Replicas: s.Replicas, Paused: s.Paused, Rolling: roomFor(set, s)})
	held.Spec.Template = podTemplateOf(set)
	if ownerOf(live) == "" {
		// It was orphaned, and is not to go with the object.
		held.OwnerReferences = nil
	}
	held.Annotations = merged(live.Annotations, map[string]string{v1alpha1.AnnotationHold: s.Hold.Value()})
	return r.guarded(ctx, o.nodes[s.Node], func(resourceVersion string) (*appsv1.Deployment, error) {
		d := held.DeepCopy()
		d.UID, d.ResourceVersion = live.UID, resourceVersion
		return d, r.replace(ctx, d)
	})
}

// annotationMaxReplicas is where the Deployment controller keeps for how many pods, with the
// surge, it sized a ReplicaSet.
const annotationMaxReplicas = "deployment.kubernetes.io/max-replicas"

// roomFor is how a step that goes back to a ReplicaSet has pods replaced: scaling in proportion
// takes none of its pods where there is room for as many as it was sized for. The Deployment
// does not tell that where its surge was changed since.
func roomFor(set *appsv1.ReplicaSet, s rollout.Step) rollout.Rolling {
	most, err := strconv.ParseInt(set.Annotations[annotationMaxReplicas], 10, 32)
	if err == nil && s.Rolling.Surge > 0 {
		s.Rolling.Surge = max(s.Rolling.Surge, int32(most)-s.Replicas)
	}
	return s.Rolling
}

// keepMark keeps what an update of the pods does not change.
func keepMark(d, live *appsv1.Deployment, key string) {
	for _, kept := range []string{v1alpha1.AnnotationMarkKey, v1alpha1.AnnotationAttachedAt, v1alpha1.MarkKeyOf(live.Annotations, key)} {
		if value, ok := live.Annotations[kept]; ok {
			d.Annotations[kept] = value
		}
	}
}

// replace writes the spec whole and drops all managed fields by which fields of it would
// survive. The labels of the old template go with it, those of others stay.
func (r *Reconciler) replace(ctx context.Context, d *appsv1.Deployment) error {
	live, err := r.whole(ctx, d)
	if err != nil {
		return fmt.Errorf("reading what is to be replaced: %w", err)
	}
	whole := live.DeepCopy()
	whole.UID, whole.ResourceVersion = d.UID, d.ResourceVersion
	whole.Spec, whole.Annotations = d.Spec, merged(live.Annotations, d.Annotations)
	maps.DeleteFunc(whole.Labels, func(key, value string) bool { return live.Spec.Template.Labels[key] == value })
	whole.Labels = merged(whole.Labels, d.Labels)
	for _, key := range temporary {
		if _, kept := d.Annotations[key]; !kept {
			delete(whole.Annotations, key)
		}
	}
	whole.ManagedFields = slices.DeleteFunc(whole.ManagedFields, objects.Outlives)
	if err := r.client.Update(ctx, whole, client.FieldOwner(objects.FieldManager)); err != nil {
		return err
	}
	*d = *whole
	return nil
}

func merged(a, b map[string]string) map[string]string {
	out := maps.Clone(a)
	maps.Copy(out, b)
	return out
}
