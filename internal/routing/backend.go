package routing

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/wire"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// backendRef is a port of a Service.
type backendRef struct {
	service types.NamespacedName
	port    uint16
}

// String is the name of its Backend and Endpoints.
func (b backendRef) String() string { return b.service.String() + ":" + strconv.Itoa(int(b.port)) }

func (b backendRef) key() key {
	return key{fact: backendUnit, namespace: b.service.Namespace, name: b.service.Name, port: b.port}
}

// portRef names a port of a Service, by its name where that is given.
type portRef struct {
	name   string
	number int32
}

func (p portRef) String() string {
	if p.name != "" {
		return fmt.Sprintf("%q", p.name)
	}
	return strconv.Itoa(int(p.number))
}

// backendProblem is why a Service port gets no requests.
type backendProblem struct {
	kind    problemKind
	message string
}

type problemKind uint8

const (
	notFound problemKind = iota
	refused
	unsupportedProtocol
)

func (p backendProblem) ingressReason() string {
	if p.kind == notFound {
		return ReasonBackendNotFound
	}
	return ReasonBackendRefused
}

// resolve finds a Service port, or says why it gets no requests.
func (v *view) resolve(n types.NamespacedName, p portRef) (backendRef, *backendProblem) {
	service := v.service(n)
	switch {
	case service == nil:
		return backendRef{}, &backendProblem{notFound, fmt.Sprintf("Service %s does not exist", n)}
	case service.Spec.Type == corev1.ServiceTypeExternalName:
		return backendRef{}, &backendProblem{refused, fmt.Sprintf("Service %s is of type ExternalName, which is refused, because its name may lead anywhere", n)}
	case len(service.Spec.Ports) == 0 && p.name == "" && 0 < p.number && p.number <= 65535:
		// A headless Service need not list its ports: its pods' are meant.
		return backendRef{n, uint16(p.number)}, nil
	}
	port := findPort(service, p)
	if port == nil {
		return backendRef{}, &backendProblem{notFound, fmt.Sprintf("Service %s has no TCP port %s, but %s", n, p, portsOf(service))}
	}
	if _, spoken := protocolOf(port); !spoken {
		return backendRef{}, &backendProblem{unsupportedProtocol, fmt.Sprintf("Service %s asks for protocol %q at port %s, and TLS is not spoken with endpoints", n, *port.AppProtocol, p)}
	}
	return backendRef{n, uint16(port.Port)}, nil
}

func findPort(service *corev1.Service, p portRef) *corev1.ServicePort {
	at := slices.IndexFunc(service.Spec.Ports, func(port corev1.ServicePort) bool {
		if port.Protocol != "" && port.Protocol != corev1.ProtocolTCP || port.Port < 1 || port.Port > 65535 {
			return false
		}
		if p.name != "" {
			return port.Name == p.name
		}
		return port.Port == p.number
	})
	if at < 0 {
		return nil
	}
	return &service.Spec.Ports[at]
}

// portsOf are those that a Service has, for a message.
func portsOf(service *corev1.Service) string {
	var out []string
	for _, p := range service.Spec.Ports {
		out = append(out, strings.TrimSpace(fmt.Sprintf("%d %s", p.Port, p.Name)))
	}
	if len(out) == 0 {
		return "none"
	}
	return strings.Join(out, ", ")
}

// protocolOf is what is spoken with a port's endpoints (KEP-3726 for the kubernetes.io names), and
// whether we do.
func protocolOf(port *corev1.ServicePort) (protocol string, spoken bool) {
	switch strings.ToLower(deref(port.AppProtocol)) {
	case "kubernetes.io/h2c":
		return "h2c", true
	case "kubernetes.io/ws":
		return "ws", true
	case "https", "tls", "kubernetes.io/wss":
		return "", false
	}
	return "", true
}

// compileBackend is told to the proxies of an IngressDaemonSet whose routes name the port.
func (v *view) compileBackend(k key) *outcome {
	if len(v.c.members[k]) == 0 {
		return nil
	}
	ref := backendRef{k.namespaced(), k.port}
	service := v.service(ref.service)
	b, e := &wire.Backend{Port: ref.port}, &wire.Endpoints{}
	out := &outcome{}
	if service == nil {
		// A route that waits for a Secret is as it was.
		b.Service = wire.Object{Kind: "Service", Namespace: k.namespace, Name: k.name}
		b.MaxFails, b.FailTimeout = defaultMaxFails, defaultFailTimeout
	} else {
		b.Service = objectOf(service)
		b.Protocol, _ = protocolOf(orNone(findPort(service, portRef{number: int32(k.port)})))
		out.warnings = readPolicy(service, b)
		var warnings []Event
		e.All, warnings = endpointsOf(service, k.port, v.slices(ref.service), func(node string) bool {
			unheard, until := v.unheard(node)
			if unheard && !until.IsZero() && (out.wakeAt.IsZero() || until.Before(out.wakeAt)) {
				out.wakeAt = until
			}
			return unheard
		})
		out.warnings = append(out.warnings, warnings...)
	}
	out.resources = []publication{
		published(k.set, wire.Resource{Name: ref.String(), Endpoints: e}),
		published(k.set, wire.Resource{Name: ref.String(), Backend: b}),
	}
	return out
}

func orNone(p *corev1.ServicePort) *corev1.ServicePort {
	if p == nil {
		return &corev1.ServicePort{}
	}
	return p
}
