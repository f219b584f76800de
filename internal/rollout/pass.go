package rollout

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// pass is what there is to decide from: the State, what it comes to, and what is settled so far.
// Its methods are questions and the rules that go by them. They change nothing, and have no
// Decision that they could change.
type pass struct {
	State
	strategy v1alpha1.Strategy
	// desired is how many nodes are wanted, maxNodes the budget, minServing how many are to go on serving.
	desired, maxNodes, minServing int
	pods                          int32
	// goal is the revision that nodes are brought to: the present one, or the
	// current one where that was rejected.
	goal     string
	rejected *v1alpha1.RejectedRevision
	// timedOut are the nodes whose detachment timed out with the present spec.
	timedOut map[string]bool
	// analysis is where the analysis of the last wave stands, nil where there is none.
	analysis *v1alpha1.AnalysisStatus
	wave     map[string]bool
	views    []view
	// forbidden says which annotation on Nodes is not permitted, empty where all are.
	forbidden string
	// halts is why the rollout halts with this decision, empty where it goes on.
	halts string
}

// view is what is decided about one node.
type view struct {
	*Node
	// seen is when what stands on the node counts as first seen.
	seen Seen
	// target is the revision that the node should have.
	target string
	group  group
	// ignored says whether the budget does not count it, since it has been NotReady for so long.
	ignored bool
	// verdict is what is settled about it so far.
	verdict
}

// find is the view of the node of a name, nil where there is none.
func (p *pass) find(name string) *view {
	i, found := slices.BinarySearchFunc(p.views, name, func(v view, name string) int { return strings.Compare(v.Name, name) })
	if !found {
		return nil
	}
	return &p.views[i]
}

// ready reports whether the node of a name is there and Ready.
func (p *pass) ready(name string) bool {
	v := p.find(name)
	return v != nil && v.Ready
}

// sorted is a list in order, so that the order of the State does not matter.
func sorted[T any](list []T, compare func(a, b T) int) []T {
	if slices.IsSortedFunc(list, compare) {
		return list
	}
	list = slices.Clone(list)
	slices.SortFunc(list, compare)
	return list
}

// keptOut reports whether somebody wants the node out of the load balancer.
func (v *view) keptOut() bool { return v.Deployment != nil && v.Deployment.Detached }

func (p *pass) minReady() time.Duration {
	return time.Duration(p.Spec.MinReadySeconds) * time.Second
}

// turns reports whether the node, where it is in the wave, is there for its turn: not
// one that leaves, nor one that somebody drains or keeps out for as long as they like.
func (v *view) turns() bool {
	return v.Wanted && !v.keptOut() && !v.drained()
}

func (p *pass) refusal() string {
	return "the API server refuses the Deployment of the present template: " + p.DryRun.Refusal
}

// group is a set of nodes that is finished before the next begins.
type group struct {
	afterCanaries bool
	unlabelled    bool
	topology      string
}

func compareGroups(a, b group) int {
	return cmp.Or(order(a.afterCanaries, b.afterCanaries), order(a.unlabelled, b.unlabelled), cmp.Compare(a.topology, b.topology))
}

func order(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	default:
		return 1
	}
}

// resolve is a number of nodes. Admission refuses what cannot be resolved; if it
// comes through all the same it is safest, so that nothing is started, and the reason is
// reported.
func resolve(field string, value intstr.IntOrString, nodes, safest int) (int, Fault) {
	n, err := v1alpha1.Resolve(value, nodes)
	if err != nil {
		return safest, Fault{v1alpha1.ReasonInvalidSpec, field + ": " + err.Error()}
	}
	return n, Fault{}
}

// leftToOthers reports whether nothing is left to do on a node that is not put back in time.
func (v *view) leftToOthers() bool { return v.unreturned && v.done }
