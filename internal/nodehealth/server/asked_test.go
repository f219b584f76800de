package server

import (
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/testing/await"
)

// TestWhoElseAsksIsTold counts neither this project's programs nor drain hooks.
func TestWhoElseAsksIsTold(t *testing.T) {
	r := NewResponder(quiet)
	r.Update(ends(false))
	url, _ := start(t, r)
	ours := func() reply { return ask(t, "GET", url, v1alpha1.HeaderClient, "controller") }
	ask(t, "GET", url+"/?drain")
	if got := ours().answer; got.Asked != nil || got.Quiet {
		t.Errorf("before anybody asked: %+v", got.Asked)
	}
	for _, request := range [][2]string{{"GET", "/"}, {"HEAD", "/healthz"}} {
		r.mu.Lock()
		r.asking.Add("192.0.2.1", time.Now().Add(-time.Minute))
		r.mu.Unlock()
		ask(t, request[0], url+request[1])
		ours()
		got := ours().answer.Asked
		if got == nil || got.By != "127.0.0.1" || got.SecondsAgo > 10 || got.IntervalSeconds < 60 || got.IntervalSeconds > 70 {
			t.Errorf("after %s, a minute after somebody else: %+v", request, got)
		}
	}
}

// TestQuietIsToldAtOnce answers those that wait when nobody has asked for long, and
// when somebody does again.
func TestQuietIsToldAtOnce(t *testing.T) {
	r := NewResponder(quiet)
	r.asking.AtLeast = 500 * time.Millisecond
	r.Update(serving())
	url, _ := start(t, r)
	wait := func(tag string) reply {
		return ask(t, "GET", url, v1alpha1.HeaderClient, "controller", "If-None-Match", tag, "Prefer", "wait=10")
	}
	ask(t, "GET", url)
	first := wait("")
	calm := wait(first.header.Get("ETag"))
	if first.answer.Quiet || !calm.answer.Quiet || calm.took < 300*time.Millisecond || calm.took > 5*time.Second {
		t.Errorf("quiet %t, then %t after %v", first.answer.Quiet, calm.answer.Quiet, calm.took)
	}
	r.Update(serving())
	time.AfterFunc(100*time.Millisecond, func() { ask(t, "GET", url) })
	again := wait(calm.header.Get("ETag"))
	if again.answer.Quiet || again.took > 5*time.Second || again.header.Get("ETag") != first.header.Get("ETag") {
		t.Errorf("asked again: quiet %t after %v", again.answer.Quiet, again.took)
	}
	if !wait(again.header.Get("ETag")).answer.Quiet {
		t.Error("it does not turn quiet a second time")
	}
}

// TestWhoeverConnectsWithoutARequestAsks counts load balancers that check by TCP alone, or
// by something that is not HTTP, also where they do not wait until they are accepted.
func TestWhoeverConnectsWithoutARequestAsks(t *testing.T) {
	for name, sent := range map[string]string{
		"nothing": "", "half a request": "GET / HT", "no HTTP": "\x00\x00 no http\r\n\r\n", "too much": "GET / HTTP/1.1\r\nX: " + strings.Repeat("x", 64<<10),
	} {
		for end, linger := range map[string]int{"closed": -1, "reset": 0} {
			t.Run(name+", "+end, func(t *testing.T) {
				r := NewResponder(quiet)
				r.asking.AtLeast = time.Millisecond
				r.Update(serving())
				url, _ := start(t, r)
				ours := func() reply { return ask(t, "GET", url, v1alpha1.HeaderClient, "controller") }
				await.True(t, "it is quiet", func() bool { return ours().answer.Quiet })
				r.mu.Lock()
				r.asking.AtLeast = time.Hour
				r.mu.Unlock()
				knock(t, url, sent, linger)
				await.True(t, "it is counted", func() bool {
					got := ours().answer
					return got.Asked != nil && got.Asked.By == "127.0.0.1" && !got.Quiet
				})
			})
		}
	}
}

// knock connects, sends something and ends the connection.
func knock(t *testing.T, url, sent string, linger int) {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	// Where the server has heard enough it may close before all is sent.
	_, _ = io.WriteString(conn, sent)
	if err := conn.(*net.TCPConn).SetLinger(linger); err != nil {
		t.Error(err)
	}
	conn.Close()
}

// TestConnectionsOfThisProjectAreNobody however they end: with an answer at once or after
// a wait, for a pod that was held, and where who asked has gone meanwhile.
func TestConnectionsOfThisProjectAreNobody(t *testing.T) {
	r := NewResponder(quiet)
	r.Update(ends(true))
	url, stop := start(t, r)
	ours := func(header ...string) reply {
		return ask(t, "GET", url, append(header, v1alpha1.HeaderClient, "controller")...)
	}
	tag := ours().header.Get("ETag")
	ours("If-None-Match", tag, "Prefer", "wait=1")
	gone := "GET / HTTP/1.1\r\nHost: a\r\n" + v1alpha1.HeaderClient + ": controller\r\n"
	knock(t, url, gone+"\r\n", -1)
	knock(t, url, gone+"If-None-Match: "+tag+"\r\nPrefer: wait=1\r\n\r\n", -1)
	held := make(chan reply, 1)
	go func() {
		got, err := tryAsk("GET", url+"/?drain")
		if err != nil {
			t.Error(err)
		}
		held <- got
	}()
	await.True(t, "a pod is held", func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return len(r.drains.waiting) > 0
	})
	r.Update(ends(false))
	<-held
	ask(t, "GET", url+"/?drain")
	// All connections have ended then.
	stop()
	if got, _ := r.asking.Told(time.Now()); got != nil {
		t.Errorf("%+v has asked", got)
	}
}
