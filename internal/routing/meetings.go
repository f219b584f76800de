package routing

import (
	"fmt"
	"slices"

	"github.com/mumoshu/ingress-daemonset-controller/internal/rollout/objects"
	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/wire"
	"k8s.io/apimachinery/pkg/types"
)

// IngressDaemonSets meet where several want pods on one node: of two that listen at a port of it with SO_REUSEPORT each
// gets only some of its connections.

var (
	// setsUnits is the one unit that has all IngressDaemonSets, meetingsUnits that which says who of them meet.
	setsUnits     = key{fact: setsUnit}
	meetingsUnits = key{fact: meetingsUnit}
)

// placedSet is an IngressDaemonSet, as far as it matters to others on its nodes.
type placedSet struct {
	object wire.Object
	onHost bool
	nodes  objects.NodeSet
	// checks are the ports of its health checks, own all that it declares.
	checks, own []int32
}

func (s *placedSet) name() types.NamespacedName {
	return types.NamespacedName{Namespace: s.object.Namespace, Name: s.object.Name}
}

// placedSets are all of them, the oldest first.
type placedSets struct{ all []*placedSet }

func (v *view) compileSets(key) *outcome {
	out := &placedSets{}
	for _, s := range listed[IngressDaemonSet](v, key{fact: ingressDaemonSets}) {
		out.all = append(out.all, &placedSet{objectOf(s), s.HostNetwork, objects.NodesFor(s.NodeSelector, &s.Pods), s.HealthCheckNodePorts, s.OwnPorts})
	}
	slices.SortFunc(out.all, func(a, b *placedSet) int { return comparePrecedence(a.object, b.object) })
	return &outcome{value: out}
}

func (v *view) placedSets() []*placedSet {
	if s := value[placedSets](v, setsUnits); s != nil {
		return s.all
	}
	return nil
}

// wantedBy are the IngressDaemonSets that want pods on a node, and their names as one, because most of thousands of
// nodes are wanted by the same.
type wantedBy struct {
	sets  []types.NamespacedName
	names string
}

func (v *view) compileNode(k key) *outcome {
	node := v.node(k.name)
	if node == nil {
		return nil
	}
	w := &wantedBy{}
	for _, s := range v.placedSets() {
		// Where a taint keeps new pods of one away, another may be kept for that node: it is not to lose its ports.
		if wants, err := s.nodes.Wants(node, false); wants && err == nil {
			w.sets = append(w.sets, s.name())
		}
	}
	w.names = fmt.Sprint(w.sets)
	out := &outcome{value: w}
	if len(w.sets) > 1 {
		out.joins = []key{meetingsUnits}
	}
	return out
}

// meetings are on which node an IngressDaemonSet meets another, the first by its name.
type meetings struct {
	of map[types.NamespacedName]map[types.NamespacedName]string
}

func (v *view) compileMeetings(k key) *outcome {
	m, seen := &meetings{map[types.NamespacedName]map[types.NamespacedName]string{}}, map[string]bool{}
	for _, node := range v.members(k, nodeUnit) {
		w := value[wantedBy](v, node)
		if w == nil || seen[w.names] {
			continue
		}
		seen[w.names] = true
		for _, one := range w.sets {
			for _, other := range w.sets {
				m.note(one, other, node.name)
			}
		}
	}
	return &outcome{value: m}
}

func (m *meetings) note(one, other types.NamespacedName, node string) {
	if m.of[one] == nil {
		m.of[one] = map[types.NamespacedName]string{}
	}
	if m.of[one][other] == "" && one != other {
		m.of[one][other] = node
	}
}

// meets is the node on which two IngressDaemonSets meet, empty for none.
func (v *view) meets(one, other types.NamespacedName) (node string) {
	if m := value[meetings](v, meetingsUnits); m != nil {
		return m.of[one][other]
	}
	return ""
}
