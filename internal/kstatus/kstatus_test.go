package kstatus

import (
	"slices"
	"testing"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var now = metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))

// says is what conditions are made of.
func says(kind string, status metav1.ConditionStatus, reason, message string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: message}
}

// TestSet sets each of the three for the generation that was observed, keeps the time of what stays, and
// leaves all others alone.
func TestSet(t *testing.T) {
	old := metav1.NewTime(now.Add(-time.Hour))
	blocked := says(v1alpha1.ConditionBlocked, metav1.ConditionTrue, v1alpha1.ReasonFloorReached, "too few")
	conditions := []metav1.Condition{blocked}
	reconciling(v1alpha1.ReasonRollingOut, "it begins").Set(&conditions, 1, old)
	reconciling(v1alpha1.ReasonFloorReached, "too few").Set(&conditions, 2, now)
	want := []metav1.Condition{
		blocked,
		{Type: "Ready", Status: "False", Reason: v1alpha1.ReasonFloorReached, Message: "too few", ObservedGeneration: 2, LastTransitionTime: old},
		{Type: "Reconciling", Status: "True", Reason: v1alpha1.ReasonFloorReached, Message: "too few", ObservedGeneration: 2, LastTransitionTime: old},
		{Type: "Stalled", Status: "False", Reason: v1alpha1.ReasonAsExpected, ObservedGeneration: 2, LastTransitionTime: old},
	}
	if !slices.Equal(conditions, want) {
		t.Errorf("got %+v", conditions)
	}
	ready(v1alpha1.ReasonComplete, "all serve").Set(&conditions, 2, now)
	for kind, c := range map[string]struct {
		status metav1.ConditionStatus
		reason string
		since  metav1.Time
	}{"Ready": {"True", v1alpha1.ReasonComplete, now}, "Reconciling": {"False", v1alpha1.ReasonAsExpected, now}, "Stalled": {"False", v1alpha1.ReasonAsExpected, old}} {
		if got := meta.FindStatusCondition(conditions, kind); got.Status != c.status || got.Reason != c.reason || !got.LastTransitionTime.Equal(&c.since) {
			t.Errorf("%+v", got)
		}
	}
}

// TestIngressDaemonSets is the table of docs/adr/0028.
func TestIngressDaemonSets(t *testing.T) {
	const yes, no = metav1.ConditionTrue, metav1.ConditionFalse
	progressing := func(status metav1.ConditionStatus, reason string) metav1.Condition {
		return says(v1alpha1.ConditionProgressing, status, reason, "progressing")
	}
	blocked := says(v1alpha1.ConditionBlocked, yes, v1alpha1.ReasonFloorReached, "blocked")
	degraded := says(v1alpha1.ConditionDegraded, yes, v1alpha1.ReasonNodesNotServing, "degraded")
	warned := says(v1alpha1.ConditionWarning, yes, v1alpha1.ReasonHostPortShared, "warned")
	complete := progressing(yes, v1alpha1.ReasonComplete)
	for name, c := range map[string]struct {
		conditions []metav1.Condition
		nodes      []v1alpha1.NodeStatus
		left       string
		want       Standing
	}{
		"nothing is known yet":   {nil, nil, "", reconciling(v1alpha1.ReasonRollingOut, "")},
		"rolling":                {[]metav1.Condition{progressing(yes, v1alpha1.ReasonRollingOut)}, nil, "", reconciling(v1alpha1.ReasonRollingOut, "progressing")},
		"measuring":              {[]metav1.Condition{progressing(yes, v1alpha1.ReasonAnalyzing)}, nil, "", reconciling(v1alpha1.ReasonAnalyzing, "progressing")},
		"paused with old nodes":  {[]metav1.Condition{progressing(no, v1alpha1.ReasonPaused)}, nil, "", reconciling(v1alpha1.ReasonPaused, "progressing")},
		"paused and blocked":     {[]metav1.Condition{blocked, progressing(no, v1alpha1.ReasonPaused)}, nil, "", reconciling(v1alpha1.ReasonPaused, "progressing")},
		"blocked":                {[]metav1.Condition{blocked, degraded, progressing(yes, v1alpha1.ReasonRollingOut)}, nil, "", reconciling(v1alpha1.ReasonFloorReached, "blocked")},
		"a node is down":         {[]metav1.Condition{degraded, progressing(yes, v1alpha1.ReasonRollingOut)}, nil, "", reconciling(v1alpha1.ReasonNodesNotServing, "degraded")},
		"halted":                 {[]metav1.Condition{progressing(no, v1alpha1.ReasonDetachTimedOut)}, nil, "", stalled(v1alpha1.ReasonDetachTimedOut, "progressing")},
		"halted and blocked":     {[]metav1.Condition{blocked, progressing(no, v1alpha1.ReasonDetachTimedOut)}, nil, "", stalled(v1alpha1.ReasonDetachTimedOut, "progressing")},
		"too slow":               {[]metav1.Condition{blocked, progressing(no, v1alpha1.ReasonProgressDeadlineExceeded)}, nil, "", stalled(v1alpha1.ReasonProgressDeadlineExceeded, "progressing")},
		"its analysis failed":    {[]metav1.Condition{progressing(no, v1alpha1.ReasonAnalysisFailed)}, nil, "", stalled(v1alpha1.ReasonAnalysisFailed, "progressing")},
		"refused":                {[]metav1.Condition{blocked, progressing(no, v1alpha1.ReasonDeploymentRefused)}, nil, "", stalled(v1alpha1.ReasonDeploymentRefused, "progressing")},
		"rejected":               {[]metav1.Condition{progressing(yes, v1alpha1.ReasonRollingBack)}, nil, "", stalled(v1alpha1.ReasonRollingBack, "progressing")},
		"rolled back":            {[]metav1.Condition{progressing(no, v1alpha1.ReasonRolledBack)}, nil, "", stalled(v1alpha1.ReasonRolledBack, "progressing")},
		"complete":               {[]metav1.Condition{complete}, nil, "", ready(v1alpha1.ReasonComplete, "progressing")},
		"complete and warned of": {[]metav1.Condition{complete, warned}, nil, "", ready(v1alpha1.ReasonComplete, "progressing")},
		"complete and blocked":   {[]metav1.Condition{complete, blocked}, nil, "", reconciling(v1alpha1.ReasonFloorReached, "blocked")},
		"a node has no pods":     {[]metav1.Condition{complete}, []v1alpha1.NodeStatus{{Name: "a", State: v1alpha1.NodeUnavailable}}, "", ready(v1alpha1.ReasonComplete, "progressing")},
		"a node leaves": {[]metav1.Condition{complete}, []v1alpha1.NodeStatus{{Name: "a", State: v1alpha1.NodeRemoving, Reason: "its grace is not over"}}, "",
			reconciling(v1alpha1.ReasonRollingOut, "node a leaves: its grace is not over")},
		"something is left": {[]metav1.Condition{complete}, nil, "health checkers are being replaced", reconciling(v1alpha1.ReasonRollingOut, "health checkers are being replaced")},
	} {
		if got := OfIngressDaemonSet(&v1alpha1.IngressDaemonSetStatus{Conditions: c.conditions, Nodes: c.nodes}, c.left); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

func TestTargetGroupAttachments(t *testing.T) {
	blocked := says(v1alpha1.ConditionBlocked, metav1.ConditionTrue, v1alpha1.ReasonTargetsRefused, "a pod has no target")
	unblocked := says(v1alpha1.ConditionBlocked, metav1.ConditionFalse, v1alpha1.ReasonAsExpected, "")
	for reason, want := range map[string]Standing{
		v1alpha1.ReasonTargetsHealthy:    ready(v1alpha1.ReasonTargetsHealthy, "why"),
		v1alpha1.ReasonNoTargets:         ready(v1alpha1.ReasonNoTargets, "why"),
		v1alpha1.ReasonTargetsNotHealthy: reconciling(v1alpha1.ReasonTargetsNotHealthy, "why"),
		v1alpha1.ReasonNoGroup:           reconciling(v1alpha1.ReasonNoGroup, "why"),
		v1alpha1.ReasonGroupsUnknown:     reconciling(v1alpha1.ReasonGroupsUnknown, "why"),
		v1alpha1.ReasonTargetsLeaving:    reconciling(v1alpha1.ReasonTargetsLeaving, "why"),
		v1alpha1.ReasonGroupBound:        stalled(v1alpha1.ReasonGroupBound, "why"),
		v1alpha1.ReasonTargetsRefused:    stalled(v1alpha1.ReasonTargetsRefused, "why"),
		v1alpha1.ReasonNoCloud:           stalled(v1alpha1.ReasonNoCloud, "why"),
	} {
		if got := OfTargetGroupAttachment(reason, "why", unblocked); got != want {
			t.Errorf("%s: %+v", reason, got)
		}
		if want.Condition == v1alpha1.ConditionReady {
			want = reconciling(v1alpha1.ReasonTargetsRefused, "a pod has no target")
		}
		if got := OfTargetGroupAttachment(reason, "why", blocked); got != want {
			t.Errorf("%s and blocked: %+v", reason, got)
		}
	}
}

func TestAttachments(t *testing.T) {
	const generation = 3
	for name, c := range map[string]struct {
		wanted v1alpha1.AttachmentWanted
		status v1alpha1.AttachmentStatus
		want   Standing
	}{
		"new":               {v1alpha1.WantDetached, v1alpha1.AttachmentStatus{ObservedGeneration: -1}, reconciling(v1alpha1.ReasonDetaching, unasked)},
		"leaves":            {v1alpha1.WantDetached, v1alpha1.AttachmentStatus{ObservedGeneration: generation, Waits: "i-a: its time"}, reconciling(v1alpha1.ReasonDetaching, "i-a: its time")},
		"out":               {v1alpha1.WantDetached, v1alpha1.AttachmentStatus{ObservedGeneration: generation, Done: true}, ready(v1alpha1.ReasonDetached, "no traffic reaches the node any more")},
		"out, asked before": {v1alpha1.WantDetached, v1alpha1.AttachmentStatus{ObservedGeneration: generation - 1, Done: true}, reconciling(v1alpha1.ReasonDetaching, unasked)},
		"returns":           {v1alpha1.WantAttached, v1alpha1.AttachmentStatus{ObservedGeneration: generation, Waits: "i-a: its checks"}, reconciling(v1alpha1.ReasonAttaching, "i-a: its checks")},
		"back":              {v1alpha1.WantAttached, v1alpha1.AttachmentStatus{ObservedGeneration: generation, Done: true}, ready(v1alpha1.ReasonAttached, "all that the node was taken out of has it again")},
	} {
		a := &v1alpha1.Attachment{ObjectMeta: metav1.ObjectMeta{Generation: generation}, Spec: v1alpha1.AttachmentSpec{Wanted: c.wanted}}
		if got := OfAttachment(a, &c.status); got != c.want {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
