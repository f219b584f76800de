package routing

import (
	"net/netip"
	"reflect"
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/types"
)

// addresses are where an IngressDaemonSet is reached: addresses and host names.
type addresses struct{ all []string }

// compileAddresses asks the IngressDaemonSet's Service; where that leads nowhere from outside, nodes that
// serve are where it is reached.
func (v *view) compileAddresses(k key) *outcome {
	set := v.set(k.namespaced())
	if set == nil {
		return nil
	}
	all := v.serviceAddresses(types.NamespacedName{Namespace: set.Namespace, Name: set.ServiceName})
	if len(all) == 0 {
		all = slices.Clone(set.ServingNodes)
	}
	slices.Sort(all)
	return &outcome{value: &addresses{slices.Compact(all)}}
}

func (v *view) serviceAddresses(n types.NamespacedName) (out []string) {
	if n.Name == "" {
		return nil
	}
	service := v.service(n)
	if service == nil {
		return nil
	}
	if service.Spec.Type == corev1.ServiceTypeLoadBalancer {
		for _, in := range service.Status.LoadBalancer.Ingress {
			if in.Hostname != "" {
				out = append(out, in.Hostname)
			} else if in.IP != "" {
				out = append(out, in.IP)
			}
		}
	}
	return append(out, service.Spec.ExternalIPs...)
}

// compileIngressStatus says where an Ingress is reached. What others wrote there stays; an Ingress of
// another class is left alone.
func (v *view) compileIngressStatus(k key) *outcome {
	object := v.ingress(k.namespaced())
	if object == nil {
		return nil
	}
	in := value[ingress](v, keyOf(ingressUnit, k.namespaced()))
	if in == nil {
		return &outcome{}
	}
	wanted := value[addresses](v, keyOf(addressUnit, in.set))
	if wanted == nil {
		return &outcome{}
	}
	current := object.Status.LoadBalancer.Ingress
	next := v.mergeEntries(current, wanted.all)
	if reflect.DeepEqual(current, next) || len(current)+len(next) == 0 {
		return &outcome{}
	}
	return &outcome{status: &Status{Object: refOf(object), Generation: object.Generation, Ingress: &IngressStatus{next}}}
}

// mergeEntries has the wanted ones, and those of others after them.
func (v *view) mergeEntries(current []networkingv1.IngressLoadBalancerIngress, wanted []string) (out []networkingv1.IngressLoadBalancerIngress) {
	v.reads[key{fact: knownAddresses}] = true
	for _, address := range wanted {
		if _, err := netip.ParseAddr(address); err == nil {
			out = append(out, networkingv1.IngressLoadBalancerIngress{IP: address})
		} else {
			out = append(out, networkingv1.IngressLoadBalancerIngress{Hostname: address})
		}
	}
	for _, entry := range current {
		if !v.c.addresses[entry.IP] && !v.c.addresses[entry.Hostname] {
			out = append(out, entry)
		}
	}
	return out
}
