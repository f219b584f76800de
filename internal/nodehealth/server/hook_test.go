package server

import (
	"bufio"
	"context"
	"net"
	"net/http"
	"net/netip"
	"testing"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/nodehealth"
	"github.com/mumoshu/ingress-daemonset-controller/internal/testing/await"
)

// ends is a node of which a pod is being stopped that is still a target.
func ends(target bool) nodehealth.State {
	s := serving()
	s.Pods = append(s.Pods, nodehealth.Pod{UID: "old", Name: "old", Leaving: true, Ending: true, Grace: time.Hour, InTargets: target})
	return s
}

func TestDrainHookIsAnsweredWhenTheTargetIsOut(t *testing.T) {
	r := NewResponder(quiet)
	url, _ := start(t, r)
	r.Update(ends(true))
	time.AfterFunc(300*time.Millisecond, func() { r.Update(ends(false)) })
	if got := ask(t, "GET", url+"/?drain"); got.took < 250*time.Millisecond || got.took > 10*time.Second {
		t.Errorf("answered after %v", got.took)
	}
}

// TestLastConnectionsToATargetMayEnd lets connections to what was a target until now end, also
// where the node has been out for long: nobody has waited for them.
func TestLastConnectionsToATargetMayEnd(t *testing.T) {
	r := NewResponder(quiet)
	r.drains.hook.Linger = time.Minute
	released := func(s nodehealth.State) nodehealth.State {
		s.Deployment.Mark, s.Deployment.Released = new(v1alpha1.Mark("2026-01-02T11:00:00Z/r1")), true
		return s
	}
	r.Update(released(ends(true)))
	early, late := &drain{asked: time.Now()}, &drain{asked: time.Now()}
	if why, _ := r.holds(early); why != "a pod is still a target" {
		t.Errorf("a target is held because %q", why)
	}
	r.Update(released(ends(false)))
	if why, _ := r.holds(early); why != nodehealth.Lingering {
		t.Errorf("what was a target is held because %q", why)
	}
	if why, _ := r.holds(late); why != "" {
		t.Errorf("what was no target is held because %q", why)
	}
}

func TestDrainHookIsAnsweredWhenItsTimeIsOver(t *testing.T) {
	r := NewResponder(quiet)
	r.drains.hook.Stop = time.Hour - 500*time.Millisecond
	url, _ := start(t, r)
	r.Update(ends(true))
	if got := ask(t, "GET", url+"/?drain"); got.took < 100*time.Millisecond || got.took > 10*time.Second {
		t.Errorf("answered after %v", got.took)
	}
}

// TestOnlyTheNodeHasPodsHeld answers a health check whose query says the same.
func TestOnlyTheNodeHasPodsHeld(t *testing.T) {
	req, err := http.NewRequest(http.MethodGet, "http://10.0.0.1/?drain", nil)
	if err != nil {
		t.Fatal(err)
	}
	for remote, want := range map[string]bool{"10.0.0.9:4000": false, "127.0.0.1:4000": true, "10.0.0.1:4000": true, "": false} {
		req.RemoteAddr = remote
		if got := asksToDrain(req.WithContext(withLocal(req.Context(), "10.0.0.1:10080"))); got != want {
			t.Errorf("%q may have pods held: %t", remote, got)
		}
	}
}

func withLocal(ctx context.Context, address string) context.Context {
	return context.WithValue(ctx, http.LocalAddrContextKey, net.Addr(net.TCPAddrFromAddrPort(netip.MustParseAddrPort(address))))
}

// TestHookWaitsForAnAPIServerThatHangs holds a pod that serves for as long as its deletion may
// go unseen.
func TestHookWaitsForAnAPIServerThatHangs(t *testing.T) {
	r := NewResponder(quiet)
	r.drains.hook.Stop = time.Second
	r.Update(drainable())
	for ago, held := range map[time.Duration]bool{pingAfter + pingTimeout + time.Second: true, hangTime + time.Second: false} {
		if why, _ := r.holds(&drain{asked: time.Now().Add(-ago)}); (why != "") != held {
			t.Errorf("after %v it is held because %q, want %t", ago, why, held)
		}
	}
}

// TestHookIsHeldWhenTheAPIServerIsBack, which tells of the deletion long after it.
func TestHookIsHeldWhenTheAPIServerIsBack(t *testing.T) {
	r := NewResponder(quiet)
	lost := drainable()
	lost.LostAt = time.Now().Add(-time.Minute)
	r.Update(lost)
	h := &drain{asked: time.Now().Add(-50 * time.Second)}
	r.Update(ends(true))
	if why, _ := r.holds(h); why != "a pod is still a target" {
		t.Errorf("it is held because %q", why)
	}
}

// TestHooksThatWaitAreBounded: one too many is answered at once, and the others when their
// pods may stop.
func TestHooksThatWaitAreBounded(t *testing.T) {
	r := NewResponder(quiet)
	url, _ := start(t, r)
	r.Update(ends(true))
	waiting := func() int {
		r.mu.Lock()
		defer r.mu.Unlock()
		return len(r.drains.waiting)
	}
	conns := hang(t, url, "GET /?drain HTTP/1.1\r\nHost: a\r\n\r\n", maxHooks)
	await.True(t, "all wait", func() bool { return waiting() == maxHooks })
	if _, err := tryAsk("GET", url+"/?drain"); err != nil || waiting() != maxHooks {
		t.Errorf("one too many: %v, and %d wait", err, waiting())
	}
	r.Update(ends(false))
	for _, conn := range conns {
		response, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
	}
}

// TestLeavingCheckerKeepsHolding does not let a pod go because the health checker is
// replaced meanwhile.
func TestLeavingCheckerKeepsHolding(t *testing.T) {
	r := NewResponder(quiet)
	url, stop := start(t, r)
	r.Update(ends(true))
	time.AfterFunc(200*time.Millisecond, stop)
	time.AfterFunc(time.Second, func() { r.Update(ends(false)) })
	if got := ask(t, "GET", url+"/?drain"); got.took < 900*time.Millisecond || got.took > 10*time.Second {
		t.Errorf("answered after %v", got.took)
	}
}
