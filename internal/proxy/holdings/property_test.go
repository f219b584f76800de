package holdings

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/stream"
	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/table"
	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/wire"
	"pgregory.net/rapid"
)

// drawResource is one of a few, which may be one that cannot be used.
func drawResource(t *rapid.T) wire.Resource {
	name := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "name")
	switch rapid.IntRange(0, 4).Draw(t, "kind") {
	case 0:
		return backend(name, rapid.SampledFrom([]string{"", "h2c", "gopher"}).Draw(t, "protocol"))
	case 1:
		return endpoints(name)
	case 2:
		l := &wire.Listener{Section: name, Port: uint16(rapid.IntRange(0, 1).Draw(t, "port"))}
		return wire.Resource{Name: name, Listener: l}
	}
	return route(name, rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "backend"), rapid.SampledFrom([]string{"/", "/x", "no path"}).Draw(t, "path"))
}

// replicas are controllers that tell the same.
type replicas struct {
	logs []*stream.Log
	// now are resources that there are, by name.
	now map[string]wire.Resource
}

func (r *replicas) commit(set []wire.Resource, removed []string) {
	for _, l := range r.logs {
		l.Commit(set, removed)
	}
	for _, name := range removed {
		delete(r.now, name)
	}
	for _, to := range set {
		r.now[wire.NameOf(to)] = to
	}
}

func (r *replicas) change(t *rapid.T) {
	var set []wire.Resource
	var removed []string
	for range rapid.IntRange(1, 3).Draw(t, "changes") {
		switch to := drawResource(t); rapid.IntRange(0, 3).Draw(t, "goes") {
		case 0:
			removed = append(removed, wire.NameOf(to))
		default:
			set = append(set, to)
		}
	}
	r.commit(set, removed)
}

// hear takes what the stream is owed.
func (p *proxy) hear(t *rapid.T, c *stream.Cursor) {
	for {
		m, owed, err := c.Next()
		if err != nil {
			t.Fatal(err)
		}
		if !owed {
			return
		}
		r, err := wire.DecodeResponse(slices.Concat(m.Parts...))
		if err != nil {
			t.Fatal(err)
		}
		a, is := c.Answer(p.take(r))
		if !is {
			t.Fatal("the answer is none")
		}
		if diff := cmp.Diff(p.shortened(), a.Refused); diff != "" {
			t.Fatalf("the controller hears of other refusals: %s", diff)
		}
	}
}

// shortened are refusals as they come through.
func (p *proxy) shortened() []wire.Refusal { return wire.Refused(p.Refused()).Refusals() }

// check holds what is kept against what is in the table, and what is said against what was told.
func (p *proxy) check(t *rapid.T, now map[string]wire.Resource) {
	there := map[string]wire.Resource{}
	for _, r := range p.table.Resources() {
		there[wire.NameOf(r)] = r
	}
	for _, d := range p.All().Resources {
		r, err := wire.Decode(d.Value)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(r, there[d.Name]); diff != "" {
			t.Fatalf("%s is kept, and the table has another: %s", d.Name, diff)
		}
	}
	if all := p.All().Resources; len(all) != len(there) {
		t.Fatalf("%d resources are kept, and the table has %d", len(all), len(there))
	}
	if diff := cmp.Diff(p.table.Resources(), p.restored(t).table.Resources()); diff != "" {
		t.Fatalf("a proxy that is made of the snapshot has another table: %s", diff)
	}
	want := map[string]string{}
	for name, r := range now {
		b, err := wire.Encode(r)
		if err != nil {
			t.Fatal(err)
		}
		want[name] = wire.Version(b)
	}
	if diff := cmp.Diff(want, p.Ask("").Versions); diff != "" {
		t.Fatalf("what is said is not what was told: %s", diff)
	}
}

// TestHoldsWhatItWasTold: whatever is told, also what cannot be used, and by whichever replica, a proxy
// keeps what its table has and says what it was told, and one that is made of its snapshot has the same
// table. When all that is wrong is put right, that is as one that was told all at once.
func TestHoldsWhatItWasTold(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := &replicas{[]*stream.Log{stream.New(), stream.New()}, map[string]wire.Resource{}}
		p := newProxy()
		r.commit(nil, nil)
		c := r.logs[0].Open(nil)
		for range 40 {
			r.change(t)
			switch rapid.IntRange(0, 5).Draw(t, "what") {
			case 0:
				c.Close()
				c = rapid.SampledFrom(r.logs).Draw(t, "replica").Open(p.Ask("").Versions)
			case 1, 2, 3:
				p.hear(t, c)
				p.check(t, r.now)
			}
		}
		r.commit(corrected(), nil)
		p.hear(t, c)
		p.check(t, r.now)
		if all := p.Refused(); len(all) > 0 {
			t.Fatalf("all is put right, and refused are %v", all)
		}
		p.sameAs(t, r.now)
		if diff := cmp.Diff(p.Ask(""), p.restored(t).Ask("")); diff != "" {
			t.Fatal(diff)
		}
	})
}

// corrected are resources of all names, that can be used.
func corrected() (all []wire.Resource) {
	for _, name := range []string{"a", "b", "c"} {
		l := wire.Resource{Name: name, Listener: &wire.Listener{Section: name, Port: 80}}
		all = append(all, backend(name, ""), endpoints(name), l, route(name, name, "/right"))
	}
	return all
}

func (p *proxy) sameAs(t *rapid.T, now map[string]wire.Resource) {
	var all []wire.Resource
	for _, r := range now {
		all = append(all, r)
	}
	fresh := (&table.Table{}).Apply(table.Changes{Set: all})
	if len(fresh.Refused) > 0 {
		t.Fatalf("refused are %v", fresh.Refused)
	}
	if diff := cmp.Diff(fresh.Table.Resources(), p.table.Resources()); diff != "" {
		t.Fatalf("the table is not as one that was told all at once: %s", diff)
	}
}

// restored is a proxy that is started with the snapshot of this one.
func (p *proxy) restored(t *rapid.T) *proxy {
	b, err := Snapshot{7, p.All()}.Encode()
	if err != nil {
		t.Fatal(err)
	}
	s, err := DecodeSnapshot(b)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(Snapshot{7, p.All()}, s); diff != "" {
		t.Fatal(diff)
	}
	next := newProxy()
	if answer := next.take(s.Held); answer.Error != nil {
		t.Fatal(answer.Error.Message)
	}
	if p.Position() != next.Position() {
		t.Fatalf("the position is %s, and was %s", next.Position(), p.Position())
	}
	return next
}
