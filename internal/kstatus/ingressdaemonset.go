package kstatus

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// OfIngressDaemonSet is how far an IngressDaemonSet is, by its other conditions and its nodes. left is
// what is being done beside that, empty where nothing is.
//
// A rollout that stands still and will not go on by itself is Stalled, also while nodes are taken back:
// its template does not come. One that is paused goes on when somebody says so, and that is no failure.
// What blocks it may go away by itself.
func OfIngressDaemonSet(s *v1alpha1.IngressDaemonSetStatus, left string) Standing {
	progressing := find(s.Conditions, v1alpha1.ConditionProgressing)
	switch {
	case progressing.Reason == v1alpha1.ReasonPaused:
		return reconciling(progressing.Reason, progressing.Message)
	case progressing.Status == metav1.ConditionFalse, progressing.Reason == v1alpha1.ReasonRollingBack:
		return stalled(progressing.Reason, progressing.Message)
	}
	for _, kind := range []string{v1alpha1.ConditionBlocked, v1alpha1.ConditionDegraded} {
		if c := find(s.Conditions, kind); c.Status == metav1.ConditionTrue {
			return reconciling(c.Reason, c.Message)
		}
	}
	switch leaves := slices.IndexFunc(s.Nodes, isLeaving); {
	case progressing.Reason != v1alpha1.ReasonComplete:
		return reconciling(cmp.Or(progressing.Reason, v1alpha1.ReasonRollingOut), progressing.Message)
	case leaves >= 0:
		return reconciling(v1alpha1.ReasonRollingOut, fmt.Sprintf("node %s leaves: %s", s.Nodes[leaves].Name, s.Nodes[leaves].Reason))
	case left != "":
		return reconciling(v1alpha1.ReasonRollingOut, left)
	}
	return ready(progressing.Reason, progressing.Message)
}

// isLeaving reports whether a node that is not in the node set any more is still to be let go.
func isLeaving(n v1alpha1.NodeStatus) bool { return n.State == v1alpha1.NodeRemoving }
