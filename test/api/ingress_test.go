package api

import (
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/mumoshu/ingress-daemonset-controller/internal/routing"
)

// TestRecordOfAddresses: the API server takes an annotation of an Ingress with its status, so that which entries
// are the controller's is never written without them (docs/adr/0032).
func TestRecordOfAddresses(t *testing.T) {
	ingresses := client.Resource(networkingv1.SchemeGroupVersion.WithResource("ingresses")).Namespace("default")
	in, err := ingresses.Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": map[string]any{"name": "recorded"},
		"spec": map[string]any{"defaultBackend": map[string]any{"service": map[string]any{"name": "web", "port": map[string]any{"number": int64(80)}}}},
	}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer ingresses.Delete(t.Context(), in.GetName(), metav1.DeleteOptions{})
	in.SetAnnotations(map[string]string{routing.AnnotationAddresses: "192.0.2.1"})
	in.Object["status"] = map[string]any{"loadBalancer": map[string]any{"ingress": []any{map[string]any{"ip": "192.0.2.1"}}}}
	if in, err = ingresses.UpdateStatus(t.Context(), in, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if got := in.GetAnnotations()[routing.AnnotationAddresses]; got != "192.0.2.1" {
		t.Errorf("with the status the record is %q", got)
	}
	in.SetAnnotations(nil)
	unstructured.RemoveNestedField(in.Object, "status", "loadBalancer", "ingress")
	if in, err = ingresses.UpdateStatus(t.Context(), in, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, left := in.GetAnnotations()[routing.AnnotationAddresses]; left {
		t.Error("it is left when its status has no entry")
	}
}
