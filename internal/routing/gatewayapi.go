package routing

import (
	"k8s.io/apimachinery/pkg/types"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

const gatewayGroup = gatewayv1.GroupName

// text is what is given, empty where nothing is.
func text[T ~string](p *T) string { return string(deref(p)) }

// textOr is what is given, or otherwise another.
func textOr[T ~string](p *T, otherwise string) string {
	if p == nil {
		return otherwise
	}
	return string(*p)
}

// Condition is one of a status, without the time at which it changed: who writes it knows.
type Condition struct {
	Type, Status, Reason, Message string
}

// GatewayClassStatus is the status of a GatewayClass.
type GatewayClassStatus struct {
	Conditions []Condition
	// Features are the names of spec.supportedFeatures, in their order.
	Features []string
}

// GatewayStatus is the status of a Gateway. Programmed is there only where it is known to be False: whether
// proxies have what they were told is not known here.
type GatewayStatus struct {
	// IngressDaemonSet is whose proxies serve it.
	IngressDaemonSet types.NamespacedName
	Conditions       []Condition
	Listeners        []ListenerStatus
	// Addresses are where it is reached.
	Addresses []string
}

// ListenerStatus is the status of a listener; for Programmed see GatewayStatus.
type ListenerStatus struct {
	Name           string
	SupportedKinds []gatewayv1.RouteGroupKind
	AttachedRoutes int32
	Conditions     []Condition
}

// RouteStatus is what our controller says of a route's parents: entries of other controllers stay.
type RouteStatus struct {
	Parents []ParentStatus
}

// ParentStatus is about one parent, and whose proxies serve it.
type ParentStatus struct {
	Parent           gatewayv1.ParentReference
	IngressDaemonSet types.NamespacedName `json:"-"`
	Conditions       []Condition
}
