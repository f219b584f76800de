package e2e

import (
	"errors"
	"testing"

	"github.com/mumoshu/ingress-daemonset-controller/test/harness"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// TestProxy rolls out the proxy that comes with the controller. In the control the load balancer asks what
// an Ingress serves.
func TestProxy(t *testing.T) {
	scenario{
		example: "proxy.yaml", others: answerAll,
		told: hostTold, untold: harness.Ports{Traffic: 80, Check: 80},
	}.run(t)
}

// answerAll has a class of the namespace's name lead to the namespace's own proxies, and the Ingress answer any
// host as the client wants to be answered.
func answerAll(m harness.Manifest, namespace string) error {
	m.Kind("IngressClass").SetName(namespace)
	class, ingress, backend := m.Kind("IngressClass").Object, m.Kind("Ingress").Object, m.Kind("Deployment").Object
	rules, _, err := unstructured.NestedSlice(ingress, "spec", "rules")
	if err == nil {
		unstructured.RemoveNestedField(rules[0].(map[string]any), "host")
	}
	pods, _, err2 := unstructured.NestedSlice(backend, "spec", "template", "spec", "containers")
	if err2 == nil {
		pods[0].(map[string]any)["command"] = []any{"caddy", "respond", "--listen", ":8080", "ok\n"}
	}
	return errors.Join(err, err2,
		unstructured.SetNestedField(class, namespace, "spec", "parameters", "namespace"),
		unstructured.SetNestedField(ingress, namespace, "spec", "ingressClassName"),
		unstructured.SetNestedSlice(ingress, rules, "spec", "rules"),
		unstructured.SetNestedSlice(backend, pods, "spec", "template", "spec", "containers"))
}
