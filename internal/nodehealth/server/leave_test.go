package server

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/internal/nodehealth"
	"github.com/mumoshu/ingress-daemonset-controller/internal/testing/await"
)

// TestHooksAreAnsweredWhileACheckerLeaves answers hooks at the very moment at which a
// leaving checker waits for the answers to long polls. None may be lost by it.
func TestHooksAreAnsweredWhileACheckerLeaves(t *testing.T) {
	for range 3000 {
		r := NewResponder(quiet)
		var clients sync.WaitGroup
		wait := func() poll {
			here, there := net.Pipe()
			clients.Go(func() {
				defer there.Close()
				if n, err := there.Read(make([]byte, 4096)); n == 0 {
					t.Errorf("no answer: %v", err)
				}
			})
			return poll{conn: here, method: "GET", timer: time.NewTimer(time.Hour)}
		}
		first := wait()
		r.polls[&first] = struct{}{}
		for range 4 {
			r.drains.waiting[&drain{poll: wait(), asked: time.Now().Add(-time.Hour)}] = struct{}{}
		}
		clients.Go(func() { r.Update(nodehealth.State{}) })
		r.closePolls()
		r.waitForDrains()
		clients.Wait()
	}
}

// drainable is a node that serves by a pod with a drain hook.
func drainable() nodehealth.State {
	s := serving()
	s.Pods[0].Drains, s.Pods[0].Grace = true, time.Minute
	return s
}

// TestCheckerOutlastsThePodsOfANodeThatShutsDown stops checker and pod together, as the
// kubelet does then, which deletes neither: the hook comes after the checker's SIGTERM.
func TestCheckerOutlastsThePodsOfANodeThatShutsDown(t *testing.T) {
	t.Parallel()
	r := NewResponder(quiet)
	r.drains.hook = nodehealth.DrainHook{Grace: time.Second, Linger: 500 * time.Millisecond, Stop: 5 * time.Second}
	r.Update(drainable())
	url, stop := start(t, r)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		stop()
	}()
	await.True(t, "it is leaving", func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return !r.leaving.IsZero()
	})
	held := make(chan reply, 1)
	go func() {
		got, err := tryAsk("GET", url+"/?drain")
		if err != nil {
			t.Error(err)
		}
		held <- got
	}()
	if got := ask(t, "GET", url); got.status != 200 {
		t.Errorf("status %d before a pod is stopped", got.status)
	}
	await.True(t, "the health check fails", func() bool { return ask(t, "GET", url).answer.Reason == nodehealth.ShuttingDown })
	failing := time.Now()
	got := <-held
	if noticed := time.Since(failing); noticed < time.Second || noticed > 10*time.Second {
		t.Errorf("the pod may stop %v after health checks began to fail", noticed)
	}
	if got.status != 503 {
		t.Errorf("the hook is answered with %d", got.status)
	}
	// The pod's end is seen: nothing is left to wait for.
	gone := drainable()
	gone.Pods = nil
	r.Update(gone)
	select {
	case <-ended:
	case <-time.After(5 * time.Second):
		t.Error("it does not end")
	}
}

// TestCheckerLeavesToAnother at once, although its pods may ask to be held: they ask the other.
func TestCheckerLeavesToAnother(t *testing.T) {
	t.Parallel()
	r := NewResponder(quiet)
	r.Update(drainable())
	url, stop := start(t, r)
	l, err := Listen(t.Context(), url[len("http://"):])
	if err != nil {
		t.Fatal(err)
	}
	other := NewResponder(quiet)
	other.Update(drainable())
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := other.Serve(ctx, l); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() {
		other.Update(nodehealth.State{})
		cancel()
		running.Wait()
	})
	begin := time.Now()
	stop()
	if took := time.Since(begin); took > 5*time.Second {
		t.Errorf("it took %v to leave", took)
	}
}

// TestTwoCheckersTakeNoTurns leaves all answers to the one that came last, which has seen
// the mark, and after its end to the other.
func TestTwoCheckersTakeNoTurns(t *testing.T) {
	t.Parallel()
	blind := NewResponder(quiet)
	blind.Update(serving())
	url, _ := start(t, blind)
	l, err := Listen(t.Context(), url[len("http://"):])
	if err != nil {
		t.Fatal(err)
	}
	sighted := NewResponder(quiet)
	sighted.Update(marked("m"))
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := sighted.Serve(ctx, l); err != nil {
			t.Error(err)
		}
	})
	await.True(t, "the mark is acknowledged", func() bool { return ask(t, "GET", url).answer.Mark == "m" })
	for range 100 {
		if got := ask(t, "GET", url); got.status != 503 {
			t.Fatalf("a load balancer is told %d after the mark was acknowledged", got.status)
		}
	}
	cancel()
	running.Wait()
	if got := ask(t, "GET", url); got.status != 200 {
		t.Errorf("the one that is left answers %d", got.status)
	}
}

// TestCheckerThatNobodyAsksEnds waits for hooks for a while only.
func TestCheckerThatNobodyAsksEnds(t *testing.T) {
	t.Parallel()
	r := NewResponder(quiet)
	r.Update(drainable())
	url, stop := start(t, r)
	begin := time.Now()
	time.AfterFunc(time.Second, func() { _, _ = tryAsk("GET", url) })
	stop()
	if took := time.Since(begin); took < nodehealth.Shutdown || took > nodehealth.Shutdown+5*time.Second {
		t.Errorf("it took %v to end", took)
	}
}
