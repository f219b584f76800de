package controller

import (
	"context"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/internal/targets"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

var (
	callsMade = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "ingressdaemonset_cloud_calls_total", Help: "Calls to the cloud's load balancers, by kind and outcome.",
	}, []string{"kind", "outcome"})
	passTook = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "ingressdaemonset_targets_pass_seconds", Help: "How long one pass over all target groups took, in seconds.",
		Buckets: prometheus.ExponentialBuckets(0.001, 2, 12),
	})
)

func init() { metrics.Registry.MustRegister(callsMade, passTook) }

// report tells of what was written and of what failed, and says when to look again. An event
// is made when the status that it is about stands.
func (r *Reconciler) report(ctx context.Context, o *observed, d targets.Decision, done *applied) (again time.Time) {
	now, logger := time.Now(), log.FromContext(ctx)
	passTook.Observe(now.Sub(o.state.Now).Seconds())
	for _, a := range d.Attachments {
		if !done.endedWell((&targets.GroupAttachment{Object: a.Object}).Ref()) {
			continue
		}
		for _, e := range a.Events {
			r.recorder.Eventf(a.Object, nil, corev1.EventTypeWarning, e.Reason, e.Action, "%s", e.Message)
		}
	}
	again = earliest(d.WakeAt, o.state.Now.Add(r.GroupsEvery))
	for ref, one := range done.begun {
		switch {
		case !one.ended():
		case one.err != nil && !harmless(one.err):
			logger.Error(one.err, "writing failed", "kind", ref.Kind, "namespace", ref.Namespace, "name", ref.Name)
		case one.err != nil:
			again = earliest(again, now.Add(conflictPause))
		}
	}
	if done.gates != nil {
		logger.Error(done.gates, "writing readiness gates failed")
		again = earliest(again, now.Add(firstRetry))
	}
	if done.again {
		again = earliest(again, now.Add(conflictPause))
	}
	return earliest(again, r.writes.next())
}

// endedWell is whether something was written to an object, and that ended well by now.
func (d *applied) endedWell(ref targets.Ref) bool {
	one := d.begun[ref]
	return one != nil && one.ended() && one.err == nil
}
