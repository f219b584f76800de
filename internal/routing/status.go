package routing

import (
	"net/netip"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/types"
)

// addresses are where an IngressDaemonSet is reached: addresses and host names.
type addresses struct{ all []string }

// compileAddresses asks the IngressDaemonSet's Service; where that is not to lead there from outside, nodes that
// serve are where it is reached.
func (v *view) compileAddresses(k key) *outcome {
	set := v.set(k.namespaced())
	if set == nil {
		return nil
	}
	all, leads := v.serviceAddresses(types.NamespacedName{Namespace: set.Namespace, Name: set.ServiceName})
	if !leads {
		all = v.servingNodes(set)
	}
	slices.Sort(all)
	all = slices.Compact(all)
	return &outcome{value: &addresses{all[:min(len(all), mostAddresses)]}}
}

// mostAddresses are in a status: each Ingress has a copy of them. An answer of DNS has no use for more.
const mostAddresses = 64

// serviceAddresses are those at which a Service leads into the cluster, and whether it is to: a load balancer
// takes a while to have one.
func (v *view) serviceAddresses(n types.NamespacedName) (out []string, leads bool) {
	if n.Name == "" {
		return nil, false
	}
	service := v.service(n)
	if service == nil {
		return nil, false
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
	out = append(out, service.Spec.ExternalIPs...)
	return out, len(out) > 0 || service.Spec.Type == corev1.ServiceTypeLoadBalancer
}

// AnnotationAddresses on an Ingress is which entries of its status are ours, separated by commas: all others are
// somebody else's, also where they are equal to ours (docs/adr/0032).
const AnnotationAddresses = "ingressdaemonsets.mumoshu.github.io/addresses"

// compileIngressStatus says where an Ingress is reached. What others wrote there stays, and where its class is not
// ours, that alone. All stays while it is not known where it is reached: an empty list takes its name out of DNS,
// and makes nothing answer.
func (v *view) compileIngressStatus(k key) *outcome {
	object := v.ingress(k.namespaced())
	if object == nil {
		return nil
	}
	set, ours := v.servedBy(object)
	out := &outcome{}
	var wanted []string
	if ours {
		out.warnings = v.withoutPorts(RefOf(object), set)
		if wanted = v.reachedAt(set); len(wanted) == 0 {
			return out
		}
	}
	current, recorded := object.Status.LoadBalancer.Ingress, object.Annotations[AnnotationAddresses]
	next := merge(current, recorded, wanted)
	if next.Addresses != recorded || !slices.EqualFunc(current, next.LoadBalancer, sameEntry) {
		out.status = &Status{Object: RefOf(object), Generation: object.Generation, Ingress: &next}
	}
	return out
}

// servedBy is the IngressDaemonSet of an Ingress, and whether its class is ours, and of use.
func (v *view) servedBy(in *networkingv1.Ingress) (set types.NamespacedName, ours bool) {
	c := value[class](v, key{fact: classUnit, name: v.classOf(in)})
	if c == nil || c.problem != "" {
		return set, false
	}
	return c.set, true
}

// reachedAt is where an IngressDaemonSet is reached.
func (v *view) reachedAt(set types.NamespacedName) []string {
	if a := value[addresses](v, keyOf(addressUnit, set)); a != nil {
		return a.all
	}
	return nil
}

// merge has the wanted entries and, after them, those of others. One that somebody else has, too, stays his: it is
// not put on record, and outlasts our wish.
func merge(current []networkingv1.IngressLoadBalancerIngress, recorded string, wanted []string) (out IngressStatus) {
	ours, theirs := map[string]bool{}, map[string]bool{}
	for address := range strings.SplitSeq(recorded, ",") {
		ours[address] = address != ""
	}
	var others []networkingv1.IngressLoadBalancerIngress
	var own []string
	for _, entry := range current {
		address := entry.IP + entry.Hostname
		if ours[address] && sameEntry(entry, entryOf(address)) {
			// One more of it is not ours.
			delete(ours, address)
			continue
		}
		theirs[entry.IP], theirs[entry.Hostname] = true, true
		others = append(others, entry)
	}
	for _, address := range wanted {
		if !theirs[address] {
			own = append(own, address)
			out.LoadBalancer = append(out.LoadBalancer, entryOf(address))
		}
	}
	out.LoadBalancer, out.Addresses = append(out.LoadBalancer, others...), strings.Join(own, ",")
	return out
}

func entryOf(address string) networkingv1.IngressLoadBalancerIngress {
	if _, err := netip.ParseAddr(address); err == nil {
		return networkingv1.IngressLoadBalancerIngress{IP: address}
	}
	return networkingv1.IngressLoadBalancerIngress{Hostname: address}
}

func sameEntry(a, b networkingv1.IngressLoadBalancerIngress) bool { return reflect.DeepEqual(a, b) }
