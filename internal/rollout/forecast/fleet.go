package forecast

import (
	"fmt"
	"slices"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/rollout"
)

// fleet is a State on which everything goes well.
type fleet struct {
	rollout.State
	pace   Pace
	events []event
	// places are the nodes' places in Nodes, pending how many events each waits for.
	places  map[string]int
	pending map[string]int
	sight   *sight
	// names is how many pods were made.
	names int
}

// event is something that happens to a node at a time.
type event struct {
	at      time.Time
	node    string
	happens func(*rollout.Node)
}

// newFleet copies a state. What is on its way in it arrives after the pace.
func newFleet(s rollout.State, pace Pace) *fleet {
	f := &fleet{State: s, pace: pace, places: map[string]int{}, pending: map[string]int{}}
	f.Nodes = slices.Clone(s.Nodes)
	f.Checkers = slices.Clone(s.Checkers)
	f.Revisions = map[string]bool{}
	for revision, recorded := range s.Revisions {
		f.Revisions[revision] = recorded
	}
	for i := range f.Nodes {
		n := &f.Nodes[i]
		f.places[n.Name] = i
		n.Pods = slices.Clone(n.Pods)
		n.Checks = slices.Clone(n.Checks)
		if n.Deployment != nil {
			d := *n.Deployment
			n.Deployment = &d
			f.settle(n)
		}
		f.answerDetacher(n)
	}
	f.sight = newSight(f)
	return f
}

// settle lets a Deployment that is on its way arrive at what it asks for.
func (f *fleet) settle(n *rollout.Node) {
	d := n.Deployment
	present, older := int32(0), false
	for _, p := range n.Pods {
		switch {
		case p.Terminating || p.Failed != "":
			f.after(f.pace.Stop, n, without(p.Name))
		case p.Revision != d.Revision:
			older = true
		default:
			present++
			if !p.Ready {
				f.after(f.pace.Ready, n, f.ready(p.Name))
			}
		}
	}
	if !d.Settled || older || present < d.Replicas {
		f.replace(n, rollout.Rolling{})
	}
}

// carryOut takes the steps of a decision at once.
func (f *fleet) carryOut(d rollout.Decision) {
	if v := f.sight; v != nil && v.stay > 0 && (len(d.Steps) > 0 || !slices.Equal(d.Status.Wave, f.Status.Wave)) {
		// Other nodes may be those that the partition holds back.
		v.nodes = nil
	}
	f.Status = d.Status
	for _, step := range d.Steps {
		switch step.Action {
		case rollout.DryRunDeployment:
			f.DryRun = rollout.DryRun{Done: true}
		case rollout.Measure:
			f.Measurements = append(slices.DeleteFunc(f.Measurements, func(m rollout.Measurement) bool { return m.Check == step.Check }),
				rollout.Measurement{Check: step.Check, Analysis: step.Analysis, At: f.Now})
		case rollout.RecordRevision:
			f.Revisions[step.Revision], f.BroughtBack = true, false
		case rollout.ApplyChecker, rollout.DeleteChecker:
			f.check(step)
		}
		if i, ok := f.places[step.Node]; ok {
			f.touch(i)
			f.act(&f.Nodes[i], step)
			f.answer(&f.Nodes[i])
		}
	}
	for _, name := range d.Status.Wave {
		if i, ok := f.places[name]; ok {
			f.touch(i)
		}
	}
}

// check exchanges health checkers, which answer as before.
func (f *fleet) check(step rollout.Step) {
	for i := range f.Checkers {
		if c := &f.Checkers[i]; c.Port == step.Port {
			c.Exists, c.Outdated = step.Action == rollout.ApplyChecker, false
		}
	}
	for i := range f.Nodes {
		f.Nodes[i].CheckersSettled = true
	}
}

// act takes one step on a node.
func (f *fleet) act(n *rollout.Node, step rollout.Step) {
	d := n.Deployment
	switch step.Action {
	case rollout.Create:
		n.Deployment = &rollout.Deployment{Revision: step.Revision, Replicas: step.Replicas, PodsPerNode: step.Replicas, UpdatedAt: f.Now}
		for _, c := range f.Checkers {
			n.Checks = append(n.Checks, rollout.Check{Port: c.Port, Answered: true, Since: f.Now})
		}
		f.replace(n, rollout.Rolling{})
	case rollout.Mark:
		d.Mark, d.EmptyMark = step.Mark, false
		if step.Drained {
			d.DrainedAt = f.Now
		}
	case rollout.Unmark:
		d.Mark, d.EmptyMark, d.Drained, d.DrainedAt, d.AttachedAt = "", false, false, time.Time{}, f.Now
	case rollout.RequestDetachment:
		n.Detachment.Requested, n.Detachment.RequestedAt, n.Detachment.Held = true, f.Now, true
		n.Detachment.StaleTimestamp = step.StaleTimestamp
		f.answerDetacher(n)
	case rollout.ReleaseDetachment:
		n.Detachment = rollout.Detachment{Timestamp: n.Detachment.Timestamp, Moving: n.Detachment.Moving}
		f.after(f.pace.Attach, n, func(n *rollout.Node) { n.Detachment.Timestamp = "" })
	case rollout.Update:
		d.Revision, d.Replicas, d.PodsPerNode = step.Revision, step.Replicas, f.Spec.Pods()
		d.Drifted, d.Outmoded, d.Hold, d.UpdatedAt = false, false, step.Hold, f.Now
		f.replace(n, step.Rolling)
	case rollout.SetFields:
		if d.Outmoded, d.Hold = false, step.Hold; step.PodsPerNode != nil {
			d.PodsPerNode = *step.PodsPerNode
		}
	case rollout.HoldBack, rollout.ScaleToZero:
		d.Replicas, d.Hold = step.Replicas, step.Hold
		f.replace(n, step.Rolling)
	case rollout.DeletePods:
		for _, name := range step.Pods {
			without(name)(n)
		}
	case rollout.Delete:
		n.Deployment, n.Checks = nil, nil
		f.stop(n, n.Pods)
	}
}

// replace brings the pods of a node to what its Deployment asks for: all at
// once where it detaches, otherwise as many at a time as the Deployment may.
func (f *fleet) replace(n *rollout.Node, rolling rollout.Rolling) {
	d := n.Deployment
	d.Settled = true
	kept := slices.DeleteFunc(slices.Clone(n.Pods), func(p rollout.Pod) bool {
		return p.Revision != d.Revision || p.Terminating || p.Failed != ""
	})
	missing := max(0, int(d.Replicas)-len(kept))
	if f.Spec.Strategy().Detaching || missing == 0 || len(n.Pods) == 0 {
		f.stop(n, slices.DeleteFunc(slices.Clone(n.Pods), func(p rollout.Pod) bool { return p.Revision == d.Revision }))
		f.start(n, missing)
		d.UpdatedReplicas, d.ReadyReplicas = d.Replicas, d.Replicas
		return
	}
	d.UpdatedReplicas = int32(len(kept))
	atOnce := max(1, int(d.Surge), int(rolling.Surge+rolling.Unavailable))
	rounds := (missing + atOnce - 1) / atOnce
	f.after(time.Duration(rounds)*f.pace.Ready, n, func(n *rollout.Node) {
		f.stop(n, slices.DeleteFunc(slices.Clone(n.Pods), func(p rollout.Pod) bool { return p.Revision == d.Revision }))
		f.start(n, missing)
		for i := range n.Pods {
			if !n.Pods[i].Terminating {
				n.Pods[i].Ready, n.Pods[i].ReadySince = true, f.Now
			}
		}
		d.UpdatedReplicas, d.ReadyReplicas = d.Replicas, d.Replicas
	})
}

// start makes pods of the same template as those of the revision that are there.
func (f *fleet) start(n *rollout.Node, pods int) {
	revision := n.Deployment.Revision
	made := rollout.Pod{Revision: revision, ReplicaSet: "forecast-" + revision, Created: f.Now, Running: true}
	if i := slices.IndexFunc(n.Pods, func(p rollout.Pod) bool { return p.Revision == revision }); i >= 0 {
		made.ReplicaSet = n.Pods[i].ReplicaSet
	}
	for range pods {
		f.names++
		made.Name = fmt.Sprintf("forecast-%d", f.names)
		n.Pods = append(n.Pods, made)
		f.after(f.pace.Ready, n, f.ready(made.Name))
	}
}

func (f *fleet) stop(n *rollout.Node, pods []rollout.Pod) {
	for _, gone := range slices.Clone(pods) {
		for i := range n.Pods {
			if p := &n.Pods[i]; p.Name == gone.Name && !p.Terminating {
				p.Terminating = true
				f.after(f.pace.Stop, n, without(p.Name))
			}
		}
	}
}

func (f *fleet) ready(name string) func(*rollout.Node) {
	return func(n *rollout.Node) {
		for i := range n.Pods {
			if p := &n.Pods[i]; p.Name == name && !p.Ready {
				p.Ready, p.ReadySince, p.Unready = true, f.Now, ""
			}
		}
	}
}

func without(name string) func(*rollout.Node) {
	return func(n *rollout.Node) {
		n.Pods = slices.DeleteFunc(n.Pods, func(p rollout.Pod) bool { return p.Name == name })
	}
}

// answerDetacher has the detacher write its timestamp where it was asked.
func (f *fleet) answerDetacher(n *rollout.Node) {
	d := &n.Detachment
	a := f.Spec.Strategy().AnnotateNode
	if a == nil || a.TimestampKey == "" || !d.Requested || d.Timestamp != "" && d.Timestamp != d.StaleTimestamp {
		return
	}
	f.after(f.pace.Detach, n, func(n *rollout.Node) { n.Detachment.Timestamp = v1alpha1.Timestamp(f.Now) })
}

// answer has the health checks of a node to which something happened say what
// they would. A plain port passes with one pod.
func (f *fleet) answer(n *rollout.Node) {
	d := n.Deployment
	if d == nil {
		return
	}
	ready := int32(0)
	for _, p := range n.Pods {
		if p.Ready && !p.Terminating && p.Failed == "" {
			ready++
		}
	}
	for i := range n.Checks {
		c := &n.Checks[i]
		enough := d.PodsPerNode
		if c.Unmarked {
			enough = 1
		}
		serving := !n.Marked() && d.PodsPerNode > 0 && ready >= enough
		if c.Answered && c.Serving == serving && (c.Mark == d.Mark || c.Unmarked) {
			continue
		}
		c.Answered, c.Gone, c.Serving, c.Mark, c.Since = true, false, serving, d.Mark, f.Now
	}
}

func (f *fleet) minReady() time.Duration { return time.Duration(f.Spec.MinReadySeconds) * time.Second }

// after has something happen to a node after a while.
func (f *fleet) after(d time.Duration, n *rollout.Node, happens func(*rollout.Node)) {
	f.events = append(f.events, event{at: f.Now.Add(max(0, d)), node: n.Name, happens: happens})
	f.pending[n.Name]++
}

// moveOn goes to the moment at which something happens or the planner wants to
// look again; false where there is none.
func (f *fleet) moveOn(wakeAt time.Time) bool {
	next := wakeAt
	for _, e := range f.events {
		if next.IsZero() || e.at.Before(next) {
			next = e.at
		}
	}
	if next.IsZero() {
		return false
	}
	f.Now = next
	due := slices.Clone(f.events)
	f.events = slices.DeleteFunc(f.events, func(e event) bool { return !e.at.After(next) })
	for _, e := range due {
		if e.at.After(next) {
			continue
		}
		n := &f.Nodes[f.places[e.node]]
		f.pending[e.node]--
		e.happens(n)
		f.answer(n)
	}
	return true
}
