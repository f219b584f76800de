package kubectl

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/rollout"
	"github.com/mumoshu/ingress-daemonset-controller/internal/rollout/objects"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"
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

// promote goes past an analysis that holds up the rollout, otherwise past the
// partition.
func promote(set *v1alpha1.IngressDaemonSet) (string, error) {
	if a := set.Status.Analysis; a != nil && (a.Phase == v1alpha1.AnalysisMeasuring || a.Phase == v1alpha1.AnalysisFailed) {
		if set.Annotations == nil {
			set.Annotations = map[string]string{}
		}
		set.Annotations[v1alpha1.AnnotationPromoted] = rollout.AnalysisID(a)
		return "promoted past the analysis of the last wave", nil
	}
	u := set.Spec.UpdateStrategy.RollingUpdate
	if u == nil || u.Partition == nil || *u.Partition == intstr.FromInt32(0) {
		return "", errors.New("there is nothing to promote it past: no analysis of the last wave and no partition")
	}
	u.Partition = nil
	return "promoted past the partition", nil
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

// undo puts the template of a revision on record back. 0 is the newest but the
// present one.
func undo(set *v1alpha1.IngressDaemonSet, records []appsv1.ControllerRevision, number int64) (string, error) {
	present := objects.Revision(objects.Template(set))
	i := slices.IndexFunc(records, func(r appsv1.ControllerRevision) bool {
		if number == 0 {
			return r.Labels[v1alpha1.LabelRevision] != present
		}
		return r.Revision == number
	})
	switch {
	case i < 0 && number == 0:
		return "", errors.New("no earlier revision is on record")
	case i < 0:
		return "", fmt.Errorf("unable to find revision %d; rollout history lists those on record", number)
	case records[i].Labels[v1alpha1.LabelRevision] == present:
		return "", fmt.Errorf("revision %d is the present template", records[i].Revision)
	}
	t, err := objects.RecordedTemplate(&records[i])
	if err != nil {
		return "", err
	}
	set.Spec.Template = t
	return fmt.Sprintf("rolled back to revision %d", records[i].Revision), nil
}

// ownRevisions are the revisions of the IngressDaemonSet, newest first.
func ownRevisions(set *v1alpha1.IngressDaemonSet, all []appsv1.ControllerRevision) []appsv1.ControllerRevision {
	own := slices.DeleteFunc(slices.Clone(all), func(r appsv1.ControllerRevision) bool { return !metav1.IsControlledBy(&r, set) })
	slices.SortFunc(own, func(a, b appsv1.ControllerRevision) int { return int(b.Revision - a.Revision) })
	return own
}

// historyText lists the revisions, or shows the template of one.
func historyText(set *v1alpha1.IngressDaemonSet, records []appsv1.ControllerRevision, number int64) (string, error) {
	if number != 0 {
		for _, r := range records {
			if r.Revision == number {
				t, err := objects.RecordedTemplate(&r)
				if err != nil {
					return "", err
				}
				text, err := yaml.Marshal(t)
				return string(text), err
			}
		}
		return "", fmt.Errorf("unable to find revision %d", number)
	}
	present := objects.Revision(objects.Template(set))
	rows := [][]string{{"REVISION", "HASH", "IMAGES", "CHANGE-CAUSE", ""}}
	for _, r := range slices.Backward(records) {
		t, err := objects.RecordedTemplate(&r)
		if err != nil {
			return "", err
		}
		note := ""
		switch hash := r.Labels[v1alpha1.LabelRevision]; {
		case hash == present:
			note = "the present template"
		case hash == set.Status.CurrentRevision:
			note = "the last that every node had"
		}
		cause := t.Annotations["kubernetes.io/change-cause"]
		if cause == "" {
			cause = "<none>"
		}
		rows = append(rows, []string{fmt.Sprint(r.Revision), r.Labels[v1alpha1.LabelRevision], strings.Join(images(&t.Spec), ","), cause, note})
	}
	return columns(rows, ""), nil
}
