package controller

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/mumoshu/ingress-daemonset-controller/internal/routing"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

// hasStatus reports whether statuses of such objects are written.
func hasStatus(object client.Object) bool {
	switch object.(type) {
	case *networkingv1.Ingress, *gatewayv1.GatewayClass, *gatewayv1.Gateway, *gatewayv1.HTTPRoute:
		return true
	}
	return false
}

// withStatus is an object with the status that it is to have, nil where it has it.
func withStatus(object client.Object, wanted status, acknowledged *Acknowledgements) client.Object {
	next := object.DeepCopyObject().(client.Object)
	switch o := next.(type) {
	case *networkingv1.Ingress:
		setIngressStatus(o, wanted.Ingress)
	case *gatewayv1.GatewayClass:
		setGatewayClassStatus(&o.Status, wanted.GatewayClass, wanted.Generation)
	case *gatewayv1.Gateway:
		setGatewayStatus(&o.Status, wanted.Gateway, wanted.Generation)
		setProgrammed(&o.Status, wanted, acknowledged)
	case *gatewayv1.HTTPRoute:
		setRouteStatus(&o.Status.RouteStatus, wanted.HTTPRoute, wanted.Generation)
		setPartiallyInvalid(&o.Status.RouteStatus, wanted, acknowledged)
	}
	if equality.Semantic.DeepEqual(object, next) {
		return nil
	}
	return next
}

// setIngressStatus also sets which entries are ours: the API server takes annotations of an Ingress with its status.
func setIngressStatus(in *networkingv1.Ingress, wanted *routing.IngressStatus) {
	in.Status.LoadBalancer.Ingress = wanted.LoadBalancer
	if wanted.Addresses == "" {
		delete(in.Annotations, routing.AnnotationAddresses)
	} else {
		metav1.SetMetaDataAnnotation(&in.ObjectMeta, routing.AnnotationAddresses, wanted.Addresses)
	}
}

func setGatewayClassStatus(s *gatewayv1.GatewayClassStatus, wanted *routing.GatewayClassStatus, generation int64) {
	setConditions(&s.Conditions, wanted.Conditions, generation)
	s.SupportedFeatures = nil
	for _, name := range wanted.Features {
		s.SupportedFeatures = append(s.SupportedFeatures, gatewayv1.SupportedFeature{Name: gatewayv1.FeatureName(name)})
	}
}

func setGatewayStatus(s *gatewayv1.GatewayStatus, wanted *routing.GatewayStatus, generation int64) {
	setConditions(&s.Conditions, wanted.Conditions, generation)
	// The status is what keeps an address of its own, also while nothing is served at it.
	if meta.IsStatusConditionTrue(s.Conditions, string(gatewayv1.GatewayConditionAccepted)) || len(wanted.Addresses) > 0 {
		s.Addresses = nil
		for _, address := range wanted.Addresses[:min(len(wanted.Addresses), mostGatewayAddresses)] {
			s.Addresses = append(s.Addresses, addressOf(address))
		}
	}
	before := s.Listeners
	s.Listeners = nil
	for _, l := range wanted.Listeners {
		at := slices.IndexFunc(before, func(b gatewayv1.ListenerStatus) bool { return string(b.Name) == l.Name })
		next := gatewayv1.ListenerStatus{Name: gatewayv1.SectionName(l.Name)}
		if at >= 0 {
			next.Conditions = before[at].Conditions
		}
		next.SupportedKinds, next.AttachedRoutes = l.SupportedKinds, l.AttachedRoutes
		setConditions(&next.Conditions, l.Conditions, generation)
		s.Listeners = append(s.Listeners, next)
	}
}

// mostGatewayAddresses may stand in the status of a Gateway (maxItems of its CRD).
const mostGatewayAddresses = 16

// programmed is that proxies have a Gateway: which ones is told by the message, so that another IngressDaemonSet's are
// not taken to have it.
func programmed(set types.NamespacedName) routing.Condition {
	return routing.Condition{Type: "Programmed", Status: "True", Reason: "Programmed", Message: "the proxies of IngressDaemonSet " + set.String() + " serve it"}
}

// isProgrammed reports whether conditions say of a Gateway's generation that the proxies of an IngressDaemonSet have it.
func isProgrammed(conditions []metav1.Condition, wanted status) bool {
	is := programmed(wanted.Gateway.IngressDaemonSet)
	c := meta.FindStatusCondition(conditions, is.Type)
	return c != nil && string(c.Status) == is.Status && strings.HasPrefix(c.Message, is.Message) && c.ObservedGeneration == wanted.Generation
}

// setProgrammed says whether proxies have what the compiler made of a Gateway, where that does not say that there is
// nothing to have. Once all have it that stays: proxies that come later get it before they serve, and the message says how
// many lag. A listener that one of them cannot use is not programmed, and names it.
func setProgrammed(s *gatewayv1.GatewayStatus, wanted status, acknowledged *Acknowledgements) {
	programmed := programmedBy(s.Conditions, wanted, acknowledged)
	for _, c := range wanted.Gateway.Conditions {
		if c.Type == programmed.Type {
			programmed.Status, programmed.Reason, programmed.Message = c.Status, "Pending", c.Message
		}
	}
	set := func(all *[]metav1.Condition, said []routing.Condition, programmed routing.Condition) {
		if !slices.ContainsFunc(said, func(c routing.Condition) bool { return c.Type == programmed.Type }) {
			setConditions(all, []routing.Condition{programmed}, wanted.Generation)
		}
	}
	set(&s.Conditions, wanted.Gateway.Conditions, programmed)
	refused := acknowledged.ofListeners(wanted.Gateway.IngressDaemonSet, types.NamespacedName{Namespace: wanted.Object.Namespace, Name: wanted.Object.Name})
	for i, l := range wanted.Gateway.Listeners {
		if c, is := refused[l.Name]; is {
			set(&s.Listeners[i].Conditions, l.Conditions, c)
		} else {
			set(&s.Listeners[i].Conditions, l.Conditions, programmed)
		}
	}
}

func programmedBy(before []metav1.Condition, wanted status, acknowledged *Acknowledgements) routing.Condition {
	set := wanted.Gateway.IngressDaemonSet
	now, is := acknowledged.count(acknowledged.of(set), wanted.Object, wanted), programmed(set)
	switch {
	case !now.lags():
		return is
	case isProgrammed(before, wanted):
		is.Message += wanted.behind
		return is
	case now.all == 0:
		return routing.Condition{Type: "Programmed", Status: "False", Reason: "Pending", Message: fmt.Sprintf("no proxy of IngressDaemonSet %s is connected", set)}
	}
	return routing.Condition{Type: "Programmed", Status: "False", Reason: "Pending", Message: "not all proxies have it yet" + wanted.behind}
}

// addressOf is an IP address, or otherwise a host name.
func addressOf(address string) gatewayv1.GatewayStatusAddress {
	kind := gatewayv1.IPAddressType
	if _, err := netip.ParseAddr(address); err != nil {
		kind = gatewayv1.HostnameAddressType
	}
	return gatewayv1.GatewayStatusAddress{Type: &kind, Value: address}
}

// setRouteStatus keeps what other controllers say, and the order.
func setRouteStatus(s *gatewayv1.RouteStatus, wanted *routing.RouteStatus, generation int64) {
	next := []gatewayv1.RouteParentStatus{}
	said := make([]bool, len(wanted.Parents))
	for _, p := range s.Parents {
		if p.ControllerName != routing.ControllerName {
			next = append(next, p)
			continue
		}
		at := slices.IndexFunc(wanted.Parents, func(w routing.ParentStatus) bool { return equality.Semantic.DeepEqual(w.Parent, p.ParentRef) })
		if at >= 0 && !said[at] {
			said[at] = true
			setConditions(&p.Conditions, wanted.Parents[at].Conditions, generation)
			next = append(next, p)
		}
	}
	for i, w := range wanted.Parents {
		if !said[i] && len(next) < mostRouteParents {
			p := gatewayv1.RouteParentStatus{ParentRef: w.Parent, ControllerName: routing.ControllerName}
			setConditions(&p.Conditions, w.Conditions, generation)
			next = append(next, p)
		}
	}
	s.Parents = next
}

// setPartiallyInvalid says of each parent of ours whether its proxies cannot use a part of the route.
func setPartiallyInvalid(s *gatewayv1.RouteStatus, wanted status, acknowledged *Acknowledgements) {
	for i := range s.Parents {
		p := &s.Parents[i]
		at := slices.IndexFunc(wanted.HTTPRoute.Parents, func(w routing.ParentStatus) bool { return equality.Semantic.DeepEqual(w.Parent, p.ParentRef) })
		if p.ControllerName != routing.ControllerName || at < 0 {
			continue
		}
		route := types.NamespacedName{Namespace: wanted.Object.Namespace, Name: wanted.Object.Name}
		if c, is := acknowledged.ofRoute(wanted.HTTPRoute.Parents[at].IngressDaemonSet, route); is {
			setConditions(&p.Conditions, []routing.Condition{c}, wanted.Generation)
		} else {
			meta.RemoveStatusCondition(&p.Conditions, partiallyInvalid)
		}
	}
}

// mostRouteParents may stand in the status of an HTTPRoute (maxItems of its CRD).
const mostRouteParents = 32

// overflow is for how many of our entries there is no room in the status of an HTTPRoute, because of others'.
func overflow(route *gatewayv1.HTTPRoute, wanted *routing.RouteStatus) int {
	entries := len(wanted.Parents)
	for _, p := range route.Status.Parents {
		if p.ControllerName != routing.ControllerName {
			entries++
		}
	}
	return max(0, entries-mostRouteParents)
}

// beside is an HTTPRoute as the API server has it, with our entries as another has them. Those of other controllers are
// not touched: they may say what this version of the API does not know.
func beside(raw *unstructured.Unstructured, next *gatewayv1.HTTPRoute) (*unstructured.Unstructured, error) {
	if raw.GetResourceVersion() != next.ResourceVersion {
		return nil, apierrors.NewConflict(schema.GroupResource{Group: gatewayv1.GroupName, Resource: "httproutes"}, next.Name, errors.New("it has changed since it was compiled"))
	}
	status, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&next.Status)
	if err != nil {
		return nil, fmt.Errorf("writing the status of HTTPRoute %s: %w", client.ObjectKeyFromObject(next), err)
	}
	isOurs := func(entry any) bool {
		e, is := entry.(map[string]any)
		return is && e["controllerName"] == routing.ControllerName
	}
	said, _, _ := unstructured.NestedSlice(status, "parents")
	ours := slices.DeleteFunc(said, func(entry any) bool { return !isOurs(entry) })
	out := raw.DeepCopy()
	before, _, _ := unstructured.NestedSlice(out.Object, "status", "parents")
	all := []any{}
	for _, entry := range before {
		switch {
		case !isOurs(entry):
			all = append(all, entry)
		case len(ours) > 0:
			all, ours = append(all, ours[0]), ours[1:]
		}
	}
	return out, unstructured.SetNestedSlice(out.Object, append(all, ours...), "status", "parents")
}

// setConditions sets these, and keeps those of other types: who follows is to say which there are.
func setConditions(all *[]metav1.Condition, wanted []routing.Condition, generation int64) {
	for _, c := range wanted {
		meta.SetStatusCondition(all, metav1.Condition{
			Type: c.Type, Status: metav1.ConditionStatus(c.Status), Reason: c.Reason, Message: c.Message, ObservedGeneration: generation,
		})
	}
}
