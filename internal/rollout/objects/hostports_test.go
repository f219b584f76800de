package objects

import (
	"fmt"
	"testing"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	corev1 "k8s.io/api/core/v1"
)

func declaring(hostNetwork bool, ports ...corev1.ContainerPort) *v1alpha1.IngressDaemonSet {
	set := &v1alpha1.IngressDaemonSet{}
	set.Spec.Template.Spec = corev1.PodSpec{HostNetwork: hostNetwork, Containers: []corev1.Container{{Ports: ports}}}
	return set
}

func TestSharedHostPorts(t *testing.T) {
	tcp := func(numbers ...int32) (out []corev1.ContainerPort) {
		for _, n := range numbers {
			out = append(out, corev1.ContainerPort{ContainerPort: n})
		}
		return out
	}
	on := func(ip string) corev1.ContainerPort { return corev1.ContainerPort{ContainerPort: 80, HostIP: ip} }
	web := declaring(true, tcp(80, 443)...)
	sidecar := declaring(true)
	sidecar.Spec.Template.Spec.InitContainers = web.Spec.Template.Spec.Containers
	for _, c := range []struct {
		name  string
		other *v1alpha1.IngressDaemonSet
		want  string
	}{
		{"both", declaring(true, tcp(443, 8080, 80)...), "[{TCP 80 } {TCP 443 }]"},
		{"one", declaring(true, tcp(443)...), "[{TCP 443 }]"},
		{"in a sidecar", sidecar, "[{TCP 80 } {TCP 443 }]"},
		{"none", declaring(true, tcp(8080)...), "[]"},
		{"none declared", declaring(true), "[]"},
		{"of the pod network", declaring(false, tcp(80)...), "[]"},
		{"a hostPort", declaring(false, corev1.ContainerPort{ContainerPort: 8080, HostPort: 80}), "[{TCP 80 }]"},
		{"UDP", declaring(true, corev1.ContainerPort{ContainerPort: 443, Protocol: corev1.ProtocolUDP}), "[]"},
		{"one address", declaring(true, on("10.0.0.1")), "[{TCP 80 }]"},
	} {
		if got := fmt.Sprint(SharedHostPorts(web, c.other)); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
	if got := SharedHostPorts(declaring(true, on("10.0.0.1")), declaring(true, on("10.0.0.2"))); len(got) > 0 {
		t.Errorf("on addresses of their own: %v", got)
	}
}

// TestManyHostPorts: what one IngressDaemonSet declares must not cost much in each pass of each other.
func TestManyHostPorts(t *testing.T) {
	var ports []corev1.ContainerPort
	for i := range int32(30000) {
		ports = append(ports, corev1.ContainerPort{ContainerPort: 20000 + i})
	}
	many, few := declaring(true, ports...), declaring(true, corev1.ContainerPort{ContainerPort: 443}, corev1.ContainerPort{ContainerPort: 20443})
	for name, of := range map[string]func() []HostPort{
		"of another": func() []HostPort { return SharedHostPorts(few, many) },
		"of its own": func() []HostPort { return SharedHostPorts(many, few) },
	} {
		if got := fmt.Sprint(of()); got != "[{TCP 20443 }]" {
			t.Errorf("%s: %s", name, got)
		}
		if got := testing.AllocsPerRun(10, func() { of() }); got > 30 {
			t.Errorf("%s: %v allocations for %d ports", name, got, len(ports))
		}
	}
}

// TestOwnPorts are those of nodes on which pods listen by TCP, and no others.
func TestOwnPorts(t *testing.T) {
	set := declaring(true, corev1.ContainerPort{ContainerPort: 443}, corev1.ContainerPort{ContainerPort: 80}, corev1.ContainerPort{ContainerPort: 443, Protocol: corev1.ProtocolUDP})
	set.Spec.HealthCheckNodePorts = []int32{10080, 80}
	if got := fmt.Sprint(OwnPorts(set, &set.Spec.Template)); got != "[80 443 10080]" {
		t.Errorf("on the host network %s", got)
	}
	set.Spec.Template.Spec.HostNetwork = false
	set.Spec.Template.Spec.Containers[0].Ports[0].HostPort = 8443
	if got := fmt.Sprint(OwnPorts(set, &set.Spec.Template)); got != "[80 8443 10080]" {
		t.Errorf("of the pod network %s", got)
	}
}
