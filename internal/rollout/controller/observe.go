package controller

import (
	"context"
	"fmt"
	"slices"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/rollout"
	"github.com/mumoshu/ingress-daemonset-controller/internal/rollout/objects"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// observe reads caches, and the answers of health-check ports, into one State.
func (r *Reconciler) observe(ctx context.Context, s *session, set *v1alpha1.IngressDaemonSet) (*observed, error) {
	// Before the time is taken: a freeze after this is told by a later beat.
	thawed := r.freezes.beat()
	known := s.readingsOf(set)
	o := &observed{
		session: s, set: set, template: objects.Template(set), nodes: map[string]*nodeObjects{},
		strategy: set.Spec.Strategy(), reader: objects.ReaderOf(set),
	}
	s.measurements.stored(set.Status.Analysis)
	o.state = rollout.State{
		Now: r.now(), Generation: set.Generation, Spec: set.Spec, Status: set.Status,
		Revision: known.revision, Measurements: s.measurements.last(), DryRun: s.dryRun.of(known.revision),
		Promoted: set.Annotations[v1alpha1.AnnotationPromoted], ReleasedPorts: releasedPorts(set),
		Detachers: r.detachers,
	}
	for _, read := range []func(context.Context, *observed) error{
		r.observeDeletion, r.observeRevisions, r.observeFleet, r.observeService, r.observePublished, r.observeRivals, r.observeCheckers,
	} {
		if err := read(ctx, o); err != nil {
			// What changed was taken from the changes, and not read.
			s.readings = nil
			return nil, err
		}
	}
	r.assemble(o)
	r.checkChecks(o)
	r.tellOlder(ctx, o)
	r.compareCheckers(o)
	s.sights.Thawed(thawed)
	s.sights.See(&o.state)
	return o, nil
}

// observeFleet reads Nodes, Deployments and pods: all of them the first time with a
// spec, and while the IngressDaemonSet is being deleted; later those of nodes of
// which something has changed.
func (r *Reconciler) observeFleet(ctx context.Context, o *observed) error {
	changed := o.session.changes.take()
	all := changed == nil || o.session.readings.nodes == nil || o.set.DeletionTimestamp != nil
	if !all {
		r.mutations.nodes(o.set, changed)
	}
	if err := r.catchUp(ctx, o, &appsv1.Deployment{}); err != nil {
		return err
	}
	if all {
		return r.observeAll(ctx, o)
	}
	return r.observeChanged(ctx, o, changed)
}

func (r *Reconciler) observeAll(ctx context.Context, o *observed) error {
	nodes, err := stored(ctx, r.index, &corev1.Node{}, "")
	if err != nil {
		return fmt.Errorf("listing Nodes: %w", err)
	}
	deployments, err := named(ctx, r, o, &appsv1.Deployment{})
	if err != nil {
		return fmt.Errorf("listing Deployments: %w", err)
	}
	pods, err := named(ctx, r, o, &corev1.Pod{})
	if err != nil {
		return fmt.Errorf("listing Pods: %w", err)
	}
	r.gather(o, nodes, deployments, pods)
	o.session.readings.replace(o.nodes)
	o.nodes = o.session.readings.nodes
	return nil
}

// observeChanged reads again what stands on the nodes.
func (r *Reconciler) observeChanged(ctx context.Context, o *observed, changed map[string]bool) error {
	nodes, err := storedAs(ctx, r.index, &corev1.Node{}, changed)
	if err != nil {
		return fmt.Errorf("reading Nodes: %w", err)
	}
	deployments, err := storedOn(ctx, r.index, &appsv1.Deployment{}, o.set, changed)
	if err != nil {
		return fmt.Errorf("reading Deployments: %w", err)
	}
	pods, err := storedOn(ctx, r.index, &corev1.Pod{}, o.set, changed)
	if err != nil {
		return fmt.Errorf("reading Pods: %w", err)
	}
	r.gather(o, nodes, deployments, pods)
	for name := range changed {
		o.session.readings.put(name, o.nodes[name])
	}
	o.nodes = o.session.readings.nodes
	return nil
}

// gather puts objects where they belong, and what was written newer than they are.
func (r *Reconciler) gather(o *observed, nodes []*corev1.Node, deployments []*appsv1.Deployment, pods []*corev1.Pod) {
	for _, cached := range nodes {
		node := latest(r.mutations, cached)
		o.nodes[node.Name] = &nodeObjects{node: node}
	}
	for _, cached := range deployments {
		o.place(latest(r.mutations, cached))
	}
	placed := func(d *appsv1.Deployment) bool {
		n := o.nodes[d.Annotations[v1alpha1.AnnotationNode]]
		return n != nil && n.deployment != nil
	}
	for _, own := range unseen(r.mutations, o.set.UID, placed) {
		o.place(own)
	}
	for _, pod := range pods {
		if r.mutations.buried(pod) {
			continue
		}
		switch at := placeOf(pod); {
		case at.node == "":
		case at.port == "":
			n := o.at(at.node)
			n.pods = append(n.pods, pod)
		case o.nodes[at.node] != nil:
			n := o.nodes[at.node]
			n.checkers = append(n.checkers, pod)
		}
	}
}

// assemble makes the planner's view of the nodes.
func (r *Reconciler) assemble(o *observed) {
	o.session.readings.with(o.ports(), o.checkerRevisions())
	names := o.session.readings.order()
	if o.session.readings.read(o) {
		var endpoints []endpoint
		for _, name := range names {
			endpoints = append(endpoints, o.nodes[name].reading.endpoints...)
		}
		o.session.checks.want(endpoints)
	}
	drained := o.session.evictions.drained(func(node string) bool {
		n := o.nodes[node]
		return n != nil && n.reading.out.Leaving
	})
	o.state.Nodes = make([]rollout.Node, 0, len(names))
	for _, name := range names {
		n := o.nodes[name]
		if err := n.reading.err; err != nil {
			o.fault(v1alpha1.ReasonInvalidSpec, err.Error())
		}
		node := n.reading.out
		node.Evicting = node.Evicting || slices.Contains(drained, name)
		node.EvictedSince = o.session.evictions.since(name)
		node.Checks = o.answers(n)
		if node.Wanted || node.Deployment != nil || node.Detachment.Requested || len(node.Pods) > 0 {
			o.state.Nodes = append(o.state.Nodes, node)
		}
	}
}

func (r *Reconciler) observeDeletion(ctx context.Context, o *observed) error {
	if o.set.DeletionTimestamp == nil {
		return nil
	}
	ns := &corev1.Namespace{}
	if err := r.live.Get(ctx, types.NamespacedName{Name: o.set.Namespace}, ns); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading the namespace: %w", err)
	}
	switch {
	case ns.DeletionTimestamp != nil, slices.Contains(o.set.Finalizers, metav1.FinalizerDeleteDependents):
		o.state.Deletion = rollout.DeleteAtOnce
	case slices.Contains(o.set.Finalizers, metav1.FinalizerOrphanDependents):
		o.state.Deletion = rollout.DeleteOrphaning
	default:
		o.state.Deletion = rollout.DeleteInWaves
	}
	return nil
}

// named are those that carry the name of the IngressDaemonSet, in its namespace.
func named[T client.Object](ctx context.Context, r *Reconciler, o *observed, kind T) ([]T, error) {
	all, err := stored(ctx, r.index, kind, o.set.Namespace)
	if err != nil {
		return nil, err
	}
	own, name := all[:0], v1alpha1.LabelValue(o.set.Name)
	for _, object := range all {
		if object.GetLabels()[v1alpha1.LabelName] == name {
			own = append(own, object)
		}
	}
	return own, nil
}
