package holdings

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/wire"
)

// refused sees that an answer is to that message and names these.
func refused(t *testing.T, answer wire.Request, nonce string, want ...string) {
	t.Helper()
	if answer.Nonce != nonce || answer.TypeURL != wire.TypeURL || (answer.Error == nil) != (len(want) == 0) {
		t.Fatalf("the answer to %s is %+v", nonce, answer)
	}
	var names []string
	for _, r := range answer.Error.Refusals() {
		names = append(names, r.Name)
		if r.Reason == "" {
			t.Errorf("%s is refused, and nothing says why", r.Name)
		}
	}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("refused are not those that were to be: %s", diff)
	}
}

// uses sees which resources are used, by version.
func uses(t *testing.T, p *proxy, want ...wire.Delivery) {
	t.Helper()
	if diff := cmp.Diff(want, p.All().Resources); diff != "" {
		t.Error(diff)
	}
}

// TestRefusedAlone: what cannot be used is named until it is gone or another, the old one stays, the rest
// applies at once.
func TestRefusedAlone(t *testing.T) {
	p := newProxy()
	a, b, worse := delivery(t, backend("a", "")), delivery(t, backend("b", "")), delivery(t, backend("a", "gopher"))
	refused(t, p.take(response("1", a, b)), "1")
	b2 := delivery(t, backend("b", "h2c"))
	refused(t, p.take(response("2", worse, b2)), "2", "backend/a")
	uses(t, p, a, b2)
	refused(t, p.take(response("3", b)), "3", "backend/a")
	if len(p.applied) != 3 {
		t.Errorf("3 transactions were applied as %d", len(p.applied))
	}
	if got := p.Ask("node"); got.Node != "node" || got.Versions["backend/a"] != worse.Version || got.Versions["backend/b"] != b.Version || len(got.Versions) != 2 {
		t.Errorf("a stream begins with %+v", got)
	}
	better := delivery(t, backend("a", "ws"))
	refused(t, p.take(response("4", better)), "4")
	uses(t, p, better, b)
	refused(t, p.take(response("5", worse)), "5", "backend/a")
	gone := response("6")
	gone.Removed = []string{"backend/a", "backend/unknown"}
	refused(t, p.take(gone), "6")
	uses(t, p, b)
	if p.Position() != "6" {
		t.Errorf("the position is %s", p.Position())
	}
}

// TestUnread: what this program cannot read is refused alone: a kind of later versions, another type,
// bytes that are no resource, and another's name.
func TestUnread(t *testing.T) {
	p := newProxy()
	fine := delivery(t, backend("a", ""))
	kind := wire.Delivery{Name: "cookie/a", Version: "1", TypeURL: wire.TypeURL, Value: []byte("\x0a\x01a\x7a\x00")}
	typed, broken, named := delivery(t, backend("b", "")), delivery(t, backend("c", "")), delivery(t, backend("d", ""))
	typed.TypeURL, broken.Value, named.Name = "type.example.com/Other", broken.Value[1:], "backend/e"
	answer := p.take(response("1", kind, typed, fine, broken, named))
	refused(t, answer, "1", "backend/b", "backend/c", "backend/e", "cookie/a")
	uses(t, p, fine)
	other := response("2", fine)
	other.TypeURL = "type.example.com/Other"
	refused(t, p.take(other), "2", "")
	if p.Position() != "1" {
		t.Errorf("a response of another type leads to position %s", p.Position())
	}
}

// TestLaterFields: a resource with a field of a later version is used, and is told on as it came.
func TestLaterFields(t *testing.T) {
	p := newProxy()
	later := delivery(t, backend("a", ""), 0xf8, 0x07, 1)
	refused(t, p.take(response("1", later)), "1")
	uses(t, p, later)
	if got := p.Ask("").Versions["backend/a"]; got != later.Version {
		t.Errorf("it has version %s, and %s is told", later.Version, got)
	}
}

// TestLastOfName: of several of one name the last counts.
func TestLastOfName(t *testing.T) {
	p := newProxy()
	last := delivery(t, backend("a", "ws"))
	refused(t, p.take(response("1", delivery(t, backend("a", "gopher")), delivery(t, backend("a", "")), last)), "1")
	uses(t, p, last)
}

// TestWaits: a route whose backend is not there is refused until it comes, whatever came of it meanwhile.
func TestWaits(t *testing.T) {
	p := newProxy()
	waits := delivery(t, route("r", "b", "/"))
	refused(t, p.take(response("1", waits)), "1", "route/r")
	uses(t, p)
	b, e := delivery(t, backend("b", "")), delivery(t, endpoints("b"))
	refused(t, p.take(response("2", b, e)), "2")
	uses(t, p, b, e, waits)

	p = newProxy()
	unread := waits
	unread.Version, unread.Value = "2", nil
	p.take(response("1", waits))
	refused(t, p.take(response("2", unread)), "2", "route/r")
	refused(t, p.take(response("3", b, e)), "3", "route/r")
	uses(t, p, b, e, waits)
	if got := p.Ask("").Versions["route/r"]; got != "2" {
		t.Errorf("told last was version 2, and %q is said", got)
	}

	p = newProxy()
	p.take(response("1", waits))
	wrong := delivery(t, route("r", "b", "no path"))
	refused(t, p.take(response("2", wrong)), "2", "route/r")
	refused(t, p.take(response("3", b, e)), "3", "route/r")
	uses(t, p, b, e)
}

// TestMessageIsLetGo: nothing that is kept is part of the message in which it came.
func TestMessageIsLetGo(t *testing.T) {
	p := newProxy()
	d := delivery(t, backend("a", ""))
	want := delivery(t, backend("a", ""))
	p.take(response("1", d))
	clear(d.Value)
	uses(t, p, want)
}

// TestRemovedInUse: a backend that was removed is kept as long as a route uses it whose next version was
// refused, and is not said to be had.
func TestRemovedInUse(t *testing.T) {
	p := newProxy()
	b, e, r := delivery(t, backend("b", "")), delivery(t, endpoints("b")), delivery(t, route("r", "b", "/"))
	p.take(response("1", b, e, r))
	next := response("2", delivery(t, route("r", "other", "/")))
	next.Removed = []string{"backend/b", "endpoints/b"}
	refused(t, p.take(next), "2", "route/r")
	uses(t, p, b, e, r)
	if got := p.Ask("").Versions; len(got) != 1 {
		t.Errorf("said to be had are %v", got)
	}
	last := response("3")
	last.Removed = []string{"route/r"}
	refused(t, p.take(last), "3")
	uses(t, p)
}
