package objects

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/rollout"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// FieldManager owns the fields that the controller writes, but for those on
// Nodes, where each IngressDaemonSet is a manager of its own.
const FieldManager = "ingress-daemonset-controller"

const nodeManagers = "ids/"

// NodeManager owns what an IngressDaemonSet writes on Nodes.
func NodeManager(set *v1alpha1.IngressDaemonSet) string {
	return nodeManagers + set.Namespace + "/" + set.Name
}

// AsksForNodes reports whether a field manager is the NodeManager of some IngressDaemonSet.
func AsksForNodes(manager string) bool { return strings.HasPrefix(manager, nodeManagers) }

// Reader reads the objects of a node into what the planner sees.
type Reader struct {
	// Nodes tells which nodes belong to the set.
	Nodes       NodeSet
	set         *v1alpha1.IngressDaemonSet
	strategy    v1alpha1.Strategy
	deployments appsv1.DeploymentStrategy
}

// ReaderOf prepares what is the same for every node.
func ReaderOf(set *v1alpha1.IngressDaemonSet) Reader {
	return Reader{set: set, Nodes: NodeSetOf(set), strategy: set.Spec.Strategy(), deployments: DeploymentStrategy(set)}
}

// Node is what the planner sees of a node, but for its health checks. Node and
// Deployment are nil where they do not exist. An error says why the node cannot
// be told to belong to the set; then it does where it did.
func (r Reader) Node(name string, node *corev1.Node, deployment *appsv1.Deployment, pods []*corev1.Pod) (out rollout.Node, err error) {
	out = rollout.Node{Name: name, Exists: node != nil}
	if node != nil {
		out.Wanted, err = r.Nodes.Wants(node, deployment != nil)
		if err != nil {
			out.Wanted, err = deployment != nil, fmt.Errorf("matching nodes against the template's affinity: %w", err)
		}
		out.Wanted = out.Wanted && r.set.DeletionTimestamp == nil
		out.Ready, out.ReadyAt = readiness(node)
		out.Leaving = Leaving(node)
		out.Tainted = r.Nodes.Evicts(node)
		out.Labels = node.Labels
		out.Detachment = r.detachment(node)
	}
	for _, pod := range pods {
		out.Pods = append(out.Pods, readPod(pod))
		out.Evicting = out.Evicting || out.Leaving && evicted(pod)
	}
	if deployment != nil {
		out.Deployment = r.deployment(deployment)
	}
	slices.SortFunc(out.Pods, func(a, b rollout.Pod) int { return strings.Compare(a.Name, b.Name) })
	return out, err
}

// CheckersSettled reports whether each health-check port of a node has one health
// checker, ready and of the newest template. Pods are the node's health checkers.
func CheckersSettled(set *v1alpha1.IngressDaemonSet, daemonSets map[int32]*appsv1.DaemonSet, pods []*corev1.Pod) bool {
	for _, port := range set.Spec.HealthCheckNodePorts {
		ds, found := daemonSets[port], 0
		if ds == nil {
			return false
		}
		for _, pod := range pods {
			if pod.Labels[v1alpha1.LabelHealthCheckPort] != PortLabel(port) {
				continue
			}
			found++
			if !PodReady(pod) || pod.DeletionTimestamp != nil || CheckerRevision(pod.Labels) != CheckerRevision(ds.Spec.Template.Labels) {
				return false
			}
		}
		if found != 1 {
			return false
		}
	}
	return true
}

// CheckerRevision is the hash of a health checker's pod template, from its labels.
func CheckerRevision(labels map[string]string) string {
	return labels[v1alpha1.LabelHealthCheckerRevision]
}

func readPod(pod *corev1.Pod) rollout.Pod {
	out := rollout.Pod{
		Name: pod.Name, Revision: pod.Labels[v1alpha1.LabelRevision],
		ReplicaSet:  ReplicaSetOf(pod),
		Created:     pod.CreationTimestamp.Time,
		Running:     pod.Status.Phase == corev1.PodRunning,
		Ready:       PodReady(pod),
		Deleted:     DeletedAt(pod),
		Terminating: pod.DeletionTimestamp != nil,
		Evicted:     EvictedByTaint(pod),
		Unready:     Unready(pod, nil),
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

// ReplicaSetOf is the hash of the ReplicaSet that a pod is of.
func ReplicaSetOf(pod *corev1.Pod) string { return pod.Labels[appsv1.DefaultDeploymentUniqueLabelKey] }

// DeletedAt is when somebody asked for the pod's end, zero where nobody did.
func DeletedAt(pod *corev1.Pod) time.Time {
	at, grace := pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds
	if at == nil || grace == nil {
		return time.Time{}
	}
	// It stands for the moment at which the grace is over.
	return at.Add(-time.Duration(*grace) * time.Second)
}

func evicted(pod *corev1.Pod) bool { return pod.DeletionTimestamp != nil && disruption(pod) != nil }

// EvictedByTaint reports whether a taint of its node takes a pod away.
func EvictedByTaint(pod *corev1.Pod) bool {
	c := disruption(pod)
	return c != nil && c.Reason == evictedByTaint
}

// EvictedByRequest reports whether somebody asked the API server to evict the pod, as a drain does.
func EvictedByRequest(pod *corev1.Pod) bool {
	c := disruption(pod)
	return c != nil && c.Reason == evictedByRequest
}

// Reasons of the condition DisruptionTarget, by what takes the pod away.
const (
	evictedByTaint   = "DeletionByTaintManager"
	evictedByRequest = "EvictionByEvictionAPI"
)

// disruption says why somebody takes a pod away, if anybody says so.
func disruption(pod *corev1.Pod) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue {
			return c
		}
	}
	return nil
}

func (r Reader) deployment(d *appsv1.Deployment) *rollout.Deployment {
	mark, marked := v1alpha1.MarkOf(d.Annotations, r.strategy.MarkKey)
	out := &rollout.Deployment{
		Name: d.Name, Deleting: d.DeletionTimestamp != nil,
		Revision:        d.Spec.Template.Labels[v1alpha1.LabelRevision],
		Settled:         d.Status.ObservedGeneration >= d.Generation,
		UpdatedReplicas: d.Status.UpdatedReplicas,
		OlderReplicas:   d.Status.Replicas - d.Status.UpdatedReplicas,
		ReadyReplicas:   d.Status.ReadyReplicas,
		Drifted:         drifted(d),
		Mark:            mark,
		EmptyMark:       marked && mark == "",
		UpdatedAt:       v1alpha1.Moment(d.Annotations, v1alpha1.AnnotationUpdatedAt),
		AttachedAt:      v1alpha1.Moment(d.Annotations, v1alpha1.AnnotationAttachedAt),
		Detached:        v1alpha1.IsDetached(d.Annotations),
	}
	out.DrainedAt, out.Drained = v1alpha1.DrainedAt(d.Annotations)
	out.PodsPerNode, _ = v1alpha1.PodsPerNode(d.Annotations)
	if d.Spec.Replicas != nil {
		out.Replicas = *d.Spec.Replicas
	}
	if out.Hold = v1alpha1.HoldOf(d.Annotations); out.Hold != nil {
		// Nothing is tried while the Deployment is paused, whatever somebody wrote.
		out.Hold.Trying = out.Hold.Trying && !d.Spec.Paused
	}
	if r := d.Spec.Strategy.RollingUpdate; r != nil && r.MaxSurge != nil {
		// What the API server accepted resolves.
		surge, _ := intstr.GetScaledValueFromIntOrPercent(r.MaxSurge, int(out.Replicas), true)
		out.Surge = int32(surge)
	}
	out.Outmoded = r.lacksLabels(d) || d.Spec.MinReadySeconds != r.set.Spec.MinReadySeconds || !equality.Semantic.DeepEqual(d.Spec.Strategy, r.deployments)
	return out
}

// lacksLabels reports whether somebody took labels by which the health checkers find it.
func (r Reader) lacksLabels(d *appsv1.Deployment) bool {
	for key, value := range OwnLabels(r.set, d.Annotations[v1alpha1.AnnotationNode]) {
		if d.Labels[key] != value {
			return true
		}
	}
	return false
}

// drifted reports whether somebody else owns a field of the spec: what server-side
// apply leaves in place although it was never asked for.
func drifted(d *appsv1.Deployment) bool {
	return slices.ContainsFunc(d.ManagedFields, foreign)
}

func foreign(entry metav1.ManagedFieldsEntry) bool {
	return entry.Manager != FieldManager && Outlives(entry)
}

// Outlives reports whether fields of the spec would survive our server-side apply by
// this entry of the managed fields: somebody else's, or our own from a patch.
func Outlives(entry metav1.ManagedFieldsEntry) bool {
	applied := entry.Manager == FieldManager && entry.Operation == metav1.ManagedFieldsOperationApply
	if applied || entry.Subresource == "status" || entry.FieldsV1 == nil {
		return false
	}
	fields := map[string]json.RawMessage{}
	_ = json.Unmarshal(entry.FieldsV1.GetRawBytes(), &fields)
	return fields["f:spec"] != nil
}

func (r Reader) detachment(node *corev1.Node) rollout.Detachment {
	var out rollout.Detachment
	key := ""
	if asked := v1alpha1.DetachmentRequestOf(node.Annotations, r.set.UID); asked != nil {
		out.Requested, out.RequestedAt, out.StaleTimestamp = true, asked.At, asked.StaleTimestamp
		key = asked.Key
	}
	out.Moving = node.Annotations[v1alpha1.AnnotationNodeDetaching] == "true"
	if a := r.strategy.AnnotateNode; a != nil {
		// What others ask for under a key is no request of ours under another.
		_, held := node.Annotations[a.Key]
		out.Held = held && (key == "" || key == a.Key)
		if a.TimestampKey != "" {
			out.Timestamp = node.Annotations[a.TimestampKey]
		}
	}
	return out
}
