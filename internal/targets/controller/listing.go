package controller

import (
	"context"
	"fmt"
	"sync"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
)

// failedAgain is after how long a list that failed is asked for again at the earliest.
const failedAgain = 10 * time.Second

// listing is what is listed now and then, in the background. What was listed is kept
// while it cannot be listed again.
type listing[T any] struct {
	// what is a clause for a person.
	what string
	list func(context.Context) ([]T, error)
	// trigger calls for another pass.
	trigger func()

	mu       sync.Mutex
	all      []T
	read     bool
	underWay bool
	// at is when the last list ended, asked when the newest that succeeded was begun.
	at, asked time.Time
	// failure is why it could not be listed, empty where it could.
	failure string
}

// renew lists where that is due.
func (l *listing[T]) renew(ctx context.Context, every time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.failure != "" {
		// What fails is not asked for in a hurry.
		every = max(every, failedAgain)
	}
	if l.underWay || time.Since(l.at) < every {
		return
	}
	l.underWay = true
	asked := time.Now()
	go func() {
		all, err := l.list(ctx)
		l.mu.Lock()
		l.underWay, l.at, l.failure = false, time.Now(), ""
		if err == nil {
			l.all, l.read, l.asked = all, true, asked
		} else {
			l.failure = fmt.Sprintf("%s: %v", l.what, err)
			ctrl.Log.WithName("targets").V(1).Info(l.what+" failed", "error", err)
		}
		l.mu.Unlock()
		l.trigger()
	}()
}

// since is when the newest list was asked for, zero where none was answered yet.
func (l *listing[T]) since() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.asked
}

// known is what was listed, and whether anything ever was.
func (l *listing[T]) known() (all []T, read bool, failure string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all, l.read, l.failure
}
