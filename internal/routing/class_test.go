package routing

import (
	"maps"
	"testing"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TestSetsOf: of classes those of ours count, and of these those whose parameters name an IngressDaemonSet.
func TestSetsOf(t *testing.T) {
	class := func(controller, name string, change func(*networkingv1.IngressClassParametersReference)) networkingv1.IngressClass {
		group, namespace, scope := v1alpha1.Kind.Group, "edge", networkingv1.IngressClassParametersReferenceScopeNamespace
		p := &networkingv1.IngressClassParametersReference{APIGroup: &group, Kind: v1alpha1.Kind.Kind, Namespace: &namespace, Name: name, Scope: &scope}
		if change != nil {
			change(p)
		}
		return networkingv1.IngressClass{Spec: networkingv1.IngressClassSpec{Controller: controller, Parameters: p}}
	}
	bare := networkingv1.IngressClass{Spec: networkingv1.IngressClassSpec{Controller: ControllerName}}
	cluster := networkingv1.IngressClassParametersReferenceScopeCluster
	got := SetsOf([]networkingv1.IngressClass{
		class(ControllerName, "a", nil), class(ControllerName, "b", nil), class(ControllerName, "b", nil), bare,
		class("k8s.io/ingress-nginx", "other", nil),
		class(ControllerName, "kind", func(p *networkingv1.IngressClassParametersReference) { p.Kind = "DaemonSet" }),
		class(ControllerName, "group", func(p *networkingv1.IngressClassParametersReference) { p.APIGroup = nil }),
		class(ControllerName, "scope", func(p *networkingv1.IngressClassParametersReference) { p.Scope = &cluster }),
		class(ControllerName, "namespace", func(p *networkingv1.IngressClassParametersReference) { p.Namespace = nil }),
	})
	want := map[types.NamespacedName]bool{{Namespace: "edge", Name: "a"}: true, {Namespace: "edge", Name: "b"}: true}
	if !maps.Equal(got, want) {
		t.Errorf("they are %v, want %v", got, want)
	}
}
