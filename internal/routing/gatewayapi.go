package routing

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// The kinds of the Gateway API (gateway.networking.k8s.io, v1.6.3), as much of each as is read here.
// Fields are named and written as there.

const gatewayGroup = "gateway.networking.k8s.io"

// GatewayClass is a class of Gateways.
type GatewayClass struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		ControllerName string            `json:"controllerName"`
		ParametersRef  *GatewayReference `json:"parametersRef,omitempty"`
	} `json:"spec"`
}

// GatewayReference names an object. A group that is not given is that which the field says.
type GatewayReference struct {
	Group     *string `json:"group,omitempty"`
	Kind      *string `json:"kind,omitempty"`
	Namespace *string `json:"namespace,omitempty"`
	Name      string  `json:"name"`
}

// Gateway is where traffic comes in.
type Gateway struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              GatewaySpec `json:"spec"`
}

// GatewaySpec is what of a Gateway is wanted.
type GatewaySpec struct {
	GatewayClassName string            `json:"gatewayClassName"`
	Listeners        []GatewayListener `json:"listeners"`
	Addresses        []GatewayAddress  `json:"addresses,omitempty"`
}

// GatewayAddress is where a Gateway is to be reached. Type is IPAddress where it is not given.
type GatewayAddress struct {
	Type  *string `json:"type,omitempty"`
	Value string  `json:"value,omitempty"`
}

// GatewayListener is one listener of a Gateway.
type GatewayListener struct {
	Name          string            `json:"name"`
	Hostname      *string           `json:"hostname,omitempty"`
	Port          int32             `json:"port"`
	Protocol      string            `json:"protocol"`
	TLS           *GatewayTLS       `json:"tls,omitempty"`
	AllowedRoutes *GatewayRoutesMay `json:"allowedRoutes,omitempty"`
}

// GatewayTLS is how TLS is terminated.
type GatewayTLS struct {
	Mode            *string            `json:"mode,omitempty"`
	CertificateRefs []GatewayReference `json:"certificateRefs,omitempty"`
}

// GatewayRoutesMay is which routes may attach.
type GatewayRoutesMay struct {
	Namespaces *struct {
		From     *string               `json:"from,omitempty"`
		Selector *metav1.LabelSelector `json:"selector,omitempty"`
	} `json:"namespaces,omitempty"`
	Kinds []RouteKind `json:"kinds,omitempty"`
}

// RouteKind is a kind of routes.
type RouteKind struct {
	Group *string `json:"group,omitempty"`
	Kind  string  `json:"kind"`
}

// HTTPRoute is which requests go where.
type HTTPRoute struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              HTTPRouteSpec `json:"spec"`
}

// HTTPRouteSpec is what of an HTTPRoute is wanted.
type HTTPRouteSpec struct {
	ParentRefs []ParentReference `json:"parentRefs,omitempty"`
	Hostnames  []string          `json:"hostnames,omitempty"`
	Rules      []HTTPRule        `json:"rules,omitempty"`
}

// ParentReference names a Gateway, and a listener or a port of it.
type ParentReference struct {
	Group       *string `json:"group,omitempty"`
	Kind        *string `json:"kind,omitempty"`
	Namespace   *string `json:"namespace,omitempty"`
	Name        string  `json:"name"`
	SectionName *string `json:"sectionName,omitempty"`
	Port        *int32  `json:"port,omitempty"`
}

// HTTPRule is one rule of an HTTPRoute.
type HTTPRule struct {
	Name        *string         `json:"name,omitempty"`
	Matches     []HTTPMatch     `json:"matches,omitempty"`
	Filters     []HTTPFilter    `json:"filters,omitempty"`
	BackendRefs []HTTPBackend   `json:"backendRefs,omitempty"`
	Timeouts    *HTTPTimeouts   `json:"timeouts,omitempty"`
	Retry       *map[string]any `json:"retry,omitempty"`
	// SessionPersistence is not supported, as Retry is not.
	SessionPersistence *map[string]any `json:"sessionPersistence,omitempty"`
}

// HTTPMatch is what a request must be like.
type HTTPMatch struct {
	Path        *HTTPValueMatch  `json:"path,omitempty"`
	Headers     []HTTPValueMatch `json:"headers,omitempty"`
	QueryParams []HTTPValueMatch `json:"queryParams,omitempty"`
	Method      *string          `json:"method,omitempty"`
}

// HTTPValueMatch is about a path, or the header or parameter that it names.
type HTTPValueMatch struct {
	Type  *string `json:"type,omitempty"`
	Name  string  `json:"name,omitempty"`
	Value *string `json:"value,omitempty"`
}

// HTTPFilter is one filter, of which Type says which.
type HTTPFilter struct {
	Type                   string              `json:"type"`
	RequestHeaderModifier  *HTTPHeaderModifier `json:"requestHeaderModifier,omitempty"`
	ResponseHeaderModifier *HTTPHeaderModifier `json:"responseHeaderModifier,omitempty"`
	RequestRedirect        *HTTPRedirect       `json:"requestRedirect,omitempty"`
	URLRewrite             *HTTPRewrite        `json:"urlRewrite,omitempty"`
}

// HTTPHeaderModifier changes headers.
type HTTPHeaderModifier struct {
	Set    []HTTPHeader `json:"set,omitempty"`
	Add    []HTTPHeader `json:"add,omitempty"`
	Remove []string     `json:"remove,omitempty"`
}

// HTTPHeader is a name and a value.
type HTTPHeader struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// HTTPRedirect is where a client is sent.
type HTTPRedirect struct {
	Scheme     *string           `json:"scheme,omitempty"`
	Hostname   *string           `json:"hostname,omitempty"`
	Path       *HTTPPathModifier `json:"path,omitempty"`
	Port       *int32            `json:"port,omitempty"`
	StatusCode *int              `json:"statusCode,omitempty"`
}

// HTTPRewrite is how a request is sent on.
type HTTPRewrite struct {
	Hostname *string           `json:"hostname,omitempty"`
	Path     *HTTPPathModifier `json:"path,omitempty"`
}

// HTTPPathModifier changes a path.
type HTTPPathModifier struct {
	Type               string  `json:"type"`
	ReplaceFullPath    *string `json:"replaceFullPath,omitempty"`
	ReplacePrefixMatch *string `json:"replacePrefixMatch,omitempty"`
}

// HTTPBackend gets requests. Weight is 1 where it is not given.
type HTTPBackend struct {
	GatewayReference `json:",inline"`
	Port             *int32       `json:"port,omitempty"`
	Weight           *int32       `json:"weight,omitempty"`
	Filters          []HTTPFilter `json:"filters,omitempty"`
}

// HTTPTimeouts are durations (GEP-2257); 0s is none.
type HTTPTimeouts struct {
	Request        *string `json:"request,omitempty"`
	BackendRequest *string `json:"backendRequest,omitempty"`
}

// ReferenceGrant lets objects of other namespaces refer to those of its own.
type ReferenceGrant struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		From []struct {
			Group     string `json:"group"`
			Kind      string `json:"kind"`
			Namespace string `json:"namespace"`
		} `json:"from"`
		To []struct {
			Group string  `json:"group"`
			Kind  string  `json:"kind"`
			Name  *string `json:"name,omitempty"`
		} `json:"to"`
	} `json:"spec"`
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
	Conditions []Condition
	Listeners  []ListenerStatus
	// Addresses are where it is reached.
	Addresses []string
}

// ListenerStatus is the status of a listener; for Programmed see GatewayStatus.
type ListenerStatus struct {
	Name           string
	SupportedKinds []RouteKind
	AttachedRoutes int32
	Conditions     []Condition
}

// RouteStatus is what our controller says of a route's parents: entries of other controllers stay.
type RouteStatus struct {
	Parents []ParentStatus
}

// ParentStatus is about one parent.
type ParentStatus struct {
	Parent     ParentReference
	Conditions []Condition
}
