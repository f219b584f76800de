package server

import (
	"context"
	"sync"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/nodehealth"
)

// keepAgain is how long after a State could not be stored that is tried again.
const keepAgain = time.Second

// keeper stores States beside what answers, so that a disk that hangs keeps no verdict.
type keeper struct {
	file stateFile
	// kept is called when a State has been stored.
	kept func()
	wake chan struct{}

	mu   sync.Mutex
	next nodehealth.State
	// mark is that of the State that was stored last; nil where it has none.
	mark *v1alpha1.Mark
}

func newKeeper(file stateFile, stored nodehealth.State, kept func()) *keeper {
	return &keeper{file: file, kept: kept, wake: make(chan struct{}, 1), mark: markOf(stored)}
}

func markOf(s nodehealth.State) *v1alpha1.Mark {
	if s.Deployment == nil {
		return nil
	}
	return s.Deployment.Mark
}

// lacks reports whether the State has a mark that would be lost with this process.
func (k *keeper) lacks(s nodehealth.State) bool {
	mark := markOf(s)
	if mark == nil || k.file.dir == "" {
		return false
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.mark == nil || *k.mark != *mark
}

// keep has a State stored; of several only the last is.
func (k *keeper) keep(s nodehealth.State) {
	k.mu.Lock()
	k.next = s
	k.mu.Unlock()
	select {
	case k.wake <- struct{}{}:
	default:
	}
}

// run stores until ctx is done, and then what came last.
func (k *keeper) run(ctx context.Context) {
	var again <-chan time.Time
	for {
		select {
		case <-k.wake:
		case <-again:
		case <-ctx.Done():
			k.store()
			return
		}
		again = nil
		if !k.store() {
			again = time.After(keepAgain)
		}
	}
}

func (k *keeper) store() bool {
	k.mu.Lock()
	s := k.next
	k.mu.Unlock()
	if !k.file.save(s) {
		return false
	}
	k.mu.Lock()
	before := k.mark
	k.mark = markOf(s)
	news := k.mark != nil && (before == nil || *before != *k.mark)
	k.mu.Unlock()
	if news {
		k.kept()
	}
	return true
}
