package targets

import (
	"maps"
	"slices"
	"time"
)

// queue is the work of one group.
type queue struct {
	// pending are what is to be registered and deregistered, by kind.
	pending [Read]map[Target]Registration
	// wanted is the same as of the last decision, with what is under way.
	wanted [Read]map[Target]Registration
	// why has a sentence about each target that is wanted so.
	why map[Target]string
	// suspects are batches that failed, or halves of those that were refused, by
	// kind; each is tried by itself.
	suspects [Read][][]Target
	// readAt is when to read; zero while that is not known.
	readAt time.Time
	// decided is when the newest decision was made, since by kind since when something
	// waits.
	decided  time.Time
	since    [kinds]time.Time
	underWay bool
	// forgotten says whether it goes when what is under way ends.
	forgotten bool
	retries   [kinds]retry
	answers   map[Target]Answer
	refused   map[Target]Refusal
}

// retry is when calls of a kind may be made again after some failed in a row.
type retry struct {
	failures  int
	at, since time.Time
	why       string
}

// steady is after how long without another call a target is no longer fought over.
const steady = 10 * time.Minute

func newQueue() *queue {
	q := &queue{answers: map[Target]Answer{}, refused: map[Target]Refusal{}}
	for kind := range Read {
		q.pending[kind], q.wanted[kind] = map[Target]Registration{}, map[Target]Registration{}
	}
	return q
}

func (q *queue) plan(d GroupDecision) {
	q.forgotten = false
	before := q.wanted
	for kind := range Read {
		q.wanted[kind] = map[Target]Registration{}
	}
	for _, t := range d.Deregister {
		q.wanted[Deregister][t] = Registration{Target: t}
	}
	for _, r := range d.Register {
		q.wanted[Register][r.Target] = r
	}
	for kind := range Read {
		pending := maps.Clone(q.wanted[kind])
		for t := range pending {
			switch {
			case q.sent(kind, t, before):
				delete(pending, t)
			case q.answered(kind, t, d.At):
				delete(pending, t)
				delete(q.wanted[kind], t)
			default:
				q.ask(kind, t)
			}
		}
		q.pending[kind] = pending
	}
	q.why = d.whyOfCalls()
	q.planRead(d)
	if q.decided = d.At; !d.Decided.IsZero() {
		q.decided = d.Decided
	}
	for kind := range Read {
		q.wait(kind, d.At)
	}
	q.prune(d)
}

// planRead takes over when to read next. What was due already stays due since then: a read
// that was dated anew by each decision would never be the one that has waited longest.
func (q *queue) planRead(d GroupDecision) {
	if q.readAt.IsZero() || d.ReadAt.IsZero() || d.ReadAt.After(d.At) || d.ReadAt.Before(q.readAt) {
		q.readAt = d.ReadAt
	}
}

// wait notes since when calls of a kind wait.
func (q *queue) wait(kind Kind, now time.Time) {
	switch {
	case len(q.pending[kind]) == 0:
		q.since[kind] = time.Time{}
	case q.since[kind].IsZero():
		q.since[kind] = now
	}
}

// sent reports whether the call for the target is under way.
func (q *queue) sent(kind Kind, t Target, before [Read]map[Target]Registration) bool {
	_, wanted := before[kind][t]
	_, pending := q.pending[kind][t]
	return q.underWay && wanted && !pending
}

// answered reports whether the call was under way when the decision was made, and was
// accepted since.
func (q *queue) answered(kind Kind, t Target, decided time.Time) bool {
	a := q.answers[t]
	return !decided.IsZero() && a.accepts(kind == Register) && a.At.After(decided)
}

// ask notes that a call is decided. From now on the answer to an older one proves
// nothing: it may be about another life of the target.
func (q *queue) ask(kind Kind, t Target) {
	a := q.answers[t]
	if a.Register != (kind == Register) {
		a = Answer{Register: kind == Register}
	}
	a.At = time.Time{}
	q.answers[t] = a
}

// prune forgets what was answered about targets that nothing is told of any more.
func (q *queue) prune(d GroupDecision) {
	told := map[Target]bool{}
	for _, r := range d.Reports {
		told[r.Target] = true
	}
	maps.DeleteFunc(q.answers, func(t Target, _ Answer) bool { return !told[t] })
	maps.DeleteFunc(q.refused, func(t Target, _ Refusal) bool { return !told[t] })
}

// due is when the next call of the kind may be made, and whether there is one.
func (q *queue) due(kind Kind) (at time.Time, work bool) {
	switch {
	case q.underWay:
		return at, false
	case kind == Read:
		return later(q.readAt, q.retries[kind].at), !q.readAt.IsZero()
	}
	return q.retries[kind].at, len(q.pending[kind]) > 0
}

// begin takes the targets of one call out of the queue: what is left of a batch
// that failed, or the first that are in none.
func (q *queue) begin(kind Kind) []Registration {
	q.underWay = true
	if kind == Read {
		q.readAt = time.Time{}
		return nil
	}
	var batch []Registration
	for _, t := range q.batch(kind) {
		batch = append(batch, q.pending[kind][t])
		delete(q.pending[kind], t)
	}
	q.since[kind] = time.Time{}
	return batch
}

// whyOf has a sentence about each target of a batch.
func (q *queue) whyOf(batch []Registration) map[Target]string {
	if len(batch) == 0 {
		return nil
	}
	out := map[Target]string{}
	for _, r := range batch {
		out[r.Target] = q.why[r.Target]
	}
	return out
}

func (q *queue) batch(kind Kind) []Target {
	pending := func(t Target) bool { _, is := q.pending[kind][t]; return is }
	for len(q.suspects[kind]) > 0 {
		part := slices.DeleteFunc(slices.Clone(q.suspects[kind][0]), func(t Target) bool { return !pending(t) })
		q.suspects[kind] = q.suspects[kind][1:]
		if len(part) > 0 {
			return part
		}
	}
	all := slices.SortedFunc(maps.Keys(q.pending[kind]), compareTargets)
	return all[:min(len(all), chunk)]
}

// done takes the outcome of the call that was under way.
func (q *queue) done(now time.Time, call Call, outcome Outcome, why string, random float64) {
	q.underWay = false
	if outcome == Throttled || outcome == Gone || outcome == Failed {
		q.retries[call.Kind].failed(now, why, random)
		q.again(call)
		return
	}
	q.retries[call.Kind] = retry{}
	switch {
	case call.Kind == Read:
	case outcome == Accepted:
		q.accepted(now, call)
	case len(call.Targets) > 1:
		q.halve(call)
	default:
		q.refuse(now, call, outcome, why)
	}
}

// again queues what the newest decision still asks for, as the batch that it was.
// Answers to what was under way stay open: it may have taken effect or not.
func (q *queue) again(call Call) {
	if call.Kind == Read {
		if q.readAt.IsZero() {
			q.readAt = q.retries[Read].at
		}
		return
	}
	for _, r := range call.Targets {
		if newest, wanted := q.wanted[call.Kind][r.Target]; wanted {
			q.pending[call.Kind][r.Target] = newest
		}
	}
	q.suspect(call.Kind, call.Targets)
}

// suspect has targets tried next, in a batch of their own.
func (q *queue) suspect(kind Kind, batch []Registration) {
	var part []Target
	for _, r := range batch {
		part = append(part, r.Target)
	}
	q.suspects[kind] = append([][]Target{part}, q.suspects[kind]...)
}

func (q *queue) accepted(now time.Time, call Call) {
	for _, r := range call.Targets {
		delete(q.refused, r.Target)
		delete(q.wanted[call.Kind], r.Target)
		a := q.answers[r.Target]
		if a.Register != (call.Kind == Register) {
			// A newer decision asked for the reverse meanwhile: its answer is what counts.
			continue
		}
		q.answers[r.Target] = a.accepted(now)
	}
}

// accepted counts an answer.
func (a Answer) accepted(now time.Time) Answer {
	if now.Sub(a.last) > steady {
		a.Times = 0
	}
	a.Times++
	a.At, a.last = now, now
	return a
}

// halve has the two halves of a refused batch tried by themselves, until what is
// refused stands alone.
func (q *queue) halve(call Call) {
	first, second := call, call
	half := len(call.Targets) / 2
	first.Targets, second.Targets = call.Targets[:half], call.Targets[half:]
	q.again(second)
	q.again(first)
}

// refuse records what the cloud refused by itself. A group that has no room for
// one target has none for those that wait.
func (q *queue) refuse(now time.Time, call Call, outcome Outcome, why string) {
	refused := []Target{call.Targets[0].Target}
	if outcome == Full && call.Kind == Register {
		refused = slices.AppendSeq(refused, maps.Keys(q.pending[Register]))
		q.suspects[Register] = nil
	}
	for _, t := range refused {
		delete(q.pending[call.Kind], t)
		delete(q.wanted[call.Kind], t)
		r := q.refused[t]
		if r.Times == 0 || r.Register != (call.Kind == Register) {
			r = Refusal{Target: t, Register: call.Kind == Register, Since: now}
		}
		r.Full, r.Why, r.At, r.Times = outcome == Full, why, now, r.Times+1
		q.refused[t] = r
	}
}

// failed counts a failure and waits longer after each: 1, 2, 4 s and so on up to
// half a minute, and a random half less.
func (r *retry) failed(now time.Time, why string, random float64) {
	if r.failures == 0 {
		r.since = now
	}
	r.failures++
	r.why = why
	wait := min(pause(time.Second, r.failures), 30*time.Second)
	r.at = now.Add(wait/2 + time.Duration(random*float64(wait/2)))
}
