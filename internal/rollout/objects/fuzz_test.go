package objects

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// FuzzAnnotations reads a Deployment of which anybody may have rewritten what stands on it:
// a hold, times, a number of pods. What cannot be read is as if it were not there,
// but for a drain.
func FuzzAnnotations(f *testing.F) {
	for _, value := range []string{"", "{}", "null", "[]", "7", `{"attempts":2,"revision":"r1","at":"2026-01-02T03:04:05.000000Z","replicas":1}`, `{"attempts":-1,"replicas":-1}`, "2026-01-02T03:04:05Z", "2026-13-02T03:04:05Z", "0000-01-01T00:00:00Z", "99999999999999999999"} {
		f.Add(value, value)
	}
	set := proxy()
	f.Fuzz(func(t *testing.T, hold, other string) {
		d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "d", Annotations: map[string]string{
			v1alpha1.AnnotationHold: hold, v1alpha1.AnnotationUpdatedAt: other, v1alpha1.AnnotationAttachedAt: other,
			v1alpha1.AnnotationDrainedAt: other, v1alpha1.AnnotationPodsPerNode: other, v1alpha1.AnnotationMarkKey: other, other: hold,
		}}}
		got := ReaderOf(set).deployment(d)
		if value, here := d.Annotations[v1alpha1.AnnotationHold]; here && got.Hold != nil && !json.Valid([]byte(value)) {
			t.Errorf("%q is read as the hold %+v", value, got.Hold)
		}
		if _, drained := d.Annotations[v1alpha1.AnnotationDrainedAt]; drained != got.Drained {
			t.Errorf("%q is read as drained %t", other, got.Drained)
		}
		at, err := time.Parse(time.RFC3339, d.Annotations[v1alpha1.AnnotationUpdatedAt])
		if err == nil && !got.UpdatedAt.Equal(at) || err != nil && !got.UpdatedAt.IsZero() {
			t.Errorf("%q is read as %s", other, got.UpdatedAt)
		}
	})
}

// FuzzRequest reads a Node of which anybody may have rewritten what we asked for, and the
// timestamp of whoever answers.
func FuzzRequest(f *testing.F) {
	for _, value := range []string{"", "{}", "null", "[]", `{"at":"2026-01-02T03:04:05Z"}`, `{"at":7}`, `{"at":"2026-01-02T03:04:05Z","key":"a","staleTimestamp":"b"}`} {
		f.Add(value, "2026-01-02T03:04:05Z")
	}
	set := proxy()
	f.Fuzz(func(t *testing.T, asked, timestamp string) {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{
			v1alpha1.AnnotationDetachPrefix + string(set.UID): asked, v1alpha1.AnnotationDetachmentTimestamp: timestamp,
			v1alpha1.AnnotationNodeDetached: asked, v1alpha1.AnnotationNodeDetaching: timestamp,
		}}}
		if got := ReaderOf(set).detachment(node); !got.Requested {
			t.Errorf("%q is no request", asked)
		}
	})
}

// FuzzTemplate reads any revision on record: a template, or an error.
func FuzzTemplate(f *testing.F) {
	for _, data := range []string{"", "null", "{}", "[]", `{"spec":{"template":{"spec":{"containers":[{"name":"a"}]}}}}`, `{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[]}}`} {
		f.Add(data, data)
	}
	f.Fuzz(func(t *testing.T, data, patch string) {
		r := &appsv1.ControllerRevision{
			ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{v1alpha1.AnnotationUserTemplate: patch}},
			Data:       runtime.RawExtension{Raw: []byte(data)},
		}
		for _, read := range []func(*appsv1.ControllerRevision) (corev1.PodTemplateSpec, error){RecordedTemplate, UserTemplate} {
			if template, err := read(r); err == nil && !json.Valid([]byte(data)) {
				t.Errorf("%q is read as %+v", data, template)
			}
		}
	})
}
