package objects

import (
	"cmp"
	"iter"
	"slices"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	corev1 "k8s.io/api/core/v1"
)

// HostPort is a port of the node that pods take.
type HostPort struct {
	Protocol corev1.Protocol
	Port     int32
	// ip is the one address that it is taken on, empty for all.
	ip string
}

// SharedHostPorts are the ports of a node that the templates of both declare. On the
// host network both sets of pods get their connections, in turn, where they listen with
// SO_REUSEPORT, and one cannot start where they do not.
func SharedHostPorts(a, b *v1alpha1.IngressDaemonSet) []HostPort {
	few, many := &a.Spec.Template.Spec, &b.Spec.Template.Spec
	if declared(few) > declared(many) {
		few, many = many, few
	}
	ofNumber := map[int32][]HostPort{}
	for p := range hostPorts(few) {
		ofNumber[p.Port] = append(ofNumber[p.Port], p)
	}
	var shared []HostPort
	for p := range hostPorts(many) {
		if slices.ContainsFunc(ofNumber[p.Port], p.meets) {
			shared = append(shared, p.anywhere())
		}
	}
	slices.SortFunc(shared, func(a, b HostPort) int {
		return cmp.Or(cmp.Compare(a.Port, b.Port), cmp.Compare(a.Protocol, b.Protocol))
	})
	return slices.Compact(shared)
}

// OwnPorts are the TCP ports of nodes on which an IngressDaemonSet listens where its pods are
// made from a template: those that this declares, and the health checkers'.
func OwnPorts(set *v1alpha1.IngressDaemonSet, template *corev1.PodTemplateSpec) []int32 {
	ports := slices.Clone(set.Spec.HealthCheckNodePorts)
	for p := range hostPorts(&template.Spec) {
		if p.Protocol == corev1.ProtocolTCP {
			ports = append(ports, p.Port)
		}
	}
	slices.Sort(ports)
	return slices.Compact(ports)
}

// MayListen reports whether a pod that runs may be what listens on a TCP port of an address of its
// node: on the host network on any, otherwise on its hostPorts.
func MayListen(pod *corev1.Pod, address string, port int32) bool {
	if pod.Status.Phase != corev1.PodRunning || pod.Spec.HostNetwork {
		return pod.Status.Phase == corev1.PodRunning
	}
	for p := range hostPorts(&pod.Spec) {
		if p.Protocol == corev1.ProtocolTCP && p.Port == port && slices.Contains([]string{"", "0.0.0.0", "::", address}, p.ip) {
			return true
		}
	}
	return false
}

// anywhere is the port on whatever address.
func (p HostPort) anywhere() HostPort { return HostPort{Protocol: p.Protocol, Port: p.Port} }

// meets reports whether the port is taken on an address on which the other is.
func (p HostPort) meets(other HostPort) bool {
	return p.anywhere() == other.anywhere() && (p.ip == "" || other.ip == "" || p.ip == other.ip)
}

// declared is how many ports a pod declares.
func declared(pod *corev1.PodSpec) (n int) {
	for _, c := range slices.Concat(pod.InitContainers, pod.Containers) {
		n += len(c.Ports)
	}
	return n
}

// hostPorts are yielded one by one: anybody may declare tens of thousands, and each pass of
// another IngressDaemonSet looks at them.
func hostPorts(pod *corev1.PodSpec) iter.Seq[HostPort] {
	return func(yield func(HostPort) bool) {
		for _, c := range slices.Concat(pod.InitContainers, pod.Containers) {
			for _, p := range c.Ports {
				port := p.HostPort
				if pod.HostNetwork {
					port = p.ContainerPort
				}
				if port != 0 && !yield(HostPort{Protocol: cmp.Or(p.Protocol, corev1.ProtocolTCP), Port: port, ip: p.HostIP}) {
					return
				}
			}
		}
	}
}
