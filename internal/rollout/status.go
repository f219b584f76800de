package rollout

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/kstatus"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// maxListed bounds status.nodes.
const maxListed = 50

// writeStatus fills in the status from the views. It never depends on the time
// that has passed, so that it is written only when something happened.
func (p *planner) writeStatus() {
	s := &p.out.Status
	s.ObservedGeneration = p.Generation
	s.UpdateRevision = p.Revision
	s.CurrentRevision = p.Status.CurrentRevision
	s.Conditions = slices.Clone(p.Status.Conditions)
	finished := true
	for i := range p.views {
		v := &p.views[i]
		if !v.Wanted {
			continue
		}
		s.DesiredNodes++
		switch v.state {
		case v1alpha1.NodeServing:
			s.ServingNodes++
		case v1alpha1.NodeDegraded, v1alpha1.NodeUpdating:
			if p.degrades(v) {
				s.DegradedNodes++
			} else {
				s.UnavailableNodes++
			}
		default:
			s.UnavailableNodes++
		}
		if d := v.Deployment; d != nil && d.Revision == p.Revision {
			s.UpdatedNodes++
		}
		finished = finished && (v.state == v1alpha1.NodeServing || v.emptied) && !v.starts
	}
	finished = finished && p.passed() && !p.unclear()
	s.Analysis = p.analysis
	if p.rejected != nil {
		s.Rejected = p.rejected
	}
	if p.Deletion == NotDeleted && p.rejected == nil && p.proven() {
		s.CurrentRevision = p.Revision
	}
	s.Nodes = p.listNodes()
	p.setConditions(finished)
	kstatus.OfIngressDaemonSet(s, p.left()).Set(&s.Conditions, p.Generation, metav1.NewTime(p.Now))
}

// left says what else is being done where the rollout is complete, empty where nothing is: what was
// decided is yet to be seen, and health checkers are replaced one after the other while nodes serve.
func (p *planner) left() string {
	unsettled := func(v view) bool { return v.Exists && v.Wanted && v.Ready && !v.CheckersSettled }
	switch {
	case !p.checkersCurrent() || slices.ContainsFunc(p.views, unsettled):
		return "health checkers are being replaced"
	case len(p.out.Steps) > 0:
		return "what differs from the spec is being written"
	}
	return ""
}

// proven reports whether the present template has come through: its analysis passed, and every
// wanted Ready node, at least one, runs it and serves. Nodes that somebody keeps out, does not
// put back or drains do not count. A dead node tells nothing about the template, and a node that
// waits for its turn for another reason, such as more pods, tells nothing against it.
func (p *pass) proven() bool {
	proofs := 0
	for i := range p.views {
		v := &p.views[i]
		if !v.Wanted || !v.Ready || v.keptOut() || v.unreturned || v.drained() {
			continue
		}
		if v.Deployment == nil || v.Deployment.Revision != p.Revision || v.Deployment.Drifted || v.state != v1alpha1.NodeServing && !v.emptied {
			return false
		}
		proofs++
	}
	return proofs > 0 && p.passed()
}

// passed reports whether no analysis holds up the end of the rollout.
func (p *pass) passed() bool { return p.analysis == nil || p.analysis.Phase == v1alpha1.AnalysisPassed }

// degrades reports whether the node is still attached while pods are replaced.
func (p *pass) degrades(v *view) bool {
	pass, _, _ := v.checksPass()
	return pass && (v.state == v1alpha1.NodeDegraded || !v.Marked() && !p.strategy.Detaching && v.readyPods() > 0)
}

// listNodes lists the nodes that do not serve, those of the wave first, then those that
// somebody keeps out, who waits for it, and then those that are to be let go.
func (p *pass) listNodes() []v1alpha1.NodeStatus {
	var views []*view
	for i := range p.views {
		if v := &p.views[i]; v.state != "" && v.state != v1alpha1.NodeServing {
			views = append(views, v)
		}
	}
	slices.SortStableFunc(views, func(a, b *view) int {
		return cmp.Or(order(!p.wave[a.Name], !p.wave[b.Name]), order(!a.keptOut(), !b.keptOut()),
			order(a.state != v1alpha1.NodeRemoving, b.state != v1alpha1.NodeRemoving), strings.Compare(a.Name, b.Name))
	})
	var out []v1alpha1.NodeStatus
	for _, v := range views[:min(len(views), maxListed)] {
		out = append(out, v1alpha1.NodeStatus{Name: v.Name, State: v.state, Reason: v.reason, Since: p.since(v)})
	}
	return out
}

// since is when the node came into its state: as the objects tell, or as the
// last status does.
func (p *pass) since(v *view) *metav1.Time {
	for _, last := range p.Status.Nodes {
		if last.Name == v.Name && last.State == v.state {
			return last.Since
		}
	}
	at := v.since
	if at.IsZero() {
		at = p.Now
	}
	return &metav1.Time{Time: at}
}

func (p *planner) setConditions(finished bool) {
	s := &p.out.Status
	least := max(1, min(int32(p.minServing), s.DesiredNodes))
	switch {
	case p.Deletion != NotDeleted:
		p.set(v1alpha1.ConditionAvailable, false, v1alpha1.ReasonBeingDeleted, "the IngressDaemonSet is being deleted")
	case s.DesiredNodes == 0:
		p.set(v1alpha1.ConditionAvailable, false, v1alpha1.ReasonNoNodes, "no node matches the template's nodeSelector, affinity and tolerations and spec.nodeSelector")
	case s.ServingNodes+s.DegradedNodes >= least:
		p.set(v1alpha1.ConditionAvailable, true, v1alpha1.ReasonNodesServing, "at least minServingNodes nodes serve")
	default:
		p.set(v1alpha1.ConditionAvailable, false, v1alpha1.ReasonTooFewNodesServing, "fewer than minServingNodes nodes serve")
	}
	p.setProgressing(finished)
	p.setDegraded()
	p.setWarning()
	if len(p.blocked) == 0 {
		p.set(v1alpha1.ConditionBlocked, false, v1alpha1.ReasonAsExpected, "")
		return
	}
	// A node that is NotReady delays only itself. What stops others comes first.
	slices.SortStableFunc(p.blocked, func(a, b Fault) int {
		return order(a.Reason == v1alpha1.ReasonNodeNotReady, b.Reason == v1alpha1.ReasonNodeNotReady)
	})
	p.set(v1alpha1.ConditionBlocked, true, p.blocked[0].Reason, messages(p.blocked, 0))
}

func (p *planner) setProgressing(finished bool) {
	overdue := slices.IndexFunc(p.views, func(v view) bool { return v.overdue })
	switch {
	case p.halts != "":
		p.set(v1alpha1.ConditionProgressing, false, v1alpha1.ReasonDetachTimedOut, p.halts)
	case p.rejected != nil && finished:
		p.set(v1alpha1.ConditionProgressing, false, v1alpha1.ReasonRolledBack, "revision "+p.Revision+" was rejected, and nodes have "+p.goal+" again: "+p.rejected.Message)
	case p.rejected != nil:
		p.set(v1alpha1.ConditionProgressing, true, v1alpha1.ReasonRollingBack, "revision "+p.Revision+" was rejected, and nodes are taken back to "+p.goal+": "+p.rejected.Message+p.notTriedAgain())
	case p.halted():
		// Keep the message that says why.
	case p.analysis != nil && p.analysis.Phase == v1alpha1.AnalysisFailed:
		// Somebody may have taken their places from the status.
		p.enrollJudged()
		p.set(v1alpha1.ConditionProgressing, false, v1alpha1.ReasonAnalysisFailed, cmp.Or(p.failure(), "a check failed that is not in the spec any more"))
	case overdue >= 0:
		p.set(v1alpha1.ConditionProgressing, false, v1alpha1.ReasonProgressDeadlineExceeded, p.views[overdue].deadlineExceeded())
	case p.Deletion != NotDeleted:
		p.set(v1alpha1.ConditionProgressing, true, v1alpha1.ReasonRollingOut, "nodes are being released")
	case p.refused():
		p.set(v1alpha1.ConditionProgressing, false, v1alpha1.ReasonDeploymentRefused, p.refusal())
	case finished && p.out.Status.DesiredNodes == 0:
		p.set(v1alpha1.ConditionProgressing, true, v1alpha1.ReasonComplete, "no node is in the node set, so that nothing is left to do and nothing is proven")
	case finished:
		p.set(v1alpha1.ConditionProgressing, true, v1alpha1.ReasonComplete, "every node that should have it runs the present template and serves")
	case p.analysis != nil && p.analysis.Phase == v1alpha1.AnalysisMeasuring:
		p.set(v1alpha1.ConditionProgressing, true, v1alpha1.ReasonAnalyzing, "the nodes of the last wave are measured before the next begins: "+p.measuredNodes())
	case p.Spec.Paused && len(p.out.Status.Wave) == 0:
		p.set(v1alpha1.ConditionProgressing, false, v1alpha1.ReasonPaused, "spec.paused is set")
	default:
		p.set(v1alpha1.ConditionProgressing, true, v1alpha1.ReasonRollingOut, "nodes are being brought up to date")
	}
}

// notTriedAgain names the nodes that a rollback leaves as they are.
func (p *planner) notTriedAgain() string {
	t := p.out.Status.DetachTimedOut
	if t == nil {
		return ""
	}
	return "; not detached in time, and not tried again until the spec changes: " + strings.Join(t.Nodes[:min(len(t.Nodes), 3)], ", ")
}

func (p *planner) setDegraded() {
	var rejecting, down []*view
	for i := range p.views {
		v := &p.views[i]
		switch {
		case v.Deployment != nil && v.Deployment.Hold != nil && v.Deployment.Hold.Attempts > 0:
			rejecting = append(rejecting, v)
		case v.Wanted && !p.wave[v.Name] && v.state != v1alpha1.NodeServing && !v.emptied:
			down = append(down, v)
		}
	}
	all := append(rejecting, down...)
	if len(all) == 0 {
		p.set(v1alpha1.ConditionDegraded, false, v1alpha1.ReasonAsExpected, "")
		return
	}
	var faults []Fault
	for i, v := range all[:min(len(all), mostNamed)] {
		reason, why := v1alpha1.ReasonNodesNotServing, v.reason
		if i < len(rejecting) {
			reason, why = v1alpha1.ReasonPodsRejected, v.Deployment.Hold.Reason
		}
		faults = append(faults, Fault{reason, "node " + v.Name + ": " + why})
	}
	p.set(v1alpha1.ConditionDegraded, true, faults[0].Reason, messages(faults, len(all)-len(faults)))
}

// setWarning sets a condition that is not there before the first warning.
func (p *planner) setWarning() {
	ofCheckers, until := p.warnOfCheckers()
	p.wake(until)
	switch warnings := append(slices.Clone(p.Warnings), ofCheckers...); {
	case len(warnings) > 0:
		p.set(v1alpha1.ConditionWarning, true, warnings[0].Reason, messages(warnings, 0))
	case meta.FindStatusCondition(p.out.Status.Conditions, v1alpha1.ConditionWarning) != nil:
		p.set(v1alpha1.ConditionWarning, false, v1alpha1.ReasonAsExpected, "")
	}
}

func (p *planner) set(condition string, status bool, reason, message string) {
	value := metav1.ConditionFalse
	if status {
		value = metav1.ConditionTrue
	}
	meta.SetStatusCondition(&p.out.Status.Conditions, metav1.Condition{
		Type: condition, Status: value, Reason: reason, Message: message,
		ObservedGeneration: p.Generation, LastTransitionTime: metav1.NewTime(p.Now),
	})
}

// mostNamed is how many faults a condition names.
const mostNamed = 3

// messages names the first faults and counts the rest, and more beside them.
func messages(faults []Fault, more int) string {
	var parts []string
	said := map[string]bool{}
	for _, f := range faults {
		if !said[f.Message] {
			said[f.Message] = true
			parts = append(parts, f.Message)
		}
	}
	if more += max(0, len(parts)-mostNamed); more > 0 {
		parts = append(parts[:min(len(parts), mostNamed)], fmt.Sprintf("and %d more", more))
	}
	return strings.Join(parts, "; ")
}
