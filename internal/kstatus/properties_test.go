package kstatus

import (
	"reflect"
	"slices"
	"testing"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"
)

// progressReasons are those of the condition Progressing, and nothing for one that is not there.
var progressReasons = []string{
	"", v1alpha1.ReasonComplete, v1alpha1.ReasonRollingOut, v1alpha1.ReasonPaused, v1alpha1.ReasonDetachTimedOut, v1alpha1.ReasonProgressDeadlineExceeded,
	v1alpha1.ReasonAnalyzing, v1alpha1.ReasonAnalysisFailed, v1alpha1.ReasonRollingBack, v1alpha1.ReasonRolledBack, v1alpha1.ReasonDeploymentRefused,
}

// healthReasons are those for which targets are healthy or not.
var healthReasons = []string{
	v1alpha1.ReasonTargetsHealthy, v1alpha1.ReasonNoTargets, v1alpha1.ReasonTargetsNotHealthy, v1alpha1.ReasonNoGroup, v1alpha1.ReasonGroupsUnknown, v1alpha1.ReasonTargetsRefused,
	v1alpha1.ReasonGroupBound, v1alpha1.ReasonNoCloud, v1alpha1.ReasonTargetsLeaving,
}

var statuses = []metav1.ConditionStatus{metav1.ConditionTrue, metav1.ConditionFalse}

func drawn(t *rapid.T, kind, reason string) metav1.Condition {
	return says(kind, rapid.SampledFrom(statuses).Draw(t, kind), reason, rapid.String().Draw(t, "message of "+kind))
}

// drawnStatus is any status of an IngressDaemonSet, also one that no planner makes.
func drawnStatus(t *rapid.T) *v1alpha1.IngressDaemonSetStatus {
	s := &v1alpha1.IngressDaemonSetStatus{}
	if reason := rapid.SampledFrom(progressReasons).Draw(t, "reason"); reason != "" {
		s.Conditions = append(s.Conditions, drawn(t, v1alpha1.ConditionProgressing, reason))
	}
	for _, kind := range []string{v1alpha1.ConditionAvailable, v1alpha1.ConditionDegraded, v1alpha1.ConditionBlocked, v1alpha1.ConditionWarning} {
		if rapid.Bool().Draw(t, "has "+kind) {
			s.Conditions = append(s.Conditions, drawn(t, kind, v1alpha1.ReasonInvalidSpec))
		}
	}
	for range rapid.IntRange(0, 3).Draw(t, "nodes") {
		state := rapid.SampledFrom([]v1alpha1.NodeState{v1alpha1.NodeUnavailable, v1alpha1.NodeUpdating, v1alpha1.NodeRemoving}).Draw(t, "state")
		s.Nodes = append(s.Nodes, v1alpha1.NodeStatus{Name: "a", State: state, Reason: "why"})
	}
	return s
}

// TestAlwaysOne: whatever a status says, and whatever it said before, one of the three is True, each with
// the generation that was observed and a reason; all other conditions stay; and to say the same again
// changes nothing.
func TestAlwaysOne(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawnStatus(t)
		others := slices.Clone(s.Conditions)
		blocked := drawn(t, v1alpha1.ConditionBlocked, v1alpha1.ReasonTargetsRefused)
		a := &v1alpha1.Attachment{Spec: v1alpha1.AttachmentSpec{Wanted: rapid.SampledFrom([]v1alpha1.AttachmentWanted{v1alpha1.WantAttached, v1alpha1.WantDetached}).Draw(t, "wanted")}}
		a.Generation, a.Status.ObservedGeneration, a.Status.Done = rapid.Int64Range(1, 3).Draw(t, "generation"), rapid.Int64Range(-1, 3).Draw(t, "observed"), rapid.Bool().Draw(t, "done")
		for _, standing := range []Standing{
			OfIngressDaemonSet(drawnStatus(t), rapid.SampledFrom([]string{"", "checkers"}).Draw(t, "left before")),
			OfIngressDaemonSet(s, rapid.SampledFrom([]string{"", "checkers"}).Draw(t, "left")),
			OfTargetGroupAttachment(rapid.SampledFrom(healthReasons).Draw(t, "health"), "why", blocked),
			OfAttachment(a, &a.Status),
		} {
			generation := rapid.Int64Range(1, 9).Draw(t, "observed generation")
			standing.Set(&s.Conditions, generation, now)
			holdsOne(t, s.Conditions, generation)
			again := slices.Clone(s.Conditions)
			if standing.Set(&again, generation, metav1.NewTime(now.Add(1e9))); !reflect.DeepEqual(again, s.Conditions) {
				t.Fatalf("to say it again changes %+v", again)
			}
		}
		if rest := slices.DeleteFunc(slices.Clone(s.Conditions), func(c metav1.Condition) bool { return slices.Contains(Conditions, c.Type) }); !slices.Equal(rest, others) {
			t.Fatalf("others are changed: %+v, were %+v", rest, others)
		}
	})
}

// holdsOne fails unless one of the three is True, and all are of a generation.
func holdsOne(t *rapid.T, conditions []metav1.Condition, generation int64) {
	yes := 0
	for _, kind := range Conditions {
		c := meta.FindStatusCondition(conditions, kind)
		if c == nil || c.ObservedGeneration != generation || c.Reason == "" {
			t.Fatalf("%s is %+v", kind, c)
		}
		if c.Status == metav1.ConditionTrue {
			yes++
		}
	}
	if yes != 1 {
		t.Fatalf("%d are True: %+v", yes, conditions)
	}
}

// TestReadyIsTheEnd: an IngressDaemonSet is Ready only where nothing says that anything is left, and Stalled
// exactly where its rollout has stopped or goes back, but for a pause.
func TestReadyIsTheEnd(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, left := drawnStatus(t), rapid.SampledFrom([]string{"", "checkers"}).Draw(t, "left")
		got := OfIngressDaemonSet(s, left)
		p := find(s.Conditions, v1alpha1.ConditionProgressing)
		open := meta.IsStatusConditionTrue(s.Conditions, v1alpha1.ConditionBlocked) || meta.IsStatusConditionTrue(s.Conditions, v1alpha1.ConditionDegraded) || slices.ContainsFunc(s.Nodes, isLeaving) || left != ""
		if ends := p.Status == metav1.ConditionTrue && p.Reason == v1alpha1.ReasonComplete && !open; (got.Condition == v1alpha1.ConditionReady) != ends {
			t.Fatalf("%+v of %+v", got, s)
		}
		stops := p.Reason != v1alpha1.ReasonPaused && (p.Status == metav1.ConditionFalse || p.Reason == v1alpha1.ReasonRollingBack)
		if (got.Condition == v1alpha1.ConditionStalled) != stops {
			t.Fatalf("%+v of %+v", got, s)
		}
	})
}
