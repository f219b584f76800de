package rollout

import (
	"slices"
	"strings"
	"testing"
	"time"

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

// TestNextMeasurementAwaitsTheStatus: the last one is counted in a status that stands before the next is made, which
// takes its place. The one that was to count it may have been refused.
func TestNextMeasurementAwaitsTheStatus(t *testing.T) {
	s := refusedByANode()
	s.Spec.UpdateStrategy.RollingUpdate.Analysis[0].Count = new(int32(3))
	s.Measurements[0].Failure, s.Measurements[0].FailedOn = "", nil
	s.Measurements[0].At = s.Now.Add(-time.Hour)
	refused := Plan(s)
	if a := refused.Status.Analysis; strings.Contains(steps(refused), "Measure errors") || a.Checks[0].Passed != 1 {
		t.Errorf("before it stands in the status: %+v\n%s", a, summary(refused))
	}
	stored, told := s, s
	stored.Status = refused.Status
	told.Measurements = []Measurement{s.Measurements[0]}
	told.Measurements[0].Counted = true
	for name, next := range map[string]State{"it stands in the status": stored, "it stood in one": told} {
		if d := Plan(next); !strings.Contains(steps(d), "Measure errors") {
			t.Errorf("%s, and no other is made:\n%s", name, summary(d))
		}
	}
}
