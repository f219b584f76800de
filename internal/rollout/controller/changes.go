package controller

import (
	"sync"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// changes are the nodes of an IngressDaemonSet of which an object has changed, as the cache's events
// tell, since they were last taken. An event comes after its object stands in the cache: who takes
// the changes and then reads the cache misses none.
type changes struct {
	mu sync.Mutex
	// nodes are nil before they were taken once: what comes before is read anyway.
	nodes map[string]bool
}

// saw remembers a change of an object.
func (c *changes) saw(obj client.Object) {
	node := nodeOf(obj)
	if n, ok := obj.(*corev1.Node); ok {
		node = n.Name
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.nodes != nil && node != "" {
		c.nodes[node] = true
	}
}

// take are the names of the nodes that changed since the last call. The first call
// knows nothing of what came before, and gives nil.
func (c *changes) take() map[string]bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	changed := c.nodes
	c.nodes = map[string]bool{}
	return changed
}
