package main

import (
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"

	rollout "github.com/mumoshu/ingress-daemonset-controller/internal/rollout/controller"
	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/issuer"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"sigs.k8s.io/yaml"
)

// TestProxiesCheck says which flag to change.
func TestProxiesCheck(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*proxies)
		says   string
	}{
		"none":                {func(*proxies) {}, ""},
		"all":                 {func(o *proxies) { o.enabled, o.address, o.service = true, "[::1]:9443", "streams" }, ""},
		"by default":          {func(o *proxies) { o.enabled = true }, ""},
		"an address alone":    {func(o *proxies) { o.address = ":9443" }, "--proxies-bind-address, --proxies-service, --gateway-addresses and --default-certificate need --proxies"},
		"addresses alone":     {func(o *proxies) { o.gateways = prefixes{netip.MustParsePrefix("192.0.2.16/28")} }, "need --proxies"},
		"a Service alone":     {func(o *proxies) { o.service = "streams" }, "need --proxies"},
		"a certificate alone": {func(o *proxies) { o.certificate = secretName{Namespace: "ingress", Name: "default"} }, "need --proxies"},
		"no port":             {func(o *proxies) { o.enabled, o.address = true, "10.0.0.1" }, `--proxies-bind-address must be ADDRESS:PORT, or :PORT for all addresses, not "10.0.0.1"`},
		"any port":            {func(o *proxies) { o.enabled, o.address = true, ":0" }, `not ":0"`},
		"no such port":        {func(o *proxies) { o.enabled, o.address = true, ":65536" }, `not ":65536"`},
		"a port's name":       {func(o *proxies) { o.enabled, o.address = true, ":https" }, `not ":https"`},
		"no Service":          {func(o *proxies) { o.enabled, o.service = true, "" }, `--proxies-service must be the name of a Service, not ""`},
		"a Service's names":   {func(o *proxies) { o.enabled, o.service = true, "ns/streams" }, `not "ns/streams"`},
	} {
		o := proxies{address: streamsAddress, service: streamsService}
		c.change(&o)
		err := o.check()
		if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestNothingOfProxies: without the flag nothing of them is set up, and nothing more is kept.
func TestNothingOfProxies(t *testing.T) {
	if err := (&proxies{}).setUp(nil, ""); err != nil {
		t.Error(err)
	}
	for _, enabled := range []bool{false, true} {
		ingresses, selected := false, false
		for object, kept := range (&proxies{enabled: enabled}).keep(rollout.CacheOptions(false)).ByObject {
			switch object.(type) {
			case *networkingv1.Ingress:
				ingresses = true
			case *discoveryv1.EndpointSlice:
				selected = selected || kept.Label != nil
			}
		}
		if ingresses != enabled || selected == enabled {
			t.Errorf("where it is %v that proxies are told, Ingresses are kept: %v, and EndpointSlices are selected: %v", enabled, ingresses, selected)
		}
	}
}

// TestManifestsOfProxies: what is installed is what the flags are by default.
func TestManifestsOfProxies(t *testing.T) {
	read := func(file string, into any) string {
		t.Helper()
		content, err := os.ReadFile("../../config/proxies/" + file)
		if err == nil && into != nil {
			err = yaml.UnmarshalStrict(content, into)
		}
		if err != nil {
			t.Fatal(err)
		}
		return string(content)
	}
	var service corev1.Service
	var policy networkingv1.NetworkPolicy
	read("service.yaml", &service)
	read("network.yaml", &policy)
	ports := []string{fmt.Sprint(":", service.Spec.Ports[0].Port), ":" + policy.Spec.Ingress[0].Ports[0].Port.String()}
	if service.Name != streamsService || !slices.Equal(ports, []string{streamsAddress, streamsAddress}) {
		t.Errorf("Service %s and the NetworkPolicy have the ports %v", service.Name, ports)
	}
	if rights := read("rbac.yaml", nil); strings.Count(rights, "resourceNames: ["+issuer.Name+"]") != 2 {
		t.Errorf("the rights are not to %s:\n%s", issuer.Name, rights)
	}
}

// TestGatewayAddresses: what is no CIDR is refused with what to change.
func TestGatewayAddresses(t *testing.T) {
	for text, want := range map[string]string{
		"192.0.2.16/28": "192.0.2.16/28", "192.0.2.16/28, 2001:db8::/64": "192.0.2.16/28,2001:db8::/64", "192.0.2.1/32": "192.0.2.1/32",
		"192.0.2.1": "no CIDR", "": "no CIDR", "192.0.2.17/28": "did you mean 192.0.2.16/28?", "192.0.2.16/28,": "no CIDR",
	} {
		var p prefixes
		got := ""
		if err := p.Set(text); err != nil {
			got = err.Error()
		} else {
			got = p.String()
		}
		if !strings.Contains(got, want) {
			t.Errorf("%q: %s", text, got)
		}
	}
}

// TestDefaultCertificate: it is a Secret with its namespace, and nothing else.
func TestDefaultCertificate(t *testing.T) {
	for text, want := range map[string]string{
		"ingress/wild.example.com": "ingress/wild.example.com",
		"default":                  "is not NAMESPACE/NAME", "ingress/": "is not NAMESPACE/NAME", "/default": "is not NAMESPACE/NAME", "ingress/a/b": "is not NAMESPACE/NAME", "": "is not NAMESPACE/NAME",
	} {
		var n secretName
		got := n.String()
		if got != "" {
			t.Errorf("without a value it is %q", got)
		}
		if err := n.Set(text); err != nil {
			got = err.Error()
		} else {
			got = n.String()
		}
		if !strings.Contains(got, want) {
			t.Errorf("%q: %s", text, got)
		}
	}
}
