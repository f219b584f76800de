package controller

import (
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/rollout"
	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

// metric says what is reported; docs/reference/metrics.md is made of it. Each has
// the labels namespace and name, of the IngressDaemonSet, before its own: there is
// none for each node, whose number has no bound.
type metric struct {
	name, kind, help string
	labels           []string
}

var (
	nodes    = metric{"ingressdaemonset_nodes", "gauge", "Nodes in the node set, by state: serving, degraded or unavailable.", []string{"state"}}
	updated  = metric{"ingressdaemonset_updated_nodes", "gauge", "Nodes whose Deployment has the present template.", nil}
	wave     = metric{"ingressdaemonset_wave_nodes", "gauge", "Nodes whose update is under way.", nil}
	reported = metric{"ingressdaemonset_condition", "gauge", "1 where the condition is True, otherwise 0.", []string{"condition"}}
	steps    = metric{"ingressdaemonset_steps_total", "counter", "Writes that were carried out, by action.", []string{"action"}}
	rejected = metric{"ingressdaemonset_rejected_pods_total", "counter", "Pods that a kubelet rejected, and that were cleaned up.", nil}
	planned  = metric{"ingressdaemonset_plan_seconds", "histogram", "How long it took to decide what to do next, in seconds.", nil}

	ofEach = []metric{nodes, updated, wave, reported, steps, rejected, planned}
)

var (
	nodesGauge     = nodes.gauge()
	updatedGauge   = updated.gauge()
	waveGauge      = wave.gauge()
	conditionGauge = reported.gauge()
	stepsCounter   = steps.counter()
	rejectCounter  = rejected.counter()
	planHistogram  = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: planned.name, Help: planned.help, Buckets: prometheus.ExponentialBuckets(0.0001, 4, 8),
	}, planned.all())
)

func init() {
	metrics.Registry.MustRegister(nodesGauge, updatedGauge, waveGauge, conditionGauge, stepsCounter, rejectCounter, planHistogram)
}

func (m metric) all() []string { return append([]string{"namespace", "name"}, m.labels...) }

func (m metric) gauge() *prometheus.GaugeVec {
	return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: m.name, Help: m.help}, m.all())
}

func (m metric) counter() *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: m.name, Help: m.help}, m.all())
}

// measure reports a decision, and what was carried out of it.
func measure(set types.NamespacedName, status v1alpha1.IngressDaemonSetStatus, done []rollout.Step, took time.Duration) {
	for state, n := range map[string]int32{"serving": status.ServingNodes, "degraded": status.DegradedNodes, "unavailable": status.UnavailableNodes} {
		nodesGauge.WithLabelValues(set.Namespace, set.Name, state).Set(float64(n))
	}
	updatedGauge.WithLabelValues(set.Namespace, set.Name).Set(float64(status.UpdatedNodes))
	waveGauge.WithLabelValues(set.Namespace, set.Name).Set(float64(len(status.Wave)))
	for _, c := range status.Conditions {
		value := 0.0
		if c.Status == metav1.ConditionTrue {
			value = 1
		}
		conditionGauge.WithLabelValues(set.Namespace, set.Name, c.Type).Set(value)
	}
	for _, s := range done {
		if s.Action == rollout.Measure {
			continue
		}
		stepsCounter.WithLabelValues(set.Namespace, set.Name, string(s.Action)).Inc()
		rejectCounter.WithLabelValues(set.Namespace, set.Name).Add(float64(len(s.Pods)))
	}
	planHistogram.WithLabelValues(set.Namespace, set.Name).Observe(took.Seconds())
}

// unmeasure forgets an IngressDaemonSet that is gone.
func unmeasure(set types.NamespacedName) {
	labels := prometheus.Labels{"namespace": set.Namespace, "name": set.Name}
	for _, v := range []interface {
		DeletePartialMatch(prometheus.Labels) int
	}{nodesGauge, updatedGauge, waveGauge, conditionGauge, stepsCounter, rejectCounter, planHistogram} {
		v.DeletePartialMatch(labels)
	}
}
