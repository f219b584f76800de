package routing

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

// TestTooManyEntries: HTTPRoutes whose listeners, hostnames and matches come to more than there is room for in a proxy
// are refused alone, the youngest of their namespace first, and say what to change; others have theirs as before.
func TestTooManyEntries(t *testing.T) {
	c := New(Options{})
	c.Set(&IngressDaemonSet{ObjectMeta: meta("ingress", "proxy"), HostNetwork: true})
	class := &gatewayv1.GatewayClass{ObjectMeta: meta("", "gw")}
	namespace, from := gatewayv1.Namespace("ingress"), gatewayv1.NamespacesFromAll
	class.Spec.ControllerName = ControllerName
	class.Spec.ParametersRef = &gatewayv1.ParametersReference{Group: "ingressdaemonsets.mumoshu.github.io", Kind: "IngressDaemonSet", Namespace: &namespace, Name: "proxy"}
	c.Set(class)
	g := &gatewayv1.Gateway{ObjectMeta: meta("infra", "entry")}
	g.Spec.GatewayClassName = "gw"
	for i := range 4 {
		g.Spec.Listeners = append(g.Spec.Listeners, gatewayv1.Listener{
			Name: gatewayv1.SectionName(fmt.Sprint("l", i)), Port: gatewayv1.PortNumber(8000 + i), Protocol: "HTTP",
			AllowedRoutes: &gatewayv1.AllowedRoutes{Namespaces: &gatewayv1.RouteNamespaces{From: &from}},
		})
	}
	c.Set(g)
	// 4 listeners, 16 hostnames and 64 matches are 4,096 entries, of which 12 routes have 49,152.
	route := func(namespace string, i int) *gatewayv1.HTTPRoute {
		r := &gatewayv1.HTTPRoute{ObjectMeta: meta(namespace, fmt.Sprintf("r%02d", i))}
		r.CreationTimestamp = metav1.NewTime(r.CreationTimestamp.AddDate(0, 0, 20-i))
		of := gatewayv1.Namespace("infra")
		r.Spec.ParentRefs = []gatewayv1.ParentReference{{Namespace: &of, Name: "entry"}}
		for h := range 16 {
			r.Spec.Hostnames = append(r.Spec.Hostnames, gatewayv1.Hostname(fmt.Sprintf("h%d.%s.example", h, namespace)))
		}
		rule := gatewayv1.HTTPRouteRule{}
		for m := range 64 {
			path := fmt.Sprint("/", m)
			rule.Matches = append(rule.Matches, gatewayv1.HTTPRouteMatch{Path: &gatewayv1.HTTPPathMatch{Value: &path}})
		}
		r.Spec.Rules = []gatewayv1.HTTPRouteRule{rule}
		return r
	}
	refused := func() string {
		var out []string
		for _, s := range statusesOf(c) {
			if s.HTTPRoute == nil {
				continue
			}
			if accepted := s.HTTPRoute.Parents[0].Conditions[0]; accepted.Status != "True" {
				out = append(out, s.Object.String()+" "+accepted.Reason+" "+accepted.Message)
			}
		}
		return strings.Join(out, "\n")
	}
	told := func() (n int) {
		for _, r := range c.Resources(proxySet) {
			if r.Route != nil {
				n += len(r.Route.Listeners) * len(r.Route.Hostnames) * len(r.Route.Matches)
			}
		}
		return n
	}
	for i := range 12 {
		c.Set(route("many", i))
	}
	c.Set(route("few", 0))
	c.Compile(noon)
	if got := refused(); got != "" || told() != 13*4096 {
		t.Errorf("with room for all, %d entries are told, and refused is %q", told(), got)
	}
	small := route("many", 13)
	small.Spec.Hostnames, small.Spec.Rules[0].Matches = small.Spec.Hostnames[:1], nil
	c.Set(small)
	c.Set(route("many", 12))
	c.Compile(noon)
	got := refused()
	if !strings.HasPrefix(got, "HTTPRoute many/r00 UnsupportedValue its matches for 16 hostnames at 4 listeners are 4096 entries") || strings.Contains(got, "\n") || told() != 13*4096+4 {
		t.Errorf("without room for all, %d entries are told, and refused is %q", told(), got)
	}
	var attached []int32
	for _, s := range statusesOf(c) {
		if s.Gateway != nil {
			for _, l := range s.Gateway.Listeners {
				attached = append(attached, l.AttachedRoutes)
			}
		}
	}
	if fmt.Sprint(attached) != "[14 14 14 14]" {
		t.Errorf("attached are %v", attached)
	}
	c.Delete(Ref{"HTTPRoute", "many", "r05"})
	c.Compile(noon)
	if got := refused(); got != "" || told() != 13*4096+4 {
		t.Errorf("with room again, %d entries are told, and refused is %q", told(), got)
	}
}
