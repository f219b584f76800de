package controller

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/rollout"
	"github.com/mumoshu/ingress-daemonset-controller/internal/rollout/objects"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// guarded writes to the Deployment of a node if its spec, annotations and owner are still
// those that were observed; its status, which the Deployment controller writes all the
// time, may have changed meanwhile.
func (r *Reconciler) guarded(ctx context.Context, n *nodeObjects, write func(resourceVersion string) (*appsv1.Deployment, error)) error {
	version, same := r.cachedVersion(ctx, n.deployment), unchanged
	if n.insist != "" {
		version, same = n.insist, func(client.Object, client.Object) bool { return false }
	}
	return r.whileSame(ctx, n.deployment, appsv1.SchemeGroupVersion.WithKind("Deployment"), version, same, func(version string) error {
		d, err := write(version)
		if err == nil {
			r.mutations.remember(d)
		}
		return err
	})
}

// deleteAsSeen deletes a node's Deployment if its spec, annotations and owner are still those
// that were observed: a controller that was frozen since may find one that serves again, and
// one whose watch lags takes what was orphaned meanwhile for its own. Of a Node
// that is not there the watch of Nodes tells alone, and it may lag behind that of Deployments.
func (r *Reconciler) deleteAsSeen(ctx context.Context, o *observed, node string) error {
	live := o.nodes[node].deployment
	if o.nodes[node].node == nil {
		now := &metav1.PartialObjectMetadata{}
		now.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Node"))
		switch err := r.live.Get(ctx, client.ObjectKey{Name: node}, now); {
		case err == nil:
			return apierrors.NewConflict(corev1.Resource("nodes"), node, errors.New("it is there, and was not when this was decided"))
		case !apierrors.IsNotFound(err):
			return fmt.Errorf("looking whether the Node is gone: %w", err)
		}
	}
	return r.whileSame(ctx, live, appsv1.SchemeGroupVersion.WithKind("Deployment"), r.cachedVersion(ctx, live), unchanged, func(version string) error {
		return r.delete(ctx, live, client.Preconditions{UID: &live.UID, ResourceVersion: &version})
	})
}

// deploymentAsSeen reports whether spec and annotations of a Deployment, if there was one, are
// still those that were observed, or what this controller made of them.
func (r *Reconciler) deploymentAsSeen(ctx context.Context, live *appsv1.Deployment) bool {
	if live == nil {
		return true
	}
	now := &metav1.PartialObjectMetadata{}
	now.SetGroupVersionKind(appsv1.SchemeGroupVersion.WithKind("Deployment"))
	err := r.live.Get(ctx, client.ObjectKeyFromObject(live), now)
	return err == nil && unchanged(now, since(r.mutations, live))
}

// whileSame writes to an object of a version, and to later ones as long as what counts of
// it is the same as in the one that was observed.
func (r *Reconciler) whileSame(ctx context.Context, live client.Object, kind schema.GroupVersionKind, version string, same func(now, live client.Object) bool, write func(resourceVersion string) error) error {
	const attempts = 5
	for attempt := 1; ; attempt++ {
		err := write(version)
		if !apierrors.IsConflict(err) || attempt == attempts {
			return err
		}
		now := &metav1.PartialObjectMetadata{}
		now.SetGroupVersionKind(kind)
		if r.live.Get(ctx, client.ObjectKeyFromObject(live), now) != nil || !same(now, live) {
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
	if newest := latest(r.mutations, cached); unchanged(newest, live) {
		return newest.ResourceVersion
	}
	return live.ResourceVersion
}

// unchanged reports whether spec, annotations and owner of a Deployment are the same in two
// versions. Its generation counts the former two; who orphans it changes the last alone.
func unchanged(a, b client.Object) bool {
	return a.GetUID() == b.GetUID() && a.GetGeneration() == b.GetGeneration() && ownerOf(a) == ownerOf(b)
}

// lookedUp are the actions that must not be done on an old decision: the end of a port, which
// may be wanted again, the return of a node that another controller has taken out, a request
// that nobody would take back when the object is gone, and what is made for an object that is
// being deleted without it, or adopted for that.
var lookedUp = []rollout.Action{rollout.Create, rollout.ApplyChecker, rollout.DeleteChecker, rollout.Unmark, rollout.RequestDetachment, rollout.ReleaseDetachment}

// stillHolds refuses what must not be done on an old decision, since this controller may
// have been frozen since: besides lookedUp the first touch of a node whose claim may not stand
// any more, and a mark of an object that has changed. What changes after this look is noticed
// by the version of what is written (rollout.Stamp). One look serves a pass.
func (r *Reconciler) stillHolds(ctx context.Context, o *observed, s rollout.Step) error {
	switch {
	case slices.Contains(lookedUp, s.Action):
	case s.Action == rollout.Mark || s.Action == rollout.Update && slices.Contains(o.state.Status.Wave, s.Node):
		if _, marked := v1alpha1.MarkOf(o.nodes[s.Node].deployment.Annotations, o.strategy.MarkKey); marked {
			return nil
		}
	default:
		return nil
	}
	if err := r.setAsSeen(ctx, o); err != nil || s.Action != rollout.Unmark {
		return err
	}
	return r.podsAreThere(ctx, o, s.Node)
}

// podsAreThere is an error where a pod that was seen to serve does not any more: what the
// watch of pods shows may be older than what that of Deployments does, and old pods of the same
// revision would pass as those that were to take their place. Those that came since are none.
func (r *Reconciler) podsAreThere(ctx context.Context, o *observed, node string) error {
	n := o.nodes[node]
	for _, seen := range n.pods {
		if !serves(seen) || !r.mutations.mayBeOlder(n.deployment.UID, seen) {
			continue
		}
		now := &corev1.Pod{}
		err := r.live.Get(ctx, client.ObjectKeyFromObject(seen), now)
		switch {
		case apierrors.IsNotFound(err), err == nil && (now.UID != seen.UID || !serves(now)):
			return apierrors.NewConflict(corev1.Resource("pods"), seen.Name, errors.New("it served when this was decided, and does not any more"))
		case err != nil:
			return fmt.Errorf("looking whether its pods serve: %w", err)
		}
	}
	return nil
}

// setAsSeen is an error where the IngressDaemonSet has changed since it was observed.
func (r *Reconciler) setAsSeen(ctx context.Context, o *observed) error {
	o.look.once.Do(func() { o.look.err = r.setAsSeenNow(ctx, o) })
	return o.look.err
}

// setAsSeenNow looks again. What has no owner is adopted by a look that is younger than the
// version of it that is adopted: it may have been left behind since the pass looked first, and
// adopted for an IngressDaemonSet that is gone it would be deleted.
func (r *Reconciler) setAsSeenNow(ctx context.Context, o *observed) error {
	live := &metav1.PartialObjectMetadata{}
	live.SetGroupVersionKind(v1alpha1.Kind)
	err := r.live.Get(ctx, client.ObjectKeyFromObject(o.set), live)
	switch {
	case err != nil:
		return fmt.Errorf("looking whether the decision still holds: %w", err)
	case live.UID != o.set.UID || live.ResourceVersion != o.set.ResourceVersion:
		return apierrors.NewConflict(schema.GroupResource{Group: v1alpha1.GroupVersion.Group, Resource: "ingressdaemonsets"}, o.set.Name, errors.New("it has changed since this was decided"))
	}
	return nil
}

// everyNodeReleased is an error where a Node asks on behalf of an IngressDaemonSet that goes
// to be out of the load balancer: a controller that was frozen may have written that since
// this one looked, and nobody would ever take it back.
func (r *Reconciler) everyNodeReleased(ctx context.Context, set *v1alpha1.IngressDaemonSet) error {
	err := r.everyLive(ctx, corev1.SchemeGroupVersion.WithKind("NodeList"), func(node *metav1.PartialObjectMetadata) error {
		if v1alpha1.DetachmentRequestOf(node.Annotations, set.UID) == nil {
			return nil
		}
		return apierrors.NewConflict(corev1.Resource("nodes"), node.Name, errors.New("it asks for its detachment since this was decided"))
	})
	if err != nil {
		return fmt.Errorf("looking whether every Node is released: %w", err)
	}
	return nil
}

// everyDeploymentSeen is an error where a Deployment of an IngressDaemonSet that goes was made
// or marked since it was observed, as by a controller that was frozen: nobody would ever
// unmark it, or take its node out before its pods.
func (r *Reconciler) everyDeploymentSeen(ctx context.Context, o *observed) error {
	err := r.everyLive(ctx, appsv1.SchemeGroupVersion.WithKind("DeploymentList"), func(d *metav1.PartialObjectMetadata) error {
		node := d.Annotations[v1alpha1.AnnotationNode]
		if node == "" || !controlledBy(d, o.set.UID) && !orphaned(d) {
			return nil
		}
		seen := o.nodes[node]
		_, marked := v1alpha1.MarkOf(d.Annotations, o.strategy.MarkKey)
		if seen == nil || seen.deployment == nil || marked && o.state.Deletion == rollout.DeleteOrphaning {
			return apierrors.NewConflict(appsv1.Resource("deployments"), d.Name, errors.New("it was made or marked since this was decided"))
		}
		return nil
	}, o.byName()[:2]...)
	if err != nil {
		return fmt.Errorf("looking whether every Deployment is left as it should be: %w", err)
	}
	return nil
}

// pageSize is how many objects are read past the cache at a time: all those of a large fleet at
// once were a tenth of the memory that the controller takes.
const pageSize = 500

// everyLive looks at every object of a kind of list past the cache, until there is an error.
func (r *Reconciler) everyLive(ctx context.Context, kind schema.GroupVersionKind, look func(*metav1.PartialObjectMetadata) error, options ...client.ListOption) error {
	for next := ""; ; {
		page := &metav1.PartialObjectMetadataList{}
		page.SetGroupVersionKind(kind)
		if err := r.live.List(ctx, page, slices.Concat(options, []client.ListOption{client.Limit(pageSize), client.Continue(next)})...); err != nil {
			return err
		}
		for i := range page.Items {
			if err := look(&page.Items[i]); err != nil {
				return err
			}
		}
		if next = page.Continue; next == "" {
			return nil
		}
	}
}

// everySliceLeft publishes for the last time for an IngressDaemonSet that goes without its
// Deployments. By what the cache shows, a slice may be kept that goes with it, as one that was
// made after the garbage collector had looked, or one that says for ever what a last mark made
// of its pods.
func (r *Reconciler) everySliceLeft(ctx context.Context, o *observed) error {
	published, err := r.published(ctx, o, r.live)
	if err != nil {
		return err
	}
	return r.publish(ctx, o, published)
}

// published are our EndpointSlices in the order of their names, with those that an
// IngressDaemonSet of the same name has left behind.
func (r *Reconciler) published(ctx context.Context, o *observed, from client.Reader) ([]*discoveryv1.EndpointSlice, error) {
	list := &discoveryv1.EndpointSliceList{}
	if err := from.List(ctx, list, o.byName()...); err != nil {
		return nil, fmt.Errorf("listing EndpointSlices: %w", err)
	}
	var out []*discoveryv1.EndpointSlice
	for i := range list.Items {
		slice := &list.Items[i]
		left := ownerless(slice) && slice.Labels[discoveryv1.LabelManagedBy] == objects.SliceManager
		if left || controlledBy(slice, o.set.UID) {
			out = append(out, slice)
		}
	}
	slices.SortFunc(out, func(a, b *discoveryv1.EndpointSlice) int { return cmp.Compare(a.Name, b.Name) })
	return out, nil
}

// holdBack asks a node for no more pods than run, unless other pods are ready than were
// when that was decided: what a watch shows may be old, and pods that serve by now would be
// stopped, which a taint does anyway where it evicts. The Deployment's status follows its
// pods, so its version tells of a change after they were looked at; while pods are rejected
// without end it changes all the time, and they are looked at again.
func (r *Reconciler) holdBack(ctx context.Context, o *observed, s rollout.Step) error {
	const attempts = 5
	n := o.nodes[s.Node]
	defer func() { n.insist = "" }()
	for attempt := 1; ; attempt++ {
		now := &appsv1.Deployment{}
		err := r.live.Get(ctx, client.ObjectKeyFromObject(n.deployment), now)
		switch {
		case apierrors.IsNotFound(err), err == nil && !unchanged(now, since(r.mutations, n.deployment)):
			return apierrors.NewConflict(appsv1.Resource("deployments"), n.deployment.Name, errors.New("it has changed since this was decided"))
		case err != nil:
			return fmt.Errorf("reading the Deployment: %w", err)
		}
		if err := r.servesAsSeen(ctx, o, s.Node); err != nil {
			return err
		}
		n.insist = now.ResourceVersion
		if err := r.update(ctx, o, s); !apierrors.IsConflict(err) || attempt == attempts {
			return err
		}
	}
}

// servesAsSeen is an error where other pods of a node are ready than were observed, unless
// they only tolerate for a time what takes others away.
func (r *Reconciler) servesAsSeen(ctx context.Context, o *observed, node string) error {
	now := &corev1.PodList{}
	if err := r.live.List(ctx, now, client.InNamespace(o.set.Namespace), client.MatchingLabels(objects.OwnLabels(o.set, node))); err != nil {
		return fmt.Errorf("looking which pods are ready: %w", err)
	}
	ready, seen := map[types.UID]bool{}, map[types.UID]bool{}
	for i := range now.Items {
		if pod := &now.Items[i]; serves(pod) {
			ready[pod.UID] = true
		}
	}
	for _, pod := range o.nodes[node].pods {
		if serves(pod) {
			seen[pod.UID] = true
		}
	}
	if maps.Equal(ready, seen) {
		return nil
	}
	if evicts, err := r.stillEvicts(ctx, o, node); err != nil || evicts {
		return err
	}
	return apierrors.NewConflict(corev1.Resource("pods"), node, errors.New("other pods of the node are ready than were when this was decided"))
}

// stillEvicts reports whether a taint was seen to take pods from a node, and is on it still.
func (r *Reconciler) stillEvicts(ctx context.Context, o *observed, node string) (bool, error) {
	if !o.session.evictions.from(node) {
		return false, nil
	}
	now := &corev1.Node{}
	if err := r.live.Get(ctx, client.ObjectKey{Name: node}, now); err != nil {
		return false, fmt.Errorf("looking whether the taint is still there: %w", err)
	}
	return o.reader.Nodes.Evicts(now), nil
}

func serves(pod *corev1.Pod) bool { return objects.PodReady(pod) && pod.DeletionTimestamp == nil }

// stamp makes a Deployment's version another, once for each version of the IngressDaemonSet:
// where that is seen late, its claim is dropped again and again.
func (r *Reconciler) stamp(ctx context.Context, o *observed, s rollout.Step) error {
	uid := o.nodes[s.Node].deployment.UID
	if r.mutations.isStamped(o.set, uid) {
		return nil
	}
	if err := r.amend(ctx, o, s); err != nil {
		return err
	}
	r.mutations.stamp(o.set, uid)
	return nil
}

// keepClaims keeps the claims in the status of nodes of which something was to be written
// and was not: only a write makes what a frozen controller has decided out of date.
func keepClaims(status *v1alpha1.IngressDaemonSetStatus, claimed []string, steps, done []rollout.Step) {
	for _, s := range steps {
		same := func(d rollout.Step) bool { return d.Action == s.Action && d.Node == s.Node }
		if slices.Contains(claimed, s.Node) && !slices.ContainsFunc(done, same) {
			status.Wave = append(status.Wave, s.Node)
		}
	}
	slices.Sort(status.Wave)
	status.Wave = slices.Compact(status.Wave)
}
