package controller

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/internal/onepass"
	"github.com/mumoshu/ingress-daemonset-controller/internal/routing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

// Statuses are written one after the other. Namespaces have turns, so that none waits until all of another are written;
// of one namespace Gateways come first, which are few and have their addresses by their statuses, and then who waits
// for longest. What somebody changes all the time, or takes back, is written seldom.

const (
	// writesPerSecond and writesAtOnce bound writes of statuses: a node that comes or goes may change those of all
	// Ingresses, and etcd keeps each version of them for a while.
	writesPerSecond = 10
	writesAtOnce    = 100
	// betweenWrites is the shortest time between two writes of one status, longestBetween that which it grows to while
	// the same is written again and again.
	betweenWrites  = time.Second
	longestBetween = 5 * time.Minute
	// passTime is after how long a pass ends, and what failed in it is tried by another.
	passTime = 30 * time.Second
	// hearOthers is twice what a replica takes at most to find out who leads, and to tell.
	hearOthers = 8 * time.Second
)

// turns are those that there were.
type turns struct {
	// between is the shortest time between two writes of one status.
	between time.Duration
	// number is that of the last turn, last that of each namespace's.
	number uint64
	last   map[string]uint64
	// written is how each status was written last.
	written map[routing.Ref]written
}

// written is how a status was written last.
type written struct {
	content [sha256.Size]byte
	at      time.Time
	// pause is after how long it may be written again.
	pause time.Duration
}

func newTurns() turns {
	return turns{between: betweenWrites, last: map[string]uint64{}, written: map[routing.Ref]written{}}
}

// from is from when on a status may be written.
func (t *turns) from(ref routing.Ref) time.Time {
	w := t.written[ref]
	return w.at.Add(w.pause)
}

// had notes that a namespace had its turn, and that something was to be written in it.
func (t *turns) had(ref routing.Ref) {
	t.number++
	t.last[ref.Namespace] = t.number
	w := t.written[ref]
	w.at, w.pause = time.Now(), max(w.pause, t.between)
	t.written[ref] = w
}

// wrote notes what was written in that turn. The pause grows where it is what was written a short while before: somebody
// took it away.
func (t *turns) wrote(ref routing.Ref, before written, content [sha256.Size]byte) {
	w := t.written[ref]
	again := before.content == content && w.at.Sub(before.at) <= 2*before.pause
	if w.content, w.pause = content, t.between; again {
		w.pause = min(max(2*before.pause, t.between), longestBetween)
	}
	t.written[ref] = w
}

// contentOf is what is written, without times.
func contentOf(next client.Object, wanted status) [sha256.Size]byte {
	gateway, is := next.(*gatewayv1.Gateway)
	// Of text and numbers there is nothing that JSON does not have.
	text, _ := json.Marshal(wanted.Status)
	return sha256.Sum256(fmt.Appendf(text, " %t", is && isProgrammed(gateway.Status.Conditions, wanted)))
}

// Reconcile writes all that are due, where this process leads.
func (s *statuses) Reconcile(ctx context.Context, _ ctrl.Request) (ctrl.Result, error) {
	begun, leads := time.Now(), s.leads()
	any := s.beginPass(begun, leads)
	switch {
	case !leads && any:
		return ctrl.Result{RequeueAfter: leadsAgain}, nil
	case !leads:
		return ctrl.Result{}, nil
	}
	s.countProxies(begun)
	for _, ref := range s.takeUnseen() {
		s.look(ref)
	}
	paced := false
	for time.Since(begun) < passTime {
		ref, is := s.turn()
		if !is {
			return onepass.Next(onepass.Earliest(s.again(), s.countAt())), nil
		}
		if !s.leads() {
			return ctrl.Result{RequeueAfter: leadsAgain}, nil
		}
		if !paced {
			// Who is next is asked again when it is time: another may have come.
			if err := s.pace.Wait(ctx); err != nil {
				return ctrl.Result{}, fmt.Errorf("waiting for a turn: %w", err)
			}
			paced = true
			continue
		}
		wrote, err := s.write(ctx, ref)
		paced = !wrote
		if err != nil && !onepass.OnlyConflicts(err) && s.fails(ref) <= 3 {
			log.FromContext(ctx).Error(err, "writing a status failed", "object", ref.String())
		}
	}
	return onepass.Next(time.Now()), nil
}

// beginPass notes since when this process leads, and reports whether any may have to be written.
func (s *statuses) beginPass(now time.Time, leads bool) (any bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !leads {
		s.since = time.Time{}
		s.counts.forget()
	} else if s.since.IsZero() {
		s.since = now
	}
	s.readmit()
	return len(s.queue.all) > 0
}

// readmit has those in the queue that failed in the pass before.
func (s *statuses) readmit() {
	again := s.failed
	s.failed = map[routing.Ref]bool{}
	for ref := range again {
		s.enqueue(ref)
	}
}

// takeUnseen are those of the queue at which was not looked yet.
func (s *statuses) takeUnseen() (out []routing.Ref) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for ref := range s.unseen {
		if s.queue.all[ref] != nil {
			out = append(out, ref)
			delete(s.unseen, ref)
		}
	}
	return out
}

// turn is the one that is to be written now.
func (s *statuses) turn() (next routing.Ref, is bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.queue.next(time.Now(), s.from)
}

// again is when the next one may be written, zero where none is due.
func (s *statuses) again() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.readmit()
	return s.queue.first(time.Now())
}

// fails has one wait for another pass, and says for how many that is so.
func (s *statuses) fails(ref routing.Ref) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failed[ref] = true
	s.queue.drop(ref)
	return len(s.failed)
}

// from is from when on one that is due may be written.
func (s *statuses) from(ref routing.Ref) time.Time {
	at := later(s.due[ref].again, s.turns.from(ref))
	if ref.Kind == "Gateway" {
		at = later(at, s.since.Add(s.hearing))
	}
	return at
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// look is a status as it is to be, where it differs. One that does not is not due any more.
func (s *statuses) look(ref routing.Ref) (next client.Object, wanted status, d due) {
	s.mu.Lock()
	object, wanted, d, is := s.objects[ref], s.wanted[ref], s.due[ref], s.known(ref)
	if behind, lags := s.counts.behind[ref]; lags {
		wanted.behind = "; " + behind.String()
	}
	s.mu.Unlock()
	if !is {
		return nil, wanted, d
	}
	if next = withStatus(object, wanted, s.acknowledged); next == nil {
		s.looked(ref, d, nil)
	}
	return next, wanted, d
}

// write writes a status, unless it is by now as it is to be.
func (s *statuses) write(ctx context.Context, ref routing.Ref) (wrote bool, err error) {
	next, wanted, d := s.look(ref)
	if next == nil {
		return false, nil
	}
	s.mu.Lock()
	before := s.turns.written[ref]
	s.turns.had(ref)
	s.queue.had(ref.Namespace)
	s.mu.Unlock()
	err = s.update(ctx, next)
	s.mu.Lock()
	if err == nil && s.objects[ref] != nil {
		s.turns.wrote(ref, before, contentOf(next, wanted))
	}
	s.mu.Unlock()
	s.looked(ref, d, err)
	return true, err
}

// looked notes how it went, unless what was looked at has changed meanwhile.
func (s *statuses) looked(ref routing.Ref, at due, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	d, is := s.due[ref]
	switch {
	case !is || d.change != at.change:
	case err == nil:
		s.settle(ref)
	default:
		d.again = time.Now().Add(d.retries.Pause(err))
		s.due[ref] = d
		s.enqueue(ref)
	}
}
