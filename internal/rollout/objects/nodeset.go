package objects

import (
	"slices"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
)

// Taints with which somebody announces that a node is about to be removed.
var leavingTaints = []string{"ToBeDeletedByClusterAutoscaler", "karpenter.sh/disrupted"}

// NodeSet tells the nodes of an IngressDaemonSet, by the rules of a DaemonSet.
type NodeSet struct {
	selector    map[string]string
	affinity    nodeaffinity.RequiredNodeAffinity
	tolerations []corev1.Toleration
}

// NodeSetOf are the nodes of an IngressDaemonSet.
func NodeSetOf(set *v1alpha1.IngressDaemonSet) NodeSet {
	return NodesFor(set.Spec.NodeSelector, &set.Spec.Template.Spec)
}

// NodesOf are the nodes of a DaemonSet.
func NodesOf(ds *appsv1.DaemonSet) NodeSet { return NodesFor(nil, &ds.Spec.Template.Spec) }

// NodesFor are the nodes for such pods that a selector beside theirs selects. It prepares what is the same for
// every node.
func NodesFor(selector map[string]string, pods *corev1.PodSpec) NodeSet {
	return NodeSet{
		selector:    selector,
		affinity:    nodeaffinity.NewRequiredNodeAffinity(pods.NodeSelector, pods.Affinity),
		tolerations: daemonTolerations(pods),
	}
}

// Wants reports whether the node belongs to the set: it matches the template's
// nodeSelector and required node affinity and spec.nodeSelector, and its taints
// are tolerated. Taints of effect NoSchedule keep new pods away and leave those
// that are there (present). One of effect NoExecute that pods tolerate only for a time
// ends that time too: the node uses it to leave the load balancer.
func (s NodeSet) Wants(node *corev1.Node, present bool) (bool, error) {
	for key, value := range s.selector {
		if got, ok := node.Labels[key]; !ok || got != value {
			return false, nil
		}
	}
	if ok, err := s.affinity.Match(node); !ok || err != nil {
		return false, err
	}
	return !slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool {
		repels := t.Effect == corev1.TaintEffectNoExecute || t.Effect == corev1.TaintEffectNoSchedule && !present
		// A node that is being removed must not be left before its pods are drained.
		return repels && !slices.Contains(leavingTaints, t.Key) && !tolerated(s.tolerations, &t)
	}), nil
}

// Evicts reports whether a taint of the node takes its pods away, now or after a time.
func (s NodeSet) Evicts(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool {
		return t.Effect == corev1.TaintEffectNoExecute && !tolerated(s.tolerations, &t)
	})
}

// tolerated reports whether pods tolerate a taint for good.
func tolerated(tolerations []corev1.Toleration, taint *corev1.Taint) bool {
	return slices.ContainsFunc(tolerations, func(t corev1.Toleration) bool {
		switch {
		case t.Effect != "" && t.Effect != taint.Effect, t.Key != "" && t.Key != taint.Key:
			return false
		case t.TolerationSeconds != nil && taint.Effect == corev1.TaintEffectNoExecute:
			return false
		case t.Operator == corev1.TolerationOpExists:
			return true
		default:
			return t.Key != "" && t.Value == taint.Value
		}
	})
}

// Leaving reports whether the node is cordoned or about to be removed.
func Leaving(node *corev1.Node) bool {
	return node.Spec.Unschedulable || slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool {
		return slices.Contains(leavingTaints, t.Key)
	})
}

// NodeReady reports whether the node's kubelet reports it ready.
func NodeReady(node *corev1.Node) bool {
	ready, _ := readiness(node)
	return ready
}

// readiness reports whether the node's kubelet reports it ready, and when that last changed.
func readiness(node *corev1.Node) (ready bool, at time.Time) {
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue, c.LastTransitionTime.Time
		}
	}
	return false, at
}
