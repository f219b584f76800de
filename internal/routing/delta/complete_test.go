package delta

import (
	"testing"

	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/wire"
	"github.com/mumoshu/ingress-daemonset-controller/internal/testing/await"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// TestUntold: who has what nobody can tell yet whether it is gone is not let in. Others are.
func TestUntold(t *testing.T) {
	s := serve(t, ofWeb)
	s.Untold(func(name string) bool { return name == "backend/a" })
	s.Commit(web, nil, nil)
	c, _ := s.subscribe(t, map[string]string{"backend/a": "1", "backend/b": "1"})
	if r, err := c.Receive(); status.Code(err) != codes.Unavailable {
		t.Errorf("who has it is told %q, %v; want Unavailable", said(r), err)
	}
	c, _ = s.subscribe(t, map[string]string{"backend/b": "1"})
	hear(t, c, "-backend/b")
	s.Untold(nil)
	c, _ = s.subscribe(t, map[string]string{"backend/a": "1"})
	hear(t, c, "-backend/a")
}

// TestNotComplete: a replica that does not know yet what there is for an IngressDaemonSet lets nobody in, so that a proxy asks
// another and keeps what it has; nor does one for which there is no such log any more.
func TestNotComplete(t *testing.T) {
	s := serve(t, ofWeb)
	refused := func(when string) {
		t.Helper()
		if _, err := Open(t.Context(), s.dial(t)); status.Code(err) != codes.Unavailable {
			t.Errorf("%s: %v; want Unavailable", when, err)
		}
	}
	refused("before the first commit")
	if s.IsComplete() || len(s.logs) != 0 {
		t.Errorf("it is complete: %t, with %d logs", s.IsComplete(), len(s.logs))
	}
	s.Commit(web, nil, nil)
	s.Complete()
	c, cancel := s.subscribe(t, map[string]string{"backend/a": "1"})
	answer(t, c, hear(t, c, "-backend/a"))
	s.Forget(web)
	s.Commit(web, []wire.Resource{backend("b", 1)}, nil)
	answer(t, c, hear(t, c, "b=1"))
	s.Forget(web)
	s.Forget(web)
	if len(s.logs) != 1 {
		t.Error("a log with a stream is forgotten")
	}
	cancel()
	await.True(t, "the log goes with its last stream", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.logs) == 0
	})
	refused("after it was forgotten")
	if !s.IsComplete() {
		t.Error("it is complete no more")
	}
}

// TestClassComesBack: one that was forgotten while it had a stream, and is there again, stays when that ends.
func TestClassComesBack(t *testing.T) {
	s := serve(t, ofWeb)
	s.Commit(web, nil, nil)
	c, cancel := s.subscribe(t, nil)
	hear(t, c, "")
	s.Forget(web)
	s.Commit(web, []wire.Resource{backend("a", 1)}, nil)
	cancel()
	for !s.report(t).Ended {
	}
	await.True(t, "its stream has ended", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.open) == 0
	})
	c, _ = s.subscribe(t, nil)
	hear(t, c, "a=1")
}
