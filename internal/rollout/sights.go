package rollout

import (
	"maps"
	"slices"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
)

// No duration is measured between the clocks of two machines (docs/adr/0017). What
// stands in an object was written by the clock of a detacher, a kubelet, the API server
// or another leader; so a grace or a deadline counts from when this controller first
// saw its beginning. A controller that has just begun to look begins it anew, and never
// shortens it. The times in the objects are compared with each other only.

// Sights remember, for one IngressDaemonSet, when what stands in its objects was first
// seen. The zero value has seen nothing.
type Sights struct {
	began time.Time
	// thawed is when this process was last found to have been frozen, zero where it never was.
	thawed time.Time
	// looked is the last look that another one followed, lookAgain later or more, while the process
	// was not frozen between the two; looks are those since.
	looked time.Time
	looks  []time.Time
	nodes  map[string]*sight
	// pass counts the States that were seen, so that nodes that are gone can be told.
	pass     int
	analysis analysisValue
	// analysisAt is when the present phase of the analysis was first seen.
	analysisAt time.Time
}

type sight struct {
	pass   int
	values nodeValues
	seen   Seen
	// ready is since when each pod is seen to be ready, where that is asked.
	ready map[string]time.Time
	// silenced is since when each port is seen to be so, nil where none is.
	silenced map[int32]time.Time
}

// nodeValues are what is told apart of a node; times in nanoseconds. The zero value is of
// one that was not seen before.
type nodeValues struct {
	known, claimed, ready, marked      bool
	mark                               v1alpha1.Mark
	timestamp                          string
	updated, attached, hold, requested int64
}

type analysisValue struct {
	began int64
	phase v1alpha1.AnalysisPhase
}

// See fills in when the values of a State were first seen.
func (s *Sights) See(state *State) {
	fresh := state.Now
	if s.began.IsZero() {
		s.began, fresh = state.Now, time.Time{}
	}
	state.Began, state.Looked = s.began, s.look(state.Now)
	claimed := map[string]bool{}
	for _, name := range state.Status.Wave {
		claimed[name] = true
	}
	if s.nodes == nil {
		s.nodes = make(map[string]*sight, len(state.Nodes))
	}
	s.pass++
	for i := range state.Nodes {
		n := &state.Nodes[i]
		known, podsSeen := s.nodes[n.Name], fresh
		switch {
		case known == nil:
			known = &sight{}
			s.nodes[n.Name] = known
		case known.ready == nil && !n.Marked():
			// Nobody asked before: pods that are ready were so before.
			podsSeen = time.Time{}
		}
		known.pass = s.pass
		known.see(n, claimed[n.Name], fresh)
		known.seeChecks(n, fresh)
		known.seeEnding(n, fresh)
		if state.Spec.MinReadySeconds > 0 || n.Marked() {
			known.seePods(n, podsSeen)
		} else {
			known.ready = nil
		}
		n.Seen = &known.seen
	}
	if len(s.nodes) > len(state.Nodes) {
		maps.DeleteFunc(s.nodes, func(_ string, known *sight) bool { return known.pass != s.pass })
	}
	s.seeAnalysis(state)
}

// look notes a look, and is when the last one was that lies lookAgain back; zero where none
// does. That of a controller which was frozen may see what was so at the looks before: it
// follows none of them.
func (s *Sights) look(now time.Time) time.Time {
	s.looks = slices.DeleteFunc(s.looks, func(look time.Time) bool { return look.Before(s.thawed) })
	recent := slices.IndexFunc(s.looks, func(look time.Time) bool { return now.Before(look.Add(lookAgain)) })
	if recent < 0 {
		recent = len(s.looks)
	}
	if recent > 0 {
		s.looked = s.looks[recent-1]
		s.looks = slices.Delete(s.looks, 0, recent)
	}
	s.looks = append(s.looks, now)
	return s.looked
}

// Thawed says when this process was last found to have been frozen, by its own clock; zero
// where it never was. How long a pass takes, or fails for, does not tell.
func (s *Sights) Thawed(at time.Time) { s.thawed = at }

func (s *sight) see(n *Node, claimed bool, now time.Time) {
	last := s.values
	s.values = valuesOf(n, claimed)
	for _, v := range []struct {
		at      *time.Time
		changed bool
	}{
		{&s.seen.Claim, s.values.claimed != last.claimed},
		{&s.seen.Ready, s.values.ready != last.ready || !last.known},
		{&s.seen.Mark, s.values.marked != last.marked || s.values.mark != last.mark},
		{&s.seen.Updated, s.values.updated != last.updated},
		{&s.seen.Attached, s.values.attached != last.attached},
		{&s.seen.Hold, s.values.hold != last.hold},
		{&s.seen.Requested, s.values.requested != last.requested},
		{&s.seen.Timestamp, s.values.timestamp != last.timestamp},
	} {
		if v.changed {
			*v.at = now
		}
	}
}

func valuesOf(n *Node, claimed bool) nodeValues {
	v := nodeValues{known: true, claimed: claimed, ready: n.Ready, timestamp: n.Detachment.Timestamp}
	if n.Detachment.Requested {
		v.requested = n.Detachment.RequestedAt.UnixNano()
	}
	if d := n.Deployment; d != nil {
		v.marked, v.mark = n.Marked(), d.Mark
		v.updated, v.attached = d.UpdatedAt.UnixNano(), d.AttachedAt.UnixNano()
		if d.Hold != nil {
			v.hold = d.Hold.At.UnixNano()
		}
	}
	return v
}

// seePods notes since when pods are ready.
func (s *sight) seePods(n *Node, now time.Time) {
	last := s.ready
	s.ready = make(map[string]time.Time, len(n.Pods))
	for i := range n.Pods {
		p := &n.Pods[i]
		if !p.Ready {
			continue
		}
		p.SeenReady = firstSeen(last, p.Name, now)
		s.ready[p.Name] = p.SeenReady
	}
}

// seeEnding notes since when pods end, where that may be a drain.
func (s *sight) seeEnding(n *Node, now time.Time) {
	last := s.seen.Ending
	if s.seen.Ending = nil; !n.Leaving {
		return
	}
	s.seen.Ending = map[string]time.Time{}
	for i := range n.Pods {
		if p := &n.Pods[i]; p.Terminating {
			s.seen.Ending[p.Name] = firstSeen(last, p.Name, now)
		}
	}
}

// firstSeen is since when something is seen, by what was seen at the last look.
func firstSeen[K comparable](last map[K]time.Time, what K, now time.Time) time.Time {
	if at, known := last[what]; known {
		return at
	}
	return now
}

// seeChecks notes since when ports are silenced.
func (s *sight) seeChecks(n *Node, now time.Time) {
	last := s.silenced
	s.silenced = nil
	for i := range n.Checks {
		c := &n.Checks[i]
		c.SeenSilenced = time.Time{}
		if !c.silenced() {
			continue
		}
		if s.silenced == nil {
			s.silenced = map[int32]time.Time{}
		}
		c.SeenSilenced = firstSeen(last, c.Port, now)
		s.silenced[c.Port] = c.SeenSilenced
	}
}

func (s *Sights) seeAnalysis(state *State) {
	value := analysisValue{}
	if a := state.Status.Analysis; a != nil {
		value = analysisValue{began: a.Began.UnixNano(), phase: a.Phase}
	}
	if value != s.analysis || s.analysisAt.IsZero() {
		s.analysis, s.analysisAt = value, state.Now
	}
	state.AnalysisSeen = s.analysisAt
}

// seen is when what stands on a node counts as first seen. Without Sights, as in a
// forecast, all clocks are one and the objects themselves tell.
func (p *pass) seen(n *Node) Seen {
	if n.Seen == nil {
		return asWritten(n)
	}
	s := n.Seen.notBefore(p.Began)
	if inherited := p.wave[n.Name] && n.Seen.Claim.IsZero(); n.Seen.Attached.IsZero() && !inherited {
		// It was attached long before, or it would have been under way when we began.
		s.Attached = time.Time{}
	}
	return s
}

// notBefore is all of it, at a moment at the earliest.
func (s Seen) notBefore(at time.Time) Seen {
	return Seen{
		Claim: later(s.Claim, at), Ready: later(s.Ready, at), Mark: later(s.Mark, at), Updated: later(s.Updated, at),
		Attached: later(s.Attached, at), Hold: later(s.Hold, at), Requested: later(s.Requested, at),
		Timestamp: later(s.Timestamp, at),
	}
}

// readyAsSeen are the pods of a node, ready since this controller saw them so. Those of which
// it found that when it began to look were so for long where the node is not under way.
func (p *pass) readyAsSeen(n *Node) []Pod {
	underWay := p.wave[n.Name] || n.Marked()
	if n.Seen == nil || p.minReady() == 0 && !n.Marked() {
		return n.Pods
	}
	pods := slices.Clone(n.Pods)
	for i := range pods {
		pod := &pods[i]
		pod.ReadySince = pod.SeenReady
		if underWay {
			pod.ReadySince = later(pod.SeenReady, p.Began)
		}
	}
	return pods
}

func asWritten(n *Node) Seen {
	s := Seen{Ready: n.ReadyAt, Requested: n.Detachment.RequestedAt}
	if n.Detachment.Timestamp != "" {
		s.Timestamp, _ = time.Parse(time.RFC3339, n.Detachment.Timestamp)
	}
	if n.Marked() {
		s.Mark, _ = n.markedAt()
	}
	if d := n.Deployment; d != nil {
		s.Updated, s.Attached = d.UpdatedAt, d.AttachedAt
		if d.Hold != nil {
			s.Hold = d.Hold.At.Time
		}
	}
	return s
}

// moment is the time to write into the objects of a node: now, or just after the
// latest that stands there, should another clock have been ahead. So the times on one
// node are in the order in which they were written, whoever wrote them.
func (p *pass) moment(n *Node) time.Time {
	at := p.Now
	after := func(t time.Time) {
		if !t.IsZero() {
			at = later(at, t.Add(time.Millisecond))
		}
	}
	if d := n.Deployment; d != nil {
		marked, _ := n.markedAt()
		after(marked)
		after(d.UpdatedAt)
		after(d.AttachedAt)
		after(d.DrainedAt)
	}
	if n.Detachment.Requested {
		after(n.Detachment.RequestedAt)
	}
	return at
}
