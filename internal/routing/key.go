package routing

import (
	"cmp"

	"k8s.io/apimachinery/pkg/types"
)

// fact is what a key names.
type fact uint8

// Objects, and lists of them. A unit that reads a list is compiled again when one comes or goes or
// changes.
const (
	ingressClassObject fact = iota
	ingressObject
	serviceObject
	sliceObject
	secretObject
	setObject
	namespaceObject
	gatewayClassObject
	gatewayObject
	routeObject
	grantObject
	deploymentObject
	nodeObject
	// ingressClasses and ingressDaemonSets are all of them, slicesOf those of a Service, grantsIn those of a
	// namespace, nodeDeployments those with the label of an IngressDaemonSet.
	ingressClasses
	ingressDaemonSets
	slicesOf
	grantsIn
	nodeDeployments
)

// Units, in the order in which they are compiled: each reads only objects and units before it, and
// joins only units after it.
const (
	// defaultClassUnit is the IngressClass of Ingresses that name none.
	defaultClassUnit fact = iota + 64
	// classUnit is an IngressClass.
	classUnit
	// setsUnit is all IngressDaemonSets, nodeUnit which of them want pods on a Node, meetingsUnit
	// which of them meet: the Nodes that several want join it.
	setsUnit
	nodeUnit
	meetingsUnit
	// addressUnit is where an IngressDaemonSet is reached.
	addressUnit
	// ingressUnit is an Ingress.
	ingressUnit
	// hostUnit is a host of an IngressDaemonSet, for which its Ingresses join it.
	hostUnit
	// gatewayClassUnit is a GatewayClass, gatewayUnit a Gateway.
	gatewayClassUnit
	gatewayUnit
	// assignmentUnit is which Gateways have which addresses: those that ask for any join it. gatewayAddressUnit is
	// which one has.
	assignmentUnit
	gatewayAddressUnit
	// portsUnit is who has which port: IngressClasses and Gateways join it.
	portsUnit
	// listenersUnit has an IngressDaemonSet's listeners: IngressClasses, Ingresses with certificates and
	// Gateways join it.
	listenersUnit
	// ingressStatusUnit is an Ingress's status.
	ingressStatusUnit
	// attachUnit is where an HTTPRoute is served. entriesUnit is which of a namespace have too
	// many entries for the proxies of an IngressDaemonSet: they join it.
	attachUnit
	entriesUnit
	// routeUnit is an HTTPRoute.
	routeUnit
	// gatewayStatusUnit is a Gateway's status: the Gateway and its routes join it.
	gatewayStatusUnit
	// backendUnit is a Service port that a route of an IngressDaemonSet names.
	backendUnit
	// certificateUnit is a Secret that a listener of an IngressDaemonSet names.
	certificateUnit
	// wantedUnit is a Secret that somebody names.
	wantedUnit
	units
)

// key names a fact.
type key struct {
	fact            fact
	namespace, name string
	// set is the IngressDaemonSet of what belongs to one.
	set types.NamespacedName
	// port is that of a backend.
	port uint16
}

func (k key) namespaced() types.NamespacedName {
	return types.NamespacedName{Namespace: k.namespace, Name: k.name}
}

// keyOf is the fact of that kind about what has a name.
func keyOf(f fact, n types.NamespacedName) key {
	return key{fact: f, namespace: n.Namespace, name: n.Name}
}

// in is the key for an IngressDaemonSet.
func (k key) in(set types.NamespacedName) key {
	k.set = set
	return k
}

func compareKeys(a, b key) int {
	return cmp.Or(
		cmp.Compare(a.fact, b.fact), compareNames(a.set, b.set), cmp.Compare(a.namespace, b.namespace),
		cmp.Compare(a.name, b.name), cmp.Compare(a.port, b.port),
	)
}

func compareNames(a, b types.NamespacedName) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

func compareRefs(a, b Ref) int {
	return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}
