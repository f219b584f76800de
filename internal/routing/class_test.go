package routing

import (
	"maps"
	"testing"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/types"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
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
	gateways := func(controller gatewayv1.GatewayController, name string, namespace gatewayv1.Namespace, kind gatewayv1.Kind) gatewayv1.GatewayClass {
		return gatewayv1.GatewayClass{Spec: gatewayv1.GatewayClassSpec{ControllerName: controller, ParametersRef: &gatewayv1.ParametersReference{
			Group: gatewayv1.Group(v1alpha1.Kind.Group), Kind: kind, Name: name, Namespace: &namespace,
		}}}
	}
	ours := gatewayv1.Kind(v1alpha1.Kind.Kind)
	bare := networkingv1.IngressClass{Spec: networkingv1.IngressClassSpec{Controller: ControllerName}}
	cluster := networkingv1.IngressClassParametersReferenceScopeCluster
	got := SetsOf([]networkingv1.IngressClass{
		class(ControllerName, "a", nil), class(ControllerName, "b", nil), class(ControllerName, "b", nil), bare,
		class("k8s.io/ingress-nginx", "other", nil),
		class(ControllerName, "kind", func(p *networkingv1.IngressClassParametersReference) { p.Kind = "DaemonSet" }),
		class(ControllerName, "group", func(p *networkingv1.IngressClassParametersReference) { p.APIGroup = nil }),
		class(ControllerName, "scope", func(p *networkingv1.IngressClassParametersReference) { p.Scope = &cluster }),
		class(ControllerName, "namespace", func(p *networkingv1.IngressClassParametersReference) { p.Namespace = nil }),
	}, []gatewayv1.GatewayClass{
		gateways(ControllerName, "b", "edge", ours), gateways(ControllerName, "c", "edge", ours),
		gateways("example.com/other", "other", "edge", ours), gateways(ControllerName, "kind", "edge", "DaemonSet"),
		gateways(ControllerName, "namespace", "", ours), {Spec: gatewayv1.GatewayClassSpec{ControllerName: ControllerName}},
	})
	want := map[types.NamespacedName]bool{
		{Namespace: "edge", Name: "a"}: true, {Namespace: "edge", Name: "b"}: true, {Namespace: "edge", Name: "c"}: true,
	}
	if !maps.Equal(got, want) {
		t.Errorf("they are %v, want %v", got, want)
	}
}
