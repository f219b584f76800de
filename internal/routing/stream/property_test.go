package stream

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/wire"
	"pgregory.net/rapid"
)

// replica is a controller: its log, and what it has not committed yet. Replicas see the same changes,
// each in transactions of its own.
type replica struct {
	log *Log
	// pending is what is to be committed, nil for what is gone.
	pending map[string]*wire.Resource
}

func (r *replica) commit() {
	var set []wire.Resource
	var removed []string
	for _, name := range slices.Sorted(maps.Keys(r.pending)) {
		if to := r.pending[name]; to != nil {
			set = append(set, *to)
		} else {
			removed = append(removed, name)
		}
	}
	r.log.Commit(set, removed)
	clear(r.pending)
}

// proxy is one with a stream, or with none.
type proxy struct {
	told map[string]string
	of   *replica
	*Cursor
	underWay *Message
}

// take applies what is under way: each of it is news.
func (p *proxy) take(t *rapid.T) {
	m := *p.underWay
	p.underWay = nil
	response, err := wire.DecodeResponse(slices.Concat(m.Parts...))
	if err != nil {
		t.Fatal(err)
	}
	spoken := map[string]bool{}
	for _, name := range response.Removed {
		if _, told := p.told[name]; !told || spoken[name] {
			t.Fatalf("%s is removed from who was not told of it, or twice", name)
		}
		spoken[name] = true
		delete(p.told, name)
	}
	for _, d := range response.Resources {
		if p.told[d.Name] == d.Version || spoken[d.Name] {
			t.Fatalf("%s is told twice", d.Name)
		}
		spoken[d.Name] = true
		p.told[d.Name] = d.Version
	}
}

// step lets one thing happen on the stream, whatever is next.
func (p *proxy) step(t *rapid.T) (more bool) {
	if p.underWay != nil {
		m := p.underWay
		p.take(t)
		if a, is := p.Answer(wire.Request{Nonce: fmt.Sprint(m.Position)}); !is || a.Position != m.Position {
			t.Fatalf("the answer to %d is taken for %v, %t", m.Position, a, is)
		}
		return true
	}
	m, owed, err := p.Next()
	if err != nil {
		t.Fatal(err)
	}
	if owed {
		p.underWay = &m
	}
	return owed
}

// end ends the stream. What is under way comes through or does not, and is not answered.
func (p *proxy) end(t *rapid.T) {
	if p.underWay != nil && rapid.Bool().Draw(t, "comes through") {
		p.take(t)
	}
	p.Close()
	p.Cursor, p.underWay = nil, nil
}

func (p *proxy) begin(r *replica) { p.of, p.Cursor = r, r.log.Open(maps.Clone(p.told)) }

// TestEachHoldsWhatTheLogHolds: whatever changes, in whatever order slow and fast streams take it, and to
// whichever replica they go, each proxy is told of no name what it was told, and in the end of each what
// the log holds. No log keeps more than streams need.
func TestEachHoldsWhatTheLogHolds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := world{truth: map[string]wire.Resource{}}
		for range 2 {
			w.replicas = append(w.replicas, &replica{New(), map[string]*wire.Resource{}})
		}
		for range 3 {
			w.proxies = append(w.proxies, &proxy{told: map[string]string{}})
		}
		for range 120 {
			w.happen(t)
		}
		w.settle(t)
	})
}

type world struct {
	truth    map[string]wire.Resource
	replicas []*replica
	proxies  []*proxy
}

func (w *world) happen(t *rapid.T) {
	p := rapid.SampledFrom(w.proxies).Draw(t, "proxy")
	r := rapid.SampledFrom(w.replicas).Draw(t, "replica")
	switch what := rapid.IntRange(0, 9).Draw(t, "what"); {
	case what < 3:
		w.change(t)
	case what < 5:
		r.commit()
	case p.Cursor == nil:
		p.begin(r)
	case what == 9:
		p.end(t)
	default:
		p.step(t)
	}
	w.check(t)
}

func (w *world) change(t *rapid.T) {
	next := backend(fmt.Sprint(rapid.IntRange(0, 4).Draw(t, "name")), uint16(rapid.IntRange(0, 2).Draw(t, "port")))
	name := wire.NameOf(next)
	gone := next.Backend.Port == 0
	if gone {
		delete(w.truth, name)
	} else {
		w.truth[name] = next
	}
	for _, r := range w.replicas {
		r.pending[name] = &next
		if gone {
			r.pending[name] = nil
		}
	}
}

// check holds logs to their bounds.
func (w *world) check(t *rapid.T) {
	for _, r := range w.replicas {
		streams := 0
		for _, p := range w.proxies {
			if p.Cursor != nil && p.of == r && p.begun {
				streams++
			}
		}
		marked, held := 0, 0
		for _, m := range r.log.marks {
			marked += m.streams
		}
		for name, e := range r.log.entries {
			held += len(e.piece)
			if len(e.before) > len(w.proxies) {
				t.Fatalf("%s has %d states of the past", name, len(e.before))
			}
		}
		if marked != streams || held != r.log.held {
			t.Fatalf("%d streams are counted as %d, %d bytes as %d", streams, marked, held, r.log.held)
		}
	}
}

// settle lets everybody hear everything.
func (w *world) settle(t *rapid.T) {
	want := map[string]string{}
	for name, r := range w.truth {
		version, _, err := encode(name, r)
		if err != nil {
			t.Fatal(err)
		}
		want[name] = version
	}
	for _, r := range w.replicas {
		r.commit()
	}
	for i, p := range w.proxies {
		if p.Cursor == nil {
			p.begin(w.replicas[i%2])
		}
		for p.step(t) {
		}
		if diff := cmp.Diff(want, p.told); diff != "" {
			t.Fatalf("proxy %d does not hold what the log holds: %s", i, diff)
		}
	}
	for _, r := range w.replicas {
		if len(r.log.gone) > 0 || len(r.log.entries) != len(want) {
			t.Fatalf("of %d resources %d entries are kept, and %d that are gone", len(want), len(r.log.entries), len(r.log.gone))
		}
	}
}
