package routing

import (
	"slices"

	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/wire"
	"k8s.io/apimachinery/pkg/types"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

// failed is what a share of an HTTPRoute answers whose reference is not resolved.
const failed = 500

// route is what an HTTPRoute comes to.
type route struct{ attached []attachment }

// compileRoute tells proxies of each rule of an HTTPRoute, unless one of them asks for what is not
// supported: then none is served, and its parents say why.
func (v *view) compileRoute(k key) *outcome {
	object := read[gatewayv1.HTTPRoute](v, routeObject, k.namespaced())
	if object == nil {
		return nil
	}
	parents := v.parents(object)
	if len(parents) == 0 {
		return &outcome{status: withdrawn(object)}
	}
	r := &routeCompiler{view: v, object: object}
	rules, problem := r.readRules()
	out := &outcome{}
	result := &route{}
	for _, p := range parents {
		out.joins = append(out.joins, keyOf(gatewayStatusUnit, p.gateway.name()))
		for _, l := range p.listeners {
			if problem.Reason == "" {
				result.attached = append(result.attached, attachment{p.gateway.name(), l.name})
			}
		}
	}
	out.value = result
	if problem.Reason == "" {
		r.publish(parents, rules, out)
	}
	out.status = &Status{Object: refOf(object), Generation: object.Generation, HTTPRoute: r.status(parents, problem)}
	return out
}

// withdrawn takes back what was said of parents that are not ours any more.
func withdrawn(object *gatewayv1.HTTPRoute) *Status {
	said := func(p gatewayv1.RouteParentStatus) bool { return p.ControllerName == ControllerName }
	if !slices.ContainsFunc(object.Status.Parents, said) {
		return nil
	}
	return &Status{Object: refOf(object), Generation: object.Generation, HTTPRoute: &RouteStatus{}}
}

// routeCompiler reads the rules of an HTTPRoute.
type routeCompiler struct {
	*view
	object *gatewayv1.HTTPRoute
	// unresolved is the first reference that is not resolved.
	unresolved Condition
}

// readRules gives all rules, or what is not supported.
func (r *routeCompiler) readRules() (out []*rule, problem Condition) {
	in := r.object.Spec.Rules
	if in == nil {
		in = []gatewayv1.HTTPRouteRule{{}}
	}
	for i := range in {
		read, problem := r.readRule(&in[i])
		if problem.Reason != "" {
			return nil, problem
		}
		read.Object, read.Rule, read.Named = objectOf(r.object), uint32(i), text(in[i].Name)
		out = append(out, read)
	}
	return out, Condition{}
}

// publish tells the proxies of each IngressDaemonSet to whose listeners the route attaches.
func (r *routeCompiler) publish(parents []*parent, rules []*rule, out *outcome) {
	listeners, hostnames := map[types.NamespacedName][]string{}, map[types.NamespacedName][]string{}
	for _, p := range parents {
		set := p.gateway.set
		if r.unassigned(p.gateway).Reason != "" {
			continue
		}
		addresses := nodes
		if own := r.ownAddresses(p.gateway); len(own.all) > 0 {
			addresses = own.all
		}
		for _, l := range p.listeners {
			if l.accepted() {
				for _, address := range addresses {
					listeners[set] = append(listeners[set], p.gateway.listenerName(l.name, address))
				}
				hostnames[set] = append(hostnames[set], intersecting(r.object.Spec.Hostnames, l.hostname)...)
			}
		}
	}
	for set, names := range listeners {
		for _, rule := range rules {
			told := rule.Route
			told.Listeners, told.Hostnames = distinctNames(names), distinctNames(hostnames[set])
			out.resources = append(out.resources, published(set, wire.Resource{Name: ruleName(told.Object, told.Rule), Route: &told}))
			for _, b := range rule.backends {
				out.joins = append(out.joins, b.key().in(set))
			}
		}
	}
}

func distinctNames(all []string) []string {
	out := slices.Clone(all)
	slices.Sort(out)
	return slices.Compact(out)
}

func (r *routeCompiler) status(parents []*parent, problem Condition) *RouteStatus {
	s := &RouteStatus{}
	for _, p := range parents {
		accepted := Condition{"Accepted", "True", "Accepted", ""}
		switch {
		case p.gateway.problem.Reason != "":
			accepted = Condition{"Accepted", "False", "NoMatchingParent", p.gateway.problem.Message}
		case p.refusal.Reason != "":
			accepted = Condition{"Accepted", "False", p.refusal.Reason, p.refusal.Message}
		case problem.Reason != "":
			accepted = Condition{"Accepted", "False", problem.Reason, problem.Message}
		}
		resolved := Condition{"ResolvedRefs", "True", "ResolvedRefs", ""}
		if r.unresolved.Reason != "" {
			resolved = Condition{"ResolvedRefs", "False", r.unresolved.Reason, r.unresolved.Message}
		}
		s.Parents = append(s.Parents, ParentStatus{p.ref, []Condition{accepted, resolved}})
	}
	return s
}
