package healthclient

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
)

// portOf is the port of node n1 that listens at an address.
func portOf(address net.Addr) *Port {
	at := netip.MustParseAddrPort(address.String())
	return &Port{Node: "n1", Address: at.Addr().String(), Number: int32(at.Port())}
}

// serve answers on a port of its own.
func serve(t *testing.T, answer http.HandlerFunc) *Port {
	t.Helper()
	server := httptest.NewServer(answer)
	t.Cleanup(server.Close)
	return portOf(server.Listener.Addr())
}

// ask asks once, and reads the answer.
func ask(t *testing.T, p *Port, known Known) (Answer, error) {
	t.Helper()
	q, err := p.Ask(t.Context(), known)
	if err != nil {
		return Answer{}, err
	}
	defer q.Close()
	if err := q.Wait(); err != nil {
		return Answer{}, err
	}
	return q.Read()
}

// answered is what is read where a port answers with a status and a body.
func answered(t *testing.T, status int, body string, headers ...string) Answer {
	t.Helper()
	answer, err := ask(t, serve(t, func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		w.WriteHeader(status)
		fmt.Fprint(w, body)
	}), Known{})
	if err != nil {
		t.Fatal(err)
	}
	return answer
}

// TestQuestions are what health checkers of every release read.
func TestQuestions(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	p := portOf(l.Addr())
	head := " HTTP/1.1\r\nHost: " + l.Addr().String() + "\r\nUser-Agent: ingress-daemonset-controller\r\nIngress-Daemonset-Client: controller\r\n"
	const tail = "Connection: close\r\n\r\n"
	for name, c := range map[string]struct {
		ask  func(context.Context) error
		want string
	}{
		"first": {asking(p, Known{Alive: true}), "GET /" + head + tail},
		"that waits": {asking(p, Known{ETag: `W/"a"`}),
			"GET /" + head + "If-None-Match: W/\"a\"\r\nPrefer: wait=290\r\nIngress-Daemonset-Life: 5\r\n" + tail},
		"for connections": {func(ctx context.Context) error { _, err := p.Connections(ctx); return err }, "GET /?connections" + head + tail},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- c.ask(ctx) }()
		conn, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		got := make([]byte, len(c.want))
		if _, err := io.ReadFull(conn, got); err != nil || string(got) != c.want {
			t.Errorf("%s: %q, %v, want %q", name, got, err, c.want)
		}
		cancel()
		if err := <-done; err == nil {
			t.Errorf("%s: it has an answer", name)
		}
		if rest, err := io.ReadAll(conn); len(rest) > 0 || err != nil {
			t.Errorf("%s: after the context had ended came %q, %v", name, rest, err)
		}
		conn.Close()
	}
}

// asking asks and waits.
func asking(p *Port, known Known) func(context.Context) error {
	return func(ctx context.Context) error {
		q, err := p.Ask(ctx, known)
		if err != nil {
			return err
		}
		defer q.Close()
		return q.Wait()
	}
}

// TestNoAddress: to dial no address would be to ask ourselves.
func TestNoAddress(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	nowhere := &Port{Node: "n1", Number: portOf(l.Addr()).Number}
	if _, err := nowhere.Ask(t.Context(), Known{}); err == nil {
		t.Error("it was asked")
	}
}

// TestPatience is short, but with a health checker of the first release that is asked to wait.
func TestPatience(t *testing.T) {
	for known, want := range map[Known]time.Duration{
		{}: AnswerTime, {Alive: true}: AnswerTime, {ETag: "a", Alive: true}: Silence, {ETag: "a"}: LongestWait + 10*time.Second,
	} {
		if got := known.Patience(); got != want {
			t.Errorf("%+v: %s, want %s", known, got, want)
		}
	}
}

// TestSignsOfLife have a question wait on, but not for ever. One that does not wait knows none.
func TestSignsOfLife(t *testing.T) {
	for name, c := range map[string]struct {
		waits bool
		signs int
		want  time.Duration
	}{
		"none":              {true, 0, Silence},
		"three":             {true, 3, 2*v1alpha1.LifeSeconds*time.Second + Silence},
		"without end":       {true, 1000, LongestWait + Silence},
		"none is asked for": {false, 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ours, theirs := net.Pipe()
				defer ours.Close()
				go func() {
					defer theirs.Close()
					for range c.signs {
						if _, err := io.WriteString(theirs, signOfLife); err != nil {
							return
						}
						time.Sleep(v1alpha1.LifeSeconds * time.Second)
					}
					_, _ = io.ReadAll(theirs)
				}()
				_ = ours.SetDeadline(time.Now().Add(Silence))
				began := time.Now()
				err := (&Question{conn: ours, waits: c.waits}).Wait()
				if took := time.Since(began); took != c.want {
					t.Errorf("it waited for %s, want %s", took, c.want)
				}
				if silent := errors.Is(err, os.ErrDeadlineExceeded); silent != (name == "none" || name == "three") {
					t.Errorf("it ended with %v", err)
				}
				ours.Close()
				time.Sleep(time.Minute)
			})
		})
	}
}

// TestSignsOfLifeWithoutEnd: a question reads no more of them than it asked for, twice.
func TestSignsOfLifeWithoutEnd(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		if conn, err := l.Accept(); err == nil {
			defer conn.Close()
			for err == nil {
				_, err = io.WriteString(conn, strings.Repeat(signOfLife, 100))
			}
		}
	}()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := asking(portOf(l.Addr()), Known{ETag: `"a"`, Alive: true})(ctx); err == nil || ctx.Err() != nil {
		t.Errorf("signs of life: %v, %v", err, ctx.Err())
	}
}

// TestSilentPorts are not waited for without end: few questions for connections are under way at once, and one
// port could keep all others from being asked.
func TestSilentPorts(t *testing.T) {
	for name, c := range map[string]struct {
		ask          func(context.Context, *Port) error
		begins, want time.Duration
	}{
		"a question": {func(ctx context.Context, p *Port) error { return asking(p, Known{})(ctx) }, time.Hour, AnswerTime},
		"for connections, and the answer begins at last": {func(ctx context.Context, p *Port) error { _, err := p.Connections(ctx); return err },
			connectionsTime - time.Second/2, connectionsTime},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			ctx, cancel := context.WithTimeout(t.Context(), 5*connectionsTime)
			defer cancel()
			go func() {
				conn, err := l.Accept()
				if err != nil {
					return
				}
				defer conn.Close()
				select {
				case <-time.After(c.begins):
					_, _ = io.WriteString(conn, "HTTP/1.1 503 Service Unavailable\r\n")
				case <-ctx.Done():
				}
				<-ctx.Done()
			}()
			began := time.Now()
			err = c.ask(ctx, portOf(l.Addr()))
			// An answer that has begun would have as long again as one that is not waited for.
			if took := time.Since(began); err == nil || took < c.want || took > c.want+2*time.Second {
				t.Errorf("it ended after %s with %v, want an error after %s", took, err, c.want)
			}
		})
	}
}

// TestSlowAnswers end soon after they began: a question that waits may do so for minutes, but nobody who
// answers needs more than a moment.
func TestSlowAnswers(t *testing.T) {
	const head = "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\n"
	for name, c := range map[string]struct {
		begins string
		plain  bool
	}{
		"in the middle of the headers":               {head + "X-Long: ", false},
		"in the middle of the headers, a plain port": {head + "X-Long: ", true},
		"before the body":                            {head + "\r\n", false},
		"in the middle of the body":                  {head + "\r\n" + `{"serving": true, "mark": "`, false},
	} {
		for _, trickles := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				ours, theirs := net.Pipe()
				defer ours.Close()
				go func() {
					defer theirs.Close()
					_, err := io.WriteString(theirs, c.begins)
					for err == nil && trickles {
						time.Sleep(time.Second / 10)
						_, err = io.WriteString(theirs, " ")
					}
					_, _ = io.ReadAll(theirs)
				}()
				_ = ours.SetDeadline(time.Now().Add(Known{ETag: "a"}.Patience()))
				q := &Question{port: &Port{Node: "n1", Plain: c.plain}, conn: ours, waits: true}
				if err := q.Wait(); err != nil {
					t.Fatal(err)
				}
				began := time.Now()
				got, err := q.Read()
				if took := time.Since(began); took != AnswerTime || !errors.Is(err, os.ErrDeadlineExceeded) {
					t.Errorf("%s, trickles %t: %+v, %v after %s, want none after %s", name, trickles, got, err, took, AnswerTime)
				}
				ours.Close()
				time.Sleep(time.Minute)
			})
		}
	}
}

// TestAnswersWithoutEnd are read up to a bound: whoever has the port could fill the memory of the controller,
// of which thousands are asked.
func TestAnswersWithoutEnd(t *testing.T) {
	const head, long = "HTTP/1.1 200 OK\r\n", 16 * mostAnswer
	for name, c := range map[string]struct {
		begins string
		plain  bool
	}{
		"a header":                 {head + "X-Long: ", false},
		"a header of a plain port": {head + "X-Long: ", true},
		"a mark":                   {head + "\r\n" + `{"serving": true, "mark": "`, false},
		"what nobody reads":        {head + "\r\n" + `{"serving": true, "else": "`, false},
		"chunks":                   {head + "Transfer-Encoding: chunked\r\n\r\n100000\r\n" + `{"mark": "`, false},
	} {
		ours, theirs := net.Pipe()
		read := make(chan int)
		go func() {
			defer theirs.Close()
			n, err := io.WriteString(theirs, c.begins)
			for more := 0; err == nil && n < long; n += more {
				more, err = io.WriteString(theirs, strings.Repeat("x", 1<<10))
			}
			read <- n
		}()
		q := &Question{port: &Port{Node: "n1", Plain: c.plain}, conn: ours}
		err := q.Wait()
		if err != nil {
			t.Fatal(err)
		}
		got, err := q.Read()
		ours.Close()
		if n := <-read; err == nil || n > 2*mostAnswer {
			t.Errorf("%s: %d bytes were read of %d, and they are the answer %+v, %v", name, n, long, got, err)
		}
	}
}

// TestSinceWhen a port fails, whatever the reasons were, from health checkers
// that tell it. One that serves does so for as long as its verdict holds.
func TestSinceWhen(t *testing.T) {
	for name, c := range map[string]struct {
		status int
		body   string
		want   time.Duration
	}{
		"fails for longer than by its last reason": {503, `{"mark": "m", "ageSeconds": 10, "failingSeconds": 1000}`, 1000 * time.Second},
		"fails, by the release before":             {503, `{"mark": "m", "ageSeconds": 10}`, 10 * time.Second},
		"serves":                                   {200, `{"serving": true, "ageSeconds": 10}`, 10 * time.Second},
		"serves, and tells all the same":           {200, `{"serving": true, "ageSeconds": 10, "failingSeconds": 1000}`, 10 * time.Second},
		"as of a time to come":                     {503, `{"mark": "m", "ageSeconds": -3600, "failingSeconds": -1e300}`, 0},
		"for longer than anything is":              {503, `{"mark": "m", "ageSeconds": 1e300}`, longest},
	} {
		answer := answered(t, c.status, c.body)
		if got := time.Since(answer.Since); got < c.want || got > c.want+5*time.Minute || answer.Serving != (c.status == 200) {
			t.Errorf("%s: since %v, want %v: %+v", name, got, c.want, answer)
		}
	}
}

// TestStrangers: what is no health checker's answer is none, nor is that of the health
// checker of another node, which may have the address by now.
func TestStrangers(t *testing.T) {
	for body, believed := range map[string]bool{
		"welcome to nginx":                 false,
		`{"serving": true, "node": "n2"}`:  false,
		`{"serving": true, "node": "n1"}`:  true,
		`{"serving": true, "mark": "m"}`:   true,
		`{"serving": true, "node": "n10"}`: false,
	} {
		p := serve(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, body) })
		if answer, err := ask(t, p, Known{}); (err == nil) != believed || answer.Serving != believed {
			t.Errorf("%s: %+v, %v", body, answer, err)
		}
		p.Plain = true
		if answer, err := ask(t, p, Known{}); err != nil || !answer.Serving || answer.Mark != "" {
			t.Errorf("a plain port that says %s: %+v, %v", body, answer, err)
		}
	}
}

// TestOnlyOKServes, as for most load balancers: one that follows redirects would reach another port.
func TestOnlyOKServes(t *testing.T) {
	for _, status := range []int{200, 201, 204, 301, 304, 404, 503} {
		p := serve(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) })
		p.Plain = true
		if answer, err := ask(t, p, Known{}); err != nil || answer.Serving != (status == 200) {
			t.Errorf("%d: %+v, %v", status, answer, err)
		}
	}
}

// TestBlindCheckerOfTheFirstRelease tells its age alone. Of a later one that may be short of
// what it calls blind.
func TestBlindCheckerOfTheFirstRelease(t *testing.T) {
	life := []string{v1alpha1.HeaderLife, "5"}
	for _, test := range []struct {
		seconds int
		headers []string
		blind   bool
	}{{60, nil, true}, {59, nil, false}, {60, life, false}} {
		answer := answered(t, 200, fmt.Sprintf(`{"serving": true, "apiAgeSeconds": %d}`, test.seconds), test.headers...)
		if (answer.Blind != "") != test.blind || answer.Alive != (test.headers != nil) {
			t.Errorf("want blind %t: %+v", test.blind, answer)
		}
	}
}

// TestAnswersAreCut: no more is kept of an answer than one of ours has, and a mark that is longer
// equals none.
func TestAnswersAreCut(t *testing.T) {
	long := strings.Repeat("ü", 5000)
	got := answered(t, 503, fmt.Sprintf(`{"mark": %q, "blind": %q, "asked": {"by": %q}}`, long, long, long), "ETag", strings.Repeat("t", 5000))
	if got.ETag != "" || len(got.AskedBy) != mostKept || len(got.Blind) != mostBlind || got.Mark != longMark {
		t.Errorf("of the ETag %d bytes are kept, of an address %d, of a message %d, and of the mark %q", len(got.ETag), len(got.AskedBy), len(got.Blind), got.Mark)
	}
	ports := strings.TrimSuffix(strings.Repeat(`{"port": 1},`, 300), ",")
	for body, want := range map[string]int{ports: mostPorts, `{"port": 0}, {"port": 65535}, {"port": 65536}, {"port": -1}`: 1} {
		if got := len(answered(t, 503, `{"connections": [`+body+`]}`).Connections); got != want {
			t.Errorf("the connections of %d ports are kept instead of %d", got, want)
		}
	}
	if _, ours := v1alpha1.Mark(longMark).At(); ours {
		t.Error("what stands for a long mark is one of ours")
	}
	ours := "2026-01-02T03:04:05.678Z/" + strings.Repeat("r", 63) + v1alpha1.MarkOutOfTurn
	if got := answered(t, 503, fmt.Sprintf(`{"mark": %q}`, ours)); string(got.Mark) != ours {
		t.Errorf("a mark of ours is %q", got.Mark)
	}
}

// TestConnections are those of the port's own node, by its name.
func TestConnections(t *testing.T) {
	for body, want := range map[string][]v1alpha1.PortConnections{
		`{"node": "n1", "connections": [{"port": 80, "open": 2}]}`: {{Port: 80, Open: 2}},
		`{"node": "n1"}`: nil,
		`{"node": "n2", "connections": [{"port": 80}]}`: nil,
		`{"connections": [{"port": 80}]}`:               nil,
		`x`:                                             nil,
	} {
		p := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusServiceUnavailable)
			fmt.Fprint(w, body)
		})
		got, err := p.Connections(t.Context())
		if diff := cmp.Diff(want, got); diff != "" || (err == nil) != strings.HasPrefix(body, `{"node": "n1"`) {
			t.Errorf("%s: %v, %s", body, err, diff)
		}
	}
}
