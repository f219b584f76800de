package controller

import (
	"maps"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// answers are objects as the API server answered this process's last write to them, while a cache
// does not show that yet: what is decided by a status of before is decided once more, and what is
// written for that on others may be for good. All of them may be lost.
type answers struct {
	mu sync.Mutex
	// of has nil for what is gone.
	of map[types.UID]client.Object
}

func newAnswers() *answers { return &answers{of: map[types.UID]client.Object{}} }

// wrote keeps an object as it was answered. Nobody writes to it any more.
func (a *answers) wrote(o client.Object) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.of[o.GetUID()] = o
}

// ended notes that an object is gone by this process's last write to it.
func (a *answers) ended(uid types.UID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.of[uid] = nil
}

// hasEnded reports whether an object that is shown is gone.
func (a *answers) hasEnded(uid types.UID) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	o, any := a.of[uid]
	return any && o == nil
}

// newest is an object as it was shown, or answered where that is newer.
func newest[T client.Object](a *answers, shown T) T {
	a.mu.Lock()
	defer a.mu.Unlock()
	answered, any := a.of[shown.GetUID()].(T)
	if any && older(shown.GetResourceVersion(), answered.GetResourceVersion()) {
		return answered
	}
	delete(a.of, shown.GetUID())
	return shown
}

// keep forgets all objects but some.
func (a *answers) keep(there map[types.UID]bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	maps.DeleteFunc(a.of, func(uid types.UID, _ client.Object) bool { return !there[uid] })
}
