package stream

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/wire"
)

// backend is one whose content is its port.
func backend(name string, port uint16) wire.Resource {
	return wire.Resource{Name: name, Backend: &wire.Backend{Port: port}}
}

// said is a message in short: what is set, what is removed.
func said(t testing.TB, m Message) string {
	t.Helper()
	var b strings.Builder
	r := read(t, m)
	for _, d := range r.Resources {
		resource, err := wire.Decode(d.Value)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprint(&b, " ", resource.Name, "=", resource.Backend.Port)
	}
	for _, name := range r.Removed {
		fmt.Fprint(&b, " -", strings.TrimPrefix(name, "backend/"))
	}
	return b.String()
}

// read is a message as a proxy has it.
func read(t testing.TB, m Message) wire.Response {
	t.Helper()
	r, err := wire.DecodeResponse(bytes.Join(m.Parts, nil))
	if err != nil {
		t.Fatal(err)
	}
	if want := fmt.Sprint(m.Position); r.TypeURL != wire.TypeURL || r.Position != want || r.Nonce != want {
		t.Fatalf("a message at %s says that it is %q at %q, nonce %q", want, r.TypeURL, r.Position, r.Nonce)
	}
	return r
}

// owed sees that a stream is owed that, and answers it.
func owed(t testing.TB, c *Cursor, want string) {
	t.Helper()
	m, is, err := c.Next()
	if err != nil || !is {
		t.Fatalf("nothing is owed, %v", err)
	}
	if got := said(t, m); got != want {
		t.Errorf("owed is %q, want %q", got, want)
	}
	answer(t, c, m)
}

func answer(t testing.TB, c *Cursor, m Message) {
	t.Helper()
	if a, is := c.Answer(wire.Request{Nonce: fmt.Sprint(m.Position)}); !is || a.Position != m.Position {
		t.Errorf("the answer to %d is taken for %v, %t", m.Position, a, is)
	}
}

func nothing(t testing.TB, c *Cursor) {
	t.Helper()
	if m, is, err := c.Next(); is || err != nil {
		t.Errorf("owed is %v, %v; want nothing", m, err)
	}
}

// TestFirst: a stream is owed nothing by a log that is not complete, and then a message, also an empty one.
func TestFirst(t *testing.T) {
	l := New()
	c := l.Open(nil)
	nothing(t, c)
	l.Commit(nil, nil)
	owed(t, c, "")
	nothing(t, c)
	if position, _ := l.Commit(nil, nil); position != 1 {
		t.Errorf("nothing changed, and the position is %d", position)
	}
	nothing(t, c)
}

// TestMerged: while a message is under way changes are merged, and what comes back to what was told is
// not told.
func TestMerged(t *testing.T) {
	l := New()
	l.Commit([]wire.Resource{backend("a", 1), backend("b", 1), backend("c", 1)}, nil)
	c := l.Open(nil)
	m, _, _ := c.Next()
	if got := said(t, m); got != " a=1 b=1 c=1" {
		t.Fatalf("owed is %q", got)
	}
	l.Commit([]wire.Resource{backend("a", 2), backend("new", 1)}, []string{"backend/c"})
	l.Commit([]wire.Resource{backend("a", 3), backend("b", 2)}, []string{"backend/new"})
	l.Commit([]wire.Resource{backend("b", 1)}, nil)
	nothing(t, c)
	answer(t, c, m)
	owed(t, c, " a=3 -c")
	l.Commit([]wire.Resource{backend("c", 1)}, []string{"backend/c", "backend/c", "backend/unknown"})
	owed(t, c, " c=1")
}

// TestReplica: a proxy that was told by another replica gets differences only.
func TestReplica(t *testing.T) {
	one, other := New(), New()
	one.Commit([]wire.Resource{backend("a", 1), backend("b", 1), backend("c", 1)}, nil)
	other.Commit([]wire.Resource{backend("d", 1), backend("a", 1)}, nil)
	other.Commit([]wire.Resource{backend("b", 2)}, nil)
	c := one.Open(nil)
	m, _, _ := c.Next()
	versions := map[string]string{}
	for _, d := range read(t, m).Resources {
		versions[d.Name] = d.Version
	}
	owed(t, other.Open(versions), " d=1 b=2 -c")
}

// TestEncodedOnce: streams share the bytes of what they are told.
func TestEncodedOnce(t *testing.T) {
	l := New()
	l.Commit([]wire.Resource{backend("a", 1)}, nil)
	first, late := l.Open(nil), l.Open(nil)
	m, _, _ := first.Next()
	answer(t, first, m)
	l.Commit([]wire.Resource{backend("b", 1)}, nil)
	next, _, _ := first.Next()
	all, _, _ := late.Next()
	for i, piece := range [][]byte{m.Parts[1], next.Parts[1]} {
		if &piece[0] != &all.Parts[1+i][0] {
			t.Errorf("piece %d was encoded twice", i)
		}
	}
}

// TestAnswers: what answers another message is no acknowledgement, and what is refused is reported, again when the
// last message is answered again.
func TestAnswers(t *testing.T) {
	l := New()
	l.Commit([]wire.Resource{backend("a", 1)}, nil)
	c := l.Open(nil)
	for _, nonce := range []string{"", "0", "1"} {
		if a, is := c.Answer(wire.Request{Nonce: nonce}); is {
			t.Errorf("nothing was said, and the answer %q is taken for %v", nonce, a)
		}
	}
	c.Next()
	if a, is := c.Answer(wire.Request{Nonce: "2"}); is {
		t.Errorf("the answer to another message is taken for %v", a)
	}
	refused := []wire.Refusal{{Name: "backend/a", Reason: "no"}}
	a, is := c.Answer(wire.Request{Nonce: "1", Error: wire.Refused(refused)})
	if diff := cmp.Diff(Acknowledgement{1, refused}, a); !is || diff != "" {
		t.Errorf("%t %s", is, diff)
	}
	nothing(t, c)
	if a, is := c.Answer(wire.Request{Nonce: "1"}); !is || a.Position != 1 || len(a.Refused) > 0 {
		t.Errorf("answered again, it is %t, %v", is, a)
	}
	nothing(t, c)
	l.Commit([]wire.Resource{backend("a", 2)}, nil)
	c.Next()
	if a, is := c.Answer(wire.Request{Nonce: "1"}); is {
		t.Errorf("the answer to the message before is taken for %v", a)
	}
	nothing(t, c)
	c.Close()
	if a, is := c.Answer(wire.Request{Nonce: "2"}); is {
		t.Errorf("of a stream that has ended, the answer is taken for %v", a)
	}
}

// TestRefusedAtCommit: what cannot be told is refused alone, and the old one stays.
func TestRefusedAtCommit(t *testing.T) {
	l := New()
	l.Commit([]wire.Resource{backend("a", 1), backend("b", 1)}, nil)
	l.limit = l.held
	_, refused := l.Commit([]wire.Resource{backend("c", 1), backend("a\xff", 1), {Name: "d"}, backend("b", 2),
		{Name: "a", Backend: &wire.Backend{Protocol: "too long to fit"}}}, nil)
	var names []string
	for _, r := range refused {
		names = append(names, r.Name)
	}
	if diff := cmp.Diff([]string{"backend/c", "backend/a\xff", "kind 0/d", "backend/a"}, names); diff != "" {
		t.Error(diff)
	}
	owed(t, l.Open(nil), " a=1 b=2")
	l.Commit(nil, []string{"backend/b"})
	if _, refused := l.Commit([]wire.Resource{backend("c", 1)}, nil); len(refused) > 0 {
		t.Errorf("there is room, and refused is %v", refused)
	}
}

// TestForgets: however long a stream hangs and others go on, the log has of each name what is told now
// and what was told the one that hangs; and of what is gone nothing when no stream is before that.
func TestForgets(t *testing.T) {
	l := New()
	l.Commit([]wire.Resource{backend("a", 1), backend("b", 1)}, nil)
	hangs, goes := l.Open(nil), l.Open(nil)
	m, _, _ := hangs.Next()
	for i := range uint16(1000) {
		l.Commit([]wire.Resource{backend("a", i+2), backend(fmt.Sprint("pod", i), 1)}, []string{fmt.Sprint("backend/pod", int(i)-1)})
		next, _, _ := goes.Next()
		answer(t, goes, next)
	}
	if past := l.entries["backend/a"].before; len(past) > 2 {
		t.Errorf("%d states of the past are kept", len(past))
	}
	answer(t, hangs, m)
	owed(t, hangs, " a=1001 pod999=1")
	if len(l.entries) != 3 || len(l.gone) > 0 {
		t.Errorf("%d entries and %d that are gone are kept, want 3 and none", len(l.entries), len(l.gone))
	}
	for i := range uint16(1000) {
		l.Commit([]wire.Resource{backend("b", i+2)}, nil)
	}
	if len(l.order) > 100 {
		t.Errorf("the log of 3 entries has %d places", len(l.order))
	}
	l.Commit(nil, []string{"backend/a"})
	hangs.Close()
	goes.Close()
	goes.Close()
	if len(l.marks) > 0 || len(l.entries) != 2 {
		t.Errorf("no stream is left, and %v and %d entries are", l.marks, len(l.entries))
	}
}
