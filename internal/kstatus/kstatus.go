// Package kstatus says of each kind how far an object is by the rules of kstatus, which Flux and others
// go by: in the conditions Ready, Reconciling and Stalled, made from what the status says in our own
// words (docs/adr/0028).
//
// Read kstatus.go, then a file a kind.
package kstatus

import (
	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Conditions are those that are set here.
var Conditions = []string{v1alpha1.ConditionReady, v1alpha1.ConditionReconciling, v1alpha1.ConditionStalled}

// Standing is how far an object is, as the one condition that is True says it.
type Standing struct {
	// Condition is Ready, Reconciling or Stalled.
	Condition string
	// Reason is one of the reasons of conditions, Message a sentence.
	Reason, Message string
}

func ready(reason, message string) Standing {
	return Standing{v1alpha1.ConditionReady, reason, message}
}

func reconciling(reason, message string) Standing {
	return Standing{v1alpha1.ConditionReconciling, reason, message}
}

func stalled(reason, message string) Standing {
	return Standing{v1alpha1.ConditionStalled, reason, message}
}

// Set sets the three conditions, of which one is True: with generation as the one that was observed,
// and with now as the time of those that have changed. Ready says why where it is False, since it
// is what people wait for. All others stay as they are.
func (s Standing) Set(conditions *[]metav1.Condition, generation int64, now metav1.Time) {
	for _, kind := range Conditions {
		c := metav1.Condition{Type: kind, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonAsExpected, ObservedGeneration: generation, LastTransitionTime: now}
		if kind == s.Condition {
			c.Status = metav1.ConditionTrue
		}
		if kind == s.Condition || kind == v1alpha1.ConditionReady {
			c.Reason, c.Message = s.Reason, s.Message
		}
		meta.SetStatusCondition(conditions, c)
	}
}

// find is a condition, one without a status where there is none.
func find(conditions []metav1.Condition, kind string) metav1.Condition {
	if c := meta.FindStatusCondition(conditions, kind); c != nil {
		return *c
	}
	return metav1.Condition{Type: kind}
}
