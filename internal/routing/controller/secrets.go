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

	mu  sync.Mutex
	all map[types.NamespacedName]*followed
}

// followed is a Secret that is wanted.
type followed struct {
	stop context.CancelFunc
	// answered says whether it is known how it is; object is nil where it is not there.
	answered bool
	object   *corev1.Secret
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
		ctx, stop := context.WithCancel(s.running)
		f := &followed{stop: stop}
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

// answer is how a Secret is, nil for not there, once that is known.
func (s *secrets) answer(ref routing.Ref) (object client.Object, answered bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.all[types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}]
	switch {
	case f == nil || !f.answered:
		return nil, false
	case f.object == nil:
		return nil, true
	}
	return f.object, true
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
		s.changed(routing.Ref{Kind: kindSecret, Namespace: n.Namespace, Name: n.Name})
	}
	return nil
}
