package controller

import (
	"context"
	"slices"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/internal/onepass"
	"github.com/mumoshu/ingress-daemonset-controller/internal/targets"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// report tells of what was written and of what failed, and says when to look again.
func (r *Reconciler) report(ctx context.Context, o *observed, d targets.Decision, done *applied) (again time.Time) {
	now, logger := time.Now(), log.FromContext(ctx)
	passTook.Observe(now.Sub(o.state.Now).Seconds())
	r.countTargets(o.state.Accounts, d.Groups)
	r.countConditions(d.Attachments)
	for _, a := range d.Attachments {
		if one := done.begun[(&targets.GroupAttachment{Object: a.Object}).Ref()]; one != nil && len(a.Events) > 0 {
			r.untold = append(r.untold, untold{a, one})
		}
	}
	r.untold = slices.DeleteFunc(r.untold, r.tell)
	again = onepass.Earliest(d.WakeAt, o.state.Now.Add(r.GroupsEvery))
	for ref, one := range done.begun {
		switch {
		case !one.ended():
		case one.err != nil && !harmless(one.err):
			logger.Error(one.err, "writing failed", "kind", ref.Kind, "namespace", ref.Namespace, "name", ref.Name)
		case one.err != nil:
			again = onepass.Earliest(again, now.Add(conflictPause))
		}
	}
	if done.gates != nil {
		logger.Error(done.gates, "writing readiness gates failed")
		again = onepass.Earliest(again, now.Add(firstRetry))
	}
	if done.again {
		again = onepass.Earliest(again, now.Add(conflictPause))
	}
	return onepass.Earliest(again, r.writes.next())
}

// untold are the events of a decision, and the write of the status that they are of.
type untold struct {
	targets.AttachmentDecision
	write *write
}

// tell makes the events of a status when it stands, and says whether it has ended how it is written: a
// write may take longer than the pass that began it. One that failed is decided about anew.
func (r *Reconciler) tell(u untold) (ended bool) {
	if !u.write.ended() {
		return false
	}
	if u.write.err == nil {
		for _, e := range u.Events {
			r.recorder.Eventf(u.Object, nil, corev1.EventTypeWarning, e.Reason, e.Action, "%s", e.Message)
		}
	}
	return true
}
