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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
	// most is how many are followed of a namespace.
	most int
	// opening and reading have room for as many as are asked for at once.
	opening, reading chan struct{}

	mu  sync.Mutex
	all map[types.NamespacedName]*followed
	// answers is how many reads were answered, failing how many of all cannot be watched.
	answers, failing int
}

// followed is a Secret that is wanted.
type followed struct {
	stop func()
	// refused says that it is not watched, because there are too many of its namespace.
	refused bool
	// over gives it up. It was set when there had been so many answers.
	over    *time.Timer
	answers int
	// answered says whether it is known how it is; object is nil where it is not there. It has metadata alone when
	// the Compiler was told of it, which is not told again then.
	answered, told bool
	object         *corev1.Secret
	// err is why it is not known, as of the last try, nil before one has ended; unreadable is that of when it was
	// given up.
	err        error
	unreadable string
	// failing says whether the last try failed.
	failing bool
}

const (
	// firstRetry and lastRetry bound the pause after a watch that could not be opened or ended.
	firstRetry = 100 * time.Millisecond
	lastRetry  = time.Minute
	// opensAtOnce and readsAtOnce bound what the API server is asked at once, beside the watches that are open:
	// there is no bound on what it is asked in a second, because thousands of Secrets are named by large clusters,
	// and proxies wait for them all.
	opensAtOnce = 50
	readsAtOnce = 100
	// mostOfNamespace is how many Secrets of a namespace are watched: of 5,000 certificates with their issuer's proxies
	// can be told, see stream.Log.
	mostOfNamespace = 6000
)

func newSecrets(running context.Context, live client.WithWatch, changed func(routing.Ref)) *secrets {
	return &secrets{
		running: running, live: live, changed: changed, patience: patience, most: mostOfNamespace, all: map[types.NamespacedName]*followed{},
		opening: make(chan struct{}, opensAtOnce), reading: make(chan struct{}, readsAtOnce),
	}
}

// want follows these and no others, of each namespace as many as are read. Who is followed stays so.
func (s *secrets) want(names []types.NamespacedName) {
	for _, n := range s.follows(names) {
		s.changed(refOfSecret(n))
	}
}

// follows gives those that are not followed from now on, because there are too many of their namespace.
func (s *secrets) follows(names []types.NamespacedName) (refused []types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	wanted, of := map[types.NamespacedName]bool{}, map[string]int{}
	for _, n := range names {
		wanted[n] = true
	}
	for n, f := range s.all {
		switch {
		case !wanted[n]:
			f.stop()
			s.fails(n, f, nil)
			delete(s.all, n)
		case !f.refused:
			of[n.Namespace]++
		}
	}
	for _, n := range names {
		f := s.all[n]
		switch {
		case f != nil && !f.refused:
		case of[n.Namespace] < s.most:
			of[n.Namespace]++
			s.begin(n)
		case f == nil:
			s.all[n] = &followed{stop: func() {}, refused: true, unreadable: fmt.Sprintf("Ingresses and Gateways name more than %d Secrets of its namespace", s.most)}
			refused = append(refused, n)
		}
	}
	return refused
}

func (s *secrets) begin(n types.NamespacedName) {
	ctx, cancel := context.WithCancel(s.running)
	f := &followed{answers: s.answers}
	f.over = time.AfterFunc(s.patience, func() { s.giveUp(n, f) })
	f.stop = func() { f.over.Stop(); cancel() }
	s.all[n] = f
	go s.follow(ctx, n, f)
}

// observe tells how a Secret is, once that is known, or that it cannot be.
func (s *secrets) observe(ref routing.Ref, o *observed) {
	n := types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch f := s.all[n]; {
	case f == nil:
	case f.told:
	case f.answered && f.object == nil:
		o.add(ref, nil)
	case f.answered:
		o.add(ref, f.object)
	case f.unreadable != "":
		o.unreadable[n] = f.unreadable
	}
}

// told keeps metadata alone of a Secret of which the Compiler is told: it has the certificate.
func (s *secrets) told(object *corev1.Secret) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f := s.all[client.ObjectKeyFromObject(object)]; f != nil && f.object == object {
		f.told = true
		f.object = &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
			Namespace: object.Namespace, Name: object.Name, UID: object.UID, ResourceVersion: object.ResourceVersion,
		}}
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

// giveUp says of a Secret that is not known yet that it cannot be read. It is followed all the same. One that is
// still in the line is waited for again, where others had their turn meanwhile.
func (s *secrets) giveUp(n types.NamespacedName, f *followed) {
	s.mu.Lock()
	inLine := f.err == nil && f.answers != s.answers
	given := !f.answered && s.all[n] == f && !inLine
	switch {
	case given && f.err == nil:
		f.unreadable = fmt.Sprintf("the API server does not answer for %v", s.patience)
	case given:
		f.unreadable = f.err.Error()
	case !f.answered && s.all[n] == f:
		f.answers = s.answers
		f.over.Reset(s.patience)
	}
	s.mu.Unlock()
	if given {
		s.changed(refOfSecret(n))
	}
}

func refOfSecret(n types.NamespacedName) routing.Ref {
	return routing.Ref{Kind: kindSecret, Namespace: n.Namespace, Name: n.Name}
}

// follow keeps a watch open until the Secret is not wanted any more. A watch that lasted for less than the longest
// pause counts as one that failed: where the API server ends them, that many begin no sooner.
func (s *secrets) follow(ctx context.Context, n types.NamespacedName, f *followed) {
	for retries := 0; ctx.Err() == nil; retries++ {
		begun := time.Now()
		err := s.hear(ctx, n, f)
		if time.Since(begun) > lastRetry {
			retries = 0
		}
		if err != nil && ctx.Err() == nil {
			s.mu.Lock()
			s.fails(n, f, err)
			s.mu.Unlock()
		}
		pause := min(firstRetry<<min(retries, 10), lastRetry)
		select {
		case <-time.After(pause/2 + rand.N(pause/2)):
		case <-ctx.Done():
		}
	}
}

// fails notes whether a Secret cannot be watched, and says when that is so of a first one, and when it is of none any
// more: thousands fail together.
func (s *secrets) fails(n types.NamespacedName, f *followed, err error) {
	if err != nil {
		f.err = err
	}
	logger := log.FromContext(s.running).WithValues("secret", n)
	switch {
	case err != nil && !f.failing:
		if f.failing, s.failing = true, s.failing+1; s.failing == 1 {
			logger.Error(err, "Secrets cannot be watched, this one and maybe others")
		}
	case err == nil && f.failing:
		if f.failing, s.failing = false, s.failing-1; s.failing == 0 {
			logger.Info("all Secrets can be watched again")
		}
	}
}

// hear reads the Secret when a watch is open, and at each event of it, until the watch ends. What the
// event says is not used: an older one may come after a newer answer.
func (s *secrets) hear(ctx context.Context, n types.NamespacedName, f *followed) error {
	ctx, end := context.WithCancel(ctx)
	defer end()
	w, err := s.open(ctx, end, n)
	if err != nil {
		return fmt.Errorf("opening a watch: %w", err)
	}
	defer w.Stop()
	for {
		if err := s.read(ctx, n, f); err != nil {
			return err
		}
		select {
		case e, open := <-w.ResultChan():
			switch {
			case !open:
				return nil
			case e.Type == watch.Error:
				return fmt.Errorf("watching: %w", apierrors.FromObject(e.Object))
			}
		case <-ctx.Done():
			return nil
		}
	}
}

// open opens a watch in its turn. One that is not open after a while is ended, since others wait behind it.
func (s *secrets) open(ctx context.Context, end func(), n types.NamespacedName) (watch.Interface, error) {
	leave, err := enter(ctx, s.opening)
	if err != nil {
		return nil, err
	}
	defer leave()
	late := time.AfterFunc(patience, end)
	w, err := s.live.Watch(ctx, &corev1.SecretList{}, client.InNamespace(n.Namespace), client.MatchingFields{"metadata.name": n.Name})
	if late.Stop() || err == nil {
		return w, err
	}
	return nil, fmt.Errorf("the API server does not answer for %v", patience)
}

func (s *secrets) read(ctx context.Context, n types.NamespacedName, f *followed) error {
	leave, err := enter(ctx, s.reading)
	if err != nil {
		return err
	}
	defer leave()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	object := &corev1.Secret{}
	err = s.live.Get(ctx, n, object)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading it: %w", err)
	}
	if err != nil {
		object = nil
	}
	s.mu.Lock()
	s.answers++
	s.fails(n, f, nil)
	same := f.answered && (object == nil) == (f.object == nil) && (object == nil || object.ResourceVersion == f.object.ResourceVersion)
	if !same {
		f.answered, f.told, f.object = true, false, object
	}
	s.mu.Unlock()
	if !same {
		s.changed(refOfSecret(n))
	}
	return nil
}

// enter waits for a turn, which leave ends.
func enter(ctx context.Context, turns chan struct{}) (leave func(), err error) {
	select {
	case turns <- struct{}{}:
		return func() { <-turns }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
