package routing

import (
	"cmp"
	"fmt"

	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/wire"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

// gateway is what a Gateway of ours comes to.
type gateway struct {
	object wire.Object
	set    types.NamespacedName
	// problem is why nothing of it is served, with the reason and the message of its Accepted. missing is the same of
	// an IngressDaemonSet that is not there: what its pods serve stays.
	problem, missing Condition
	// onHost says whether its proxies see the addresses of their node.
	onHost    bool
	listeners []*gatewayListener
	wish      addressWish
}

// gatewayListener is a listener in a pass.
type gatewayListener struct {
	name, hostname string
	port           uint16
	https          bool
	certificates   []types.NamespacedName
	// usable says whether a good one is known.
	usable bool
	// unserved is why it is not accepted, unresolved why its references are not resolved, conflict why
	// it conflicts: their Reasons are empty where that is not so.
	unserved, unresolved, conflict Condition
	kinds                          []gatewayv1.RouteGroupKind
	may                            *gatewayv1.AllowedRoutes
}

func (l *gatewayListener) accepted() bool { return l.unserved.Reason == "" && l.conflict.Reason == "" }

func (v *view) compileGateway(k key) *outcome {
	object := read[gatewayv1.Gateway](v, gatewayObject, k.namespaced())
	if object == nil {
		return nil
	}
	c := value[gatewayClass](v, key{fact: gatewayClassUnit, name: string(object.Spec.GatewayClassName)})
	if c == nil {
		return &outcome{}
	}
	out := &outcome{joins: []key{keyOf(gatewayAddressUnit, k.namespaced()), keyOf(gatewayStatusUnit, k.namespaced())}}
	g := &gateway{object: objectOf(object), set: c.set}
	out.value = g
	if c.problem != "" {
		g.problem = Condition{Reason: "InvalidParameters", Message: fmt.Sprintf("GatewayClass %s: %s", object.Spec.GatewayClassName, c.problem)}
		return out
	}
	if c.missing != "" {
		g.missing = Condition{Reason: "InvalidParameters", Message: fmt.Sprintf("GatewayClass %s: %s", object.Spec.GatewayClassName, c.missing)}
	}
	g.onHost = v.onHostNetwork(object, c.set)
	if g.wish, g.problem = v.addressWish(object, g.onHost); g.problem.Reason != "" {
		return out
	}
	if !g.wish.empty() {
		out.joins = append(out.joins, assignedUnits)
	}
	for i := range object.Spec.Listeners {
		g.listeners = append(g.listeners, v.readListener(object, &object.Spec.Listeners[i], out))
	}
	markConflicts(g.listeners, object.Spec.Listeners)
	out.joins = append(out.joins, portsUnits, listenersOf(g.set))
	return out
}

func (v *view) readListener(object *gatewayv1.Gateway, in *gatewayv1.Listener, out *outcome) *gatewayListener {
	l := &gatewayListener{
		name: string(in.Name), hostname: normalHost(text(in.Hostname)), port: uint16(in.Port), https: in.Protocol == "HTTPS", may: in.AllowedRoutes,
	}
	if in.Protocol != "HTTP" && in.Protocol != "HTTPS" {
		l.unserved = Condition{Reason: "UnsupportedProtocol", Message: fmt.Sprintf("protocol %s is not supported: HTTP and HTTPS are", in.Protocol)}
		l.kinds = []gatewayv1.RouteGroupKind{}
		return l
	}
	l.readKinds()
	if l.https {
		if object.Spec.TLS != nil && object.Spec.TLS.Frontend != nil && asksForCertificates(object.Spec.TLS.Frontend, in.Port) {
			l.unserved = Condition{Reason: "UnsupportedValue", Message: "spec.tls.frontend asks for certificates of clients, which is not supported"}
		}
		v.readCertificates(object, in, l, out)
	}
	return l
}

// asksForCertificates reports whether clients at a port are to show certificates: such a listener is not to be served
// to all.
func asksForCertificates(tls *gatewayv1.FrontendTLSConfig, port int32) bool {
	for _, p := range tls.PerPort {
		if p.Port == port {
			return p.TLS.Validation != nil
		}
	}
	return tls.Default.Validation != nil
}

// readKinds keeps the kinds that are supported.
func (l *gatewayListener) readKinds() {
	group := gatewayv1.Group(gatewayGroup)
	ours := gatewayv1.RouteGroupKind{Group: &group, Kind: "HTTPRoute"}
	if l.may == nil || len(l.may.Kinds) == 0 {
		l.kinds = []gatewayv1.RouteGroupKind{ours}
		return
	}
	l.kinds = []gatewayv1.RouteGroupKind{}
	for _, kind := range l.may.Kinds {
		if kind.Kind == ours.Kind && (kind.Group == nil || *kind.Group == group) {
			l.kinds = []gatewayv1.RouteGroupKind{ours}
		} else {
			l.unresolved = Condition{Reason: "InvalidRouteKinds", Message: fmt.Sprintf("routes of kind %s of group %s are not supported", kind.Kind, textOr(kind.Group, gatewayGroup))}
		}
	}
}

// readCertificates keeps the last good certificates of Secrets to which the Gateway may refer.
func (v *view) readCertificates(object *gatewayv1.Gateway, in *gatewayv1.Listener, l *gatewayListener, out *outcome) {
	if in.TLS == nil || len(in.TLS.CertificateRefs) == 0 {
		l.unresolved = Condition{Reason: "InvalidCertificateRef", Message: "there are no certificateRefs"}
		return
	}
	for _, ref := range in.TLS.CertificateRefs {
		n := types.NamespacedName{Namespace: textOr(ref.Namespace, object.Namespace), Name: string(ref.Name)}
		if text(ref.Group) != "" || textOr(ref.Kind, "Secret") != "Secret" {
			l.unresolved = Condition{Reason: "InvalidCertificateRef", Message: fmt.Sprintf("certificateRef %s is a %s of group %q: it must be a Secret", ref.Name, text(ref.Kind), text(ref.Group))}
			continue
		}
		if !v.granted(subject{gatewayGroup, "Gateway", object.Namespace, ""}, subject{"", "Secret", n.Namespace, n.Name}) {
			l.unresolved = Condition{Reason: "RefNotPermitted", Message: fmt.Sprintf("no ReferenceGrant in namespace %s lets Gateways of %s refer to Secret %s", n.Namespace, object.Namespace, n.Name)}
			continue
		}
		out.joins = append(out.joins, keyOf(wantedUnit, n))
		s := v.secret(n)
		out.waits = out.waits || !s.answered
		if s.problem != "" {
			message := fmt.Sprintf("Secret %s %s", n, s.explained())
			l.unresolved = Condition{Reason: "InvalidCertificateRef", Message: message}
			out.warnings = append(out.warnings, Event{RefOf(object), ReasonInvalidCertificate, message})
		}
		l.certificates, l.usable = append(l.certificates, n), l.usable || s.good != nil
	}
}

// markConflicts finds listeners that cannot be told apart. None of them wins (Gateway API, "Handling
// indistinct Listeners").
func markConflicts(all []*gatewayListener, in []gatewayv1.Listener) {
	for i, a := range all {
		for j, b := range all {
			if i == j || a.port != b.port || a.unserved.Reason != "" || b.unserved.Reason != "" {
				continue
			}
			switch {
			case in[i].Protocol != in[j].Protocol:
				a.conflict = Condition{Reason: "ProtocolConflict", Message: fmt.Sprintf("listener %s has port %d for another protocol", b.name, b.port)}
			case a.hostname == b.hostname && a.conflict.Reason == "":
				a.conflict = Condition{Reason: "HostnameConflict", Message: fmt.Sprintf("listener %s has port %d for the same hostname", b.name, b.port)}
			}
		}
	}
}

// mayAttach reports whether routes of a namespace may attach to a listener of a Gateway.
func (v *view) mayAttach(g *gateway, l *gatewayListener, namespace string) bool {
	if len(l.kinds) == 0 {
		return false
	}
	if l.may == nil || l.may.Namespaces == nil {
		return namespace == g.object.Namespace
	}
	switch textOr(l.may.Namespaces.From, "Same") {
	case "All":
		return true
	case "Same":
		return namespace == g.object.Namespace
	case "Selector":
		selector, err := metav1.LabelSelectorAsSelector(l.may.Namespaces.Selector)
		return err == nil && selector.Matches(labels.Set(v.namespaceLabels(namespace)))
	}
	return false
}

// compileGatewayStatus counts routes and says what is known of the Gateway.
func (v *view) compileGatewayStatus(k key) *outcome {
	g := value[gateway](v, keyOf(gatewayUnit, k.namespaced()))
	if g == nil {
		return nil
	}
	g = g.without(v.ports(g.set).unavailable[g.name()])
	s := &GatewayStatus{IngressDaemonSet: g.set, Conditions: []Condition{g.acceptedCondition()}}
	served := s.Conditions[0].Status == "True"
	if why := v.unassigned(g); served && why.Reason != "" {
		s.Conditions = append(s.Conditions, why)
	} else if own := v.ownAddresses(g); served && len(own.all) > 0 {
		s.Addresses = own.all
	} else if served {
		s.Addresses = v.reachedAt(g.set)
	} else {
		s.Conditions = append(s.Conditions, Condition{"Programmed", "False", "Invalid", s.Conditions[0].Message})
	}
	attached := v.attachedRoutes(k)
	for _, l := range g.listeners {
		s.Listeners = append(s.Listeners, l.status(attached[l.name]))
	}
	return &outcome{status: &Status{Object: Ref{"Gateway", k.namespace, k.name}, Generation: g.object.Generation, Gateway: s}}
}

// acceptedCondition is True where one listener can be served at least.
func (g *gateway) acceptedCondition() Condition {
	if why := cmp.Or(g.problem, g.missing); why.Reason != "" {
		return Condition{"Accepted", "False", why.Reason, why.Message}
	}
	var invalid []string
	for _, l := range g.listeners {
		if !l.accepted() {
			invalid = append(invalid, l.name)
		}
	}
	switch len(invalid) {
	case 0:
		return Condition{"Accepted", "True", "Accepted", "all listeners are accepted"}
	case len(g.listeners):
		return Condition{"Accepted", "False", "ListenersNotValid", "no listener can be served"}
	}
	return Condition{"Accepted", "True", "ListenersNotValid", "listeners that cannot be served: " + quoted(invalid)}
}

// unassigned is why a Gateway has no address.
func (v *view) unassigned(g *gateway) Condition {
	if own := v.ownAddresses(g); own.problem.Reason != "" || len(own.all) > 0 {
		return own.problem
	}
	if why := v.ports(g.set).lost[g.name()]; why != "" {
		return Condition{"Programmed", "False", "AddressNotAssigned", why + ": choose another port, or give Gateways addresses of their own, see --gateway-addresses"}
	}
	return Condition{}
}

func (g *gateway) name() types.NamespacedName {
	return types.NamespacedName{Namespace: g.object.Namespace, Name: g.object.Name}
}

// attachedRoutes are how many routes attach to each listener of a Gateway.
func (v *view) attachedRoutes(k key) map[string]int32 {
	out := map[string]int32{}
	for r := range membersOf[route](v, k, routeUnit) {
		for _, listener := range r.attached[k.namespaced()] {
			out[listener]++
		}
	}
	return out
}

func (l *gatewayListener) status(attached int32) ListenerStatus {
	s := ListenerStatus{Name: l.name, SupportedKinds: l.kinds, AttachedRoutes: attached}
	accepted := Condition{"Accepted", "True", "Accepted", ""}
	conflicted := Condition{"Conflicted", "False", "NoConflicts", ""}
	resolved := Condition{"ResolvedRefs", "True", "ResolvedRefs", ""}
	switch {
	case l.conflict.Reason != "":
		accepted = Condition{"Accepted", "False", l.conflict.Reason, l.conflict.Message}
		conflicted = Condition{"Conflicted", "True", l.conflict.Reason, l.conflict.Message}
	case l.unserved.Reason != "":
		accepted = Condition{"Accepted", "False", l.unserved.Reason, l.unserved.Message}
	}
	if l.unresolved.Reason != "" {
		resolved = Condition{"ResolvedRefs", "False", l.unresolved.Reason, l.unresolved.Message}
	}
	s.Conditions = []Condition{accepted, conflicted, resolved}
	if !l.accepted() || l.https && !l.usable {
		s.Conditions = append(s.Conditions, Condition{"Programmed", "False", "Invalid", "the listener cannot be served"})
	}
	return s
}
