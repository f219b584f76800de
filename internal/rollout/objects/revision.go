package objects

import (
	"encoding/json"
	"fmt"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
)

// Revision is the hash of a pod template: 10 hexadecimal digits. Empty values
// do not count, so that a later version of the Kubernetes types, which may
// encode them differently, gives the same hash.
func Revision(t corev1.PodTemplateSpec) string { return hash(t) }

func hash(value any) string {
	// Kubernetes types always encode, and decode again into plain values.
	data, _ := json.Marshal(value)
	var plain any
	_ = json.Unmarshal(data, &plain)
	data, _ = json.Marshal(withoutEmpty(plain))
	return digest(data, 10)
}

// withoutEmpty drops null, empty maps and empty lists, at every depth.
func withoutEmpty(value any) any {
	switch v := value.(type) {
	case map[string]any:
		out := map[string]any{}
		for key, inner := range v {
			if kept := withoutEmpty(inner); kept != nil {
				out[key] = kept
			}
		}
		if len(out) == 0 {
			return nil
		}
		return out
	case []any:
		if len(v) == 0 {
			return nil
		}
		out := make([]any, len(v))
		for i := range v {
			out[i] = withoutEmpty(v[i])
		}
		return out
	}
	return value
}

// ControllerRevision keeps a template on record under its hash, and beside it what of
// it is the user's own.
func ControllerRevision(set *v1alpha1.IngressDaemonSet, revision string, number int64) (*appsv1.ControllerRevision, error) {
	data, err := json.Marshal(Template(set))
	if err != nil {
		return nil, fmt.Errorf("encoding the template: %w", err)
	}
	own, err := json.Marshal(set.Spec.Template)
	if err != nil {
		return nil, fmt.Errorf("encoding the user's template: %w", err)
	}
	patch, err := strategicpatch.CreateTwoWayMergePatch(data, own, corev1.PodTemplateSpec{})
	if err != nil {
		return nil, fmt.Errorf("telling the user's template from what is added: %w", err)
	}
	return &appsv1.ControllerRevision{
		TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "ControllerRevision"},
		ObjectMeta: metav1.ObjectMeta{
			Name: set.Name + "-" + revision, Namespace: set.Namespace,
			Labels: map[string]string{
				v1alpha1.LabelName:     v1alpha1.LabelValue(set.Name),
				v1alpha1.LabelRevision: revision,
			},
			Annotations:     map[string]string{v1alpha1.AnnotationUserTemplate: string(patch)},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(set, v1alpha1.Kind)},
		},
		Data:     runtime.RawExtension{Raw: data},
		Revision: number,
	}, nil
}

// RecordedTemplate is the template that a ControllerRevision keeps, with what was added
// to the user's: what pods of the revision are made from.
func RecordedTemplate(r *appsv1.ControllerRevision) (corev1.PodTemplateSpec, error) {
	return decodeTemplate(r, r.Data.Raw)
}

// UserTemplate is what the user wrote of the template that a ControllerRevision keeps.
// One of v0.1.0 does not tell: the drain hook is known by its form then, and the labels
// of spec.selector stay.
func UserTemplate(r *appsv1.ControllerRevision) (corev1.PodTemplateSpec, error) {
	patch, told := r.Annotations[v1alpha1.AnnotationUserTemplate]
	if !told {
		t, err := RecordedTemplate(r)
		removeDrainHook(&t)
		return t, err
	}
	own, err := strategicpatch.StrategicMergePatch(r.Data.Raw, []byte(patch), corev1.PodTemplateSpec{})
	if err != nil {
		return corev1.PodTemplateSpec{}, fmt.Errorf("decoding ControllerRevision %s: %w", r.Name, err)
	}
	return decodeTemplate(r, own)
}

func decodeTemplate(r *appsv1.ControllerRevision, data []byte) (corev1.PodTemplateSpec, error) {
	var t corev1.PodTemplateSpec
	if err := json.Unmarshal(data, &t); err != nil {
		return t, fmt.Errorf("decoding ControllerRevision %s: %w", r.Name, err)
	}
	return t, nil
}
