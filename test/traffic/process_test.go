package traffic

import (
	"context"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

func build(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "traffic")
	if out, err := exec.Command("go", "build", "-o", path, "./cmd").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return path
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
	command, s := build(t), serve(t, reply(good))
	options := Options{Rate: 200, Streams: []Stream{{Name: "a", Address: s.Addr().String(), KeepAlive: true}}}

	t.Run("stops when told", func(t *testing.T) {
		before := s.received.Load()
		p, err := StartProcess(exec.Command(command), options)
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
		p, err := StartProcess(exec.Command(command), short)
		if err != nil {
			t.Fatal(err)
		}
		<-p.Done()
		if r, err := p.Stop(); err != nil || r.Requests < 40 {
			t.Errorf("%v, %d requests", err, r.Requests)
		}
	})

	t.Run("reports at SIGTERM", func(t *testing.T) {
		cmd := exec.Command(command)
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
		cmd := exec.Command(command)
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
