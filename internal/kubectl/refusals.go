package kubectl

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/mumoshu/ingress-daemonset-controller/internal/routing"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// refusals are what conditions of the Gateway API say that is not served: most of it is told by no event.
func refusals(statuses map[routing.Ref]routing.Status) []routing.Event {
	all := map[routing.Event]bool{}
	for object, s := range statuses {
		note := func(of string, conditions []routing.Condition) {
			if c := firstFalse(conditions); c != nil {
				all[routing.Event{Object: object, Reason: c.Reason, Message: of + c.Message}] = true
			}
		}
		switch {
		case s.GatewayClass != nil:
			note("", s.GatewayClass.Conditions)
		case s.Gateway != nil:
			note("", s.Gateway.Conditions)
			for _, l := range s.Gateway.Listeners {
				note("listener "+l.Name+": ", l.Conditions)
			}
		case s.HTTPRoute != nil:
			for _, p := range s.HTTPRoute.Parents {
				note("at Gateway "+string(p.Parent.Name)+": ", p.Conditions)
			}
		}
	}
	return slices.SortedFunc(maps.Keys(all), func(a, b routing.Event) int {
		return cmp.Or(cmp.Compare(a.Object.String(), b.Object.String()), cmp.Compare(a.Reason, b.Reason), cmp.Compare(a.Message, b.Message))
	})
}

// firstFalse is what is wrong, nil where nothing is: that a listener is not in conflict is well.
func firstFalse(conditions []routing.Condition) *routing.Condition {
	for i, c := range conditions {
		if c.Status == "False" && c.Type != "Conflicted" {
			return &conditions[i]
		}
	}
	return nil
}

// classless are Ingresses whose class is not there: no controller tells them, because they are nobody's.
func classless(objects []metav1.Object) (out []routing.Event) {
	var classes []string
	for _, object := range objects {
		if class, is := object.(*networkingv1.IngressClass); is {
			classes = append(classes, class.Name)
		}
	}
	for _, object := range objects {
		in, is := object.(*networkingv1.Ingress)
		if !is || in.Spec.IngressClassName == nil || slices.Contains(classes, *in.Spec.IngressClassName) {
			continue
		}
		name := *in.Spec.IngressClassName
		out = append(out, routing.Event{
			Object: routing.Ref{Kind: "Ingress", Namespace: in.Namespace, Name: in.Name}, Reason: "ClassNotFound",
			Message: fmt.Sprintf("there is no IngressClass %q%s", name, meant("", nearest(name, classes))),
		})
	}
	return out
}
