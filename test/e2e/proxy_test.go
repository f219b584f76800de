package e2e

import (
	"errors"
	"testing"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/test/harness"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// TestProxy rolls out the proxy that comes with the controller. In the control the load balancer asks what
// an Ingress serves, and proxies take no time to end: in their own time they lose so few requests that a control may lose
// none.
func TestProxy(t *testing.T) {
	scenario{
		example: "proxy.yaml", others: answerAll, next: endAtOnce,
		told: hostTold, untold: harness.Ports{Traffic: 80, Check: 80},
	}.run(t)
}

func endAtOnce(set *v1alpha1.IngressDaemonSet) {
	proxy := &set.Spec.Template.Spec.Containers[0]
	proxy.Args = append(proxy.Args, "--drain-delay=0", "--drain-idle=0", "--drain-timeout=0")
}

// ownClass has a class of the namespace's name lead to the namespace's own proxies.
func ownClass(m harness.Manifest, namespace string) error {
	class, ingress := m.Kind("IngressClass"), m.Kind("Ingress")
	class.SetName(namespace)
	err := unstructured.SetNestedField(class.Object, namespace, "spec", "parameters", "namespace")
	if ingress != nil {
		err = errors.Join(err, unstructured.SetNestedField(ingress.Object, namespace, "spec", "ingressClassName"))
	}
	return err
}

// answerAll has the Ingress of a class of the namespace's own answer any host as the client wants to be answered.
func answerAll(m harness.Manifest, namespace string) error {
	ingress, backend := m.Kind("Ingress").Object, m.Kind("Deployment").Object
	rules, _, err := unstructured.NestedSlice(ingress, "spec", "rules")
	if err == nil {
		unstructured.RemoveNestedField(rules[0].(map[string]any), "host")
	}
	pods, _, err2 := unstructured.NestedSlice(backend, "spec", "template", "spec", "containers")
	if err2 == nil {
		pods[0].(map[string]any)["command"] = []any{"caddy", "respond", "--listen", ":8080", "ok\n"}
	}
	return errors.Join(err, err2, ownClass(m, namespace),
		unstructured.SetNestedSlice(ingress, rules, "spec", "rules"),
		unstructured.SetNestedSlice(backend, pods, "spec", "template", "spec", "containers"))
}
