package holdings

import (
	"bytes"
	"crypto/sha256"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/wire"
)

// FuzzTake: whatever is told after what holds, a resource is used or named as refused, and what is kept is
// what a table takes from it.
func FuzzTake(f *testing.F) {
	for _, r := range []wire.Response{
		response("1", delivery(f, backend("a", "")), delivery(f, endpoints("a")), delivery(f, route("r", "a", "/"))),
		response("1", delivery(f, route("r", "b", "/")), wire.Delivery{Name: "cookie/a", TypeURL: wire.TypeURL, Value: []byte("\x0a\x01a\x7a\x00")}),
		{TypeURL: wire.TypeURL, Removed: []string{"backend/b", "route/s", ""}, Resources: []wire.Delivery{{Name: "backend/b"}}},
	} {
		b, err := r.Encode()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := wire.DecodeResponse(b)
		if err != nil {
			return
		}
		p := newProxy()
		p.take(response("0", delivery(t, backend("b", "")), delivery(t, endpoints("b")), delivery(t, route("s", "b", "/"))))
		answer := p.take(r)
		if _, err := answer.Encode(); err != nil {
			t.Fatal(err)
		}
		if r.TypeURL != wire.TypeURL {
			return
		}
		for _, d := range r.Resources {
			_, isUsed := p.used[d.Name]
			if _, isRefused := p.refused[d.Name]; !isUsed && !isRefused {
				t.Errorf("%q is neither used nor refused", d.Name)
			}
		}
		canRestore(t, p)
	})
}

// FuzzSnapshot: whatever a snapshot holds whose sum is right, it is read as it was written, or not at all; and what a
// proxy that starts with it uses is what it could use again.
func FuzzSnapshot(f *testing.F) {
	p := newProxy()
	p.take(response("1", delivery(f, backend("a", "")), delivery(f, endpoints("a")), delivery(f, route("r", "a", "/"))))
	for _, s := range []Snapshot{{}, {1, p.All()}, {1 << 63, wire.Response{Removed: []string{"a"}}}} {
		b, err := s.Encode()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b[sequenceAt:])
		f.Add(b[sequenceAt : len(b)-1])
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		sum := sha256.Sum256(b)
		s, err := DecodeSnapshot(slices.Concat([]byte(snapshotOf), sum[:], b))
		if err != nil {
			return
		}
		again, err := s.Encode()
		if err != nil {
			t.Fatal(err)
		}
		back, err := DecodeSnapshot(again)
		if err != nil || !cmp.Equal(s, back) {
			t.Fatalf("%v %s", err, cmp.Diff(s, back))
		}
		started := newProxy()
		started.take(s.Held)
		canRestore(t, started)
	})
}

// canRestore fails the test where what a proxy keeps cannot be used by one that starts with it.
func canRestore(t *testing.T, p *proxy) {
	t.Helper()
	next := newProxy()
	next.take(p.All())
	if all := next.Refused(); len(all) > 0 {
		t.Errorf("what is kept is refused when it is restored: %v", all)
	}
}

// TestBrokenSnapshot: a snapshot of which any byte is another, or that was cut off anywhere, is none.
func TestBrokenSnapshot(t *testing.T) {
	p := newProxy()
	p.take(response("1", delivery(t, backend("a", "")), delivery(t, endpoints("a"))))
	whole, err := Snapshot{3, p.All()}.Encode()
	if err != nil {
		t.Fatal(err)
	}
	for i := range whole {
		if s, err := DecodeSnapshot(whole[:i]); err == nil {
			t.Errorf("cut off at %d it is read as %v", i, s)
		}
		broken := bytes.Clone(whole)
		broken[i] ^= 0x20
		if s, err := DecodeSnapshot(broken); err == nil {
			t.Errorf("with another byte %d it is read as %v", i, s)
		}
	}
	if s, err := DecodeSnapshot(append(whole, 0)); err == nil {
		t.Errorf("with one byte more it is read as %v", s)
	}
	if _, err := DecodeSnapshot(make([]byte, MaxSnapshot+1)); err == nil {
		t.Error("it may have any size")
	}
}
