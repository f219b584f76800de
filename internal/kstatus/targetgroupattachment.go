package kstatus

import (
	"slices"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// stalls are the reasons for which targets are not healthy that only somebody's change ends: of the
// group, of the object, or of how the controller is started.
var stalls = []string{v1alpha1.ReasonGroupBound, v1alpha1.ReasonTargetsRefused, v1alpha1.ReasonNoCloud}

// OfTargetGroupAttachment is how far a TargetGroupAttachment is, by whether its targets are healthy and
// why not, and by what blocks some of them. Those that leave are not waited for: where pods come and
// go all the time, there are always some.
func OfTargetGroupAttachment(reason, message string, blocked metav1.Condition) Standing {
	switch {
	case slices.Contains(stalls, reason):
		return stalled(reason, message)
	case reason != v1alpha1.ReasonTargetsHealthy && reason != v1alpha1.ReasonNoTargets:
		return reconciling(reason, message)
	case blocked.Status == metav1.ConditionTrue:
		return reconciling(blocked.Reason, blocked.Message)
	}
	return ready(reason, message)
}
