package objects

import (
	"strings"
	"testing"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"pgregory.net/rapid"
)

// subdomain draws a DNS subdomain of up to a number of characters, with dots and dashes
// wherever a name may be cut.
func subdomain(longest int) *rapid.Generator[string] {
	labels := rapid.SliceOfN(rapid.StringMatching(`[a-z0-9](-{0,2}[a-z0-9]){0,2}`), 1, longest/2)
	return rapid.Custom(func(t *rapid.T) string {
		name := strings.Join(labels.Draw(t, "labels"), ".")
		return strings.TrimRight(name[:min(len(name), longest)], ".-")
	})
}

// longSubdomain draws one whose name is cut wherever it is put behind another.
func longSubdomain() *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		name := strings.Repeat("a", rapid.IntRange(200, 240).Draw(t, "whole")) + "." + subdomain(12).Draw(t, "rest") + ".example"
		return strings.TrimRight(name[:min(len(name), 253)], ".-")
	})
}

// TestNamesAreValid holds the names and labels of all objects against the rules of the
// API server, for every name that an IngressDaemonSet, a Node and a Service may have.
func TestNamesAreValid(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		set := proxy()
		set.Name = subdomain(52).Draw(t, "name")
		node := rapid.OneOf(subdomain(253), longSubdomain()).Draw(t, "node")
		svc := &corev1.Service{}
		svc.Name = rapid.StringMatching(`[a-z]([-a-z0-9]{0,61}[a-z0-9])?`).Draw(t, "service")
		port := rapid.Int32Range(1, 65535).Draw(t, "port")
		svc.Spec.Ports = []corev1.ServicePort{{Port: port}}
		published := Publication{Set: set, Service: svc}

		revision, err := ControllerRevision(set, Revision(set.Spec.Template), 1)
		if err != nil {
			t.Fatal(err)
		}
		named := map[string]metav1.Object{
			"ControllerRevision": revision,
			"DaemonSet":          Checker(set, port, "image"),
			"ServiceAccount":     CheckerServiceAccount(set),
			"RoleBinding":        CheckerRoleBinding(set),
			"EndpointSlice":      published.EndpointSlices(node, []*corev1.Pod{withAddress("10.0.0.1")}, false)[0],
		}
		for kind, taken := range map[string]bool{"Deployment": false, "Deployment beside another": true} {
			named[kind] = Deployment(set, node, DeploymentName(set, node, taken), pods(set))
		}
		for kind, object := range named {
			faults := validation.IsDNS1123Subdomain(object.GetName())
			for key, value := range object.GetLabels() {
				faults = append(append(faults, validation.IsQualifiedName(key)...), validation.IsValidLabelValue(value)...)
			}
			for key := range object.GetAnnotations() {
				faults = append(faults, validation.IsQualifiedName(key)...)
			}
			if len(faults) > 0 {
				t.Errorf("%s %s, labels %v: %s", kind, object.GetName(), object.GetLabels(), strings.Join(faults, "; "))
			}
		}
		if gate := v1alpha1.ReadinessGate(node); len(validation.IsQualifiedName(gate)) > 0 {
			t.Errorf("a readiness gate %s", gate)
		}
	})
}

func withAddress(ip string) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "pod"}}
	pod.Status.PodIPs = []corev1.PodIP{{IP: ip}}
	return pod
}
