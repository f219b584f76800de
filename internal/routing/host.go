package routing

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/wire"
	"k8s.io/apimachinery/pkg/types"
)

// contender is a path of a host, and who wants it.
type contender struct {
	hostPath
	object wire.Object
}

// compileHost gives each path of a host to the first who wants it, and tells the others who that is.
func (v *view) compileHost(k key) *outcome {
	ingresses := v.members(k, ingressUnit)
	if len(ingresses) == 0 {
		return nil
	}
	out := &outcome{}
	taken := map[place]*contender{}
	for _, c := range v.contenders(k, ingresses) {
		at := place{k.name, c.pathType, c.path}
		if winner := taken[at]; winner != nil {
			out.warnings = append(out.warnings, c.loses(at, winner)...)
			continue
		}
		taken[at] = c
		out.resources = append(out.resources, published(k.set, c.route(k)))
		for _, s := range c.shares {
			if s.Backend != "" {
				out.joins = append(out.joins, s.backend.key().in(k.set))
			}
		}
	}
	return out
}

// contenders are in the order in which they get what they want.
func (v *view) contenders(k key, ingresses []key) (out []*contender) {
	for _, member := range ingresses {
		if in := value[ingress](v, member); in != nil && in.set == k.set {
			for _, c := range in.wants[k.name] {
				out = append(out, &contender{c, in.object})
			}
		}
	}
	slices.SortStableFunc(out, func(a, b *contender) int {
		return cmp.Or(compareBools(a.fallback, b.fallback), comparePrecedence(a.object, b.object))
	})
	return out
}

// comparePrecedence puts the older object first, then goes by namespace and name.
func comparePrecedence(a, b wire.Object) int {
	return cmp.Or(cmp.Compare(a.Created, b.Created), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

func compareBools(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// loses is what a contender is told of who has the place: nothing where that is itself.
func (c *contender) loses(at place, winner *contender) []Event {
	if c.object == winner.object {
		return nil
	}
	why := "which is older or, of the same age, goes before by its name"
	if c.fallback && !winner.fallback {
		why = "a rule of which goes before default backends"
	}
	return []Event{{refTo(c.object), ReasonConflict, fmt.Sprintf("%s belongs to Ingress %s/%s, %s", at, winner.object.Namespace, winner.object.Name, why)}}
}

func refTo(o wire.Object) Ref { return Ref{o.Kind, o.Namespace, o.Name} }

// route is what proxies are told of a path.
func (c *contender) route(k key) wire.Resource {
	r := &wire.Route{
		Object: c.object, Rule: c.rule, Listeners: []string{httpListener(k.set), httpsListener(k.set)},
		Matches: []wire.Match{{PathType: c.pathType, Path: c.path}}, Fallback: unavailable,
	}
	if k.name != "" {
		r.Hostnames, r.OneLabel = []string{k.name}, isWildcard(k.name)
	}
	for _, s := range c.shares {
		r.Backends = append(r.Backends, s.Share)
	}
	return wire.Resource{Name: ruleName(c.object, c.rule), Route: r}
}

// ruleName names a rule of an object.
func ruleName(o wire.Object, rule uint32) string {
	return fmt.Sprintf("%s/%s/%s/%d", o.Kind, o.Namespace, o.Name, rule)
}

func httpListener(set types.NamespacedName) string {
	return "IngressDaemonSet/" + set.String() + "/http"
}
func httpsListener(set types.NamespacedName) string {
	return "IngressDaemonSet/" + set.String() + "/https"
}
