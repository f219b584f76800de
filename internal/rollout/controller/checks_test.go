package controller

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/nodehealth/healthclient"
	"github.com/mumoshu/ingress-daemonset-controller/internal/rollout"
	"k8s.io/apimachinery/pkg/types"
)

var theSet = types.NamespacedName{Namespace: "edge", Name: "proxy"}

// port is a health-check port that a test answers on.
type port struct {
	endpoint
	mu       sync.Mutex
	answer   http.HandlerFunc
	requests int
	// came is told that there were more requests.
	came chan struct{}
	// changed gets one for each call of checks.changed, of which there were so many as changes.
	changed chan struct{}
	changes atomic.Int32
	checks  *checks
	server  *http.Server
}

// serve answers on a port of its own, and lets checks listen to it.
func serve(t *testing.T, plain bool, answer http.HandlerFunc) *port {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, number, _ := net.SplitHostPort(l.Addr().String())
	n, _ := strconv.Atoi(number)
	p := &port{endpoint: endpoint{Port: healthclient.Port{Node: "n1", Address: "127.0.0.1", Number: int32(n), Plain: plain}}, answer: answer, came: make(chan struct{}, 1), changed: make(chan struct{}, 100)}
	p.server = &http.Server{Handler: p}
	go func() { _ = p.server.Serve(l) }()
	p.checks = newChecks(theSet, func() { p.changes.Add(1); p.changed <- struct{}{} }, listen, time.Now)
	p.checks.want([]endpoint{p.endpoint})
	t.Cleanup(func() {
		p.checks.want(nil)
		p.server.Close()
	})
	return p
}

func (p *port) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	p.requests++
	answer := p.answer
	p.mu.Unlock()
	select {
	case p.came <- struct{}{}:
	default:
	}
	answer(w, r)
}

func (p *port) asked() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.requests
}

// await waits for the last answer to be as wanted.
func (p *port) await(t *testing.T, what string, is func(rollout.Check) bool) {
	t.Helper()
	p.until(t, p.changed, what, func() bool { return is(p.checks.last(p.endpoint)) })
}

// awaitAsked waits for so many requests.
func (p *port) awaitAsked(t *testing.T, n int) {
	t.Helper()
	p.until(t, p.came, fmt.Sprint(n, " requests"), func() bool { return p.asked() >= n })
}

// until waits for something of which that channel tells.
func (p *port) until(t *testing.T, told <-chan struct{}, what string, is func() bool) {
	t.Helper()
	deadline := time.After(20 * time.Second)
	for !is() {
		select {
		case <-told:
		case <-deadline:
			t.Fatalf("waiting for %s, it was asked %d times and is %+v", what, p.asked(), p.checks.last(p.endpoint))
		}
	}
}

func serving(c rollout.Check) bool    { return c.Answered && c.Serving }
func unanswered(c rollout.Check) bool { return !c.Answered }

// verdict answers as the health checker does, and holds a question whose ETag is
// the verdict's until the verdict changes.
type verdict struct {
	mu      sync.Mutex
	mark    string
	changed chan struct{}
}

func newVerdict() *verdict { return &verdict{changed: make(chan struct{})} }

func (v *verdict) set(mark string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.mark = mark
	close(v.changed)
	v.changed = make(chan struct{})
}

func (v *verdict) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	v.mu.Lock()
	tag, changed := `W/"`+v.mark+`"`, v.changed
	v.mu.Unlock()
	if r.Header.Get("If-None-Match") == tag && strings.HasPrefix(r.Header.Get("Prefer"), "wait=") {
		select {
		case <-changed:
		case <-r.Context().Done():
			return
		}
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	w.Header().Set("ETag", `W/"`+v.mark+`"`)
	if v.mark != "" {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	fmt.Fprintf(w, `{"serving": %t, "mark": %q, "ageSeconds": 100}`, v.mark == "", v.mark)
}

// TestChecksHearAtOnce is about the long poll: a change is heard when it happens,
// with no question in between.
func TestChecksHearAtOnce(t *testing.T) {
	v := newVerdict()
	p := serve(t, false, v.ServeHTTP)
	p.await(t, "serving", serving)
	if c := p.checks.last(p.endpoint); time.Since(c.Since) < 90*time.Second {
		t.Errorf("the age of the verdict is lost: since %s", c.Since)
	}
	for i := range 5 {
		mark := fmt.Sprint("mark-", i)
		v.set(mark)
		p.await(t, mark, func(c rollout.Check) bool { return c.Answered && !c.Serving && string(c.Mark) == mark })
	}
	if n := p.asked(); n > 7 {
		t.Errorf("%d questions for 6 verdicts", n)
	}
	if !p.checks.heardAll() {
		t.Error("it has not heard all")
	}
}

// TestChecksForgiveOnce: a checker that hands over ends what waits, which is no
// news; a port that stays closed is, from then on.
func TestChecksForgiveOnce(t *testing.T) {
	v := newVerdict()
	var once sync.Once
	p := serve(t, false, func(w http.ResponseWriter, r *http.Request) {
		cut := false
		if r.Header.Get("If-None-Match") != "" {
			once.Do(func() { cut = true })
		}
		if cut {
			panic(http.ErrAbortHandler)
		}
		v.ServeHTTP(w, r)
	})
	p.await(t, "serving", serving)
	p.awaitAsked(t, 3)
	if told := p.changes.Load(); told != 1 || !serving(p.checks.last(p.endpoint)) {
		t.Errorf("one cut connection was news: after one answer %d were told", told)
	}
	closed := time.Now()
	p.server.Close()
	p.await(t, "nobody listens", func(c rollout.Check) bool { return unanswered(c) && !c.Accepted })
	if since := p.checks.last(p.endpoint).Since; since.Before(closed) {
		t.Errorf("silent since %v before it closed", closed.Sub(since))
	}
}

// TestEndpointsAt are told apart by their node, also where two have the same address.
func TestEndpointsAt(t *testing.T) {
	node := benchNode(1)
	of := func(node, address string) []endpoint {
		return []endpoint{{Port: healthclient.Port{Node: node, Address: address, Number: 10080}}, {Port: healthclient.Port{Node: node, Address: address, Number: 30000, Plain: true}}}
	}
	got, want := endpointsAt(node, of("", "")), of(node.Name, nodeAddress(node))
	if !slices.Equal(got, want) || endpointsAt(nil, want) != nil {
		t.Errorf("got %+v", got)
	}
}

// TestChecksOfAnAddressOfAnotherNode forgets what the node answered that had it before.
func TestChecksOfAnAddressOfAnotherNode(t *testing.T) {
	var node atomic.Value
	node.Store("n1")
	p := serve(t, false, func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"serving": true, "node": %q}`, node.Load())
	})
	p.await(t, "serving", serving)
	node.Store("n2")
	p.await(t, "no answer", unanswered)
}

// TestChecksOfPlainPorts asks again and again, since kube-proxy does not wait.
func TestChecksOfPlainPorts(t *testing.T) {
	p := serve(t, true, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "{}") })
	p.await(t, "serving", func(c rollout.Check) bool { return serving(c) && c.Unmarked })
	p.mu.Lock()
	p.answer = func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("If-None-Match") != "" {
			t.Error("a plain port was asked to wait")
		}
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	p.mu.Unlock()
	p.await(t, "failing", func(c rollout.Check) bool { return c.Answered && !c.Serving })
}

// TestChecksAreNotImpatient: a checker that is asked by too many answers at once,
// which must not become a loop.
func TestChecksAreNotImpatient(t *testing.T) {
	p := serve(t, false, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("ETag", "same")
		fmt.Fprint(w, `{"serving": true}`)
	})
	start := time.Now()
	p.awaitAsked(t, 4)
	if took := time.Since(start); took < 2*time.Second {
		t.Errorf("4 questions in %s", took)
	}
}

// TestChecksOfAPortThatAlwaysHasNews: a health checker of an image that its user chose may have
// news in each answer. It is asked less and less.
func TestChecksOfAPortThatAlwaysHasNews(t *testing.T) {
	var n atomic.Int64
	begin := time.Now()
	p := serve(t, false, func(w http.ResponseWriter, _ *http.Request) {
		now := n.Add(1)
		w.Header().Set("ETag", fmt.Sprint(now))
		fmt.Fprintf(w, `{"serving": true, "mark": "%d"}`, now)
	})
	// Between them it leaves the port alone for nothing, nothing, 100, 200, 400 and 800 ms.
	p.awaitAsked(t, 7)
	if took := time.Since(begin); took < 1400*time.Millisecond {
		t.Errorf("asked 7 times within %s", took)
	}
}

// TestRest: two pieces of news have the next question asked at once, further ones later and
// later; after a while without any that begins anew.
func TestRest(t *testing.T) {
	at := time.Unix(0, 0)
	c := newChecks(theSet, func() {}, listen, func() time.Time { return at })
	e, known := &caller{endpoint: endpoint{Port: healthclient.Port{Number: 10080}}}, healthclient.Known{ETag: "tag"}
	n := 0
	news := func(after time.Duration) (ms int64) {
		at = at.Add(after)
		n++
		return c.take(e, rollout.Check{Answered: true, Mark: v1alpha1.Mark(strconv.Itoa(n))}, known, nil).Milliseconds()
	}
	var got []int64
	for range 10 {
		got = append(got, news(time.Second))
		// A question without an answer, or without news, begins nothing anew.
		c.take(e, rollout.Check{}, healthclient.Known{}, net.ErrClosed)
		c.take(e, e.last, known, nil)
	}
	if want := []int64{0, 0, 100, 200, 400, 800, 1600, 3200, 5000, 5000}; !slices.Equal(got, want) {
		t.Errorf("after each news it waits %v ms, want %v", got, want)
	}
	if got := news(2 * longestRest); got != 5000 {
		t.Errorf("it answers as seldom as it is asked, and waits %d ms", got)
	}
	if got := news(2*longestRest + time.Second); got != 0 {
		t.Errorf("after a while without news it waits %d ms", got)
	}
}

// TestChecksEnd stops listening to ports that are not wanted any more.
func TestChecksEnd(t *testing.T) {
	hung := make(chan context.Context, 10)
	p := serve(t, false, func(_ http.ResponseWriter, r *http.Request) {
		hung <- r.Context()
		<-r.Context().Done()
	})
	waiting := <-hung
	p.checks.want(nil)
	select {
	case <-waiting.Done():
	case <-time.After(20 * time.Second):
		t.Fatal("it goes on waiting")
	}
	if len(p.checks.callers) > 0 {
		t.Error("it keeps what nobody wants")
	}
}
