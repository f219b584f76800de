package controller

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/internal/routing"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// secrets watches Secrets, each by its name and for as long as it is wanted.
type secrets struct {
	// running ends all watches.
	running context.Context
	// live reads past caches, which would hold all Secrets.
	live client.WithWatch
	// changed is told when there is another answer.
	changed func(routing.Ref)
	// patience is after how long without an answer a Secret is given up, until there is one.
	patience time.Duration

	mu  sync.Mutex
	all map[types.NamespacedName]*followed
}

// followed is a Secret that is wanted.
type followed struct {
	stop func()
	// answered says whether it is known how it is; object is nil where it is not there.
	answered bool
	object   *corev1.Secret
	// err is why it is not known, as of the last try; unreadable is that of when it was given up.
	err        error
	unreadable string
}

// want follows these and no others.
func (s *secrets) want(names []types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	wanted := map[types.NamespacedName]bool{}
	for _, n := range names {
		wanted[n] = true
		if s.all[n] != nil {
			continue
		}
		ctx, cancel := context.WithCancel(s.running)
		f := &followed{err: fmt.Errorf("the API server does not answer for %v", s.patience)}
		over := time.AfterFunc(s.patience, func() { s.giveUp(n, f) })
		f.stop = func() { over.Stop(); cancel() }
		s.all[n] = f
		go s.follow(ctx, n, f)
	}
	for n, f := range s.all {
		if !wanted[n] {
			f.stop()
			delete(s.all, n)
		}
	}
}

// observe tells how a Secret is, once that is known, or that it cannot be.
func (s *secrets) observe(ref routing.Ref, o *observed) {
	n := types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch f := s.all[n]; {
	case f == nil:
	case f.answered && f.object == nil:
		o.add(ref, nil)
	case f.answered:
		o.add(ref, f.object)
	case f.unreadable != "":
		o.unreadable[n] = f.unreadable
	}
}

// object is a Secret that is wanted and is there, nil for any other.
func (s *secrets) object(ref routing.Ref) runtime.Object {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f := s.all[types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}]; f != nil && f.object != nil {
		return f.object
	}
	return nil
}

// giveUp says of a Secret that is not known yet that it cannot be read. It is followed all the same.
func (s *secrets) giveUp(n types.NamespacedName, f *followed) {
	s.mu.Lock()
	given := !f.answered && s.all[n] == f
	if given {
		f.unreadable = f.err.Error()
	}
	s.mu.Unlock()
	if given {
		s.changed(refOfSecret(n))
	}
}

func refOfSecret(n types.NamespacedName) routing.Ref {
	return routing.Ref{Kind: kindSecret, Namespace: n.Namespace, Name: n.Name}
}

const (
	// firstRetry and lastRetry bound the pause after a watch that could not be opened or ended.
	firstRetry = 100 * time.Millisecond
	lastRetry  = 10 * time.Second
)

// follow keeps a watch open until the Secret is not wanted any more.
func (s *secrets) follow(ctx context.Context, n types.NamespacedName, f *followed) {
	for retries := 0; ctx.Err() == nil; retries++ {
		heard, err := s.hear(ctx, n, f)
		if heard {
			retries = 0
		}
		if err != nil && ctx.Err() == nil {
			log.FromContext(ctx).Error(err, "a Secret cannot be watched", "secret", n)
			s.mu.Lock()
			f.err = err
			s.mu.Unlock()
		}
		pause := min(firstRetry<<min(retries, 10), lastRetry)
		select {
		case <-time.After(pause/2 + rand.N(pause/2)):
		case <-ctx.Done():
		}
	}
}

// hear reads the Secret when a watch is open, and at each event of it, until the watch ends. What the
// event says is not used: an older one may come after a newer answer.
func (s *secrets) hear(ctx context.Context, n types.NamespacedName, f *followed) (heard bool, err error) {
	w, err := s.live.Watch(ctx, &corev1.SecretList{}, client.InNamespace(n.Namespace), client.MatchingFields{"metadata.name": n.Name})
	if err != nil {
		return false, fmt.Errorf("opening a watch: %w", err)
	}
	defer w.Stop()
	for {
		if err := s.read(ctx, n, f); err != nil {
			return heard, err
		}
		heard = true
		select {
		case e, open := <-w.ResultChan():
			switch {
			case !open:
				return heard, nil
			case e.Type == watch.Error:
				return heard, fmt.Errorf("watching: %w", apierrors.FromObject(e.Object))
			}
		case <-ctx.Done():
			return heard, nil
		}
	}
}

func (s *secrets) read(ctx context.Context, n types.NamespacedName, f *followed) error {
	object := &corev1.Secret{}
	err := s.live.Get(ctx, n, object)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading it: %w", err)
	}
	if err != nil {
		object = nil
	}
	s.mu.Lock()
	same := f.answered && (object == nil) == (f.object == nil) && (object == nil || object.ResourceVersion == f.object.ResourceVersion)
	f.answered, f.object = true, object
	s.mu.Unlock()
	if !same {
		s.changed(refOfSecret(n))
	}
	return nil
}
