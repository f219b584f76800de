package controller

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/rollout"
	"github.com/mumoshu/ingress-daemonset-controller/internal/rollout/objects"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// observed is the State that was read, and the objects that apply needs.
type observed struct {
	set      *v1alpha1.IngressDaemonSet
	state    rollout.State
	strategy v1alpha1.Strategy
	nodeSet  objects.NodeSet
	// deploymentStrategy is that of every node's Deployment.
	deploymentStrategy appsv1.DeploymentStrategy

	template  corev1.PodTemplateSpec
	revisions map[string]*appsv1.ControllerRevision
	nodes     map[string]*nodeObjects
	checkers  map[int32]*appsv1.DaemonSet
	service   *corev1.Service
	// unusable is whether the service must change before it can be published to.
	unusable bool
	// missing are the health checkers' account and its binding where they are not there.
	missing []client.Object
	// lookAt is when something that no event tells of is worth another look.
	lookAt time.Time
	// taken are the health-check ports that belong to another IngressDaemonSet.
	taken map[int32]bool
	// released is whether the finalizer was removed.
	released bool
}

type nodeObjects struct {
	node       *corev1.Node
	deployment *appsv1.Deployment
	pods       []*corev1.Pod
	checkers   []*corev1.Pod
}

func (o *observed) dryRunKey() string { return string(o.set.UID) + "/" + o.state.Revision }

// observe reads caches, and the answers of health-check ports, into one State.
func (r *Reconciler) observe(ctx context.Context, set *v1alpha1.IngressDaemonSet) (*observed, error) {
	o := &observed{
		set: set, template: objects.Template(set), nodes: map[string]*nodeObjects{},
		strategy: set.Spec.Strategy(), nodeSet: objects.NodeSetOf(set), deploymentStrategy: objects.DeploymentStrategy(set),
	}
	revision := objects.Revision(o.template)
	o.state = rollout.State{
		Now: time.Now(), Generation: set.Generation, Spec: set.Spec, Status: set.Status,
		Revision: revision,
	}
	o.state.DryRun = r.dryRuns.get(o.dryRunKey())
	for _, read := range []func(context.Context, *observed) error{
		r.observeDeletion, r.observeRevisions, r.observeNodes, r.observeDeployments, r.observePods,
		r.observeService, r.observeRivals, r.observeCheckers,
	} {
		if err := read(ctx, o); err != nil {
			return nil, err
		}
	}
	r.checks.want(client.ObjectKeyFromObject(set), o.endpoints())
	for name, n := range o.nodes {
		node, err := r.assemble(o, name, n)
		if err != nil {
			o.fault(v1alpha1.ReasonInvalidSpec, err.Error())
			continue
		}
		if node.Wanted || node.Deployment != nil || node.Detachment.Requested || len(node.Pods) > 0 {
			o.state.Nodes = append(o.state.Nodes, node)
		}
	}
	return o, nil
}

func (o *observed) fault(reason, message string) {
	f := rollout.Fault{Reason: reason, Message: message}
	if !slices.Contains(o.state.Faults, f) {
		o.state.Faults = append(o.state.Faults, f)
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

func (r *Reconciler) observeRevisions(ctx context.Context, o *observed) error {
	list := &appsv1.ControllerRevisionList{}
	if err := r.client.List(ctx, list, r.named(o)...); err != nil {
		return fmt.Errorf("listing ControllerRevisions: %w", err)
	}
	o.revisions, o.state.Revisions = map[string]*appsv1.ControllerRevision{}, map[string]bool{}
	for i := range list.Items {
		o.record(&list.Items[i])
	}
	for _, own := range unseen[*appsv1.ControllerRevision](r.written, o.set.UID, nil) {
		o.record(own)
	}
	return nil
}

func (o *observed) record(cr *appsv1.ControllerRevision) {
	if revision := cr.Labels[v1alpha1.LabelRevision]; controlledBy(cr, o.set.UID) {
		o.revisions[revision] = cr
		o.state.Revisions[revision] = true
	}
}

// named selects what carries the name of the IngressDaemonSet, in its namespace.
func (r *Reconciler) named(o *observed) []client.ListOption {
	return []client.ListOption{
		client.InNamespace(o.set.Namespace),
		client.MatchingLabels{v1alpha1.LabelName: v1alpha1.LabelValue(o.set.Name)},
		client.UnsafeDisableDeepCopy,
	}
}

func (r *Reconciler) observeNodes(ctx context.Context, o *observed) error {
	list := &corev1.NodeList{}
	if err := r.client.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("listing Nodes: %w", err)
	}
	for i := range list.Items {
		node := latest(r.written, &list.Items[i])
		o.nodes[node.Name] = &nodeObjects{node: node}
	}
	return nil
}

func (r *Reconciler) observeDeployments(ctx context.Context, o *observed) error {
	list := &appsv1.DeploymentList{}
	if err := r.client.List(ctx, list, r.named(o)...); err != nil {
		return fmt.Errorf("listing Deployments: %w", err)
	}
	seen := map[string]bool{}
	for i := range list.Items {
		d := latest(r.written, &list.Items[i])
		seen[d.Name] = true
		o.place(d)
	}
	for _, own := range unseen[*appsv1.Deployment](r.written, o.set.UID, seen) {
		o.place(own)
	}
	return nil
}

func (o *observed) place(d *appsv1.Deployment) {
	name := d.Annotations[v1alpha1.AnnotationNode]
	switch {
	case name == "":
	case controlledBy(d, o.set.UID):
		o.at(name).deployment = d
	case o.set.DeletionTimestamp != nil && orphaned(d):
		// The garbage collector was quicker: it has made orphans of the Deployments
		// already, and removed the finalizer that says so.
		if o.state.Deletion == rollout.DeleteInWaves {
			o.state.Deletion = rollout.DeleteOrphaning
		}
		o.at(name).deployment = d
	}
}

// orphaned is whether the Deployment is one of ours that has no owner any more.
func orphaned(d *appsv1.Deployment) bool {
	return metav1.GetControllerOfNoCopy(d) == nil && d.Annotations[v1alpha1.AnnotationPodsPerNode] != ""
}

// at is the node of the name, although its Node object may be gone.
func (o *observed) at(name string) *nodeObjects {
	if o.nodes[name] == nil {
		o.nodes[name] = &nodeObjects{}
	}
	return o.nodes[name]
}

func (r *Reconciler) observePods(ctx context.Context, o *observed) error {
	list := &corev1.PodList{}
	if err := r.client.List(ctx, list, r.named(o)...); err != nil {
		return fmt.Errorf("listing Pods: %w", err)
	}
	for i := range list.Items {
		pod := &list.Items[i]
		if pod.Labels[v1alpha1.LabelHealthCheckPort] != "" {
			if n := o.nodes[pod.Spec.NodeName]; n != nil {
				n.checkers = append(n.checkers, pod)
			}
			continue
		}
		if name := pod.Annotations[v1alpha1.AnnotationNode]; name != "" && pod.Labels[v1alpha1.LabelNode] == v1alpha1.LabelValue(name) {
			n := o.at(name)
			n.pods = append(n.pods, pod)
		}
	}
	return nil
}

func (r *Reconciler) observeService(ctx context.Context, o *observed) error {
	name := o.set.Spec.ServiceName
	if name == "" {
		return nil
	}
	svc := &corev1.Service{}
	err := r.client.Get(ctx, types.NamespacedName{Namespace: o.set.Namespace, Name: name}, svc)
	switch {
	case apierrors.IsNotFound(err):
		o.fault(v1alpha1.ReasonServiceUnusable, fmt.Sprintf("Service %s does not exist: create it without a selector and with externalTrafficPolicy Local", name))
		return nil
	case err != nil:
		return fmt.Errorf("reading Service %s: %w", name, err)
	}
	if fault := objects.ServiceFault(svc); fault != "" {
		o.fault(v1alpha1.ReasonServiceUnusable, fault)
		o.unusable = true
	}
	o.service = svc
	return nil
}

// observeRivals finds health-check ports that an older IngressDaemonSet answers
// on, on a node of both. Two answers on one port would take turns.
func (r *Reconciler) observeRivals(ctx context.Context, o *observed) error {
	o.taken = map[int32]bool{}
	list := &v1alpha1.IngressDaemonSetList{}
	if err := r.client.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("listing IngressDaemonSets: %w", err)
	}
	for i := range list.Items {
		rival := &list.Items[i]
		if !older(rival, o.set) {
			continue
		}
		for _, port := range o.set.Spec.HealthCheckNodePorts {
			if !slices.Contains(rival.Spec.HealthCheckNodePorts, port) {
				continue
			}
			if node := o.shared(rival); node != "" {
				o.taken[port] = true
				o.fault(v1alpha1.ReasonPortConflict, fmt.Sprintf("IngressDaemonSet %s/%s answers health checks on port %d too, on node %s: choose another port",
					rival.Namespace, rival.Name, port, node))
			}
		}
	}
	return nil
}

// older is whether a came first, by time of creation, then by namespace and name.
func older(a, b *v1alpha1.IngressDaemonSet) bool {
	return a.UID != b.UID && cmp.Or(
		a.CreationTimestamp.Compare(b.CreationTimestamp.Time),
		strings.Compare(a.Namespace, b.Namespace),
		strings.Compare(a.Name, b.Name),
	) < 0
}

// shared is the first node that both IngressDaemonSets want, empty where there is none.
func (o *observed) shared(rival *v1alpha1.IngressDaemonSet) string {
	rivals := objects.NodeSetOf(rival)
	for _, name := range slices.Sorted(maps.Keys(o.nodes)) {
		node := o.nodes[name].node
		if node == nil {
			continue
		}
		mine, _ := o.nodeSet.Wants(node, true)
		theirs, _ := rivals.Wants(node, true)
		if mine && theirs {
			return name
		}
	}
	return ""
}

func (r *Reconciler) observeCheckers(ctx context.Context, o *observed) error {
	list := &appsv1.DaemonSetList{}
	if err := r.client.List(ctx, list, r.named(o)...); err != nil {
		return fmt.Errorf("listing DaemonSets: %w", err)
	}
	o.checkers = map[int32]*appsv1.DaemonSet{}
	for i := range list.Items {
		ds := latest(r.written, &list.Items[i])
		port, err := strconv.ParseInt(ds.Labels[v1alpha1.LabelHealthCheckPort], 10, 32)
		if err == nil && controlledBy(ds, o.set.UID) {
			o.checkers[int32(port)] = ds
		}
	}
	for _, ds := range unseen[*appsv1.DaemonSet](r.written, o.set.UID, nil) {
		port, _ := strconv.ParseInt(ds.Labels[v1alpha1.LabelHealthCheckPort], 10, 32)
		o.checkers[int32(port)] = ds
	}
	if err := r.observeClaims(ctx, o); err != nil {
		return err
	}
	for port := range o.checkers {
		if !slices.Contains(o.set.Spec.HealthCheckNodePorts, port) {
			o.state.Checkers = append(o.state.Checkers, rollout.Checker{Port: port, Exists: true})
		}
	}
	for _, port := range o.set.Spec.HealthCheckNodePorts {
		c := rollout.Checker{Port: port, Wanted: true, Exists: o.checkers[port] != nil, Taken: o.taken[port]}
		if c.Exists {
			c.Outdated = checkerRevision(&o.checkers[port].Spec.Template.ObjectMeta) != r.wantedChecker(o, port)
		}
		o.state.Checkers = append(o.state.Checkers, c)
	}
	slices.SortFunc(o.state.Checkers, func(a, b rollout.Checker) int { return int(a.Port - b.Port) })
	return nil
}

// observeClaims finds what health checkers need and is not there, and what
// somebody else has in its place: that is never written to.
func (r *Reconciler) observeClaims(ctx context.Context, o *observed) error {
	if o.set.DeletionTimestamp != nil || len(o.set.Spec.HealthCheckNodePorts) == 0 {
		return nil
	}
	access := []client.Object{objects.CheckerRoleBinding(o.set)}
	if account := objects.CheckerServiceAccount(o.set); account != nil {
		access = append(access, account)
	}
	foreign := false
	for _, obj := range access {
		there, theirs, err := r.claimed(ctx, o, obj)
		switch {
		case err != nil:
			return err
		case theirs:
			foreign = true
		case !there:
			o.missing = append(o.missing, obj)
		}
	}
	for _, port := range o.set.Spec.HealthCheckNodePorts {
		if o.checkers[port] != nil {
			continue
		}
		_, theirs, err := r.claimed(ctx, o, objects.Checker(o.set, port, r.image))
		if err != nil {
			return err
		}
		o.taken[port] = o.taken[port] || theirs || foreign
	}
	return nil
}

// claimed is whether an object of the name is there, and whether it is somebody
// else's. The cache holds our own only, so others are looked for past it.
func (r *Reconciler) claimed(ctx context.Context, o *observed, want client.Object) (there, theirs bool, err error) {
	kind, key := want.GetObjectKind().GroupVersionKind().Kind, client.ObjectKeyFromObject(want)
	have := want.DeepCopyObject().(client.Object)
	err = r.client.Get(ctx, key, have)
	if apierrors.IsNotFound(err) {
		err = r.live.Get(ctx, key, have)
	}
	switch {
	case apierrors.IsNotFound(err):
		return false, false, nil
	case err != nil:
		return false, false, fmt.Errorf("reading %s %s: %w", kind, key.Name, err)
	case controlledBy(have, o.set.UID):
		return true, false, nil
	}
	o.fault(v1alpha1.ReasonForeignObject, fmt.Sprintf("%s %s belongs to somebody else: rename or delete it", kind, key.Name))
	o.lookAt = o.state.Now.Add(askAgain)
	return true, true, nil
}

func (r *Reconciler) wantedChecker(o *observed, port int32) string {
	return checkerRevision(&objects.Checker(o.set, port, r.image).Spec.Template.ObjectMeta)
}

func checkerRevision(meta *metav1.ObjectMeta) string {
	return meta.Labels[v1alpha1.LabelHealthCheckerRevision]
}

// endpoints are the health-check ports to listen to: of every node that has a
// Deployment.
func (o *observed) endpoints() []endpoint {
	var out []endpoint
	for _, n := range o.nodes {
		if n.deployment != nil {
			out = append(out, o.endpointsOf(n)...)
		}
	}
	return out
}

func (o *observed) endpointsOf(n *nodeObjects) []endpoint {
	if n.node == nil {
		return nil
	}
	var out []endpoint
	address := nodeAddress(n.node)
	for _, port := range o.set.Spec.HealthCheckNodePorts {
		if !o.taken[port] {
			out = append(out, endpoint{address: address, port: port})
		}
	}
	if o.service != nil && o.service.Spec.HealthCheckNodePort != 0 {
		out = append(out, endpoint{address: address, port: o.service.Spec.HealthCheckNodePort, plain: true})
	}
	return out
}

func nodeAddress(node *corev1.Node) string {
	for _, a := range node.Status.Addresses {
		if a.Type == corev1.NodeInternalIP {
			return a.Address
		}
	}
	return ""
}

// assemble makes the planner's view of one node.
func (r *Reconciler) assemble(o *observed, name string, n *nodeObjects) (rollout.Node, error) {
	out := rollout.Node{Name: name, Exists: n.node != nil, CheckersSettled: r.settled(o, n)}
	if n.node != nil {
		wanted, err := o.nodeSet.Wants(n.node, n.deployment != nil)
		if err != nil {
			return out, fmt.Errorf("matching nodes against the template's affinity: %w", err)
		}
		out.Wanted = wanted && o.set.DeletionTimestamp == nil
		out.Ready = objects.NodeReady(n.node)
		out.Leaving = objects.Leaving(n.node)
		out.Labels = n.node.Labels
		out.Detachment = detachment(o, n.node)
	}
	for _, pod := range n.pods {
		out.Pods = append(out.Pods, podState(pod))
		out.Evicting = out.Evicting || out.Leaving && evicted(pod)
	}
	if n.deployment != nil {
		out.Deployment = deploymentState(o, n.deployment)
		out.Checks = r.answers(o, n)
	}
	slices.SortFunc(out.Pods, func(a, b rollout.Pod) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

// settled is whether each health checker of the node runs, alone and of the
// newest template.
func (r *Reconciler) settled(o *observed, n *nodeObjects) bool {
	for _, port := range o.set.Spec.HealthCheckNodePorts {
		ds, pods := o.checkers[port], 0
		if ds == nil {
			return false
		}
		for _, pod := range n.checkers {
			if pod.Labels[v1alpha1.LabelHealthCheckPort] != objects.PortLabel(port) {
				continue
			}
			pods++
			if !objects.PodReady(pod) || pod.DeletionTimestamp != nil || checkerRevision(&pod.ObjectMeta) != checkerRevision(&ds.Spec.Template.ObjectMeta) {
				return false
			}
		}
		if pods != 1 {
			return false
		}
	}
	return true
}

func (r *Reconciler) answers(o *observed, n *nodeObjects) []rollout.Check {
	var out []rollout.Check
	for _, e := range o.endpointsOf(n) {
		c := r.checks.last(client.ObjectKeyFromObject(o.set), e)
		c.Gone = !e.plain && !slices.ContainsFunc(n.checkers, func(p *corev1.Pod) bool {
			return p.Labels[v1alpha1.LabelHealthCheckPort] == objects.PortLabel(e.port)
		})
		out = append(out, c)
	}
	return out
}

func podState(pod *corev1.Pod) rollout.Pod {
	out := rollout.Pod{
		Name: pod.Name, Revision: pod.Labels[v1alpha1.LabelRevision],
		Running:     pod.Status.Phase == corev1.PodRunning,
		Ready:       objects.PodReady(pod),
		Terminating: pod.DeletionTimestamp != nil,
	}
	if pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded {
		out.Failed = strings.TrimSpace(pod.Status.Reason + " " + pod.Status.Message)
		if out.Failed == "" {
			out.Failed = string(pod.Status.Phase)
		}
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.ContainersReady && c.Status == corev1.ConditionTrue {
			out.ReadySince = c.LastTransitionTime.Time
		}
	}
	return out
}

func evicted(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp != nil && slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue
	})
}

func deploymentState(o *observed, d *appsv1.Deployment) *rollout.Deployment {
	key := d.Annotations[v1alpha1.AnnotationMarkKey]
	if key == "" {
		key = v1alpha1.DefaultMarkKey
	}
	out := &rollout.Deployment{
		Name: d.Name, Deleting: d.DeletionTimestamp != nil,
		Revision:        d.Spec.Template.Labels[v1alpha1.LabelRevision],
		Settled:         d.Status.ObservedGeneration >= d.Generation,
		UpdatedReplicas: d.Status.UpdatedReplicas,
		Drifted:         drifted(d),
		Mark:            d.Annotations[key],
		UpdatedAt:       moment(d, v1alpha1.AnnotationUpdatedAt),
		AttachedAt:      moment(d, v1alpha1.AnnotationAttachedAt),
		DrainedAt:       moment(d, v1alpha1.AnnotationDrainedAt),
	}
	if d.Spec.Replicas != nil {
		out.Replicas = *d.Spec.Replicas
	}
	if n, err := strconv.ParseInt(d.Annotations[v1alpha1.AnnotationPodsPerNode], 10, 32); err == nil {
		out.PodsPerNode = int32(n)
	}
	if value := d.Annotations[v1alpha1.AnnotationHold]; value != "" {
		hold := &rollout.Hold{}
		// A value that somebody garbled holds nothing back.
		if json.Unmarshal([]byte(value), hold) == nil {
			out.Hold = hold
		}
	}
	if r := d.Spec.Strategy.RollingUpdate; r != nil && r.MaxSurge != nil {
		// What the API server accepted resolves.
		surge, _ := intstr.GetScaledValueFromIntOrPercent(r.MaxSurge, int(out.Replicas), true)
		out.Surge = int32(surge)
	}
	out.Outmoded = d.Spec.MinReadySeconds != o.set.Spec.MinReadySeconds || !equality.Semantic.DeepEqual(d.Spec.Strategy, o.deploymentStrategy)
	return out
}

// drifted is whether somebody else owns a field of the spec: what server-side
// apply leaves in place although it was never asked for.
func drifted(d *appsv1.Deployment) bool {
	return slices.ContainsFunc(d.ManagedFields, foreign)
}

func foreign(entry metav1.ManagedFieldsEntry) bool {
	return entry.Manager != FieldManager && outlives(entry)
}

// outlives is whether fields of the spec would survive our server-side apply by
// this claim: somebody else's, or our own from a patch.
func outlives(entry metav1.ManagedFieldsEntry) bool {
	applied := entry.Manager == FieldManager && entry.Operation == metav1.ManagedFieldsOperationApply
	if applied || entry.Subresource == "status" || entry.FieldsV1 == nil {
		return false
	}
	fields := map[string]json.RawMessage{}
	_ = json.Unmarshal(entry.FieldsV1.Raw, &fields)
	return fields["f:spec"] != nil
}

func moment(obj client.Object, annotation string) time.Time {
	at, _ := time.Parse(time.RFC3339, obj.GetAnnotations()[annotation])
	return at
}

// request is what an IngressDaemonSet remembers on a Node of what it asked for.
type request struct {
	At             time.Time `json:"at"`
	StaleTimestamp string    `json:"staleTimestamp,omitempty"`
}

func detachment(o *observed, node *corev1.Node) rollout.Detachment {
	var out rollout.Detachment
	if value, ok := node.Annotations[v1alpha1.AnnotationDetachPrefix+string(o.set.UID)]; ok {
		var asked request
		_ = json.Unmarshal([]byte(value), &asked)
		out.Requested, out.RequestedAt, out.StaleTimestamp = true, asked.At, asked.StaleTimestamp
	}
	if a := o.strategy.AnnotateNode; a != nil {
		_, out.Held = node.Annotations[a.Key]
		if a.TimestampKey != "" {
			out.Timestamp = node.Annotations[a.TimestampKey]
		}
	}
	return out
}
