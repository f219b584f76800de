package routing

import (
	"slices"

	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/wire"
	"k8s.io/apimachinery/pkg/types"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

// failed is what a share of an HTTPRoute answers whose reference is not resolved.
const failed = 500

// route is what an HTTPRoute comes to: to which listeners of each Gateway it attaches.
type route struct {
	attached map[types.NamespacedName][]string
}

// compileRoute tells proxies of each rule of an HTTPRoute, unless one of them asks for what is not
// supported: then none is served, and its parents say why.
func (v *view) compileRoute(k key) *outcome {
	object := read[gatewayv1.HTTPRoute](v, routeObject, k.namespaced())
	where := value[served](v, keyOf(attachUnit, k.namespaced()))
	if object == nil || where == nil {
		return nil
	}
	if len(where.parents) == 0 {
		return &outcome{status: withdrawn(object)}
	}
	r := &routeCompiler{view: v, object: object}
	rules, problem := r.readRules()
	out := &outcome{}
	result := &route{map[types.NamespacedName][]string{}}
	problems := map[types.NamespacedName]Condition{}
	for _, p := range where.parents {
		set := p.gateway.set
		if problems[set] = problem; problem.Reason == "" {
			problems[set] = v.tooMany(set, where)
		}
		gateway := p.gateway.name()
		out.joins = append(out.joins, keyOf(gatewayStatusUnit, gateway))
		for _, l := range p.listeners {
			if problems[set].Reason == "" {
				result.attached[gateway] = append(result.attached[gateway], l.name)
			}
		}
	}
	for gateway, listeners := range result.attached {
		result.attached[gateway] = distinctNames(listeners)
	}
	out.value = result
	for set, at := range where.at {
		if problems[set].Reason == "" {
			publishRules(set, at, rules, out)
		}
	}
	out.status = &Status{Object: RefOf(object), Generation: object.Generation, HTTPRoute: r.status(where.parents, problems)}
	return out
}

// withdrawn takes back what was said of parents that are not ours any more.
func withdrawn(object *gatewayv1.HTTPRoute) *Status {
	said := func(p gatewayv1.RouteParentStatus) bool { return p.ControllerName == ControllerName }
	if !slices.ContainsFunc(object.Status.Parents, said) {
		return nil
	}
	return &Status{Object: RefOf(object), Generation: object.Generation, HTTPRoute: &RouteStatus{}}
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

// publishRules tells the proxies of an IngressDaemonSet.
func publishRules(set types.NamespacedName, at *site, rules []*rule, out *outcome) {
	for _, rule := range rules {
		told := rule.Route
		told.Listeners, told.Hostnames = at.listeners, at.hostnames
		out.resources = append(out.resources, published(set, wire.Resource{Name: ruleName(told.Object, told.Rule), Route: &told}))
		for _, b := range rule.backends {
			out.joins = append(out.joins, b.key().in(set))
		}
	}
}

func distinctNames(all []string) []string {
	out := slices.Clone(all)
	slices.Sort(out)
	return slices.Compact(out)
}

// status says of each parent what is wrong, for its IngressDaemonSet.
func (r *routeCompiler) status(parents []*parent, problems map[types.NamespacedName]Condition) *RouteStatus {
	s := &RouteStatus{}
	for _, p := range parents {
		problem := problems[p.gateway.set]
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
		s.Parents = append(s.Parents, ParentStatus{p.ref, p.gateway.set, []Condition{accepted, resolved}})
	}
	return s
}
