package server

import (
	"context"
	"maps"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mumoshu/ingress-daemonset-controller/internal/nodehealth"
)

// rehearseEvery is how often a probe is tried at most that has not passed yet, while the
// kubelet's is believed.
const rehearseEvery = 10 * time.Second

// prober runs the readiness probes of some containers in the kubelet's stead.
type prober struct {
	news    func()
	attempt func(ctx context.Context, ip string, probe *corev1.Probe) error

	mu      sync.Mutex
	found   map[nodehealth.Container]bool
	proven  map[nodehealth.Container]bool
	workers map[nodehealth.Container]*worker
	running sync.WaitGroup
}

type worker struct {
	target nodehealth.Target
	cancel context.CancelFunc
}

// newProber calls news when a container's result is there or has changed.
func newProber(news func()) *prober {
	return &prober{
		news:    news,
		attempt: newAttempts().attempt,
		found:   map[nodehealth.Container]bool{},
		proven:  map[nodehealth.Container]bool{},
		workers: map[nodehealth.Container]*worker{},
	}
}

// probe makes the targets those that are probed. It forgets what it found of
// those that no longer are.
func (p *prober) probe(ctx context.Context, targets []nodehealth.Target) {
	p.mu.Lock()
	defer p.mu.Unlock()
	wanted := make(map[nodehealth.Container]nodehealth.Target, len(targets))
	for _, t := range targets {
		wanted[t.Container] = t
	}
	for container, w := range p.workers {
		if t, found := wanted[container]; !found || !same(t, w.target) {
			p.end(container, w)
		}
	}
	for container, t := range wanted {
		if p.workers[container] == nil {
			p.begin(ctx, container, t)
		}
	}
}

func same(a, b nodehealth.Target) bool {
	return a.IP == b.IP && a.Rehearsal == b.Rehearsal && equality.Semantic.DeepEqual(a.Probe, b.Probe)
}

func (p *prober) begin(ctx context.Context, container nodehealth.Container, target nodehealth.Target) {
	ctx, cancel := context.WithCancel(ctx)
	w := &worker{target: target, cancel: cancel}
	p.workers[container] = w
	p.running.Go(func() { p.run(ctx, w) })
}

func (p *prober) end(container nodehealth.Container, w *worker) {
	w.cancel()
	delete(p.workers, container)
	delete(p.found, container)
}

func (p *prober) run(ctx context.Context, w *worker) {
	tally := nodehealth.NewTally(w.target)
	ticker := time.NewTicker(seconds(w.target.Probe.PeriodSeconds))
	defer ticker.Stop()
	for {
		success := p.attempt(ctx, w.target.IP, w.target.Probe) == nil
		if ctx.Err() != nil {
			return
		}
		if success {
			p.prove(w)
		}
		if ready, news := tally.Add(success, w.target.Probe); news && !w.target.Rehearsal {
			p.record(w, ready)
		}
		if w.target.Rehearsal {
			ticker.Reset(max(seconds(w.target.Probe.PeriodSeconds), rehearseEvery))
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

// record drops the result of a worker that was replaced meanwhile.
func (p *prober) record(w *worker, ready bool) {
	p.mu.Lock()
	current := p.workers[w.target.Container] == w
	if current {
		p.found[w.target.Container] = ready
	}
	p.mu.Unlock()
	if current {
		p.news()
	}
}

// prove keeps that a probe has passed.
func (p *prober) prove(w *worker) {
	p.mu.Lock()
	news := !p.proven[w.target.Container]
	p.proven[w.target.Container] = true
	p.mu.Unlock()
	if news && w.target.Rehearsal {
		p.news()
	}
}

// provenOf are those of the pods of which a probe has passed. The others are forgotten.
func (p *prober) provenOf(pods []nodehealth.Pod) map[nodehealth.Container]bool {
	there := map[types.UID]bool{}
	for _, pod := range pods {
		there[pod.UID] = true
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	maps.DeleteFunc(p.proven, func(c nodehealth.Container, _ bool) bool { return !there[c.Pod] })
	return maps.Clone(p.proven)
}

func (p *prober) results() map[nodehealth.Container]bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.found)
}

func (p *prober) stop() {
	p.probe(context.Background(), nil)
	p.running.Wait()
}

// seconds is at least one, as the API server sees to.
func seconds(n int32) time.Duration { return time.Duration(max(1, n)) * time.Second }
