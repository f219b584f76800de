package server

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/mumoshu/ingress-daemonset-controller/internal/nodehealth"
)

func target(change func(*nodehealth.Target)) nodehealth.Target {
	t := nodehealth.Target{
		Container: nodehealth.Container{Pod: "a", Name: "app"},
		IP:        "10.0.0.1",
		Probe:     &corev1.Probe{PeriodSeconds: 10, FailureThreshold: 3, SuccessThreshold: 1},
		Ready:     true,
	}
	if change != nil {
		change(&t)
	}
	return t
}

// fakeProber attempts nothing: it fails while broken is set.
func fakeProber(broken *atomic.Bool, news func()) *prober {
	p := newProber(news)
	p.attempt = func(context.Context, string, *corev1.Probe) error {
		if broken.Load() {
			return errors.New("broken")
		}
		return nil
	}
	return p
}

func TestProberGoesByThresholdsAndPeriod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var broken atomic.Bool
		var news atomic.Int32
		p := fakeProber(&broken, func() { news.Add(1) })
		defer p.stop()
		container := target(nil).Container
		p.probe(t.Context(), []nodehealth.Target{target(nil)})

		time.Sleep(time.Second)
		synctest.Wait()
		if len(p.results()) != 0 {
			t.Errorf("what passes as expected is news: %v", p.results())
		}
		broken.Store(true)
		time.Sleep(25 * time.Second)
		synctest.Wait()
		if len(p.results()) != 0 {
			t.Errorf("two failures decide: %v", p.results())
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if ready, found := p.results()[container]; ready || !found {
			t.Errorf("three failures do not decide: %v", p.results())
		}
		broken.Store(false)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if !p.results()[container] || news.Load() != 2 {
			t.Errorf("one success does not decide: %v, %d news", p.results(), news.Load())
		}
	})
}

// TestRehearsal ends with the first success, which is all that it tells.
func TestRehearsal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var broken atomic.Bool
		var news atomic.Int32
		broken.Store(true)
		p := fakeProber(&broken, func() { news.Add(1) })
		defer p.stop()
		rehearsed := target(func(t *nodehealth.Target) { t.Rehearsal = true })
		pods := []nodehealth.Pod{{UID: rehearsed.Pod}}
		p.probe(t.Context(), []nodehealth.Target{rehearsed})
		time.Sleep(time.Minute)
		synctest.Wait()
		if len(p.results())+len(p.provenOf(pods)) > 0 || news.Load() > 0 {
			t.Errorf("a probe that fails tells %v and %v", p.results(), p.provenOf(pods))
		}
		broken.Store(false)
		time.Sleep(rehearseEvery)
		synctest.Wait()
		if len(p.results()) > 0 || !p.provenOf(pods)[rehearsed.Container] || news.Load() != 1 {
			t.Errorf("a probe that passes tells %v and %v", p.results(), p.provenOf(pods))
		}
		if got := p.provenOf(nil); len(got) > 0 {
			t.Errorf("of pods that are gone it knows %v", got)
		}
	})
}

func TestProberForgetsWhatIsNoTarget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var broken atomic.Bool
		p := fakeProber(&broken, func() {})
		defer p.stop()
		cold := target(func(t *nodehealth.Target) { t.FirstCounts = true })
		other := target(func(t *nodehealth.Target) { t.FirstCounts, t.Pod = true, "b" })
		p.probe(t.Context(), []nodehealth.Target{cold, other})
		synctest.Wait()
		if len(p.results()) != 2 {
			t.Fatalf("results are %v", p.results())
		}

		warm := target(func(t *nodehealth.Target) { t.Ready = false })
		p.probe(t.Context(), []nodehealth.Target{warm})
		if got := p.results(); len(got) != 1 || !got[cold.Container] {
			t.Errorf("results are %v, want the one that is still a target", got)
		}

		broken.Store(true)
		moved := target(func(t *nodehealth.Target) { t.FirstCounts, t.IP = true, "10.0.0.2" })
		p.probe(t.Context(), []nodehealth.Target{moved})
		if got := p.results(); len(got) != 0 {
			t.Errorf("results are %v before the new address is probed", got)
		}
		synctest.Wait()
		if ready, found := p.results()[moved.Container]; ready || !found {
			t.Errorf("results are %v after the new address was probed", p.results())
		}
	})
}
