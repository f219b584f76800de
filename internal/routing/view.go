package routing

import (
	"iter"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/types"
)

// view is what one unit may read. Each read is noted, so that the unit is compiled again when what it
// read is another: also what was not there.
type view struct {
	c     *Compiler
	reads map[key]bool
}

// read is an object of a kind, nil where it is not there.
func read[T any](v *view, f fact, n types.NamespacedName) *T {
	k := keyOf(f, n)
	v.reads[k] = true
	object, _ := v.c.objects[k].(*T)
	return object
}

func (v *view) ingressClass(name string) *networkingv1.IngressClass {
	return read[networkingv1.IngressClass](v, ingressClassObject, types.NamespacedName{Name: name})
}

func (v *view) ingress(n types.NamespacedName) *networkingv1.Ingress {
	return read[networkingv1.Ingress](v, ingressObject, n)
}

func (v *view) service(n types.NamespacedName) *corev1.Service {
	return read[corev1.Service](v, serviceObject, n)
}

func (v *view) set(n types.NamespacedName) *IngressDaemonSet {
	return read[IngressDaemonSet](v, setObject, n)
}

// namespaceLabels are those of a namespace, nil where it is not there.
func (v *view) namespaceLabels(name string) map[string]string {
	if n := read[corev1.Namespace](v, namespaceObject, types.NamespacedName{Name: name}); n != nil {
		return n.Labels
	}
	return nil
}

// slices are the EndpointSlices of a Service, in the order of their names.
func (v *view) slices(service types.NamespacedName) []*discoveryv1.EndpointSlice {
	return listed[discoveryv1.EndpointSlice](v, keyOf(slicesOf, service))
}

// classes are all IngressClasses, in the order of their names.
func (v *view) classes() []*networkingv1.IngressClass {
	return listed[networkingv1.IngressClass](v, key{fact: ingressClasses})
}

// listed are the objects of a list, in the order of their names.
func listed[T any](v *view, list key) (out []*T) {
	v.reads[list] = true
	for _, k := range slices.SortedFunc(maps.Keys(v.c.members[list]), compareKeys) {
		if object, ok := v.c.objects[k].(*T); ok {
			out = append(out, object)
		}
	}
	return out
}

// secret is what is known of one.
func (v *view) secret(n types.NamespacedName) secret {
	v.reads[keyOf(secretObject, n)] = true
	if s := v.c.secrets[n]; s != nil {
		return *s
	}
	return secret{}
}

// value is what a unit came to, nil where there is none.
func value[T any](v *view, k key) *T {
	v.reads[k] = true
	if o := v.c.outcomes[k]; o != nil {
		out, _ := o.value.(*T)
		return out
	}
	return nil
}

// membersOf are what the units of a kind that joined one came to, in no order. They need not be noted: a unit is
// compiled again when one joins, leaves or comes to another value.
func membersOf[T any](v *view, k key, f fact) iter.Seq[*T] {
	return func(yield func(*T) bool) {
		for member := range v.c.members[k] {
			o := v.c.outcomes[member]
			if member.fact != f || o == nil {
				continue
			}
			if value, is := o.value.(*T); is && !yield(value) {
				return
			}
		}
	}
}

// members are the units of a kind that joined one, in their order, which need not be noted either.
func (v *view) members(k key, f fact) (out []key) {
	for member := range v.c.members[k] {
		if member.fact == f {
			out = append(out, member)
		}
	}
	slices.SortFunc(out, compareKeys)
	return out
}
