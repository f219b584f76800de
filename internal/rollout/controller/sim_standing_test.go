package controller

import (
	"fmt"
	"slices"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/kstatus"
	"k8s.io/apimachinery/pkg/api/meta"
)

// checkStanding: a status says one thing of how far it is, and that it is Ready only where nothing is left
// to do: every node serves that is to have pods, and none is under way.
func (a *audit) checkStanding(s *v1alpha1.IngressDaemonSetStatus) {
	if s.ObservedGeneration < 0 {
		// No controller has said anything yet.
		return
	}
	yes := slices.DeleteFunc(slices.Clone(kstatus.Conditions), func(kind string) bool { return !meta.IsStatusConditionTrue(s.Conditions, kind) })
	if len(yes) != 1 {
		a.fault("%v are True at once: %v", yes, s.Conditions)
	}
	serves := s.ServingNodes == s.DesiredNodes || a.w.spec().Pods() == 0
	blocked := meta.IsStatusConditionTrue(s.Conditions, v1alpha1.ConditionBlocked)
	if slices.Contains(yes, v1alpha1.ConditionReady) && (!serves || blocked || len(s.Wave) > 0) {
		a.fault("it is Ready, and has %d of %d nodes serving, and the wave %v: %v", s.ServingNodes, s.DesiredNodes, s.Wave, s.Conditions)
	}
}

// unready is why an IngressDaemonSet is not Ready that is at rest, complete and not blocked: what was left to
// do was done, or nobody came back to say so.
func (w *world) unready() []string {
	conditions := w.set().Status.Conditions
	complete := meta.FindStatusCondition(conditions, v1alpha1.ConditionProgressing)
	ready := meta.FindStatusCondition(conditions, v1alpha1.ConditionReady)
	if complete == nil || complete.Reason != v1alpha1.ReasonComplete || meta.IsStatusConditionTrue(conditions, v1alpha1.ConditionBlocked) || meta.IsStatusConditionTrue(conditions, v1alpha1.ConditionReady) {
		return nil
	}
	return []string{fmt.Sprintf("it is complete, and not Ready: %+v", ready)}
}
