package controller

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/rollout"
	"github.com/mumoshu/ingress-daemonset-controller/internal/rollout/objects"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// countsEvery is how often a status is written of which only counts and messages changed.
const countsEvery = time.Second

// report writes the status, makes the events of what was done when one is accepted, and then counts. It
// returns when to decide again.
func (r *Reconciler) report(ctx context.Context, o *observed, status v1alpha1.IngressDaemonSetStatus, done []rollout.Step, took time.Duration) (again time.Time, err error) {
	s := o.session
	s.tell(done)
	again, err = r.writeStatus(ctx, o, status)
	if err == nil {
		r.announceSteps(o)
		r.announceStatus(o, status)
	}
	s.count(o.state.Spec.Paused, status, done, took)
	timeDetachments(s.key, o.state, done)
	if err == nil {
		// Before it stands in the status, the next pass would tell of it again.
		timeAttachments(s.key, o.state, status)
		s.tick(len(status.Wave) > 0, o.state.Now)
	}
	return again, err
}

// writeStatus writes the status if it changed, guarded by the resourceVersion
// that was decided upon: of two controllers, the one that saw less is refused.
// It returns when to decide again: at once where decisions go by what was
// written, and later where it was worth no write of its own yet.
func (r *Reconciler) writeStatus(ctx context.Context, o *observed, status v1alpha1.IngressDaemonSetStatus) (again time.Time, err error) {
	counts := onlyCounts(o.set.Status, status)
	switch {
	case equality.Semantic.DeepEqual(o.set.Status, status), o.released:
		return again, nil
	case counts:
		if due := o.session.throttle.lastReport().at.Add(countsEvery); o.state.Now.Before(due) {
			return due, nil
		}
	}
	changed := o.set.DeepCopy()
	changed.Status = status
	err = r.client.Status().Update(ctx, changed, client.FieldOwner(objects.FieldManager))
	switch {
	case apierrors.IsNotFound(err):
		return again, nil
	case err != nil:
		return again, fmt.Errorf("writing the status: %w", err)
	}
	o.session.throttle.report(r.now(), changed.ResourceVersion)
	r.mutations.remember(changed)
	o.session.measurements.stored(status.Analysis)
	if !counts {
		again = o.state.Now
	}
	return again, nil
}

// onlyCounts reports whether neither the wave, its analysis nor what a condition says differs, by
// which the controller itself goes when it is started again. Messages count and name nodes.
func onlyCounts(a, b v1alpha1.IngressDaemonSetStatus) bool {
	return equality.Semantic.DeepEqual(a.Analysis, b.Analysis) && equality.Semantic.DeepEqual(a.Rejected, b.Rejected) &&
		equality.Semantic.DeepEqual(a.DetachTimedOut, b.DetachTimedOut) &&
		equality.Semantic.DeepEqual(a.Wave, b.Wave) && slices.EqualFunc(a.Conditions, b.Conditions, saysTheSame) &&
		a.ObservedGeneration == b.ObservedGeneration && a.CurrentRevision == b.CurrentRevision
}

func saysTheSame(a, b metav1.Condition) bool {
	return a.Type == b.Type && a.Status == b.Status && a.Reason == b.Reason
}

// reasons are the past-tense reasons of the events of steps; steps that are not
// named here are not worth one.
var reasons = map[rollout.Action]string{
	rollout.Create:            "DeploymentCreated",
	rollout.Mark:              "DetachmentBegun",
	rollout.RequestDetachment: "DetachmentRequested",
	rollout.Update:            "PodsUpdated",
	rollout.Unmark:            "NodeReattached",
	rollout.HoldBack:          "PodsHeldBack",
	rollout.ScaleToZero:       "NodeDrained",
	rollout.Delete:            "DeploymentDeleted",
	rollout.ApplyChecker:      "HealthCheckerApplied",
	rollout.DeleteChecker:     "HealthCheckerDeleted",
}

// announceSteps makes one event for each kind of step of which none was made yet: a thousand nodes
// must not cost a thousand events.
func (r *Reconciler) announceSteps(o *observed) {
	byAction := map[rollout.Action][]rollout.Step{}
	for _, s := range o.session.untold {
		byAction[s.Action] = append(byAction[s.Action], s)
	}
	o.session.untold = nil
	for action, steps := range byAction {
		kind := corev1.EventTypeNormal
		if action == rollout.HoldBack || action == rollout.ScaleToZero {
			kind = corev1.EventTypeWarning
		}
		r.recorder.Eventf(o.set, nil, kind, reasons[action], string(action), "%s", shortened(summary(steps)))
	}
}

// announceStatus makes an event for each condition that turned bad.
func (r *Reconciler) announceStatus(o *observed, status v1alpha1.IngressDaemonSetStatus) {
	for _, bad := range []string{v1alpha1.ConditionBlocked, v1alpha1.ConditionDegraded, v1alpha1.ConditionWarning} {
		now, before := meta.FindStatusCondition(status.Conditions, bad), meta.FindStatusCondition(o.set.Status.Conditions, bad)
		if now != nil && now.Status == "True" && (before == nil || before.Status != "True" || before.Reason != now.Reason) {
			r.recorder.Eventf(o.set, nil, corev1.EventTypeWarning, now.Reason, bad, "%s", shortened(now.Message))
		}
	}
	r.announceAnalysis(o, status)
}

// announceAnalysis makes an event where a wave passed or failed its analysis, and
// where the template is rejected.
func (r *Reconciler) announceAnalysis(o *observed, status v1alpha1.IngressDaemonSetStatus) {
	before, now := o.set.Status.Analysis, status.Analysis
	if now != nil && before != nil && now.Phase != before.Phase {
		nodes := strings.Join(now.Nodes[:min(len(now.Nodes), 3)], ", ")
		switch now.Phase {
		case v1alpha1.AnalysisPassed:
			r.recorder.Eventf(o.set, nil, corev1.EventTypeNormal, "AnalysisPassed", "Analysis", "the wave of %s passed its analysis", nodes)
		case v1alpha1.AnalysisFailed:
			r.recorder.Eventf(o.set, nil, corev1.EventTypeWarning, v1alpha1.ReasonAnalysisFailed, "Analysis", "the wave of %s failed its analysis", nodes)
		}
	}
	if status.Rejected != nil && o.set.Status.Rejected == nil {
		r.recorder.Eventf(o.set, nil, corev1.EventTypeWarning, "RevisionRejected", "Rollback", "revision %s: %s", status.Rejected.Revision, shortened(status.Rejected.Message))
	}
}

// summary names up to three nodes and why.
func summary(steps []rollout.Step) string {
	const most = 3
	var parts []string
	for _, s := range steps[:min(len(steps), most)] {
		subject := s.Node
		if subject == "" {
			subject = fmt.Sprintf("port %d", s.Port)
		}
		parts = append(parts, subject+": "+s.Reason)
	}
	if rest := len(steps) - most; rest > 0 {
		parts = append(parts, fmt.Sprintf("and %d more", rest))
	}
	return strings.Join(parts, "; ")
}

// tell keeps the steps that are worth an event.
func (s *session) tell(done []rollout.Step) {
	s.untold = append(s.untold, slices.DeleteFunc(slices.Clone(done), func(step rollout.Step) bool { return reasons[step.Action] == "" })...)
}

// tick reports how long nodes were under way where that has ended.
func (s *session) tick(underWay bool, now time.Time) {
	switch {
	case underWay && s.waveBegan.IsZero():
		s.waveBegan = now
	case !underWay && !s.waveBegan.IsZero():
		waveHistogram.WithLabelValues(s.key.Namespace, s.key.Name).Observe(now.Sub(s.waveBegan).Seconds())
		s.waveBegan = time.Time{}
	}
}
