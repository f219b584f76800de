package rollout

import (
	"slices"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
)

// mayStart reports whether nodes may begin at all: not while something must change
// first, such as a Service by which the load balancer would learn of it.
func (p *pass) mayStart() bool {
	return !p.Spec.Paused && !p.halted() && p.halts == "" && len(p.Faults) == 0 && p.forbidden == ""
}

// halted reports whether the rollout stands still until the spec changes. A template that is
// taken back is taken back all the same, but for nodes that could not be detached.
func (p *pass) halted() bool {
	if p.rejected != nil {
		return false
	}
	for _, c := range p.Status.Conditions {
		if c.Type == v1alpha1.ConditionProgressing && c.ObservedGeneration == p.Generation {
			return c.Reason == v1alpha1.ReasonDetachTimedOut ||
				c.Reason == v1alpha1.ReasonProgressDeadlineExceeded && p.strategy.FailurePolicy == v1alpha1.PauseOnFailure
		}
	}
	return false
}

// barred reports whether the analysis keeps a node from beginning: the next wave until the
// last one passed, and others than those that began together.
func (p *pass) barred(v *view) bool {
	switch {
	case len(p.strategy.Analysis) == 0 || p.rejected != nil:
		return false
	case shut(p.analysis), p.analysis != nil && shut(p.Status.Analysis), p.analysis == nil && p.unfinishedOnRecord():
		// One that passed, or whose nodes have left, is acted on when that is written.
		return true
	case p.wave[v.Name]:
		return false
	default:
		return ofWave(p.analysis) || slices.ContainsFunc(p.views, func(o view) bool { return p.wave[o.Name] && o.turns() })
	}
}

// unfinishedOnRecord reports whether the status still says that the present template is analysed.
func (p *pass) unfinishedOnRecord() bool {
	a := p.Status.Analysis
	return a != nil && a.Revision == p.Revision && a.Phase != v1alpha1.AnalysisPassed
}

// ofWave reports whether nodes of the wave that is analysed are still updated.
func ofWave(a *v1alpha1.AnalysisStatus) bool { return a != nil && a.Phase == v1alpha1.AnalysisOfWave }

func shut(a *v1alpha1.AnalysisStatus) bool {
	return a != nil && (a.Phase == v1alpha1.AnalysisMeasuring || a.Phase == v1alpha1.AnalysisFailed)
}

// takesOut reports whether nodes leave the load balancer for their update: one that is to have no pods
// does, however others are updated.
func (p *pass) takesOut() bool { return p.strategy.Detaching || p.pods == 0 }
