package objects

import (
	"cmp"
	"fmt"
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

// EndpointSlice publishes the pods of a node to the Service, nil where there are
// none of its address family. While the node is under update they are
// terminating: kube-proxy then fails its health check and goes on serving.
func EndpointSlice(set *v1alpha1.IngressDaemonSet, svc *corev1.Service, node string, pods []*corev1.Pod, marked bool) *discoveryv1.EndpointSlice {
	family := discoveryv1.AddressTypeIPv4
	if len(svc.Spec.IPFamilies) > 0 && svc.Spec.IPFamilies[0] == corev1.IPv6Protocol {
		family = discoveryv1.AddressTypeIPv6
	}
	var endpoints []discoveryv1.Endpoint
	for _, pod := range pods {
		if e, ok := endpoint(pod, family, node, marked); ok {
			endpoints = append(endpoints, e)
		}
	}
	if len(endpoints) == 0 {
		return nil
	}
	slices.SortFunc(endpoints, func(a, b discoveryv1.Endpoint) int { return cmp.Compare(a.TargetRef.Name, b.TargetRef.Name) })
	meta := ownedMeta(set, svc.Name+"-"+digest([]byte(set.Name+"/"+node+"/"+string(family)), 10))
	meta.Labels = merge(meta.Labels, map[string]string{
		discoveryv1.LabelServiceName: svc.Name,
		discoveryv1.LabelManagedBy:   SliceManager,
	})
	return &discoveryv1.EndpointSlice{
		TypeMeta:    metav1.TypeMeta{APIVersion: "discovery.k8s.io/v1", Kind: "EndpointSlice"},
		ObjectMeta:  meta,
		AddressType: family,
		Endpoints:   endpoints,
		Ports:       slicePorts(svc, &set.Spec.Template.Spec),
	}
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

// slicePorts resolves the Service's target ports, by name against the ports that
// the template declares, although host-network pods lose them.
func slicePorts(svc *corev1.Service, spec *corev1.PodSpec) []discoveryv1.EndpointPort {
	var out []discoveryv1.EndpointPort
	for _, p := range svc.Spec.Ports {
		number := p.TargetPort.IntVal
		if p.TargetPort.Type == intstr.String {
			for _, c := range spec.Containers {
				if n, ok := portNumber(c.Ports, p.TargetPort.StrVal); ok {
					number = n
				}
			}
		}
		if number == 0 {
			number = p.Port
		}
		out = append(out, discoveryv1.EndpointPort{Name: &p.Name, Protocol: &p.Protocol, Port: &number, AppProtocol: p.AppProtocol})
	}
	return out
}

// PodReady is whether the pod's containers are ready and no readiness gate
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
