package server

import (
	"context"
	"log/slog"
	"maps"
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
	sink    func(nodehealth.State)
	log     *slog.Logger

	link        *link
	deployments []*feed
	pods        *feed
	prober      *prober
	keeper      *keeper
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
		sink:    sink,
		log:     log,
		changed: make(chan struct{}, 1),
		decided: make(chan struct{}),
	}
	file := stateFile{dir: stateDir, log: log}
	w.stored = file.load(subject)
	w.keeper = newKeeper(file, w.stored, w.change)
	w.remember(w.stored)
	if w.stored.LostAt.IsZero() {
		// Whoever stored it watched the API server until it ended, which was just now.
		w.stored.LostAt = now
	}
	w.link = newLink(1+len(sources.Deployments), w.stored.LostAt, now)
	for _, source := range sources.Deployments {
		w.deployments = append(w.deployments, w.newFeed("deployments", source, &appsv1.Deployment{}))
	}
	w.pods = w.newFeed("pods", sources.Pods, &corev1.Pod{})
	w.prober = newProber(w.change)
	maps.Copy(w.prober.proven, w.stored.Proven)
	return w
}

// Decided is closed as soon as the State is worth answering from: the API server
// has told it, or is away and all that was stored has been probed.
func (w *Watcher) Decided() <-chan struct{} { return w.decided }

// Run keeps the State up to date until ctx is done.
func (w *Watcher) Run(ctx context.Context) {
	var running sync.WaitGroup
	defer running.Wait()
	for _, f := range w.deployments {
		running.Go(func() { f.reflector.RunWithContext(ctx) })
	}
	running.Go(func() { w.pods.reflector.RunWithContext(ctx) })
	running.Go(func() { w.keeper.run(ctx) })
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
	s.Proven = w.prober.provenOf(s.Pods)
	w.prober.probe(ctx, nodehealth.Targets(s))
	s.Probed = w.prober.results()
	s.Unkept = w.keeper.lacks(s)
	w.sink(s)
	w.keeper.keep(s)
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
		w.subject.LastMarkKey = s.Deployment.MarkKey
	}
}

func (w *Watcher) state() nodehealth.State {
	var deployments []*appsv1.Deployment
	for _, f := range w.deployments {
		if !f.synced.Load() {
			return w.stored
		}
		deployments = append(deployments, listed[*appsv1.Deployment](f)...)
	}
	if !w.pods.synced.Load() {
		return w.stored
	}
	s := nodehealth.Observe(w.subject, deployments, listed[*corev1.Pod](w.pods))
	w.remember(s)
	return s
}
