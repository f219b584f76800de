package server

import (
	"testing"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
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
	ask(t, "GET", url)
	time.Sleep(200 * time.Millisecond)
	ask(t, "HEAD", url+"/healthz")
	ours()
	got := ours().answer.Asked
	if got == nil || got.By != "127.0.0.1" || got.SecondsAgo > 10 || got.IntervalSeconds < 0.2 || got.IntervalSeconds > 10 {
		t.Errorf("after two requests: %+v", got)
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
