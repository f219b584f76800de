package targets

import (
	"strings"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	corev1 "k8s.io/api/core/v1"
)

// accessOf is the row of the table of access modes that pods of a template are, with what
// the table says of it: that of kube-ingress-aws-controller's AWS CNI mode
// (https://github.com/zalando-incubator/kube-ingress-aws-controller/pull/461), where the host
// network implies a host port. A Service's nodePort is no row there.
func (m Mode) accessOf(template corev1.PodSpec, service *corev1.Service) *v1alpha1.TargetAccess {
	row := &v1alpha1.TargetAccess{Mode: string(m.Type), HostNetwork: template.HostNetwork, HostPort: template.HostNetwork}
	for _, p := range declaredPorts(template) {
		row.HostPort = row.HostPort || p.HostPort != 0 && (p.ContainerPort == m.Port || p.HostPort == m.Port)
	}
	switch {
	case len(m.Notes) > 0:
		row.Note = strings.Join(m.Notes, "; ")
	case service != nil:
		row.Note = "nodes take the traffic on the nodePort of Service " + service.Name
	case m.Type == Instance:
		row.Note = "nodes are the targets, as ever"
	default:
		row.Note = "pods scale freely, and each is a target of its own"
	}
	return row
}

// describeAccess says how the attachment's pods are reached: by their template, or else by
// the first of them in order of their names. Nodes that are selected themselves are no row.
func (a *attachment) describeAccess() {
	a.status.Access = nil
	for _, in := range a.taken {
		if !in.part.matches || in.binding != nil || in.LeftAlone != "" {
			continue
		}
		for _, template := range a.templates() {
			if mode, err := ModeOf(template, in.Group, a.Object.Spec.Port, a.Service); err == nil {
				a.status.Access = mode.accessOf(template, a.Service)
				return
			}
		}
	}
}
