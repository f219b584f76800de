package routing

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"
)

// maxEntries is for how many entries of the HTTPRoutes of a namespace there is room in a proxy, which keeps one for each
// listener, hostname and match of a rule. In bytes a route is short that has thousands of them, each of 125 bytes
// there. As many simple routes, each at two listeners, have no room in a stream.
const maxEntries = 50_000

// entriesOf is the unit of a namespace's HTTPRoutes at the proxies of an IngressDaemonSet.
func entriesOf(set types.NamespacedName, namespace string) key {
	return key{fact: entriesUnit, namespace: namespace}.in(set)
}

// entries are which HTTPRoutes of a namespace, by their names, have too many.
type entries struct{ refused map[string]bool }

// compileEntries has room for the oldest first. One for which there is none left is refused alone.
func (v *view) compileEntries(k key) *outcome {
	var all []*served
	total := 0
	for s := range membersOf[served](v, k, attachUnit) {
		all = append(all, s)
		total += s.at[k.set].entries
	}
	if len(all) == 0 {
		return nil
	}
	e := &entries{map[string]bool{}}
	if total > maxEntries {
		slices.SortFunc(all, func(a, b *served) int { return comparePrecedence(a.object, b.object) })
		left := maxEntries
		for _, s := range all {
			if n := s.at[k.set].entries; n <= left {
				left -= n
			} else {
				e.refused[s.object.Name] = true
			}
		}
	}
	return &outcome{value: e}
}

// tooMany says what to change of an HTTPRoute that has too many.
func (v *view) tooMany(set types.NamespacedName, s *served) Condition {
	at := s.at[set]
	if at == nil {
		return Condition{}
	}
	if e := value[entries](v, entriesOf(set, s.object.Namespace)); e == nil || !e.refused[s.object.Name] {
		return Condition{}
	}
	return unsupported("its matches for %d hostnames at %d listeners are %d entries in the proxies of IngressDaemonSet %s, more than older HTTPRoutes leave of the %d that namespace %s may have: "+
		"give it fewer matches or hostnames, or parentRefs with a sectionName", max(1, len(at.hostnames)), len(at.listeners), at.entries, set, maxEntries, s.object.Namespace)
}
