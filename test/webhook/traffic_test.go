package webhook

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/internal/detach/webhook"
	"github.com/mumoshu/ingress-daemonset-controller/test/lb"
	"github.com/mumoshu/ingress-daemonset-controller/test/traffic"
)

// startTraffic sends through both backends; some requests last two seconds.
func startTraffic(t *testing.T, b *balancer) *traffic.Run {
	t.Helper()
	run, err := traffic.Start(t.Context(), traffic.Options{Rate: 200, Duration: 3 * time.Minute, Timeout: patient, Streams: []traffic.Stream{
		{Name: "http-kept", Address: b.listen[lb.HTTP], Share: 45, KeepAlive: true},
		{Name: "http-new", Address: b.listen[lb.HTTP], Share: 5},
		{Name: "http-slow", Address: b.listen[lb.HTTP], Share: 5, Path: "/slow", Workers: 40},
		{Name: "tcp-kept", Address: b.listen[lb.TCP], Share: 40, KeepAlive: true, Lifetime: time.Second},
		{Name: "tcp-new", Address: b.listen[lb.TCP], Share: 5},
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { run.Stop() })
	return run
}

// hold sends a request that lasts until it is released, and waits for its outcome.
func hold(address string, outcome chan<- error) {
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Get("http://" + address + "/hold")
	if err == nil {
		response.Body.Close()
		if response.StatusCode != http.StatusOK {
			err = fmt.Errorf("status %s", response.Status)
		}
	}
	outcome <- err
}

// TestNodeIsDetachedWhenItsLastRequestHasEnded takes a node out under traffic, by a
// receiver that is killed midway, stops the node, starts it and puts it back.
func TestNodeIsDetachedWhenItsLastRequestHasEnded(t *testing.T) {
	for _, mode := range []lb.Mode{lb.HTTP, lb.TCP} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			held, release := make(chan string, 1), make(chan struct{})
			nodes := map[string]*node{}
			for _, name := range []string{"one", "two"} {
				nodes[name] = startNode(t, name, held, release)
			}
			b := startBalancer(t, nodes["one"], nodes["two"])
			p := startReceiver(t, b.socket)
			run := startTraffic(t, b)
			outcome := make(chan error, 1)
			go hold(b.listen[mode], outcome)
			n := nodes[<-held]

			waitWhileHeld(p, n, mode)
			close(release)
			before := detached(p, n)
			if err := <-outcome; err != nil {
				t.Errorf("the request that was held: %v", err)
			}
			n.stop()
			sent := run.Snapshot().Requests
			eventually(t, "traffic goes on beside a node that is gone", func() bool { return run.Snapshot().Requests > sent+400 })
			if after := n.answered.Load(); after != before {
				t.Errorf("%d requests reached the node after its detachment", after-before)
			}

			attached(p, b, n)
			report := run.Stop()
			if report.Failed != 0 || report.ByNode["one"] == 0 || report.ByNode["two"] == 0 || report.Streams["http-slow"].Requests == 0 {
				t.Errorf("%s%v\n%+v\n%s", report, report.ByNode, report.Failures, b.Log())
			}
		})
	}
}

// waitWhileHeld asks until only the held request is left, and beyond.
func waitWhileHeld(p *process, n *node, mode lb.Mode) {
	p.Helper()
	last := fmt.Sprintf("%s/%s has 1 sessions", mode, n.name)
	notYet := func() string {
		answer := p.ask(webhook.Detach, n.asked())
		if answer.Done || answer.RetryAfter != time.Second {
			p.Fatalf("%+v, with %d requests under way", answer, n.underWay.Load())
		}
		return answer.Message
	}
	eventually(p.T, "only the held request is left", func() bool { return strings.HasSuffix(notYet(), ": "+last) })
	p.kill()
	p.start()
	// No event shows that it would be taken for done later.
	for end := time.Now().Add(3 * time.Second); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		if message := notYet(); !strings.HasSuffix(message, ": "+last) {
			p.Fatalf("%s, want %s", message, last)
		}
	}
}

// detached asks until the node is out, and gives how many requests it has got.
func detached(p *process, n *node) int64 {
	p.Helper()
	eventually(p.T, "the node is detached", func() bool { return p.ask(webhook.Detach, n.asked()).Done })
	if left := n.underWay.Load(); left != 0 {
		p.Errorf("%d requests are under way on a node that is detached", left)
	}
	return n.answered.Load()
}

// attached starts the node, first sick, and asks until it is in.
func attached(p *process, b *balancer, n *node) {
	p.Helper()
	n.healthy.Store(false)
	before := n.answered.Load()
	n.start()
	refused := n.refused.Load()
	eventually(p.T, "its health check fails again and again", func() bool {
		if answer := p.ask(webhook.Attach, n.asked()); answer.Done || !strings.Contains(answer.Message, "is DOWN") {
			p.Fatalf("%+v, though its health check fails", answer)
		}
		return n.refused.Load() > refused+5
	})
	n.healthy.Store(true)
	eventually(p.T, "the node is attached", func() bool { return p.ask(webhook.Attach, n.asked()).Done })
	if !b.is(p.T, n.name, lb.Up) {
		p.Errorf("attached is a node that is not up: %s", b.Log())
	}
	eventually(p.T, "the node gets traffic", func() bool { return n.answered.Load() > before+10 })
}

// TestAllProxiesMustHaveStopped has a request under way in the second of two HAProxies.
func TestAllProxiesMustHaveStopped(t *testing.T) {
	t.Parallel()
	held, release := make(chan string, 1), make(chan struct{})
	n := startNode(t, "one", held, release)
	idle, busy := startBalancer(t, n), startBalancer(t, n)
	p := startReceiver(t, idle.socket, busy.socket)
	outcome := make(chan error, 1)
	go hold(busy.listen[lb.HTTP], outcome)
	<-held

	want := fmt.Sprintf("HAProxy at %s: http/one has 1 sessions", busy.socket)
	for range 5 {
		if answer := p.ask(webhook.Detach, n.asked()); answer.Done || answer.Message != want {
			t.Errorf("%+v, want %s", answer, want)
		}
	}
	if !idle.is(t, "one", lb.Drain) || !busy.is(t, "one", lb.Drain) {
		t.Error("one of them still sends to the node")
	}
	close(release)
	if err := <-outcome; err != nil {
		t.Error(err)
	}
	detached(p, n)
	busy.Stop()
	for _, action := range []webhook.Action{webhook.Detach, webhook.Attach} {
		if answer, err := p.tryAsk(action, n.asked()); err == nil || !strings.Contains(err.Error(), "503 Service Unavailable: HAProxy at "+busy.socket) {
			t.Errorf("%s, with one that cannot be asked: %+v, %v", action, answer, err)
		}
	}
	if !idle.is(t, "one", lb.Up) {
		t.Error("the other one was not told")
	}
}

// TestRequestOfAMomentAgoIsWaitedFor, since a next one may not be counted yet.
func TestRequestOfAMomentAgoIsWaitedFor(t *testing.T) {
	t.Parallel()
	n := startNode(t, "one", nil, nil)
	b := startBalancer(t, n)
	p := startReceiver(t, b.socket)
	eventually(t, "a request is found to be of a moment ago", func() bool {
		eventually(t, "the node is attached", func() bool { return p.ask(webhook.Attach, n.asked()).Done })
		response, err := http.Get("http://" + b.listen[lb.HTTP])
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		answer := p.ask(webhook.Detach, n.asked())
		return !answer.Done && strings.HasSuffix(answer.Message, ": http/one got a session a moment ago")
	})
	detached(p, n)
}

// TestAttachWaitsForAFirstCheck, before which HAProxy takes a server to be one failed
// check from down, which here is up. It spreads first checks over the interval: the
// one in the second backend is far off.
func TestAttachWaitsForAFirstCheck(t *testing.T) {
	t.Parallel()
	n := startNode(t, "one", nil, nil)
	b := launchBalancer(t, lb.Options{CheckInterval: time.Hour, Fall: 1}, n)
	p := startReceiver(t, b.socket)
	eventually(t, "one backend has checked the server", func() bool {
		answer := p.ask(webhook.Attach, n.asked())
		if answer.Done {
			t.Fatal("attached is a server that is not checked yet")
		}
		return strings.HasSuffix(answer.Message, ": tcp/one is UP, its last check says INI")
	})
}
