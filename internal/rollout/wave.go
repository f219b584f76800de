package rollout

import (
	"fmt"
	"slices"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// maxWave bounds the nodes under way together, because their names are written
// into the status.
const maxWave = 1000

// continueWave lets nodes begin, within the budget and above the floor. A node
// begins in two steps: its name is written into status.wave, and only when that
// is seen it is touched. So a controller that acts on an old status cannot
// begin more than the budget: its write of the status is refused.
//
// Invariant: nodes out of the load balancer, for whatever reason, and nodes in
// the wave are together at most maxNodes, but for those that were out already;
// and serving nodes outside the wave never fall below the floor by our doing.
func (p *planner) continueWave() {
	used, serving := p.tally()
	wave := p.underWay()
	for _, v := range p.candidates() {
		cost := 0
		if v.state == v1alpha1.NodeServing || v.state == v1alpha1.NodeDegraded || v.state == v1alpha1.NodeRemoving {
			cost = 1
		}
		switch {
		case cost > 0 && used+cost > p.budget(v):
			p.blockOnBudget(wave)
			continue
		case cost > 0 && p.leaves(v, serving) < p.floor(v):
			p.block(v1alpha1.ReasonFloorReached, fmt.Sprintf("taking out node %s would leave %d nodes serving, minServingNodes is %d",
				v.Name, p.leaves(v, serving), p.strategy.MinServingNodes))
			continue
		case len(wave) >= maxWave:
			continue
		}
		used += cost
		if cost > 0 {
			serving = p.leaves(v, serving)
		}
		wave = append(wave, v.Name)
		if p.wave[v.Name] {
			p.begin(v)
		}
	}
	slices.Sort(wave)
	p.out.Status.Wave = slices.Compact(wave)
}

// begin touches a node whose name stands in status.wave.
func (p *planner) begin(v *view) {
	if !v.Wanted || p.strategy.Detaching {
		p.wait(v, v1alpha1.NodeDetaching, p.Now, "it is being marked")
		p.act(v, Step{Action: Mark, Mark: MarkValue(p.Now, p.revisionOf(v)), Reason: p.cause(v)})
		return
	}
	p.update(v, p.cause(v))
}

func (p *planner) revisionOf(v *view) string {
	if v.target == "" {
		return v.Deployment.Revision
	}
	return v.target
}

func (p *planner) cause(v *view) string {
	switch d := v.Deployment; {
	case !v.Wanted:
		return "the node is not in the node set any more"
	case d.Revision != v.target:
		return "it has revision " + d.Revision
	case d.PodsPerNode != p.pods:
		return fmt.Sprintf("it has %d pods instead of %d", d.PodsPerNode, p.pods)
	default:
		return "somebody else changed its Deployment"
	}
}

// budget is how many nodes may be out together. A node that leaves the set must
// be able to go even where no update is allowed.
func (p *planner) budget(v *view) int {
	if v.Wanted {
		return p.maxNodes
	}
	return max(1, p.maxNodes)
}

// floor is how many nodes of the set must go on serving when the node goes.
func (p *planner) floor(v *view) int {
	switch {
	case !v.Wanted:
		return min(p.desired, p.strategy.MinServingNodes)
	case p.strategy.Detaching:
		return p.strategy.MinServingNodes
	default:
		return 0
	}
}

// leaves is how many nodes of the set go on serving when the node goes.
func (p *planner) leaves(v *view, serving int) int {
	if v.Wanted {
		return serving - 1
	}
	return serving
}

// tally counts the nodes that use up budget already, and those that serve. A
// node that waits for its turn is not counted, even when it is named in the wave.
func (p *planner) tally() (used, serving int) {
	for i := range p.views {
		switch v := &p.views[i]; {
		case v.Wanted && v.state == v1alpha1.NodeServing:
			serving++
		case v.Wanted && v.state == v1alpha1.NodeDegraded && v.starts:
			serving++
		case v.Wanted || v.marked():
			used++
		}
	}
	return used, serving
}

// underWay are the nodes of the wave that were touched and do not serve yet.
func (p *planner) underWay() []string {
	var names []string
	for i := range p.views {
		v := &p.views[i]
		touched := v.marked() || v.Detachment.Requested || p.wave[v.Name] && !v.starts
		if v.Exists && touched && v.state != v1alpha1.NodeServing && v.state != "" {
			names = append(names, v.Name)
		}
	}
	return names
}

// mayStart is whether nodes may begin at all.
func (p *planner) mayStart() bool { return !p.Spec.Paused && !p.halted() && p.halts == "" }

// candidates are the nodes that may begin now, those first that were named in
// the wave already, then those that do not serve, then by order.
func (p *planner) candidates() []*view {
	var out []*view
	for _, v := range p.ordered() {
		if v.starts && !v.acted && p.allowed(v) {
			out = append(out, v)
		}
	}
	first := func(v *view) int {
		switch {
		case p.wave[v.Name]:
			return 0
		case v.state != v1alpha1.NodeServing:
			return 1
		default:
			return 2
		}
	}
	slices.SortStableFunc(out, func(a, b *view) int { return first(a) - first(b) })
	return out
}

// allowed is whether nothing but budget and floor keeps the node from beginning.
func (p *planner) allowed(v *view) bool {
	if !v.Wanted {
		return true
	}
	switch {
	case !p.mayStart():
		return false
	case !v.Ready:
		p.block(v1alpha1.ReasonNodeNotReady, "node "+v.Name+" waits for its update until it is Ready")
		return false
	case !p.accepted(v.target):
		return false
	case !p.checkersCurrent() || !v.CheckersSettled:
		p.block(v1alpha1.ReasonHealthCheckerNotReady, "node "+v.Name+" waits for its update until its health checkers are up to date and ready")
		return false
	}
	return p.inTurn(v)
}

// blockOnBudget reports nodes that use up the budget although nothing is under way.
func (p *planner) blockOnBudget(wave []string) {
	if len(wave) > 0 {
		return
	}
	for i := range p.views {
		if v := &p.views[i]; v.Wanted && v.state != v1alpha1.NodeServing && !v.starts {
			p.block(v1alpha1.ReasonBudgetExhausted, fmt.Sprintf("node %s does not serve (%s), which uses up the budget", v.Name, v.reason))
			return
		}
	}
}

// resolve is a budget in nodes. Admission refuses what cannot be resolved; if it
// comes through all the same, nothing is started and the reason is reported.
func (p *planner) resolve(field string, value intstr.IntOrString, nodes int) int {
	n, err := v1alpha1.Resolve(value, nodes)
	if err != nil {
		p.block(v1alpha1.ReasonInvalidSpec, field+": "+err.Error())
		return 0
	}
	return n
}
