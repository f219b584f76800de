package controller

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/targets"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

// tell makes the status of a TargetGroupAttachment.
func (c *claim) tell(now time.Time, shares []*share) {
	c.status.ObservedGeneration = c.object.Generation
	c.status.GroupCount = int32(c.matched)
	c.status.Targets, c.status.Healthy, c.status.Leaving = 0, 0, 0
	var waits, refused []string
	for _, r := range c.reports {
		switch r.Phase {
		case targets.Registering, targets.Failing:
			c.status.Targets++
			waits = append(waits, r.ID+" "+r.Message)
		case targets.Attached, targets.Held:
			c.status.Targets++
			c.status.Healthy++
		case targets.Refused:
			c.status.Targets++
			refused = append(refused, r.ID+": "+r.Message)
		case targets.Leaving:
			c.status.Leaving++
		}
	}
	c.setReady(now, waits)
	c.setBlocked(now, refused, shares)
	c.setWarning(now, shares)
}

func (c *claim) setReady(now time.Time, waits []string) {
	ready := metav1.Condition{Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, ObservedGeneration: c.object.Generation}
	switch {
	case c.unread != "":
		ready.Reason, ready.Message = v1alpha1.ReasonGroupsUnknown, c.unread
	case len(c.bound) > 0:
		ready.Reason, ready.Message = v1alpha1.ReasonGroupBound, c.bound[0]
	case c.matched == 0:
		ready.Reason, ready.Message = v1alpha1.ReasonNoGroup, "no target group of type "+c.object.Spec.TargetType+" matches"
	case c.status.Healthy < c.status.Targets:
		ready.Reason, ready.Message = v1alpha1.ReasonTargetsNotHealthy, fmt.Sprintf("%d of %d targets are healthy", c.status.Healthy, c.status.Targets)
		if len(waits) > 0 {
			ready.Message += ", such as not " + waits[0]
		}
	default:
		ready.Status, ready.Reason = metav1.ConditionTrue, v1alpha1.ReasonTargetsHealthy
		ready.Message = fmt.Sprintf("%d targets are healthy", c.status.Healthy)
	}
	set(&c.status.Conditions, ready, now)
}

func (c *claim) setBlocked(now time.Time, refused []string, shares []*share) {
	faults := slices.Clone(c.faults)
	if c.incomplete != "" {
		faults = append(faults, c.incomplete)
	}
	for _, s := range shares {
		if !slices.Contains(s.claims, c) {
			continue
		}
		if s.broken != "" {
			faults = append(faults, "its record of "+s.state.Group.Name+" cannot be read: "+s.broken)
		}
		if why := s.account.failing(s.state.Group.ID); why != "" {
			faults = append(faults, s.state.Group.Name+": "+why)
		}
		for _, f := range s.decision.Faults {
			faults = append(faults, s.state.Group.Name+": "+f)
		}
	}
	faults = append(append(faults, refused...), c.bound...)
	for i, s := range c.skipped {
		if i == 3 {
			faults = append(faults, fmt.Sprintf("and %d more", len(c.skipped)-i))
			break
		}
		faults = append(faults, s.Name+" has no target: "+s.Why)
	}
	blocked := metav1.Condition{
		Type: v1alpha1.ConditionBlocked, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonAsExpected, ObservedGeneration: c.object.Generation,
	}
	if len(faults) > 0 {
		slices.Sort(faults)
		blocked.Status, blocked.Reason = metav1.ConditionTrue, v1alpha1.ReasonTargetsRefused
		if len(c.bound) > 0 {
			blocked.Reason = v1alpha1.ReasonGroupBound
		}
		blocked.Message = shortened(strings.Join(slices.Compact(faults), "; "))
	}
	set(&c.status.Conditions, blocked, now)
}

func set(list *[]metav1.Condition, c metav1.Condition, now time.Time) {
	c.LastTransitionTime = metav1.NewTime(now.Truncate(time.Second))
	meta.SetStatusCondition(list, c)
}

// shortened keeps a message within what a condition may have.
func shortened(s string) string {
	const limit = 1000
	if len(s) > limit {
		return s[:limit] + " ..."
	}
	return s
}

// tell makes the status of an Attachment.
func (h *hold) tell() {
	h.status.Done, h.status.Evidence, h.status.Waits = false, "", ""
	if h.unread != "" {
		h.status.Waits = h.unread
		return
	}
	h.status.ObservedGeneration = h.object.Generation
	var evidence []string
	for _, r := range h.reports {
		if !h.arrived(r) {
			h.status.Waits = r.ID + ": " + r.Message
			return
		}
		if r.Evidence != "" {
			evidence = append(evidence, string(r.Evidence))
		}
	}
	slices.Sort(evidence)
	h.status.Done, h.status.Evidence = true, strings.Join(slices.Compact(evidence), ", ")
	if h.detach() && h.status.Evidence == "" {
		h.status.Evidence = "no target group has it"
	}
	if !h.detach() {
		h.status.Evidence = ""
	}
}

// arrived is whether a target is where the node is to be. One that was not healthy
// before is not waited for.
func (h *hold) arrived(r targets.Report) bool {
	if h.detach() {
		return r.Phase == targets.Stopped || r.Phase == targets.Absent
	}
	name := r.Target.String()
	unhealthy := slices.ContainsFunc(h.status.Groups, func(g v1alpha1.AttachedGroup) bool { return slices.Contains(g.Unhealthy, name) })
	return r.Phase == targets.Attached || r.Phase == targets.Failing && unhealthy
}
