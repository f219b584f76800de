package rollout

import (
	"cmp"
	"container/heap"
	"fmt"
	"math/rand"
	"slices"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
)

// The simulated world: objects as the API server holds them, and beside them
// fakes of everybody who works on them. Time is virtual and jumps from event to
// event. Where a fake imitates something that was measured on real machines, its
// comment says so.

// start is when every world begins.
var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// world is all there is.
type world struct {
	now    time.Time
	events events
	count  int
	rng    *rand.Rand

	rv          int
	set         ingressDaemonSet
	nodes       map[string]*simNode
	deployments map[string]*simDeployment
	pods        []*simPod
	daemonSets  map[int32]*simDaemonSet

	// dry are the API server's refusals of Deployments by revision, bad the
	// revisions whose pods never become ready.
	dry map[string]string
	bad map[string]bool
	// misbehaves are the revisions whose measurements fail.
	misbehaves map[string]bool
	// detacher is how the detacher behaves.
	detacher simDetacher
	// checkersStay is whether health checkers stay on nodes that left the set.
	checkersStay bool

	leaders []*leader
	audit   *audit
	// story receives what happens, in words.
	story func(actor, what string)
}

// ingressDaemonSet is the object that the controller works for.
type ingressDaemonSet struct {
	exists     bool
	rv         int
	generation int64
	spec       v1alpha1.IngressDaemonSetSpec
	status     v1alpha1.IngressDaemonSetStatus
	revision   string
	revisions  map[string]bool
	// newest was recorded last.
	newest   string
	deletion Deletion
	promoted string
}

// simNode is a Node and the machine behind it.
type simNode struct {
	name string
	rv   int
	// wanted is whether its labels put it into the node set.
	wanted, cordoned bool
	labels           map[string]string
	// ready is the Node's condition, alive whether the machine runs.
	ready, alive bool
	// capacity is how many pods fit, those that terminate included; 0 means any
	// number. rejects is whether the kubelet rejects every new pod.
	capacity int
	rejects  bool

	// holders are who asks for the detachment: us or others.
	holders     map[string]bool
	requestedAt time.Time
	stale       string
	timestamp   string
	// detached is what the detacher has done, moving whether it has not put back
	// all of it yet.
	detached, moving bool
	checks           map[int32]*simCheck
}

const us, others = "us", "others"

func newWorld(seed int64) *world {
	w := &world{
		now: start, nodes: map[string]*simNode{}, deployments: map[string]*simDeployment{},
		daemonSets: map[int32]*simDaemonSet{}, dry: map[string]string{}, bad: map[string]bool{},
		misbehaves: map[string]bool{},
		detacher:   simDetacher{answers: true}, story: func(string, string) {},
		set: ingressDaemonSet{exists: true, revisions: map[string]bool{}},
	}
	if seed != 0 {
		w.rng = rand.New(rand.NewSource(seed))
	}
	w.audit = newAudit(w)
	w.leaders = []*leader{newLeader(w)}
	return w
}

// event is something that will happen.
type event struct {
	at   time.Time
	turn int
	do   func()
}

// events is a heap, ordered by time and then by turn.
type events []event

func (e events) Len() int { return len(e) }
func (e events) Less(i, j int) bool {
	return cmp.Or(e[i].at.Compare(e[j].at), cmp.Compare(e[i].turn, e[j].turn)) < 0
}
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)   { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}

// after lets something happen later.
func (w *world) after(d time.Duration, do func()) { w.at(w.now.Add(d), do) }

func (w *world) at(t time.Time, do func()) {
	w.count++
	heap.Push(&w.events, event{later(t, w.now), w.count, do})
}

// run lets time pass.
func (w *world) run(until time.Time) {
	for len(w.events) > 0 && !w.events[0].at.After(until) && len(w.audit.faults) == 0 {
		e := heap.Pop(&w.events).(event)
		w.now = e.at
		e.do()
	}
	w.now = until
}

// between is a random duration, or without randomness the shorter one.
func (w *world) between(a, b time.Duration) time.Duration {
	if w.rng == nil {
		return a
	}
	return (a + time.Duration(w.rng.Int63n(int64(b-a)+1))).Truncate(time.Millisecond)
}

// chance is true with probability p, and never without randomness.
func (w *world) chance(p float64) bool { return w.rng != nil && w.rng.Float64() < p }

// version stamps an object that was written, and wakes the controller.
func (w *world) version() int {
	w.rv++
	w.wake()
	return w.rv
}

// wake tells every leader that something changed.
func (w *world) wake() {
	for _, l := range w.leaders {
		l.wakeAfter(w.between(50*time.Millisecond, 400*time.Millisecond))
	}
}

func (w *world) tell(actor, format string, args ...any) { w.story(actor, fmt.Sprintf(format, args...)) }

// names are the nodes' names in order.
func (w *world) names() []string {
	var names []string
	for name := range w.nodes {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// addNode lets a node join.
func (w *world) addNode(name string, labels map[string]string) *simNode {
	n := &simNode{name: name, wanted: true, labels: labels, ready: true, alive: true, holders: map[string]bool{}, checks: map[int32]*simCheck{}}
	w.nodes[name] = n
	n.rv = w.version()
	for _, port := range w.ports() {
		w.startChecker(n, port)
	}
	return n
}

// removeNode deletes a Node object; the pod garbage collector deletes its pods
// after its quarantine of 40 seconds.
func (w *world) removeNode(name string) {
	delete(w.nodes, name)
	w.version()
	w.after(40*time.Second, func() {
		if w.nodes[name] != nil {
			return
		}
		w.pods = slices.DeleteFunc(w.pods, func(p *simPod) bool { return p.node == name })
		w.podsChanged(name)
	})
}

// kill lets a machine die; the node lifecycle controller notices after 40 seconds.
func (w *world) kill(n *simNode) {
	n.alive = false
	w.version()
	w.after(40*time.Second, func() { w.setReady(n, n.alive) })
}

func (w *world) revive(n *simNode) {
	n.alive = true
	w.version()
	w.after(w.between(time.Second, 5*time.Second), func() { w.setReady(n, n.alive) })
	w.kubeletStarts(n)
	w.checkersChanged(n.name)
}

func (w *world) setReady(n *simNode, ready bool) {
	if w.nodes[n.name] == n && n.ready != ready {
		n.ready, n.rv = ready, w.version()
		w.tell("cluster", "node %s is %s", n.name, map[bool]string{true: "Ready", false: "NotReady"}[ready])
	}
}

// setWanted changes the labels that put a node into the node set.
func (w *world) setWanted(n *simNode, wanted bool) {
	n.wanted, n.rv = wanted, w.version()
	w.checkersChanged(n.name)
}

// change edits the spec.
func (w *world) change(edit func(*v1alpha1.IngressDaemonSetSpec)) {
	w.set.spec = *w.set.spec.DeepCopy()
	edit(&w.set.spec)
	w.set.generation++
	w.set.rv = w.version()
	w.checkersOutdated()
}

// promote does not want to wait for the analysis.
func (w *world) promote() {
	if a := w.set.status.Analysis; a != nil {
		w.set.promoted, w.set.rv = AnalysisID(a), w.version()
	}
}

// changeTemplate gives the set a new revision.
func (w *world) changeTemplate(revision string) {
	w.set.revision = revision
	w.change(func(*v1alpha1.IngressDaemonSetSpec) {})
}
