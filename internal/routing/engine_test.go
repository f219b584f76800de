package routing

import (
	"fmt"
	"maps"
	"testing"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestCompiledAgain: a change has a few units compiled again, those that depend on it, however many there are.
func TestCompiledAgain(t *testing.T) {
	m := newModel(Options{})
	m.set(&IngressDaemonSet{ObjectMeta: meta("ingress", "proxy")})
	m.set(classFor("ids", "proxy"))
	const many = 100
	for i := range many {
		name := fmt.Sprint("app-", i)
		m.set(serviceAt(name, name, 80))
		m.set(sliceAt(name, "192.0.2.1"))
		m.set(ingressFor(name, name, "ids", name+".example.com", name))
	}
	m.compile(noon)
	for what, change := range map[string]metav1.Object{
		"endpoints":     sliceAt("app-7", "192.0.2.2"),
		"a Service":     serviceAt("app-7", "app-7", 80, 81),
		"an Ingress":    ingressFor("app-7", "app-7", "ids", "other.example.com", "app-7"),
		"a new Ingress": ingressFor("app-7", "another", "ids", "another.example.com", "app-7"),
		"a Node":        nodeAt("one", "192.0.2.9"),
	} {
		before := maps.Clone(m.Compiler.outcomes)
		m.set(change)
		m.compile(noon)
		n := 0
		for k, outcome := range m.Compiler.outcomes {
			if before[k] != outcome {
				n++
			}
		}
		if all := len(m.Compiler.outcomes); n > many/5 || all < 3*many {
			t.Errorf("%s: %d of %d units are compiled again", what, n, all)
		}
	}
}

// sliceAt has an endpoint of the Service that is named as its namespace.
func sliceAt(namespace, address string) *discoveryv1.EndpointSlice {
	port := int32(8080)
	s := &discoveryv1.EndpointSlice{ObjectMeta: meta(namespace, namespace+"-1"), AddressType: discoveryv1.AddressTypeIPv4, Ports: []discoveryv1.EndpointPort{{Port: &port}}}
	s.Labels = map[string]string{discoveryv1.LabelServiceName: namespace}
	s.Endpoints = []discoveryv1.Endpoint{{Addresses: []string{address}}}
	return s
}

// TestEachUnitIsCompiled: each has a compiler.
func TestEachUnitIsCompiled(t *testing.T) {
	for f := defaultClassUnit; f < units; f++ {
		if compilers[f] == nil {
			t.Errorf("unit %d has none", f)
		}
	}
}
