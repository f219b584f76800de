package objects

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"
)

// hooked is proxy with a drain hook, and a container that has none of its own.
func hooked(port int32) *v1alpha1.IngressDaemonSet {
	set := proxy()
	set.Spec.HealthCheckNodePorts, set.Spec.DrainHook = []int32{port}, &v1alpha1.DrainHook{}
	set.Spec.Template.Spec.Containers = append(set.Spec.Template.Spec.Containers, corev1.Container{Name: "log", Image: "log"})
	return set
}

// TestRevisionWithDrainHook pins the hashes: were one another in a new version of the
// controller, its installation would restart every such proxy with a drain hook. The first
// is not that of v0.1.0, whose hook no kubelet sent for pods of the host network.
func TestRevisionWithDrainHook(t *testing.T) {
	for hostNetwork, want := range map[bool]string{true: "8557805968", false: "9ed1e98bdb"} {
		set := hooked(10080)
		set.Spec.Template.Spec.HostNetwork = hostNetwork
		if got := Revision(Template(set)); got != want {
			t.Errorf("hostNetwork %t: got %s, want %s", hostNetwork, got, want)
		}
	}
}

// TestUserTemplate gives back what the user wrote, without what was added to it then.
func TestUserTemplate(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		set := drawn(t, true)
		cr, err := ControllerRevision(set, Revision(Template(set)), 1)
		if err != nil {
			t.Fatal(err)
		}
		own, err := UserTemplate(cr)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := Revision(own), Revision(set.Spec.Template); got != want {
			t.Fatalf("another template came back: %s", cmp.Diff(set.Spec.Template, own))
		}
		if recorded, err := RecordedTemplate(cr); err != nil || Revision(recorded) != Revision(Template(set)) {
			t.Fatalf("pods would be made from another template: %v, %s", err, cmp.Diff(Template(set), recorded))
		}
	})
}

// TestUserTemplateOfAnOlderRecord knows the drain hook by its form, whatever its port.
func TestUserTemplateOfAnOlderRecord(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		set := drawn(t, false)
		set.Spec.Selector = nil
		cr, err := ControllerRevision(set, Revision(Template(set)), 1)
		if err != nil {
			t.Fatal(err)
		}
		cr.Annotations = nil
		if set.Spec.Template.Spec.HostNetwork {
			cr.Data.Raw = bytes.ReplaceAll(cr.Data.Raw, []byte(`,"host":"127.0.0.1"`), nil)
		}
		own, err := UserTemplate(cr)
		if err != nil {
			t.Fatal(err)
		}
		if set.Spec.DrainHook != nil {
			delete(set.Spec.Template.Annotations, v1alpha1.AnnotationDaemonPod)
			delete(own.Annotations, v1alpha1.AnnotationDaemonPod)
		}
		if got, want := Revision(own), Revision(set.Spec.Template); got != want {
			t.Fatalf("another template came back: %s", cmp.Diff(set.Spec.Template, own))
		}
	})
}

// drawn is an IngressDaemonSet of which the user, the drain hook and the selector may
// each have set the same fields; with lookalikes, the user to the very values.
func drawn(t *rapid.T, lookalikes bool) *v1alpha1.IngressDaemonSet {
	set := proxy()
	own := func(what string) bool { return rapid.Bool().Draw(t, what) }
	port := rapid.Int32Range(10080, 10082)
	set.Spec.HealthCheckNodePorts = []int32{port.Draw(t, "port")}
	if own("drainHook") {
		set.Spec.DrainHook = &v1alpha1.DrainHook{}
	}
	if own("selector") {
		set.Spec.Selector = &v1alpha1.Selector{MatchLabels: map[string]string{"app": rapid.SampledFrom([]string{"proxy", "other"}).Draw(t, "app"), "tier": "edge"}}
	}
	template := &set.Spec.Template
	template.Spec.HostNetwork = own("hostNetwork")
	if own("no labels") {
		template.Labels = nil
	}
	if own("annotation") {
		template.Annotations[v1alpha1.AnnotationDaemonPod] = rapid.SampledFrom([]string{"true", "false"}).Draw(t, "value")
	}
	if own("no annotations") {
		template.Annotations = nil
	}
	for _, name := range []string{"log", "metrics"}[:rapid.IntRange(0, 2).Draw(t, "containers")] {
		c := corev1.Container{Name: name, Image: name, Env: []corev1.EnvVar{{Name: "twice", Value: "1"}, {Name: "twice", Value: "2"}}}
		c.Ports = []corev1.ContainerPort{{ContainerPort: 53, Protocol: corev1.ProtocolTCP}, {ContainerPort: 53, Protocol: corev1.ProtocolUDP}}
		switch rapid.IntRange(0, 4).Draw(t, "lifecycle") {
		case 0:
			c.Lifecycle = &corev1.Lifecycle{}
		case 1:
			c.Lifecycle = &corev1.Lifecycle{PostStart: &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: 1}}}
		case 2:
			c.Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{HTTPGet: &corev1.HTTPGetAction{Path: v1alpha1.DrainPath, Port: intstr.FromString("admin")}}}
			c.Lifecycle.PreStop.HTTPGet.Scheme = corev1.URISchemeHTTPS
			if lookalikes {
				c.Lifecycle.PreStop = drainHook(intstr.FromInt32(port.Draw(t, "own port")))
			}
		case 3:
			c.Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: 1}}}
		}
		template.Spec.Containers = append(template.Spec.Containers, c)
	}
	return set
}
