package objects

import (
	"cmp"
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
	theirs := map[HostPort][]HostPort{}
	for _, p := range hostPorts(&b.Spec.Template.Spec) {
		theirs[p.anywhere()] = append(theirs[p.anywhere()], p)
	}
	var shared []HostPort
	for _, mine := range hostPorts(&a.Spec.Template.Spec) {
		if slices.ContainsFunc(theirs[mine.anywhere()], mine.meets) {
			shared = append(shared, mine.anywhere())
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
	for _, p := range hostPorts(&template.Spec) {
		if p.Protocol == corev1.ProtocolTCP {
			ports = append(ports, p.Port)
		}
	}
	slices.Sort(ports)
	return slices.Compact(ports)
}

// MayListen is whether a pod that runs may be what listens on a TCP port of an address of its
// node: on the host network on any, otherwise on its hostPorts.
func MayListen(pod *corev1.Pod, address string, port int32) bool {
	takes := func(p HostPort) bool {
		return p.Protocol == corev1.ProtocolTCP && p.Port == port && slices.Contains([]string{"", "0.0.0.0", "::", address}, p.ip)
	}
	return pod.Status.Phase == corev1.PodRunning && (pod.Spec.HostNetwork || slices.ContainsFunc(hostPorts(&pod.Spec), takes))
}

// anywhere is the port on whatever address.
func (p HostPort) anywhere() HostPort { return HostPort{Protocol: p.Protocol, Port: p.Port} }

// meets is whether the port is taken on an address on which another of its number is.
func (p HostPort) meets(other HostPort) bool { return p.ip == "" || other.ip == "" || p.ip == other.ip }

func hostPorts(pod *corev1.PodSpec) []HostPort {
	var ports []HostPort
	for _, c := range slices.Concat(pod.InitContainers, pod.Containers) {
		for _, p := range c.Ports {
			port := p.HostPort
			if pod.HostNetwork {
				port = p.ContainerPort
			}
			if port != 0 {
				ports = append(ports, HostPort{Protocol: cmp.Or(p.Protocol, corev1.ProtocolTCP), Port: port, ip: p.HostIP})
			}
		}
	}
	return ports
}
