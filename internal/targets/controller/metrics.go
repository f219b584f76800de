package controller

import (
	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/targets"
	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

var (
	callsMade = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "ingressdaemonset_cloud_calls_total", Help: "Calls to the cloud's load balancers, by kind, outcome and the role that is assumed for them.",
	}, []string{"kind", "outcome", "role"})
	groupTargets = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "ingressdaemonset_group_targets", Help: "Targets of each group that something is kept in, also those that others registered, by their health as the cloud calls it. id is the ARN of a target group, or the name of a classic load balancer.",
	}, []string{"group", "id", "health"})
	attachmentConditions = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "ingressdaemonset_group_attachment_condition", Help: "1 where the condition of a TargetGroupAttachment is True, otherwise 0, with its present reason.",
	}, []string{"namespace", "name", "condition", "reason"})
	passTook = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "ingressdaemonset_targets_pass_seconds", Help: "How long one pass over all target groups took, in seconds.",
		Buckets: prometheus.ExponentialBuckets(0.001, 2, 12),
	})
)

func init() { metrics.Registry.MustRegister(callsMade, groupTargets, attachmentConditions, passTook) }

// healths are all that the cloud says of a target.
var healths = []targets.Condition{
	targets.Initial, targets.Healthy, targets.Unhealthy, targets.UnhealthyDraining, targets.Draining, targets.Unused, targets.Unavailable,
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

// countedCondition is a condition of a TargetGroupAttachment, for its present reason.
type countedCondition struct {
	of                types.NamespacedName
	condition, reason string
}

// conditionValues are what the metrics tell of conditions: 1 where one is True, otherwise 0.
type conditionValues map[countedCondition]float64

// countConditions reports the conditions of all TargetGroupAttachments, each under its present reason alone.
func (r *Reconciler) countConditions(attachments []targets.AttachmentDecision) {
	now := conditionValues{}
	for _, a := range attachments {
		now.add(a.Object, a.Status.Conditions)
	}
	now.replace(r.conditions)
	r.conditions = now
}

func (v conditionValues) add(a *v1alpha1.TargetGroupAttachment, conditions []metav1.Condition) {
	for _, c := range conditions {
		value := 0.0
		if c.Status == metav1.ConditionTrue {
			value = 1
		}
		v[countedCondition{client.ObjectKeyFromObject(a), c.Type, c.Reason}] = value
	}
}

// replace has the metrics tell these in place of those of before. What is new comes first, so that whoever looks
// in between finds a condition twice, and never not at all.
func (v conditionValues) replace(before conditionValues) {
	for c, value := range v {
		if was, told := before[c]; !told || was != value {
			attachmentConditions.WithLabelValues(c.of.Namespace, c.of.Name, c.condition, c.reason).Set(value)
		}
	}
	for c := range before {
		if _, still := v[c]; !still {
			attachmentConditions.DeleteLabelValues(c.of.Namespace, c.of.Name, c.condition, c.reason)
		}
	}
}

// forgetAttachment reports nothing of one any more that is gone.
func forgetAttachment(of types.NamespacedName) {
	attachmentConditions.DeletePartialMatch(prometheus.Labels{"namespace": of.Namespace, "name": of.Name})
}
