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
	flips    = metric{"ingressdaemonset_health_check_flips_total", "counter", "Changes of the answers of nodes' health-check ports, between passing, failing and none.", nil}
	detached = metric{"ingressdaemonset_detach_seconds", "histogram", "How long nodes took from their mark until their pods were replaced, in seconds: graces, health checkers, detacher.", nil}
	attached = metric{"ingressdaemonset_attach_seconds", "histogram", "How long nodes took from the removal of their mark until they served, in seconds.", nil}
	waves    = metric{"ingressdaemonset_wave_seconds", "histogram", "How long nodes were under way without a break, in seconds.", nil}
	planned  = metric{"ingressdaemonset_plan_seconds", "histogram", "How long it took to decide what to do next, in seconds.", nil}

	ofEach = []metric{nodes, updated, wave, reported, steps, rejected, flips, detached, attached, waves, planned}
)

var (
	nodesGauge      = nodes.gauge()
	updatedGauge    = updated.gauge()
	waveGauge       = wave.gauge()
	conditionGauge  = reported.gauge()
	stepsCounter    = steps.counter()
	rejectCounter   = rejected.counter()
	flipCounter     = flips.counter()
	detachHistogram = detached.histogram(prometheus.ExponentialBuckets(1, 2, 11))
	attachHistogram = attached.histogram(prometheus.ExponentialBuckets(1, 2, 11))
	waveHistogram   = waves.histogram(prometheus.ExponentialBuckets(4, 2, 13))
	planHistogram   = planned.histogram(prometheus.ExponentialBuckets(0.0001, 4, 8))

	// vectors are all of them.
	vectors = []vector{nodesGauge, updatedGauge, waveGauge, conditionGauge, stepsCounter, rejectCounter, flipCounter, detachHistogram, attachHistogram, waveHistogram, planHistogram}
)

// vector is a metric of every IngressDaemonSet.
type vector interface {
	prometheus.Collector
	DeletePartialMatch(prometheus.Labels) int
}

func init() {
	for _, v := range vectors {
		metrics.Registry.MustRegister(v)
	}
}

func (m metric) histogram(buckets []float64) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: m.name, Help: m.help, Buckets: buckets}, m.all())
}

func (m metric) all() []string { return append([]string{"namespace", "name"}, m.labels...) }

func (m metric) gauge() *prometheus.GaugeVec {
	return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: m.name, Help: m.help}, m.all())
}

func (m metric) counter() *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: m.name, Help: m.help}, m.all())
}

// timeDetachments reports how long nodes took whose pods are replaced now: each step is carried out
// once, whether or not the status is accepted that tells of it.
func timeDetachments(set types.NamespacedName, s rollout.State, done []rollout.Step) {
	updates := map[string]bool{}
	for _, step := range done {
		if step.Action == rollout.Update {
			updates[step.Node] = true
		}
	}
	if len(updates) == 0 {
		return
	}
	for i := range s.Nodes {
		n := &s.Nodes[i]
		if n.Deployment == nil || !updates[n.Name] {
			continue
		}
		if at, ours := n.Deployment.Mark.At(); ours && n.Deployment.UpdatedAt.Before(at) {
			detachHistogram.WithLabelValues(set.Namespace, set.Name).Observe(s.Now.Sub(at).Seconds())
		}
	}
}

// timeAttachments reports how long nodes took that have left the wave to serve.
func timeAttachments(set types.NamespacedName, s rollout.State, status v1alpha1.IngressDaemonSetStatus) {
	left := map[string]bool{}
	for _, name := range s.Status.Wave {
		left[name] = true
	}
	for _, name := range status.Wave {
		delete(left, name)
	}
	if len(left) == 0 {
		return
	}
	for i := range s.Nodes {
		n := &s.Nodes[i]
		if n.Deployment != nil && left[n.Name] && n.Wanted && !n.Marked() && !n.Deployment.AttachedAt.IsZero() {
			attachHistogram.WithLabelValues(set.Namespace, set.Name).Observe(s.Now.Sub(n.Deployment.AttachedAt).Seconds())
		}
	}
}

// count reports a decision, and what was carried out of it.
func count(set types.NamespacedName, status v1alpha1.IngressDaemonSetStatus, done []rollout.Step, took time.Duration) {
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
	for _, v := range vectors {
		v.DeletePartialMatch(prometheus.Labels{"namespace": set.Namespace, "name": set.Name})
	}
}
