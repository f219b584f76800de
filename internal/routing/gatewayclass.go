package routing

import (
	"cmp"
	"fmt"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"k8s.io/apimachinery/pkg/types"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

// Features are those of the Gateway API that are supported, by their names there and in their order.
var Features = []string{
	"Gateway", "GatewayAddressEmpty", "GatewayHTTPListenerIsolation", "GatewayHTTPSListenerDetectMisdirectedRequests",
	"GatewayPort8080", "GatewayStaticAddresses", "HTTPRoute", "HTTPRoute303RedirectStatusCode", "HTTPRoute307RedirectStatusCode", "HTTPRoute308RedirectStatusCode",
	"HTTPRouteBackendProtocolH2C", "HTTPRouteBackendProtocolWebSocket", "HTTPRouteBackendRequestHeaderModification",
	"HTTPRouteBackendTimeout", "HTTPRouteDestinationPortMatching", "HTTPRouteHostRewrite", "HTTPRouteMethodMatching",
	"HTTPRouteNamedRouteRule", "HTTPRouteParentRefPort", "HTTPRoutePathRedirect", "HTTPRoutePathRewrite",
	"HTTPRoutePortRedirect", "HTTPRouteQueryParamMatching", "HTTPRouteRequestTimeout",
	"HTTPRouteResponseHeaderModification", "HTTPRouteSchemeRedirect", "ReferenceGrant",
}

// gatewayClass is a GatewayClass of ours.
type gatewayClass struct {
	set     types.NamespacedName
	problem string
	// missing says that the IngressDaemonSet is not there. Its pods may be: what they serve stays.
	missing string
}

func (v *view) compileGatewayClass(k key) *outcome {
	object := read[gatewayv1.GatewayClass](v, gatewayClassObject, k.namespaced())
	if object == nil || object.Spec.ControllerName != ControllerName {
		return nil
	}
	c := &gatewayClass{}
	if c.set, c.problem = setReferredTo(object.Spec.ParametersRef); c.problem == "" {
		c.missing = v.missing(c.set)
	}
	accepted := Condition{"Accepted", "True", "Accepted", "served by IngressDaemonSet " + c.set.String()}
	if why := cmp.Or(c.problem, c.missing); why != "" {
		accepted = Condition{"Accepted", "False", "InvalidParameters", why}
	}
	return &outcome{value: c, status: &Status{
		Object: RefOf(object), Generation: object.Generation,
		GatewayClass: &GatewayClassStatus{Conditions: []Condition{accepted}, Features: Features},
	}}
}

// setReferredTo is the name of the IngressDaemonSet that parametersRef has, or what is wrong with it.
func setReferredTo(p *gatewayv1.ParametersReference) (set types.NamespacedName, problem string) {
	switch {
	case p == nil:
		return set, "spec.parametersRef must name an IngressDaemonSet, and is missing"
	case string(p.Group) != v1alpha1.Kind.Group || string(p.Kind) != v1alpha1.Kind.Kind:
		return set, fmt.Sprintf("spec.parametersRef names a %q of group %q: it must be an IngressDaemonSet of group %s", p.Kind, p.Group, v1alpha1.Kind.Group)
	case text(p.Namespace) == "":
		return set, "spec.parametersRef must have a namespace, because an IngressDaemonSet has one"
	}
	return types.NamespacedName{Namespace: string(*p.Namespace), Name: p.Name}, ""
}

// subject is who refers, or what is referred to.
type subject struct{ group, kind, namespace, name string }

// granted reports whether one object may refer to another: of its own namespace, or by a ReferenceGrant there.
func (v *view) granted(from, to subject) bool {
	if from.namespace == to.namespace {
		return true
	}
	for _, grant := range listed[gatewayv1.ReferenceGrant](v, key{fact: grantsIn, namespace: to.namespace}) {
		if grantsFrom(grant, from) && grantsTo(grant, to) {
			return true
		}
	}
	return false
}

func grantsFrom(g *gatewayv1.ReferenceGrant, s subject) bool {
	for _, f := range g.Spec.From {
		if string(f.Group) == s.group && string(f.Kind) == s.kind && string(f.Namespace) == s.namespace {
			return true
		}
	}
	return false
}

func grantsTo(g *gatewayv1.ReferenceGrant, s subject) bool {
	for _, t := range g.Spec.To {
		if string(t.Group) == s.group && string(t.Kind) == s.kind && (text(t.Name) == "" || text(t.Name) == s.name) {
			return true
		}
	}
	return false
}
