package routing

import (
	"fmt"
	"reflect"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/rollout/objects"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

// IngressDaemonSet is what of one matters here.
type IngressDaemonSet struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	// ServiceName is the Service that leads to it, empty for none.
	ServiceName string `json:"serviceName,omitempty"`
	// HostNetwork says whether its pods are on the host network.
	HostNetwork bool `json:"hostNetwork,omitempty"`
	// HealthCheckNodePorts are ports of each node that are its health checkers'.
	HealthCheckNodePorts []int32 `json:"healthCheckNodePorts,omitempty"`
	// OwnPorts are all that it has on each of its nodes beside what its proxies are told, as it declares.
	OwnPorts []int32 `json:"ownPorts,omitempty"`
	// NodeSelector says which nodes it wants, among those for its pods.
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`
	Pods         corev1.PodSpec    `json:"pods,omitzero"`
}

// compiledFrom is what is read of an object: of an IngressDaemonSet what matters here, of any other all.
func compiledFrom(object metav1.Object) metav1.Object {
	set, is := object.(*v1alpha1.IngressDaemonSet)
	if !is {
		return object
	}
	return &IngressDaemonSet{
		ObjectMeta: set.ObjectMeta, ServiceName: set.Spec.ServiceName, HostNetwork: set.Spec.Template.Spec.HostNetwork,
		HealthCheckNodePorts: set.Spec.HealthCheckNodePorts, OwnPorts: objects.OwnPorts(set, &set.Spec.Template),
		NodeSelector: set.Spec.NodeSelector, Pods: set.Spec.Template.Spec,
	}
}

// Set tells of an object that is there, and how it is now: an IngressDaemonSet, IngressClass, Ingress, Service,
// EndpointSlice, Secret, Namespace, Node or Deployment (of a node), or of a kind of the Gateway API. It is not
// changed afterwards. A Secret that nobody names is not kept, see WantedSecrets.
func (c *Compiler) Set(object metav1.Object) {
	object = compiledFrom(object)
	k := objectKey(RefOf(object))
	if s, ok := object.(*corev1.Secret); ok {
		c.setSecret(s)
		return
	}
	before := c.objects[k]
	c.objects[k] = object
	c.objectChanged(k, before, object)
}

// Delete tells that an object is not there. Of a Secret that is an answer too.
func (c *Compiler) Delete(ref Ref) {
	k := objectKey(ref)
	if k.fact == secretObject {
		c.deleteSecret(k.namespaced())
		return
	}
	before, known := c.objects[k]
	if !known {
		return
	}
	delete(c.objects, k)
	c.objectChanged(k, before, nil)
}

// objectChanged has compiled again what read the object, or a list that it is or was in.
func (c *Compiler) objectChanged(k key, before, after any) {
	c.touch(k)
	for _, object := range []any{before, after} {
		if object == nil {
			continue
		}
		if list, listed := listOf(object); listed {
			c.list(list, k, after != nil && object == after)
			c.touch(list)
		}
	}
	for _, unit := range ownUnits(k) {
		c.soil(unit)
	}
}

// kinds are the objects that there are.
var kinds = map[string]fact{
	"IngressClass": ingressClassObject, "Ingress": ingressObject, "Service": serviceObject,
	"EndpointSlice": sliceObject, "Secret": secretObject, "IngressDaemonSet": setObject, "Namespace": namespaceObject,
	"Deployment": deploymentObject, "Node": nodeObject,
	"GatewayClass": gatewayClassObject, "Gateway": gatewayObject, "HTTPRoute": routeObject, "ReferenceGrant": grantObject,
}

func objectKey(ref Ref) key {
	f, known := kinds[ref.Kind]
	if !known {
		panic(fmt.Sprintf("routing: a %s is no object of the compiler", ref.Kind))
	}
	return key{fact: f, namespace: ref.Namespace, name: ref.Name}
}

// RefOf names an object by its type: what is read from a cache does not say its kind.
func RefOf(object metav1.Object) Ref {
	return Ref{reflect.TypeOf(object).Elem().Name(), object.GetNamespace(), object.GetName()}
}

// ownUnits are those that are about one object, and read it.
func ownUnits(k key) []key {
	n := k.namespaced()
	switch k.fact {
	case ingressClassObject:
		return []key{keyOf(classUnit, n), {fact: defaultClassUnit}}
	case ingressObject:
		return []key{keyOf(ingressUnit, n), keyOf(ingressStatusUnit, n)}
	case setObject:
		return []key{keyOf(addressUnit, n), setsUnits}
	case nodeObject:
		return []key{keyOf(nodeUnit, n)}
	case gatewayClassObject:
		return []key{keyOf(gatewayClassUnit, n)}
	case gatewayObject:
		return []key{keyOf(gatewayUnit, n)}
	case routeObject:
		return []key{keyOf(attachUnit, n), keyOf(routeUnit, n)}
	}
	return nil
}

// listOf is the list that an object is in.
func listOf(object any) (list key, listed bool) {
	switch o := object.(type) {
	case *networkingv1.IngressClass:
		return key{fact: ingressClasses}, true
	case *discoveryv1.EndpointSlice:
		return key{fact: slicesOf, namespace: o.Namespace, name: o.Labels[discoveryv1.LabelServiceName]}, true
	case *appsv1.Deployment:
		return deploymentsOf(o.Namespace, o.Labels[v1alpha1.LabelName]), true
	case *IngressDaemonSet:
		return key{fact: ingressDaemonSets}, true
	case *gatewayv1.ReferenceGrant:
		return key{fact: grantsIn, namespace: o.Namespace}, true
	}
	return key{}, false
}
