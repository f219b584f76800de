package controller

import (
	"context"
	"errors"
	"os"
	"sync"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/internal/nodehealth/healthclient"
	"github.com/mumoshu/ingress-daemonset-controller/internal/rollout"
	"k8s.io/apimachinery/pkg/types"
)

// checks listens to the health-check ports of nodes as the load balancer asks
// them, and tells when an answer changes. A health checker answers when its
// verdict changes (v1alpha1.HealthCheckAnswer); a plain port, such as
// kube-proxy's, answers at once and is asked every second.
type checks struct {
	// set is the IngressDaemonSet whose nodes they are.
	set types.NamespacedName
	// changed is called when an answer differs from the last.
	changed func()
	// begin begins to listen to a port, until the context ends.
	begin func(context.Context, *checks, *caller)
	now   func() time.Time

	mu      sync.Mutex
	callers map[endpoint]*caller
}

// endpoint is one health-check port of one node.
type endpoint struct {
	healthclient.Port
	// deserted says whether no pod may be behind it: it is not asked. Nor is one that is barred:
	// what listens there may be of the system, and no spec names the port, which whoever may
	// make DaemonSets chooses.
	deserted, barred bool
}

type caller struct {
	endpoint
	stop context.CancelFunc
	// known is what its last answer tells for the next question.
	known healthclient.Known
	last  rollout.Check
	// asked says whether a first question had its answer, or none.
	asked bool
	// failures counts the questions without an answer since the last one that had it.
	failures int
	// news counts the answers that differed from the one before, newsAt is when the last came.
	news   int
	newsAt time.Time
}

const (
	askPlainEvery = time.Second
	// newsAtOnce is after how many pieces of news the next question is asked at once: a turn of
	// a node has two. After more it waits, from shortestRest on twice as long each time.
	newsAtOnce   = 2
	shortestRest = 100 * time.Millisecond
	longestRest  = 5 * time.Second
)

func newChecks(set types.NamespacedName, changed func(), begin func(context.Context, *checks, *caller), now func() time.Time) *checks {
	return &checks{set: set, changed: changed, begin: begin, now: now, callers: map[endpoint]*caller{}}
}

// want sets the ports to listen to; none for none.
func (c *checks) want(endpoints []endpoint) {
	c.mu.Lock()
	defer c.mu.Unlock()
	wanted := map[endpoint]*caller{}
	for _, e := range endpoints {
		if e.deserted || e.barred {
			continue
		}
		if old := c.callers[e]; old != nil {
			wanted[e] = old
			continue
		}
		ctx, stop := context.WithCancel(context.Background())
		wanted[e] = &caller{endpoint: e, stop: stop, last: unheard(e.Port)}
		c.begin(ctx, c, wanted[e])
	}
	for e, old := range c.callers {
		if wanted[e] == nil {
			old.stop()
		}
	}
	c.callers = wanted
}

// last is what a port answered last; nothing before its first answer.
func (c *checks) last(e endpoint) rollout.Check {
	c.mu.Lock()
	defer c.mu.Unlock()
	if caller := c.callers[e]; caller != nil {
		return caller.last
	}
	return unheard(e.Port)
}

// heardAll reports whether every port had its chance to answer. Before that, nodes
// that serve look as if they did not.
func (c *checks) heardAll() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, caller := range c.callers {
		if !caller.asked {
			return false
		}
	}
	return true
}

// listen asks a port again and again, until the context ends.
func listen(ctx context.Context, c *checks, to *caller) { go c.ask(ctx, to) }

// ask asks a port again and again: ask, await and read follow each other, each with a stack of
// its own. Thousands wait in await, whose stack has never been more than a goroutine begins with.
func (c *checks) ask(ctx context.Context, to *caller) {
	if ctx.Err() != nil {
		return
	}
	question, err := to.Ask(ctx, to.known)
	if err != nil {
		c.read(ctx, to, nil, err)
		return
	}
	go c.await(ctx, to, question)
}

// await waits until the answer begins.
func (c *checks) await(ctx context.Context, from *caller, question *healthclient.Question) {
	err := question.Wait()
	go c.read(ctx, from, question, err)
}

// read reads the answer, which has begun unless there is an error, and waits until the next question
// is due.
func (c *checks) read(ctx context.Context, from *caller, question *healthclient.Question, err error) {
	var answer healthclient.Answer
	check := unheard(from.Port)
	if err == nil {
		answer, err = question.Read()
	}
	if err == nil {
		check = checkOf(from.Port, answer)
	}
	if question != nil {
		check.Accepted = err != nil
		question.Close()
	}
	select {
	case <-ctx.Done():
	case <-time.After(c.take(from, check, answer.Known, err)):
	}
	go c.ask(ctx, from)
}

// unheard is a port that has not answered.
func unheard(p healthclient.Port) rollout.Check {
	return rollout.Check{Port: p.Number, Unmarked: p.Plain}
}

func checkOf(p healthclient.Port, answer healthclient.Answer) rollout.Check {
	return rollout.Check{
		Port: p.Number, Unmarked: p.Plain, Answered: true, Serving: answer.Serving, Since: answer.Since,
		Mark: answer.Mark, Quiet: answer.Quiet, AskedBy: answer.AskedBy, Blind: answer.Blind,
	}
}

// take takes the outcome of a question and tells when to ask the next. After a single
// failure that is at once, since a health checker that hands over to its next version
// ends what waits. One that is silent has failed.
func (c *checks) take(from *caller, answer rollout.Check, known healthclient.Known, err error) time.Duration {
	switch {
	case err == nil:
		from.failures = 0
		// What brings no news was answered for want of patience.
		if news := c.heard(from, answer, known); !news || known.ETag == "" {
			return askPlainEvery
		}
		return from.rest(c.now())
	case from.failures == 0 && !errors.Is(err, os.ErrDeadlineExceeded):
		from.failures = 1
		return 50 * time.Millisecond
	default:
		silent := unheard(from.Port)
		silent.Accepted = answer.Accepted
		c.heard(from, silent, healthclient.Known{})
		return askPlainEvery
	}
}

// rest is how long to leave a port alone that just had news. Whoever chooses a health checker's
// image could otherwise have it asked without a pause, and a pass made for each answer.
func (e *caller) rest(now time.Time) time.Duration {
	if now.Sub(e.newsAt) > 2*longestRest {
		e.news = 0
	}
	e.news, e.newsAt = e.news+1, now
	if e.news <= newsAtOnce {
		return 0
	}
	return min(shortestRest<<min(e.news-newsAtOnce-1, 8), longestRest)
}

// heard keeps an answer, and reports whether it differs from the last.
func (c *checks) heard(from *caller, answer rollout.Check, known healthclient.Known) bool {
	c.mu.Lock()
	last := &from.last
	verdict := last.Answered == answer.Answered && last.Serving == answer.Serving && last.Mark == answer.Mark
	same := verdict && last.Accepted == answer.Accepted && last.Quiet == answer.Quiet && (last.Blind == "") == (answer.Blind == "")
	first := !from.asked
	from.known, from.asked = known, true
	switch {
	case verdict:
		answer.Since = last.Since
	case !answer.Answered:
		// Nobody tells since when a port is silent. It may have passed until now.
		answer.Since = c.now()
	}
	*last = answer
	c.mu.Unlock()
	if !verdict && !first {
		flipCounter.WithLabelValues(c.set.Namespace, c.set.Name).Inc()
	}
	if !same || first {
		c.changed()
	}
	return !same
}
