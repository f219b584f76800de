package rollout

import (
	"slices"
	"testing"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
)

// TestMeasurementOfANodeThatLeft: what is measured on a node that is in the set no more says nothing of the
// template, also where it failed with the spec of before.
func TestMeasurementOfANodeThatLeft(t *testing.T) {
	for _, phase := range []v1alpha1.AnalysisPhase{v1alpha1.AnalysisMeasuring, v1alpha1.AnalysisFailed} {
		s := refusedByANode()
		s.Nodes[0].Wanted = false
		s.Status.Analysis.Phase, s.Status.Analysis.Generation = phase, s.Generation-1
		a := Plan(s).Status.Analysis
		if a == nil || a.Phase != v1alpha1.AnalysisMeasuring || !slices.Equal(a.Nodes, []string{"n0001"}) {
			t.Fatalf("%s: %+v", phase, a)
		}
		for _, c := range a.Checks {
			if c.Failed > 0 {
				t.Errorf("%s: %+v", phase, c)
			}
		}
	}
}

// TestPassedIsWrittenFirst: the next wave begins when it stands in the status that the last one passed.
func TestPassedIsWrittenFirst(t *testing.T) {
	s := refusedByANode()
	s.Nodes[2] = servingNode(s.Nodes[2].Name)
	s.Measurements[0].Failure, s.Measurements[0].FailedOn = "", nil
	s.Status.Analysis.Checks = []v1alpha1.AnalysisCheckStatus{{Name: "errors", Passed: 1}}
	d := Plan(s)
	if d.Status.Analysis.Phase != v1alpha1.AnalysisPassed || len(d.Status.Wave) > 0 {
		t.Errorf("%+v, and next %v", d.Status.Analysis, d.Status.Wave)
	}
	s.Status, s.Measurements = d.Status, nil
	if d = Plan(s); !slices.Equal(d.Status.Wave, []string{"n0002"}) {
		t.Errorf("it is written, and next are %v", d.Status.Wave)
	}
}
