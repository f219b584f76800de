package kubectl

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/rollout/objects"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// abort puts the template back that all nodes served with last, and remembers the present one.
func abort(set *v1alpha1.IngressDaemonSet, records []appsv1.ControllerRevision) (string, error) {
	present, complete := objects.Revision(objects.Template(set)), set.Status.CurrentRevision
	switch r := set.Status.Rejected; {
	case r != nil && r.Revision == present:
		return "", fmt.Errorf("there is nothing to abort: revision %s was rejected, and nodes go back to %s already", present, complete)
	case complete == "":
		return "", errors.New("there is nothing to go back to: no revision has come through on all nodes yet")
	case complete == present:
		return "", fmt.Errorf("there is nothing to abort: the template is that of %s, which all nodes served with last", complete)
	}
	t, number, err := templateOf(records, complete)
	if err != nil {
		return "", err
	}
	set.Spec.Template = t
	if set.Annotations == nil {
		set.Annotations = map[string]string{}
	}
	set.Annotations[v1alpha1.AnnotationAborted] = present + "/" + objects.Revision(objects.Template(set))
	return fmt.Sprintf("aborted, goes back to revision %d", number) + whenResumed(set), nil
}

// tryAgain tries what was aborted or rejected again.
func tryAgain(set *v1alpha1.IngressDaemonSet, records []appsv1.ControllerRevision, now time.Time) (string, error) {
	present := objects.Revision(objects.Template(set))
	aborted, wentBackTo, _ := strings.Cut(set.Annotations[v1alpha1.AnnotationAborted], "/")
	switch r := set.Status.Rejected; {
	case r != nil && r.Revision == present:
		// Also where somebody had gone back to it: that was before.
		if _, err := restart(set, now); err != nil {
			return "", err
		}
		return fmt.Sprintf("tries revision %s again, as %s", present, objects.Revision(objects.Template(set))), nil
	case aborted != "" && wentBackTo == present:
		t, number, err := templateOf(records, aborted)
		if err != nil {
			return "", err
		}
		set.Spec.Template = t
		delete(set.Annotations, v1alpha1.AnnotationAborted)
		return fmt.Sprintf("tries revision %d again", number) + whenResumed(set), nil
	case set.Spec.Paused:
		return "", errors.New("it is paused (run rollout resume first)")
	}
	return "", errors.New("there is nothing to try again: no rollout was aborted, rejected or halted")
}

// goOn ends a halt, which lasts until the spec changes: spec.paused is written out as false, or left out
// where it is. That means the same, and is another spec. It is one write, so that nobody is left with a
// rollout that is paused.
func goOn(ctx context.Context, api client.Client, set *v1alpha1.IngressDaemonSet) (client.Patch, string, error) {
	// Once it is read into its type, nobody can tell whether it was written out.
	stored := &unstructured.Unstructured{}
	stored.SetGroupVersionKind(v1alpha1.Kind)
	if err := api.Get(ctx, client.ObjectKeyFromObject(set), stored); err != nil {
		return nil, "", err
	}
	var paused any = false
	if _, written, _ := unstructured.NestedBool(stored.Object, "spec", "paused"); written {
		paused = nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"resourceVersion": set.ResourceVersion}, "spec": map[string]any{"paused": paused}})
	return client.RawPatch(types.MergePatchType, patch), "tried again", err
}

// isHalted reports whether the rollout stands until the spec changes. One that is paused stands for that.
func isHalted(set *v1alpha1.IngressDaemonSet) bool {
	c := apimeta.FindStatusCondition(set.Status.Conditions, v1alpha1.ConditionProgressing)
	if c == nil || c.ObservedGeneration != set.Generation || set.Spec.Paused {
		return false
	}
	switch c.Reason {
	case v1alpha1.ReasonDetachTimedOut, v1alpha1.ReasonAnalysisFailed:
		return true
	case v1alpha1.ReasonProgressDeadlineExceeded:
		return set.Spec.Strategy().FailurePolicy == v1alpha1.PauseOnFailure
	}
	return false
}

// templateOf is what the user wrote of the template of a revision, by its hash, and its number.
func templateOf(records []appsv1.ControllerRevision, hash string) (corev1.PodTemplateSpec, int64, error) {
	i := slices.IndexFunc(records, func(r appsv1.ControllerRevision) bool { return r.Labels[v1alpha1.LabelRevision] == hash })
	if i < 0 {
		return corev1.PodTemplateSpec{}, 0, fmt.Errorf("the template of revision %s is not on record any more", hash)
	}
	t, err := objects.UserTemplate(&records[i])
	return t, records[i].Revision, err
}

// newImage is the image that a container is to have; all of them, where the container is *.
type newImage struct{ container, image string }

func readImages(args []string) ([]newImage, error) {
	var out []newImage
	for _, arg := range args {
		container, image, found := strings.Cut(arg, "=")
		if !found || container == "" || image == "" {
			return nil, fmt.Errorf("%q is not CONTAINER=IMAGE, such as nginx=nginx:1.23", arg)
		}
		out = append(out, newImage{container, image})
	}
	return out, nil
}

func setImages(set *v1alpha1.IngressDaemonSet, images []newImage) (string, error) {
	spec := &set.Spec.Template.Spec
	changed := false
	for _, wanted := range images {
		named := false
		for _, c := range containersOf(spec) {
			if wanted.container == c.Name || wanted.container == "*" {
				named, changed = true, changed || c.Image != wanted.image
				c.Image = wanted.image
			}
		}
		if !named {
			names := containerNames(spec)
			return "", fmt.Errorf("there is no container %q%s (there are %s)", wanted.container, meant("", nearest(wanted.container, names)), strings.Join(names, ", "))
		}
	}
	if !changed {
		return "has these images already", nil
	}
	return "image updated", nil
}

func containerNames(spec *corev1.PodSpec) []string {
	var names []string
	for _, c := range containersOf(spec) {
		names = append(names, c.Name)
	}
	return names
}

// containersOf are the containers themselves, to be changed.
func containersOf(spec *corev1.PodSpec) []*corev1.Container {
	var out []*corev1.Container
	for _, containers := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range containers {
			out = append(out, &containers[i])
		}
	}
	return out
}
