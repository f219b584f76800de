package targets

import (
	"maps"
	"slices"
	"time"

	"golang.org/x/time/rate"
)

// Kind is what a call to the cloud does. Those that come first are made first.
type Kind int

const (
	Deregister Kind = iota
	Register
	Read
	kinds
)

func (k Kind) String() string { return [...]string{"Deregister", "Register", "Read"}[k] }

// chunk is how many targets one call may name: quota "Targets per
// RegisterTargets or DeregisterTargets call" is not published; other controllers
// use 200 (kubernetes-sigs/aws-load-balancer-controller).
const chunk = 200

// Call is one call to the cloud, about one group.
type Call struct {
	Kind  Kind
	Group string
	// Targets are what is registered or deregistered; a Read has none. Why has a sentence about each,
	// for people.
	Targets []Registration
	Why     map[Target]string
	// Decided is when it was decided to make it.
	Decided time.Time
}

// longestAge is how old a decision may be by which something is registered or
// deregistered. A controller that was frozen goes on with what it was about to do.
const longestAge = 5 * time.Second

// Old reports whether a call was decided too long ago to be made: by either clock of the
// machine, since one may stand still while it sleeps, and the other be set.
func (c Call) Old(now time.Time) bool {
	return c.Kind != Read && old(c.Decided, now)
}

func old(decided, now time.Time) bool {
	return !decided.IsZero() && (now.Sub(decided) > longestAge || now.Round(0).Sub(decided.Round(0)).Abs() > longestAge)
}

// Outcome is how a call ended.
type Outcome int

const (
	// Accepted: the cloud answered that it does it.
	Accepted Outcome = iota
	// Throttled: the cloud asks to come more slowly.
	Throttled
	// Invalid: the cloud refuses the whole call because of a target in it.
	Invalid
	// Full: the cloud refuses the whole call because the group holds no more.
	Full
	// Gone: there is no such group.
	Gone
	// Failed: anything else, also an answer that was lost.
	Failed
)

func (o Outcome) String() string {
	return [...]string{"Accepted", "Throttled", "Invalid", "Full", "Gone", "Failed"}[o]
}

// Calls is the work that is left to do in all groups, and what became of what was
// done. It has no clock: each method takes the time, which never goes back. One
// call to a group is under way at a time, so that calls about one target arrive in
// the order in which they were decided, and a read shows all that was answered
// before. Its memory may be lost at any time.
type Calls struct {
	bucket bucket
	groups map[string]*queue
	// last is which group had the last call of a kind.
	last [kinds]string
	// made counts the calls, and other requests that took a token.
	made int
	// waiting is how many requests wait for a token that Next knows nothing of.
	waiting int
}

// NewCalls makes at most burst calls at once and perSecond of them in the long run.
func NewCalls(perSecond float64, burst int) *Calls {
	return &Calls{bucket: newBucket(perSecond, burst), groups: map[string]*queue{}}
}

// DefaultRate and DefaultBurst keep well below what Elastic Load Balancing grants
// an account, which others use too. What nobody waits for has a limit of its own, half of
// the 10 requests a second and 40 at once that are documented for actions that describe
// (API reference 2015-12-01, "Throttling"); BackgroundBurst is in seconds of the rate.
const (
	DefaultRate    = 4.0
	DefaultBurst   = 20
	BackgroundRate = 5.0
	// BackgroundBurst is for how many seconds' worth of requests there may be at once.
	BackgroundBurst = 4
)

// Plan replaces the work that is queued for a group by that of a newer decision,
// of which the records are written. What is under way stays under way.
func (c *Calls) Plan(group string, d GroupDecision) {
	q := c.groups[group]
	if q == nil {
		q = newQueue()
		c.groups[group] = q
	}
	q.plan(d)
}

// Keep forgets all groups but some.
func (c *Calls) Keep(groups map[string]bool) {
	for _, id := range slices.Collect(maps.Keys(c.groups)) {
		if !groups[id] {
			c.Forget(id)
		}
	}
}

// Forget drops a group for which nothing is to be done any more, when the call
// that is under way is Done.
func (c *Calls) Forget(group string) {
	q := c.groups[group]
	switch {
	case q == nil:
	case q.underWay:
		q.plan(GroupDecision{})
		q.forgotten = true
	default:
		delete(c.groups, group)
	}
}

// fairEvery is which call goes to whoever has waited longest, whatever it is: nobody waits
// for ever for those that come first. While a request waits that Next knows nothing of, it is that
// one's, which has yieldFor to take the token.
const (
	fairEvery = 4
	yieldFor  = 10 * time.Millisecond
)

// class is which calls come before others.
type class struct {
	kind Kind
	// again says whether the last call of the kind to the group failed.
	again bool
}

// classes are in the order in which they are served. What failed is tried again when there
// is nothing else to do: groups that refuse for ever leave their turn to others.
var classes = []class{{Deregister, false}, {Register, false}, {Read, false}, {Deregister, true}, {Read, true}, {Register, true}}

// Next is the call to make now, or when to ask again; zero while that depends on Plan or
// Done only. What is decided too long ago is not made, see Stale. Within a class the groups
// take turns.
func (c *Calls) Next(now time.Time) (call Call, ready bool, at time.Time) {
	var next class
	var group string
	var since time.Time
	fair := c.made%fairEvery == fairEvery-1
	ids := slices.Sorted(maps.Keys(c.groups))
	for _, k := range classes {
		for _, id := range c.turns(ids, k.kind) {
			q := c.groups[id]
			due, work := q.due(k.kind)
			switch {
			case !work || q.retries[k.kind].failures > 0 != k.again || k.kind != Read && old(q.decided, now):
				continue
			case now.Before(due):
				at = earlier(at, due)
				continue
			}
			if waits := later(due, q.since[k.kind]); group == "" || fair && waits.Before(since) {
				next, group, since = k, id, waits
			}
			if !fair {
				break
			}
		}
		if group != "" && !fair {
			break
		}
	}
	if group == "" {
		return Call{}, false, at
	}
	if fair && c.waiting > 0 {
		return Call{}, false, earlier(at, c.bucket.at(now).Add(yieldFor))
	}
	if token := c.bucket.take(now); now.Before(token) {
		return Call{}, false, earlier(at, token)
	}
	c.made++
	c.last[next.kind] = group
	q := c.groups[group]
	batch := q.begin(next.kind)
	return Call{Kind: next.kind, Group: group, Targets: batch, Why: q.whyOf(batch), Decided: q.decided}, true, time.Time{}
}

// Stale are the groups in which something is due that was decided too long ago, and is to
// be decided again by Plan.
func (c *Calls) Stale(now time.Time) []string {
	var out []string
	for id, q := range c.groups {
		for kind := range Read {
			if due, work := q.due(kind); work && !now.Before(due) && old(q.decided, now) {
				out = append(out, id)
				break
			}
		}
	}
	slices.Sort(out)
	return out
}

// turns are all groups, beginning after the one that had its turn.
func (c *Calls) turns(ids []string, kind Kind) []string {
	after, found := slices.BinarySearch(ids, c.last[kind])
	if found {
		after++
	}
	return append(slices.Clone(ids[after:]), ids[:after]...)
}

// Take takes the token of a request that Next knows nothing of, or says when there
// will be one.
func (c *Calls) Take(now time.Time) time.Time {
	at := c.bucket.take(now)
	if !now.Before(at) {
		c.made++
	}
	return at
}

// Wait says that so many requests more, or fewer, wait to Take a token.
func (c *Calls) Wait(requests int) { c.waiting += requests }

// Done tells how a call ended, at the time of its answer. why is the cloud's
// message. random, from 0 to below 1, spreads what is tried again.
func (c *Calls) Done(now time.Time, call Call, outcome Outcome, why string, random float64) {
	if outcome == Throttled {
		c.bucket.empty(now)
	}
	q := c.groups[call.Group]
	if q == nil || !q.underWay {
		return
	}
	q.done(now, call, outcome, why, random)
	if q.forgotten {
		delete(c.groups, call.Group)
	}
}

// Answers and Refused are for the State of the group; they are copies.
func (c *Calls) Answers(group string) map[Target]Answer {
	if q := c.groups[group]; q != nil {
		return maps.Clone(q.answers)
	}
	return nil
}

// Refused are the refusals of single targets, in their order.
func (c *Calls) Refused(group string) []Refusal {
	q := c.groups[group]
	if q == nil {
		return nil
	}
	var out []Refusal
	for _, t := range slices.SortedFunc(maps.Keys(q.refused), compareTargets) {
		out = append(out, q.refused[t])
	}
	return out
}

// Failing is why calls of a kind to a group fail as a whole, and since when; empty
// while they do not.
func (c *Calls) Failing(group string, kind Kind) (why string, since time.Time) {
	if q := c.groups[group]; q != nil {
		return q.retries[kind].why, q.retries[kind].since
	}
	return "", time.Time{}
}

func earlier(a, b time.Time) time.Time {
	if a.IsZero() || b.Before(a) {
		return b
	}
	return a
}

// bucket holds tokens, of which a call takes one. Of its Limiter only what is told the time is called.
type bucket struct{ limiter *rate.Limiter }

func newBucket(perSecond float64, burst int) bucket {
	return bucket{rate.NewLimiter(rate.Limit(perSecond), burst)}
}

// take takes a token, or says when there will be one.
func (b *bucket) take(now time.Time) time.Time {
	at := b.at(now)
	if !now.Before(at) {
		b.limiter.AllowN(now, 1)
	}
	return at
}

// at is when there is a token.
func (b *bucket) at(now time.Time) time.Time {
	if missing := 1 - b.limiter.TokensAt(now); missing > 0 {
		// A nanosecond more than the missing part takes, whatever the rounding.
		return now.Add(time.Duration(missing/float64(b.limiter.Limit())*float64(time.Second)) + 1)
	}
	return now
}

// empty is for when the cloud says that it was too much: there is no token at the time of its answer.
func (b *bucket) empty(now time.Time) {
	*b = newBucket(float64(b.limiter.Limit()), b.limiter.Burst())
	b.limiter.AllowN(now, b.limiter.Burst())
}
