package routing

import (
	"net/netip"
	"testing"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

// TestFreedAddress: the address of a Gateway that goes is not at once that of the next one that comes, and is its own
// again when it comes back.
func TestFreedAddress(t *testing.T) {
	c := New(Options{GatewayAddresses: []netip.Prefix{netip.MustParsePrefix("192.0.2.16/28")}})
	c.Set(&IngressDaemonSet{ObjectMeta: meta("ingress", "proxy"), HostNetwork: true})
	class, namespace := &gatewayv1.GatewayClass{ObjectMeta: meta("", "gw")}, gatewayv1.Namespace("ingress")
	class.Spec.ControllerName = ControllerName
	class.Spec.ParametersRef = &gatewayv1.ParametersReference{Group: "ingressdaemonsets.mumoshu.github.io", Kind: "IngressDaemonSet", Namespace: &namespace, Name: "proxy"}
	c.Set(class)
	addressOf := func(name string) string {
		g := &gatewayv1.Gateway{ObjectMeta: meta("shop", name)}
		g.Spec.GatewayClassName = "gw"
		g.Spec.Listeners = []gatewayv1.Listener{{Name: "http", Port: 80, Protocol: "HTTP"}}
		c.Set(g)
		c.Compile(noon)
		defer c.Delete(Ref{"Gateway", "shop", name})
		for _, r := range c.Resources(proxySet) {
			if r.Listener != nil {
				return r.Listener.Address
			}
		}
		return ""
	}
	seen := map[string]int{}
	first := addressOf("one")
	for _, name := range []string{"two", "three", "four", "five", "six", "seven"} {
		seen[addressOf(name)]++
	}
	if again := addressOf("one"); seen[""] > 0 || seen[first] > 1 || len(seen) < 3 || again != first {
		t.Errorf("one has %s, and when it comes back %s; others have %v", first, again, seen)
	}
}
