package controller

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/internal/rollout/objects"
	corev1 "k8s.io/api/core/v1"
)

// evictions are the nodes from which pods of an IngressDaemonSet were seen to be taken, as the
// cache's events tell: a pod that ends at once is gone before a pass looks at it.
type evictions struct {
	// taints are what all share. Its lock guards what follows.
	taints *taints
	// seen are those where a taint took them, for as long as there is one that does, with when it
	// first took one of each ReplicaSet; zero where that is not known yet. What is forgotten with
	// the process is seen again, since the next pods are taken as well.
	seen map[string]map[string]time.Time
	// drains are those where somebody evicted them, until a pass sees the node uncordoned.
	drains map[string]drain
	// nodes tell which taints take pods, nil before the first pass.
	nodes *objects.NodeSet
}

// taints are the Nodes that pods may be taken from.
type taints struct {
	now func() time.Time
	mu  sync.Mutex
	// tainted are those with a taint that takes pods, as they were last seen: an evicted pod
	// says so for as long as it is there, also when the taint is gone.
	tainted map[string]*corev1.Node
	// leaving are those that are cordoned or about to be removed, as they were last seen.
	leaving map[string]bool
}

// drain is when the last of its evictions was seen, whether the node was cordoned then, or soon
// after, and whether a pass has noted that. A pass may have read the Node before it was.
type drain struct {
	at              time.Time
	cordoned, noted bool
}

func newTaints(now func() time.Time) *taints {
	return &taints{now: now, tainted: map[string]*corev1.Node{}, leaving: map[string]bool{}}
}

func newEvictions(t *taints) *evictions {
	return &evictions{taints: t, seen: map[string]map[string]time.Time{}, drains: map[string]drain{}}
}

// of tells which taints take pods from now on.
func (e *evictions) of(nodes objects.NodeSet) {
	e.taints.mu.Lock()
	defer e.taints.mu.Unlock()
	e.nodes = &nodes
}

// saw remembers a pod that a taint takes or somebody evicts.
func (e *evictions) saw(pod *corev1.Pod) {
	e.taints.mu.Lock()
	defer e.taints.mu.Unlock()
	switch node := nodeOf(pod); {
	case node == "":
	case objects.EvictedByTaint(pod):
		e.take(node, pod)
	case objects.EvictedByRequest(pod):
		e.drains[node] = drain{at: e.taints.now(), cordoned: e.taints.leaving[node]}
	}
}

// take remembers a pod that a taint takes which is still there, as far as is known. It is called
// with the lock held.
func (e *evictions) take(name string, pod *corev1.Pod) {
	node := e.taints.tainted[name]
	if e.nodes == nil || node == nil || !e.nodes.Evicts(node) {
		return
	}
	if e.seen[name] == nil {
		e.seen[name] = map[string]time.Time{}
	}
	set := objects.ReplicaSetOf(pod)
	if since := e.seen[name][set]; since.IsZero() {
		e.seen[name][set] = objects.DeletedAt(pod)
	}
}

// saw remembers a Node, and has all forget what taints took from it where none does: one that pods
// tolerate for good, as of nodes that are kept for them, is none.
func (t *taints) saw(node *corev1.Node, all func() []*session) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if delete(t.tainted, node.Name); slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Effect == corev1.TaintEffectNoExecute }) {
		t.tainted[node.Name] = node
	}
	if delete(t.leaving, node.Name); objects.Leaving(node) {
		t.leaving[node.Name] = true
	}
	for _, s := range all() {
		e := s.evictions
		if e.seen[node.Name] != nil && !e.nodes.Evicts(node) {
			delete(e.seen, node.Name)
		}
		// What was evicted from it a moment ago was its drain: the watch of Nodes may lag behind that
		// of pods.
		if d, drained := e.drains[node.Name]; drained && t.leaving[node.Name] && !t.longAgo(d) {
			d.cordoned = true
			e.drains[node.Name] = d
		}
	}
}

func (t *taints) longAgo(d drain) bool { return t.now().Sub(d.at) > longestLag }

// gone has all forget a Node that was deleted.
func (t *taints) gone(node string, all func() []*session) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.tainted, node)
	delete(t.leaving, node)
	for _, s := range all() {
		delete(s.evictions.seen, node)
		delete(s.evictions.drains, node)
	}
}

// drained are the nodes from which somebody was seen to evict pods. Those that are leaving no
// more are forgotten, and those that were not when the watch of Nodes had had its time: that was
// no drain, also where somebody cordons the node later.
func (e *evictions) drained(leaving func(node string) bool) (nodes []string) {
	e.taints.mu.Lock()
	defer e.taints.mu.Unlock()
	for node, d := range e.drains {
		longAgo := e.taints.longAgo(d)
		switch {
		case longAgo && !d.cordoned, !leaving(node) && (d.noted || longAgo):
			delete(e.drains, node)
		case leaving(node):
			e.drains[node] = drain{d.at, true, true}
			nodes = append(nodes, node)
		}
	}
	return nodes
}

// from reports whether a taint was seen to take pods from the node.
func (e *evictions) from(node string) bool {
	e.taints.mu.Lock()
	defer e.taints.mu.Unlock()
	return e.seen[node] != nil
}

// since is when a taint first took a pod of each ReplicaSet from the node; nil where none was
// seen to.
func (e *evictions) since(node string) map[string]time.Time {
	e.taints.mu.Lock()
	defer e.taints.mu.Unlock()
	return maps.Clone(e.seen[node])
}
