package traffic

import (
	"context"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// runs has the process of a test do Main.
const runs = "RUN_TRAFFIC"

func TestMain(m *testing.M) {
	if os.Getenv(runs) == "" {
		os.Exit(m.Run())
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if Main(ctx, os.Stdin, os.Stdout) != nil {
		os.Exit(1)
	}
}

// process is this program, as one that does Main.
func process() *exec.Cmd {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), runs+"=1")
	return cmd
}

// awaitRequests waits until it tells of requests.
func awaitRequests(t *testing.T, p *Process) {
	t.Helper()
	begun := func(context.Context) (bool, error) { return p.Snapshot().Requests > 0, nil }
	if err := wait.PollUntilContextTimeout(t.Context(), 20*time.Millisecond, 20*time.Second, true, begun); err != nil {
		t.Fatal("no snapshot")
	}
}

func TestProcess(t *testing.T) {
	s := serve(t, reply(good))
	options := Options{Rate: 200, Streams: []Stream{{Name: "a", Address: s.Addr().String(), KeepAlive: true}}}

	t.Run("stops when told", func(t *testing.T) {
		before := s.received.Load()
		p, err := StartProcess(process(), options)
		if err != nil {
			t.Fatal(err)
		}
		awaitRequests(t, p)
		r, err := p.Stop()
		if err != nil || r.Failed != 0 || r.Requests == 0 || r.Requests != s.received.Load()-before {
			t.Errorf("%v, %d requests, %d failed, %d received", err, r.Requests, r.Failed, s.received.Load()-before)
		}
		if again, err := p.Stop(); err != nil || again.Requests != r.Requests {
			t.Errorf("second stop: %v, %d requests", err, again.Requests)
		}
	})

	t.Run("ends after its duration", func(t *testing.T) {
		short := options
		short.Duration = 300 * time.Millisecond
		p, err := StartProcess(process(), short)
		if err != nil {
			t.Fatal(err)
		}
		<-p.Done()
		if r, err := p.Stop(); err != nil || r.Requests < 40 {
			t.Errorf("%v, %d requests", err, r.Requests)
		}
	})

	t.Run("reports at SIGTERM", func(t *testing.T) {
		cmd := process()
		p, err := StartProcess(cmd, options)
		if err != nil {
			t.Fatal(err)
		}
		awaitRequests(t, p)
		cmd.Process.Signal(syscall.SIGTERM)
		<-p.Done()
		if r, err := p.Stop(); err != nil || r.Requests == 0 {
			t.Errorf("%v, %d requests", err, r.Requests)
		}
	})

	t.Run("tells that it was killed", func(t *testing.T) {
		cmd := process()
		p, err := StartProcess(cmd, options)
		if err != nil {
			t.Fatal(err)
		}
		cmd.Process.Kill()
		if _, err := p.Stop(); err == nil || !strings.Contains(err.Error(), "without a report") {
			t.Errorf("got %v", err)
		}
	})
}
