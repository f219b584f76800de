package server

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/internal/testing/await"
)

// leaverAddress makes the test's own program a checker on that address.
const leaverAddress = "TEST_LEAVER_ADDRESS"

// leaver answers 200 until SIGTERM, then hands over.
func leaver(address string) {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	l, err := Listen(ctx, address)
	if err == nil {
		s := serving()
		s.Node = fmt.Sprint(os.Getpid())
		r := NewResponder(quiet)
		r.Update(s)
		fmt.Println("listening on", l.Addr())
		err = r.Serve(ctx, l)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

type process struct {
	*exec.Cmd
	address string
}

func startProcess(t *testing.T, address string) process {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), leaverAddress+"="+address)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return process{cmd, strings.TrimSpace(strings.TrimPrefix(line, "listening on "))}
}

func (p process) leave(t *testing.T) {
	t.Helper()
	if err := p.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := p.Wait(); err != nil {
		t.Fatal(err)
	}
}

const pollTimeout = 2 * time.Second

// pollers ask all the time, each on new connections.
type pollers struct {
	asked, turnedAway atomic.Int64

	mu         sync.Mutex
	failures   []error
	answeredBy map[string]int
}

func (p *pollers) run(ctx context.Context, address string) {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for ctx.Err() == nil {
		node, err := pollOnce(address)
		p.asked.Add(1)
		switch {
		case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, syscall.ECONNRESET):
			p.turnedAway.Add(1)
		case err != nil:
			p.mu.Lock()
			p.failures = append(p.failures, err)
			p.mu.Unlock()
		default:
			p.mu.Lock()
			p.answeredBy[node]++
			p.mu.Unlock()
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

// await waits for so many more polls, and some that these answer.
func (p *pollers) await(t *testing.T, more int64, by ...process) {
	t.Helper()
	answers := func() (n int) {
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, one := range by {
			n += p.answeredBy[fmt.Sprint(one.Process.Pid)]
		}
		return n
	}
	asked, answered := p.asked.Load(), answers()
	await.True(t, "they are asked and answer", func() bool { return p.asked.Load() >= asked+more && answers() > answered })
}

func pollOnce(address string) (node string, err error) {
	conn, err := net.DialTimeout("tcp", address, pollTimeout)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(pollTimeout)); err != nil {
		return "", err
	}
	if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: lb\r\n\r\n"); err != nil {
		return "", err
	}
	answer, err := io.ReadAll(conn)
	if err == nil && !strings.HasPrefix(string(answer), "HTTP/1.1 200 ") {
		err = fmt.Errorf("answer is %q", answer)
	}
	_, rest, _ := strings.Cut(string(answer), `"node":"`)
	node, _, _ = strings.Cut(rest, `"`)
	return node, err
}

func startPolls(t *testing.T, address string) (p *pollers, stop func()) {
	p = &pollers{answeredBy: map[string]int{}}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	for range 4 {
		running.Go(func() { p.run(ctx, address) })
	}
	stop = func() {
		cancel()
		running.Wait()
	}
	t.Cleanup(stop)
	return p, stop
}

func TestHandOversInARowLoseNothing(t *testing.T) {
	for _, host := range []string{"127.0.0.1:0", "[::]:0"} {
		t.Run(host, func(t *testing.T) {
			current := startProcess(t, host)
			p, stop := startPolls(t, current.address)
			for range 4 {
				next := startProcess(t, current.address)
				p.await(t, 400, next)
				current.leave(t)
				current = next
				p.await(t, 200, current)
			}
			stop()
			t.Logf("%d polls, %d turned away, %d failed, answered by %v", p.asked.Load(), p.turnedAway.Load(), len(p.failures), p.answeredBy)
			if len(p.failures) > 0 || p.turnedAway.Load() > 0 {
				t.Errorf("%d polls were turned away and %d failed, the first: %v", p.turnedAway.Load(), len(p.failures), p.failures[:min(1, len(p.failures))])
			}
			if len(p.answeredBy) != 5 {
				t.Errorf("%d checkers answered, want 5", len(p.answeredBy))
			}
		})
	}
}

// Two may come at a time, such as where a roll-out of checkers overtakes another.
func TestNewcomersBesideEachOtherLoseNothing(t *testing.T) {
	current := startProcess(t, "127.0.0.1:0")
	p, stop := startPolls(t, current.address)
	for range 2 {
		a, b := startProcess(t, current.address), startProcess(t, current.address)
		p.await(t, 400, a, b)
		current.leave(t)
		p.await(t, 200, a, b)
		a.leave(t)
		current = b
		p.await(t, 200, b)
	}
	stop()
	if len(p.failures) > 0 || p.turnedAway.Load() > 0 {
		t.Errorf("of %d polls %d were turned away and %d failed: %v", p.asked.Load(), p.turnedAway.Load(), len(p.failures), p.failures)
	}
}

// Whoever finds nobody is told so by the kernel: no answer is left half or empty.
func TestLeavingWithNobodyElseThere(t *testing.T) {
	current := startProcess(t, "127.0.0.1:0")
	p, stop := startPolls(t, current.address)
	for range 3 {
		p.await(t, 200, current)
		current.leave(t)
		current = startProcess(t, current.address)
	}
	stop()
	if len(p.failures) > 0 {
		t.Errorf("of %d polls %d failed otherwise than by being turned away: %v", p.asked.Load(), len(p.failures), p.failures)
	}
	t.Logf("%d polls, %d turned away, %d failed", p.asked.Load(), p.turnedAway.Load(), len(p.failures))
}

// holder holds the port beside others, and answers nobody until serve.
type holder struct {
	*bounded
	server http.Server
}

func hold(t *testing.T, address, id string) *holder {
	t.Helper()
	l, err := Listen(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	h := &holder{bounded: &bounded{TCPListener: l, limit: maxConnections, id: id}}
	h.server.Handler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Etag", "any")
		if id != "" {
			w.Header().Set(headerID, id)
		}
	})
	return h
}

func (h *holder) serve(t *testing.T) {
	t.Helper()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = h.server.Serve(h.bounded)
	}()
	t.Cleanup(func() {
		h.server.Close()
		<-ended
	})
}

func TestHandOverTurnsToSomebodyElse(t *testing.T) {
	for leaving := range 3 {
		var group [3]*holder
		address := "127.0.0.1:0"
		for i := range group {
			group[i] = hold(t, address, fmt.Sprint(i))
			group[i].serve(t)
			address = group[i].Addr().String()
		}
		if taken, err := group[leaving].handOver(); err != nil || !taken {
			t.Errorf("number %d of 3 is followed: %t, %v", leaving, taken, err)
		}
		for range 20 {
			if by, err := group[leaving].answers(); err != nil || by == group[leaving].id {
				t.Errorf("number %d of 3 handed over, and %q answers, %v", leaving, by, err)
				break
			}
		}
	}
}

// TestLoneCheckerIsNotFollowed however long it takes to answer itself, as on a node that
// shuts down, where all want the processors.
func TestLoneCheckerIsNotFollowed(t *testing.T) {
	t.Parallel()
	for name, after := range map[string]time.Duration{
		"at once": 0, "late": 200 * time.Millisecond, "after the first question": answerTime + 500*time.Millisecond, "never": time.Hour,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			lone := hold(t, "127.0.0.1:0", "lone")
			timer := time.AfterFunc(after, func() { lone.serve(t) })
			defer timer.Stop()
			if taken, err := lone.handOver(); taken || err != nil {
				t.Errorf("it is followed: %t, %v", taken, err)
			}
		})
	}
}

// TestSuccessorOfTheReleaseBeforeIsKnown although v0.1.0 tells no id.
func TestSuccessorOfTheReleaseBeforeIsKnown(t *testing.T) {
	leaving := hold(t, "127.0.0.1:0", "leaving")
	leaving.serve(t)
	old := hold(t, leaving.Addr().String(), "")
	old.serve(t)
	if taken, err := leaving.handOver(); !taken || err != nil {
		t.Errorf("it is followed: %t, %v", taken, err)
	}
}

// TestSilentSuccessorIsNotTrusted with the node's pods, but has new connections.
func TestSilentSuccessorIsNotTrusted(t *testing.T) {
	t.Parallel()
	leaving := hold(t, "127.0.0.1:0", "leaving")
	leaving.serve(t)
	silent := hold(t, leaving.Addr().String(), "silent")
	if taken, err := leaving.handOver(); taken || err != nil {
		t.Errorf("it is followed: %t, %v", taken, err)
	}
	silent.serve(t)
	if by, err := leaving.answers(); by != silent.id || err != nil {
		t.Errorf("%q answers, %v", by, err)
	}
}

func TestPortOfSomebodyElseIsNotShared(t *testing.T) {
	foreign, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer foreign.Close()
	if l, err := Listen(t.Context(), foreign.Addr().String()); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("listening beside somebody else: %v, %v", l, err)
	}
	if vacant(foreign.Addr().String()) {
		t.Error("a port in use is vacant")
	}
}

func TestSharedPortIsNotVacant(t *testing.T) {
	l, err := Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if vacant(l.Addr().String()) {
		t.Error("a port that another checker holds is vacant")
	}
	l.Close()
	if !vacant(l.Addr().String()) {
		t.Error("a port that nobody holds is not vacant")
	}
}
