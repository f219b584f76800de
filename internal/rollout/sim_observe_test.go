package rollout

import "slices"

// observe makes a picture of the world as it is.
func (l *leader) observe() *picture {
	w := l.w
	seen := &picture{taken: w.now, set: w.set.rv, nodes: map[string]int{}, deployments: map[string]int{}}
	seen.State = State{
		Now: w.now, Generation: w.set.generation, Spec: *w.set.spec.DeepCopy(), Status: *w.set.status.DeepCopy(),
		Deletion: w.set.deletion, Revision: w.set.revision, Revisions: map[string]bool{}, DryRun: l.dryRun[w.set.revision],
		Checkers: w.observeCheckers(), Promoted: w.set.promoted,
	}
	for _, check := range seen.Spec.Strategy().Analysis {
		if m, ok := l.measurements[check.Name]; ok {
			seen.Measurements = append(seen.Measurements, m)
		}
	}
	for revision := range w.set.revisions {
		seen.Revisions[revision] = true
	}
	seen.BroughtBack = seen.Revisions[w.set.revision] && w.set.newest != w.set.revision
	for _, name := range w.known() {
		seen.Nodes = append(seen.Nodes, w.observeNode(name))
		if n := w.nodes[name]; n != nil {
			seen.nodes[name] = n.rv
		}
		if d := w.deployments[name]; d != nil {
			seen.deployments[name] = d.rv
		}
	}
	return seen
}

// known are the nodes that have to do with the IngressDaemonSet.
func (w *world) known() []string {
	var names []string
	for name, n := range w.nodes {
		if n.wanted || n.holders[us] {
			names = append(names, name)
		}
	}
	for name := range w.deployments {
		names = append(names, name)
	}
	for _, p := range w.pods {
		names = append(names, p.node)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func (w *world) observeCheckers() []Checker {
	var out []Checker
	for _, port := range w.ports() {
		s := w.daemonSets[port]
		out = append(out, Checker{Port: port, Wanted: true, Exists: s != nil, Outdated: s != nil && s.outdated})
	}
	var rest []int32
	for port := range w.daemonSets {
		if !slices.Contains(w.ports(), port) {
			rest = append(rest, port)
		}
	}
	slices.Sort(rest)
	for _, port := range rest {
		out = append(out, Checker{Port: port, Exists: true})
	}
	return out
}

func (w *world) observeNode(name string) Node {
	out := Node{Name: name, CheckersSettled: true}
	if n := w.nodes[name]; n != nil {
		out.Exists, out.Wanted, out.Ready, out.Leaving, out.Labels = true, n.wanted, n.ready, n.cordoned, n.labels
		out.Detachment = Detachment{Requested: n.holders[us], RequestedAt: n.requestedAt, StaleTimestamp: n.stale, Moving: n.moving}
		if w.set.spec.Strategy().AnnotateNode != nil {
			out.Detachment.Held = n.held()
		}
		if a := w.set.spec.Strategy().AnnotateNode; a != nil && a.TimestampKey != "" {
			out.Detachment.Timestamp = n.timestamp
		}
		w.observeChecks(n, &out)
	}
	if d := w.deployments[name]; d != nil {
		out.Deployment = w.observeDeployment(d)
	}
	for _, p := range w.pods {
		if p.node == name {
			out.Pods = append(out.Pods, Pod{Name: p.name, Revision: p.revision, ReplicaSet: p.template, Created: p.created, Deleted: p.deleted, Ready: p.ready, ReadySince: p.readySince, Running: p.running, Terminating: p.terminating, Failed: p.failed})
			out.Evicting = out.Evicting || p.evicted
		}
	}
	return out
}

func (w *world) observeChecks(n *simNode, out *Node) {
	for _, port := range w.ports() {
		c := n.checks[port]
		if c == nil || !c.present {
			out.Checks = append(out.Checks, Check{Port: port, Gone: true})
			out.CheckersSettled = false
			continue
		}
		check := Check{Port: port, Answered: c.up && n.alive}
		if check.Answered {
			check.Serving, check.Mark, check.Since = c.serving, c.mark, c.since
		}
		out.Checks = append(out.Checks, check)
		out.CheckersSettled = out.CheckersSettled && c.settled
	}
}

func (w *world) observeDeployment(d *simDeployment) *Deployment {
	wanted := simDeployment{}
	w.setFields(&wanted)
	return &Deployment{
		Name: d.node, Deleting: d.deleting, Revision: d.revision, PodsPerNode: d.podsPerNode, Replicas: d.replicas, Surge: d.maxSurge(),
		Settled: d.observed == d.generation, UpdatedReplicas: int32(d.updatedReplicas), OlderReplicas: int32(d.olderReplicas),
		Drifted: d.foreign > 0 || d.scaled, Outmoded: d.fields() != wanted.fields(),
		Mark: d.mark, UpdatedAt: d.updatedAt, AttachedAt: d.attachedAt, DrainedAt: d.drainedAt, Hold: d.hold, Detached: d.keptOut,
	}
}
