package controller

import (
	"context"
	"testing"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/rollout"
	"k8s.io/apimachinery/pkg/types"
)

// TestMeasurementThatPanicsHasFailed goes on after one as after any other.
func TestMeasurementThatPanicsHasFailed(t *testing.T) {
	set := types.NamespacedName{Namespace: "ns", Name: "proxy"}
	var answer *string
	changed := make(chan types.NamespacedName)
	m := newMeasurements(
		func(context.Context, v1alpha1.AnalysisCheck, rollout.Wave) error { _ = *answer; return nil },
		func(set types.NamespacedName) { changed <- set },
		time.Now,
	)
	check := v1alpha1.AnalysisCheck{Name: "errors"}
	measured := func() rollout.Measurement {
		m.begin(set, check, "a1", rollout.Wave{})
		<-changed
		return m.of(set)[0]
	}
	if one := measured(); one.Failure == "" || one.Check != "errors" || one.Analysis != "a1" || one.At.IsZero() {
		t.Errorf("a measurement that panics is %+v", one)
	}
	answer = new("0")
	if one := measured(); one.Failure != "" {
		t.Errorf("the next is %+v", one)
	}
}
