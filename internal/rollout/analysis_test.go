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

// TestFirstMeasurementIsOfTraffic: the first measurement of a wave is made an interval after that was over, however long
// ago it began, and not at once.
func TestFirstMeasurementIsOfTraffic(t *testing.T) {
	s := refusedByANode()
	s.Measurements = nil
	s.Status.Analysis.Phase, s.AnalysisSeen = v1alpha1.AnalysisOfWave, s.Now.Add(-time.Minute)
	d := Plan(s)
	if d.Status.Analysis.Phase != v1alpha1.AnalysisMeasuring || strings.Contains(steps(d), "Measure") {
		t.Errorf("when the wave is over: %s", summary(d))
	}
	s.Status, s.AnalysisSeen = d.Status, s.Now
	for after, due := range map[time.Duration]bool{4 * time.Second: false, 5 * time.Second: true} {
		next := s
		next.Now = s.Now.Add(after)
		if d := Plan(next); strings.Contains(steps(d), "Measure errors") != due {
			t.Errorf("%s later: %s", after, summary(d))
		}
	}
}

// TestOnlyReadyNodesAreAsked: a check by HTTP waits, and says so, where pods of the template run on nodes alone that are
// not Ready: nobody asks these.
func TestOnlyReadyNodesAreAsked(t *testing.T) {
	s := refusedByANode()
	s.Measurements = nil
	s.Spec.UpdateStrategy.RollingUpdate.Analysis[0].HTTP = &v1alpha1.HTTPCheck{Port: 80}
	s.Nodes[0].Pods, s.Nodes[1].Ready = []Pod{{Revision: "r1", Running: true}}, false
	s.Nodes[1].Pods = []Pod{{Revision: "r2", Running: true}}
	d := Plan(s)
	if strings.Contains(steps(d), "Measure") || condition(t, d, v1alpha1.ConditionBlocked).Reason != v1alpha1.ReasonNodesNotServing {
		t.Errorf("%s", summary(d))
	}
}
