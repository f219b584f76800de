package subscription

import (
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/table"
	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/wire"
)

// TestTransactions: each is applied at once and answered, and what is refused is told to the controller
// and said by the proxy until it is put right.
func TestTransactions(t *testing.T) {
	r, p := newReplica(t), newProxy("")
	p.goTo(r)
	if s := p.State(); s.Applied || s.Connected || !s.Since.IsZero() {
		t.Errorf("before anything its state is %+v", s)
	}
	p.run(t)
	r.Commit(web, []wire.Resource{backend("a", ""), backend("b", "")}, nil)
	r.acknowledged(t, 1)
	r.Commit(web, []wire.Resource{backend("a", "gopher"), backend("b", "ws")}, nil)
	refused := r.acknowledged(t, 2).Refused
	if len(refused) != 1 || refused[0].Name != "backend/a" {
		t.Errorf("the controller hears that %v is refused", refused)
	}
	s := p.State()
	if diff := cmp.Diff(refused, s.Refused); diff != "" || !s.Applied || !s.Connected || s.Since.IsZero() || s.Position != "2" {
		t.Errorf("its state is %+v %s", s, diff)
	}
	r.Commit(web, []wire.Resource{backend("c", "")}, nil)
	if diff := cmp.Diff(refused, r.acknowledged(t, 3).Refused); diff != "" {
		t.Errorf("refused is still the same, and said to be another: %s", diff)
	}
	if said := p.logged.with("backend/a"); len(said) != 1 {
		t.Errorf("of what is refused it says %q", said)
	}
	r.Commit(web, []wire.Resource{backend("a", "h2c")}, []string{"backend/b"})
	if refused := r.acknowledged(t, 4).Refused; refused != nil {
		t.Errorf("all is put right, and %v is refused", refused)
	}
	if diff := cmp.Diff([]string{"a= b=", "a=gopher b=ws", "c=", "a=h2c -backend/b"}, p.has()); diff != "" {
		t.Error(diff)
	}
}

// TestUnavailable: of what was taken, and whose ports cannot be had, the controller is told with each answer, and at once
// when that is something else.
func TestUnavailable(t *testing.T) {
	r, p := newReplica(t), newProxy("")
	var unavailable atomic.Pointer[[]table.Refusal]
	set := func(all ...table.Refusal) {
		unavailable.Store(&all)
		p.SayAgain()
	}
	p.options.Unavailable = func() []table.Refusal { return *unavailable.Load() }
	// Nobody is there to be told.
	set(table.Refusal{Name: "listener/a", Err: errors.New("port 80: in use")})
	p.goTo(r)
	p.run(t)
	r.Commit(web, []wire.Resource{backend("b", "gopher")}, nil)
	said := func(position uint64, want ...string) {
		t.Helper()
		var names []string
		for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
			names = nil
			for _, refusal := range r.acknowledged(t, position).Refused {
				names = append(names, refusal.Name+" "+refusal.Reason)
			}
			if slices.Equal(names, want) {
				return
			}
		}
		t.Errorf("at %d said is %q, want %q", position, names, want)
	}
	const refused, held = `backend/b protocol "gopher" is not known`, "listener/a PortUnavailable: port 80: in use"
	said(1, refused, held)
	set()
	said(1, refused)
	set(table.Refusal{Name: "listener/a", Err: errors.New("port 80: in use")})
	said(1, refused, held)
	r.Commit(web, []wire.Resource{backend("b", "")}, nil)
	said(2, held)
	if s := p.State(); len(s.Refused) > 0 || len(p.logged.with("listener/a")) > 0 {
		t.Errorf("who knows of ports says so, and the state has %v, the log %q", s.Refused, p.logged.with("listener/a"))
	}
}

// TestOtherReplica: when the controller goes the proxy keeps what it has, and gets from another what is
// another.
func TestOtherReplica(t *testing.T) {
	one, other, p := newReplica(t), newReplica(t), newProxy("")
	p.goTo(one)
	p.run(t)
	one.Commit(web, []wire.Resource{backend("a", ""), backend("b", ""), backend("c", "gopher")}, nil)
	one.acknowledged(t, 1)
	p.has()
	other.Commit(web, []wire.Resource{backend("c", "gopher"), backend("b", "ws"), backend("d", "")}, nil)
	p.goTo(other)
	one.stop()
	if refused := other.acknowledged(t, 1).Refused; len(refused) != 1 || refused[0].Name != "backend/c" {
		t.Errorf("another controller hears that %v is refused", refused)
	}
	if diff := cmp.Diff([]string{"b=ws d= -backend/a"}, p.has()); diff != "" {
		t.Error(diff)
	}
	for _, text := range []string{"the stream from the controller ended", "a controller tells this proxy what to serve"} {
		if len(p.logged.with(text)) == 0 {
			t.Errorf("it does not say: %s", text)
		}
	}
}

// TestRestart: a proxy that starts has what the one before it had, and gets what changed since.
func TestRestart(t *testing.T) {
	directory := t.TempDir()
	r, p := newReplica(t), newProxy(directory)
	p.goTo(r)
	if p.Restore() {
		t.Error("a first start finds a snapshot")
	}
	stop := p.run(t)
	r.Commit(web, []wire.Resource{backend("a", ""), backend("b", "gopher")}, nil)
	r.acknowledged(t, 1)
	stop()
	r.Commit(web, []wire.Resource{backend("c", "")}, nil)

	next := newProxy(directory)
	next.goTo(r)
	if !next.Restore() {
		t.Fatal("there is no snapshot")
	}
	if s := next.State(); !s.Applied || s.Connected || s.Position != "1" {
		t.Errorf("its state is %+v", s)
	}
	if diff := cmp.Diff([]string{"a="}, next.has()); diff != "" {
		t.Error(diff)
	}
	next.run(t)
	r.acknowledged(t, 2)
	// What could not be used is no part of a snapshot: another version of the proxy may be able to.
	if diff := cmp.Diff([]string{"b=gopher c="}, next.has()); diff != "" {
		t.Error(diff)
	}
}

// TestNextOpensFirst: before the credentials of a stream end the next one is open, and tells what the one
// before it has not told; the proxy is connected all the time.
func TestNextOpensFirst(t *testing.T) {
	r, p := newReplica(t), newProxy("")
	r.lifetime.Store(int64(4 * time.Second))
	p.goTo(r)
	r.Commit(web, []wire.Resource{backend("a", "")}, nil)
	p.run(t)
	first := r.acknowledged(t, 1)
	if first.Stream != 1 || first.Until.IsZero() {
		t.Errorf("acknowledged is %+v", first)
	}
	second := r.acknowledged(t, 1)
	if second.Stream != 2 || !second.Until.IsZero() || !time.Now().Before(first.Until) {
		t.Errorf("acknowledged is %+v, before it %+v", second, first)
	}
	r.Commit(web, []wire.Resource{backend("b", "")}, nil)
	r.acknowledged(t, 2)
	if diff := cmp.Diff([]string{"a=", "", "b="}, p.has()); diff != "" {
		t.Error(diff)
	}
	if ended := p.logged.with("the stream from the controller ended"); len(ended) > 0 {
		t.Errorf("it was not connected: %q", ended)
	}
}
