package controller

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/internal/rollout/objects"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// evictions are the nodes from which pods of an IngressDaemonSet were seen to be taken, as the
// cache's events tell: a pod that ends at once is gone before a pass looks at it.
type evictions struct {
	mu sync.Mutex
	// seen are those where a taint took them, for as long as there is one that does, with when it
	// first took one of each ReplicaSet; zero where that is not known yet. What is forgotten with
	// the process is seen again, since the next pods are taken as well.
	seen map[eviction]map[string]time.Time
	// tainted are the Nodes with a taint that takes pods, as they were last seen: an evicted pod
	// says so for as long as it is there, also when the taint is gone.
	tainted map[string]*corev1.Node
	// drains are those where somebody evicted them, until a pass sees the node uncordoned.
	drains map[eviction]drain
	// leaving are the Nodes that are cordoned or about to be removed, as they were last seen.
	leaving map[string]bool
	// sets tell which taints take pods of each IngressDaemonSet.
	sets map[types.NamespacedName]objects.NodeSet
	now  func() time.Time
}

// eviction is from which node pods of which IngressDaemonSet were taken.
type eviction struct {
	set  types.NamespacedName
	node string
}

// drain is when the last of its evictions was seen, whether the node was cordoned then, or soon
// after, and whether a pass has noted that. A pass may have read the Node before it was.
type drain struct {
	at              time.Time
	cordoned, noted bool
}

func newEvictions(now func() time.Time) *evictions {
	return &evictions{
		seen: map[eviction]map[string]time.Time{}, tainted: map[string]*corev1.Node{},
		drains: map[eviction]drain{}, leaving: map[string]bool{}, sets: map[types.NamespacedName]objects.NodeSet{}, now: now,
	}
}

// of tells which taints take pods of an IngressDaemonSet from now on.
func (e *evictions) of(set types.NamespacedName, nodes objects.NodeSet) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.sets[set] = nodes
}

// saw remembers a pod that a taint takes or somebody evicts, and forgets what taints took from
// a node without such a taint: one that pods tolerate for good, as of nodes that are kept for
// them, is none.
func (e *evictions) saw(obj client.Object) {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch obj := obj.(type) {
	case *corev1.Pod:
		of := eviction{setOf(obj), nodeOf(obj)}
		switch {
		case of.node == "":
		case objects.EvictedByTaint(obj):
			e.take(of, obj)
		case objects.EvictedByRequest(obj):
			e.drains[of] = drain{at: e.now(), cordoned: e.leaving[of.node]}
		}
	case *corev1.Node:
		e.sawCordon(obj)
		if delete(e.tainted, obj.Name); slices.ContainsFunc(obj.Spec.Taints, func(t corev1.Taint) bool { return t.Effect == corev1.TaintEffectNoExecute }) {
			e.tainted[obj.Name] = obj
		}
		maps.DeleteFunc(e.seen, func(of eviction, _ map[string]time.Time) bool {
			return of.node == obj.Name && !e.sets[of.set].Evicts(obj)
		})
	}
}

// sawCordon remembers whether a Node is leaving, and that what was evicted from it a moment ago was
// its drain: the watch of Nodes may lag behind that of pods. It is called with mu held.
func (e *evictions) sawCordon(node *corev1.Node) {
	if delete(e.leaving, node.Name); !objects.Leaving(node) {
		return
	}
	e.leaving[node.Name] = true
	for of, d := range e.drains {
		if of.node == node.Name && !e.longAgo(d) {
			d.cordoned = true
			e.drains[of] = d
		}
	}
}

func (e *evictions) longAgo(d drain) bool { return e.now().Sub(d.at) > longestLag }

// take remembers a pod that a taint takes which is still there, as far as is known. It is called
// with mu held.
func (e *evictions) take(of eviction, pod *corev1.Pod) {
	node := e.tainted[of.node]
	if nodes, known := e.sets[of.set]; !known || node == nil || !nodes.Evicts(node) {
		return
	}
	if e.seen[of] == nil {
		e.seen[of] = map[string]time.Time{}
	}
	set := objects.ReplicaSetOf(pod)
	if since := e.seen[of][set]; since.IsZero() {
		e.seen[of][set] = objects.DeletedAt(pod)
	}
}

// gone forgets a Node that was deleted.
func (e *evictions) gone(obj client.Object) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if node, ok := obj.(*corev1.Node); ok {
		delete(e.tainted, node.Name)
		delete(e.leaving, node.Name)
		e.drop(func(of eviction) bool { return of.node == node.Name })
	}
}

// forget forgets an IngressDaemonSet.
func (e *evictions) forget(set types.NamespacedName) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.drop(func(of eviction) bool { return of.set == set })
	delete(e.sets, set)
}

// drop is called with mu held.
func (e *evictions) drop(which func(eviction) bool) {
	maps.DeleteFunc(e.seen, func(of eviction, _ map[string]time.Time) bool { return which(of) })
	maps.DeleteFunc(e.drains, func(of eviction, _ drain) bool { return which(of) })
}

// drained are the nodes from which somebody was seen to evict pods of the IngressDaemonSet.
// Those that are leaving no more are forgotten, and those that were not when the watch of Nodes
// had had its time: that was no drain, also where somebody cordons the node later.
func (e *evictions) drained(set types.NamespacedName, leaving func(node string) bool) (nodes []string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for of, d := range e.drains {
		switch {
		case of.set != set:
		case e.longAgo(d) && !d.cordoned, !leaving(of.node) && (d.noted || e.longAgo(d)):
			delete(e.drains, of)
		case leaving(of.node):
			e.drains[of] = drain{d.at, true, true}
			nodes = append(nodes, of.node)
		}
	}
	return nodes
}

// from reports whether a taint was seen to take pods of the IngressDaemonSet from the node.
func (e *evictions) from(set types.NamespacedName, node string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.seen[eviction{set, node}] != nil
}

// since is when a taint first took a pod of each ReplicaSet from the node; nil where none was
// seen to.
func (e *evictions) since(set types.NamespacedName, node string) map[string]time.Time {
	e.mu.Lock()
	defer e.mu.Unlock()
	return maps.Clone(e.seen[eviction{set, node}])
}
