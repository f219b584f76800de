package server

import (
	"context"
	"log/slog"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/mumoshu/ingress-daemonset-controller/internal/nodehealth"
)

// Watcher keeps the State of one node up to date from the API server, from own
// probes where that cannot be believed, and at first from a stored State.
type Watcher struct {
	subject nodehealth.Subject
	file    stateFile
	sink    func(nodehealth.State)
	log     *slog.Logger

	link        *link
	deployments *feed
	pods        *feed
	prober      *prober
	stored      nodehealth.State
	away        bool

	changed chan struct{}
	decided chan struct{}
}

// NewWatcher starts from what is stored in the folder stateDir, if anything. It
// calls sink with each new State, one at a time.
func NewWatcher(sources Sources, subject nodehealth.Subject, stateDir string, sink func(nodehealth.State), log *slog.Logger) *Watcher {
	now := time.Now()
	w := &Watcher{
		subject: subject,
		file:    stateFile{dir: stateDir, log: log},
		sink:    sink,
		log:     log,
		changed: make(chan struct{}, 1),
		decided: make(chan struct{}),
	}
	w.stored = w.file.load(subject)
	w.remember(w.stored)
	if w.stored.LostAt.IsZero() {
		// Whoever stored it watched the API server until it ended, which was just now.
		w.stored.LostAt = now
	}
	w.link = newLink(2, w.stored.LostAt, now)
	w.deployments = w.newFeed("deployments", sources.Deployments, &appsv1.Deployment{})
	w.pods = w.newFeed("pods", sources.Pods, &corev1.Pod{})
	w.prober = newProber(w.change)
	return w
}

// Decided is closed as soon as the State is worth answering from: the API server
// has told it, or is away and all that was stored has been probed.
func (w *Watcher) Decided() <-chan struct{} { return w.decided }

// Run keeps the State up to date until ctx is done.
func (w *Watcher) Run(ctx context.Context) {
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() { w.deployments.reflector.RunWithContext(ctx) })
	running.Go(func() { w.pods.reflector.RunWithContext(ctx) })
	defer w.prober.stop()

	for {
		next := w.publish(ctx)
		select {
		case <-w.changed:
		case <-at(next):
		case <-ctx.Done():
			return
		}
	}
}

// at fires at a time; the zero time never comes.
func at(t time.Time) <-chan time.Time {
	if t.IsZero() {
		return nil
	}
	return time.After(time.Until(t))
}

// change wakes Run; several changes may become one.
func (w *Watcher) change() {
	select {
	case w.changed <- struct{}{}:
	default:
	}
}

// publish gives the State as it is now. It returns when that changes by time alone.
func (w *Watcher) publish(ctx context.Context) (next time.Time) {
	view := w.link.view(time.Now())
	w.report(view)
	s := w.state()
	s.LostAt, s.Probing, s.Blind = view.lostAt, view.probing, view.blind
	w.prober.probe(ctx, nodehealth.Targets(s))
	s.Probed = w.prober.results()
	w.sink(s)
	w.file.save(s)
	if s.Known && (!s.Cold || view.away && s.Judged()) {
		w.decide()
	}
	return view.next
}

func (w *Watcher) report(v view) {
	switch {
	case v.away && !w.away:
		w.log.Warn("API server is away", "lastHeard", v.lostAt, "error", v.cause)
	case w.away && !v.away:
		w.log.Info("API server is back")
	}
	w.away = v.away
}

func (w *Watcher) decide() {
	select {
	case <-w.decided:
	default:
		close(w.decided)
	}
}

// remember keeps the mark's key, also over a restart.
func (w *Watcher) remember(s nodehealth.State) {
	if s.Deployment != nil && s.Deployment.MarkKey != "" {
		w.subject.MarkKey = s.Deployment.MarkKey
	}
}

func (w *Watcher) state() nodehealth.State {
	if !w.deployments.synced.Load() || !w.pods.synced.Load() {
		return w.stored
	}
	s := nodehealth.Observe(w.subject, listed[*appsv1.Deployment](w.deployments), listed[*corev1.Pod](w.pods))
	w.remember(s)
	return s
}
