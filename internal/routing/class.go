package routing

import (
	"fmt"
	"strings"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/wire"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/types"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

// Reasons of events about classes.
const (
	// ReasonInvalidParameters: a class does not name an IngressDaemonSet that there is.
	ReasonInvalidParameters = "InvalidParameters"
	// ReasonClassesDiffer: an Ingress names two classes.
	ReasonClassesDiffer = "ClassesDiffer"
)

// annotationClass names the class of an Ingress, as before there were IngressClasses.
const annotationClass = "kubernetes.io/ingress.class"

// class is an IngressClass of ours.
type class struct {
	object wire.Object
	// set is the IngressDaemonSet whose proxies serve it, problem why none is named, and missing that it is not
	// there: its pods may serve on, whoever deleted it.
	set              types.NamespacedName
	problem, missing string
}

// defaultClass is the name of the class of Ingresses that name none.
type defaultClass struct{ name string }

func (v *view) compileClass(k key) *outcome {
	object := v.ingressClass(k.name)
	if object == nil || object.Spec.Controller != ControllerName {
		return nil
	}
	c := &class{object: objectOf(object)}
	out := &outcome{value: c}
	if c.set, c.problem = setNamedBy(object.Spec.Parameters); c.problem == "" {
		c.missing = v.missing(c.set)
		out.joins = []key{portsUnits, listenersOf(c.set)}
	}
	return out
}

// SetsOf are the IngressDaemonSets that classes of ours name, whether they are there or not: the proxies of
// these and of no others are told anything.
func SetsOf(classes []networkingv1.IngressClass, gateways []gatewayv1.GatewayClass) map[types.NamespacedName]bool {
	sets := map[types.NamespacedName]bool{}
	for _, c := range gateways {
		if c.Spec.ControllerName != ControllerName {
			continue
		}
		if set, problem := setReferredTo(c.Spec.ParametersRef); problem == "" {
			sets[set] = true
		}
	}
	for _, c := range classes {
		if c.Spec.Controller != ControllerName {
			continue
		}
		if set, problem := setNamedBy(c.Spec.Parameters); problem == "" {
			sets[set] = true
		}
	}
	return sets
}

// setNamedBy is the name that parameters have, or what is wrong with them.
func setNamedBy(p *networkingv1.IngressClassParametersReference) (set types.NamespacedName, problem string) {
	switch {
	case p == nil:
		return set, "spec.parameters must name an IngressDaemonSet, and is missing"
	case deref(p.APIGroup) != v1alpha1.Kind.Group || p.Kind != v1alpha1.Kind.Kind:
		return set, fmt.Sprintf("spec.parameters names a %q of group %q: it must be an IngressDaemonSet of group %s", p.Kind, deref(p.APIGroup), v1alpha1.Kind.Group)
	case deref(p.Scope) != networkingv1.IngressClassParametersReferenceScopeNamespace || deref(p.Namespace) == "":
		return set, "spec.parameters must have scope Namespace and a namespace, because an IngressDaemonSet has one"
	}
	return types.NamespacedName{Namespace: *p.Namespace, Name: p.Name}, ""
}

// missing says that an IngressDaemonSet is not there, empty where it is.
func (v *view) missing(n types.NamespacedName) string {
	if v.set(n) == nil {
		return fmt.Sprintf("there is no IngressDaemonSet %s", n)
	}
	return ""
}

// compileDefaultClass takes, of several defaults, the newest, and of these the first by name, as the
// API server does when it fills in the class of a new Ingress.
func (v *view) compileDefaultClass(key) *outcome {
	var newest *networkingv1.IngressClass
	for _, c := range v.classes() {
		if c.Annotations[networkingv1.AnnotationIsDefaultIngressClass] != "true" {
			continue
		}
		if newest == nil || c.CreationTimestamp.After(newest.CreationTimestamp.Time) {
			newest = c
		}
	}
	if newest == nil {
		return &outcome{}
	}
	return &outcome{value: &defaultClass{newest.Name}}
}

// classOf is the name of an Ingress's class, empty for none. The annotation goes before the field, as
// the API says, and both go before the default.
func (v *view) classOf(in *networkingv1.Ingress) string {
	name, annotated := in.Annotations[annotationClass]
	switch {
	case annotated:
		return name
	case in.Spec.IngressClassName != nil:
		return *in.Spec.IngressClassName
	}
	if d := value[defaultClass](v, key{fact: defaultClassUnit}); d != nil {
		return d.name
	}
	return ""
}

// classesDiffer says that the annotation and the field name different classes.
func classesDiffer(in *networkingv1.Ingress) (message string, differ bool) {
	annotated, is := in.Annotations[annotationClass]
	named := deref(in.Spec.IngressClassName)
	if !is || named == "" || annotated == named {
		return "", false
	}
	return fmt.Sprintf("annotation %s is %q, spec.ingressClassName %q: the annotation counts", annotationClass, annotated, named), true
}

func deref[T any](p *T) T {
	var zero T
	if p == nil {
		return zero
	}
	return *p
}

// quoted are names for a message: "a", "b" and "c".
func quoted(names []string) string {
	var out []string
	for _, n := range names {
		out = append(out, fmt.Sprintf("%q", n))
	}
	if len(out) < 2 {
		return strings.Join(out, "")
	}
	return strings.Join(out[:len(out)-1], ", ") + " and " + out[len(out)-1]
}
