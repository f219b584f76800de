package controller

import (
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// written keeps the objects that the controller wrote until the cache has
// caught up with them, so that it sees its own writes at once.
type written struct {
	mu      sync.Mutex
	objects map[string]client.Object
}

func newWritten() *written { return &written{objects: map[string]client.Object{}} }

// remember keeps an object as the API server returned it.
func (w *written) remember(obj client.Object) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.objects[identity(obj)] = obj
}

// gone drops an object that was deleted.
func (w *written) gone(obj client.Object) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.objects, identity(obj))
}

// latest is the newer of the cached object and the one that was written.
func latest[T client.Object](w *written, cached T) T {
	w.mu.Lock()
	defer w.mu.Unlock()
	key := identity(cached)
	own, ok := w.objects[key].(T)
	if !ok {
		return cached
	}
	newer, err := resourceversion.CompareResourceVersion(own.GetResourceVersion(), cached.GetResourceVersion())
	if err != nil || newer <= 0 || own.GetUID() != cached.GetUID() {
		delete(w.objects, key)
		return cached
	}
	return own
}

// unseen are the written objects of a type that belong to the owner and that the
// cache does not hold yet.
func unseen[T client.Object](w *written, owner types.UID, seen map[string]bool) []T {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []T
	for _, obj := range w.objects {
		if own, ok := obj.(T); ok && !seen[own.GetName()] && controlledBy(own, owner) {
			out = append(out, own)
		}
	}
	return out
}

func identity(obj client.Object) string {
	return fmt.Sprintf("%T/%s/%s", obj, obj.GetNamespace(), obj.GetName())
}

func controlledBy(obj client.Object, owner types.UID) bool {
	for _, ref := range obj.GetOwnerReferences() {
		if ref.Controller != nil && *ref.Controller && ref.UID == owner {
			return true
		}
	}
	return false
}
