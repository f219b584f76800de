package server

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/internal/nodehealth"
	"github.com/mumoshu/ingress-daemonset-controller/internal/testing/await"
)

// log is what a checker logged.
type log struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *log) has(s string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Contains(l.text.String(), s)
}

func options(api *fakeAPI, address, stateDir string, out io.Writer) Options {
	return Options{
		Config: api.config(), Namespace: "ns", Subject: n1, Address: address, StateDir: stateDir,
		Log: slog.New(slog.NewTextHandler(out, nil)),
	}
}

// run runs a checker until the test ends or stop is called.
func run(t *testing.T, o Options) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- Run(ctx, o) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	return stop
}

func freeAddress(t *testing.T) string {
	t.Helper()
	port := closedPort(t)
	return net.JoinHostPort("127.0.0.1", port.String())
}

func TestRun(t *testing.T) {
	t.Parallel()
	api := newFakeAPI(t)
	api.set("deployments", apiDeployment(nil))
	api.set("pods", apiPod(true, true, nil))
	address, dir := freeAddress(t), t.TempDir()
	if err := Ready(dir); err == nil {
		t.Error("a checker that does not run is ready")
	}
	stop := run(t, options(api, address, dir, io.Discard))
	await.True(t, "it is ready", func() bool { return Ready(dir) == nil })
	if got := ask(t, "GET", "http://"+address); got.status != 200 || got.answer.Node != "n1" {
		t.Errorf("answer is %+v", got)
	}
	stop()
	if _, err := tryAsk("GET", "http://"+address); err == nil {
		t.Error("it still answers")
	}
	if err := Ready(dir); err == nil {
		t.Error("it is still ready")
	}
}

func TestRunAgainAfterItWasKilled(t *testing.T) {
	t.Parallel()
	api, dir := newFakeAPI(t), t.TempDir()
	stale, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(dir, readyName)})
	if err != nil {
		t.Fatal(err)
	}
	stale.SetUnlinkOnClose(false)
	stale.Close()
	run(t, options(api, freeAddress(t), dir, io.Discard))
	await.True(t, "it is ready", func() bool { return Ready(dir) == nil })
}

func TestRunWaitsForAPortOfSomebodyElse(t *testing.T) {
	t.Parallel()
	api, dir := newFakeAPI(t), t.TempDir()
	foreign, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var out log
	run(t, options(api, foreign.Addr().String(), dir, &out))
	await.True(t, "it says so", func() bool { return out.has("Health-check port cannot be opened yet") })
	if err := Ready(dir); !errors.Is(err, errNotReady) {
		t.Errorf("readiness without the port is %v", err)
	}
	foreign.Close()
	await.True(t, "it is ready", func() bool { return Ready(dir) == nil })
}

func TestRunCanBeStoppedWhileItWaits(t *testing.T) {
	t.Parallel()
	api := newFakeAPI(t)
	foreign, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer foreign.Close()
	var out log
	stop := run(t, options(api, foreign.Addr().String(), t.TempDir(), &out))
	await.True(t, "it waits", func() bool { return out.has("cannot be opened") })
	stop()
}

func TestRunNeedsItsFolder(t *testing.T) {
	api := newFakeAPI(t)
	err := Run(t.Context(), options(api, freeAddress(t), filepath.Join(t.TempDir(), "missing"), io.Discard))
	if !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), "readiness socket") {
		t.Errorf("it ended with %v", err)
	}
}

// A newcomer that cannot reach the API server must not answer 503 beside one
// that answers 200.
func TestNewcomerThatKnowsNothingKeepsQuiet(t *testing.T) {
	t.Parallel()
	r := NewResponder(quiet)
	r.Update(serving())
	url, _ := start(t, r)
	address := strings.TrimPrefix(url, "http://")
	undecided := make(chan struct{})
	o := Options{Address: address, Log: quiet}
	ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
	defer cancel()
	if l := o.open(ctx, undecided, 10*time.Millisecond); l != nil {
		l.Close()
		t.Error("it opened the port beside one that answers")
	}

	decided := make(chan struct{})
	close(decided)
	l := o.open(t.Context(), decided, time.Hour)
	if l == nil {
		t.Fatal("it did not open the port when it knew the verdict")
	}
	l.Close()
}

func TestCheckerThatKnowsNothingSaysSoWhereNobodyElseAnswers(t *testing.T) {
	t.Parallel()
	api := newFakeAPI(t)
	api.leave()
	address, dir := freeAddress(t), t.TempDir()
	run(t, options(api, address, dir, io.Discard))
	var got reply
	await.True(t, "it answers", func() (ok bool) {
		var err error
		got, err = tryAsk("GET", "http://"+address)
		return err == nil
	})
	if got.status != 503 || got.answer.Reason != nodehealth.Starting {
		t.Errorf("answer is %+v", got)
	}
	if err := Ready(dir); !errors.Is(err, errNotReady) {
		t.Errorf("readiness is %v", err)
	}
	api.come()
	await.True(t, "it is ready", func() bool { return Ready(dir) == nil })
}
