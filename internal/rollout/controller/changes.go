package controller

import (
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// changes are the nodes of each IngressDaemonSet of which an object has changed, as
// the cache's events tell, since they were last taken. An event comes after its
// object stands in the cache: who takes the changes and then reads the cache misses
// none.
type changes struct {
	mu sync.Mutex
	// sets are those that were taken once; nobody needs to remember for others.
	sets map[types.NamespacedName]map[string]bool
}

func newChanges() *changes { return &changes{sets: map[types.NamespacedName]map[string]bool{}} }

// saw remembers a change of an object.
func (c *changes) saw(obj client.Object) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if node, ok := obj.(*corev1.Node); ok {
		for _, changed := range c.sets {
			changed[node.Name] = true
		}
		return
	}
	changed := c.sets[setOf(obj)]
	if changed == nil {
		return
	}
	if node := nodeOf(obj); node != "" {
		changed[node] = true
	}
}

// take are the names of the nodes that changed since the last call. The first call
// knows nothing of what came before.
func (c *changes) take(set types.NamespacedName) map[string]bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	changed := c.sets[set]
	c.sets[set] = map[string]bool{}
	return changed
}

func (c *changes) forget(set types.NamespacedName) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.sets, set)
}
