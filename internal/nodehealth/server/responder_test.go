package server

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/nodehealth"
	"github.com/mumoshu/ingress-daemonset-controller/internal/testing/await"
)

var client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 20 * time.Second}

func serving() nodehealth.State {
	return nodehealth.State{
		Node: "n1", Known: true, Deployment: &nodehealth.Deployment{Wanted: 1},
		Pods: []nodehealth.Pod{{UID: "a", Ready: true}},
	}
}

func marked(mark string) nodehealth.State {
	s := serving()
	s.Deployment.Mark = new(v1alpha1.Mark(mark))
	return s
}

// start serves until the test ends or stop is called.
func start(t *testing.T, r *Responder) (url string, stop func()) {
	t.Helper()
	l, err := Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.Serve(ctx, l) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	return "http://" + l.Addr().String(), stop
}

type reply struct {
	status int
	header http.Header
	answer v1alpha1.HealthCheckAnswer
	took   time.Duration
}

func ask(t *testing.T, method, url string, header ...string) reply {
	t.Helper()
	r, err := tryAsk(method, url, header...)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func tryAsk(method, url string, header ...string) (r reply, err error) {
	req, err := http.NewRequest(method, url, nil)
	if err != nil {
		return r, err
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Add(header[i], header[i+1])
	}
	begin := time.Now()
	response, err := client.Do(req)
	if err != nil {
		return r, err
	}
	defer response.Body.Close()
	r.status, r.header, r.took = response.StatusCode, response.Header, time.Since(begin)
	body, err := io.ReadAll(response.Body)
	if err != nil || method == http.MethodHead {
		return r, err
	}
	return r, json.Unmarshal(body, &r.answer)
}

func TestAnswersOnEveryPathAndMethod(t *testing.T) {
	r := NewResponder(quiet)
	url, _ := start(t, r)
	for _, state := range []struct {
		state  nodehealth.State
		status int
		reason string
		mark   string
	}{
		{nodehealth.State{}, 503, nodehealth.Starting, ""},
		{serving(), 200, nodehealth.Serving, ""},
		{marked("r1 <at> \"noon\""), 503, nodehealth.Marked, "r1 <at> \"noon\""},
	} {
		r.Update(state.state)
		for _, method := range []string{"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PROPFIND"} {
			for _, path := range []string{"", "/", "/healthz", "/a/../b//c", "/?q=1"} {
				got := ask(t, method, url+path)
				if got.status != state.status {
					t.Errorf("%s %s: status %d, want %d", method, path, got.status, state.status)
				}
				if method != "HEAD" && (got.answer.Reason != state.reason || got.answer.Mark != state.mark) {
					t.Errorf("%s %s: %+v, want %s with mark %q", method, path, got.answer, state.reason, state.mark)
				}
				for key, want := range map[string]string{"Cache-Control": "no-store", "Content-Type": "application/json"} {
					if got.header.Get(key) != want {
						t.Errorf("%s %s: %s is %q", method, path, key, got.header.Get(key))
					}
				}
			}
		}
	}
}

func TestAnswersOldAndOddRequests(t *testing.T) {
	r := NewResponder(quiet)
	r.Update(serving())
	url, _ := start(t, r)
	address := strings.TrimPrefix(url, "http://")
	for request, want := range map[string]string{
		"GET / HTTP/1.0\r\n\r\n":                                                      "HTTP/1.0 200 OK",
		"OPTIONS * HTTP/1.1\r\nHost: lb\r\n\r\n":                                      "HTTP/1.1 200 OK",
		"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi":                   "HTTP/1.1 200 OK",
		"nonsense\r\n\r\n":                                                            "HTTP/1.1 400 Bad Request",
		"GET / HTTP/1.1\r\nHost: a\r\nX: " + strings.Repeat("x", 64<<10) + "\r\n\r\n": "HTTP/1.1 431 Request Header Fields Too Large",
	} {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		// Where the server has heard enough it may close before all is sent.
		_, _ = io.WriteString(conn, request)
		line, err := bufio.NewReader(conn).ReadString('\n')
		if strings.TrimSpace(line) != want {
			t.Errorf("%.40q is answered %q (%v), want %q", request, line, err, want)
		}
		conn.Close()
	}
}

func TestAges(t *testing.T) {
	r := NewResponder(quiet)
	url, _ := start(t, r)
	s := serving()
	r.Update(s)
	pass(r, time.Minute)
	s.LostAt = time.Now().Add(-time.Minute)
	s.Pods = append(s.Pods, nodehealth.Pod{UID: "surge", Ready: true})
	r.Update(s)
	got := ask(t, "GET", url).answer
	if got.AgeSeconds < 60 || got.AgeSeconds > 70 {
		t.Errorf("age %v: a change that is not one of the verdict must not restart it", got.AgeSeconds)
	}
	if got.APIAgeSeconds < 60 || got.APIAgeSeconds > 70 {
		t.Errorf("API age %v, want a minute", got.APIAgeSeconds)
	}
	r.Update(marked("m"))
	if got := ask(t, "GET", url).answer; got.AgeSeconds > 10 || got.APIAgeSeconds != 0 {
		t.Errorf("age %v, API age %v after a change with the API server there", got.AgeSeconds, got.APIAgeSeconds)
	}
}

// TestFailingSeconds are told from the first Update on, over changes of the reason, and
// anew after the answer was Serving.
func TestFailingSeconds(t *testing.T) {
	unready, long := serving(), time.Hour
	unready.Pods[0].Ready = false
	r := NewResponder(quiet)
	for _, step := range []struct {
		update *nodehealth.State
		reason string
		// told says whether there is a number, and least its least.
		told  bool
		least time.Duration
	}{
		{nil, nodehealth.Starting, false, 0},
		{new(unready), nodehealth.TooFewPodsReady, true, 0},
		{new(marked("m")), nodehealth.Marked, true, long},
		{new(unready), nodehealth.TooFewPodsReady, true, 2 * long},
		{new(serving()), nodehealth.Serving, false, 0},
		{new(serving()), nodehealth.Serving, false, 0},
		{new(marked("m")), nodehealth.Marked, true, 0},
		{new(marked("m")), nodehealth.Marked, true, long},
	} {
		if step.update != nil {
			r.Update(*step.update)
		}
		_, _, body := r.render(nil)
		var answer v1alpha1.HealthCheckAnswer
		if err := json.Unmarshal(body, &answer); err != nil {
			t.Fatal(err)
		}
		failing := time.Duration(answer.FailingSeconds * float64(time.Second))
		if answer.Reason != step.reason || strings.Contains(string(body), "failingSeconds") != step.told ||
			failing < step.least || failing > step.least+long/2 {
			t.Errorf("want %s and at least %v, told %t: %s", step.reason, step.least, step.told, body)
		}
		pass(r, long)
	}
}

// pass has time pass for what the responder has seen.
func pass(r *Responder, d time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.since = r.since.Add(-d)
	if !r.failing.IsZero() {
		r.failing = r.failing.Add(-d)
	}
	if !r.drains.failing.IsZero() {
		r.drains.failing = r.drains.failing.Add(-d)
	}
}

func TestTagOutlivesTheProcess(t *testing.T) {
	if a, b := etag(nodehealth.Decide(serving())), etag(nodehealth.Decide(serving())); a != b {
		t.Errorf("tags differ: %s, %s", a, b)
	}
	seen := map[string]string{}
	blind := serving()
	blind.Blind = "refused"
	elsewhere := serving()
	elsewhere.Node = "n2"
	for _, s := range []nodehealth.State{{}, serving(), marked(""), marked("a"), marked("b"), blind, elsewhere} {
		answer := nodehealth.Decide(s)
		if earlier, found := seen[etag(answer)]; found {
			t.Errorf("%+v has the tag of %s", answer, earlier)
		}
		seen[etag(answer)] = fmt.Sprint(answer)
	}
}

// hang opens connections that wait for the given request.
func hang(t *testing.T, url, request string, n int) []net.Conn {
	t.Helper()
	conns := make([]net.Conn, n)
	for i := range conns {
		conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		if _, err := io.WriteString(conn, request); err != nil {
			t.Fatal(err)
		}
		conns[i] = conn
	}
	return conns
}

func TestSlowClientsDoNotKeepOthersOut(t *testing.T) {
	r := NewResponder(quiet)
	r.Update(serving())
	url, _ := start(t, r)
	conns := hang(t, url, "GET / HTTP/1.1\r\nX-Slow: ", 2*maxConnections)
	if got := ask(t, "GET", url); got.status != 200 || got.took > 2*time.Second {
		t.Errorf("status %d after %v beside slow clients", got.status, got.took)
	}
	if err := conns[0].SetReadDeadline(time.Now().Add(2 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := conns[0].Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the oldest connection is still open: %v", err)
	}
}

func TestLeavingAnswersWhoHasConnected(t *testing.T) {
	r := NewResponder(quiet)
	r.Update(serving())
	url, stop := start(t, r)
	conn := hang(t, url, "GET / HTTP/1.1\r\n", 1)[0]
	go stop()
	await.True(t, "the port is closed", func() bool {
		_, err := tryAsk("GET", url)
		return err != nil
	})
	if _, err := io.WriteString(conn, "Host: a\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(conn).ReadString('\n')
	if strings.TrimSpace(line) != "HTTP/1.1 200 OK" {
		t.Errorf("the answer is %q (%v)", line, err)
	}
}

// TestFailingSinceSomethingIsKnown does not count the time in which nothing was known, and
// another health checker on the port may have answered 200.
func TestFailingSinceSomethingIsKnown(t *testing.T) {
	r := NewResponder(quiet)
	r.drains.hook = nodehealth.DrainHook{Grace: time.Minute}
	r.Update(nodehealth.State{Node: "n1"})
	pass(r, time.Minute)
	r.Update(marked("m"))
	url, _ := start(t, r)
	if got := ask(t, "GET", url).answer; got.FailingSeconds <= 0 || got.FailingSeconds > 10 {
		t.Errorf("failing for %v s", got.FailingSeconds)
	}
	if since := time.Since(r.drains.failing); since > 10*time.Second {
		t.Errorf("for drain hooks failing for %v", since)
	}
}
