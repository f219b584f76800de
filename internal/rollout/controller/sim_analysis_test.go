package controller

import (
	"slices"
	"strings"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/rollout"
)

// measured keeps the books of measurements.
func (a *audit) measured(m rollout.Measurement) {
	if m.Failure != "" {
		a.failures[m.Analysis+m.Check]++
	} else {
		a.passed[m.Analysis+m.Check]++
	}
}

// checkAnalysed: no node begins with the present template while the last wave is
// measured or has failed, and none gets a template that was rejected.
func (a *audit) checkAnalysed(seen *picture, s rollout.Step) {
	n, status := seen.node(s.Node), &seen.Status
	if n == nil || !n.Wanted || n.Deployment != nil && n.Deployment.Detached || seen.Deletion != rollout.NotDeleted || len(seen.Spec.Strategy().Analysis) == 0 {
		return
	}
	ofRevision := strings.TrimSuffix(strings.TrimSuffix(string(s.Mark), v1alpha1.MarkOutOfTurn), v1alpha1.MarkServing)
	marks := s.Action == rollout.Mark && !s.Drained && strings.HasSuffix(ofRevision, "/"+seen.Revision)
	updates := s.Action == rollout.Update && s.Revision == seen.Revision && n.Deployment.Revision != seen.Revision
	starts := !n.Marked() && (marks || updates)
	rejected := status.Rejected != nil && status.Rejected.Revision == seen.Revision
	if rejected && (s.Action == rollout.Update || s.Action == rollout.Create) && s.Revision == seen.Revision {
		a.fault("%s although it was rejected", s)
	}
	now := status.Analysis
	if !starts || rejected || now == nil || now.Revision != seen.Revision || goesOn(seen, n, s) {
		return
	}
	// One in its turn that is to have no pods by now leaves; it has the template already.
	if seen.Spec.Pods() == 0 && degraded(seen, n) && n.Deployment.Revision == seen.Revision && slices.Contains(status.Wave, s.Node) {
		return
	}
	switch now.Phase {
	case v1alpha1.AnalysisOfWave:
		if !slices.Contains(now.Nodes, s.Node) && !slices.Contains(status.Wave, s.Node) {
			a.fault("%s during the wave of %v", s, now.Nodes)
		}
	case v1alpha1.AnalysisMeasuring, v1alpha1.AnalysisFailed:
		a.fault("%s although the analysis of %v is %s", s, now.Nodes, now.Phase)
	}
}

// checkVerdict: an analysis passes and fails by what was measured. What two controllers
// measure at a time is not told apart here.
func (a *audit) checkVerdict(before, after *v1alpha1.IngressDaemonSetStatus) {
	now, last := after.Analysis, before.Analysis
	if now == nil || last == nil || now.Phase == last.Phase || len(a.w.leaders) > 1 || rollout.AnalysisID(now) != rollout.AnalysisID(last) {
		return
	}
	failed := false
	for _, check := range a.w.spec().Strategy().Analysis {
		key := rollout.AnalysisID(now) + check.Name
		failed = failed || a.failures[key] > check.MayFail()
		if now.Phase == v1alpha1.AnalysisPassed && a.w.set().Annotations[v1alpha1.AnnotationPromoted] != rollout.AnalysisID(now) &&
			(a.passed[key]+a.failures[key] < check.Measurements() || a.passed[key] == 0) {
			a.fault("an analysis passed with %d passed and %d failed measurements of %s", a.passed[key], a.failures[key], check.Name)
		}
	}
	if now.Phase == v1alpha1.AnalysisFailed && !failed {
		a.fault("an analysis failed by no check")
	}
}
