package rollout

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The analysis of waves. With rollingUpdate.analysis the nodes of a wave begin
// together, and the next wave begins when the last one has been measured:
//
//	Wave -> Measuring -> Passed -> the next wave
//	     \-----------\-> Failed -> a pause, or the template is rejected
//
// Where it stands is in status.analysis. Like everything that nodes are touched
// for, it is written before it is acted on.

// readAnalysis reads where the analysis stands, counts what was measured since, and
// judges.
func (p *planner) readAnalysis() {
	if r := p.Status.Rejected; r != nil && r.Revision == p.Revision && p.Revisions[p.Status.CurrentRevision] {
		p.rejected, p.goal = r.DeepCopy(), p.Status.CurrentRevision
		return
	}
	last := p.Status.Analysis
	if !p.analyses() || last == nil || last.Revision != p.Revision {
		return
	}
	p.analysis = last.DeepCopy()
	if judged := last.Phase == v1alpha1.AnalysisFailed && last.Generation == p.Generation; !judged {
		p.analysis.Nodes = p.telling(last.Nodes)
	}
	if len(p.analysis.Nodes) == 0 {
		// They left, or were drained, before they were judged.
		p.analysis = nil
		return
	}
	switch {
	case p.analysis.Phase == v1alpha1.AnalysisPassed:
		return
	case p.Promoted != "" && p.Promoted == AnalysisID(p.analysis) && p.analysis.Phase != v1alpha1.AnalysisOfWave:
		p.enter(v1alpha1.AnalysisPassed)
		return
	case p.analysis.Phase == v1alpha1.AnalysisFailed && p.analysis.Generation != p.Generation:
		p.analysis.Began, p.analysis.Checks = micro(p.Now), nil
		p.enter(v1alpha1.AnalysisMeasuring)
	}
	for i := range p.strategy.Analysis {
		p.countMeasurements(&p.strategy.Analysis[i])
	}
	p.judgeWave()
}

// analyses reports whether waves are measured: nodes that are to have no pods tell nothing.
func (p *pass) analyses() bool { return len(p.strategy.Analysis) > 0 && p.pods > 0 }

// telling are those of the nodes that are there and in the node set, and that nobody drains: others
// tell nothing of a template.
func (p *pass) telling(names []string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		v := p.find(name)
		return v == nil || !v.Exists || !v.Wanted || v.Deployment != nil && (p.drains(v) || v.drained())
	})
}

// AnalysisID tells one analysis from the next.
func AnalysisID(a *v1alpha1.AnalysisStatus) string { return a.Began.UTC().Format(time.RFC3339Nano) }

// micro is a time as the API server stores it.
func micro(t time.Time) metav1.MicroTime { return metav1.NewMicroTime(t.Truncate(time.Microsecond)) }

func (p *planner) enter(phase v1alpha1.AnalysisPhase) {
	p.analysis.Phase, p.analysis.Since = phase, micro(p.Now)
}

// countMeasurements adds each measurement of a check to the status, once. While the wave is under way only
// failures count: its nodes do not all serve yet.
func (p *planner) countMeasurements(check *v1alpha1.AnalysisCheck) {
	for _, m := range p.Measurements {
		p.enroll(check.Name)
		c := p.counted(check.Name)
		// The last that was counted may be by another clock: only the same is not counted again.
		if m.Counted || m.Check != check.Name || m.Analysis != AnalysisID(p.analysis) || c.At != nil && c.At.Time.Equal(micro(m.At).Time) {
			continue
		}
		c.At = new(micro(m.At))
		switch {
		case m.Failure != "" && p.tellNothing(m.FailedOn):
			// It is measured again.
		case m.Failure != "":
			c.Failed++
			c.Message = m.Failure
		case p.analysis.Phase != v1alpha1.AnalysisOfWave:
			c.Passed++
		}
	}
}

// tellNothing reports whether these are nodes, and none of them is one of the wave that is Ready: a
// dead node tells nothing of the template, nor does one that somebody drains.
func (p *pass) tellNothing(names []string) bool {
	tells := func(name string) bool { return p.ready(name) && slices.Contains(p.analysis.Nodes, name) }
	return len(names) > 0 && !slices.ContainsFunc(names, tells)
}

// In reports whether a status holds a measurement as the last of its check.
func (m Measurement) In(a *v1alpha1.AnalysisStatus) bool {
	return a != nil && m.Analysis == AnalysisID(a) && slices.ContainsFunc(a.Checks, func(c v1alpha1.AnalysisCheckStatus) bool {
		return c.Name == m.Check && c.At != nil && c.At.Time.Equal(micro(m.At).Time)
	})
}

// enroll gives a check its place in the status.
func (p *planner) enroll(check string) {
	if p.counted(check) == nil {
		p.analysis.Checks = append(p.analysis.Checks, v1alpha1.AnalysisCheckStatus{Name: check})
	}
}

// counted is what was measured of a check, nil where nothing was yet.
func (p *pass) counted(check string) *v1alpha1.AnalysisCheckStatus {
	i := slices.IndexFunc(p.analysis.Checks, func(c v1alpha1.AnalysisCheckStatus) bool { return c.Name == check })
	if i < 0 {
		return nil
	}
	return &p.analysis.Checks[i]
}

// judgeWave ends the analysis where it can be told how.
func (p *planner) judgeWave() {
	if p.analysis.Phase == v1alpha1.AnalysisFailed {
		return
	}
	p.enrollJudged()
	switch why := p.failure(); {
	case why != "":
		p.enter(v1alpha1.AnalysisFailed)
		p.analysis.Generation = p.Generation
		p.reject(why)
	case p.analysis.Phase == v1alpha1.AnalysisMeasuring && p.measured():
		p.enter(v1alpha1.AnalysisPassed)
	}
}

// enrollJudged gives the checks their places in the status, up to one that failed.
func (p *planner) enrollJudged() {
	for i := range p.strategy.Analysis {
		check := &p.strategy.Analysis[i]
		if p.enroll(check.Name); p.failed(check) {
			return
		}
	}
}

// failed reports whether a check failed more often than it may.
func (p *pass) failed(check *v1alpha1.AnalysisCheck) bool {
	c := p.counted(check.Name)
	return c != nil && c.Failed > check.MayFail()
}

// measured reports whether each check was measured as often as it is to be.
func (p *pass) measured() bool {
	return !slices.ContainsFunc(p.strategy.Analysis, func(check v1alpha1.AnalysisCheck) bool {
		c := p.counted(check.Name)
		return c == nil || c.Passed+c.Failed < check.Measurements()
	})
}

// failure says why the analysis failed, and nothing where no check did.
func (p *pass) failure() string {
	for i := range p.strategy.Analysis {
		if check := &p.strategy.Analysis[i]; p.failed(check) {
			c := p.counted(check.Name)
			return fmt.Sprintf("check %s failed %d times, %d are permitted: %s", check.Name, c.Failed, check.MayFail(), c.Message)
		}
	}
	return ""
}

// reject writes that the template is to be taken back, where the policy says so
// and there is a revision to go back to. It is acted on when that is seen.
func (p *planner) reject(why string) {
	current := p.Status.CurrentRevision
	if p.strategy.FailurePolicy == v1alpha1.RollBackOnFailure && current != p.Revision && p.Revisions[current] && p.rejected == nil {
		p.out.Status.Rejected = &v1alpha1.RejectedRevision{Revision: p.Revision, Message: why, At: metav1.NewTime(p.Now)}
	}
}

// rejectOverdue takes the template back from nodes that do not get along with it.
func (p *planner) rejectOverdue() {
	for i := range p.views {
		v := &p.views[i]
		if v.overdue && v.target == p.Revision && v.Deployment.Revision == p.Revision && p.podsFail(v) && p.Deletion == NotDeleted {
			p.reject(v.deadlineExceeded())
			return
		}
	}
}

// podsFail reports whether pods of the node do not get ready although it is. Nothing else,
// such as a detacher or a dead machine, tells anything of a template: of one that died a
// moment ago only the ports are known to be silent.
func (p *pass) podsFail(v *view) bool {
	silent := slices.ContainsFunc(v.Checks, func(c Check) bool { return !c.Answered && !c.silenced() })
	return v.Ready && !silent && v.Deployment.Settled && v.available(p.Now, p.minReady()) < v.Deployment.PodsPerNode
}

func (v *view) deadlineExceeded() string {
	return fmt.Sprintf("node %s takes longer than progressDeadlineSeconds: %s", v.Name, v.reason)
}

// continueAnalysis follows the wave that was decided on, and measures what is due.
func (p *planner) continueAnalysis() {
	if !p.analyses() || p.rejected != nil {
		return
	}
	nodes := p.judged()
	switch {
	case p.analysis == nil || p.analysis.Phase == v1alpha1.AnalysisPassed:
		if len(nodes) > 0 {
			p.analysis = &v1alpha1.AnalysisStatus{Revision: p.Revision, Nodes: nodes, Began: micro(p.Now)}
			p.enter(v1alpha1.AnalysisOfWave)
		}
	case p.analysis.Phase == v1alpha1.AnalysisOfWave && !slices.ContainsFunc(p.analysis.Nodes, func(name string) bool { return slices.Contains(nodes, name) }):
		p.analysis.Nodes = p.updatedOf(p.analysis.Nodes)
		if p.enter(v1alpha1.AnalysisMeasuring); len(p.analysis.Nodes) == 0 {
			p.analysis = nil
		}
	}
	p.measure()
}

// judged are the nodes of the wave that get the present template.
func (p *planner) judged() []string {
	var names []string
	for i := range p.views {
		if v := &p.views[i]; v.turns() && v.target == p.Revision && slices.Contains(p.out.Status.Wave, v.Name) {
			names = append(names, v.Name)
		}
	}
	return names
}

// updatedOf are those of the nodes that have the present template, but for those that were
// drained, or kept out, in the middle of their turn: they may go on with it at any moment.
func (p *pass) updatedOf(names []string) []string {
	var out []string
	for i := range p.views {
		v := &p.views[i]
		if !slices.Contains(names, v.Name) || v.Deployment == nil || v.Deployment.Revision != p.Revision {
			continue
		}
		if whole, _, _ := v.complete(p.Now, 0); whole || v.turns() {
			out = append(out, v.Name)
		}
	}
	return out
}

// measure asks for the measurements that are due.
func (p *planner) measure() {
	unreadable := slices.ContainsFunc(p.Faults, func(f Fault) bool { return f.Reason == v1alpha1.ReasonAnalysisInvalid })
	if unreadable || p.analysis == nil || p.analysis.Phase != v1alpha1.AnalysisMeasuring && p.analysis.Phase != v1alpha1.AnalysisOfWave {
		return
	}
	if p.tellNothing(p.analysis.Nodes) {
		p.block(Fault{v1alpha1.ReasonNodeNotReady, "the last wave cannot be measured while none of its nodes is Ready: " + p.measuredNodes()})
		return
	}
	runs := slices.ContainsFunc(p.analysis.Nodes, func(name string) bool { return p.ready(name) && p.find(name).Runs(p.analysis.Revision) })
	for i := range p.strategy.Analysis {
		check := &p.strategy.Analysis[i]
		p.enroll(check.Name)
		c := p.counted(check.Name)
		ofWave := p.analysis.Phase == v1alpha1.AnalysisOfWave
		if ofWave && !check.DuringWave || !ofWave && c.Passed+c.Failed >= check.Measurements() {
			continue
		}
		due := p.lastMeasured(check.Name).Add(check.Interval())
		if p.Now.Before(due) {
			p.wake(due)
			continue
		}
		if check.HTTP != nil && !runs {
			if !ofWave {
				p.block(Fault{v1alpha1.ReasonNodesNotServing, "the last wave cannot be measured while no pod of it runs on any of its Ready nodes: " + p.measuredNodes()})
			}
			continue
		}
		p.do(Step{Action: Measure, Check: check.Name, Analysis: AnalysisID(p.analysis), Reason: "the wave is analysed"})
	}
}

// measuredNodes names the first few nodes of the wave.
func (p *pass) measuredNodes() string {
	return strings.Join(p.analysis.Nodes[:min(len(p.analysis.Nodes), 3)], ", ")
}

// lastMeasured is when this controller made the last measurement of a check, or saw the
// phase begin.
func (p *pass) lastMeasured(check string) time.Time {
	last := p.analysis.Since.Time
	if a := p.Status.Analysis; !p.AnalysisSeen.IsZero() && a != nil && a.Phase == p.analysis.Phase && a.Began.Equal(&p.analysis.Began) {
		last = p.AnalysisSeen
	}
	for _, m := range p.Measurements {
		if m.Check == check && m.Analysis == AnalysisID(p.analysis) {
			last = later(last, m.At)
		}
	}
	return last
}

// Wave is what a measurement is made of.
type Wave struct {
	Namespace, Name, Revision string
	Nodes                     []WaveNode
	// Ports are those of nodes on which its own pods listen, where they run.
	Ports []int32
	// Kubelets are where kubelets listen that have a port of the operator's choice.
	Kubelets []netip.AddrPort
}

// NodesFailed is why a measurement failed that was made of nodes, and on which of them.
type NodesFailed struct {
	Nodes []string
	Why   string
}

func (e *NodesFailed) Error() string { return e.Why }

// WaveNode is a node of a wave, the address at which it is asked, and the ports of the wave
// on which a pod of its own may listen there: one that runs.
type WaveNode struct {
	Name, Address string
	Ports         []int32
}
