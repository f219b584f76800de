package traffic

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// server answers each connection with behave and counts every request it received,
// so that a request sent twice would show.
type server struct {
	net.Listener
	received atomic.Int64
	accepted atomic.Int64
	conns    sync.WaitGroup
}

// behaviour answers one request, the nth on its connection, and tells whether the connection stays.
type behaviour func(conn net.Conn, nth int) (keep bool)

func serve(t *testing.T, behave behaviour) *server {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &server{Listener: listener}
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			s.accepted.Add(1)
			s.conns.Go(func() { s.handle(conn, behave) })
		}
	}()
	t.Cleanup(func() { listener.Close(); s.conns.Wait() })
	return s
}

func (s *server) handle(conn net.Conn, behave behaviour) {
	defer conn.Close()
	reader := bufio.NewReader(conn)
	for nth := 1; ; nth++ {
		request, err := http.ReadRequest(reader)
		if err != nil {
			return
		}
		if body, err := io.ReadAll(request.Body); err != nil || string(body) != requestBody {
			return
		}
		s.received.Add(1)
		if !behave(conn, nth) {
			return
		}
	}
}

func reply(text string) behaviour {
	return func(conn net.Conn, _ int) bool {
		io.WriteString(conn, text)
		return true
	}
}

func replyAndClose(text string) behaviour {
	return func(conn net.Conn, _ int) bool {
		io.WriteString(conn, text)
		return false
	}
}

func reset(conn net.Conn, _ int) bool {
	conn.(*net.TCPConn).SetLinger(0)
	return false
}

const good = "HTTP/1.1 200 OK\r\nX-Node: n1\r\nX-Pod: p1\r\nX-Version: v1\r\nContent-Length: 3\r\n\r\nok\n"

// patient is how long a request may take that nothing holds up.
const patient = 30 * time.Second

// send makes about 100 requests in a quarter of a second.
func send(t *testing.T, s Stream, timeout time.Duration) Report {
	t.Helper()
	return sendFor(t, s, timeout, 100, 250*time.Millisecond)
}

// sendFor makes about so many requests in that time.
func sendFor(t *testing.T, s Stream, timeout time.Duration, requests float64, d time.Duration) Report {
	t.Helper()
	run, err := Start(context.Background(), Options{
		Rate: requests / d.Seconds(), Timeout: timeout, Duration: d, Streams: []Stream{s},
	})
	if err != nil {
		t.Fatal(err)
	}
	<-run.Done()
	return run.Stop()
}

// Each way to fail is counted once, under its own kind, and the request is not sent again.
func TestFailuresAreCountedOnceAndNothingIsRetried(t *testing.T) {
	// late lasts until who asked waits no more.
	late := func(conn net.Conn) {
		conn.SetReadDeadline(time.Now().Add(5 * time.Second))
		conn.Read(make([]byte, 1))
	}
	slow := func(conn net.Conn, _ int) bool {
		late(conn)
		io.WriteString(conn, good)
		return false
	}
	slowWithin := func(conn net.Conn, _ int) bool {
		io.WriteString(conn, good[:len(good)-1])
		late(conn)
		return false
	}
	resetWithin := func(conn net.Conn, nth int) bool {
		io.WriteString(conn, good[:len(good)-1])
		time.Sleep(5 * time.Millisecond) // what was not read by then would be lost with the connection
		return reset(conn, nth)
	}
	for name, test := range map[string]struct {
		behave behaviour
		want   Kind
	}{
		"expected":                      {reply(good), ""},
		"chunked":                       {reply("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\no\r\n2\r\nk\n\r\n0\r\n\r\n"), ""},
		"interim answer first":          {reply("HTTP/1.1 100 Continue\r\n\r\n" + good), ""},
		"closes after the answer":       {replyAndClose(good), ""},
		"says and does close":           {replyAndClose("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 3\r\n\r\nok\n"), ""},
		"ends the body by closing":      {replyAndClose("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nok\n"), ""},
		"resets":                        {reset, Reset},
		"resets within the answer":      {resetWithin, Reset},
		"closes without an answer":      {replyAndClose(""), Closed},
		"closes within the status line": {replyAndClose("HTTP/1.1 20"), Truncated},
		"closes within the header":      {replyAndClose("HTTP/1.1 200 OK\r\nContent-Le"), Truncated},
		"closes within the body":        {replyAndClose(good[:len(good)-1]), Truncated},
		"closes within a chunk":         {replyAndClose("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nok"), Truncated},
		"closes before the last chunk":  {replyAndClose("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nok\n\r\n"), Truncated},
		"answers too late":              {slow, Timeout},
		"ends too late":                 {slowWithin, Timeout},
		"is not HTTP":                   {replyAndClose("SSH-2.0-OpenSSH\r\n\r\n"), Protocol},
		"goes on after the end":         {replyAndClose(good + "HTTP"), Protocol},
		"wrong status":                  {reply("HTTP/1.1 503 Service Unavailable\r\nContent-Length: 3\r\n\r\nok\n"), Status},
		"wrong body":                    {reply("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nno\n"), Body},
		"longer body":                   {reply("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nok\n\n"), Body},
	} {
		for _, keepAlive := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, keep-alive %v", name, keepAlive), func(t *testing.T) {
				t.Parallel()
				s := serve(t, test.behave)
				// Only what is to time out may: a busy machine takes its time to connect.
				timeout := patient
				if test.want == Timeout {
					timeout = 250 * time.Millisecond
				}
				r := sendFor(t, Stream{Name: "a", Address: s.Addr().String(), KeepAlive: keepAlive}, timeout, 100, time.Second)

				if r.Requests < 20 || r.Requests != s.received.Load() {
					t.Errorf("%d requests counted, %d received", r.Requests, s.received.Load())
				}
				failed := r.Requests
				if test.want == "" {
					failed = 0
				}
				if r.Failed != failed || r.ByKind[test.want] != failed || len(r.ByKind) > 1 {
					t.Errorf("%d failed of %d, %v; expected %d %s", r.Failed, r.Requests, r.ByKind, failed, test.want)
				}
				if int64(len(r.Failures)) != min(failed, defaultMaxFailures) {
					t.Errorf("%d failures told, expected %d", len(r.Failures), failed)
				}
				checkSums(t, r)
			})
		}
	}
}

func checkSums(t *testing.T, r Report) {
	t.Helper()
	var perSecond Second
	for _, s := range r.Seconds {
		perSecond.Requests += s.Requests
		perSecond.Failed += s.Failed
	}
	if perSecond.Requests != r.Requests || perSecond.Failed != r.Failed {
		t.Errorf("the seconds add up to %+v, the total is %d and %d failed", perSecond, r.Requests, r.Failed)
	}
}

func TestRefusedConnection(t *testing.T) {
	s := serve(t, reply(good))
	s.Close()
	r := send(t, Stream{Name: "a", Address: s.Addr().String(), KeepAlive: true, Workers: 4}, patient)
	if r.Requests == 0 || r.Failed != r.Requests || r.ByKind[Connect] != r.Requests {
		t.Errorf("%d of %d failed, %v", r.Failed, r.Requests, r.ByKind)
	}
}

// A server may close a connection that is idle. That loses no request, unless the
// close and a request cross: each connection rests for 160 ms between two, so that a busy
// machine closes in time.
func TestIdleConnectionClosedByTheServer(t *testing.T) {
	s := serve(t, func(conn net.Conn, nth int) bool {
		io.WriteString(conn, good)
		return nth < 3
	})
	r := sendFor(t, Stream{Name: "a", Address: s.Addr().String(), KeepAlive: true, Workers: 4}, patient, 100, 4*time.Second)
	if r.Failed != 0 || r.ClosedIdle < 10 {
		t.Errorf("%d failed, %d found closed; %v", r.Failed, r.ClosedIdle, r.Failures)
	}
	if r.Connections != s.accepted.Load() || r.Requests != s.received.Load() {
		t.Errorf("%d connections counted, %d accepted; %d requests counted, %d received",
			r.Connections, s.accepted.Load(), r.Requests, s.received.Load())
	}
}

// A request that crosses with the server's close is lost, and is not sent again.
func TestCloseThatCrossesARequestIsAFailure(t *testing.T) {
	s := serve(t, func(conn net.Conn, nth int) bool {
		if nth == 3 {
			return false
		}
		io.WriteString(conn, good)
		return true
	})
	r := send(t, Stream{Name: "a", Address: s.Addr().String(), KeepAlive: true, Workers: 4}, patient)
	if r.Requests != s.received.Load() || r.Failed == 0 || r.ByKind[Closed] != r.Failed {
		t.Fatalf("%d requests, %d received, %v", r.Requests, s.received.Load(), r.ByKind)
	}
	if f := r.Failures[0]; f.Reused != 2 || f.ConnectionAge <= 0 || f.ClientAddress == "" {
		t.Errorf("the connection is not told: %+v", f)
	}
}

func TestKeepAliveAndLifetime(t *testing.T) {
	for name, test := range map[string]struct {
		stream  Stream
		atLeast int64
		atMost  int64
	}{
		"kept":      {stream: Stream{KeepAlive: true, Workers: 4}, atLeast: 4, atMost: 4},
		"lifetime":  {stream: Stream{KeepAlive: true, Workers: 4, Lifetime: 400 * time.Millisecond}, atLeast: 12, atMost: 24},
		"not kept":  {stream: Stream{Workers: 4}, atLeast: 50, atMost: 200},
		"1 worker":  {stream: Stream{KeepAlive: true, Workers: 1}, atLeast: 1, atMost: 1},
		"unlimited": {stream: Stream{KeepAlive: true, Workers: 2}, atLeast: 2, atMost: 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, reply(good))
			test.stream.Name, test.stream.Address = "a", s.Addr().String()
			r := sendFor(t, test.stream, patient, 100, 2*time.Second)
			if r.Failed != 0 || r.Connections < test.atLeast || r.Connections > test.atMost || r.Connections != s.accepted.Load() {
				t.Errorf("%d connections (%d accepted), expected %d to %d; %d failed",
					r.Connections, s.accepted.Load(), test.atLeast, test.atMost, r.Failed)
			}
		})
	}
}

// A stall does not hide load: what was due meanwhile is sent after it, and counted late.
func TestStallIsToldAsLateStarts(t *testing.T) {
	var stalled atomic.Bool
	s := serve(t, func(conn net.Conn, _ int) bool {
		if stalled.CompareAndSwap(false, true) {
			time.Sleep(150 * time.Millisecond)
		}
		io.WriteString(conn, good)
		return true
	})
	r := sendFor(t, Stream{Name: "a", Address: s.Addr().String(), KeepAlive: true, Workers: 1}, patient, 400, time.Second)
	if r.Failed != 0 || r.Late < 30 || r.MaxLate < 100*time.Millisecond || r.Requests < 320 {
		t.Errorf("%d failed, %d late (at most %s) of %d", r.Failed, r.Late, r.MaxLate, r.Requests)
	}
}

func TestSharesAndDistribution(t *testing.T) {
	one, two := serve(t, reply(good)), serve(t, reply(strings.Replace(good, "p1", "p2", 1)))
	// A busy machine keeps up with so many.
	run, err := Start(context.Background(), Options{Rate: 100, Duration: 2 * time.Second, Streams: []Stream{
		{Name: "one", Address: one.Addr().String(), Share: 3, KeepAlive: true},
		{Name: "two", Address: two.Addr().String(), Share: 1, Body: "o", Prefix: true},
	}})
	if err != nil {
		t.Fatal(err)
	}
	<-run.Done()
	r := run.Stop()
	if r.Failed != 0 || r.Rate < 87.5 || r.Rate > 102.5 {
		t.Errorf("%d failed, rate %.0f", r.Failed, r.Rate)
	}
	ratio := float64(r.Streams["one"].Requests) / float64(r.Streams["two"].Requests)
	if ratio < 2.7 || ratio > 3.3 {
		t.Errorf("ratio of the streams is %.2f, expected 3", ratio)
	}
	if r.ByPod["p1"] != one.received.Load() || r.ByPod["p2"] != two.received.Load() || r.ByNode["n1"] != r.Requests || r.ByVersion["v1"] != r.Requests {
		t.Errorf("distribution: %v %v %v", r.ByPod, r.ByNode, r.ByVersion)
	}
	if r.Latency.P50 <= 0 || r.Latency.P50 > r.Latency.P99 || r.Latency.P99 > r.Latency.Max {
		t.Errorf("latency: %+v", r.Latency)
	}
}

// What a proxy says of why it could not answer is told with the failure.
func TestMethodAndReason(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != "GET" || r.ContentLength != 0 {
			t.Errorf("%s with %d bytes", r.Method, r.ContentLength)
		}
		w.Header().Set("Proxy-Status", "p; error=connection_terminated")
		w.WriteHeader(http.StatusBadGateway)
	}))
	defer s.Close()
	r := send(t, Stream{Name: "a", Method: "GET", Address: s.Listener.Addr().String()}, patient)
	if len(r.Failures) == 0 || r.Failures[0].Detail != "status 502, expected 200; p; error=connection_terminated" {
		t.Errorf("failures: %+v", r.Failures)
	}
}

func TestOptionsAreRefusedWithTheReason(t *testing.T) {
	stream := Stream{Name: "a", Address: "127.0.0.1:80"}
	for want, options := range map[string]Options{
		"rate":                   {Streams: []Stream{stream}},
		"no streams":             {Rate: 1},
		"the name is taken":      {Rate: 1, Streams: []Stream{stream, stream}},
		"no name":                {Rate: 1, Streams: []Stream{{Address: stream.Address}}},
		"missing port":           {Rate: 1, Streams: []Stream{{Name: "a", Address: "127.0.0.1"}}},
		"must not be negative":   {Rate: 1, Timeout: -1, Streams: []Stream{stream}},
		"must not contain blank": {Rate: 1, Streams: []Stream{{Name: "a", Address: stream.Address, Host: "a\r\nb"}}},
	} {
		if _, err := Start(context.Background(), options); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("expected an error with %q, got %v", want, err)
		}
	}
}
