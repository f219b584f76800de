package detach

import (
	"slices"
	"strings"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
)

// Reason is why a node is to be out of its load balancers.
type Reason string

// Reasons. No other taint is one: many say nothing of a node that goes away.
const (
	// Annotated: somebody asks for it, such as a rollout.
	Annotated Reason = "Annotated"
	// Cordoned: the node is unschedulable.
	Cordoned Reason = "Cordoned"
	// ClusterAutoscaler is about to remove the node.
	ClusterAutoscaler Reason = "ClusterAutoscaler"
	// Karpenter is about to remove the node.
	Karpenter Reason = "Karpenter"
	// TerminationHandler: AWS has announced the end or the maintenance of the machine.
	TerminationHandler Reason = "TerminationHandler"
	// Excluded: somebody else has set Kubernetes' label that excludes the node.
	Excluded Reason = "Excluded"
)

// AllReasons are those that can be selected.
var AllReasons = []Reason{Annotated, Cordoned, ClusterAutoscaler, Karpenter, TerminationHandler, Excluded}

const (
	autoscalerTaint = "ToBeDeletedByClusterAutoscaler"
	karpenterTaint  = "karpenter.sh/disrupted"
	// handlerTaints starts the keys of the taints of aws-node-termination-handler.
	handlerTaints = "aws-node-termination-handler/"
)

// Reason is the first of some reasons that holds, empty where none does.
func (n *Node) Reason(selected []Reason) Reason {
	for _, r := range AllReasons {
		if slices.Contains(selected, r) && n.Holds(r) {
			return r
		}
	}
	return ""
}

// Holds reports whether a reason holds now. None does of a node of the control plane, so that what
// was taken out before it became one is put back.
func (n *Node) Holds(r Reason) bool {
	if n.controlPlane() {
		return false
	}
	switch r {
	case Annotated:
		_, asked := n.Annotations[v1alpha1.AnnotationNodeDetached]
		return asked
	case Cordoned:
		return n.Cordoned
	case ClusterAutoscaler:
		return n.tainted(func(key string) bool { return key == autoscalerTaint })
	case Karpenter:
		return n.tainted(func(key string) bool { return key == karpenterTaint })
	case TerminationHandler:
		return n.tainted(func(key string) bool { return strings.HasPrefix(key, handlerTaints) })
	default:
		value, excluded := n.Labels[v1alpha1.LabelExclude]
		return excluded && value != v1alpha1.ExcludedByUs
	}
}

func (n *Node) tainted(match func(key string) bool) bool {
	for _, t := range n.Taints {
		if match(t.Key) {
			return true
		}
	}
	return false
}

// GoesAway reports whether the node's pods are to be stopped: for a detachment that
// somebody merely asks for they are not.
func (n *Node) GoesAway(reasons []Reason) bool {
	for _, r := range reasons {
		if r != Annotated && r != Excluded && n.Holds(r) {
			return true
		}
	}
	return false
}

// controlPlane reports whether the node is one of the control plane, which is left alone.
func (n *Node) controlPlane() bool {
	for _, key := range []string{"node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master"} {
		if _, labelled := n.Labels[key]; labelled || n.tainted(func(k string) bool { return k == key }) {
			return true
		}
	}
	return false
}
