package routing

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"
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
	c := &GatewayClass{ObjectMeta: meta("", "gw")}
	group, kind, namespace := "ingressdaemonsets.mumoshu.github.io", "IngressDaemonSet", "ingress"
	c.Spec.ControllerName = of(t, "controller", []string{ControllerName, ControllerName, "another"})
	c.Spec.ParametersRef = &GatewayReference{Group: &group, Kind: &kind, Namespace: &namespace, Name: of(t, "set", someSets)}
	return c
}

func aGrant(t *rapid.T) metav1.Object {
	g := &ReferenceGrant{ObjectMeta: someMeta(t)}
	for _, kind := range []string{"Gateway", "HTTPRoute"} {
		g.Spec.From = append(g.Spec.From, struct {
			Group     string `json:"group"`
			Kind      string `json:"kind"`
			Namespace string `json:"namespace"`
		}{gatewayGroup, kind, of(t, "from", someNamespaces)})
	}
	g.Spec.To = append(g.Spec.To, struct {
		Group string  `json:"group"`
		Kind  string  `json:"kind"`
		Name  *string `json:"name,omitempty"`
	}{Kind: of(t, "to", []string{"Secret", "Service"})})
	return g
}

func aGateway(t *rapid.T) metav1.Object {
	g := &Gateway{ObjectMeta: someMeta(t)}
	g.Spec.GatewayClassName = of(t, "class", []string{"gw", "gw", "nowhere"})
	for _, name := range []string{"l", "m"} {
		from, hostname := of(t, "from", []string{"All", "Same", "Selector"}), of(t, "hostname", []string{"", "one.example", "*.example"})
		l := GatewayListener{Name: name, Hostname: &hostname, Port: int32(of(t, "port", []int{80, 8080})), Protocol: of(t, "protocol", []string{"HTTP", "HTTP", "HTTPS", "TCP"})}
		l.AllowedRoutes = &GatewayRoutesMay{}
		l.AllowedRoutes.Namespaces = &struct {
			From     *string               `json:"from,omitempty"`
			Selector *metav1.LabelSelector `json:"selector,omitempty"`
		}{&from, &metav1.LabelSelector{MatchLabels: map[string]string{"team": "web"}}}
		if l.Protocol == "HTTPS" {
			namespace := of(t, "namespace", someNamespaces)
			l.TLS = &GatewayTLS{CertificateRefs: []GatewayReference{{Namespace: &namespace, Name: of(t, "secret", someNames)}}}
		}
		g.Spec.Listeners = append(g.Spec.Listeners, l)
	}
	return g
}

func aRoute(t *rapid.T) metav1.Object {
	r := &HTTPRoute{ObjectMeta: someMeta(t)}
	for range rapid.IntRange(0, 2).Draw(t, "parents") {
		namespace := of(t, "parent", someNamespaces)
		p := ParentReference{Namespace: &namespace, Name: of(t, "gateway", someNames)}
		if section := of(t, "section", []string{"", "l", "m", "n"}); section != "" {
			p.SectionName = &section
		}
		r.Spec.ParentRefs = append(r.Spec.ParentRefs, p)
	}
	r.Spec.Hostnames = of(t, "hostnames", [][]string{nil, {"one.example"}, {"two.example", "*.example"}, {"other"}})
	for range rapid.IntRange(0, 2).Draw(t, "rules") {
		namespace, port := of(t, "namespace", someNamespaces), int32(80)
		rule := HTTPRule{BackendRefs: []HTTPBackend{{GatewayReference: GatewayReference{Namespace: &namespace, Name: of(t, "service", someNames)}, Port: &port}}}
		if rapid.IntRange(0, 5).Draw(t, "mirrors") == 0 {
			rule.Filters = []HTTPFilter{{Type: "RequestMirror"}}
		}
		r.Spec.Rules = append(r.Spec.Rules, rule)
	}
	return r
}
