package controller

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/internal/routing"
)

// TestQueue: of all whose time has come the next one is of the namespace whose last turn is longest ago, and of this a
// Gateway, or who waits for longest; whatever comes, changes and goes, and though a time may have become later.
func TestQueue(t *testing.T) {
	draw := rand.New(rand.NewPCG(1, 2))
	turns, begun := newTurns(), time.Now()
	q, model := newQueue(turns.last), map[routing.Ref]queued{}
	times := map[routing.Ref]time.Time{}
	from := func(ref routing.Ref) time.Time { return times[ref] }
	soon := func() time.Time { return begun.Add(time.Duration(draw.IntN(100)) * time.Second) }
	for i := range 20_000 {
		ref := routing.Ref{Kind: []string{"Gateway", "Ingress", "HTTPRoute"}[draw.IntN(3)], Namespace: fmt.Sprint(draw.IntN(5)), Name: fmt.Sprint(draw.IntN(10))}
		_, there := model[ref]
		now := begun.Add(time.Duration(i) * time.Second / 200)
		switch what := draw.IntN(10); {
		case what < 5:
			times[ref] = soon()
			model[ref] = queued{ref: ref, change: uint64(i)}
			q.put(ref, times[ref], uint64(i))
		case what < 6:
			delete(model, ref)
			q.drop(ref)
		case what < 7 && there:
			times[ref] = later(times[ref], soon())
		default:
			var want *queued
			for ref, one := range model {
				goes := func() int {
					return cmp.Or(cmp.Compare(turns.last[ref.Namespace], turns.last[want.ref.Namespace]), cmp.Compare(ref.Namespace, want.ref.Namespace))
				}
				if !times[ref].After(now) && (want == nil || goes() < 0 || goes() == 0 && before(&one, want)) {
					want = &one
				}
			}
			got, is := q.next(now, from)
			if is != (want != nil) || is && got != want.ref {
				t.Fatalf("after %d steps the next is %v, %t, want %+v", i, got, is, want)
			}
			if is {
				turns.had(got)
				q.had(got.Namespace)
			}
		}
		if len(q.all) != len(model) {
			t.Fatalf("after %d steps %d are in the queue, want %d", i, len(q.all), len(model))
		}
	}
}

// TestQueueOfMany: who is next is found with a look at few of many, of each namespace and of all.
func TestQueueOfMany(t *testing.T) {
	turns := newTurns()
	q, now, looks := newQueue(turns.last), time.Now(), 0
	counted := func(before func(a, b *line) bool) func(a, b *line) bool {
		return func(a, b *line) bool { looks++; return before(a, b) }
	}
	q.ready.before = counted(q.ready.before)
	for i := range 10_000 {
		q.put(routing.Ref{Kind: "Ingress", Namespace: fmt.Sprint(i % 1000), Name: fmt.Sprint(i)}, now, uint64(i))
	}
	from := func(routing.Ref) time.Time { looks++; return now }
	q.next(now, from)
	looks = 0
	for range 10_000 {
		ref, is := q.next(now, from)
		if !is {
			t.Fatal("none is next")
		}
		turns.had(ref)
		q.had(ref.Namespace)
		q.drop(ref)
	}
	if looks > 500_000 {
		t.Errorf("for 10,000 turns there are %d looks", looks)
	}
}
