package v1alpha1

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"
)

// Strategy is an update strategy with every name resolved and every default
// filled in.
type Strategy struct {
	// Detaching says whether nodes leave the load balancer before their pods are
	// touched; otherwise pods are replaced while the node serves (degraded).
	Detaching bool
	// MaxNodes is how many nodes, or what percentage of them, may be out of the
	// load balancer (Detaching) or degraded at a time.
	MaxNodes intstr.IntOrString
	// MaxUnavailablePods and MaxSurgedPods are those of a node's Deployment.
	MaxUnavailablePods, MaxSurgedPods intstr.IntOrString
	// Partition is how many nodes, or what percentage of them, stay as they are.
	Partition intstr.IntOrString

	MarkKey   string
	MarkGrace time.Duration
	// NoticeGrace is how long the load balancer may take to notice that health checks fail,
	// also where MarkGrace is 0 because a detacher is asked.
	NoticeGrace time.Duration
	// FailAfterDetachment says whether health checks pass until the detacher has answered.
	FailAfterDetachment bool
	AnnotateNode        *NodeAnnotation
	AttachGrace         time.Duration
	DetachTimeout       time.Duration
	// ProceedOnTimeout updates a node whose detachment timed out; otherwise the rollout halts.
	ProceedOnTimeout bool

	CanaryNodeSelector map[string]string
	TopologyKey        string
	// MinServingNodes is how many nodes, or what percentage of them, go on serving.
	MinServingNodes intstr.IntOrString
	// IgnoreNotReadyAfter is after how long the budget does not count a NotReady node any
	// more; 0 for never.
	IgnoreNotReadyAfter time.Duration

	Analysis []AnalysisCheck
	// FailurePolicy is empty where nothing follows an overrun deadline.
	FailurePolicy FailurePolicy
}

// NodeAnnotation asks a detacher to take a node out.
type NodeAnnotation struct {
	Key, Value string
	Grace      time.Duration
	// TimestampKey is the annotation of the detacher's answer; empty where none is awaited.
	TimestampKey   string
	TimestampGrace time.Duration
}

// Pods is the number of pods on each node.
func (s *IngressDaemonSetSpec) Pods() int32 {
	return *first(s.PodsPerNode, s.Replicas, ptr[int32](1))
}

// HistoryLimit is how many old revisions are kept.
func (s *IngressDaemonSetSpec) HistoryLimit() int {
	return int(*first(s.RevisionHistoryLimit, ptr[int32](10)))
}

// ProgressDeadline is how long a node may take until it serves.
func (s *IngressDaemonSetSpec) ProgressDeadline() time.Duration {
	return seconds(s.ProgressDeadlineSeconds, 600)
}

// LingerTime is how long the drain hook lets open connections end.
func (h *DrainHook) LingerTime() time.Duration { return seconds(h.LingerSeconds, 10) }

// StopTime is how much of a pod's grace period the drain hook leaves to it.
func (h *DrainHook) StopTime() time.Duration { return seconds(h.StopSeconds, 10) }

// Placement is how pods get to their node.
func (s *IngressDaemonSetSpec) Placement() PodPlacement {
	if s.PodPlacement == "" {
		return PlaceByNodeName
	}
	return s.PodPlacement
}

// SelectorLabels are the labels that tell the pods of this IngressDaemonSet
// from those of others.
func (s *IngressDaemonSetSpec) SelectorLabels() map[string]string {
	if s.Selector != nil {
		return s.Selector.MatchLabels
	}
	return s.Template.Labels
}

// Strategy resolves the update strategy.
func (s *IngressDaemonSetSpec) Strategy() Strategy {
	u := s.UpdateStrategy.RollingUpdate
	if u == nil {
		u = &RollingUpdate{}
	}
	r := Strategy{
		Detaching:           positive(u.MaxUnavailableNodes),
		Partition:           *first(u.Partition, fromInt(0)),
		MarkKey:             DefaultMarkKey,
		NoticeGrace:         10 * time.Second,
		AttachGrace:         10 * time.Second,
		DetachTimeout:       seconds(u.DetachTimeoutSeconds, 600),
		ProceedOnTimeout:    u.DetachTimeoutPolicy == ProceedOnDetachTimeout,
		CanaryNodeSelector:  u.CanaryNodeSelector,
		TopologyKey:         u.Order.TopologyKey,
		MinServingNodes:     *first(u.MinServingNodes, fromInt(1)),
		IgnoreNotReadyAfter: seconds(u.IgnoreNotReadyNodesAfterSeconds, 0),
		Analysis:            u.Analysis,
		FailurePolicy:       u.FailurePolicy,
	}
	if r.Detaching {
		r.MaxNodes = *u.MaxUnavailableNodes
		r.MaxUnavailablePods = intstr.FromString("100%")
		r.MaxSurgedPods = *first(u.MaxSurgedPodsPerNode, fromInt(0))
		s.resolveDetaching(u, &r)
	} else {
		r.MaxNodes = *first(u.MaxDegradedNodes, fromInt(1))
		r.MaxUnavailablePods = *first(u.MaxUnavailablePodsPerNode, u.MaxUnavaiablePodsPerNode, fromInt(0))
		r.MaxSurgedPods = *first(u.MaxSurgedPodsPerNode, fromInt(1))
		r.AttachGrace = 0
		if s.answered() {
			// A node that leaves the set for good is taken out in this mode too.
			r.MarkGrace = r.NoticeGrace
		}
	}
	return r
}

// answered reports whether somebody answers the load balancer's health checks.
func (s *IngressDaemonSetSpec) answered() bool {
	return len(s.HealthCheckNodePorts) > 0 || s.ServiceName != ""
}

func (s *IngressDaemonSetSpec) resolveDetaching(u *RollingUpdate, r *Strategy) {
	mark := u.AnnotateDeploymentToDetach
	if mark == nil && u.AnnotateNodeToDetach == nil && s.answered() {
		mark = &AnnotateDeploymentToDetach{}
	}
	if mark != nil {
		if mark.Key != "" {
			r.MarkKey = mark.Key
		}
		r.MarkGrace = seconds(mark.GracePeriodSeconds, 10)
		r.AttachGrace, r.NoticeGrace = r.MarkGrace, r.MarkGrace
	}
	if u.FailHealthChecks == FailAfterDetachment {
		// Nobody has to notice that they fail: the traffic has stopped by then.
		r.FailAfterDetachment, r.MarkGrace = true, 0
	}
	if u.AttachGracePeriodSeconds != nil {
		r.AttachGrace = seconds(u.AttachGracePeriodSeconds, 0)
	}
	if n := u.AnnotateNodeToDetach; n != nil {
		r.AnnotateNode = &NodeAnnotation{Key: n.Key, Value: n.Value, Grace: seconds(n.GracePeriodSeconds, 0)}
		if w := u.WaitForDetachmentByAnnotatedTimestamp; w != nil {
			r.AnnotateNode.TimestampKey = w.Key
			r.AnnotateNode.TimestampGrace = seconds(w.GracePeriodSeconds, 0)
		}
	}
}

// Interval is how long after one measurement the next is made.
func (c *AnalysisCheck) Interval() time.Duration { return seconds(c.IntervalSeconds, 10) }

// Timeout is how long a measurement may take.
func (c *AnalysisCheck) Timeout() time.Duration { return seconds(c.TimeoutSeconds, 5) }

// Measurements is how many are made.
func (c *AnalysisCheck) Measurements() int32 { return *first(c.Count, ptr[int32](1)) }

// MayFail is how many of them may fail.
func (c *AnalysisCheck) MayFail() int32 { return *first(c.FailureLimit, ptr[int32](0)) }

// Resolve is a count of n things from an integer or a percentage of n, which
// is rounded up. Anything else is an error that says what to write.
func Resolve(v intstr.IntOrString, n int) (int, error) {
	count, err := intstr.GetScaledValueFromIntOrPercent(&v, n, true)
	if err != nil || count < 0 {
		return 0, fmt.Errorf("%q is neither a number from 0 up nor a percentage such as 25%%", v.String())
	}
	return count, nil
}

func positive(v *intstr.IntOrString) bool {
	if v == nil {
		return false
	}
	count, err := Resolve(*v, 100)
	return err == nil && count > 0
}

func seconds(v *int32, def int32) time.Duration {
	return time.Duration(*first(v, &def)) * time.Second
}

func fromInt(n int) *intstr.IntOrString { return ptr(intstr.FromInt32(int32(n))) }

func ptr[T any](v T) *T { return &v }

func first[T any](values ...*T) *T {
	for _, v := range values {
		if v != nil {
			return v
		}
	}
	return nil
}
