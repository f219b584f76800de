package controller

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/rollout"
	"k8s.io/apimachinery/pkg/types"
)

// checks listens to the health-check ports of nodes as the load balancer asks
// them, and tells when an answer changes. A health checker answers when its
// verdict changes (v1alpha1.HealthCheckAnswer); a plain port, such as
// kube-proxy's, answers at once and is asked every second.
type checks struct {
	// changed is called when an answer for the IngressDaemonSet differs from the last.
	changed func(types.NamespacedName)
	// begin begins to listen to a port, until the context ends.
	begin func(context.Context, types.NamespacedName, *caller)
	now   func() time.Time

	mu      sync.Mutex
	callers map[types.NamespacedName]map[endpoint]*caller
}

// endpoint is one health-check port of one node.
type endpoint struct {
	node    string
	address string
	port    int32
	plain   bool
	// deserted is whether no pod may be behind it: it is not asked. Nor is one that is barred:
	// what listens there may be of the system, and no spec names the port, which whoever may
	// make DaemonSets chooses.
	deserted, barred bool
}

type caller struct {
	endpoint
	stop context.CancelFunc
	etag string
	last rollout.Check
	// asked is whether a first question had its answer, or none.
	asked bool
	// failures counts the questions without an answer since the last one that had it.
	failures int
	// alive is whether the port shows signs of life while a question waits there.
	alive bool
	// news counts the answers that differed from the one before, newsAt is when the last came.
	news   int
	newsAt time.Time
}

const (
	waitForChange = 290 * time.Second
	// answerTime is how long a port may take to answer a question that does not wait, and
	// silence how long one that shows signs of life may go without while a question waits.
	answerTime = 3 * time.Second
	silence    = 2 * v1alpha1.LifeSeconds * time.Second
	// blindAfter is for how long a health checker must not have heard from the API server.
	blindAfter = time.Minute
	// signOfLife is an interim response to a question that waits.
	signOfLife    = "HTTP/1.1 102 Processing\r\n\r\n"
	askPlainEvery = time.Second
	dialTimeout   = 3 * time.Second
	mostAnswer    = 64 << 10
	// newsAtOnce is after how many pieces of news the next question is asked at once: a turn of
	// a node has two. After more it waits, from shortestRest on twice as long each time.
	newsAtOnce   = 2
	shortestRest = 100 * time.Millisecond
	longestRest  = 5 * time.Second
	// mostKept is how many bytes of a mark, an ETag or an address are kept, mostBlind how many of
	// a message: an image that its user chose may answer. A mark of ours takes up 100 at most.
	mostKept  = 256
	mostBlind = 1 << 10
	// longMark stands for a longer mark. It is not ours, which begin with a time.
	longMark = "a longer one"
)

func newChecks(changed func(types.NamespacedName), now func() time.Time) *checks {
	c := &checks{changed: changed, now: now, callers: map[types.NamespacedName]map[endpoint]*caller{}}
	c.begin = func(ctx context.Context, set types.NamespacedName, to *caller) { go c.listen(ctx, set, to) }
	return c
}

// want sets the ports to listen to for an IngressDaemonSet; none for none.
func (c *checks) want(set types.NamespacedName, endpoints []endpoint) {
	c.mu.Lock()
	defer c.mu.Unlock()
	wanted := map[endpoint]*caller{}
	for _, e := range endpoints {
		if e.deserted || e.barred {
			continue
		}
		if old := c.callers[set][e]; old != nil {
			wanted[e] = old
			continue
		}
		ctx, stop := context.WithCancel(context.Background())
		wanted[e] = &caller{endpoint: e, stop: stop, last: rollout.Check{Port: e.port, Unmarked: e.plain}}
		c.begin(ctx, set, wanted[e])
	}
	for e, old := range c.callers[set] {
		if wanted[e] == nil {
			old.stop()
		}
	}
	if c.callers[set] = wanted; len(wanted) == 0 {
		delete(c.callers, set)
	}
}

// last is what a port answered last; nothing before its first answer.
func (c *checks) last(set types.NamespacedName, e endpoint) rollout.Check {
	c.mu.Lock()
	defer c.mu.Unlock()
	if caller := c.callers[set][e]; caller != nil {
		return caller.last
	}
	return rollout.Check{Port: e.port, Unmarked: e.plain}
}

// heardAll is whether every port had its chance to answer. Before that, nodes
// that serve look as if they did not.
func (c *checks) heardAll(set types.NamespacedName) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, caller := range c.callers[set] {
		if !caller.asked {
			return false
		}
	}
	return true
}

// listen asks a port again and again, each time over a connection of its own, as most
// load balancers do. Thousands of listeners wait for the first byte of an answer, each
// with a stack: what needs much of one, or a buffer, is done before or after that.
func (c *checks) listen(ctx context.Context, set types.NamespacedName, to *caller) {
	for ctx.Err() == nil {
		conn, err := to.send(ctx)
		var head []byte
		if err == nil {
			head, err = to.listenTo(ctx, conn)
		}
		c.awaitNext(ctx, set, to, conn, head, err)
	}
}

// awaitNext reads the answer, of which the head or an error has come, and waits until the
// next question is due.
func (c *checks) awaitNext(ctx context.Context, set types.NamespacedName, from *caller, conn net.Conn, head []byte, err error) {
	var answer rollout.Check
	var etag string
	if err == nil {
		answer, etag, err = from.read(conn, head)
	}
	if conn != nil {
		answer.Accepted = err != nil
		conn.Close()
	}
	select {
	case <-ctx.Done():
	case <-time.After(c.take(set, from, answer, etag, err)):
	}
}

// take takes the outcome of a question and tells when to ask the next. After a single
// failure that is at once, since a health checker that hands over to its next version
// ends what waits. One that is silent has failed.
func (c *checks) take(set types.NamespacedName, from *caller, answer rollout.Check, etag string, err error) time.Duration {
	switch {
	case err == nil:
		from.failures = 0
		// What brings no news was answered for want of patience.
		if news := c.heard(set, from, answer, etag); !news || etag == "" {
			return askPlainEvery
		}
		return from.rest(c.now())
	case from.failures == 0 && !errors.Is(err, os.ErrDeadlineExceeded):
		from.failures = 1
		return 50 * time.Millisecond
	default:
		c.heard(set, from, rollout.Check{Port: from.port, Unmarked: from.plain, Accepted: answer.Accepted}, "")
		return askPlainEvery
	}
}

// rest is how long to leave a port alone that just had news. Whoever chooses a health checker's
// image could otherwise have it asked without a pause, and a pass made for each answer.
func (e *caller) rest(now time.Time) time.Duration {
	if now.Sub(e.newsAt) > 2*longestRest {
		e.news = 0
	}
	e.news, e.newsAt = e.news+1, now
	if e.news <= newsAtOnce {
		return 0
	}
	return min(shortestRest<<min(e.news-newsAtOnce-1, 8), longestRest)
}

// heard keeps an answer, and is whether it differs from the last.
func (c *checks) heard(set types.NamespacedName, from *caller, answer rollout.Check, etag string) bool {
	c.mu.Lock()
	last := &from.last
	verdict := last.Answered == answer.Answered && last.Serving == answer.Serving && last.Mark == answer.Mark
	same := verdict && last.Accepted == answer.Accepted && last.Quiet == answer.Quiet && (last.Blind == "") == (answer.Blind == "")
	first := !from.asked
	from.etag, from.asked = etag, true
	switch {
	case verdict:
		answer.Since = last.Since
	case !answer.Answered:
		// Nobody tells since when a port is silent. It may have passed until now.
		answer.Since = c.now()
	}
	*last = answer
	c.mu.Unlock()
	if !verdict && !first {
		flipCounter.WithLabelValues(set.Namespace, set.Name).Inc()
	}
	if !same || first {
		c.changed(set)
	}
	return !same
}

// listenTo returns the beginning of the answer. Signs of life may come before it.
func (e *caller) listenTo(ctx context.Context, conn net.Conn) ([]byte, error) {
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	head, end := make([]byte, len(signOfLife)), time.Now().Add(waitForChange+silence)
	for {
		n, err := io.ReadFull(conn, head)
		switch {
		case err == nil && e.etag != "" && string(head) == signOfLife && time.Now().Before(end):
			_ = conn.SetDeadline(time.Now().Add(silence))
		case n > 0 && errors.Is(err, io.ErrUnexpectedEOF):
			return head[:n], nil
		case err != nil:
			return nil, fmt.Errorf("reading: %w", err)
		default:
			return head, nil
		}
	}
}

// patience is how long a question may go without an answer or a sign of life. Health
// checkers of v0.1.0 show none.
func (e *caller) patience() time.Duration {
	switch {
	case e.etag == "":
		return answerTime
	case e.alive:
		return silence
	}
	return waitForChange + 10*time.Second
}

// send connects and writes the request.
func (e *caller) send(ctx context.Context) (net.Conn, error) {
	if e.address == "" {
		// To dial no address would be to ask ourselves.
		return nil, errors.New("the node has no address")
	}
	dialer := net.Dialer{Timeout: dialTimeout, KeepAliveConfig: net.KeepAliveConfig{
		Enable: true, Idle: 5 * time.Second, Interval: 3 * time.Second, Count: 3}}
	address := net.JoinHostPort(e.address, strconv.Itoa(int(e.port)))
	conn, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("dialing: %w", err)
	}
	_ = conn.SetDeadline(time.Now().Add(e.patience()))
	if _, err := io.WriteString(conn, e.request(address)); err != nil {
		conn.Close()
		return nil, fmt.Errorf("asking: %w", err)
	}
	return conn, nil
}

func (e *caller) request(address string) string {
	conditional := ""
	if e.etag != "" {
		conditional = fmt.Sprintf("If-None-Match: %s\r\nPrefer: wait=%d\r\n%s: %d\r\n",
			e.etag, int(waitForChange.Seconds()), v1alpha1.HeaderLife, v1alpha1.LifeSeconds)
	}
	return "GET / HTTP/1.1\r\nHost: " + address + "\r\nUser-Agent: ingress-daemonset-controller\r\n" +
		v1alpha1.HeaderClient + ": controller\r\n" + conditional + "Connection: close\r\n\r\n"
}

// read reads the answer, of which the head has come.
func (e *caller) read(conn net.Conn, head []byte) (rollout.Check, string, error) {
	out := rollout.Check{Port: e.port, Unmarked: e.plain}
	_ = conn.SetDeadline(time.Now().Add(answerTime))
	rest := io.MultiReader(bytes.NewReader(head), io.LimitReader(conn, mostAnswer))
	response, err := http.ReadResponse(bufio.NewReaderSize(rest, 1024), nil)
	if err != nil {
		return out, "", fmt.Errorf("reading: %w", err)
	}
	defer response.Body.Close()
	received := time.Now()
	out.Answered, out.Serving, out.Since = true, response.StatusCode == http.StatusOK, received
	if e.plain {
		return out, "", nil
	}
	var body v1alpha1.HealthCheckAnswer
	if err := json.NewDecoder(response.Body).Decode(&body); err != nil {
		// Somebody else answers on the port: that node is not ours to call serving.
		return rollout.Check{Port: e.port}, "", fmt.Errorf("decoding: %w", err)
	}
	if body.Node != "" && body.Node != e.node {
		return rollout.Check{Port: e.port}, "", fmt.Errorf("node %s answers at the address of node %s", body.Node, e.node)
	}
	out.Mark, out.Quiet, out.Blind = cut(body.Mark, mostKept), body.Quiet, cut(body.Blind, mostBlind)
	if len(body.Mark) > mostKept {
		out.Mark = longMark
	}
	if body.Asked != nil {
		out.AskedBy = cut(body.Asked.By, mostKept)
	}
	age := body.AgeSeconds
	if !out.Serving {
		age = max(age, body.FailingSeconds)
	}
	out.Since = received.Add(-time.Duration(age * float64(time.Second)))
	e.alive = response.Header.Get(v1alpha1.HeaderLife) != ""
	if !e.alive && body.APIAgeSeconds >= blindAfter.Seconds() {
		// The first release tells nothing but this age.
		out.Blind = "it has not heard from it for a minute"
	}
	tag := response.Header.Get("ETag")
	if len(tag) > mostKept {
		// It is asked like one that has none.
		tag = ""
	}
	return out, tag, nil
}

// cut is a copy of the beginning of a text, which keeps no more of it in memory.
func cut(text string, most int) string {
	return strings.Clone(strings.ToValidUTF8(text[:min(len(text), most)], ""))
}
