package kubectl

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/rollout"
	"github.com/mumoshu/ingress-daemonset-controller/internal/rollout/objects"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// annotationRestartedAt is what kubectl rollout restart sets on other kinds.
const annotationRestartedAt = "kubectl.kubernetes.io/restartedAt"

// Each of these changes the spec and says what it did, in the past tense as
// kubectl does.

func pause(set *v1alpha1.IngressDaemonSet) (string, error) {
	if set.Spec.Paused {
		return "", errors.New("it is paused already")
	}
	set.Spec.Paused = true
	return "paused", nil
}

func resume(set *v1alpha1.IngressDaemonSet) (string, error) {
	if !set.Spec.Paused {
		return "", errors.New("it is not paused")
	}
	set.Spec.Paused = false
	return "resumed", nil
}

// promote goes past the analysis that holds up the rollout, and past nothing else:
// where none does, the partition may be all that keeps the fleet as it is.
func promote(set *v1alpha1.IngressDaemonSet) (string, error) {
	if why := unpromotable(set); why != "" {
		if p := partitionOf(set.Spec.Strategy()); p != "" {
			why += fmt.Sprintf(". The partition keeps %s of the nodes as they are; --partition goes past it", p)
		}
		return "", errors.New("there is nothing to promote: " + why)
	}
	if set.Annotations == nil {
		set.Annotations = map[string]string{}
	}
	set.Annotations[v1alpha1.AnnotationPromoted] = rollout.AnalysisID(set.Status.Analysis)
	return "promoted past the analysis of the last wave", nil
}

// unpromotable is why there is no analysis that a promotion would end; empty where
// there is one.
func unpromotable(set *v1alpha1.IngressDaemonSet) string {
	present := objects.Revision(objects.Template(set))
	a, r := set.Status.Analysis, set.Status.Rejected
	switch {
	case r != nil && r.Revision == present:
		return fmt.Sprintf("revision %s was rejected, and stays so until the template changes", present)
	case a == nil || a.Revision != present || len(set.Spec.Strategy().Analysis) == 0:
		return "no analysis holds up the rollout"
	case a.Phase == v1alpha1.AnalysisOfWave:
		return "the nodes of the wave are still under way, and are measured when they serve"
	case a.Phase == v1alpha1.AnalysisPassed:
		return "the last wave has passed its analysis"
	case set.Annotations[v1alpha1.AnnotationPromoted] == rollout.AnalysisID(a):
		return "the last wave is promoted already"
	}
	return ""
}

// partitionOf is the partition in words, empty where no node is held back by it.
func partitionOf(s v1alpha1.Strategy) string {
	if p := s.Partition.String(); p != "0" && p != "0%" {
		return p
	}
	return ""
}

// promoteFleet lets the nodes that the partition holds back go on too.
func promoteFleet(set *v1alpha1.IngressDaemonSet) (string, error) {
	p := partitionOf(set.Spec.Strategy())
	if p == "" {
		return "", errors.New("there is nothing to promote: no partition holds nodes back")
	}
	set.Spec.UpdateStrategy.RollingUpdate.Partition = nil
	return fmt.Sprintf("promoted past the partition, which kept %s of the nodes as they were", p), nil
}

func restart(set *v1alpha1.IngressDaemonSet, now time.Time) (string, error) {
	if set.Spec.Paused {
		return "", errors.New("can't restart a paused IngressDaemonSet (run rollout resume first)")
	}
	if set.Spec.Template.Annotations == nil {
		set.Spec.Template.Annotations = map[string]string{}
	}
	set.Spec.Template.Annotations[annotationRestartedAt] = now.Format(time.RFC3339)
	return "restarted", nil
}

// undo puts what the user wrote of a revision on record back. 0 is the newest that
// differs from the present one, unless the nodes are leaving that.
func undo(set *v1alpha1.IngressDaemonSet, records []appsv1.ControllerRevision, number int64) (string, error) {
	if number != 0 {
		record, err := byNumber(records, number)
		if err != nil {
			return "", err
		}
		records = []appsv1.ControllerRevision{*record}
	}
	present := objects.Revision(objects.Template(set))
	for i := range records {
		r := &records[i]
		t, err := objects.UserTemplate(r)
		if err != nil {
			return "", err
		}
		// What is added by the present spec, such as the drain hook, may differ from
		// what was added then.
		undone := set.DeepCopy()
		undone.Spec.Template = t
		if objects.Revision(objects.Template(undone)) != present {
			if number == 0 && goesBack(set, present) {
				return "", fmt.Errorf("the fleet goes back to its last complete revision %s already, and nothing was done here: the one before is revision %d, which it is leaving; --to-revision %d goes there all the same",
					present, r.Revision, r.Revision)
			}
			set.Spec.Template = t
			return fmt.Sprintf("rolled back to revision %d", r.Revision) + whenResumed(set), nil
		}
	}
	if number != 0 {
		return "", fmt.Errorf("revision %d is the present template", number)
	}
	return "", errors.New("no earlier revision is on record")
}

// byNumber is the revision on record of a number.
func byNumber(records []appsv1.ControllerRevision, number int64) (*appsv1.ControllerRevision, error) {
	i := slices.IndexFunc(records, func(r appsv1.ControllerRevision) bool { return r.Revision == number })
	if i < 0 {
		return nil, fmt.Errorf("unable to find revision %d; rollout history lists those on record", number)
	}
	return &records[i], nil
}

// goesBack reports whether the template is the one that all nodes served with last, and some have
// another: somebody has gone back to it, and the newest other one is what they had to leave.
func goesBack(set *v1alpha1.IngressDaemonSet, present string) bool {
	s := set.Status
	return s.CurrentRevision == present && (s.UpdateRevision != present || s.UpdatedNodes < s.DesiredNodes)
}

// releasePort has a health-check port that was removed from the spec closed at once, and
// not only when nobody asks it any more.
func releasePort(set *v1alpha1.IngressDaemonSet, port int32) (string, error) {
	if slices.Contains(set.Spec.HealthCheckNodePorts, port) {
		return "", fmt.Errorf("port %d is in spec.healthCheckNodePorts, and load balancers are to ask it: remove it there first", port)
	}
	// A port that is wanted again is not to be closed when it is removed again.
	released := slices.DeleteFunc(v1alpha1.ReleasedPorts(set.Annotations), func(other int32) bool { return slices.Contains(set.Spec.HealthCheckNodePorts, other) })
	if slices.Contains(released, port) {
		return "", fmt.Errorf("port %d is released already", port)
	}
	released = append(released, port)
	slices.Sort(released)
	v1alpha1.SetReleasedPorts(set, released)
	return fmt.Sprintf("released port %d", port), nil
}

// ownRevisions are the revisions of the IngressDaemonSet, newest first.
func ownRevisions(set *v1alpha1.IngressDaemonSet, all []appsv1.ControllerRevision) []appsv1.ControllerRevision {
	own := slices.DeleteFunc(slices.Clone(all), func(r appsv1.ControllerRevision) bool { return !metav1.IsControlledBy(&r, set) })
	slices.SortFunc(own, func(a, b appsv1.ControllerRevision) int { return int(b.Revision - a.Revision) })
	return own
}

// whenResumed is what a change of the template waits for, empty where it waits for nobody.
func whenResumed(set *v1alpha1.IngressDaemonSet) string {
	if set.Spec.Paused {
		return " when it is resumed (run rollout resume)"
	}
	return ""
}
