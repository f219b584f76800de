package controller

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/nodehealth/healthclient"
	"github.com/mumoshu/ingress-daemonset-controller/internal/rollout"
)

// A leader asks the simulated ports as the real one asks the real ones, but in virtual
// time: what comes of a question, and when, is told to the same checks.take.

// question is one that waits for another answer than the last.
type question struct {
	by *leader
	// settle answers it; only the first answer counts.
	settle func(after time.Duration, answer rollout.Check, etag string, err error)
}

// errUnanswered is a port that nobody listens on, or that breaks off; one that is silent
// has its deadline exceeded.
var errUnanswered = errors.New("no answer")

// listen begins to ask a port.
func (l *leader) listen(ctx context.Context, c *checks, to *caller) {
	l.w.after(0, func() { l.ask(ctx, c, to) })
}

// ask asks once, and again when the answer was taken.
func (l *leader) ask(ctx context.Context, by *checks, to *caller) {
	w := l.w
	if ctx.Err() != nil || l.stopped {
		return
	}
	if w.now.Before(l.frozenUntil) {
		w.at(l.frozenUntil, func() { l.ask(ctx, by, to) })
		return
	}
	settled := false
	settle := func(after time.Duration, answer rollout.Check, etag string, err error) {
		if settled {
			return
		}
		settled = true
		w.after(after, func() {
			if ctx.Err() == nil && !l.stopped {
				// Health checkers of this release show life.
				known := healthclient.Known{ETag: etag, Alive: !to.Plain}
				w.after(by.take(to, answer, known, err), func() { l.ask(ctx, by, to) })
			}
		})
	}
	nothing := unheard(to.Port)
	n := w.addresses[to.Address]
	if n == nil || !n.alive {
		settle(healthclient.DialTimeout, nothing, "", errUnanswered)
		return
	}
	c := n.checks[to.Number]
	switch {
	case to.Plain && w.proxied:
		l.askProxy(n, to, settle)
	case c == nil || !c.up:
		settle(time.Millisecond, nothing, "", errUnanswered)
	case c.hangs, c.slow > 0 && c.slow >= to.known.Patience():
		nothing.Accepted = true
		settle(to.known.Patience(), nothing, "", os.ErrDeadlineExceeded)
	case to.known.ETag == "" || to.known.ETag != l.etag(c):
		answer := l.answer(c)
		settle(c.slow+w.between(time.Millisecond, 20*time.Millisecond), answer, l.etag(c), nil)
	default:
		q := &question{by: l, settle: settle}
		c.waiting = append(c.waiting, q)
		w.after(healthclient.LongestWait, func() {
			c.waiting = slices.DeleteFunc(c.waiting, func(other *question) bool { return other == q })
			settle(0, l.answer(c), l.etag(c), nil)
		})
	}
}

func (l *leader) etag(c *simCheck) string { return fmt.Sprint(c.serving, c.mark, l.w.quiet(c.port)) }

// answer is what the checker says, by the leader's clock.
func (l *leader) answer(c *simCheck) rollout.Check {
	since := c.since
	if !c.serving {
		since = c.failing
	}
	return rollout.Check{Port: c.port, Answered: true, Serving: c.serving, Mark: v1alpha1.Mark(c.mark), Since: l.now().Add(-l.w.now.Sub(since)), Quiet: l.w.quiet(c.port)}
}

// quiet reports whether the load balancer has not asked a port for five minutes.
func (w *world) quiet(port int32) bool {
	until, removed := w.asked[port]
	return removed && w.now.After(until.Add(5*time.Minute))
}

// answerAll answers all questions that wait for news, unless the checker hangs.
func (w *world) answerAll(c *simCheck) {
	if c.hangs || !c.node.alive {
		return
	}
	waiting := c.waiting
	c.waiting = nil
	for _, q := range waiting {
		q.settle(w.between(time.Millisecond, 20*time.Millisecond), q.by.answer(c), q.by.etag(c), nil)
	}
}

// stopAnswering closes the connections of those who wait.
func (w *world) stopAnswering(c *simCheck) {
	waiting := c.waiting
	c.waiting = nil
	for _, q := range waiting {
		q.settle(time.Millisecond, rollout.Check{Port: c.port}, "", errUnanswered)
	}
}

// hang keeps those who wait without a sign of life.
func (w *world) hang(c *simCheck) {
	waiting := c.waiting
	c.waiting = nil
	for _, q := range waiting {
		q.settle(healthclient.Silence, rollout.Check{Port: c.port, Accepted: true}, "", os.ErrDeadlineExceeded)
	}
}

// fallSilent is a machine that dies: keep-alive notices after 14 seconds.
func (w *world) fallSilent(c *simCheck) {
	waiting := c.waiting
	c.waiting = nil
	for _, q := range waiting {
		q.settle(14*time.Second, rollout.Check{Port: c.port}, "", errUnanswered)
	}
}
