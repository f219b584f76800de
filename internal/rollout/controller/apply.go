package controller

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/rollout"
	"github.com/mumoshu/ingress-daemonset-controller/internal/rollout/objects"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

const (
	// parallelWrites is how many nodes are written to at a time.
	parallelWrites = 32
	// shortestAct and actPerEffort say for how long writes are begun: this long, or
	// so many times as long as it took to observe and decide. What was decided upon
	// grows old meanwhile, so the rest is decided anew: nodes that have come further
	// take their next step before others begin.
	shortestAct  = time.Second
	actPerEffort = 50
)

// apply carries out the steps: those that concern no node first, in order, then
// those of different nodes side by side. It goes on after an error, because the
// steps of one node do not depend on those of another; but nothing is rolled out
// that is not on record. It gives the steps that were carried out.
func (r *Reconciler) apply(ctx context.Context, o *observed, steps []rollout.Step) (done []rollout.Step, err error) {
	perNode := map[string][]int{}
	carriedOut := make([]bool, len(steps))
	errs := []error{r.grant(ctx, o)}
	for i, s := range steps {
		if s.Node != "" {
			perNode[s.Node] = append(perNode[s.Node], i)
			continue
		}
		if err := r.carryOut(ctx, o, s); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", s.Action, err))
			if s.Action == rollout.RecordRevision {
				return nil, errors.Join(errs...)
			}
			continue
		}
		carriedOut[i] = true
	}
	end := time.Now().Add(max(shortestAct, actPerEffort*time.Since(o.state.Now)))
	errs = append(errs, forEach(slices.Sorted(maps.Keys(perNode)), func(node string) error {
		if time.Now().After(end) {
			return nil
		}
		for _, i := range perNode[node] {
			if err := r.carryOut(ctx, o, steps[i]); err != nil {
				return fmt.Errorf("%s %s: %w", steps[i].Action, node, err)
			}
			carriedOut[i] = true
		}
		return nil
	}), r.publish(ctx, o), r.pruneRevisions(ctx, o))
	for i, s := range steps {
		if carriedOut[i] {
			done = append(done, s)
		}
	}
	err = errors.Join(errs...)
	if err == nil && len(done) < len(steps) {
		o.lookAt = o.state.Now
	}
	return done, err
}

func (r *Reconciler) carryOut(ctx context.Context, o *observed, s rollout.Step) error {
	switch s.Action {
	case rollout.RecordRevision:
		return r.recordRevision(ctx, o)
	case rollout.DryRunDeployment:
		return r.dryRun(ctx, o)
	case rollout.ApplyChecker:
		return r.applyChecker(ctx, o, s.Port)
	case rollout.DeleteChecker:
		return r.delete(ctx, o.checkers[s.Port])
	case rollout.Create:
		return r.create(ctx, o, s)
	case rollout.Update, rollout.HoldBack:
		return r.update(ctx, o, s)
	case rollout.Mark, rollout.Unmark, rollout.SetFields, rollout.ScaleToZero:
		return r.amend(ctx, o, s)
	case rollout.RequestDetachment:
		return r.requestDetachment(ctx, o, s)
	case rollout.ReleaseDetachment:
		return r.annotateNode(ctx, o, s.Node, nil)
	case rollout.DeletePods:
		return r.deletePods(ctx, o, s)
	case rollout.Delete:
		return r.delete(ctx, o.nodes[s.Node].deployment)
	case rollout.RemoveFinalizer:
		return r.removeFinalizer(ctx, o)
	}
	return fmt.Errorf("unknown step %s", s.Action)
}

// write sends obj by server-side apply and remembers the answer.
func (r *Reconciler) write(ctx context.Context, obj client.Object, opts ...client.ApplyOption) error {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		return fmt.Errorf("encoding: %w", err)
	}
	unstructured.RemoveNestedField(content, "status")
	unstructured.RemoveNestedField(content, "metadata", "creationTimestamp")
	u := &unstructured.Unstructured{Object: content}
	opts = append([]client.ApplyOption{client.FieldOwner(FieldManager)}, opts...)
	if err := r.client.Apply(ctx, client.ApplyConfigurationFromUnstructured(u), opts...); err != nil {
		return err
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, obj); err != nil {
		return fmt.Errorf("decoding the answer: %w", err)
	}
	return nil
}

func (r *Reconciler) recordRevision(ctx context.Context, o *observed) error {
	var newest int64
	for _, cr := range o.revisions {
		newest = max(newest, cr.Revision)
	}
	cr, err := objects.ControllerRevision(o.set, o.state.Revision, newest+1)
	if err != nil {
		return err
	}
	if err := r.write(ctx, cr, client.ForceOwnership); err != nil {
		return err
	}
	r.written.remember(cr)
	o.record(cr)
	return nil
}

// pruneRevisions deletes the oldest revisions over the limit that no node has.
func (r *Reconciler) pruneRevisions(ctx context.Context, o *observed) error {
	if len(o.revisions) <= o.set.Spec.HistoryLimit() {
		return nil
	}
	used := map[string]bool{o.state.Revision: true, o.set.Status.CurrentRevision: true}
	for _, n := range o.state.Nodes {
		if n.Deployment != nil {
			used[n.Deployment.Revision] = true
		}
	}
	old := slices.SortedFunc(maps.Values(o.revisions), func(a, b *appsv1.ControllerRevision) int {
		return int(a.Revision - b.Revision)
	})
	old = slices.DeleteFunc(old, func(cr *appsv1.ControllerRevision) bool { return used[cr.Labels[v1alpha1.LabelRevision]] })
	for _, cr := range old[:max(0, len(old)-o.set.Spec.HistoryLimit())] {
		if err := r.delete(ctx, cr); err != nil {
			return fmt.Errorf("pruning revision %s: %w", cr.Name, err)
		}
	}
	return nil
}

// template is the template of a revision, from the record.
func (o *observed) templateOf(revision string) (corev1.PodTemplateSpec, error) {
	if revision == o.state.Revision {
		return o.template, nil
	}
	cr := o.revisions[revision]
	if cr == nil {
		return corev1.PodTemplateSpec{}, fmt.Errorf("no ControllerRevision of %s is left", revision)
	}
	return objects.RecordedTemplate(cr)
}

// dryRun asks the API server whether it would accept the Deployment of some node.
func (r *Reconciler) dryRun(ctx context.Context, o *observed) error {
	d := objects.Deployment(o.set, "dry-run", objects.DeploymentName(o.set, "dry-run", true), objects.Pods{
		Revision: o.state.Revision, Template: o.template, Replicas: o.set.Spec.Pods(), PerNode: o.set.Spec.Pods(), UpdatedAt: time.Now(),
	})
	err := r.write(ctx, d, client.DryRunAll, client.ForceOwnership)
	if err != nil && !refusal(err) {
		return err
	}
	r.dryRuns.set(o.dryRunKey(), err)
	return nil
}

// refusal is whether the API server judged the object, and not its own state.
func refusal(err error) bool {
	return apierrors.IsInvalid(err) || apierrors.IsForbidden(err) || apierrors.IsBadRequest(err) || apierrors.IsRequestEntityTooLargeError(err)
}

// grant makes what the health checkers need beside their DaemonSets.
func (r *Reconciler) grant(ctx context.Context, o *observed) error {
	for _, obj := range o.missing {
		if err := r.client.Create(ctx, obj, client.FieldOwner(FieldManager)); client.IgnoreAlreadyExists(err) != nil {
			return fmt.Errorf("creating %s %s: %w", obj.GetObjectKind().GroupVersionKind().Kind, obj.GetName(), err)
		}
	}
	return nil
}

func (r *Reconciler) applyChecker(ctx context.Context, o *observed, port int32) error {
	ds := objects.Checker(o.set, port, r.image)
	var force []client.ApplyOption
	if o.checkers[port] != nil {
		force = append(force, client.ForceOwnership)
	}
	if err := r.write(ctx, ds, force...); err != nil {
		return err
	}
	r.written.remember(ds)
	return nil
}

// create makes the Deployment of a node. A foreign object of its name is left
// alone and a hash appended; should one appear in between, its fields conflict.
func (r *Reconciler) create(ctx context.Context, o *observed, s rollout.Step) error {
	pods, err := o.pods(s)
	if err != nil {
		return err
	}
	name := objects.DeploymentName(o.set, s.Node, false)
	for range 2 {
		existing := &metav1.PartialObjectMetadata{}
		existing.SetGroupVersionKind(appsv1.SchemeGroupVersion.WithKind("Deployment"))
		err := r.live.Get(ctx, types.NamespacedName{Namespace: o.set.Namespace, Name: name}, existing)
		switch {
		case apierrors.IsNotFound(err):
			d := objects.Deployment(o.set, s.Node, name, pods)
			if err := r.write(ctx, d); err != nil {
				return err
			}
			r.written.remember(d)
			return nil
		case err != nil:
			return fmt.Errorf("looking for a Deployment of the same name: %w", err)
		case controlledBy(existing, o.set.UID) && existing.Annotations[v1alpha1.AnnotationNode] == s.Node:
			return nil
		}
		name = objects.DeploymentName(o.set, s.Node, true)
	}
	return fmt.Errorf("Deployment %s belongs to somebody else: rename or delete it", name)
}

func (o *observed) pods(s rollout.Step) (objects.Pods, error) {
	template, err := o.templateOf(s.Revision)
	return objects.Pods{
		Revision: s.Revision, Template: template, Replicas: s.Replicas, PerNode: o.set.Spec.Pods(),
		Hold: s.Hold, Paused: s.Paused, Rolling: s.Rolling, UpdatedAt: o.state.Now,
	}, err
}

// update gives a Deployment a template and a number of pods, by server-side
// apply. Where something of the spec would survive that, it is replaced whole.
func (r *Reconciler) update(ctx context.Context, o *observed, s rollout.Step) error {
	pods, err := o.pods(s)
	if err != nil {
		return err
	}
	live := o.nodes[s.Node].deployment
	if s.Action == rollout.HoldBack {
		pods.UpdatedAt = moment(live, v1alpha1.AnnotationUpdatedAt)
	}
	return r.guarded(ctx, live, func(resourceVersion string) (*appsv1.Deployment, error) {
		d := objects.Deployment(o.set, s.Node, live.Name, pods)
		keepMark(d, live)
		d.UID, d.ResourceVersion = live.UID, resourceVersion
		if slices.ContainsFunc(live.ManagedFields, outlives) {
			return d, r.replace(ctx, d)
		}
		return d, r.write(ctx, d, client.ForceOwnership)
	})
}

// keepMark keeps what an update of the pods does not change.
func keepMark(d, live *appsv1.Deployment) {
	key := live.Annotations[v1alpha1.AnnotationMarkKey]
	for _, kept := range []string{v1alpha1.AnnotationMarkKey, v1alpha1.AnnotationAttachedAt, key} {
		if value, ok := live.Annotations[kept]; ok && kept != "" {
			d.Annotations[kept] = value
		}
	}
}

// replace writes the spec whole and drops all claims by which fields of it would
// survive. The labels of the old template go with it, those of others stay.
func (r *Reconciler) replace(ctx context.Context, d *appsv1.Deployment) error {
	live := &appsv1.Deployment{}
	if err := r.live.Get(ctx, client.ObjectKeyFromObject(d), live); err != nil {
		return fmt.Errorf("reading what is to be replaced: %w", err)
	}
	whole := live.DeepCopy()
	whole.UID, whole.ResourceVersion = d.UID, d.ResourceVersion
	whole.Spec, whole.Annotations = d.Spec, merged(live.Annotations, d.Annotations)
	maps.DeleteFunc(whole.Labels, func(key, value string) bool { return live.Spec.Template.Labels[key] == value })
	whole.Labels = merged(whole.Labels, d.Labels)
	for _, dropped := range []string{v1alpha1.AnnotationHold, v1alpha1.AnnotationDrainedAt} {
		if _, kept := d.Annotations[dropped]; !kept {
			delete(whole.Annotations, dropped)
		}
	}
	whole.ManagedFields = slices.DeleteFunc(whole.ManagedFields, outlives)
	if err := r.client.Update(ctx, whole, client.FieldOwner(FieldManager)); err != nil {
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

// amend patches annotations and fields that restart no pod.
func (r *Reconciler) amend(ctx context.Context, o *observed, s rollout.Step) error {
	live := o.nodes[s.Node].deployment
	set := map[string]any{}
	var spec map[string]any
	switch s.Action {
	case rollout.Mark:
		key := o.strategy.MarkKey
		set[v1alpha1.AnnotationMarkKey], set[key] = key, s.Mark
		if s.Drained {
			set[v1alpha1.AnnotationDrainedAt] = rollout.Timestamp(o.state.Now)
		}
	case rollout.Unmark:
		set[live.Annotations[v1alpha1.AnnotationMarkKey]] = nil
		set[v1alpha1.AnnotationMarkKey] = nil
		set[v1alpha1.AnnotationAttachedAt] = rollout.Timestamp(o.state.Now)
	case rollout.SetFields:
		set[v1alpha1.AnnotationHold] = nil
		if s.Hold != nil {
			set[v1alpha1.AnnotationHold] = objects.HoldValue(s.Hold)
		}
		spec = map[string]any{"minReadySeconds": o.set.Spec.MinReadySeconds, "strategy": strategyPatch(o.set), "paused": nil}
	case rollout.ScaleToZero:
		spec = map[string]any{"replicas": 0}
	}
	return r.guarded(ctx, live, func(resourceVersion string) (*appsv1.Deployment, error) {
		patch := map[string]any{"metadata": map[string]any{
			"uid": live.UID, "resourceVersion": resourceVersion, "annotations": set,
		}}
		if spec != nil {
			patch["spec"] = spec
		}
		data, err := json.Marshal(patch)
		if err != nil {
			return nil, fmt.Errorf("encoding: %w", err)
		}
		d := live.DeepCopy()
		return d, r.client.Patch(ctx, d, client.RawPatch(types.MergePatchType, data), client.FieldOwner(FieldManager))
	})
}

// strategyPatch replaces the strategy, since the two types exclude each other's fields.
func strategyPatch(set *v1alpha1.IngressDaemonSet) map[string]any {
	s := objects.DeploymentStrategy(set)
	if s.RollingUpdate == nil {
		return map[string]any{"type": s.Type, "rollingUpdate": nil}
	}
	return map[string]any{"type": s.Type, "rollingUpdate": s.RollingUpdate}
}

func (r *Reconciler) requestDetachment(ctx context.Context, o *observed, s rollout.Step) error {
	a := o.strategy.AnnotateNode
	value, present := o.nodes[s.Node].node.Annotations[a.Key]
	if !present {
		value = a.Value
	}
	asked, err := json.Marshal(request{At: o.state.Now.UTC(), StaleTimestamp: s.StaleTimestamp})
	if err != nil {
		return fmt.Errorf("encoding: %w", err)
	}
	return r.annotateNode(ctx, o, s.Node, map[string]any{
		a.Key: value,
		v1alpha1.AnnotationDetachPrefix + string(o.set.UID): string(asked),
	})
}

// annotateNode makes these the only annotations on the Node that are ours. Each
// IngressDaemonSet is a field manager of its own, so that an annotation that
// several ask for goes when the last lets go of it.
func (r *Reconciler) annotateNode(ctx context.Context, o *observed, name string, annotations map[string]any) error {
	live := o.nodes[name].node
	meta := map[string]any{"name": name, "uid": string(live.UID)}
	if annotations != nil {
		meta["annotations"] = annotations
	}
	u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Node", "metadata": meta}}
	manager := client.FieldOwner("ids/" + o.set.Namespace + "/" + o.set.Name)
	if err := r.client.Apply(ctx, client.ApplyConfigurationFromUnstructured(u), manager); err != nil {
		return err
	}
	node := live.DeepCopy()
	node.Annotations, node.ResourceVersion = u.GetAnnotations(), u.GetResourceVersion()
	r.written.remember(node)
	return nil
}

func (r *Reconciler) deletePods(ctx context.Context, o *observed, s rollout.Step) error {
	for _, pod := range o.nodes[s.Node].pods {
		if slices.Contains(s.Pods, pod.Name) {
			if err := r.delete(ctx, pod, client.GracePeriodSeconds(0)); err != nil {
				return err
			}
		}
	}
	return nil
}

// delete deletes an object if it is still the one that was observed.
func (r *Reconciler) delete(ctx context.Context, obj client.Object, opts ...client.DeleteOption) error {
	uid := obj.GetUID()
	opts = append(opts, client.Preconditions{UID: &uid}, client.PropagationPolicy(metav1.DeletePropagationBackground))
	err := r.client.Delete(ctx, obj, opts...)
	r.written.gone(obj)
	return client.IgnoreNotFound(err)
}

func (r *Reconciler) removeFinalizer(ctx context.Context, o *observed) error {
	changed := o.set.DeepCopy()
	controllerutil.RemoveFinalizer(changed, v1alpha1.Finalizer)
	o.released = true
	patch := client.MergeFromWithOptions(o.set, client.MergeFromWithOptimisticLock{})
	return client.IgnoreNotFound(r.client.Patch(ctx, changed, patch, client.FieldOwner(FieldManager)))
}

// publish brings the EndpointSlices of the Service to what they should be.
func (r *Reconciler) publish(ctx context.Context, o *observed) error {
	wanted := map[string]*discoveryv1.EndpointSlice{}
	if o.service != nil {
		for _, n := range o.state.Nodes {
			marked := n.Deployment == nil || n.Deployment.Mark != ""
			if slice := objects.EndpointSlice(o.set, o.service, n.Name, o.nodes[n.Name].pods, marked); slice != nil {
				wanted[slice.Name] = slice
			}
		}
	}
	list := &discoveryv1.EndpointSliceList{}
	if err := r.client.List(ctx, list, r.named(o)...); err != nil {
		return fmt.Errorf("listing EndpointSlices: %w", err)
	}
	published := map[string]bool{}
	for i := range list.Items {
		have := &list.Items[i]
		want := wanted[have.Name]
		published[have.Name] = controlledBy(have, o.set.UID)
		switch {
		case !controlledBy(have, o.set.UID):
		case want == nil:
			if err := r.delete(ctx, have); err != nil {
				return fmt.Errorf("deleting EndpointSlice %s: %w", have.Name, err)
			}
		case samePublication(have, want):
			delete(wanted, have.Name)
		}
	}
	if o.unusable {
		// What is published stays true, or its traffic would end; but nothing is
		// published to a Service that may be meant for something else.
		maps.DeleteFunc(wanted, func(name string, _ *discoveryv1.EndpointSlice) bool { return !published[name] })
	}
	return forEach(slices.Sorted(maps.Keys(wanted)), func(name string) error {
		if err := r.write(ctx, wanted[name], client.ForceOwnership); err != nil {
			return fmt.Errorf("publishing EndpointSlice %s: %w", name, err)
		}
		return nil
	})
}

func samePublication(a, b *discoveryv1.EndpointSlice) bool {
	return equality.Semantic.DeepEqual(a.Endpoints, b.Endpoints) && equality.Semantic.DeepEqual(a.Ports, b.Ports) &&
		a.Labels[discoveryv1.LabelServiceName] == b.Labels[discoveryv1.LabelServiceName]
}
