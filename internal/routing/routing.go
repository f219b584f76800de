// Package routing compiles Ingress and Gateway API objects, with the Services, EndpointSlices and
// Secrets that they name, into what each IngressDaemonSet's proxies are told (package wire), the
// statuses to write and the events to record. Nothing here does I/O or reads a clock.
//
// Its files, in the order in which to open them:
//
//	routing.go      Options, Compiler, Result: what comes in and what goes out
//	objects.go      Set and Delete: an object comes or goes, and what read it is to be compiled again
//	alike.go        what of objects that often change is read
//	key.go          names of facts; the units, in the order in which they are compiled
//	units.go        what compiles each unit
//	engine.go       Compile: dirty units one after another, an index of who read what, the difference
//	view.go         what a unit may read; each read goes into the index
//	class.go        which IngressDaemonSet a class names, which class an Ingress has
//	ingress.go      one Ingress: which paths of hosts it wants, its certificates
//	shares.go       which services of one path get which part; weights.go: the annotation
//	host.go         one host of one IngressDaemonSet: of those that want a path the first has it
//	status.go       status.loadBalancer of an Ingress; nodes.go: where an IngressDaemonSet is reached at its nodes
//	meetings.go     which IngressDaemonSets want pods on the same nodes; ports.go: who has which port there
//	listeners.go    the listeners of an IngressDaemonSet: for its Ingresses, and of its Gateways
//	backend.go      a Service port; policy.go: our annotations on it; endpoints.go: its EndpointSlices
//	certificate.go  Secrets: the last good one serves on
//	paths.go        normal form of paths, host names
//
//	gatewayapi.go   the kinds of the Gateway API, as much of them as is read; their statuses
//	gatewayclass.go which IngressDaemonSet a GatewayClass names; ReferenceGrants
//	gateway.go      a Gateway's listeners, what is wrong with them, its status
//	gatewayaddress.go which addresses a Gateway has
//	parents.go      where an HTTPRoute is served; entries.go: which HTTPRoutes of a namespace have too many entries
//	httproute.go    an HTTPRoute: its rules, as proxies are told
//	httprule.go     one rule: matches and backends; httpfilter.go: filters and timeouts
//
// Each unit reads facts through a view and gives an outcome: a value for units after it, resources,
// warnings, a status. It keeps nothing. All that the Compiler remembers and objects do not tell any more are
// the last good certificates of Secrets; they end with the process.
package routing

import (
	"net/netip"
	"strings"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/wire"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/types"
)

// ControllerName is what an IngressClass's or GatewayClass's controller must be for it to be ours.
const ControllerName = "ingressdaemonsets.mumoshu.github.io/proxy"

// Options hold for all classes.
type Options struct {
	// DefaultCertificate is the Secret whose certificate is presented for Ingresses where no other fits
	// or no name is asked for. Empty is none: such a handshake fails.
	DefaultCertificate types.NamespacedName
	// GatewayAddresses are those that Gateways may have; without any they are reached at nodes.
	GatewayAddresses []netip.Prefix
}

// Ref names an object. Kinds are those of the API, such as Ingress or Service.
type Ref struct{ Kind, Namespace, Name string }

// String is the kind, and the name with its namespace.
func (r Ref) String() string {
	if r.Namespace == "" {
		return r.Kind + " " + r.Name
	}
	return r.Kind + " " + r.Namespace + "/" + r.Name
}

// Compiler holds objects, and what was compiled from them. It is not safe for concurrent use.
type Compiler struct {
	options Options
	objects map[key]any
	secrets map[types.NamespacedName]*secret
	engine
}

// New has no objects.
func New(options Options) *Compiler {
	return &Compiler{options: options, objects: map[key]any{}, secrets: map[types.NamespacedName]*secret{}, engine: newEngine()}
}

// Result is what is new since the last Compile.
type Result struct {
	// Changes are by IngressDaemonSet, in the order of their names.
	Changes []Change
	// Statuses are those to write, in the order of their objects. Of Settled there is none to write any more.
	Statuses []Status
	Settled  []Ref
	// Events are those to record, once for each cause for as long as it lasts.
	Events []Event
	// WakeAt is when Compile has something to say though nothing changed, zero for never.
	WakeAt time.Time
}

// Change is what an IngressDaemonSet's proxies are to be told.
type Change struct {
	IngressDaemonSet types.NamespacedName
	// Changed are new ones and ones with other content, in the order of kinds and names: what is named
	// comes before who names it. Removed are in the opposite order.
	Changed []wire.Resource
	Removed []ResourceName
}

// ResourceName is a resource's kind and name.
type ResourceName struct {
	Kind wire.Kind
	Name string
}

// Event is a warning about an object.
type Event struct {
	Object Ref
	// Reason is in CamelCase, Message a sentence for people.
	Reason, Message string
}

// maxNote bounds the bytes of an event's note: the API server takes no more than 1,024.
const maxNote = 1000

// Note is a message as far as an event has room for it.
func Note(message string) string {
	return strings.ToValidUTF8(message[:min(len(message), maxNote)], "")
}

// Status is what an object's status is to say: one of its fields, the others are nil.
type Status struct {
	Object Ref
	// Generation is what of the object was read.
	Generation   int64
	Ingress      *IngressStatus
	GatewayClass *GatewayClassStatus
	Gateway      *GatewayStatus
	HTTPRoute    *RouteStatus
}

// IngressStatus is the status of an Ingress, and on record which of it is ours: both are written at once.
type IngressStatus struct {
	// LoadBalancer is the whole list of status.loadBalancer, with the entries of others that were there.
	LoadBalancer []networkingv1.IngressLoadBalancerIngress
	// Addresses is the value of AnnotationAddresses, empty for none.
	Addresses string
}

// OriginOf is the object that a resource comes from, by its name on the stream, if that is one of ours.
func OriginOf(full string) (object Ref, is bool) {
	kind, name, err := wire.ParseName(full)
	parts := strings.Split(name, "/")
	switch {
	case err != nil || len(parts) < 2:
		return Ref{}, false
	case kind == wire.KindListener || kind == wire.KindRoute:
		// The name begins with the object's kind.
		if len(parts) < 3 {
			return Ref{}, false
		}
		return Ref{parts[0], parts[1], parts[2]}, true
	case kind == wire.KindCertificate:
		return Ref{"Secret", parts[0], parts[1]}, true
	}
	service, _, _ := strings.Cut(parts[1], ":")
	return Ref{"Service", parts[0], service}, true
}
