package analysis

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/mumoshu/ingress-daemonset-controller/internal/rollout"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// What a check may reach. Whoever may write IngressDaemonSets in a namespace chooses it, and
// the requests come from the controller, which reaches more than they do. So a check reaches
// pods of its own namespace by their Services, and on the nodes of the wave the ports of its
// own pods; all else is for the operator to permit. No name is resolved but those that the
// operator permits, and of those the addresses are checked.

const (
	// mostPods of a Service are looked at, mostTried of those that are ready are tried.
	mostPods  = 100
	mostTried = 3
)

// route is how to get to a URL of a check; an error is why it is not to be asked.
func (m *Measurer) route(ctx context.Context, address string, wave rollout.Wave) (dial, error) {
	target, err := url.Parse(address)
	if err != nil {
		return nil, errors.New("its URL cannot be read")
	}
	port, err := strconv.ParseUint(portOf(target), 10, 16)
	if err != nil {
		return nil, fmt.Errorf("its port %q is none", portOf(target))
	}
	forbidden, err := m.forbidden(ctx)
	if err != nil {
		return nil, err
	}
	direct := m.guarded(forbidden, wave.Kubelets)
	if m.Hosts.permit(target.Hostname(), uint16(port)) {
		return direct, nil
	}
	service, err := m.serviceOf(ctx, target.Hostname(), wave.Namespace)
	switch {
	case err != nil:
		return nil, err
	case service == nil:
		return nil, fmt.Errorf("%s is no Service in namespace %s, and --analysis-hosts does not permit it at port %d", target.Hostname(), wave.Namespace, port)
	case service.Spec.Type == corev1.ServiceTypeExternalName:
		return m.external(service, uint16(port), direct)
	}
	pods, err := m.podsBehind(ctx, service, uint16(port), wave)
	if err != nil {
		return nil, err
	}
	return toOneOf(pods, direct), nil
}

// serviceOf is the Service of a namespace that a name is of, in each of its forms, nil where
// it is of none.
func (m *Measurer) serviceOf(ctx context.Context, name, namespace string) (*corev1.Service, error) {
	parts := strings.Split(plainName(name), ".")
	if len(parts) > 1 && parts[1] != namespace || len(parts) > 2 && parts[2] != "svc" {
		return nil, nil
	}
	service := &corev1.Service{}
	err := m.Services.Get(ctx, client.ObjectKey{Namespace: namespace, Name: parts[0]}, service)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading Service %s: %w", parts[0], err)
	}
	return service, nil
}

// external goes where a Service of the type ExternalName leads, where that is permitted.
func (m *Measurer) external(service *corev1.Service, port uint16, direct dial) (dial, error) {
	name := service.Spec.ExternalName
	if !m.Hosts.permit(name, port) {
		return nil, fmt.Errorf("Service %s leads to %s, which --analysis-hosts does not permit at port %d", service.Name, name, port)
	}
	return toOneOf([]string{net.JoinHostPort(name, strconv.Itoa(int(port)))}, direct), nil
}

// podsBehind are the addresses of ready pods that the Service selects, at the ports to which
// it leads. They are asked themselves: who may write the Service's EndpointSlices could have
// it lead anywhere.
func (m *Measurer) podsBehind(ctx context.Context, service *corev1.Service, port uint16, wave rollout.Wave) ([]string, error) {
	at := slices.IndexFunc(service.Spec.Ports, func(p corev1.ServicePort) bool {
		return p.Port == int32(port) && isTCP(p)
	})
	switch {
	case at < 0:
		return nil, fmt.Errorf("Service %s has no TCP port %d", service.Name, port)
	case len(service.Spec.Selector) == 0:
		return nil, fmt.Errorf("Service %s selects no pods: where it leads is for --analysis-hosts to permit", service.Name)
	}
	pods := &corev1.PodList{}
	selected := client.MatchingLabelsSelector{Selector: labels.SelectorFromSet(service.Spec.Selector)}
	if err := m.Live.List(ctx, pods, client.InNamespace(service.Namespace), selected, client.Limit(mostPods)); err != nil {
		return nil, fmt.Errorf("listing the pods of Service %s: %w", service.Name, err)
	}
	var ready []string
	for i := range pods.Items {
		pod := &pods.Items[i]
		number := podPort(pod, service.Spec.Ports[at])
		// On the host network a number may be anybody's.
		own := !pod.Spec.HostNetwork || slices.Contains(wave.Ports, number) && !rollout.OfTheSystem(number)
		if number > 0 && own && isReady(pod) {
			ready = append(ready, net.JoinHostPort(pod.Status.PodIP, strconv.Itoa(int(number))))
		}
	}
	if len(ready) == 0 {
		return nil, fmt.Errorf("no pod of Service %s is ready at port %d", service.Name, port)
	}
	rand.Shuffle(len(ready), func(i, j int) { ready[i], ready[j] = ready[j], ready[i] })
	return ready[:min(len(ready), mostTried)], nil
}

func isTCP(p corev1.ServicePort) bool { return p.Protocol == "" || p.Protocol == corev1.ProtocolTCP }

func isReady(pod *corev1.Pod) bool {
	return pod.Status.PodIP != "" && pod.DeletionTimestamp == nil && slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// podPort is the port of a pod to which a port of a Service leads, 0 where it has none.
func podPort(pod *corev1.Pod, port corev1.ServicePort) int32 {
	switch {
	case port.TargetPort.Type == intstr.String:
		for _, c := range pod.Spec.Containers {
			for _, p := range c.Ports {
				if p.Name == port.TargetPort.StrVal {
					return p.ContainerPort
				}
			}
		}
		return 0
	case port.TargetPort.IntVal == 0:
		return port.Port
	}
	return port.TargetPort.IntVal
}

// toOneOf dials the first of some addresses that takes the connection, whatever was asked for.
func toOneOf(addresses []string, direct dial) dial {
	return func(ctx context.Context, network, _ string) (conn net.Conn, err error) {
		for _, address := range addresses {
			if conn, err = direct(ctx, network, address); err == nil {
				return conn, nil
			}
		}
		return nil, err
	}
}

// nodeRoute is how to get to a port of the wave's nodes, and which of these are not to be asked,
// since no pod of the wave may listen there.
func (m *Measurer) nodeRoute(ctx context.Context, port int32, wave rollout.Wave) (way dial, closed func(rollout.WaveNode) bool, err error) {
	forbidden, err := m.forbidden(ctx)
	if err != nil {
		return nil, nil, err
	}
	published, err := m.isNodePort(ctx, port, wave.Namespace)
	if err != nil {
		return nil, nil, err
	}
	among := func(ports []int32) bool { return slices.Contains(ports, port) && !rollout.OfTheSystem(port) }
	closed = func(n rollout.WaveNode) bool {
		return !published && !among(n.Ports) && !m.Hosts.permit(n.Address, uint16(port))
	}
	if !among(wave.Ports) && slices.ContainsFunc(wave.Nodes, closed) {
		return nil, nil, fmt.Errorf("port %d of the nodes is none that the template declares, nor a node port of a Service in namespace %s, and --analysis-hosts does not permit it", port, wave.Namespace)
	}
	return m.guarded(forbidden, wave.Kubelets), closed, nil
}

// published reports whether the node ports of a Service are its own. Those of other types are allotted to
// nobody: anybody may write any number there.
func published(s *corev1.Service) bool {
	return s.Spec.Type == corev1.ServiceTypeNodePort || s.Spec.Type == corev1.ServiceTypeLoadBalancer
}

// isNodePort reports whether a Service of the namespace has the TCP port on every node. UDP ports are
// allotted by themselves.
func (m *Measurer) isNodePort(ctx context.Context, port int32, namespace string) (bool, error) {
	services := &corev1.ServiceList{}
	if err := m.Services.List(ctx, services, client.InNamespace(namespace)); err != nil {
		return false, fmt.Errorf("listing Services: %w", err)
	}
	return !rollout.OfTheSystem(port) && slices.ContainsFunc(services.Items, func(s corev1.Service) bool {
		return published(&s) && slices.ContainsFunc(s.Spec.Ports, func(p corev1.ServicePort) bool { return p.NodePort == port && isTCP(p) })
	}), nil
}
