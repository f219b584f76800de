package routing

import (
	"strings"
	"testing"

	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/wire"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

func TestIntersecting(t *testing.T) {
	for _, test := range []struct {
		route, listener string
		want            bool
	}{
		{"a.example", "", true}, {"a.example", "a.example", true}, {"A.example", "a.example", true}, {"a.example", "b.example", false},
		{"a.example", "*.example", true}, {"b.a.example", "*.example", true}, {"example", "*.example", false}, {"*.example", "a.example", true},
		{"*.example", "*.example", true}, {"*.a.example", "*.example", true}, {"*.example", "*.a.example", true}, {"*.other", "*.example", false}, {"badexample", "*.example", false},
	} {
		if got := len(intersecting([]gatewayv1.Hostname{gatewayv1.Hostname(test.route)}, test.listener)) > 0; got != test.want {
			t.Errorf("%q at %q: %t", test.route, test.listener, got)
		}
	}
}

// TestGranted: a grant is for those that it names, and for no others.
func TestGranted(t *testing.T) {
	c := New(Options{})
	g := &gatewayv1.ReferenceGrant{ObjectMeta: meta("shop", "grant")}
	brie := gatewayv1.ObjectName("brie")
	g.Spec.From = []gatewayv1.ReferenceGrantFrom{{Group: gatewayGroup, Kind: "HTTPRoute", Namespace: "default"}}
	g.Spec.To = []gatewayv1.ReferenceGrantTo{{Kind: "Service", Name: &brie}}
	c.Set(g)
	for _, test := range []struct {
		from, to subject
		want     bool
	}{
		{subject{gatewayGroup, "HTTPRoute", "default", ""}, subject{"", "Service", "shop", "brie"}, true},
		{subject{gatewayGroup, "HTTPRoute", "shop", ""}, subject{"", "Service", "shop", "other"}, true},
		{subject{gatewayGroup, "HTTPRoute", "other", ""}, subject{"", "Service", "shop", "brie"}, false},
		{subject{gatewayGroup, "Gateway", "default", ""}, subject{"", "Service", "shop", "brie"}, false},
		{subject{"", "HTTPRoute", "default", ""}, subject{"", "Service", "shop", "brie"}, false},
		{subject{gatewayGroup, "HTTPRoute", "default", ""}, subject{"", "Service", "shop", "other"}, false},
		{subject{gatewayGroup, "HTTPRoute", "default", ""}, subject{"", "Secret", "shop", "brie"}, false},
		{subject{gatewayGroup, "HTTPRoute", "default", ""}, subject{"", "Service", "elsewhere", "brie"}, false},
	} {
		v := &view{c: c, reads: map[key]bool{}}
		if got := v.granted(test.from, test.to); got != test.want {
			t.Errorf("%+v to %+v: %t", test.from, test.to, got)
		}
	}
}

func TestDuration(t *testing.T) {
	for _, test := range []struct {
		text gatewayv1.Duration
		want uint32
		ok   bool
	}{
		{"0s", 0, true}, {"10s", 10_000, true}, {"1h2m3s4ms", 3_723_004, true}, {"500ms", 500, true}, {"1.5s", 0, false}, {"-1s", 0, false}, {"", 0, false},
		{"1", 0, false}, {"100000s", 0, false}, {"1us", 0, false}, {"1h1h1h1h1h", 0, false}, {"99999h", 0, false},
	} {
		if got, err := readDuration("request", &test.text); got != test.want || (err == nil) != test.ok {
			t.Errorf("%q is %d, %v", test.text, got, err)
		}
	}
}

func TestExpressions(t *testing.T) {
	for _, test := range []struct{ expression, want string }{
		{"a.*", ""}, {"a(?=b)", "at byte 1"}, {"ab[z-a]", "at byte 3"}, {strings.Repeat("a", wire.MaxExpression), ""}, {strings.Repeat("a", wire.MaxExpression+1), "1025 bytes, more than 1024"}, {"a{2000}", "at byte 1"},
		// Proxies refuse it.
		{"[a-z]{1000}b{1000}c{1000}", "repeats too much"},
	} {
		err := checkExpression(test.expression)
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%.20q: %v, not %q", test.expression, err, test.want)
		}
	}
}
