package controller

import (
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestKeep: all of each kind is kept that is watched, each once, and other kinds as before.
func TestKeep(t *testing.T) {
	ours := cache.ByObject{Label: labels.Everything()}
	o := cache.Options{ByObject: map[client.Object]cache.ByObject{&discoveryv1.EndpointSlice{}: ours, &corev1.Pod{}: ours}}
	Keep(&o)
	got := map[string]bool{}
	for object, kept := range o.ByObject {
		kind := reflect.TypeOf(object).Elem().Name()
		if _, twice := got[kind]; twice {
			t.Errorf("%s is there twice", kind)
		}
		got[kind] = kept.Label != nil
	}
	want := map[string]bool{"EndpointSlice": false, "Ingress": false, "IngressClass": false, "Namespace": false, "Pod": true}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("what is kept, and whether it is selected (-want +got)\n%s", diff)
	}
}

// TestTransformed: what is read is there afterwards, also where an object comes again.
func TestTransformed(t *testing.T) {
	zone := "a"
	slice := func(labels map[string]string) *discoveryv1.EndpointSlice {
		return &discoveryv1.EndpointSlice{
			ObjectMeta: metav1.ObjectMeta{
				Name: "web-1", Labels: labels, Annotations: map[string]string{"a": "b"}, ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "m"}},
			},
			Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"10.0.0.1"}, Zone: &zone, Hints: &discoveryv1.EndpointHints{}}},
		}
	}
	service := map[string]string{discoveryv1.LabelServiceName: "web"}
	strangers := slice(service)
	strangers.ManagedFields, strangers.Annotations, strangers.Endpoints[0].Hints = nil, nil, nil
	own := slice(map[string]string{v1alpha1.LabelName: "web"})
	own.ManagedFields = nil
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: map[string]string{"team": "a"}}}
	full := namespace.DeepCopy()
	full.Annotations, full.Spec.Finalizers, full.Status.Phase = map[string]string{"a": "b"}, []corev1.FinalizerName{"kubernetes"}, corev1.NamespaceActive
	for _, c := range []struct {
		transform func(any) (any, error)
		from      any
		want      any
	}{
		{transformSlice, slice(service), strangers},
		{transformSlice, slice(own.Labels), own},
		{transformNamespace, full, namespace},
	} {
		for range 2 {
			got, err := c.transform(c.from)
			if diff := cmp.Diff(c.want, got); err != nil || diff != "" {
				t.Errorf("%v (-want +got)\n%s", err, diff)
			}
		}
	}
}
