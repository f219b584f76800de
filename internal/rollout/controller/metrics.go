package controller

import (
	"runtime"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/rollout"
	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

// metric is one of every IngressDaemonSet. Each has the labels namespace and name before its own:
// there is none for each node, whose number has no bound. docs/reference/metrics.md is made of all
// that are registered.
type metric struct {
	name, help string
	labels     []string
}

var (
	nodesGauge      = metric{"ingressdaemonset_nodes", "Nodes in the node set, by state: serving, degraded or unavailable.", []string{"state"}}.gauge()
	updatedGauge    = metric{"ingressdaemonset_updated_nodes", "Nodes whose Deployment has the present template.", nil}.gauge()
	waveGauge       = metric{"ingressdaemonset_wave_nodes", "Nodes whose update is under way.", nil}.gauge()
	pausedGauge     = metric{"ingressdaemonset_paused", "1 where spec.paused is set, otherwise 0.", nil}.gauge()
	conditionGauge  = metric{"ingressdaemonset_condition", "1 where the condition is True, otherwise 0, with its present reason.", []string{"condition", "reason"}}.gauge()
	stepsCounter    = metric{"ingressdaemonset_steps_total", "Writes that were carried out, by action.", []string{"action"}}.counter()
	rejectCounter   = metric{"ingressdaemonset_rejected_pods_total", "Pods that a kubelet rejected, and that were cleaned up.", nil}.counter()
	flipCounter     = metric{"ingressdaemonset_health_check_flips_total", "Changes of the answers of nodes' health-check ports, between passing, failing and none.", nil}.counter()
	detachHistogram = metric{"ingressdaemonset_detach_seconds", "How long nodes took from their mark until their pods were replaced, in seconds: graces, health checkers, detacher.", nil}.histogram(prometheus.ExponentialBuckets(1, 2, 11))
	attachHistogram = metric{"ingressdaemonset_attach_seconds", "How long nodes took from the removal of their mark until they served, in seconds.", nil}.histogram(prometheus.ExponentialBuckets(1, 2, 11))
	waveHistogram   = metric{"ingressdaemonset_wave_seconds", "How long nodes were under way without a break, in seconds.", nil}.histogram(prometheus.ExponentialBuckets(4, 2, 13))
	planHistogram   = metric{"ingressdaemonset_plan_seconds", "How long it took to decide what to do next, in seconds.", nil}.histogram(prometheus.ExponentialBuckets(0.0001, 4, 8))

	// vectors are all of them.
	vectors = []vector{
		nodesGauge, updatedGauge, waveGauge, pausedGauge, conditionGauge, stepsCounter, rejectCounter, flipCounter,
		detachHistogram, attachHistogram, waveHistogram, planHistogram,
	}

	// buildGauge is of this process, whether or not it leads.
	buildGauge = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "ingressdaemonset_build_info", Help: "1 for each controller that runs, also where another one leads, by its version and that of Go.",
	}, []string{"version", "goversion"})
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
	metrics.Registry.MustRegister(buildGauge)
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
func (s *session) count(paused bool, status v1alpha1.IngressDaemonSetStatus, done []rollout.Step, took time.Duration) {
	namespace, name := s.key.Namespace, s.key.Name
	for state, n := range map[string]int32{"serving": status.ServingNodes, "degraded": status.DegradedNodes, "unavailable": status.UnavailableNodes} {
		nodesGauge.WithLabelValues(namespace, name, state).Set(float64(n))
	}
	updatedGauge.WithLabelValues(namespace, name).Set(float64(status.UpdatedNodes))
	waveGauge.WithLabelValues(namespace, name).Set(float64(len(status.Wave)))
	pausedGauge.WithLabelValues(namespace, name).Set(asNumber(paused))
	for _, c := range status.Conditions {
		s.countCondition(c)
	}
	for _, step := range done {
		if step.Action == rollout.Measure {
			continue
		}
		stepsCounter.WithLabelValues(namespace, name, string(step.Action)).Inc()
		rejectCounter.WithLabelValues(namespace, name).Add(float64(len(step.Pods)))
	}
	planHistogram.WithLabelValues(namespace, name).Observe(took.Seconds())
}

// countCondition reports a condition under its present reason alone. The one of before goes last, so that
// whoever looks in between finds the condition twice, and never not at all.
func (s *session) countCondition(c metav1.Condition) {
	conditionGauge.WithLabelValues(s.key.Namespace, s.key.Name, c.Type, c.Reason).Set(asNumber(c.Status == metav1.ConditionTrue))
	if before, counted := s.reasons[c.Type]; counted && before != c.Reason {
		conditionGauge.DeleteLabelValues(s.key.Namespace, s.key.Name, c.Type, before)
	}
	s.reasons[c.Type] = c.Reason
}

// asNumber is 1 for what is so, otherwise 0.
func asNumber(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

// countBuild reports the version of this process.
func countBuild(version string) { buildGauge.WithLabelValues(version, runtime.Version()).Set(1) }

// unmeasure forgets an IngressDaemonSet that is gone.
func unmeasure(set types.NamespacedName) {
	for _, v := range vectors {
		v.DeletePartialMatch(prometheus.Labels{"namespace": set.Namespace, "name": set.Name})
	}
}
