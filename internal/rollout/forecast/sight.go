package forecast

import (
	"cmp"
	"reflect"
	"slices"
	"strings"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/rollout"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// mostAtOnce is how many nodes the planner has under way together, whatever the budget.
const mostAtOnce = 1000

// sight is the part of a fleet that a decision depends on, so that a look costs as much
// as a wave is great, not the fleet.
//
// Invariant: the planner decides on what is in sight as it would on the fleet. A node is
// out of sight only while it is settled: it serves, and nothing is on its way to it. Of
// such nodes those are in sight that begin next, of each revision that nodes go to one
// more than may begin together, and one of each revision that nodes have. The others are
// counted: in minServingNodes, in what is a percentage, and in the partition.
type sight struct {
	strategy v1alpha1.Strategy
	pods     int32
	// budget is how many nodes may be out, minServing how many must go on serving, stay how many
	// the partition holds back.
	budget, minServing, stay int
	// order are the nodes in the order of their turns, by their place in the fleet.
	order []int
	// open are the nodes that are not settled, settled tells the others.
	open    []int
	settled []bool
	// revisions are those that settled nodes have, the present one first; has is the
	// place of a node's own among them.
	revisions []string
	has       []int
	// nodes are those in sight, stays how many of them the partition holds back, and
	// others how many are out of sight. They are nil where they are to be found anew.
	nodes         []int
	stays, others int
}

// newSight is nil where the planner has to see the whole fleet.
func newSight(f *fleet) *sight {
	v := &sight{strategy: f.Spec.Strategy(), pods: f.Spec.Pods(), settled: make([]bool, len(f.Nodes)), has: make([]int, len(f.Nodes)), revisions: []string{f.Revision}}
	wanted := 0
	for i := range f.Nodes {
		v.order = append(v.order, i)
		v.open = append(v.open, i)
		if f.Nodes[i].Wanted {
			wanted++
		}
	}
	resolvable := true
	resolve := func(value intstr.IntOrString) int {
		n, err := v1alpha1.Resolve(value, wanted)
		resolvable = resolvable && err == nil
		return n
	}
	v.budget, v.minServing, v.stay = resolve(v.strategy.MaxNodes), resolve(v.strategy.MinServingNodes), resolve(v.strategy.Partition)
	if !resolvable || v.budget == 0 || v.pods == 0 || f.Deletion != rollout.NotDeleted {
		return nil
	}
	slices.SortFunc(v.order, func(a, b int) int { return v.inTurn(&f.Nodes[a], &f.Nodes[b]) })
	return v
}

// inTurn is the planner's order: canaries, then by the value of the topology key, those
// without last, then by name.
func (v *sight) inTurn(a, b *rollout.Node) int {
	later := func(is bool) int {
		if is {
			return 1
		}
		return 0
	}
	value := func(n *rollout.Node) string { return n.Labels[v.strategy.TopologyKey] }
	return cmp.Or(
		later(!v.canary(a))-later(!v.canary(b)),
		later(value(a) == "")-later(value(b) == ""),
		strings.Compare(value(a), value(b)),
		strings.Compare(a.Name, b.Name),
	)
}

func (v *sight) canary(n *rollout.Node) bool {
	for key, value := range v.strategy.CanaryNodeSelector {
		if got, ok := n.Labels[key]; !ok || got != value {
			return false
		}
	}
	return len(v.strategy.CanaryNodeSelector) > 0
}

// decide is rollout.Plan on the fleet. Where the template is refused or rejected, nodes
// go elsewhere than is thought here, and few at that.
func (f *fleet) decide() rollout.Decision {
	if f.sight == nil || f.Status.Rejected != nil || f.DryRun.Refusal != "" {
		return rollout.Plan(f.State)
	}
	f.settleOpen()
	v := f.sight
	if v.nodes == nil {
		f.find()
	}
	s := f.State
	s.Nodes = make([]rollout.Node, 0, len(v.nodes))
	for _, i := range v.nodes {
		s.Nodes = append(s.Nodes, f.Nodes[i])
	}
	var u v1alpha1.RollingUpdate
	if given := f.Spec.UpdateStrategy.RollingUpdate; given != nil {
		u = *given
	}
	u.MinServingNodes = new(intstr.FromInt(max(0, v.minServing-v.others)))
	u.Partition = new(intstr.FromInt(v.stays))
	if v.strategy.Detaching {
		u.MaxUnavailableNodes = new(intstr.FromInt(v.budget))
	} else {
		u.MaxDegradedNodes = new(intstr.FromInt(v.budget))
	}
	s.Spec.UpdateStrategy.RollingUpdate = &u
	return rollout.Plan(s)
}

// touch is told of a node to which a step is done, or which is named in the wave.
func (f *fleet) touch(i int) {
	if v := f.sight; v != nil && v.settled[i] {
		v.settled[i], v.open, v.nodes = false, append(v.open, i), nil
	}
}

// settleOpen notes the nodes that are settled by now.
func (f *fleet) settleOpen() {
	v := f.sight
	v.open = slices.DeleteFunc(v.open, func(i int) bool {
		if v.settled[i] = f.settled(&f.Nodes[i]); v.settled[i] {
			v.has[i], v.nodes = v.place(f.Nodes[i].Deployment.Revision), nil
		}
		return v.settled[i]
	})
}

// settled reports whether the planner only counts the node, until its turn comes. Whatever
// is not known here to mean nothing, means something.
func (f *fleet) settled(n *rollout.Node) bool {
	d, grace := n.Deployment, f.sight.strategy.AttachGrace
	if d == nil || f.pending[n.Name] > 0 || slices.Contains(f.Status.Wave, n.Name) || d.AttachedAt.Add(grace).After(f.Now) ||
		!f.Revisions[d.Revision] || len(n.Pods) != int(d.PodsPerNode) {
		return false
	}
	if a := f.Status.Analysis; a != nil && slices.Contains(a.Nodes, n.Name) {
		return false
	}
	for _, p := range n.Pods {
		available := p.ReadySince.Add(f.minReady())
		if available.After(f.Now) || p != (rollout.Pod{Name: p.Name, Revision: d.Revision, ReplicaSet: p.ReplicaSet, Created: p.Created, Ready: true, ReadySince: p.ReadySince, Running: true}) {
			return false
		}
	}
	for _, c := range n.Checks {
		if c.Since.Add(grace).After(f.Now) || c != (rollout.Check{Port: c.Port, Answered: true, Serving: true, Unmarked: c.Unmarked, Since: c.Since}) {
			return false
		}
	}
	return reflect.DeepEqual(*n, rollout.Node{
		Name: n.Name, Exists: true, Wanted: true, Ready: true, Labels: n.Labels, CheckersSettled: true, Pods: n.Pods, Checks: n.Checks,
		Deployment: &rollout.Deployment{
			Name: d.Name, Revision: d.Revision, PodsPerNode: d.PodsPerNode, Replicas: d.PodsPerNode, Surge: d.Surge,
			Settled: true, UpdatedReplicas: d.PodsPerNode, ReadyReplicas: d.PodsPerNode, UpdatedAt: d.UpdatedAt, AttachedAt: d.AttachedAt,
		},
	})
}

// place is that of a revision among those that settled nodes have.
func (v *sight) place(revision string) int {
	if i := slices.Index(v.revisions, revision); i >= 0 {
		return i
	}
	v.revisions = append(v.revisions, revision)
	return len(v.revisions) - 1
}

// find finds what is in sight. It runs for each node that begins and that serves again.
func (f *fleet) find() {
	v := f.sight
	stays := f.staying()
	v.nodes, v.stays, v.others = []int{}, 0, 0
	most := min(v.budget, mostAtOnce) + 1
	// Both are by the place of a revision: whether a node has it, and how many go to it.
	shown, next := make([]bool, len(v.revisions)), make([]int, len(v.revisions))
	for _, i := range v.order {
		if v.settled[i] {
			has, target := v.has[i], 0
			if stays[i] {
				target = has
			}
			waits := has != target || f.Nodes[i].Deployment.PodsPerNode != v.pods
			if shown[has] && (!waits || next[target] >= most) {
				v.others++
				continue
			}
			shown[has] = true
			if waits {
				next[target]++
			}
		}
		v.nodes = append(v.nodes, i)
		if stays[i] {
			v.stays++
		}
	}
}

// staying are the nodes that the partition holds back: the last ones, those that have
// the revision before all others, and those on their way to it before the rest.
func (f *fleet) staying() []bool {
	stays, left := make([]bool, len(f.Nodes)), f.sight.stay
	for distance := 2; distance >= 0 && left > 0; distance-- {
		for _, i := range slices.Backward(f.sight.order) {
			if n := &f.Nodes[i]; left > 0 && n.Wanted && f.distance(i) == distance {
				stays[i] = true
				left--
			}
		}
	}
	return stays
}

func (f *fleet) distance(i int) int {
	n := &f.Nodes[i]
	switch d := n.Deployment; {
	case d != nil && d.Revision == f.Revision:
		return 0
	case d != nil && d.Detached:
		return 2
	case n.Marked(), !f.sight.settled[i] && slices.Contains(f.Status.Wave, n.Name):
		return 1
	default:
		return 2
	}
}
