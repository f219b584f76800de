package routing

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

// aGatewayObject is a random object of the Gateway API, or a namespace.
func aGatewayObject(t *rapid.T) metav1.Object {
	switch rapid.IntRange(0, 8).Draw(t, "kind") {
	case 0:
		return aGatewayClass(t)
	case 1:
		return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: of(t, "namespace", someNamespaces), Labels: map[string]string{"team": of(t, "team", []string{"web", "other"})}}}
	case 2:
		return aGrant(t)
	case 3, 4:
		return aGateway(t)
	}
	return aRoute(t)
}

func aGatewayClass(t *rapid.T) metav1.Object {
	c := &gatewayv1.GatewayClass{ObjectMeta: meta("", of(t, "class", []string{"gw", "gv"}))}
	namespace := gatewayv1.Namespace("ingress")
	c.Spec.ControllerName = of(t, "controller", []gatewayv1.GatewayController{ControllerName, ControllerName, "another"})
	c.Spec.ParametersRef = &gatewayv1.ParametersReference{
		Group: "ingressdaemonsets.mumoshu.github.io", Kind: "IngressDaemonSet", Namespace: &namespace, Name: of(t, "set", someSets),
	}
	return c
}

func aGrant(t *rapid.T) metav1.Object {
	g := &gatewayv1.ReferenceGrant{ObjectMeta: someMeta(t)}
	for _, kind := range []gatewayv1.Kind{"Gateway", "HTTPRoute"} {
		from := gatewayv1.Namespace(of(t, "from", someNamespaces))
		g.Spec.From = append(g.Spec.From, gatewayv1.ReferenceGrantFrom{Group: gatewayGroup, Kind: kind, Namespace: from})
	}
	g.Spec.To = append(g.Spec.To, gatewayv1.ReferenceGrantTo{Kind: of(t, "to", []gatewayv1.Kind{"Secret", "Service"})})
	return g
}

func aGateway(t *rapid.T) metav1.Object {
	g := &gatewayv1.Gateway{ObjectMeta: someMeta(t)}
	g.Spec.GatewayClassName = of(t, "class", []gatewayv1.ObjectName{"gw", "gv", "nowhere"})
	if rapid.IntRange(0, 2).Draw(t, "addressed") == 0 {
		kind := gatewayv1.AddressType(of(t, "kind of address", []string{"IPAddress", "IPAddress", "Hostname"}))
		value := of(t, "address", []string{"198.51.100.1", "198.51.100.2", "203.0.113.1", ""})
		g.Spec.Addresses = []gatewayv1.GatewaySpecAddress{{Type: &kind, Value: value}}
	}
	if rapid.IntRange(0, 2).Draw(t, "kept") == 0 {
		g.Status.Addresses = []gatewayv1.GatewayStatusAddress{{Value: of(t, "kept address", []string{"198.51.100.1", "198.51.100.3", "192.0.2.1"})}}
	}
	for _, name := range []gatewayv1.SectionName{"l", "m"} {
		from := of(t, "from", []gatewayv1.FromNamespaces{"All", "Same", "Selector"})
		hostname := of(t, "hostname", []gatewayv1.Hostname{"", "one.example", "*.example"})
		l := gatewayv1.Listener{Name: name, Hostname: &hostname, Port: of(t, "port", []int32{80, 8080})}
		l.Protocol = of(t, "protocol", []gatewayv1.ProtocolType{"HTTP", "HTTP", "HTTPS", "TCP"})
		l.AllowedRoutes = &gatewayv1.AllowedRoutes{Namespaces: &gatewayv1.RouteNamespaces{
			From: &from, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"team": "web"}},
		}}
		if l.Protocol == "HTTPS" {
			namespace, name := gatewayv1.Namespace(of(t, "namespace", someNamespaces)), gatewayv1.ObjectName(of(t, "secret", someNames))
			l.TLS = &gatewayv1.ListenerTLSConfig{CertificateRefs: []gatewayv1.SecretObjectReference{{Namespace: &namespace, Name: name}}}
		}
		g.Spec.Listeners = append(g.Spec.Listeners, l)
	}
	return g
}

func aRoute(t *rapid.T) metav1.Object {
	r := &gatewayv1.HTTPRoute{ObjectMeta: someMeta(t)}
	if rapid.IntRange(0, 3).Draw(t, "said") == 0 {
		r.Status.Parents = []gatewayv1.RouteParentStatus{{ControllerName: ControllerName}}
	}
	for range rapid.IntRange(0, 2).Draw(t, "parents") {
		namespace := gatewayv1.Namespace(of(t, "parent", someNamespaces))
		p := gatewayv1.ParentReference{Namespace: &namespace, Name: gatewayv1.ObjectName(of(t, "gateway", someNames))}
		if section := of(t, "section", []gatewayv1.SectionName{"", "l", "m", "n"}); section != "" {
			p.SectionName = &section
		}
		r.Spec.ParentRefs = append(r.Spec.ParentRefs, p)
	}
	r.Spec.Hostnames = of(t, "hostnames", [][]gatewayv1.Hostname{nil, {"one.example"}, {"two.example", "*.example"}, {"other"}})
	for range rapid.IntRange(0, 2).Draw(t, "rules") {
		namespace, port := gatewayv1.Namespace(of(t, "namespace", someNamespaces)), int32(80)
		ref := gatewayv1.HTTPBackendRef{}
		ref.Namespace, ref.Name, ref.Port = &namespace, gatewayv1.ObjectName(of(t, "service", someNames)), &port
		rule := gatewayv1.HTTPRouteRule{BackendRefs: []gatewayv1.HTTPBackendRef{ref}}
		if rapid.IntRange(0, 5).Draw(t, "mirrors") == 0 {
			rule.Filters = []gatewayv1.HTTPRouteFilter{{Type: "RequestMirror"}}
		}
		r.Spec.Rules = append(r.Spec.Rules, rule)
	}
	return r
}
