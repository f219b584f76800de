package controller

import (
	"context"
	"slices"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/internal/onepass"
	"github.com/mumoshu/ingress-daemonset-controller/internal/targets"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

var (
	callsMade = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "ingressdaemonset_cloud_calls_total", Help: "Calls to the cloud's load balancers, by kind, outcome and the role that is assumed for them.",
	}, []string{"kind", "outcome", "role"})
	groupTargets = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "ingressdaemonset_group_targets", Help: "Targets of each group that something is kept in, also those that others registered, by their health as the cloud calls it. id is the ARN of a target group, or the name of a classic load balancer.",
	}, []string{"group", "id", "health"})
	passTook = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "ingressdaemonset_targets_pass_seconds", Help: "How long one pass over all target groups took, in seconds.",
		Buckets: prometheus.ExponentialBuckets(0.001, 2, 12),
	})
)

func init() { metrics.Registry.MustRegister(callsMade, groupTargets, passTook) }

// healths are all that the cloud says of a target.
var healths = []targets.Condition{
	targets.Initial, targets.Healthy, targets.Unhealthy, targets.UnhealthyDraining, targets.Draining, targets.Unused, targets.Unavailable,
}

// report tells of what was written and of what failed, and says when to look again.
func (r *Reconciler) report(ctx context.Context, o *observed, d targets.Decision, done *applied) (again time.Time) {
	now, logger := time.Now(), log.FromContext(ctx)
	passTook.Observe(now.Sub(o.state.Now).Seconds())
	r.countTargets(o.state.Accounts, d.Groups)
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

// counted is a number of targets of a group.
type counted struct {
	group, id string
	health    targets.Condition
}

// countTargets reports the targets of all groups that something is kept in, as they were read last. A
// group that was not read yet, or in which nothing is kept any more, is not reported.
func (r *Reconciler) countTargets(accounts []targets.Account, groups []targets.GroupPlan) {
	kept := map[targets.GroupKey]bool{}
	for _, g := range groups {
		kept[targets.GroupKey{Role: g.Role, ID: g.ID}] = true
	}
	now := map[counted]int{}
	for _, account := range accounts {
		for _, g := range account.Groups {
			if !kept[targets.GroupKey{Role: account.Role, ID: g.ID}] || g.ReadAt.IsZero() {
				continue
			}
			for _, health := range healths {
				now[counted{g.Name, g.ID, health}] += 0
			}
			for _, target := range g.Registered {
				now[counted{g.Name, g.ID, target.Condition}]++
			}
		}
	}
	for c, n := range now {
		groupTargets.WithLabelValues(c.group, c.id, string(c.health)).Set(float64(n))
	}
	for c := range r.counted {
		if _, still := now[c]; !still {
			groupTargets.DeleteLabelValues(c.group, c.id, string(c.health))
		}
	}
	r.counted = now
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
