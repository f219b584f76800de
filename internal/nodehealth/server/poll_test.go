package server

import (
	"bufio"
	"net/http"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/nodehealth"
	"github.com/mumoshu/ingress-daemonset-controller/internal/testing/await"
)

func TestLongPollIsAnsweredOnChange(t *testing.T) {
	for _, method := range []string{"GET", "HEAD"} {
		t.Run(method, func(t *testing.T) {
			r := NewResponder(quiet)
			url, _ := start(t, r)
			r.Update(serving())
			first := ask(t, "GET", url)
			time.AfterFunc(300*time.Millisecond, func() { r.Update(marked("m")) })
			got := ask(t, method, url, "If-None-Match", first.header.Get("ETag"), "Prefer", "respond-async, wait=10")
			if got.status != 503 || got.took < 250*time.Millisecond || got.took > 5*time.Second {
				t.Errorf("status %d after %v, want 503 when the mark is set", got.status, got.took)
			}
			if method == "GET" && got.answer.Mark != "m" {
				t.Errorf("answer is %+v", got.answer)
			}
			if got.header.Get("ETag") == first.header.Get("ETag") || got.header.Get("Cache-Control") != "no-store" {
				t.Errorf("headers are %v", got.header)
			}
		})
	}
}

// TestBlindnessIsToldAtOnce answers those that wait, and leaves the age of the verdict.
func TestBlindnessIsToldAtOnce(t *testing.T) {
	r := NewResponder(quiet)
	url, _ := start(t, r)
	r.Update(serving())
	tag := ask(t, "GET", url).header.Get("ETag")
	blind := serving()
	blind.Blind = "refused"
	time.AfterFunc(500*time.Millisecond, func() { r.Update(blind) })
	got := ask(t, "GET", url, "If-None-Match", tag, "Prefer", "wait=10")
	if got.status != 200 || got.answer.Blind != "refused" || got.took > 5*time.Second {
		t.Errorf("status %d and %+v after %v", got.status, got.answer, got.took)
	}
	if got.answer.AgeSeconds < 0.5 {
		t.Errorf("the verdict has held for %v s only", got.answer.AgeSeconds)
	}
}

func TestLongPollWaitsThroughWhatIsNoChange(t *testing.T) {
	r := NewResponder(quiet)
	url, _ := start(t, r)
	r.Update(serving())
	tag := ask(t, "GET", url).header.Get("ETag")
	s := serving()
	s.Pods = append(s.Pods, nodehealth.Pod{UID: "surge"})
	time.AfterFunc(200*time.Millisecond, func() { r.Update(s) })
	got := ask(t, "GET", url, "If-None-Match", tag, "Prefer", "wait=1")
	if got.status != 200 || got.took < 900*time.Millisecond || got.took > 5*time.Second {
		t.Errorf("status %d after %v, want 200 after a second", got.status, got.took)
	}
}

func TestLongPollIsAnsweredAtOnce(t *testing.T) {
	r := NewResponder(quiet)
	url, _ := start(t, r)
	r.Update(serving())
	tag := ask(t, "GET", url).header.Get("ETag")
	for name, header := range map[string][]string{
		"without a tag":            {"Prefer", "wait=30"},
		"with another tag":         {"If-None-Match", `W/"0"`, "Prefer", "wait=30"},
		"without a time":           {"If-None-Match", tag},
		"with no time":             {"If-None-Match", tag, "Prefer", "wait=0"},
		"with a time that is none": {"If-None-Match", tag, "Prefer", "wait=soon"},
		"with a negative time":     {"If-None-Match", tag, "Prefer", "wait=-1"},
	} {
		if got := ask(t, "GET", url, header...); got.status != 200 || got.took > 5*time.Second {
			t.Errorf("%s: status %d after %v", name, got.status, got.took)
		}
	}
}

// TestLongPollShowsLife tells a checker that waits from one that hangs.
func TestLongPollShowsLife(t *testing.T) {
	r := NewResponder(quiet)
	r.Update(serving())
	url, _ := start(t, r)
	if got := ask(t, "GET", url).header.Get(v1alpha1.HeaderLife); got != strconv.Itoa(v1alpha1.LifeSeconds) {
		t.Errorf("an answer says %q of signs of life", got)
	}
	for version, signs := range map[string]int{"HTTP/1.1": 4, "HTTP/1.0": 0} {
		begin := time.Now()
		conn := hang(t, url, "GET / "+version+"\r\nHost: a\r\nIf-None-Match: "+r.tag+"\r\nPrefer: wait=3\r\n"+v1alpha1.HeaderLife+": 1\r\n\r\n", 1)[0]
		in := bufio.NewReader(conn)
		seen := 0
		for ; ; seen++ {
			start, err := in.Peek(len(sign))
			if err != nil {
				t.Fatal(err)
			}
			if string(start) != sign {
				break
			}
			if late := time.Since(begin) - time.Duration(seen)*time.Second; late > 900*time.Millisecond {
				t.Errorf("sign %d comes %v late", seen, late)
			}
			if _, err := in.Discard(len(sign)); err != nil {
				t.Fatal(err)
			}
		}
		response, err := http.ReadResponse(in, nil)
		if err != nil || response.StatusCode != 200 || time.Since(begin) < 2900*time.Millisecond {
			t.Fatalf("%s: %+v (%v) after %v", version, response, err, time.Since(begin))
		}
		response.Body.Close()
		if min(seen, 3) != min(signs, 3) {
			t.Errorf("%s: %d signs of life in 3 s", version, seen)
		}
	}
}

func TestWaits(t *testing.T) {
	for prefer, want := range map[string]time.Duration{
		"":                      0,
		"wait=5":                5 * time.Second,
		"Wait=\"7\"":            7 * time.Second,
		"return=minimal,wait=1": time.Second,
		"wait=301":              5 * time.Minute,
		"wait=99999999999":      5 * time.Minute,
		"wait=9e9":              0,
		"waiting=5":             0,
	} {
		if got := waits(&http.Request{Header: http.Header{"Prefer": {prefer}}}); got != want {
			t.Errorf("%q waits %v, want %v", prefer, got, want)
		}
	}
}

func TestIdleLongPollsCostNoGoroutine(t *testing.T) {
	r := NewResponder(quiet)
	r.Update(serving())
	url, _ := start(t, r)
	request := "GET / HTTP/1.1\r\nHost: a\r\nIf-None-Match: " + r.tag + "\r\nPrefer: wait=60\r\n\r\n"
	before := runtime.NumGoroutine()
	conns := hang(t, url, request, maxPolls)
	await.True(t, "all wait", func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return len(r.polls) == maxPolls
	})
	await.True(t, "goroutines end", func() bool { return runtime.NumGoroutine() < before+10 })

	if got := ask(t, "GET", url, "If-None-Match", r.tag, "Prefer", "wait=60"); got.took > 5*time.Second {
		t.Errorf("one too many waits %v", got.took)
	}
	r.Update(marked("m"))
	for _, conn := range conns {
		response, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		if response.StatusCode != 503 {
			t.Fatalf("status %d", response.StatusCode)
		}
		response.Body.Close()
	}
}

func TestClientThatLeavesItsLongPollHarmsNobody(t *testing.T) {
	r := NewResponder(quiet)
	r.Update(serving())
	url, _ := start(t, r)
	for _, conn := range hang(t, url, "GET / HTTP/1.1\r\nHost: a\r\nIf-None-Match: "+r.tag+"\r\nPrefer: wait=60\r\n\r\n", 3) {
		conn.Close()
	}
	r.Update(marked("m"))
	if got := ask(t, "GET", url); got.answer.Mark != "m" {
		t.Errorf("answer is %+v", got.answer)
	}
}

func TestLeavingAnswersLongPolls(t *testing.T) {
	r := NewResponder(quiet)
	r.Update(serving())
	url, stop := start(t, r)
	time.AfterFunc(200*time.Millisecond, stop)
	got := ask(t, "GET", url, "If-None-Match", r.tag, "Prefer", "wait=60")
	if got.status != 200 || got.took > 3*time.Second {
		t.Errorf("status %d after %v", got.status, got.took)
	}
}
