package objects

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/net"
)

// SliceManager is who manages the EndpointSlices.
const SliceManager = "ingressdaemonsets.mumoshu.github.io"

// ServiceFault says why a Service cannot be published to, empty where it can.
func ServiceFault(svc *corev1.Service) string {
	switch {
	case len(svc.Spec.Selector) > 0:
		return fmt.Sprintf("Service %s has a selector, so that its endpoints are written by Kubernetes: remove spec.selector", svc.Name)
	case svc.Spec.ExternalTrafficPolicy != corev1.ServiceExternalTrafficPolicyLocal:
		return fmt.Sprintf("Service %s must have externalTrafficPolicy Local, or a node under update gets traffic through others", svc.Name)
	}
	return ""
}

// Publication is what the pods of an IngressDaemonSet are published with.
type Publication struct {
	Set     *v1alpha1.IngressDaemonSet
	Service *corev1.Service
	// Templates are what pods were made from, by revision, as far as they are on record.
	Templates map[string]*corev1.PodSpec
	// Published are the ports that pods are published with already, by revision. They
	// stay where the template does not tell the number of a port.
	Published map[string][]discoveryv1.EndpointPort
}

// EndpointSlices publish the pods of a node that are of the Service's address family.
// While the node is under update they are terminating: kube-proxy then fails its health
// check and goes on serving. Pods that listen on different ports have slices of their
// own: the number of a port changes with a pod's revision, and a slice has but one.
func (p Publication) EndpointSlices(node string, pods []*corev1.Pod, marked bool) []*discoveryv1.EndpointSlice {
	family := discoveryv1.AddressTypeIPv4
	if len(p.Service.Spec.IPFamilies) > 0 && p.Service.Spec.IPFamilies[0] == corev1.IPv6Protocol {
		family = discoveryv1.AddressTypeIPv6
	}
	made := map[string]*discoveryv1.EndpointSlice{}
	for _, pod := range pods {
		e, ok := endpoint(pod, family, node, marked)
		ports := p.ports(pod.Labels[v1alpha1.LabelRevision])
		if !ok || len(ports) == 0 {
			continue
		}
		name := p.sliceName(node, family, ports)
		if made[name] == nil {
			made[name] = p.slice(name, family, ports)
		}
		made[name].Endpoints = append(made[name].Endpoints, e)
	}
	for _, s := range made {
		slices.SortFunc(s.Endpoints, func(a, b discoveryv1.Endpoint) int { return cmp.Compare(a.TargetRef.Name, b.TargetRef.Name) })
	}
	return slices.SortedFunc(maps.Values(made), func(a, b *discoveryv1.EndpointSlice) int { return cmp.Compare(a.Name, b.Name) })
}

func (p Publication) slice(name string, family discoveryv1.AddressType, ports []discoveryv1.EndpointPort) *discoveryv1.EndpointSlice {
	meta := ownedMeta(p.Set, name)
	meta.Labels = merge(meta.Labels, map[string]string{
		discoveryv1.LabelServiceName: p.Service.Name,
		discoveryv1.LabelManagedBy:   SliceManager,
	})
	return &discoveryv1.EndpointSlice{
		TypeMeta:    metav1.TypeMeta{APIVersion: "discovery.k8s.io/v1", Kind: "EndpointSlice"},
		ObjectMeta:  meta,
		AddressType: family,
		Ports:       ports,
	}
}

// sliceName differs where the numbers of ports do that the Service gives by name: pods
// of two revisions may differ in those alone.
func (p Publication) sliceName(node string, family discoveryv1.AddressType, ports []discoveryv1.EndpointPort) string {
	key := p.Set.Name + "/" + node + "/" + string(family)
	for _, port := range ports {
		if slices.ContainsFunc(p.Service.Spec.Ports, func(s corev1.ServicePort) bool { return s.Name == *port.Name && byName(s) }) {
			key += fmt.Sprintf("/%s=%d", *port.Name, *port.Port)
		}
	}
	return p.Service.Name + "-" + digest([]byte(key), 10)
}

func endpoint(pod *corev1.Pod, family discoveryv1.AddressType, node string, marked bool) (discoveryv1.Endpoint, bool) {
	var none discoveryv1.Endpoint
	if pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded {
		return none, false
	}
	at := slices.IndexFunc(pod.Status.PodIPs, func(ip corev1.PodIP) bool {
		return net.IsIPv6String(ip.IP) == (family == discoveryv1.AddressTypeIPv6)
	})
	if at < 0 {
		return none, false
	}
	serving, terminating := PodReady(pod), marked || pod.DeletionTimestamp != nil
	ready := serving && !terminating
	return discoveryv1.Endpoint{
		Addresses:  []string{pod.Status.PodIPs[at].IP},
		Conditions: discoveryv1.EndpointConditions{Ready: &ready, Serving: &serving, Terminating: &terminating},
		NodeName:   &node,
		TargetRef:  &corev1.ObjectReference{Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID},
	}, true
}

// ports are those of the Service on pods of a revision. One whose number nothing tells
// is left out: nobody may listen on any other.
func (p Publication) ports(revision string) []discoveryv1.EndpointPort {
	var out []discoveryv1.EndpointPort
	for _, port := range p.Service.Spec.Ports {
		number, ok := targetPort(port, p.Templates[revision])
		if !ok {
			number, ok = publishedPort(port, p.Published[revision])
		}
		if ok {
			out = append(out, discoveryv1.EndpointPort{Name: &port.Name, Protocol: &port.Protocol, Port: &number, AppProtocol: port.AppProtocol})
		}
	}
	return out
}

// MissingTargetPorts are the names of the Service's target ports that a template does
// not declare.
func MissingTargetPorts(svc *corev1.Service, spec *corev1.PodSpec) []string {
	var missing []string
	for _, p := range svc.Spec.Ports {
		if _, ok := targetPort(p, spec); !ok && !slices.Contains(missing, p.TargetPort.StrVal) {
			missing = append(missing, p.TargetPort.StrVal)
		}
	}
	return missing
}

// targetPort is the number of a Service's target port. A name is looked up among the
// ports that the template declares, although pods of the host network lose them.
func targetPort(p corev1.ServicePort, spec *corev1.PodSpec) (int32, bool) {
	if !byName(p) {
		return cmp.Or(p.TargetPort.IntVal, p.Port), true
	}
	if spec == nil {
		return 0, false
	}
	for _, c := range slices.Concat(spec.Containers, spec.InitContainers) {
		if n, ok := portNumber(c.Ports, p.TargetPort.StrVal); ok {
			return n, true
		}
	}
	return 0, false
}

func byName(p corev1.ServicePort) bool { return p.TargetPort.Type == intstr.String }

func publishedPort(p corev1.ServicePort, published []discoveryv1.EndpointPort) (int32, bool) {
	for _, have := range published {
		if have.Name != nil && *have.Name == p.Name && have.Port != nil {
			return *have.Port, true
		}
	}
	return 0, false
}

// PodReady reports whether the pod's containers are ready and no readiness gate
// fails. Unlike the condition Ready it stays true where the node lifecycle
// controller gave up on a node that only lost the API server.
func PodReady(pod *corev1.Pod) bool {
	conditions := map[corev1.PodConditionType]corev1.ConditionStatus{}
	for _, c := range pod.Status.Conditions {
		conditions[c.Type] = c.Status
	}
	for _, gate := range pod.Spec.ReadinessGates {
		if conditions[gate.ConditionType] != corev1.ConditionTrue {
			return false
		}
	}
	return conditions[corev1.PodReady] == corev1.ConditionTrue || conditions[corev1.ContainersReady] == corev1.ConditionTrue
}
