package controller

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/rollout"
	"github.com/mumoshu/ingress-daemonset-controller/internal/rollout/objects"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log"
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
// that is not on record, or was refused. It gives the steps that were carried out.
func (r *Reconciler) apply(ctx context.Context, o *observed, steps []rollout.Step) (done []rollout.Step, err error) {
	perNode := map[string][]int{}
	carriedOut := make([]bool, len(steps))
	errs := []error{r.endReleases(ctx, o), r.grant(ctx, o)}
	for i, s := range steps {
		if s.Node != "" {
			perNode[s.Node] = append(perNode[s.Node], i)
			continue
		}
		if err := r.carryOut(ctx, o, s); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", s.Action, err))
			o.unrecorded = o.unrecorded || s.Action == rollout.RecordRevision
			continue
		}
		carriedOut[i] = true
	}
	end := r.now().Add(max(shortestAct, actPerEffort*r.now().Sub(o.state.Now)))
	errs = append(errs, forEach(slices.Sorted(maps.Keys(perNode)), r.parallel, func(node string) error {
		if r.now().After(end) {
			return nil
		}
		var failed error
		for _, i := range perNode[node] {
			// Rejected pods are cleaned up even where nothing keeps more from coming.
			if failed != nil && steps[i].Action != rollout.DeletePods {
				continue
			}
			if err := r.carryOut(ctx, o, steps[i]); err != nil {
				failed = errors.Join(failed, fmt.Errorf("%s %s: %w", steps[i].Action, node, err))
				continue
			}
			carriedOut[i] = true
		}
		return failed
	}), r.publish(ctx, o, o.published), r.pruneRevisions(ctx, o))
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
	if err := r.stillHolds(ctx, o, s); err != nil {
		return err
	}
	rollsOut := (s.Action == rollout.Create || s.Action == rollout.Update) && s.Revision == o.state.Revision
	if rollsOut && o.unrecorded {
		return errUnrecorded
	}
	err := r.do(ctx, o, s)
	if err == nil {
		logStep(ctx, s)
	}
	if (rollsOut || s.Action == rollout.RecordRevision) && err != nil && refusal(err) {
		// What was accepted in a dry run is refused by now.
		o.session.dryRun.set(o.state.Revision, err)
	}
	return err
}

// logStep tells of a step that was carried out. A measurement writes nothing, and is asked for in
// every pass until it is made.
func logStep(ctx context.Context, s rollout.Step) {
	if s.Action == rollout.Measure {
		return
	}
	values := []any{"action", s.Action, "node", s.Node, "reason", s.Reason}
	if s.Port != 0 {
		values = append(values, "port", s.Port)
	}
	log.FromContext(ctx).Info("carried out", values...)
}

// errUnrecorded is why nothing is rolled out of a template that could not be put on record.
var errUnrecorded = errors.New("its template is not on record yet")

func (r *Reconciler) do(ctx context.Context, o *observed, s rollout.Step) error {
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
	case rollout.HoldBack:
		return r.holdBack(ctx, o, s)
	case rollout.Update:
		return r.update(ctx, o, s)
	case rollout.Mark, rollout.Unmark, rollout.SetFields, rollout.ScaleToZero:
		return r.amend(ctx, o, s)
	case rollout.Stamp:
		return r.stamp(ctx, o, s)
	case rollout.RequestDetachment:
		return r.requestDetachment(ctx, o, s)
	case rollout.ReleaseDetachment:
		return r.annotateNode(ctx, o, s.Node, nil)
	case rollout.DeletePods:
		return r.deletePods(ctx, o, s)
	case rollout.Delete:
		return r.deleteAsSeen(ctx, o, s.Node)
	case rollout.Measure:
		return r.measure(o, s)
	case rollout.RemoveFinalizer:
		return r.removeFinalizer(ctx, o)
	}
	return fmt.Errorf("unknown step %s", s.Action)
}

// dryRun asks the API server whether it would accept the Deployment of some node.
func (r *Reconciler) dryRun(ctx context.Context, o *observed) error {
	d := objects.Deployment(o.set, "dry-run", objects.DeploymentName(o.set, "dry-run", true), objects.Pods{
		Revision: o.state.Revision, Template: o.template, Replicas: o.set.Spec.Pods(), PerNode: o.set.Spec.Pods(), UpdatedAt: r.now(),
	})
	err := r.write(ctx, d, client.DryRunAll, client.ForceOwnership)
	if err != nil && !refusal(err) {
		return err
	}
	o.session.dryRun.set(o.state.Revision, err)
	// No event tells of the answer.
	o.lookAt = o.state.Now
	return nil
}

func (r *Reconciler) requestDetachment(ctx context.Context, o *observed, s rollout.Step) error {
	a := o.strategy.AnnotateNode
	value, present := o.nodes[s.Node].node.Annotations[a.Key]
	if !present {
		value = a.Value
	}
	asked := v1alpha1.DetachmentRequest{At: s.At, Key: a.Key, StaleTimestamp: s.StaleTimestamp}
	return r.annotateNode(ctx, o, s.Node, map[string]any{a.Key: value, v1alpha1.DetachmentRequestKey(o.set.UID): asked.Value()})
}

// annotateNode makes these the only annotations on the Node that are ours. Each
// IngressDaemonSet is a field manager of its own, so that an annotation that
// several ask for goes when the last lets go of it. Our record bears our UID, so it is nobody
// else's, who may have rewritten it: it is taken, and taken off. Where the Node has changed,
// the record and its Deployment must be those that were observed: a controller that was frozen
// since would undo what another did.
func (r *Reconciler) annotateNode(ctx context.Context, o *observed, name string, annotations map[string]any) error {
	live := o.nodes[name].node
	record := v1alpha1.DetachmentRequestKey(o.set.UID)
	keys := []string{record}
	if a := o.strategy.AnnotateNode; annotations != nil {
		// An answer of before, and who holds it, are judged by what was observed.
		keys = append(keys, a.Key, a.TimestampKey)
	}
	same := func(now, live client.Object) bool {
		return now.GetUID() == live.GetUID() && sameAnnotations(now, live, keys) && r.deploymentAsSeen(ctx, o.nodes[name].deployment)
	}
	manager := client.FieldOwner(objects.NodeManager(o.set))
	return r.whileSame(ctx, live, corev1.SchemeGroupVersion.WithKind("Node"), live.ResourceVersion, same, func(version string) error {
		meta := map[string]any{"name": name, "uid": string(live.UID), "resourceVersion": version}
		if annotations != nil {
			meta["annotations"] = annotations
		}
		u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Node", "metadata": meta}}
		if err := r.client.Apply(ctx, client.ApplyConfigurationFromUnstructured(u), manager, client.ForceOwnership); err != nil {
			return err
		}
		if _, left := u.GetAnnotations()[record]; left && annotations == nil {
			changed := u.DeepCopy()
			unstructured.RemoveNestedField(changed.Object, "metadata", "annotations", record)
			patch := client.MergeFromWithOptions(u, client.MergeFromWithOptimisticLock{})
			if err := r.client.Patch(ctx, changed, patch, manager); err != nil {
				return err
			}
			u = changed
		}
		node := live.DeepCopy()
		node.Annotations, node.ResourceVersion = u.GetAnnotations(), u.GetResourceVersion()
		r.mutations.remember(node)
		return nil
	})
}

// sameAnnotations reports whether two versions of an object have the same annotations of some keys.
func sameAnnotations(a, b client.Object, keys []string) bool {
	return !slices.ContainsFunc(keys, func(key string) bool {
		before, had := a.GetAnnotations()[key]
		now, has := b.GetAnnotations()[key]
		return before != now || had != has
	})
}

func (r *Reconciler) deletePods(ctx context.Context, o *observed, s rollout.Step) error {
	pods := map[string]*corev1.Pod{}
	for _, pod := range o.nodes[s.Node].pods {
		pods[pod.Name] = pod
	}
	for _, name := range s.Pods {
		pod := pods[name]
		if pod == nil {
			continue
		}
		if err := r.delete(ctx, pod, client.GracePeriodSeconds(0)); err != nil {
			return err
		}
		r.mutations.bury(o.set, pod, s.Node)
	}
	return nil
}

func (r *Reconciler) removeFinalizer(ctx context.Context, o *observed) error {
	if err := r.everyNodeReleased(ctx, o.set); err != nil {
		return err
	}
	if o.state.Deletion != rollout.DeleteAtOnce {
		if err := r.everyDeploymentSeen(ctx, o); err != nil {
			return err
		}
	}
	if o.state.Deletion == rollout.DeleteOrphaning {
		if err := r.everySliceLeft(ctx, o); err != nil {
			return err
		}
	}
	changed := o.set.DeepCopy()
	controllerutil.RemoveFinalizer(changed, v1alpha1.Finalizer)
	o.released = true
	patch := client.MergeFromWithOptions(o.set, client.MergeFromWithOptimisticLock{})
	return client.IgnoreNotFound(r.client.Patch(ctx, changed, patch, client.FieldOwner(objects.FieldManager)))
}
