package controller

import (
	"encoding/json"
	"fmt"
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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

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
