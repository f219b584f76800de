package routing

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/wire"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ReasonEndpointRefused: an EndpointSlice names an address to which nothing is sent.
const ReasonEndpointRefused = "EndpointRefused"

// found is an endpoint of a slice.
type found struct {
	wire.Endpoint
	address netip.Addr
	// second says whether its family is not the Service's first.
	second bool
}

// endpointsOf are the endpoints of a Service port, in the order of their addresses. EndpointSlices are
// merged: while an endpoint moves it stands in two of them, and a pod with addresses of both families
// is one endpoint, at that of the Service's first. Those of nodes that are unheard may serve, ready or not.
func endpointsOf(service *corev1.Service, port uint16, all []*discoveryv1.EndpointSlice, unheard func(node string) bool) (out []wire.Endpoint, warnings []Event) {
	name, direct := sliceport(service, port)
	var candidates []found
	for _, slice := range all {
		if isStale(service, slice) {
			continue
		}
		c, refused := candidatesOf(service, slice, name, direct, unheard)
		candidates = append(candidates, c...)
		if refused != "" {
			warnings = append(warnings, Event{RefOf(service), ReasonEndpointRefused, fmt.Sprintf("EndpointSlice %s has the address %s, to which nothing is sent", slice.Name, refused)})
		}
	}
	slices.SortFunc(candidates, compareFound)
	return distinctEndpoints(candidates), warnings
}

// sliceport is the name by which slices know a Service port; where the Service lists none, the
// pods' port itself is meant.
func sliceport(service *corev1.Service, port uint16) (name string, direct uint16) {
	if p := findPort(service, portRef{number: int32(port)}); p != nil {
		return p.Name, 0
	}
	if len(service.Spec.Ports) == 0 {
		return "", port
	}
	return "", 0
}

// isStale reports whether a slice is being deleted, or is of a Service before of the same name.
func isStale(service *corev1.Service, slice *discoveryv1.EndpointSlice) bool {
	if slice.DeletionTimestamp != nil || slice.AddressType == discoveryv1.AddressTypeFQDN {
		return true
	}
	owner := slices.IndexFunc(slice.OwnerReferences, func(o metav1.OwnerReference) bool { return o.Kind == "Service" })
	return owner >= 0 && service.UID != "" && slice.OwnerReferences[owner].UID != service.UID
}

// candidatesOf are the endpoints of one slice that may get requests, and an address that may not.
func candidatesOf(service *corev1.Service, slice *discoveryv1.EndpointSlice, name string, direct uint16, unheard func(string) bool) (out []found, refused string) {
	port := slicePort(slice, name, direct)
	if port == 0 {
		return nil, ""
	}
	families := service.Spec.IPFamilies
	second := len(families) > 0 && string(slice.AddressType) != string(families[0]) || len(families) == 0 && slice.AddressType == discoveryv1.AddressTypeIPv6
	for _, e := range slice.Endpoints {
		state, serves := stateOf(e.Conditions)
		if !serves && !deref(e.Conditions.Terminating) && e.NodeName != nil && unheard(*e.NodeName) {
			state, serves = wire.Unknown, true
		}
		if !serves || len(e.Addresses) == 0 {
			continue
		}
		// Of several addresses the first counts (API of EndpointSlices).
		address, err := netip.ParseAddr(e.Addresses[0])
		if err != nil || !mayBeSentTo(address) {
			refused = e.Addresses[0]
			continue
		}
		f := found{address: address.Unmap(), second: second, Endpoint: wire.Endpoint{
			Address: address.Unmap().String(), Port: port, Zone: deref(e.Zone), Node: deref(e.NodeName), State: state,
		}}
		if e.TargetRef != nil {
			f.UID = string(e.TargetRef.UID)
		}
		out = append(out, f)
	}
	return out, refused
}

// mayBeSentTo reports whether an address may be a pod's: the proxy's own machine and a cloud's metadata are not.
func mayBeSentTo(a netip.Addr) bool {
	a = a.Unmap()
	return a.Zone() == "" && !a.IsLoopback() && !a.IsLinkLocalUnicast() && !a.IsMulticast() && !a.IsUnspecified()
}

func slicePort(slice *discoveryv1.EndpointSlice, name string, direct uint16) uint16 {
	for _, p := range slice.Ports {
		if deref(p.Name) == name && (p.Protocol == nil || *p.Protocol == corev1.ProtocolTCP) && p.Port != nil && 0 < *p.Port && *p.Port <= 65535 {
			return uint16(*p.Port)
		}
	}
	if len(slice.Ports) == 0 {
		return direct
	}
	return 0
}

// stateOf reads conditions, of which those that are not given say nothing against an endpoint.
func stateOf(c discoveryv1.EndpointConditions) (state wire.EndpointState, serves bool) {
	ready := c.Ready == nil || *c.Ready
	serving := ready
	if c.Serving != nil {
		serving = *c.Serving
	}
	switch {
	case ready:
		return wire.Ready, true
	case serving && deref(c.Terminating):
		return wire.Terminating, true
	}
	return 0, false
}

// compareFound puts first, of two that are one, that which counts.
func compareFound(a, b found) int {
	return cmp.Or(
		a.address.Compare(b.address), cmp.Compare(a.Port, b.Port), cmp.Compare(a.State, b.State),
		cmp.Compare(a.UID, b.UID), cmp.Compare(a.Zone, b.Zone), cmp.Compare(a.Node, b.Node),
	)
}

// distinctEndpoints has each address and port once, and each pod once for each port.
func distinctEndpoints(sorted []found) (out []wire.Endpoint) {
	type pod struct {
		uid  string
		port uint16
	}
	sorted = slices.CompactFunc(sorted, func(a, b found) bool { return a.address == b.address && a.Port == b.Port })
	first := map[pod]bool{}
	for _, f := range sorted {
		if !f.second && f.UID != "" {
			first[pod{f.UID, f.Port}] = true
		}
	}
	for _, f := range sorted {
		p := pod{f.UID, f.Port}
		if f.second && f.UID != "" {
			if first[p] {
				continue
			}
			first[p] = true
		}
		out = append(out, f.Endpoint)
	}
	return out
}
