package targets

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Mode is how the load balancer reaches the pods of a template: by which
// addresses, and at which port. The table, by the type of the group's targets:
//
//	type      hostNetwork  hostPort   targets
//	instance  yes          yes, or 0  each node with a pod, at the container's port
//	instance  no           yes        each node with a pod, at the hostPort
//	instance  no           no         refused, or with a NodePort Service of
//	                                  externalTrafficPolicy Local: each node with a
//	                                  pod, at the nodePort
//	ip        yes          yes, or 0  each node with a pod, by the node's address
//	ip        no           yes        each pod, at the container's port; the hostPort
//	                                  takes no part and binds the pods to nodes
//	ip        no           no         each pod, at the container's port
//
// With hostNetwork, hostPort 0 is the same as the container's port: Kubernetes
// sets it so. A port that no container declares can be given by number only, and
// not where the hostPort would be needed to know it.
type Mode struct {
	// Type is that of the group, IPv6 its family.
	Type TargetType
	IPv6 bool
	// PerNode says whether the pods of a node share one target.
	PerNode bool
	Port    int32
	// Hook says whether the pods' preStop hook waits until their target is out.
	Hook bool
	// HookLeaves is how much of its grace period that hook leaves to a pod.
	HookLeaves time.Duration
	// Zone is given to addresses outside the group's network.
	Zone string
	// Notes are sentences for a person on what the mode does not give.
	Notes []string
}

// ModeOf reads the mode from the user's own template: in the pods that are made
// of it the declared ports may be withdrawn. The port is that of a container, as
// the targetPort of a Service is, by number or by name; with a Service it is the
// Service's own, and 0 where it has only one. The error says what to write instead.
func ModeOf(template corev1.PodSpec, group Group, port intstr.IntOrString, service *corev1.Service) (Mode, error) {
	m := Mode{Type: group.Type, IPv6: group.IPv6, PerNode: group.Type == Instance || template.HostNetwork}
	if service != nil {
		return m.ofService(service, port)
	}
	declared, err := declaredPort(template, port, group.Datagrams)
	if err != nil {
		return Mode{}, err
	}
	bound := declared.HostIP != "" && declared.HostIP != "0.0.0.0" && declared.HostIP != "::"
	switch {
	case template.HostNetwork && declared.HostPort != 0 && declared.HostPort != declared.ContainerPort:
		return Mode{}, fmt.Errorf("with hostNetwork the hostPort is the containerPort: write hostPort %d, or none", declared.ContainerPort)
	case template.HostNetwork && group.Type == IP:
		m.Notes = append(m.Notes, "with hostNetwork a pod's address is its node's: the group gains little over instance targets, and a node has one target whatever the number of its pods")
	case group.Type == IP && declared.HostPort != 0:
		m.Notes = append(m.Notes, "the load balancer does not use the hostPort, which keeps a second pod from the node: remove it to scale freely")
	case group.Type == Instance && !template.HostNetwork && declared.HostPort != 0 && bound:
		return Mode{}, fmt.Errorf("hostPort %d is bound to hostIP %s, where the load balancer may not reach it: leave the hostIP out", declared.HostPort, declared.HostIP)
	case group.Type == Instance && !template.HostNetwork && declared.HostPort == 0:
		return Mode{}, fmt.Errorf("instances do not listen on port %d of a pod: give its container port a hostPort, set hostNetwork, name a Service of type NodePort with externalTrafficPolicy Local, or use a group of type ip", declared.ContainerPort)
	}
	m.Port = declared.ContainerPort
	if group.Type == Instance && declared.HostPort != 0 {
		m.Port = declared.HostPort
	}
	return m, nil
}

// ofService is the mode where nodes take the traffic on a Service's nodePort.
func (m Mode) ofService(service *corev1.Service, port intstr.IntOrString) (Mode, error) {
	name := service.Namespace + "/" + service.Name
	switch {
	case m.Type != Instance:
		return Mode{}, fmt.Errorf("a nodePort is reached at the node: Service %s needs a group of type instance", name)
	case service.Spec.Type != corev1.ServiceTypeNodePort && service.Spec.Type != corev1.ServiceTypeLoadBalancer:
		return Mode{}, fmt.Errorf("Service %s has no nodePort: set its type to NodePort", name)
	case service.Spec.ExternalTrafficPolicy != corev1.ServiceExternalTrafficPolicyLocal:
		return Mode{}, fmt.Errorf("Service %s sends traffic on to other nodes, so that taking a node out protects no pod of it: set externalTrafficPolicy to Local", name)
	}
	i := slices.IndexFunc(service.Spec.Ports, func(p corev1.ServicePort) bool {
		if port.Type == intstr.String {
			return p.Name == port.StrVal
		}
		return p.Port == port.IntVal || port.IntVal == 0 && len(service.Spec.Ports) == 1
	})
	switch {
	case i < 0:
		return Mode{}, fmt.Errorf("Service %s has no port %s: name one of its ports", name, port.String())
	case service.Spec.Ports[i].NodePort == 0:
		return Mode{}, fmt.Errorf("port %s of Service %s has no nodePort yet", port.String(), name)
	}
	m.Port, m.PerNode = service.Spec.Ports[i].NodePort, true
	return m, nil
}

// declaredPort is the container port that is meant, of a protocol that the group sends. By number it
// need not be declared.
func declaredPort(template corev1.PodSpec, port intstr.IntOrString, datagrams bool) (corev1.ContainerPort, error) {
	named := port.Type == intstr.String
	for _, p := range declaredPorts(template) {
		if p.Protocol == corev1.ProtocolSCTP || p.Protocol == corev1.ProtocolUDP && !datagrams {
			continue
		}
		if named && p.Name == port.StrVal || !named && p.ContainerPort == port.IntVal {
			return p, nil
		}
	}
	switch {
	case named:
		return corev1.ContainerPort{}, fmt.Errorf("no container declares a port named %q: declare it in the template, or write its number", port.StrVal)
	case port.IntVal < 1 || port.IntVal > 65535:
		return corev1.ContainerPort{}, fmt.Errorf("%d is not a port: write one from 1 to 65535, or a name", port.IntVal)
	}
	return corev1.ContainerPort{ContainerPort: port.IntVal}, nil
}

// declaredPorts are those of the containers that run while the pod serves.
func declaredPorts(template corev1.PodSpec) (ports []corev1.ContainerPort) {
	for _, c := range running(template) {
		ports = append(ports, c.Ports...)
	}
	return ports
}

// running are the containers that run while the pod serves.
func running(template corev1.PodSpec) []corev1.Container {
	all := slices.Clone(template.Containers)
	for _, c := range template.InitContainers {
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			all = append(all, c)
		}
	}
	return all
}
